"""Observations: what metrics, banks and predictions need, from SFTs, from times, or from detectors and a span."""

import cases
import jax
import numpy as np
import pytest

import jfstat

START, DAY = 1_167_458_304, 86400
POINT = jfstat.Doppler(2.0, -0.3, [50.0, -1e-10], reftime=START)
AMPLITUDE = jfstat.Amplitude(1e-25, 0.4, 0.3, 0.2)


def leaves_close(one, other, rtol=1e-12):
    for x, y in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(np.asarray(x, float), np.asarray(y, float), rtol=rtol, atol=1e-12)


def test_times_alone_give_what_prepared_data_hold():
    times = cases.random_timestamps(np.random.default_rng(3), ["H1", "L1"], START, 3, 0.7)
    sfts = jfstat.simulate_sfts(["H1", "L1"], timestamps=times, fmin=49, fmax=51)
    floors = {"H1": 4e-24, "L1": 6e-24}
    data = jfstat.prepare(sfts, 49.95, 50.05, START, sqrt_sx=floors, guard=0.5)
    alone = jfstat.observation(["L1", "H1"], timestamps=times, sqrt_sx=[6e-24, 4e-24], reftime=START)
    leaves_close(alone, data.observation)
    leaves_close(jfstat.observation(sfts, sqrt_sx=floors, reftime=START), data.observation)
    for one in (jfstat.metric, lambda d, p: jfstat.predict_twoF(d, p, AMPLITUDE)):
        np.testing.assert_allclose(one(alone, POINT), one(data, POINT), rtol=1e-9)
    other = jfstat.Doppler(2.001, -0.3, [50.0, -1e-10], reftime=START)
    losses = [float(jfstat.mismatch(seen, POINT, other)) for seen in (alone, data)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)


def test_the_noise_of_sfts_is_that_of_the_band():
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, DAY, 49, 51, sqrt_sx=[4e-24, 8e-24], seed=4)
    data = jfstat.prepare(sfts, 49.95, 50.05, START, guard=0.5)
    low, high = float(data.band.pass_low), float(data.band.pass_high)
    found = jfstat.observation(sfts, fmin=low - 1e-9, fmax=high + 1e-9)
    assert float(found.sinv_tsft) == pytest.approx(float(data.observation.sinv_tsft), rel=5e-3)
    ratio = np.sum(np.asarray(found.weight), axis=1)
    assert ratio[0] / ratio[1] == pytest.approx(4, rel=0.05)


def test_a_span_without_strain():
    found = jfstat.observation(["H1"], START, 2 * DAY)
    assert found.sinv_tsft is None
    assert jfstat.metric(found, POINT).shape == (4, 4)
    with pytest.raises(ValueError, match="without a noise floor"):
        jfstat.predict_twoF(found, POINT, AMPLITUDE)
    louder = jfstat.observation("H1", START, 2 * DAY, sqrt_sx=4e-24)
    quieter = jfstat.observation("H1", START, 2 * DAY, sqrt_sx=8e-24)
    rho2 = [float(jfstat.predict_twoF(x, POINT, AMPLITUDE)) - 4 for x in (louder, quieter)]
    assert rho2[0] == pytest.approx(4 * rho2[1], rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((["H1"],), "start and duration are missing"), ((["H1", "H1"], START, DAY), "different prefixes"),
     ((["H1"], START, 100.0), "shorter than one SFT"), ((3, START, DAY), "different prefixes")],
)  # fmt: skip
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        jfstat.observation(*arguments)


def test_sfts_have_times_of_their_own():
    sfts = jfstat.simulate_sfts(["H1"], START, DAY, 49, 51)
    with pytest.raises(ValueError, match="SFTs have times of their own"):
        jfstat.observation(sfts, START)
    with pytest.raises(ValueError, match="must lie in the SFTs' band"):
        jfstat.observation(sfts, fmin=60, fmax=61)


@pytest.mark.ci
@pytest.mark.parametrize("n_segments", [None, 3])
def test_observations_in_few_sizes_are_the_same_to_metric_and_mismatch(n_segments):
    point, other = (jfstat.Doppler(a, 0.3, [150.0, -1e-9], 1e9) for a in (1.0, 1.0003))

    def seen(days):
        if n_segments is None:
            return jfstat.observation(["H1", "V1"], 1e9, days * 86400, sqrt_sx=4e-24)
        sfts = jfstat.simulate_sfts(["H1"], 1000000000, days * 86400, 149.0, 151.0, sqrt_sx=4e-24, seed=1)
        return jfstat.prepare(sfts, 149.95, 150.05, 1e9, segments=n_segments, filters=False).observation

    whole, longer = seen(2.0), seen(2.75)
    few = whole.in_few_sizes
    assert few.start.shape[-1] > whole.start.shape[-1]
    assert list(map(np.shape, jax.tree.leaves(few))) == list(map(np.shape, jax.tree.leaves(longer.in_few_sizes)))
    for function in (jfstat.mismatch, lambda own, point, other: jfstat.metric(own, point)):
        np.testing.assert_allclose(function(few, point, other), function(whole, point, other), rtol=1e-9)


def test_observations_of_few_sfts_stay_as_they_are():
    """Of these more times in each SFT are looked at, which depends on how many there are."""
    seen = jfstat.observation(["H1"], 1e9, 3 * 1800, sqrt_sx=4e-24)
    assert seen.in_few_sizes is seen


def test_sfts_in_which_detectors_turn_too_far_are_refused():
    sfts = jfstat.simulate_sfts("H1", 1_167_458_304, 86400, 49.9, 50.1, tsft=21600)
    for use in (
        lambda: jfstat.prepare(sfts, 49.99, 50.01, guard=0.01, sqrt_sx=1e-23),
        lambda: jfstat.normalise(sfts, 49.99, 50.01),
        lambda: jfstat.observation("H1", 1_167_458_304, 86400, tsft=21600),
    ):
        with pytest.raises(ValueError, match="SFTs of 21600 s are too long, since 2F would be wrong by up"):
            use()
    assert jfstat.observation("H1", 1_167_458_304, 86400, tsft=14400).detectors == ("H1",)
