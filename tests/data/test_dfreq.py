"""A spacing of frequencies of one's own: exactly the frequencies asked for, and 2F right at each of them."""

from dataclasses import asdict

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from searches import search

import jfstat
from jfstat.commandline import main
from jfstat.data.observation import Span
from jfstat.data.plan import Search, plan_bands
from jfstat.data.subband import subband
from jfstat.engines.cuda.engine import Cuda
from jfstat.signal.times import gps_time

START, F0 = 1167458304, 100.0
POINT = jfstat.Doppler(1.0, 0.3, [F0, -1e-9], reftime=START)


@pytest.fixture(scope="module")
def sfts():
    signal = POINT, jfstat.Amplitude(h0=3e-25, cosi=0.3, psi=0.2, phi0=0.1)
    return jfstat.simulate_sfts(
        ["H1", "L1"], start=START, duration=43200, fmin=98.9, fmax=101.1, sqrt_sx=4e-24, signals=[signal], seed=1
    )


def direct(data, frequencies):
    fkdot = np.stack([frequencies, np.full(len(frequencies), -1e-9)], axis=-1)
    points = jfstat.Doppler(np.full(len(frequencies), 1.0), np.full(len(frequencies), 0.3), fkdot, START)
    return np.asarray(jax.vmap(jfstat.twoF, (None, 0))(data, points))


DFREQS = (2.3e-6, np.pi * 1e-5, 1.234e-3, 1 / 120)


@pytest.mark.parametrize(
    "dfreq", [pytest.param(x, marks=pytest.mark.slow if x == 1.234e-3 else pytest.mark.ci) for x in DFREQS]
)
def test_the_band_has_the_spacing_and_the_values_of_the_direct_sum(sfts, dfreq):
    data = jfstat.prepare(sfts, F0 - 0.03, F0 + 0.03, sqrt_sx=4e-24, dfreq=dfreq)
    assert data.dfreq == dfreq
    np.testing.assert_array_equal(data.frequencies, F0 - 0.03 + dfreq * np.arange(len(data.frequencies)))
    assert data.frequencies[-1] <= F0 + 0.03 + 1e-12 < data.frequencies[-1] + dfreq
    values = np.asarray(jfstat.twoF_band(data, POINT))
    some = np.unique(np.linspace(0, len(values) - 1, 24).astype(int))
    expected = direct(data, data.frequencies[some])
    # at the edges of the band the interpolation is right to some 1e-5
    np.testing.assert_allclose(values[some], expected, rtol=1e-4, atol=4e-4)


def test_the_default_is_half_a_bin_and_is_not_changed(sfts):
    data = jfstat.prepare(sfts, F0 - 0.01, F0 + 0.01, sqrt_sx=4e-24)
    own = jfstat.prepare(sfts, F0 - 0.01, F0 + 0.01, sqrt_sx=4e-24, dfreq=1 / 86400)
    assert data.dfreq == 1 / (2 * data.tspan) == own.dfreq
    assert asdict(data.layout) == asdict(own.layout)
    np.testing.assert_array_equal(jfstat.twoF_band(data, POINT), jfstat.twoF_band(own, POINT))


@pytest.mark.ci
def test_a_finer_spacing_finds_the_peak_between_the_bins(sfts):
    coarse, fine = (
        jfstat.prepare(sfts, F0 - 0.4 / 86400, F0 + 1e-4, sqrt_sx=4e-24, dfreq=d) for d in (None, 0.2 / 86400)
    )
    peaks = [float(np.max(jfstat.twoF_band(x, POINT))) for x in (coarse, fine)]
    assert peaks[1] >= float(jfstat.twoF(fine, POINT)) - 1e-3
    assert peaks[0] < peaks[1] * 0.99


@pytest.mark.ci
def test_search_tells_the_spacing_and_searches_its_frequencies(sfts):
    data = jfstat.prepare(sfts, F0 - 0.01, F0 + 0.01, sqrt_sx=4e-24, dfreq=7e-6)
    found = jfstat.search(data, POINT, top=5, progress=False)
    assert found.meta["dfreq"] == 7e-6
    assert found.meta["n_twoF"] == len(data.frequencies) == 2858
    k = (found["freq"].value - data.frequencies[0]) / 7e-6
    np.testing.assert_allclose(k, np.rint(k), atol=1e-6)
    np.testing.assert_allclose(found["twoF"], direct(data, found["freq"].value), rtol=1e-5)


@pytest.mark.ci
def test_a_band_in_parts_has_the_same_frequencies(sfts):
    data = jfstat.prepare(sfts, F0 - 0.03, F0 + 0.03, sqrt_sx=4e-24, dfreq=5e-6)
    part = subband(data, 4000, 3000)
    np.testing.assert_allclose(part.frequencies, data.frequencies[4000:7000], rtol=0, atol=3e-14)
    whole = np.asarray(jfstat.twoF_band(data, POINT))[4000:7000]
    np.testing.assert_allclose(jfstat.twoF_band(part, POINT), whole, rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize(
    ("width", "dfreq", "count"), [(2e-4, 1e-5, 21), (0.06, 2e-6, 30001), (0.1, 1e-3, 101), (0.03, 0.0071, 5)]
)
def test_bands_of_whole_spacings_keep_their_ends(sfts, width, dfreq, count):
    data = jfstat.prepare(sfts, F0, F0 + width, sqrt_sx=4e-24, dfreq=dfreq, filters=False)
    assert len(data.frequencies) == count


def test_one_frequency_stays_one(sfts):
    assert len(jfstat.prepare(sfts, F0, F0, sqrt_sx=4e-24, dfreq=1e-7, filters=False).frequencies) == 1


@pytest.mark.ci
def test_segments(sfts):
    data = jfstat.prepare(sfts, F0 - 0.002, F0 + 0.002, sqrt_sx=4e-24, dfreq=1e-5, segments=2)
    assert data.dfreq == 1e-5
    values = jax.vmap(jfstat.twoF_band, (0, None))(data, POINT)
    own = direct(data[1], data.frequencies[::80])
    np.testing.assert_allclose(values[1][::80], own, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dfreq", [0.0, -1e-6, np.nan, 0.1, "x"])
def test_spacings_that_make_no_sense_are_refused(sfts, dfreq):
    with pytest.raises(ValueError, match="dfreq must be"):
        jfstat.prepare(sfts, F0 - 0.01, F0 + 0.01, sqrt_sx=4e-24, dfreq=dfreq)


@settings(max_examples=40, deadline=None)
@given(st.floats(-7.5, -2.1), st.floats(0, 0.02))
def test_frequencies_never_leave_the_band(sfts, exponent, width):
    dfreq = 10.0**exponent
    search = Search(F0, F0 + width, 1.0, None, None, dfreq)
    (plan,) = plan_bands(sfts, search, gps_time(START, "reftime"), [Span.of(sfts)])
    layout, rounding = plan.layout, 5e-14
    assert (layout.n_frequencies - 1) * dfreq <= width + rounding
    assert layout.n_frequencies * dfreq > width - rounding
    # the transform holds a whole number of samples, and its bins have the spacing exactly
    assert 1 / (2 * layout.n_fft * float(plan.band.dtau)) == pytest.approx(dfreq, rel=1e-15)
    assert layout.n_fft % layout.block == layout.block % layout.run == 0
    assert layout.n_blocks * layout.block >= layout.n_fft


@pytest.mark.ci
def test_the_program_spaces_as_ComputeFstatistic_v2_does(sfts, tmp_path):
    """Frequencies and counts of both programs, and 2F near the signal."""
    tools = pytest.importorskip("lalsuite_tools", reason="needs LALSuite", exc_type=ImportError)
    jfstat.write_sfts(sfts, tmp_path)
    theirs = tools.compute_fstatistic(tmp_path, POINT, 0.0011, 3.7e-6, "DemodBest", assumeSqrtSX="4e-24,4e-24")
    options = [f"--DataFiles={tmp_path}/*.sft", f"--Freq={F0}", "--FreqBand=0.0011", "--dFreq=3.7e-6", "--Alpha=1"]
    options += ["--Delta=0.3", "--f1dot=-1e-9", f"--refTime={START}", "--assumeSqrtSX=4e-24", "--NumCandidatesToKeep=0"]
    assert main(["search", *options, "--TwoFthreshold=0", "--noDetails", f"--outputFstat={tmp_path}/own.ecsv"]) == 0
    own = jfstat.read_candidates(tmp_path / "own.ecsv")
    own.sort("freq")
    assert len(own) == len(theirs)
    np.testing.assert_allclose(own["freq"].value, theirs[:, 0], rtol=0, atol=1e-10)
    loud = theirs[:, 1] > 40
    assert loud.any()
    np.testing.assert_allclose(own["twoF"][loud], theirs[loud, 1], rtol=0.05)


@pytest.mark.ci
def test_the_checkpoint_of_another_spacing_is_refused(sfts, tmp_path):
    path = tmp_path / "search.checkpoint"
    first, second = (jfstat.prepare(sfts, F0, F0, sqrt_sx=4e-24, dfreq=d) for d in (1e-6, 2e-6))
    jfstat.search(first, POINT, checkpoint=path, progress=False)
    with pytest.raises(ValueError, match=r"dfreq \(1e-06 there, 2e-06 here\)"):
        jfstat.search(second, POINT, checkpoint=path, progress=False)


def test_the_kernels_are_used_where_they_fold_once_at_most(sfts):
    layouts = [
        jfstat.prepare(sfts, F0, F0 + w, sqrt_sx=4e-24, dfreq=d, filters=False).layout
        for w, d in ((0.05, 5e-6), (0.5, 1e-4))
    ]
    kernels, device = Cuda(emulate=True), jax.devices("cpu")[0]
    assert [kernels.usable(layout, device) for layout in layouts] == [True, False]


@pytest.mark.ci
def test_both_backends_give_the_same_table_at_a_finer_spacing(monkeypatch):
    """With the kernels emulated."""
    sfts = jfstat.simulate_sfts(["H1"], START, 7200, 48.5, 51.5, sqrt_sx=4e-24, seed=1)
    data = jfstat.prepare(sfts, 50.0, 50.1, sqrt_sx=4e-24, dfreq=2.1e-5)
    point = jfstat.Doppler(0.1, 0.3, [50.0, -1e-9], START)
    options = dict(top=5, progress=False, per_detector=False)
    expected = search(data, point, **options)
    monkeypatch.setattr("jfstat.searching.statistics.coherent.engine_for", lambda *arguments: Cuda(emulate=True))
    found = search(data, point, **options)
    assert found.meta["engine"] == "cuda"
    np.testing.assert_array_equal(found["freq"], expected["freq"])
    np.testing.assert_allclose(found["twoF"], expected["twoF"], rtol=1e-5)
