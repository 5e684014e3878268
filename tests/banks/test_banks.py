"""Metric lattices: their thickness, the metric under them, the regions, and that nothing is left uncovered."""

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from astropy import units as u
from astropy.coordinates import SkyCoord
from scipy.spatial import KDTree

import jfstat
from jfstat.banks.covering import all_templates, cover_region
from jfstat.banks.patches import icosahedron, triangle_around
from jfstat.banks.regions import Box, Disc, Polygon, WholeSky
from jfstat.banks.space import ParameterSpace
from jfstat.maths.boxes import MetricBox, distance_to_box
from jfstat.maths.lattices import (
    covering_lattice,
    expected_points,
    integers_between,
    lattice_generator,
    log_determinant,
    lower_factor,
)
from jfstat.maths.vectors import angles, tangents, unit_vector
from jfstat.metrics.phasemetric import drift, factor, flat_metric, restricted
from jfstat.signal.times import gps_time

START = 1167458304
YEAR = 365 * 86400


def make_data(days, f, signals=()):
    """Two detectors with gaps, no noise; a narrow band."""
    times = cases.random_timestamps(np.random.default_rng(1), ("H1", "L1"), START, days, 0.8)
    reach = 0.31 + 1.1e-4 * f
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], timestamps=times, fmin=f - reach, fmax=f + reach, sqrt_sx=None, signals=signals
    )
    return jfstat.prepare(sfts, f - 0.01, f + 0.01, sqrt_sx=1e-23, guard=0.2)


@pytest.fixture(scope="module")
def day():
    return make_data(1, 60.0)


@pytest.fixture(scope="module")
def ten_days():
    return make_data(10, 50.0)


def random_sky(rng, n):
    x = rng.normal(size=(n, 3))
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def sky_in(region, rng, n):
    """Positions spread over a region, (n, 3)."""
    centre, radius = region.cap
    axes = tangents(centre)
    found = np.empty((0, 3))
    while len(found) < n:
        chord = 2 * np.sin(0.5 * radius) * np.sqrt(rng.uniform(size=50000))
        polar, turn = 2 * np.arcsin(0.5 * chord), rng.uniform(0, 2 * np.pi, 50000)
        ring = np.stack([np.cos(turn), np.sin(turn)], axis=-1) @ axes
        x = np.cos(polar)[:, None] * centre + np.sin(polar)[:, None] * ring
        found = np.concatenate([found, x[region.contains(x)]])
    return found[:n]


def _reftime(bank, data):
    """Reference time of a bank, whose templates all have the same."""
    return data.observation.reftime if bank.reftime is None else bank.reftime.common


def mismatches(data, bank, region, ranges, n=3000):
    """Of random points in a region to the nearest template, 2F maximised over frequency, by the flat metric."""
    rng = np.random.default_rng(2)
    low, high = np.array(ranges, float).reshape(-1, 2).T
    r = factor(data.observation, len(low), _reftime(bank, data), float(data.frequencies[-1]))[1:, 1:]
    points = np.concatenate([rng.uniform(low, high, (n, len(low))), sky_in(region, rng, n)], axis=1)
    templates = np.concatenate([bank.fkdot[:, 1:], unit_vector(np.asarray(bank.alpha), np.asarray(bank.delta))], axis=1)
    middle = np.mean(points, axis=0)
    return KDTree((templates - middle) @ r.T).query((points - middle) @ r.T)[0] ** 2


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_balls_of_radius_one_just_cover(n):
    generator = covering_lattice(n)
    np.testing.assert_array_equal(generator, np.tril(generator))
    rng = np.random.default_rng(n)
    x = rng.uniform(size=(20000, n)) @ generator.T
    near = np.indices((5,) * n).reshape(n, -1).T - 2
    distance = KDTree((near + 0.0) @ generator.T).query(x - 0.5 * np.sum(generator, axis=1))[0]
    assert 0.9 < np.max(distance) <= 1 + 1e-12
    volume = {1: 1.0, 2: 1.2092, 3: 1.4635, 4: 1.7655, 5: 2.1243}[n]  # Conway & Sloane, table 2.1
    ball = [2, np.pi, 4 * np.pi / 3, np.pi**2 / 2, 8 * np.pi**2 / 15][n - 1]
    assert ball / np.prod(np.diag(generator)) == pytest.approx(volume, rel=1e-4)


def test_lower_factor_and_integers():
    g = np.cov(np.random.default_rng(0).normal(size=(4, 20)))
    lower = lower_factor(g)
    np.testing.assert_allclose(lower.T @ lower, g, rtol=1e-12)
    np.testing.assert_array_equal(lower, np.tril(lower))
    which, integer = integers_between(np.array([-1.5, 0.2, 3.0]), np.array([1.0, 0.8, 4.0]))
    np.testing.assert_array_equal(which, [0, 0, 0, 2, 2])
    np.testing.assert_array_equal(integer, [-1, 0, 1, 3, 4])


@pytest.mark.parametrize("k", [1, 2, 3])
def test_distance_to_a_box_against_many_points_of_it(k):
    rng = np.random.default_rng(k)
    shape, low, high = rng.normal(size=(k, k)) + 2 * np.eye(k), -np.ones(k), np.arange(k) * 1.0
    x = rng.uniform(-4, 5, size=(20, k))
    inside = np.stack(np.meshgrid(*(np.linspace(a, b, 60) for a, b in zip(low, high, strict=True)))).reshape(k, -1).T
    offset = (x[:, None] - inside) @ shape.T
    truth = np.min(np.sum(offset**2, axis=-1), axis=1)
    found = distance_to_box(x, low, high, shape)
    assert np.all(found <= truth * (1 + 1e-9))
    np.testing.assert_allclose(np.sqrt(found), np.sqrt(truth), atol=0.2)
    # turning a metric's factor leaves the metric as it is; diagonal ones go by a shorter way
    diagonal, turn = np.diag(rng.uniform(0.5, 2, k)), np.linalg.qr(rng.normal(size=(k, k)))[0]
    both = [distance_to_box(x, low, high, own) for own in (diagonal, turn @ diagonal)]
    np.testing.assert_allclose(*both, atol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_lattice_points_and_volume_near_a_box(k):
    rng = np.random.default_rng(k)
    factor = np.tril(rng.normal(size=(k, k)), -1) + np.diag(rng.uniform(1, 2, k))
    box = MetricBox(-np.ones(k), np.arange(k) * 1.0, factor, 0.7)
    generator = lattice_generator(factor, 0.5 * covering_lattice(k))
    offset = rng.uniform(size=(3, k))
    integers = np.stack(np.meshgrid(*[np.arange(-12, 13)] * k), axis=-1).reshape(-1, k)
    which, points = box.lattice_points(generator, offset)
    for i in range(3):
        every = offset[i] + integers @ generator.T
        expected = every[box.is_near(every)]
        found = points[which == i]
        assert len(found) == len(expected)
        assert np.max(KDTree(expected).query(found)[0]) < 1e-12
    x = rng.uniform(-4, 6, size=(30_000, k))
    assert np.mean(box.is_near(x)) * 10**k == pytest.approx(np.exp(box.log_volume), rel=0.1)
    count = expected_points(box.log_volume + log_determinant(factor), k, 0.5)
    assert len(points) / 3 == pytest.approx(count, rel=0.25)


@pytest.mark.parametrize("away", [0, YEAR])
def test_flat_metric_against_the_phase_metric_of_a_point(ten_days, away):
    point = jfstat.Doppler(1.2, 0.4, [50.0, -1e-10, 0.0], START - away)
    g = np.asarray(jfstat.metric(ten_days, point, phase_only=True))
    slope = np.zeros((6, 5))
    slope[:3, :3] = np.eye(3)
    slope[3:, 3:] = jax.jacfwd(
        lambda x: jnp.stack([jnp.cos(x[1]) * jnp.cos(x[0]), jnp.cos(x[1]) * jnp.sin(x[0]), jnp.sin(x[1])])
    )(jnp.array([1.2, 0.4]))
    seen, distant = ten_days.observation, gps_time(START - away, "reftime")
    r = factor(seen, 2, distant, 50.0)
    np.testing.assert_allclose(r.T @ r, flat_metric(seen, 2, distant, 50.0))
    flat = slope.T @ r.T @ r @ slope
    size = np.sqrt(np.diag(g))
    np.testing.assert_allclose(flat / size / size[:, None], g / size / size[:, None], atol=3e-3)
    # the sky once frequency and spin-downs are maximised over, wherever these hold; n.r/c in tau is 1e-4
    left, same = r[3:, 3:], factor(seen, 2, gps_time(START, "reftime"), 50.0)[3:, 3:]
    np.testing.assert_allclose(left.T @ left, same.T @ same, rtol=1e-5, atol=1e-7 * np.max(same) ** 2)
    held = restricted(r, [0, 2, 3, 4, 5])
    np.testing.assert_allclose(held.T @ held, (r.T @ r)[np.ix_([0, 2, 3, 4, 5], [0, 2, 3, 4, 5])], rtol=1e-9)
    step = np.concatenate([-drift(r, 3), np.eye(3)]) @ [1e-4, -2e-4, 3e-4]
    assert np.linalg.norm(r @ step) == pytest.approx(np.linalg.norm(left @ [1e-4, -2e-4, 3e-4]), rel=1e-3)


REGIONS = {
    "disc": Disc(unit_vector(1.0, 0.5), 0.2),
    "box": Box(6.2, 0.3, -0.2, 0.1),
    "wide box": Box(1.0, 4.0, -0.3, 1.2),
    "ring": Box(0.5, 2 * np.pi, 0.9, 1.1),
    "polygon": Polygon(unit_vector(np.array([1.0, 1.4, 1.1, 1.05]), np.array([0.2, 0.3, 0.6, 0.35]))),
}
AREAS = {
    "disc": 2 * np.pi * (1 - np.cos(0.2)),
    "box": 0.3 * (np.sin(0.1) + np.sin(0.2)),
    "wide box": 4 * (np.sin(1.2) + np.sin(0.3)),
    "ring": 2 * np.pi * (np.sin(1.1) - np.sin(0.9)),
}


@pytest.mark.parametrize("name", REGIONS)
def test_regions_are_inside_their_cap_and_their_boundary(name):
    region, rng = REGIONS[name], np.random.default_rng(0)
    sky = random_sky(rng, 400000)
    inside = region.contains(sky)
    if name in AREAS:
        assert np.mean(inside) * 4 * np.pi == pytest.approx(AREAS[name], rel=0.06)
    centre, radius = region.cap
    assert np.all(sky[inside] @ centre >= np.cos(radius) - 1e-9)
    lines = region.boundary(0.01)
    for line in lines:
        assert np.max(np.linalg.norm(np.diff(line, axis=0), axis=-1)) < 0.0101
        np.testing.assert_allclose(line[0], line[-1], atol=1e-12)
        np.testing.assert_allclose(np.linalg.norm(line, axis=-1), 1)
    # between a point inside and one outside that are close there is the boundary
    near = KDTree(sky).query(sky[inside], k=2)
    crossing = ~inside[near[1][:, 1]]
    distance = KDTree(np.concatenate(lines)).query(sky[inside][crossing])[0]
    assert crossing.any()
    assert np.all(distance <= near[0][crossing, 1] + 0.01)


def test_triangles_make_up_the_sphere():
    triangles = icosahedron()
    assert sum(triangle.area for triangle in triangles) == pytest.approx(4 * np.pi)
    sky = random_sky(np.random.default_rng(0), 5000)
    np.testing.assert_array_equal(sum(triangle.contains(sky).astype(int) for triangle in triangles), 1)
    parts = triangles[3].divided()
    assert sum(triangle.area for triangle in parts) == pytest.approx(triangles[3].area)
    np.testing.assert_array_equal(sum(x.contains(sky).astype(int) for x in parts), triangles[3].contains(sky))
    centre = unit_vector(2.0, -1.5)
    assert np.all(triangle_around(centre, 0.3).contains(np.concatenate(Disc(centre, 0.3).boundary(0.01))))
    points = triangles[0].samples()[0]
    np.testing.assert_allclose(triangles[0].lift(triangles[0].project(points)), points, atol=1e-12)


SKY = SkyCoord([1.0, 1.3, 1.1], [-0.2, -0.1, 0.2], unit="rad")
CORNERS = unit_vector(np.array([1.0, 1.3, 1.1]), np.array([-0.2, -0.1, 0.2]))


@pytest.mark.ci
@pytest.mark.parametrize(
    ("days", "where", "region", "spins", "mismatch", "away"),
    [
        (10, {"region": (SkyCoord(2, -0.8, unit="rad"), 0.3)}, Disc(unit_vector(2, -0.8), 0.3), [(0, 0)], 0.2, 0),
        (10, {"region": SKY}, Polygon(CORNERS), [(-3e-11, 0)], 0.1, 0),
        (
            10,
            {"alpha": (6.2, 0.1), "delta": (0.3, 0.5)},
            Box(6.2, 0.1 + 2 * np.pi - 6.2, 0.3, 0.5),
            [(-1e-9, 0)],
            0.3,
            0,
        ),
        (10, {"alpha": (1.0, 1.001), "delta": (0.3, 0.3)}, Box(1.0, 0.001, 0.2999, 0.3001), [(-1e-9, 0)], 0.1, 0),
        (10, {"region": SKY}, Polygon(CORNERS), [(-1e-10, 0), (0, 3e-18)], 0.3, YEAR),
        (1, {"region": SKY}, Polygon(CORNERS), [(-1e-9, 0), (0, 3e-13)], 0.3, 0),
        (1, {"region": "all"}, WholeSky(), [(0, 0)], 0.1, 0),
        (1, {"region": "all"}, WholeSky(), [(-2e-9, 1e-9)], 0.3, YEAR),
        (10, {"alpha": (1.0, 4.0), "delta": (1.2, 1.4)}, Box(1.0, 3.0, 1.2, 1.4), [(0, 0)], 0.3, 0),
    ],
)
def test_every_point_is_near_a_template(day, ten_days, days, where, region, spins, mismatch, away):
    data = {1: day, 10: ten_days}[days]
    names = dict(zip(("f1dot", "f2dot"), spins, strict=False))
    bank = jfstat.template_bank(**where, **names, mismatch=mismatch, data=data, reftime=START - away)
    found = mismatches(data, bank, region, spins)
    assert np.max(found) <= mismatch
    assert np.max(found) > 0.2 * mismatch  # or it has far too many templates
    assert bank.reftime == START - away
    position = np.stack([bank.alpha, bank.delta], axis=-1)
    changes = np.sum(np.any(np.diff(position, axis=0) != 0, axis=1))
    assert changes + 1 == len(np.unique(position, axis=0))  # templates of one position follow one another


@pytest.mark.ci
def test_templates_at_a_horizon_are_there_once(ten_days):
    # two maps meet in it
    reftime = ten_days.observation.reftime.common
    space = ParameterSpace(factor(ten_days.observation, 1, reftime, 60.0), np.zeros(1), np.zeros(1), 0.3)
    r = restricted(space.factor, [0, 2, 3, 4])[1:, 1:]
    pole = next(iter(space.choices())).least_seen_direction
    centre = tangents(pole)[0]
    for offset in (0.0, 0.195):  # the second is seen from the other side by a sliver only
        region = Disc((centre + offset * pole) / np.linalg.norm(centre + offset * pole), 0.2)
        templates = all_templates(cover_region(space, region), 0.3)
        n = unit_vector(templates.alpha, templates.delta)
        assert np.min(KDTree(n).query(n, k=2)[0][:, 1]) > 1e-7
        lost = KDTree(n @ r.T).query(sky_in(region, np.random.default_rng(1), 4000) @ r.T)[0] ** 2
        assert np.max(lost) <= 0.3


@pytest.mark.parametrize(("days", "f", "mismatch"), [(0.25, 100.0, 0.1), (0.25, 200.0, 0.1), (1.0, 60.0, 0.2)])
def test_the_poles_of_the_sky_are_covered(days, f, mismatch):
    # where the direction in which the metric is smallest may be longer than 1 by rounding
    observed = jfstat.observation(["H1", "L1"], START, days * 86400, sqrt_sx=1e-23)
    space = ParameterSpace(factor(observed, 1, observed.reftime, f), np.zeros(1), np.zeros(1), mismatch)
    templates = all_templates(cover_region(space, WholeSky()), mismatch)
    r = restricted(space.factor, [0, 2, 3, 4])[1:, 1:]
    pole = next(iter(space.choices())).least_seen_direction
    near = np.concatenate([sky_in(Disc(up, 0.2), np.random.default_rng(2), 20000) for up in (pole, -pole)])
    lost = KDTree(unit_vector(templates.alpha, templates.delta) @ r.T).query(near @ r.T)[0] ** 2
    assert np.max(lost) <= mismatch


@pytest.mark.slow
def test_the_whole_sky_of_ten_days(ten_days):
    bank = jfstat.template_bank(region="all", mismatch=0.5, data=ten_days)
    found = mismatches(ten_days, bank, WholeSky(), [(0, 0)])
    assert np.max(found) <= 0.5


@jax.jit
def two_f(data, points):
    return jax.lax.map(lambda p: jfstat.twoF(data, p), points)


@pytest.mark.ci
def test_signals_are_found_with_the_power_promised():
    """2F itself, of signals without noise at random places, of the templates near by, maximised over frequency."""
    f, mismatch, ranges = 80.0, 0.2, (-2e-9, 1e-9)
    data = make_data(2, f)
    bank = jfstat.template_bank(
        region=(SkyCoord(2.0, 0.4, unit="rad"), 0.15), f1dot=ranges, mismatch=mismatch, data=data
    )
    rng = np.random.default_rng(5)
    r = factor(data.observation, 1, data.observation.reftime, f)
    to_f = drift(r, 1)[0]
    alpha, delta, f1dot = np.asarray(bank.alpha), np.asarray(bank.delta), np.asarray(bank.fkdot)[:, 1]
    templates = np.column_stack([f1dot, unit_vector(alpha, delta)])
    losses = []
    for n in sky_in(Disc(unit_vector(2.0, 0.4), 0.15), rng, 6):
        signal = jfstat.Doppler(*angles(n), [f, rng.uniform(*ranges)], data.reftime)
        amplitude = jfstat.Amplitude(1e-24, rng.uniform(-1, 1), rng.uniform(-0.7, 0.7), rng.uniform(0, 6))
        seen = make_data(2, f, [(signal, amplitude)])
        offset = templates - np.append(signal.fkdot[1:], n)
        near = np.argsort(np.sum((offset @ r[1:, 1:].T) ** 2, axis=1))[:4]
        frequencies = (f - offset[near] @ to_f)[:, None] + np.linspace(-0.2, 0.2, 9) / data.tspan
        k, fkdot = np.repeat(near, 9), np.stack([frequencies.reshape(-1), np.repeat(f1dot[near], 9)], axis=-1)
        points = jfstat.Doppler(
            np.append(signal.alpha, alpha[k]),
            np.append(signal.delta, delta[k]),
            np.concatenate([signal.fkdot[None], fkdot]),
            data.reftime,
        )
        peak, *others = np.asarray(two_f(seen, points))
        losses.append(1 - max(others) / peak)
    assert max(losses) < mismatch
    assert 0.1 * mismatch < np.mean(losses) < 0.6 * mismatch


def test_single_positions_share_a_lattice_of_spin_downs(ten_days):
    bank = jfstat.template_bank([1.0, 2.0], [0.3, 0.4], f1dot=(-1e-9, 0), f2dot=(0, 1e-16), mismatch=0.2, data=ten_days)
    n = len(bank.alpha) // 4
    assert len(bank.alpha) == 4 * n
    np.testing.assert_array_equal(bank.fkdot[:n], bank.fkdot[n : 2 * n])
    np.testing.assert_allclose(np.asarray(bank.delta)[[0, n - 1, n]], [0.3, 0.3, 0.4], rtol=1e-14)
    r = factor(ten_days.observation, 2, ten_days.observation.reftime, float(ten_days.frequencies[-1]))[1:3, 1:3]
    points = np.random.default_rng(0).uniform([-1e-9, 0], [0, 1e-16], (1000, 2))
    assert np.max(KDTree(bank.fkdot[:n, 1:] @ r.T).query(points @ r.T)[0] ** 2) <= 0.2
    one = jfstat.template_bank(1.0, 0.3, f1dot=-1e-11, mismatch=0.2, data=ten_days, freq=50.0)
    np.testing.assert_allclose(one.fkdot, [[50.0, -1e-11]], rtol=1e-15)


def test_orbits_multiply_the_lattice(ten_days):
    orbit = {"asini": [0.01, 0.02], "period": 1 * u.day, "tp": START}
    region = {"region": (SkyCoord(2, 0.1, unit="rad"), 0.3), "f1dot": (-1e-10, 0), "mismatch": 0.3, "data": ten_days}
    alone, both = jfstat.template_bank(**region), jfstat.template_bank(**region, orbit=orbit)
    assert len(both.alpha) == 2 * len(alone.alpha)
    first = np.sum(np.asarray(alone.alpha) == alone.alpha[0])
    np.testing.assert_array_equal(both.orbit.asini[: 2 * first], np.repeat([0.01, 0.02], first))
    np.testing.assert_array_equal(both.fkdot[first : 2 * first], alone.fkdot[:first])


ALL = {"region": "all", "mismatch": 0.1}
PLACE = {"alpha": 1.0, "delta": 0.5, "mismatch": 0.1}


@pytest.mark.ci
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (ALL | {"data": None}, "data must be given with a mismatch"),
        (ALL | {"mismatch": None}, "mismatch must be given with a region"),
        (ALL | {"mismatch": 1.5}, "mismatch must be between 0 and 1"),
        (ALL | {"mismatch": "0.1"}, "mismatch must be a number"),
        (ALL | {"alpha": 1.0}, "region must stand alone"),
        (ALL | {"region": "none"}, 'region must be "all"'),
        (ALL | {"region": (SkyCoord(1, 0, unit="rad"), -1.0)}, "region must have one centre and a radius"),
        (ALL | {"region": SkyCoord([1, 2], [0, 0], unit="rad")}, "region must have at least 3 vertices"),
        (ALL | {"region": SkyCoord([0, 2, 4], [0, 0, 0], unit="rad")}, "region must be a polygon within half"),
        (PLACE | {"f1dot": (-1e-9, 0.0, 1e-10)}, r"f1dot must be \(low, high\) with a mismatch"),
        (PLACE | {"f1dot": [-1e-9, 0.0]}, r"f1dot must be a number or \(low, high\)"),
        (PLACE | {"f1dot": (1e-9, 0.0)}, "f1dot must have low <= high"),
        (PLACE | {"alpha": (1.0, 2.0)}, "alpha and delta must both be ranges"),
        (PLACE | {"alpha": (1.0, 2.0, 0.1), "delta": (0.0, 1.0)}, r"alpha must be \(low, high\) with a mismatch"),
        (PLACE | {"alpha": (1.0, 2.0), "delta": (0.0, 2.0)}, "delta must be low <= high within"),
        (PLACE | {"alpha": (1.0, 9.0), "delta": (0.0, 1.0)}, "alpha must span at most 2 pi"),
        (ALL | {"mismatch": 1e-6, "f1dot": (-1e-7, 0.0)}, "mismatch must be larger, not 1e-06: the bank would have"),
    ],
)
def test_mistakes_are_named(day, arguments, message):
    with pytest.raises(ValueError, match=message):
        jfstat.template_bank(**({"data": day} | arguments))
