"""Points of segments' own lattices of orbits: what templates lose at the nearest, and where they find its values."""

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_orbit_banks import least_losses

import jfstat
from jfstat.banks.orbitgroup import OrbitGroup

START, DAY, PERIOD = 1_167_458_304, 86400, 68023.7
ANGLE = 2 * np.pi
CASES = {
    "Sco X-1": (
        1,
        100,
        dict(asini=(1.45, 3.25), period=(PERIOD - 0.1, PERIOD + 0.1), tp=(START - 4e7, START - 4e7 + 200)),
    ),
    "long": (10, 300, dict(asini=(1.45, 1.55), period=(PERIOD - 0.01, PERIOD + 0.01), tp=(START, START + 100))),
    "short": (0.25, 100, dict(asini=(1.0, 1.4), period=(PERIOD - 2000, PERIOD + 2000), tp=(START, START + 5000))),
    "hours": (1, 50, dict(asini=(0.1, 0.2), period=(25000, 25200), tp=(START, START + 25000))),
    "far": (1, 100, dict(asini=(1.45, 3.25), period=(PERIOD - 0.1, PERIOD + 0.1), tp=(START - 4e8, START - 4e8 + 200))),
    "tiny": (1, 20, dict(asini=(0.0, 0.01), period=(7200, 7210), tp=(START, START + 7200))),
    "ecc": (
        2,
        20,
        dict(
            asini=(1.4, 1.5),
            period=(PERIOD - 1, PERIOD + 1),
            tp=(START, START + PERIOD),
            ecc=(0, 0.02),
            argp=(0, ANGLE),
        ),
    ),
    "ecc only": (
        2,
        50,
        dict(asini=(1.4, 1.402), period=(PERIOD, PERIOD + 0.1), tp=START, ecc=(0.29, 0.3), argp=(1.0, 1.01)),
    ),
    "f1dot": (
        2,
        60,
        dict(asini=(1.4, 1.42), period=(PERIOD - 1, PERIOD + 1), tp=(START, START + 30), f1dot=(-3e-9, 0.0)),
    ),
    "alpha": (1, 300, dict(asini=1.4, period=PERIOD, tp=START, alpha=(4.0, 4.6), delta=0.8)),
    "no orbit": (
        2,
        100,
        dict(asini=0.0, period=PERIOD, tp=(START, START + 1e4), ecc=(0.0, 0.3), argp=(0.0, 1.0), f1dot=(-1e-8, 0.0)),
    ),
    "sky": (
        1,
        60,
        dict(asini=(1.4, 1.42), period=(PERIOD, PERIOD + 1), tp=START, alpha=(4.2, 4.3), delta=(-0.3, -0.2)),
    ),
}


def random_group(name, n, seed=3):
    """Return an observation of one segment with gaps, n random templates as a group, and their frequency."""
    days, f, ranges = CASES[name]
    rng = np.random.default_rng(seed)
    times = cases.random_timestamps(rng, ("H1", "L1"), START, days, 0.8)
    segment = jfstat.observation(list(times), timestamps=times, sqrt_sx=1e-23, reftime=START)
    fixed = dict(alpha=4.276, delta=-0.273, f1dot=0.0, ecc=0.0, argp=0.0)
    at = {name: rng.uniform(*x, n) if isinstance(x, tuple) else np.full(n, x) for name, x in (fixed | ranges).items()}
    orbit = jfstat.Orbit(*(at[name] for name in ("asini", "period", "tp", "ecc", "argp")))
    fkdot = np.column_stack([np.full(n, float(f)), at["f1dot"]])
    stack = jfstat.Doppler(at["alpha"], at["delta"], fkdot, START - 20 * DAY, orbit)
    return segment, OrbitGroup(jax.tree.map(np.asarray, stack)), float(f)


def at_nearest(group, near, f):
    """Return the nearest point of each template, at the frequency at which its values are read."""
    n = len(group)
    points = jax.tree.map(lambda x: x[np.asarray(near.index)[:n]], near.templates)
    fkdot = np.column_stack([f + np.asarray(near.shift)[:, :n].sum(axis=0), points.fkdot[:, 1:]])
    return jfstat.Doppler(points.alpha, points.delta, fkdot, points.reftime, points.orbit)


@pytest.mark.parametrize(
    "name",
    [
        "Sco X-1",
        pytest.param("long", marks=pytest.mark.slow),
        *(pytest.param(name, marks=pytest.mark.ci) for name in CASES if name not in ("Sco X-1", "long")),
    ],
)
def test_nearest_points_lose_no_more_than_asked(name):
    """Of any templates, not only of a lattice, far from the reference time and from periapsis."""
    segment, group, f = random_group(name, 200)
    near = group.nearest(segment, group.stack.reftime.common, f, 0.2)
    assert len(np.unique(near.index)) == len(near.templates.alpha) <= 200
    other = at_nearest(group, near, f)
    here = jax.tree.map(jnp.asarray, group.stack)
    lost = np.asarray(jax.jit(jax.vmap(jfstat.mismatch, (None, 0, 0)))(segment, here, other))
    of_phase = np.asarray(least_losses(segment, here, other))
    assert np.max(of_phase) < 0.2
    # 2F at these very frequencies, of which antenna patterns have a part
    assert 0.02 < np.mean(lost) < 0.12 and np.max(lost) < 0.27
    assert np.mean(lost - of_phase) < 0.02


def test_segments_with_few_sfts_are_compared_where_they_have_data():
    """Segments are padded to the size of the fullest; a sample of times must not be of the padding."""
    _, group, f = random_group("long", 200)
    starts = START, START + 30 * DAY
    times = {"H1": np.concatenate([starts[0] + 1800 * np.arange(480), starts[1] + 28800 * np.arange(30)])}
    sfts = jfstat.simulate_sfts(["H1"], timestamps=times, fmin=f, fmax=f + 0.01, sqrt_sx=None)
    both = jfstat.segment_observations(sfts, [(x, x + 10 * DAY) for x in starts], sqrt_sx=1e-23, reftime=START)
    few = both.segment(1)
    assert few.start.shape[1] >= 480
    near = group.nearest(few, group.stack.reftime.common, f, 0.2)
    here = jax.tree.map(jnp.asarray, group.stack)
    assert np.max(np.asarray(least_losses(few, here, at_nearest(group, near, f)))) < 0.2


def test_points_on_a_device_are_those_on_the_host(monkeypatch):
    segment, group, f = random_group("Sco X-1", 1500)
    reftime = group.stack.reftime.common
    host, order = group.nearest(segment, reftime, f, 0.2), group.order(segment, reftime, f)
    monkeypatch.setattr(OrbitGroup, "on_cpu", False)
    device = OrbitGroup(group.stack).nearest(segment, reftime, f, 0.2)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), host.templates, device.templates)
    np.testing.assert_array_equal(host.index, device.index[:1500])
    np.testing.assert_allclose(host.shift, device.shift[:, :1500], atol=1e-12)
    np.testing.assert_array_equal(np.sort(order), np.arange(1500))


def test_a_group_without_ranges_has_one_point():
    segment, group, f = random_group("Sco X-1", 1)
    stack = jax.tree.map(lambda x: np.repeat(x, 3, axis=0), group.stack)
    near = OrbitGroup(stack).nearest(segment, stack.reftime.common, f, 0.2)
    assert len(near.templates.alpha) == 1 and np.all(near.index == 0) and np.all(np.abs(near.shift) < 1e-15)
    assert float(near.templates.orbit.asini[0]) == pytest.approx(float(stack.orbit.asini[0]), rel=1e-14)
    assert OrbitGroup(stack).order(segment, stack.reftime.common, f).tolist() == [0, 1, 2]


def test_groups_of_far_positions_are_divided():
    _, group, _ = random_group("Sco X-1", 10)
    alpha = np.where(np.arange(10) < 6, 1.0, 3.0)
    stack = jfstat.Doppler(alpha, group.stack.delta, group.stack.fkdot, START, group.stack.orbit)
    assert OrbitGroup(jax.tree.map(np.asarray, stack)).gap == 6
    assert group.gap is None
