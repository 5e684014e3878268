"""Banks for power along tracks, and banks of orbits over segments: random signals, and what is refused."""

import jax
import numpy as np
import pytest
from cases import random_timestamps

import jfstat
from jfstat.banks.comparison import JOINED_BINS, NEAREST_BIN
from jfstat.signal.values import with_fields
from jfstat.statistic.trackpower import sky_position, track

START, DAY, NOISE = 1167458304, 86400, 4e-24
RANGES = {
    "sky": dict(alpha=(1.0, 1.5), delta=(-0.6, -0.1), f1dot=(-2e-8, 0.0)),
    "orbit": dict(alpha=1.0, delta=0.3, orbit=dict(asini=(0.2, 0.3), period=(0.9 * DAY, DAY), tp=(START, START + DAY))),
    "ecc": dict(
        alpha=1.0,
        delta=0.3,
        orbit=dict(asini=(0.2, 0.22), period=DAY, tp=(START, START + 5e3), ecc=(0.0, 0.3), argp=(0.0, 1.0)),
    ),
    "all": dict(
        alpha=(1.0, 1.3),
        delta=(0.3, 0.6),
        orbit=dict(asini=(0.1, 0.15), period=(DAY, 1.1 * DAY), tp=(START, START + DAY)),
    ),
}


def drawn(rng, n, ranges, f):
    given = {name: x for name, x in ranges.items() if name != "orbit"} | ranges.get("orbit", {})
    given = dict(f1dot=0.0) | given
    at = {name: rng.uniform(*x, n) if isinstance(x, tuple) else np.full(n, float(x)) for name, x in given.items()}
    orbit = None
    if "orbit" in ranges:
        orbit = jfstat.Orbit(
            *(at[name] for name in ("asini", "period", "tp")), *(at.get(x, np.zeros(n)) for x in ("ecc", "argp"))
        )
    fkdot = np.stack([np.full(n, f), at["f1dot"]], axis=-1)
    return jfstat.Doppler(at["alpha"], at["delta"], fkdot, START, orbit)


def tracks_of(data, points):
    """Tracks in bins, (n, N), of SFTs that exist."""
    there = np.asarray(data.observation.weight).reshape(-1) > 0

    def one(point):
        return track(data, sky_position(data, point), point, 5)[0].reshape(-1)

    all_tracks = jax.jit(lambda p: jax.lax.map(one, p))(jax.tree.map(np.asarray, points))
    return np.asarray(all_tracks)[:, there] * 1800.0


@pytest.mark.parametrize(
    ("name", "bins"),
    [
        ("sky", 1),
        pytest.param("orbit", 1, marks=pytest.mark.slow),
        *(pytest.param(x, 4, marks=pytest.mark.slow) for x in RANGES),
    ],
)
def test_no_random_signal_is_further_than_the_mismatch(name, bins):
    rng, f, mismatch = np.random.default_rng(3), 60.0, 0.3
    times = random_timestamps(rng, ("H1", "V1"), START, 6.0, 0.6)
    sfts = jfstat.simulate_sfts(list(times), timestamps=times, fmin=f - 1, fmax=f + 1, sqrt_sx=NOISE, seed=1)
    data = jfstat.normalise(sfts, f - 0.01, f, bins=bins, sqrt_sx=NOISE)
    ranges = RANGES[name]
    bank = jfstat.template_bank(**ranges, data=data, mismatch=mismatch, reftime=START)
    assert (bank.orbit is None) == (name == "sky")
    assert set(bank.varied) == {x for x, y in {**ranges, **ranges.get("orbit", {})}.items() if isinstance(y, tuple)}
    fkdot = np.asarray(bank.fkdot).copy()
    fkdot[:, 0] = f
    templates = tracks_of(data, with_fields(bank, fkdot=fkdot))
    n = 300
    signals = tracks_of(data, drawn(rng, n, ranges, f))
    # mean square of the distance, for the best frequency: almost constant in time
    own, other = (x - x.mean(axis=1, keepdims=True) for x in (signals, templates))
    square = np.mean(own**2, axis=1)[:, None] + np.mean(other**2, axis=1) - 2 * own @ other.T / own.shape[1]
    nearest = np.min(square, axis=1)
    lost = (NEAREST_BIN if bins == 1 else JOINED_BINS) * nearest
    assert np.max(lost) < mismatch * 1.01
    assert np.mean(lost) > 0.05 * mismatch  # no waste
    if bins > 1:
        return
    # the power itself, of noiseless signals in their nearest bins
    index = np.argmin(square, axis=1)
    best = templates[index] - np.mean(templates[index] - signals, axis=1, keepdims=True)
    place = rng.uniform(size=(200, 1, 1))  # of the frequency between two bins
    power = np.mean(np.sinc(signals - np.round(best + place) + place) ** 2, axis=(0, 2))
    real = 1 - power / 0.7737
    assert np.all(real < lost + 0.005)
    assert np.all(real > lost - 1.3 * lost**2 - 0.005)  # the metric leaves out the fourth order


@pytest.mark.ci
@pytest.mark.parametrize("tp", [(START, START + 3000), pytest.param((START, START + DAY), marks=pytest.mark.slow)])
def test_orbits_over_segments(tp):
    rng, f, mismatch = np.random.default_rng(4), 30.0, 0.2
    times = random_timestamps(rng, ("H1", "L1"), START, 4.0, 0.8)
    sfts = jfstat.simulate_sfts(list(times), timestamps=times, fmin=f - 0.5, fmax=f + 0.5, sqrt_sx=NOISE, seed=1)
    largest = jfstat.Orbit(0.3, 0.9 * DAY, START)
    data = jfstat.prepare(
        sfts, f, f + 0.001, reftime=START, sqrt_sx=NOISE, segments=4, orbit=largest, guard=0.1, filters=False
    )
    ranges = dict(alpha=1.0, delta=0.3, orbit=dict(asini=(0.2, 0.24), period=(0.99 * DAY, DAY), tp=tp))
    bank = jfstat.template_bank(**ranges, data=data, mismatch=mismatch, reftime=START)
    signals = drawn(rng, 10, ranges, f)

    @jax.jit
    def losses(signal, templates, shifts):
        def at(row):
            template, shift = row
            moved = with_fields(template, fkdot=template.fkdot.at[0].set(signal.fkdot[0] + shift))
            return jfstat.mismatch(data.observation, signal, moved)

        return jax.lax.map(at, (templates, shifts))

    rate, shifts = 2 * np.pi / np.asarray(bank.orbit.period), np.linspace(-1e-6, 1e-6, 5)
    for i in range(10):
        signal = signals[i]
        omega = 2 * np.pi / float(signal.orbit.period)
        middle = START + 2 * DAY
        phase = rate * (middle - np.asarray(bank.orbit.tp)) - omega * (middle - float(signal.orbit.tp))
        apart = np.abs(
            np.asarray(bank.orbit.asini) * np.exp(1j * phase) - float(signal.orbit.asini)
        ) + 0.2 * DAY * np.abs(rate - omega)
        near = np.argsort(apart)[:24]
        rows = jax.tree.map(lambda x, near=near: np.repeat(np.asarray(x)[near], len(shifts), axis=0), bank)
        lost = np.asarray(losses(signal, rows, np.tile(shifts, len(near))))
        assert np.min(lost) < mismatch


def test_mistakes_are_said():
    sfts = jfstat.simulate_sfts(["H1"], START, 2 * DAY, 59.0, 61.0, sqrt_sx=NOISE, seed=1)
    data = jfstat.normalise(sfts, 59.9, 60.0)
    one = jfstat.Orbit(0.3, DAY, START)
    bank = jfstat.template_bank((1.0, 1.2), (0.1, 0.2), orbit=one, data=data, mismatch=0.3)
    assert float(bank.orbit.asini[0]) == 0.3
    two = jfstat.Orbit(np.array([0.3, 0.4]), np.full(2, DAY), np.full(2, float(START)), np.zeros(2), np.zeros(2))
    with pytest.raises(ValueError, match="orbit holds 2 orbits, and NormalisedSFTs take one with a mismatch"):
        jfstat.template_bank((1.0, 1.2), (0.1, 0.2), orbit=two, data=data, mismatch=0.3)
    with pytest.raises(ValueError, match="region cannot go with ranges of orbits, or with NormalisedSFTs"):
        jfstat.template_bank(region="all", data=data, mismatch=0.3)
    braking = jfstat.Braking(age=1e9, index=(2, 7))
    with pytest.raises(ValueError, match="f1dot cannot be a Braking for NormalisedSFTs"):
        jfstat.template_bank(1.0, 0.2, braking, data=data, mismatch=0.3)
    few = jfstat.normalise(jfstat.simulate_sfts(["H1"], START, 1800, 59.0, 61.0, sqrt_sx=NOISE, seed=1), 59.9, 60.0)
    assert len(jfstat.template_bank((1.0, 1.2), (0.1, 0.2), data=few, mismatch=0.3).alpha) >= 1
    with pytest.raises(ValueError, match=r"must span less than 1\.0 rad in a lattice"):
        jfstat.template_bank((0, 6.28), (-1.5, 1.5), data=data, mismatch=0.3)
    with pytest.raises(ValueError, match=r"f1dot, ... have no natural steps for NormalisedSFTs: give .*step"):
        jfstat.template_bank(1.0, 0.2, f1dot=(-1e-9, 0.0), data=data)
    product = jfstat.template_bank(1.0, [0.2, 0.3], f1dot=(-1e-9, 0.0, 1e-10), data=data)
    assert len(product.alpha) == 22
    found = jfstat.search(data, product, top=3, progress=False)
    assert found.meta["n_templates"] == 22
