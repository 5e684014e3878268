"""Segments as a leading axis: cutting, equal layouts, and 2F of each as of data prepared alone."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfstat
from jfstat.data import prepare
from jfstat.reference import direct_twoF

START = 1_167_458_304
DAY = 86400


@pytest.fixture(scope="module")
def signal():
    doppler = jfstat.Doppler(1.7, 0.4, [80.0, -3e-10], reftime=START + 3 * DAY)
    return doppler, jfstat.Amplitude(h0=3e-25, cosi=0.3, psi=0.2, phi0=1.0)


@pytest.fixture(scope="module")
def sfts(signal):
    rng = np.random.default_rng(1)
    times = {}
    for name in ("H1", "L1"):
        kept = rng.random(480) < 0.85
        kept[[0, 479]] = True
        times[name] = START + 1800 * np.flatnonzero(kept)
    return jfstat.simulate_sfts(["H1", "L1"], timestamps=times, fmin=78.8, fmax=81.2, signals=[signal], seed=2)


@pytest.fixture(scope="module")
def segments(sfts):
    return jfstat.prepare(sfts, 79.95, 80.05, START + 3 * DAY, sqrt_sx=4e-24, segments=10)


@pytest.mark.ci
def test_segments_say_what_they_cover(segments, sfts):
    said = repr(segments)
    words = (
        "FstatData of H1, L1\n",
        f"GPS {int(sfts.start)} to {int(sfts.end)}, 10 d",
        "10 of ",
        "79.95 to 80.0",
        "guard",
    )
    assert all(word in said for word in words)
    assert "GPS" not in repr(jax.tree.map(jnp.shape, segments))


def test_vmap_over_segments_equals_one_by_one(segments, signal):
    point, _ = signal
    together = jax.vmap(jfstat.twoF, (0, None))(segments, point)
    each = [float(jfstat.twoF(segments[i], point)) for i in range(10)]
    np.testing.assert_allclose(together, each, rtol=1e-12)
    assert np.mean(each) > 10  # the signal is there in all of them


@pytest.mark.parametrize("filters", [True, False])
def test_segments_are_the_same_however_many_are_prepared_at_a_time(sfts, filters, monkeypatch):
    made = []
    for at_a_time, cores in ((4, 3), (1, 1)):
        monkeypatch.setattr(prepare, "AT_A_TIME", at_a_time)
        monkeypatch.setattr(prepare, "cores", lambda own=cores: own)
        made.append(jax.tree.leaves(jfstat.prepare(sfts, 79.95, 80.05, segments=10, filters=filters)))
    assert len(made[0]) == len(made[1]) > 20
    for own, other in zip(*made, strict=True):
        np.testing.assert_array_equal(own, other)


def test_of_several_segments_that_cannot_be_prepared_the_first_is_named(sfts):
    broken = [replace(series, data=series.data.copy()) for series in sfts]
    for row in (400, 100, 250):
        broken[0].data[row, 1000] = np.nan
    with pytest.raises(ValueError, match=f"the SFT of H1 at GPS {broken[0].gps[100]} has bins that are not finite"):
        jfstat.prepare(replace(sfts, series=tuple(broken)), 79.95, 80.05, segments=10)


def test_a_segment_is_what_prepare_makes_of_its_sfts(sfts, segments, signal):
    point, _ = signal
    for i in (0, 4, 9):
        part = sfts.select(START + i * DAY, START + (i + 1) * DAY)
        alone = jfstat.prepare(part, 79.95, 80.05, START + 3 * DAY, sqrt_sx=4e-24)
        # other lengths of transforms and filters, hence not the same to rounding
        assert float(jfstat.twoF(alone, point)) == pytest.approx(float(jfstat.twoF(segments[i], point)), rel=2e-3)


def test_segments_hold_the_exact_sum(segments, signal):
    point, _ = signal
    for i in (0, 7):
        exact = direct_twoF(segments[i], point, np.array([80.0]))[0]
        assert float(jfstat.twoF(segments[i], point)) == pytest.approx(exact, rel=1e-6)


def test_segments_share_layout_and_frequencies(segments):
    assert segments.n_segments == 10
    layouts = {segments[i].layout.n_fft for i in range(10)}
    assert len(layouts) == 1
    for i in range(10):
        np.testing.assert_array_equal(segments[i].frequencies, segments.frequencies)
    assert 1 / (2 * segments.tspan) == pytest.approx(np.diff(segments.frequencies)[0], rel=1e-6)
    assert 0.9 * DAY < segments.tspan <= 1.01 * DAY
    bands = jax.vmap(jfstat.twoF_band, (0, None))(segments, jfstat.Doppler(1.7, 0.4, [80.0, -3e-10], START + 3 * DAY))
    assert bands.shape == (10, len(segments.frequencies)) and bool(jnp.all(jnp.isfinite(bands)))
    loudest = np.mean(bands, axis=0).argmax()
    assert segments.frequencies[loudest] == pytest.approx(80.0, abs=1e-5)


def test_functions_of_one_segment_refuse_several(segments, signal):
    with pytest.raises(ValueError, match="data has 10 segments"):
        jfstat.twoF(segments, signal[0])
    with pytest.raises(IndexError):
        segments[10]
    with pytest.raises(TypeError):
        segments[0][0]


def test_durations_and_pairs(sfts):
    by_duration = jfstat.prepare(sfts, 79.95, 80.05, segments=2.5 * DAY, filters=False)
    assert by_duration.n_segments == 4
    pairs = [(START, START + 2 * DAY), (START + 5 * DAY, START + 6 * DAY)]
    given = jfstat.prepare(sfts, 79.95, 80.05, segments=pairs, filters=False)
    assert given.n_segments == 2
    counts = np.sum(np.asarray(given.observation.weight) > 0, axis=(1, 2))
    assert counts.tolist() == [len(sfts.select(a, b)) for a, b in pairs]


@pytest.mark.ci
def test_segments_of_one_length_are_what_prepare_makes_of_them():
    """Over a leap second, with starts at fractions of a second, far from the reference time."""
    start = 1_167_264_018 - 2 * DAY + 0.25  # the leap second at the end of 2016 in the third day
    reftime = 1_167_264_018 - 200 * DAY
    point = jfstat.Doppler(1.7, 0.4, [80.0, -1e-10], reftime)
    signal = (point, jfstat.Amplitude(h0=6e-25, cosi=0.3, psi=0.2, phi0=1.0))
    sfts = jfstat.simulate_sfts(["H1", "L1"], start, 5 * DAY, 78.8, 81.2, signals=[signal], seed=3)
    segments = jfstat.prepare(sfts, 79.95, 80.06, reftime, sqrt_sx=4e-24, segments=5, filters=False)
    for i in range(5):
        part = sfts.select(start + i * DAY, start + (i + 1) * DAY)
        alone = jfstat.prepare(part, 79.95, 80.06, reftime, sqrt_sx=4e-24, filters=False)
        assert jax.tree.structure(alone) == jax.tree.structure(segments)
        found, own = jfstat.fstat(segments[i], point), jfstat.fstat(alone, point)
        # the pass band of all segments is wider than that of one: noise beyond it leaks in otherwise, by its low-pass
        assert float(found.twoF) == pytest.approx(float(own.twoF), rel=1e-4)
        np.testing.assert_allclose([found.Fa, found.Fb], [own.Fa, own.Fb], rtol=1e-4)
        estimates = [jfstat.estimate_amplitude(data, point) for data in (segments[i], alone)]
        assert float(estimates[0].amplitude.phi0) == pytest.approx(float(estimates[1].amplitude.phi0), abs=1e-4)
        apart = (float(estimates[0].amplitude.phi0) - 1.0 + np.pi) % (2 * np.pi) - np.pi
        assert abs(apart) < 5 * float(estimates[0].errors.phi0)


def test_every_sft_is_in_one_segment(sfts):
    data = jfstat.prepare(sfts, 79.95, 80.05, segments=7, filters=False)
    assert int(np.sum(np.asarray(data.observation.weight) > 0)) == len(sfts)


def test_segments_without_data(sfts):
    gap = sfts.select(START, START + DAY).joined(sfts.select(START + 4 * DAY, START + 5 * DAY))
    with pytest.warns(UserWarning, match=r"3 of 5 segments hold no SFT and are left out: 1 \(GPS"):
        data = jfstat.prepare(gap, 79.95, 80.05, segments=float(DAY), filters=False)
    assert data.n_segments == 2
    with pytest.raises(ValueError, match=r"segments without SFTs: 1 \(GPS"):
        jfstat.prepare(gap, 79.95, 80.05, segments=[(START, START + DAY), (START + 2 * DAY, START + 3 * DAY)])


def test_a_detector_missing_in_a_segment(sfts, signal):
    point, _ = signal
    partly = sfts.select(START, START + DAY).joined(sfts.select(START + DAY, START + 2 * DAY, detectors="H1"))
    data = jfstat.prepare(partly, 79.95, 80.05, START + 3 * DAY, sqrt_sx=4e-24, segments=float(DAY))
    alone = jfstat.prepare(
        sfts.select(START + DAY, START + 2 * DAY, "H1"), 79.95, 80.05, START + 3 * DAY, sqrt_sx=4e-24
    )
    found = jfstat.fstat(data[1], point)
    assert float(found.twoF) == pytest.approx(float(jfstat.twoF(alone, point)), rel=2e-3)
    assert float(found.twoF_per_detector[1]) == 4  # no data, the mean of noise


@pytest.mark.parametrize(
    ("segments", "message"),
    [(0, "number from 1"), (10**6, "number from 1"), (10.0, "shorter than an SFT"), ([(2, 1)], "start < end"),
     ([(START, START + DAY), (START + 100, START + 2 * DAY)], "overlap"), ("ten", "pairs"), (True, "pairs")],
)  # fmt: skip
def test_bad_segments_are_refused(sfts, segments, message):
    with pytest.raises(ValueError, match=message):
        jfstat.prepare(sfts, 79.95, 80.05, segments=segments, filters=False)


def test_select_and_join(sfts):
    middle = START + 5 * DAY + 100
    early, late = sfts.select(end=middle), sfts.select(start=middle)
    again = jfstat.join_sfts([late, early])
    assert again.detectors == sfts.detectors and len(again) == len(sfts)
    for one, other in zip(again, sfts, strict=True):
        np.testing.assert_array_equal(one.gps, other.gps)
        np.testing.assert_array_equal(one.data, other.data)
    assert sfts.select(detectors="L1").detectors == ("L1",)
    by_detector = sfts.select(detectors=["L1"]).joined(sfts.select(detectors=["H1"]))
    assert by_detector.detectors == ("H1", "L1")


def test_bad_selections_and_joins_are_refused(sfts):
    with pytest.raises(ValueError, match="detectors has 'V1'"):
        sfts.select(detectors="V1")
    with pytest.raises(ValueError, match="no SFT of H1, L1 starts in"):
        sfts.select(start=START + 100 * DAY)
    with pytest.raises(ValueError, match="overlap at GPS"):
        sfts.joined(sfts)
    other = jfstat.simulate_sfts(["H1"], START + 20 * DAY, DAY, 78.0, 79.0)
    with pytest.raises(ValueError, match="another band"):
        sfts.joined(other)
    with pytest.raises(ValueError, match="at least one"):
        jfstat.join_sfts([])
