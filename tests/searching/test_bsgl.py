"""Searches for log10BSGL, and with a cut by it over segments: the same as computing it for every value and choosing."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from searches import search

import jfstat

START = 1_167_458_304
POINT = jfstat.Doppler(alpha=1.1, delta=0.4, fkdot=[50.005, -1e-10], reftime=START)
PRIOR = jfstat.LinePrior(fstar0=6.0, olgx=[0.4, 0.8])
KNOWN: dict[str, Any] = dict(start=START, duration=86400, fmin=49.0, fmax=51.1, sqrt_sx=4e-24)


@pytest.fixture(scope="module")
def sfts():
    """A signal in both detectors, a loud line in H1 alone, and gaps: L1 has no data in the second of four segments."""
    line = dataclasses.replace(POINT, fkdot=np.array([50.002, -1e-10])), jfstat.Amplitude(2e-24, 0.5)
    signal = POINT, jfstat.Amplitude(h0=4e-25, cosi=0.8, psi=0.2, phi0=1.0)
    times = {"L1": START + 1800.0 * np.r_[0:12, 25:48]}
    each = [
        jfstat.simulate_sfts(["H1"], signals=[line, signal], seed=5, **KNOWN),
        jfstat.simulate_sfts(["L1"], signals=[signal], seed=6, timestamps=times, **KNOWN),
    ]
    return jfstat.join_sfts(each)


@pytest.fixture(scope="module", params=[None, 4], ids=["whole", "segments"])
def data(request, sfts):
    return jfstat.prepare(sfts, 50.0, 50.008, START, sqrt_sx=4e-24, segments=request.param, guard=0.5)


@pytest.fixture(scope="module")
def bank():
    fkdot = np.array([[50.0, -1e-10], [50.0, 3e-10], [50.0, 7e-10]])
    return jfstat.Doppler(np.full(3, 1.1), np.full(3, 0.4), fkdot, START)


@pytest.fixture(scope="module")
def everything(data, bank):
    """All values of the search, each with log10BSGL."""
    return search(data, bank, top=None, threshold=0.0, progress=False, line_prior=PRIOR)


def places(table):
    return list(zip(table["template"].tolist(), np.round(table["freq"].value, 9).tolist(), strict=True))


def loudness(data):
    return "twoF" if data.n_segments is None else "mean_twoF"


def test_it_keeps_the_largest_of_all_values(data, bank, everything):
    found = search(data, bank, jfstat.BSGL(PRIOR), top=25, progress=False)
    order = np.argsort(-everything["log10BSGL"], kind="stable")[:25]
    assert set(places(found)) == set(places(everything[order]))
    np.testing.assert_allclose(found["log10BSGL"], everything["log10BSGL"][order], atol=3e-4)
    assert abs(found["freq"][0].value - 50.005) < 1e-4
    # the line is the loudest of all, and does not enter the table
    assert abs(everything["freq"][0].value - 50.002) < 1e-4
    assert np.all(np.abs(found["freq"].value - 50.002) > 1e-4)
    assert found.meta["false_alarm"] is None and found.meta["statistic"] == "BSGL"
    assert (found.meta["Fstar0"], found.meta["oLGX"]) == (6.0, [0.4, 0.8])
    assert jfstat.summary(found).startswith("highest log10BSGL of 25 candidates")


def test_columns_are_those_of_the_usual_statistic(data, bank, everything):
    found = search(data, bank, jfstat.BSGL(PRIOR), top=3, progress=False)
    rows = {place: row for place, row in zip(places(everything), everything, strict=True)}
    assert set(found.colnames) == set(everything.colnames)
    for place, row in zip(places(found), found, strict=True):
        for name in ("h0", f"{loudness(data)}_H1", f"{loudness(data)}_L1"):
            assert float(row[name]) == pytest.approx(float(rows[place][name]), rel=1e-6)
        assert row[loudness(data)] == pytest.approx(rows[place][loudness(data)], rel=2e-6)
    few = search(data, bank, jfstat.BSGL(PRIOR), top=3, progress=False, per_detector=False, amplitudes=False)
    assert few.colnames == ["freq", "f1dot", "alpha", "delta", "log10BSGL", loudness(data), "template"]


def test_a_threshold_is_on_the_odds(data, bank, everything):
    found = search(data, bank, jfstat.BSGL(PRIOR), top=None, threshold=0.5, progress=False)
    wanted = everything["log10BSGL"] >= 0.5
    assert len(found) == np.sum(wanted) > 0
    assert set(places(found)) == set(places(everything[wanted]))


def test_few_values_are_expected_above_a_threshold(data, bank):
    """By the Gaussian term alone, an upper bound."""
    cost = [jfstat.plan_search(data, bank, jfstat.BSGL(PRIOR), None, least, progress=False) for least in (-20.0, 9.0)]
    expected = [plan.statistic.expected_in_noise(plan._task, plan.n_values) for plan in cost]
    assert expected[0] == pytest.approx(cost[0].n_values) and expected[1] < 1
    found = search(data, bank, jfstat.BSGL(PRIOR), top=None, threshold=1e5, progress=False)
    assert jfstat.summary(found).startswith("no candidate with log10BSGL >= 100000")


def test_the_histogram_is_of_2F(data, bank, everything):
    found = search(data, bank, jfstat.BSGL(PRIOR), top=3, progress=False)
    assert sum(found.meta["twoF_histogram"]) == found.meta["n_twoF"]
    # each detector is transformed alone: values next to the edge of a bin may round to the other side
    assert np.abs(np.subtract(found.meta["twoF_histogram"], everything.meta["twoF_histogram"])).max() <= 2


@pytest.mark.parametrize("cut", [-1.0, 0.3])
def test_a_cut_keeps_the_loudest_of_what_no_line_explains(data, bank, everything, cut):
    """On the device: the table has as many rows as asked for, though the line has more that are louder."""
    found = search(data, bank, top=15, progress=False, line_prior=PRIOR, bsgl_threshold=cut)
    passing = everything[everything["log10BSGL"] >= cut]
    wanted = passing[np.argsort(-passing[loudness(data)], kind="stable")[:15]]
    assert places(found) == places(wanted)
    assert np.all(found["log10BSGL"] >= cut - 1e-3)
    np.testing.assert_allclose(found[loudness(data)], wanted[loudness(data)], rtol=1e-5)
    assert sum(found.meta["twoF_histogram"]) == sum(everything.meta["twoF_histogram"])
    for name, own in found.meta["loudest_per_subband"].items():
        np.testing.assert_allclose(own, everything.meta["loudest_per_subband"][name], rtol=1e-5)


@pytest.mark.ci
def test_tables_do_not_depend_on_the_division(data, bank, tmp_path):
    for statistic, extra in ((jfstat.BSGL(PRIOR), {}), (None, dict(line_prior=PRIOR, bsgl_threshold=0.0))):
        asked = dict(top=20, progress=False, batch_size=1) | extra
        whole = search(data, bank, statistic, **asked)
        merged = jfstat.merge([search(data, bank, statistic, unit=(i, 2), **asked) for i in (1, 2)])
        for name in whole.colnames:
            np.testing.assert_array_equal(np.asarray(merged[name]), np.asarray(whole[name]), err_msg=name)


def test_what_it_will_cost(data, bank):
    usual = jfstat.plan_search(data, bank, progress=False)
    for plan in (
        jfstat.plan_search(data, bank, jfstat.BSGL(), progress=False),
        jfstat.plan_search(data, bank, keep=jfstat.Keep(bsgl_threshold=0.0), progress=False),
    ):
        assert plan.device_bytes > usual.device_bytes and plan.n_values == 3 * len(data.frequencies)


def test_what_does_not_go_with_it(data, bank, sfts):
    wrong = {
        "bsgl_threshold does not go with BSGL: give threshold": dict(bsgl_threshold=1.0),
        "does not go with BSGL, which its table": dict(ranking="BSGL"),
        "cannot rank by log10BSGL": dict(engine="cuda"),
        "line_prior of Details differs": dict(fstar0=1.0),
    }
    for message, options in wrong.items():
        with pytest.raises(ValueError, match=message):
            search(data, bank, jfstat.BSGL(PRIOR), **options)
    with pytest.raises(ValueError, match="olgx must be 2 finite odds"):
        search(data, bank, jfstat.BSGL(jfstat.LinePrior(olgx=[1.0])))
    with pytest.raises(TypeError, match="line_prior must be"):
        jfstat.BSGL(3.0)
    one = jfstat.prepare(jfstat.simulate_sfts(["H1"], **KNOWN), 50.0, 50.008, START, sqrt_sx=4e-24, guard=0.5)
    with pytest.raises(ValueError, match="BSGL compares detectors"):
        search(one, bank, jfstat.BSGL())
    if data.n_segments is not None:
        for statistic in (jfstat.Interpolated(0.2), jfstat.BSGLtL(), jfstat.BestPath(1)):
            with pytest.raises(ValueError, match="bsgl_threshold does not go with"):
                search(data, bank, statistic, bsgl_threshold=0.0)
        with pytest.raises(ValueError, match="bsgl_threshold compares detectors"):
            search(
                jfstat.prepare(jfstat.simulate_sfts(["H1"], **KNOWN), 50.0, 50.008, START, sqrt_sx=4e-24, segments=4),
                bank,
                bsgl_threshold=0.0,
            )
