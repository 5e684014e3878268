"""A search for log10BSGLtL: its values are those of `semicoherent_fstat`, and transient lines do not fill its table."""

import dataclasses

import numpy as np
import pytest
from searches import search

import jfstat

START = 1_167_458_304
POINT = jfstat.Doppler(alpha=1.1, delta=0.4, fkdot=[50.02, -1e-10], reftime=START)
PRIOR = jfstat.LinePrior(fstar0=6.0, olgx=[0.4, 0.8])


@pytest.fixture(scope="module")
def segments():
    """Four segments of two detectors; L1 has no data in the second one."""
    times = {"H1": START + 1800.0 * np.arange(48), "L1": START + 1800.0 * np.r_[0:12, 25:48]}
    amplitude = jfstat.Amplitude(h0=4e-25, cosi=0.8, psi=0.2, phi0=1.0)
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], START, 86400, 49.0, 51.1, sqrt_sx=4e-24, signals=[(POINT, amplitude)], timestamps=times, seed=4
    )
    return jfstat.prepare(sfts, 50.0, 50.04, START, sqrt_sx=4e-24, segments=4, guard=0.5)


@pytest.fixture(scope="module")
def bank():
    fkdot = np.array([[50.0, -1e-10], [50.0, 2e-9], [50.0, 4e-9]])
    return jfstat.Doppler(np.full(3, 1.1), np.full(3, 0.4), fkdot, START)


@pytest.fixture(scope="module")
def found(segments, bank):
    return search(segments, bank, jfstat.BSGLtL(PRIOR), top=30, progress=False)


@pytest.mark.ci
def test_values_are_those_of_exact_sums(found, segments):
    assert np.all(np.diff(found["log10BSGLtL"]) <= 0)
    assert abs(found["freq"][0].value - 50.02) < 1e-4 and found["template"][0] == 0
    for row in found[:3]:
        point = jfstat.Doppler(row["alpha"], row["delta"], [row["freq"], row["f1dot"]], START)
        exact = jfstat.semicoherent_fstat(segments, point)
        assert row["log10BSGLtL"] == pytest.approx(float(exact.log10BSGLtL(PRIOR)), abs=2e-4)
        assert row["log10BSGL"] == pytest.approx(float(exact.log10BSGL(PRIOR)), abs=1e-6)
        assert row["mean_twoF"] == pytest.approx(float(exact.mean_twoF), rel=1e-7)
    assert found.meta["statistic"] == "BSGLtL" and (found.meta["Fstar0"], found.meta["oLGX"]) == (6.0, [0.4, 0.8])
    assert found.meta["false_alarm"] is None and found.meta["n_twoF"] == 3 * len(segments.frequencies)


def test_the_histogram_is_of_the_mean(found, segments, bank):
    mean = search(segments, bank, top=30, progress=False)
    assert sum(found.meta["twoF_histogram"]) == found.meta["n_twoF"]
    # each detector is transformed alone and then added: values next to the edge of a bin may round to the other side
    assert np.abs(np.subtract(found.meta["twoF_histogram"], mean.meta["twoF_histogram"])).max() <= 2
    assert found.meta["twoF_edges"] == mean.meta["twoF_edges"]


@pytest.mark.ci
def test_a_line_in_one_segment_does_not_fill_the_table(bank):
    """Simulated as a signal in H1 alone, for the third of four segments: it is loud in the mean of 2F."""
    window = jfstat.TransientWindow("rectangular", START + 43200.0, 21600.0)
    line = (dataclasses.replace(POINT, fkdot=POINT.fkdot.at[0].set(50.01)), jfstat.Amplitude(2e-24, 0.5), window)
    known = dict(start=START, duration=86400, fmin=49.0, fmax=51.1, sqrt_sx=4e-24)
    sfts = [
        jfstat.simulate_sfts(["H1"], signals=[line], seed=5, **known),
        jfstat.simulate_sfts(["L1"], seed=6, **known),
    ]
    data = jfstat.prepare(jfstat.join_sfts(sfts), 50.0, 50.04, START, sqrt_sx=4e-24, segments=4, guard=0.5)
    mean = search(data, bank, top=1, progress=False)
    assert abs(mean["freq"][0].value - 50.01) < 1e-3 and mean["mean_twoF"][0] > 50
    robust = search(data, bank, jfstat.BSGLtL(), top=1, progress=False)
    assert abs(robust["freq"][0].value - 50.01) > 1e-3 and robust["mean_twoF"][0] < 15
    at_line = jfstat.semicoherent_fstat(data, line[0])
    assert float(at_line.log10BSGLtL()) < robust["log10BSGLtL"][0] - 5


def test_tables_do_not_depend_on_the_division(segments, bank, found, tmp_path):
    statistic = jfstat.BSGLtL(PRIOR)
    units = [search(segments, bank, statistic, top=30, progress=False, unit=(i, 2), batch_size=1) for i in (1, 2)]
    whole = search(segments, bank, statistic, top=30, progress=False, batch_size=1)
    for table in (
        jfstat.merge(units),
        search(segments, bank, statistic, 30, None, tmp_path / "c", False, batch_size=1),
    ):
        for name in whole.colnames:
            np.testing.assert_array_equal(np.asarray(table[name]), np.asarray(whole[name]), err_msg=name)
    with pytest.raises(ValueError, match="what differs is statistic"):
        search(segments, bank, jfstat.BSGLtL(), 30, None, tmp_path / "c", False, batch_size=1)


def test_what_it_will_cost(segments, bank):
    plan = jfstat.plan_search(segments, bank, jfstat.BSGLtL(), progress=False)
    mean = jfstat.plan_search(segments, bank, progress=False)
    assert plan.device_bytes > mean.device_bytes and plan.n_values == 3 * len(segments.frequencies)
    assert "BSGLtL: 3 templates" in repr(plan)


def test_what_does_not_go_with_it(segments, bank):
    with pytest.raises(ValueError, match="BSGLtL is for data with segments"):
        search(segments[0], bank, jfstat.BSGLtL())
    with pytest.raises(ValueError, match="does not go with BSGLtL"):
        search(segments, bank, jfstat.BSGLtL(), ranking="BSGL")
    with pytest.raises(ValueError, match="cannot compute log10BSGLtL"):
        search(segments, bank, jfstat.BSGLtL(), engine="cuda")
    with pytest.raises(ValueError, match="olgx must be 2 finite odds"):
        search(segments, bank, jfstat.BSGLtL(jfstat.LinePrior(olgx=[1.0])))
    with pytest.raises(ValueError, match="line_prior of Details differs"):
        search(segments, bank, jfstat.BSGLtL(PRIOR), fstar0=1.0)
    with pytest.raises(TypeError, match="line_prior must be"):
        jfstat.BSGLtL(3.0)
