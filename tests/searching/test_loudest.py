"""The reductions that searches use, by both engines, against 2F of every template and bin."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from searches import division

import jfstat
from jfstat.data.memory import data_bytes, filter_bytes
from jfstat.engines.cuda.engine import Cuda
from jfstat.engines.xla import Xla
from jfstat.maths.arrays import LEAST
from jfstat.maths.lengths import largest_divisor, smooth_lengths, smooth_part
from jfstat.searching.driver import memory
from jfstat.searching.reduce.loudest import loudest
from jfstat.searching.reduce.toplist import Peaks, Toplist
from jfstat.transforms import cuda_factors, transform_length

START = 1167458304


@pytest.fixture(scope="module")
def data():
    gaps = {"H1": START + 1800 * np.array([0, 1, 3]), "L1": START + 1800 * np.array([1, 2, 3])}
    sfts = jfstat.simulate_sfts(["H1", "L1"], fmin=98.5, fmax=101.5, timestamps=gaps, seed=3)
    return jfstat.prepare(sfts, 99.9, 100.1, sqrt_sx=4e-24)


@pytest.fixture(scope="module")
def wide():
    """A band for which the kernels have a transform."""
    gaps = {"H1": START + 1800 * np.array([0, 1, 3]), "L1": START + 1800 * np.array([1, 2, 3])}
    sfts = jfstat.simulate_sfts(["H1", "L1"], fmin=98.5, fmax=101.5, timestamps=gaps, seed=3)
    data = jfstat.prepare(sfts, 99.7, 100.3, sqrt_sx=4e-24)
    assert KERNELS.usable(data.layout, jax.devices()[0])
    return data


def bank(n, same_source=False, seed=0, orbit=None):
    rng = np.random.default_rng(seed)
    alpha, delta = rng.uniform(0, 2 * np.pi, n), np.arcsin(rng.uniform(-1, 1, n))
    if same_source:
        alpha[:], delta[:] = alpha[0], delta[0]
    return jfstat.Doppler(alpha, delta, np.stack([np.full(n, 100.0), rng.uniform(-1e-8, 0, n)], 1), START, orbit)


two_f = jax.jit(jax.vmap(jfstat.twoF_band, (None, 0)))
KERNELS = Cuda(emulate=True)
ENGINES = [Xla(), KERNELS]


@pytest.mark.ci
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("same_source", [False, True])
def test_maxima_are_those_of_every_template(wide, engine, same_source):
    points = bank(4, same_source)
    expected = np.asarray(two_f(wide, points)).max(axis=1)
    maxima = jax.jit(engine.maxima, static_argnums=2)(engine.ready(wide), points, same_source)
    np.testing.assert_allclose(maxima, expected, rtol=3e-6)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("keep", "n_valid"), [(50, 3)])
def test_loudest_are_the_largest_with_their_places(wide, engine, keep, n_valid):
    points = bank(4, seed=1)
    values = np.asarray(two_f(wide, points))
    found = loudest(engine.ready(wide), points, n_valid, keep, engine)
    np.testing.assert_allclose(found.twoF, np.sort(values[:n_valid].ravel())[::-1][:keep], rtol=1e-5)
    np.testing.assert_allclose(found.twoF, values[found.template, found.frequency], rtol=1e-5)


@pytest.mark.ci
@pytest.mark.parametrize("engine", ENGINES)
def test_bins_that_an_orbit_takes_out_of_the_band_do_not_count(wide, engine):
    orbit = jfstat.Orbit(np.full(2, 0.15), np.full(2, 7200.0), np.full(2, START + 0.0))
    points = bank(2, orbit=orbit)
    values = np.asarray(two_f(wide, points))
    assert np.isnan(values).any()
    found = loudest(engine.ready(wide), points, 2, values.size, engine)
    n = np.sum(values > 0)
    assert np.isfinite(found.twoF[:n]).all()
    assert (np.asarray(found.twoF[n:]) == LEAST).all()
    np.testing.assert_allclose(found.twoF[:n], np.sort(values[values > 0])[::-1], rtol=1e-5, atol=1e-5)


@pytest.mark.ci
def test_spin_downs_share_a_resampled_series(data):
    points = bank(3, same_source=True)
    point = jax.tree.map(lambda x: x[1], points)
    series = jfstat.resample(data, point)
    own = jfstat.twoF_band(data, point)
    np.testing.assert_allclose(jfstat.twoF_band(data, point, series=series), own, rtol=2e-6, atol=1e-5)
    # and the spin-down matters
    other = jfstat.Doppler(point.alpha, point.delta, [100.0, 0.0], START)
    assert abs(np.asarray(jfstat.twoF_band(data, other, series=series)) - own).max() > 1
    with pytest.raises(TypeError, match="series must come from"):
        jfstat.twoF_band(data, point, series=(series.a, series.b))
    with pytest.raises(ValueError, match="series has shape"):
        jfstat.twoF_band(data, point, series=series._replace(a=series.a[1:], b=series.b[1:]))
    slope = jax.grad(lambda f1dot: jfstat.twoF_band(
        data, jfstat.Doppler(point.alpha, point.delta, jnp.stack([jnp.asarray(100.0), f1dot]), START), series=series
    )[700].astype(float))  # fmt: skip
    direct = jax.grad(lambda f1dot: jfstat.twoF_band(
        data, jfstat.Doppler(point.alpha, point.delta, jnp.stack([jnp.asarray(100.0), f1dot]), START)
    )[700].astype(float))  # fmt: skip
    np.testing.assert_allclose(slope(point.fkdot[1]), direct(point.fkdot[1]), rtol=1e-4)


@pytest.mark.slow
def test_a_bank_ordered_by_sky_gives_the_same_candidates(data):
    sky = bank(2)
    rows = [(a, d, f1) for a, d in zip(sky.alpha, sky.delta, strict=True) for f1 in np.linspace(-1e-8, 0, 6)]
    alpha, delta, f1dot = np.array(rows).T
    ordered = jfstat.Doppler(alpha, delta, np.stack([0 * f1dot, f1dot], 1), START)
    mixed = jax.tree.map(lambda x: np.asarray(x)[np.arange(12).reshape(2, 6).T.ravel()], ordered)
    a = jfstat.search(data, ordered, top=20, progress=False, details=jfstat.Details(per_detector=False))
    b = jfstat.search(data, mixed, top=20, progress=False, details=jfstat.Details(per_detector=False))
    np.testing.assert_allclose(a["twoF"], b["twoF"], rtol=3e-6)
    np.testing.assert_allclose(sorted(a["f1dot"].value), sorted(b["f1dot"].value))


@pytest.mark.parametrize("n", [900.5, 57000, 563000.2, 1e7])
def test_transform_lengths(n):
    length = transform_length(n)
    assert n <= length < 1.3 * n + 128
    assert np.prod(cuda_factors(length) or length) == length


def test_divisors_and_smooth_numbers():
    assert largest_divisor(1152, 200) == 192
    assert largest_divisor(7, 0.3) == 1
    assert smooth_lengths(1, 12, (2, 3)).tolist() == [1, 2, 3, 4, 6, 8, 9, 12]
    assert smooth_part(2**3 * 3 * 49 * 17) == 2**3 * 3 * 49
    assert smooth_part(2**3 * 3 * 49, (2, 3)) == 24
    assert smooth_part(11) == 1


def test_a_search_too_large_for_the_device_is_refused(data, monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda device: 1000)
    with pytest.raises(ValueError, match="the search needs"):
        jfstat.search(data, bank(1), progress=False)


def test_batches_fill_the_free_memory(data, monkeypatch):
    each = Xla().template_bytes(data.layout, 2, orbit=False)
    monkeypatch.setattr(memory, "free_bytes", lambda device: 50 * each)
    assert memory.most_templates(data, bank(1), Xla()) == 40
    plan = division(data, bank(100))
    assert plan.batch_size == 40
    assert plan.bands == [(0, data.layout.n_frequencies)]
    assert 40 * each < plan.device_bytes < 41 * each + data_bytes(data)


@pytest.mark.ci
def test_a_band_too_wide_for_the_device_is_searched_in_parts(data, monkeypatch):
    points = bank(3)
    expected = jfstat.search(data, points, top=30, progress=False, details=jfstat.Details(amplitudes=False))
    small = dataclasses.replace(data, filters=())
    with pytest.raises(ValueError, match="interpolation filters"):
        jfstat.twoF_band(small, jax.tree.map(lambda x: x[0], points))
    monkeypatch.setattr(memory, "free_bytes", lambda device: 1_000_000)
    plan = division(small, points)
    assert len(plan.bands) > 1
    assert plan.device_bytes < 1_000_000
    found = jfstat.search(small, points, top=30, progress=False, details=jfstat.Details(amplitudes=False))
    np.testing.assert_allclose(found["freq"].value, expected["freq"].value)
    # parts have low-passes of their own: the same to what the filters and the bank leave
    np.testing.assert_allclose(found["twoF"], expected["twoF"], rtol=3e-4)
    np.testing.assert_allclose(found["twoF_H1"], expected["twoF_H1"], rtol=1e-9)


@pytest.mark.slow
def test_parts_of_a_band_lose_no_bins_to_orbits(data, monkeypatch):
    orbit = jfstat.Orbit(np.full(1, 0.05), np.full(1, 7200.0), np.full(1, START + 0.0))
    points = bank(1, orbit=orbit)
    expected = np.asarray(jfstat.twoF_band(data, jax.tree.map(lambda x: x[0], points)))
    monkeypatch.setattr(memory, "free_bytes", lambda device: 4_000_000)
    small = dataclasses.replace(data, filters=())
    assert len(division(small, points).bands) > 1
    found = jfstat.search(small, points, top=10**6, progress=False, details=jfstat.Details(per_detector=False))
    assert len(found) == np.sum(expected > 0)
    bins = np.rint((found["freq"].value - data.frequencies[0]) * 2 * data.tspan).astype(int)
    np.testing.assert_allclose(found["twoF"], expected[bins], atol=0.02)


def test_merging_counts_overlaps_once():
    a = Peaks(np.float32([9, 7]), np.array([0, 1]), np.array([5, 5]))
    b = Peaks(np.float32([8, 7.00001, 6]), np.array([2, 1, 0]), np.array([5, 5, 1]))
    merged = Toplist(3, None).merged(a, b)
    assert merged.template.tolist() == [0, 2, 1]
    assert Toplist(9, 6.5).merged(a, b).frequency.tolist() == [5, 5, 5]


def test_kernels_are_left_alone_where_32_bits_do_not_suffice(wide):
    layout, device = wide.layout, jax.devices()[0]
    assert KERNELS.usable(layout, device)
    assert not KERNELS.usable(dataclasses.replace(layout, n_band=2**28), device)
    assert not KERNELS.usable(dataclasses.replace(layout, n_fft=2**28 + 1), device)  # no such transform
    assert not KERNELS.usable(dataclasses.replace(layout, n_blocks=3 * layout.n_blocks), device)  # folded twice


def test_uneven_groups_of_spin_downs_share_nothing(data):
    one, many = bank(1), bank(40, same_source=True)
    points = jax.tree.map(
        lambda *x: np.concatenate([np.asarray(y) for y in x]), many, *[bank(1, seed=k) for k in range(2, 12)]
    )
    plan = division(data, points, batch_size=40)
    assert not plan.same_source
    assert division(data, many, batch_size=20).same_source
    assert not division(data, one).same_source


def test_prepare_makes_the_bank_unless_it_fills_the_device(data, monkeypatch):
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 4 * 3600, 98.5, 101.5, seed=4)
    size = filter_bytes(data.layout, 2)
    for share, n in ((4.0, 2), (1.0, 0)):
        monkeypatch.setattr("jfstat.data.prepare.total_bytes", lambda device, share=share: share * 2 * size)
        assert len(jfstat.prepare(sfts, 99.9, 100.1, sqrt_sx=4e-24).filters) == n
