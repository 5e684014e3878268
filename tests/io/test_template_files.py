"""Text files of templates by peers: reference times in comments, and files that are incomplete or of other kinds."""

import pytest

import jfstat

PYFSTAT = """# search: GridSearch
# parameters:
# {'BSGL': False,
#  'F0s': [100.051, 100.0514, 1e-05],
#  'minStartTime': 1167458304,
#  'tref': TREF}
# F0 F1 F2 Alpha Delta twoF twoFH1 twoFL1
100.0512 -2e-10 0.0 2.1 0.47 81.05 52.4 30.9
"""


@pytest.mark.parametrize(
    ("tref", "expected"),
    [("1167501504", 1167501504), ("1167501504.5", 1167501504.5), ("np.float64(1167501504.0)", 1167501504)],
)
def test_the_reference_time_of_pyfstat_is_read(tref, expected, tmp_path):
    (tmp_path / "grid.txt").write_text(PYFSTAT.replace("TREF", tref))
    table = jfstat.read_templates(tmp_path / "grid.txt")
    assert table.meta == {"reftime": expected} and type(table.meta["reftime"]) is type(expected)
    assert table.colnames == ["freq", "f1dot", "f2dot", "alpha", "delta", "twoF", "twoF_H1", "twoF_L1"]


def test_pyfstat_may_state_none_or_several(tmp_path):
    (tmp_path / "grid.txt").write_text(PYFSTAT.replace("#  'tref': TREF}", "# }"))
    assert jfstat.read_templates(tmp_path / "grid.txt").meta == {}
    for wrong in ("None", "LIGOTimeGPS(1167501504, 0)"):
        (tmp_path / "grid.txt").write_text(PYFSTAT.replace("TREF", wrong))
        with pytest.raises(ValueError, match="as 'tref', no number: correct it"):
            jfstat.read_templates(tmp_path / "grid.txt")
    (tmp_path / "grid.txt").write_text(PYFSTAT.replace("TREF", "1}\n# {'tref': 2"))
    with pytest.raises(ValueError, match="gives several values of tref: leave one"):
        jfstat.read_templates(tmp_path / "grid.txt")


def test_a_table_of_templates_has_the_reference_time_that_is_given(tmp_path):
    start, later, f0, f1 = 1167458304, 1167558304, 100.0, -1e-9
    bank = jfstat.template_bank(1.1, 0.2, (-1e-9, 0.0, 1e-9))
    table = jfstat.template_table(bank, [100.0, 100.1], start)
    assert len(table) == 2 * len(bank.alpha) and table.meta["reftime"] == start
    assert jfstat.read_templates(jfstat.write_templates(table, tmp_path / "grid.txt")).meta["reftime"] == start
    for points in (
        jfstat.Doppler(1.1, 0.2, [f0, f1], start),
        jfstat.Doppler([1.1] * 2, [0.2] * 2, [[f0, f1]] * 2, start),
    ):
        moved = jfstat.template_table(points, reftime=later)
        assert moved.meta["reftime"] == later
        assert moved["freq"].value == pytest.approx(f0 + f1 * (later - start), abs=1e-12)


def test_single_templates_keep_their_proper_motions_and_have_no_models():
    start, later = 1167458304, 1267458304
    moving = jfstat.Doppler(1.0, 0.2, [100.0, -1e-9], start, motion=[1e-13, 2e-13])
    both = jfstat.template_table([moving, jfstat.Doppler(1.1, 0.2, [100.1], start)], reftime=later)
    alone = jfstat.template_table(moving, reftime=later)
    assert [float(both[name].value[0]) for name in alone.colnames] == [
        float(alone[name].value[0]) for name in alone.colnames
    ]
    assert both["pmra"].value[1] == both["pmdec"].value[1] == 0
    assert both["delta"].value[0] == pytest.approx(0.2 + 2e-13 * (later - start), abs=1e-12)
    model = jfstat.PhaseModel(lambda t, p: p["df"] * t, {"df": 1e-6})
    with pytest.raises(ValueError, match="points hold a template with a phase model"):
        jfstat.template_table([moving, jfstat.Doppler(1.1, 0.2, [100.1], start, model=model)])


def test_files_that_lost_their_end_are_refused(tmp_path):
    grid = jfstat.template_table(jfstat.template_bank(1.1, 0.2, (-1e-9, 0.0, 1e-9)), [100.0, 100.1], reftime=1167458304)
    path = jfstat.write_templates(grid, tmp_path / "grid.txt")
    assert len(jfstat.read_templates(path)) == 4
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:-3]))
    with pytest.raises(ValueError, match="no last line %DONE, so that it may be incomplete"):
        jfstat.read_templates(path)
    path.write_text("\n".join([*lines[:-3], "%DONE", ""]))  # said to be all
    assert len(jfstat.read_templates(path)) == 2
    text = "\n".join(lines).replace("1167458304", "foo", 1)
    path.write_text(text)
    with pytest.raises(ValueError, match=r"grid.txt': the comment '.*foo.*' gives no number: correct it"):
        jfstat.read_templates(path)


def test_other_formats_are_not_called_incomplete(tmp_path):
    (tmp_path / "a.txt").write_text(PYFSTAT.replace("TREF", "1"))
    with pytest.raises(ValueError, match=r"names no columns: it is not a text file of candidates of .*read_templates"):
        jfstat.read_candidates(tmp_path / "a.txt")
