"""2F and amplitudes at exactly the points of a table: against `fstat` at each point, and against LALSuite."""

import astropy.units as u
import jax
import numpy as np
import pytest
from astropy.table import QTable, Table
from cases import make

import jfstat
from jfstat.candidates.schema import known_column
from jfstat.commandline import main
from jfstat.followup.neighbours import _groups, frequencies_seen

START = 1167458304
DEMOD = dict(FstatMethod="DemodGeneric", Dterms=200)
"""With its default of 8 bins LALSuite loses some 5 % of 2F."""


@pytest.fixture(scope="module")
def case():
    return make(100.0, seed=5, days=1.0, noise=True)


def stack(case, n, seed=0, sky=0.02, spread=0.05, **more):
    """Random templates around a case's signal."""
    rng = np.random.default_rng(seed)
    fkdot = np.stack([rng.uniform(100 - spread, 100 + spread, n), rng.uniform(-2e-9, 0, n)], axis=-1)
    alpha = case.doppler.alpha + sky * rng.normal(size=n)
    delta = np.clip(case.doppler.delta + sky * rng.normal(size=n), -1.57, 1.57)
    return jfstat.Doppler(alpha, delta, fkdot, case.doppler.reftime, **more)


def row_of(points, i):
    return jax.tree.map(lambda x: x[i], points)


def plain(x):
    return float(getattr(x, "value", x))


def check_rows(data, points, table, rows):
    """Every column of some rows against the single-template functions at just this point."""
    for i in rows:
        point = row_of(points, i)
        own, estimate = jfstat.fstat(data, point), jfstat.estimate_amplitude(data, point)
        size = 4 + float(own.twoF)
        assert abs(table["twoF"][i] - float(own.twoF)) < 1e-6 * size
        for d, name in enumerate(data.detectors):
            assert abs(table[f"twoF_{name}"][i] - float(own.twoF_per_detector[d])) < 1e-6 * size
        assert table["freq"][i].value == float(point.fkdot[0])
        assert table["f1dot"][i].value == float(point.fkdot[1])
        assert table["alpha"][i].value == float(point.alpha)
        assert table["delta"][i].value == float(point.delta)
        for name in ("h0", "cosi", "psi", "phi0"):
            error, value = (float(getattr(x, name)) for x in (estimate.errors, estimate.amplitude))
            off, period = plain(table[name][i]) - value, {"psi": np.pi / 2, "phi0": 2 * np.pi}.get(name, np.inf)
            assert abs(off if period == np.inf else (off + period / 2) % period - period / 2) < 1e-4 * min(error, 1.0)
            assert plain(table[f"{name}_error"][i]) == pytest.approx(error, rel=1e-3)


@pytest.mark.ci
def test_values_are_those_of_fstat_in_the_order_given(case):
    """Dense and scattered points in one table, in random order."""
    near, far = stack(case, 60, sky=1e-3, spread=1e-3), stack(case, 12, seed=1, sky=1.0)
    order = np.random.default_rng(3).permutation(72)
    points = jax.tree.map(lambda x, y: np.concatenate([x, y])[order], near, far)
    table = jfstat.fstat_table(case.data, points, progress=False)
    assert len(table) == 72
    check_rows(case.data, points, table, [*np.flatnonzero(order >= 60)[:6], *np.flatnonzero(order < 60)[:12]])
    np.testing.assert_array_equal(table["freq"].value, np.asarray(points.fkdot)[:, 0])
    names = ["freq", "f1dot", "alpha", "delta", "twoF", "twoF_H1", "twoF_L1", "log10BSGL", "h0", "cosi", "psi", "phi0"]
    assert table.colnames == [*names, "h0_error", "cosi_error", "psi_error", "phi0_error"]
    assert all(known_column(name) for name in table.colnames)
    units = {"freq": "Hz", "f1dot": "Hz / s", "alpha": "rad", "delta": "rad", "psi": "rad", "phi0_error": "rad"}
    assert {name: str(table[name].unit) for name in units} == units
    assert table.meta["reftime"] == case.doppler.reftime
    assert table.meta["n_twoF"] == table.meta["n_templates"] == 72
    assert table.meta["parameters"] == ["freq", "f1dot", "alpha", "delta"]


def test_points_near_one_another_share_narrow_data(case):
    points = stack(case, 300, sky=1e-3, spread=1e-3)
    seen = frequencies_seen(case.data, points)
    reach = 4e-4
    groups = _groups(seen, reach)
    assert len(groups) < 8
    assert sorted(np.concatenate([rows for _, rows in groups])) == list(range(300))
    for centre, rows in groups:
        assert centre in rows
        assert np.abs(seen[rows] - seen[centre]).max() <= reach


@pytest.mark.ci
def test_orbits_and_isolated_points_in_one_table():
    orbit = jfstat.Orbit(1.5, 68000.0, 1167458000.0, 0.02, 0.3)
    case = make(100.0, seed=8, days=1.0, noise=True, orbit=orbit, reach=0.02)
    rng, n = np.random.default_rng(2), 14
    asini = np.where(np.arange(n) % 3 == 0, 0.0, rng.uniform(1.4, 1.6, n))
    orbits = jfstat.Orbit(asini, rng.uniform(67000, 69000, n), 1167458000 + rng.uniform(0, 9000, n), 0.02, 0.3)
    points = stack(case, n, spread=1e-3, sky=1e-3, orbit=orbits)
    table = jfstat.fstat_table(case.data, points, progress=False)
    for i in range(n):
        point = row_of(points, i)
        if asini[i] == 0:
            point = jfstat.Doppler(point.alpha, point.delta, point.fkdot, point.reftime)
        own = jfstat.fstat(case.data, point)
        assert abs(table["twoF"][i] - float(own.twoF)) < 1e-6 * (4 + float(own.twoF))
    np.testing.assert_array_equal(table["asini"].value, asini)


def test_reference_times_of_their_own(case):
    """Points given at another time than the data's, and at several times, are the same points."""
    points = stack(case, 8, sky=1e-3, spread=1e-3)
    table = jfstat.fstat_table(case.data, points, progress=False)
    later = [int(case.doppler.reftime) + 1000 * i * i for i in range(8)]
    shifts = np.array(later) - float(case.doppler.reftime)
    fkdot = np.array(points.fkdot)
    fkdot[:, 0] += fkdot[:, 1] * shifts
    moved = jfstat.Doppler(points.alpha, points.delta, fkdot, np.array(later))
    again = jfstat.fstat_table(case.data, moved, progress=False)
    assert again.meta["reftime"] == later[0]
    np.testing.assert_allclose(again["freq"], table["freq"], rtol=0, atol=1e-12 * u.Hz)
    np.testing.assert_allclose(again["twoF"], table["twoF"], rtol=2e-6, atol=4e-6)
    for i in (3, 7):
        assert again["twoF"][i] == pytest.approx(float(jfstat.twoF(case.data, row_of(moved, i))), rel=2e-6)
    one = jax.tree.map(lambda x: x[5:6], moved)
    single = jfstat.fstat_table(case.data, one, progress=False)
    assert single.meta["reftime"] == later[5]
    phase = float(jfstat.estimate_amplitude(case.data, row_of(moved, 5)).amplitude.phi0)
    assert single["phi0"][0].value == pytest.approx(phase, abs=1e-3)
    # a table without reference time takes the argument
    plain = Table({name: single[name].value for name in ("freq", "f1dot", "alpha", "delta")})
    assert jfstat.fstat_table(case.data, plain, reftime=later[5], progress=False)["twoF"][0] == single["twoF"][0]


def test_tables_keep_their_other_columns_and_lose_stale_ones(case):
    points = stack(case, 3)
    table = jfstat.fstat_table(case.data, points, progress=False)
    table["name"], table["twoF"] = ["a", "b", "c"], [1.0, 2.0, 3.0]
    again = jfstat.fstat_table(case.data, table[::-1], progress=False)
    assert list(again["name"]) == ["c", "b", "a"]
    assert list(again["twoF"]) != [3.0, 2.0, 1.0]
    np.testing.assert_allclose(
        again["h0"], jfstat.fstat_table(case.data, points, progress=False)["h0"][::-1], rtol=1e-5
    )


def test_one_detector_one_point_and_no_point():
    case = make(60.0, seed=3, days=0.5, detectors=("H1",), noise=True)
    table = jfstat.fstat_table(case.data, case.doppler, progress=False)
    assert len(table) == 1
    assert "log10BSGL" not in table.colnames
    assert table["twoF"][0] == pytest.approx(table["twoF_H1"][0], rel=1e-12)
    assert table["twoF"][0] == pytest.approx(float(jfstat.twoF(case.data, case.doppler)), rel=1e-6)
    empty = jfstat.fstat_table(case.data, table[:0], progress=False)
    assert len(empty) == 0
    assert empty.colnames == table.colnames
    assert empty.meta["false_alarm"] is None


def test_points_that_do_not_fit_are_one_clear_error(case):
    points = stack(case, 5)
    table = jfstat.fstat_table(case.data, points, progress=False)
    outside = table.copy()
    outside["freq"][3] = 105 * u.Hz
    with pytest.raises(ValueError, match="row 3, counted from 0: outside the data's band by"):
        jfstat.fstat_table(case.data, outside, progress=False)
    outside["alpha"][1] = np.nan * u.rad
    with pytest.raises(ValueError, match="row 1, the first of 2, counted from 0: alpha is not a number"):
        jfstat.fstat_table(case.data, outside, progress=False)
    table.remove_column("freq")
    with pytest.raises(ValueError, match="lacks the column 'freq'"):
        jfstat.fstat_table(case.data, table, progress=False)
    with pytest.raises(TypeError, match="must be a table"):
        jfstat.fstat_table(case.data, [1.0], progress=False)
    with pytest.raises(ValueError, match="olgx must be 2"):
        jfstat.fstat_table(case.data, points, line_prior=jfstat.LinePrior(olgx=[1.0]), progress=False)
    for start in (100.0, case.data.observation.ends[1]):
        windows = jfstat.TransientRange("rect", [start], [3600.0])
        with pytest.raises(ValueError, match=r"^transient has no window within the data, from GPS"):
            jfstat.fstat_table(case.data, points, transient=windows, progress=False)


@pytest.mark.ci
def test_the_result_can_be_refined_and_written(case, tmp_path):
    table = jfstat.fstat_table(case.data, case.doppler, progress=False)
    jfstat.write_candidates(table, tmp_path / "points.txt")
    again = jfstat.read_templates(tmp_path / "points.txt")
    assert again["twoF"][0] == table["twoF"][0]
    assert again.meta["reftime"] == table.meta["reftime"]
    better = jfstat.refine(case.data, table, fit=jfstat.Fit(("freq",)), progress=False)
    assert better["twoF"][0] >= table["twoF"][0] - 1e-3


# files


def test_grid_files_of_all_kinds_are_read(tmp_path):
    values = "100.5 1.25 -0.5 -1e-9 0 2e-26\n100.6 1.5 0.5 1e-10 1e-19 0\n"

    def read(text):
        path = tmp_path / "grid.txt"
        path.write_text(text)
        return jfstat.read_templates(path)

    plain = read("# a comment\n% another\n\n" + values)
    assert plain.colnames == ["freq", "alpha", "delta", "f1dot", "f2dot", "f3dot"]
    assert plain["f3dot"][0] == 2e-26 * u.Hz / u.s**3
    assert plain["alpha"][1] == 1.5 * u.rad
    pyfstat = "%% cmdline: something\n%% columns:\n%% freq alpha delta f1dot f2dot f3dot asini period ecc tp argp\n"
    binary = read(pyfstat + values.replace("\n", " 1.5 70000 0.1 1167458304 0.2\n") + "%DONE\n")
    assert binary["period"][0] == 70000 * u.s
    assert binary["tp"][1] == 1167458304 * u.s
    own = read("# F0 F1 Alpha Delta twoF\n100 -1e-9 1 0.5 30\n")
    assert own.colnames == ["freq", "f1dot", "alpha", "delta", "twoF"]
    assert own["f1dot"][0] == -1e-9 * u.Hz / u.s
    sky = read("1.0 0.5\n2.0 -0.5  # with a comment\n")
    assert sky.colnames == ["alpha", "delta"]
    assert sky["delta"][1] == -0.5 * u.rad


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# nothing\n", "holds no templates"),
        ("1 2 3\n", "3 columns without names"),
        ("100 1 0.5 0 0 0\n100 1 0.5\n", "3 numbers in its row 1"),
        ("100 1 0.5 0 0 x\n", "something other than numbers"),
        ("% freq alpha delta f1dot\n100 1 0.5 0 0 0\n", "names 4 columns and has 6"),
        ("% freq alpha delta alpha\n100 1 0.5 0\n", "names a column twice"),
    ],
)
def test_files_that_are_no_grids_are_refused(tmp_path, text, message):
    path = tmp_path / "grid.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        jfstat.read_templates(path)


def test_binary_files_and_missing_ones_are_refused(tmp_path):
    (tmp_path / "grid.txt").write_bytes(b"\x89HDF\x00\x01" * 30)
    with pytest.raises(ValueError, match="no text file"):
        jfstat.read_templates(tmp_path / "grid.txt")
    with pytest.raises(OSError, match="cannot be read"):
        jfstat.read_templates(tmp_path / "none.txt")
    with pytest.raises(ValueError, match="is a file of sources"):
        jfstat.read_templates(tmp_path / "signal.cff")


# the program, against LALSuite's


@pytest.fixture(scope="module")
def lal_files(tmp_path_factory):
    """SFT files that Makefakedata_v5 made, with a strong signal."""
    tools = pytest.importorskip("lalsuite_tools", reason="needs LALSuite", exc_type=ImportError)
    path = tmp_path_factory.mktemp("sfts")
    source = (
        "Alpha=1.1\nDelta=0.4\nFreq=50.0123\nf1dot=-2e-10\nrefTime=1167458304\nh0=1.6e-24\ncosi=0.3\npsi=0.2\nphi0=1\n"
    )
    (path / "signal.cff").write_text(source)
    tools.run("Makefakedata_v5", outSFTdir=path, IFOs="H1,L1", sqrtSX="4e-24,5e-24", startTime=START, duration=86400,
              fmin=49.0, Band=2.1, Tsft=1800, injectionSources=path / "signal.cff", randSeed=7)  # fmt: skip
    return tools, path


def search(path, *options, command="search"):
    common = [f"--DataFiles={path}/*.sft", "--IFOs=H1,L1", "--assumeSqrtSX=4e-24,5e-24"]
    return main([command, *common, *map(str, options)])


def points(path, *options):
    return search(path, *options, command="points")


@pytest.mark.ci
def test_grid_type_6_agrees_with_ComputeFstatistic_v2(lal_files, tmp_path, capsys):
    """A lattice that ComputeFstatistic_v2 wrote as --outputGrid, computed by both programs."""
    tools, path = lal_files
    common = dict(DataFiles=f"{path}/*.sft", assumeSqrtSX="4e-24,5e-24", outputLogfile="/dev/null") | DEMOD
    grid = dict(Freq=50.01225, FreqBand=1e-4, Alpha=1.1, Delta=0.4, f1dot=-3e-10, f1dotBand=2e-10)
    tools.run("ComputeFstatistic_v2", gridType=8, metricMismatch=0.05, countTemplates="TRUE",
              outputGrid=tmp_path / "grid.txt", **grid, **common)  # fmt: skip
    tools.run("ComputeFstatistic_v2", gridType=6, gridFile=tmp_path / "grid.txt", outputFstat=tmp_path / "lal.txt",
              outputSingleFstats="TRUE", computeBSGL="TRUE", **common)  # fmt: skip
    out = tmp_path / "own.txt"
    assert points(path, f"--gridFile={tmp_path}/grid.txt", f"--outputFstat={out}") == 0
    assert "loudest of" in capsys.readouterr().out
    own, theirs = jfstat.read_candidates(out), jfstat.read_candidates(tmp_path / "lal.txt")
    assert len(own) == len(theirs) > 100
    for name in ("freq", "alpha", "delta", "f1dot"):
        np.testing.assert_array_equal(own[name], theirs[name])
    loud = theirs["twoF"] > 0.5 * theirs["twoF"].max()
    assert loud.sum() > 5
    for name in ("twoF", "twoF_H1", "twoF_L1"):
        np.testing.assert_allclose(own[name][loud], theirs[name][loud], rtol=0.02)
    np.testing.assert_allclose(own["log10BSGL"][loud], theirs["log10BSGL"][loud], rtol=0.02)


@pytest.mark.ci
def test_sources_of_cff_files_are_points(lal_files, tmp_path, capsys):
    """Sources at reference times and frequencies of their own, one in a binary; the injection among them is loud."""
    _, path = lal_files
    second = "Alpha=2\nDelta=-0.4\nFreq=50.4\nrefTime=1167500000\nh0=0\ncosi=0\norbitasini=1.5\norbitPeriod=70000\n"
    third = "Alpha=2\nDelta=-0.4\nFreq=49.4\nf1dot=-1e-9\nrefTime=1167500000\nh0=0\ncosi=0\n"
    (path / "others.cff").write_text(f"[two]\n{second}orbitTp=1167458304\n[three]\n{third}")
    out = tmp_path / "points.ecsv"
    names = f"{path}/others.cff,{path}/signal.cff"
    assert points(path, f"--gridFile={names}", f"--outputFstat={out}", "--guard=0.3") == 0
    assert "3 point(s)" in capsys.readouterr().out
    table = QTable.read(out)
    assert table.meta["reftime"] == 1167500000
    expected = [50.4, 49.4, 50.0123 - 2e-10 * (1167500000 - START)]
    np.testing.assert_allclose(table["freq"].value, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(table["asini"].value, [1.5, 0, 0])
    assert np.argmax(table["twoF"]) == 2
    sfts = jfstat.read_sfts(f"{path}/*.sft")
    for row, low, high in ((0, 49.9, 50.7), (2, 49.9, 50.7), (1, 49.3, 49.5)):
        orbit = jfstat.Orbit(1.5, 70000.0, 1167458304.0) if row == 0 else None
        point = jfstat.Doppler(
            table["alpha"][row], table["delta"][row], [table["freq"][row], table["f1dot"][row]], 1167500000, orbit
        )
        data = jfstat.prepare(sfts, low, high, sqrt_sx=[4e-24, 5e-24], orbit=orbit, filters=False, guard=0.3)
        assert table["twoF"][row] == pytest.approx(float(jfstat.twoF(data, point)), rel=0.02, abs=0.1)


def test_thresholds_keep_the_order(lal_files, tmp_path):
    _, path = lal_files
    f = 50.0123 + 5e-6 * np.arange(-6, 7)
    np.savetxt(tmp_path / "grid.txt", [[x, 1.1, 0.4, -2e-10, 0, 0] for x in f], fmt="%.17g")
    options = [f"--gridFile={tmp_path}/grid.txt", f"--refTime={START}"]
    assert points(path, *options, f"--outputFstat={tmp_path}/all.ecsv") == 0
    assert points(path, *options, f"--outputFstat={tmp_path}/few.ecsv", "--NumCandidatesToKeep=4") == 0
    every, few = QTable.read(tmp_path / "all.ecsv"), QTable.read(tmp_path / "few.ecsv")
    np.testing.assert_array_equal(every["freq"].value, f)
    kept = np.sort(np.argsort(-every["twoF"])[:4])
    np.testing.assert_array_equal(few["freq"], every["freq"][kept])
    least = float(np.median(every["twoF"]))
    assert points(path, *options, f"--outputFstat={tmp_path}/loud.ecsv", f"--TwoFthreshold={least!r}") == 0
    np.testing.assert_array_equal(QTable.read(tmp_path / "loud.ecsv")["freq"], every["freq"][every["twoF"] >= least])


def test_grid_type_3_searches_the_positions_of_a_sky_grid(lal_files, tmp_path):
    """The same templates and frequencies as ComputeFstatistic_v2 with the same sky-grid file."""
    tools, path = lal_files
    (tmp_path / "sky.txt").write_text("# alpha delta\n1.05 0.45\n1.1 0.4\n")
    common = dict(DataFiles=f"{path}/*.sft", assumeSqrtSX="4e-24,5e-24", outputLogfile="/dev/null") | DEMOD
    grid = dict(Freq=50.0122, FreqBand=2.05e-4, dFreq=1e-5, f1dot=-3e-10, f1dotBand=2.1e-10, df1dot=1e-10)
    tools.run("ComputeFstatistic_v2", gridType=3, gridFile=tmp_path / "sky.txt", outputFstat=tmp_path / "lal.txt",
              **grid, **common)  # fmt: skip
    options = [f"--{name}={value}" for name, value in grid.items()]
    out = tmp_path / "own.ecsv"
    assert search(path, "--gridType=3", f"--gridFile={tmp_path}/sky.txt", *options, "--TwoFthreshold=0",
                  f"--outputFstat={out}", "--noDetails") == 0  # fmt: skip
    own, theirs = QTable.read(out), jfstat.read_candidates(tmp_path / "lal.txt")
    assert len(own) == len(theirs) == 2 * 21 * 3
    for table in (own, theirs):
        table.sort(["alpha", "f1dot", "freq"])
    for name, error in (("alpha", 5e-16), ("delta", 5e-16), ("freq", 1e-10), ("f1dot", 1e-22)):
        np.testing.assert_allclose(own[name].value, theirs[name].value, rtol=0, atol=error)
    loud = theirs["twoF"] > 0.5 * theirs["twoF"].max()
    np.testing.assert_allclose(own["twoF"][loud], theirs["twoF"][loud], rtol=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["points"], "--gridFile is missing: give it, or the points by --Freq"),
        (["points", "--gridFile=GRID", "--Freq=50"], "--Freq does not go with --gridFile, which holds single points"),
        (["points", "--gridFile=GRID", "--cluster=1"], "unknown option --cluster"),
        (["points", "--gridFile=GRID", "--NumCandidatesToKeep=-1"], "that is not negative"),
        (["points", "--gridFile=none.cff"], "--gridFile: no file matches"),
        (["points", "--gridFile=BAD"], "alpha is not a number in row 1"),
        (["points", "--gridFile=SKY"], "--gridFile lacks the column 'freq'"),
        (["points", "--gridFile=FAR"], "--DataFiles cover"),
        (["--gridType=6", "--gridFile=GRID", "--Freq=50"], "use jfstat points --gridFile"),
        (["--gridType=3", "--Freq=50"], "--gridFile is missing: --gridType=3"),
        (["--gridType=3", "--gridFile=GRID", "--Freq=50"], "takes alpha and delta alone"),
        (["--gridType=3", "--gridFile=SKY", "--Freq=50", "--Alpha=1"], "--Alpha and --gridFile exclude each other"),
        (["--gridType=0", "--gridFile=GRID", "--Freq=50"], "--gridType=0 and --gridFile exclude each other"),
        (["--gridType=1", "--Freq=50", "--Alpha=1", "--Delta=1"], "--dAlpha is missing: --gridType=1 needs"),
        (["--gridType=1", "--Freq=50", "--skyRegion=allsky", "--dAlpha=1"], "--dDelta is missing: --gridType=1 needs"),
        (["--gridType=1", "--Freq=50", "--dDelta=1", "--dAlpha=1"], "--Alpha and --Delta are missing: --gridType=1"),
        (["--gridType=1", "--Freq=50", "--skyRegion=allsky", "--Alpha=1"], "must be allsky, without --Alpha"),
        (["--gridType=1", "--Freq=50", "--skyRegion=(1,0),(2,0),(1,1)"], "must be allsky, without --Alpha"),
        (["--gridType=1", "--Freq=50", "--metricMismatch=0.1", "--skyRegion=allsky"], "--gridType=1 is a flat grid"),
        (["--gridType=1", "--Freq=50", "--skyRadius=0.1", "--Alpha=1", "--Delta=1"], "--skyRadius does not go with"),
        (["--gridType=3", "--gridFile={1 2 3}", "--Freq=50"], "--gridFile has 3 columns without names"),
        (["points", "--gridFile={}"], "--gridFile holds no templates"),
        (["points", "--gridFile={50 1 0.2 x 0 0}"], "--gridFile holds something other than numbers"),
        (["points", "--gridFile={Alpha=1;Delta=0.2}"], "Freq must be given"),
        (["--gridType=2", "--Freq=50", "--Alpha=1", "--Delta=1"], "--metricMismatch is missing"),
        (
            ["--gridType=0", "--Freq=50", "--metricMismatch=0.1", "--Alpha=1", "--Delta=1"],
            "--gridType=0 is a flat grid",
        ),
        (["--Alpha=1", "--Delta=1"], "required: --Freq"),
    ],
)
def test_wrong_options_are_one_line(lal_files, tmp_path, capsys, options, message):
    _, path = lal_files
    (tmp_path / "GRID").write_text("50.0123 1 0.5 0 0 0\n")
    (tmp_path / "BAD").write_text("50.0123 1 0.5 0 0 0\n50.0123 nan 0.5 0 0 0\n")
    (tmp_path / "FAR").write_text("99 1 0.5 0 0 0\n")
    (tmp_path / "SKY").write_text("1 0.5\n")
    options = [x if "{" in x else x.replace("--gridFile=", f"--gridFile={tmp_path}/") for x in options]
    capsys.readouterr()
    command, options = ("points", options[1:]) if options[0] == "points" else ("search", options)
    assert search(path, *options, command=command) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error


def isotropic(low, width, steps):
    """Positions of ComputeFstatistic_v2's gridType 1, row by row (buildIsotropicSkyGrid)."""
    rows, delta = [], low[1]
    while delta <= low[1] + width[1] + 1e-9:
        alpha = low[0]
        while alpha <= low[0] + width[0] + 1e-9:
            rows.append((alpha, delta))
            alpha += steps[0] / np.cos(delta)
        delta += steps[1]
    return rows


@pytest.mark.parametrize("seed", range(5))
def test_the_sky_of_grid_type_1_is_of_equal_density(seed):
    from jfstat.commandline import _parser
    from jfstat.commandline.banks import templates_of

    rng = np.random.default_rng(seed)
    low, width, steps = (rng.uniform(0, 5), rng.uniform(-1.4, 0)), rng.uniform(0.3, 1.3, 2), rng.uniform(0.05, 0.2, 2)
    words = ["search", "--DataFiles=x", "--Freq=50", "--gridType=1", f"--Alpha={low[0]!r}", f"--Delta={low[1]!r}"]
    words += [f"--AlphaBand={float(width[0])!r}", f"--DeltaBand={float(width[1])!r}"]
    words += [f"--dAlpha={float(steps[0])!r}", f"--dDelta={float(steps[1])!r}"]
    bank = templates_of(_parser("search").arguments(words)).bank()
    truth = np.array(isotropic(low, width, steps))
    np.testing.assert_allclose(
        np.transpose([bank.alpha % (2 * np.pi), bank.delta]), np.c_[truth[:, 0] % (2 * np.pi), truth[:, 1]], atol=1e-9
    )
    words = [
        "search",
        "--DataFiles=x",
        "--Freq=50",
        "--gridType=1",
        "--skyRegion=allsky",
        "--dAlpha=0.5",
        "--dDelta=0.4",
    ]
    assert templates_of(_parser("search").arguments(words)).bank().alpha.size == 67  # as ComputeFstatistic_v2's


@pytest.mark.parametrize("seed", range(3))
def test_rows_between_braces_are_those_of_a_file(seed, tmp_path):
    from jfstat.commandline.banks import read_grid

    rng = np.random.default_rng(seed)
    rows = rng.uniform(0, 1, (rng.integers(1, 6), (2, 6)[seed % 2]))
    lines = [" ".join(map(repr, row.tolist())) for row in rows]
    (tmp_path / "grid").write_text("\n".join(lines))
    truth = jfstat.read_templates(tmp_path / "grid")
    for text in ("{" + "; ".join(lines) + "}", " {" + "\n".join(lines) + ";}", "{" + " ;\n".join(lines) + "}"):
        found = read_grid(text)
        assert found.colnames == truth.colnames and all(np.all(found[x] == truth[x]) for x in truth.colnames)


@pytest.mark.parametrize("name", ["grid.txt", "grid.ecsv"])
@pytest.mark.parametrize("seed", range(3))
def test_templates_that_are_written_are_read_again(name, seed, tmp_path):
    rng = np.random.default_rng(seed)
    orbit = None if seed else jfstat.Orbit(1.5, 20000.0 + seed, 1e9, 0.1, 0.2)
    points = [jfstat.Doppler(*rng.uniform(-1, 1, 2), rng.uniform(1, 2, seed + 1), 1e9, orbit) for _ in range(4)]
    table = jfstat.template_table(points)
    found = jfstat.read_templates(jfstat.write_templates(table, tmp_path / name))
    for column in table.colnames:
        np.testing.assert_allclose(
            found[column].value if hasattr(found[column], "value") else found[column],
            np.asarray(table[column]),
            rtol=1e-15,
        )
        assert found[column].unit == table[column].unit
    assert found.meta["reftime"] == table.meta["reftime"]
    with pytest.raises(ValueError, match="freq"):
        jfstat.write_templates(table["alpha", "delta"], tmp_path / "other.txt")


def test_the_grid_of_a_search_is_written_without_a_search(lal_files, tmp_path, capsys):
    _, path = lal_files
    grid = ["--Alpha=1", "--Delta=0.5", "--Freq=50", "--FreqBand=1e-4", "--f1dotBand=1e-9", "--df1dot=5e-10"]
    for command in ("search", "points"):
        assert search(path, *grid, f"--outputGrid={tmp_path}/{command}.txt", command=command) == 0
    both = [jfstat.read_templates(tmp_path / f"{command}.txt") for command in ("search", "points")]
    assert len(both[0]) % 3 == 0 and set(both[0]["f1dot"].value) == {0.0, 5e-10, 1e-9}
    for one in both:
        assert one["freq"].value.min() == 50.0 and one["freq"].value.max() <= 50.0001 + 1e-12
    capsys.readouterr()
    for more in ("--outputFstat=x", "--TwoFthreshold=3", "--noDetails"):
        assert search(path, *grid, f"--outputGrid={tmp_path}/a.txt", more) == 1
        assert f"{more.partition('=')[0]} has no effect" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["f1do7", "Alhpa2", "asinni"])
def test_columns_of_templates_that_are_not_known_are_named(tmp_path, name):
    (tmp_path / "grid.txt").write_text(f"# F0 Alpha Delta twoF twoFH1 {name}\n50.0 1.0 0.2 30.0 20.0 3\n")
    with pytest.warns(UserWarning, match=f"columns that are not known, {name}: they are kept"):
        found = jfstat.read_templates(tmp_path / "grid.txt")
    assert found.colnames == ["freq", "alpha", "delta", "twoF", "twoF_H1", name]
