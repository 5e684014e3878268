"""Searches of patches and bands joined: as one search of all templates, but for overlaps."""

from dataclasses import replace

import numpy as np
import pytest

import jfstat

START, F = 1_167_458_304, 100.0
QUIET = dict(progress=False)


@pytest.fixture(scope="module")
def sfts():
    point = jfstat.Doppler(2.1, 0.4, [F + 0.006, -1e-10], START)
    return jfstat.simulate_sfts(
        ["H1", "L1"], START, 86400, F - 1, F + 1.1, sqrt_sx=4e-24, signals=[(point, jfstat.Amplitude(5e-25, 0.3))]
    )


@pytest.fixture(scope="module")
def data(sfts):
    return jfstat.prepare(sfts, F, F + 0.01, START)


def bank(alpha):
    return jfstat.Doppler(alpha, np.full(len(alpha), 0.4), np.tile([F, -1e-10], (len(alpha), 1)), START)


ALPHA = np.linspace(1.9, 2.3, 8)


@pytest.mark.ci
@pytest.mark.parametrize("statistic", [jfstat.TwoF(), jfstat.BSGL()], ids=lambda own: own.name)
def test_patches_are_one_search(data, statistic):
    whole = jfstat.search(data, bank(ALPHA), statistic, top=8 * 20, **QUIET)
    parts = [jfstat.search(data, bank(own), statistic, top=10**6, **QUIET) for own in (ALPHA[:3], ALPHA[3:])]
    found = jfstat.join_searches(parts)
    n = 50
    for name in set(whole.colnames) - {"template"}:
        np.testing.assert_array_equal(np.asarray(found[name][:n]), np.asarray(whole[name][:n]), name)
    own = np.array(found["template"]) + np.array([0, 3])[np.array(found["search"])]
    assert own[:n].tolist() == np.array(whole["template"])[:n].tolist()
    for key in ("n_twoF", "n_templates", "twoF_histogram", "loudest_per_subband", "fmin", "fmax", "false_alarm"):
        assert found.meta[key] == whole.meta[key], key
    assert found.meta["n_searches"] == 2 and found.meta["parameters"] == whole.meta["parameters"]
    assert [str(found[name].unit) for name in found.colnames] == [
        str(whole[name].unit) if name in whole.colnames else "None" for name in found.colnames
    ]


def test_bands_are_one_search(sfts, data, tmp_path):
    other = jfstat.prepare(sfts, F + 0.01, F + 0.02, START)
    parts = [jfstat.search(x, bank(ALPHA[:2]), top=10, **QUIET) for x in (data, other)]
    paths = [jfstat.write_candidates(part, tmp_path / f"{i}.ecsv") for i, part in enumerate(parts)]
    found = jfstat.join_searches([jfstat.read_candidates(path) for path in paths])
    assert (found.meta["fmin"], found.meta["fmax"]) == (parts[0].meta["fmin"], parts[1].meta["fmax"])
    assert found.meta["n_templates"] == 4 and len(found) == 20
    assert found.meta["n_twoF"] == sum(part.meta["n_twoF"] for part in parts)
    expected = [sorted(part.meta["loudest_per_subband"]["start"]) for part in parts]
    assert sorted(found.meta["loudest_per_subband"]["start"]) == expected[0] + expected[1]
    again = jfstat.read_candidates(jfstat.write_candidates(found, tmp_path / "all.ecsv"))
    assert again.meta["n_searches"] == 2 and np.array_equal(again["search"], found["search"])
    alone = jfstat.join_searches(parts[:1])
    assert alone.meta["false_alarm"] == parts[0].meta["false_alarm"] and set(alone["search"]) == {0}


def test_joined_searches_are_joined_with_others(data):
    each = [jfstat.search(data, bank(ALPHA[i : i + 1]), top=4, **QUIET) for i in range(3)]
    at_once = jfstat.join_searches(each)
    nested = jfstat.join_searches([jfstat.join_searches(each[:2]), each[2]])
    assert nested.meta == at_once.meta | {"n_searches": 3} and nested.meta["n_searches"] == 3
    for name in at_once.colnames:
        np.testing.assert_array_equal(np.asarray(nested[name]), np.asarray(at_once[name]), name)
    one, other = ({"detector": "H1", "freq": freq} for freq in (100.001, 100.002))
    for table, own in zip(each, ([one], [one, other], [other]), strict=True):
        table.meta["lines"] = own
    assert jfstat.join_searches(each).meta["lines"] == [one, other]


def test_sub_bands_of_best_paths_stay_apart(data):
    """They are counted from the start of the band, and each counts as a trial."""
    meta = {"statistic": "BestPath", "subband": 0.01, "n_subbands": 6}
    table = jfstat.search(data, bank(ALPHA[:1]), top=2, **QUIET)
    table.meta |= meta
    for key, value in (("fmin", table.meta["fmin"] + 0.01), ("n_subbands", 4)):
        other = table.copy()
        other.meta[key] = value
        with pytest.raises(ValueError, match=f"of another kind of search: {key} is"):
            jfstat.join_searches([table, other])


@pytest.mark.ci
def test_trials_of_all_patches_count_in_what_follows(data):
    parts = [jfstat.search(data, bank(own), top=5, **QUIET) for own in (ALPHA[:1], ALPHA[4:5])]
    found = jfstat.join_searches(parts)
    alone = parts[int(found["search"][0])]
    one, both = (jfstat.refine(data, table[:1], **QUIET) for table in (alone, found))
    assert one["twoF"][0] == pytest.approx(both["twoF"][0])
    assert both["noise_chance"][0] > 1.5 * one["noise_chance"][0] > 0


def test_a_search_counts_once(data, tmp_path):
    one, other = (jfstat.search(data, bank(own), top=3, **QUIET) for own in (ALPHA[:1], ALPHA[1:2]))
    again = jfstat.read_candidates(jfstat.write_candidates(one, tmp_path / "one.ecsv"))
    for tables, said in (
        ([one, one], r"tables\[1\] is tables\[0\]"),
        ([other, one, again[:2]], r"\[2\] is tables\[1\]"),
    ):
        with pytest.raises(ValueError, match=said):
            jfstat.join_searches(tables)


def test_what_cannot_be_joined_is_refused(sfts, data):
    table = jfstat.search(data, bank(ALPHA[:1]), top=3, **QUIET)
    unit = jfstat.search(data, bank(ALPHA[:2]), top=3, run=jfstat.Run(unit=(1, 2)), **QUIET)
    bare = jfstat.search(data, bank(ALPHA[:1]), top=3, details=jfstat.Details(False, False), **QUIET)
    other = jfstat.prepare(sfts, F, F + 0.01, START + 10)
    later = jfstat.search(other, replace(bank(ALPHA[:1]), reftime=START + 10), top=3, **QUIET)
    judged = table.copy()
    judged["empirical_false_alarm"] = np.full(len(table), 0.1)
    refused = [
        ([], "tables is empty: give at least one table of a search"),
        ([table, unit], r"tables\[1\] is of a unit of a search: join its units by jfstat.merge first"),
        ([table, bare], r"tables\[1\] has other columns than tables\[0\]"),
        ([table, jfstat.fstat_table(data, bank(ALPHA[:1]))], r"tables\[1\] is not of a search"),
        ([judged, table], r"tables\[0\] has the column empirical_false_alarm, which is of its own search alone"),
        ([table, later], r"tables\[1\] is of another kind of search: reftime is"),
    ]
    for given, said in refused:
        with pytest.raises(ValueError, match=said):
            jfstat.join_searches(given)
    with pytest.raises(TypeError, match=r"tables\[1\]"):
        jfstat.join_searches([table, 3])
