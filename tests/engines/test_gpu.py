"""The kernels of the `cuda` engine, compiled for a GPU, against XLA bin by bin.

    XLA_FLAGS= python -m pytest -o addopts= -m gpu tests/engines/test_gpu.py

runs them on all GPUs that JAX sees, in some minutes; ``-o addopts=`` does without pytest-xdist. Where there is no GPU
they are skipped, unless the environment variable JFSTAT_EMULATE_KERNELS is set: what the kernels compute is then
computed in plain JAX, slowly.
"""

import dataclasses
import os
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from kernel_cases import ORBIT, START, bank, engines_by_name, noise
from searches import search

import jfstat
from jfstat.benchmarking.measure import Request, measure
from jfstat.benchmarking.settings import Setting
from jfstat.engines.cuda import kernels
from jfstat.engines.cuda.engine import Cuda
from jfstat.engines.xla import Xla
from jfstat.maths.arrays import LEAST
from jfstat.searching.reduce.loudest import loudest
from jfstat.searching.reduce.tally import HISTOGRAM_EDGES, subband_edges, subband_maxima
from jfstat.statistic.fstat import compiled_band
from jfstat.transforms import cuda_factors

pytestmark = pytest.mark.gpu
EMULATE = "JFSTAT_EMULATE_KERNELS" in os.environ
KERNELS = Cuda(emulate=EMULATE)
TOLERANCE = dict(rtol=2e-5, atol=2e-4)
"""Of 2F; the kernels whiten the series before the transform, XLA combines Fa and Fb after it."""
two_f = jax.jit(jax.vmap(compiled_band, (None, 0)))


@pytest.fixture(scope="module", autouse=True)
def gpu():
    """The device; tests are skipped unless it can run the kernels."""
    device = jax.devices()[0]
    if not EMULATE and (device.platform != "gpu" or float(getattr(device, "compute_capability", 0)) < 8):
        pytest.skip("needs an NVIDIA GPU of compute capability 8.0 or higher as JAX's default device")
    return device


def prepared(*given, **options):
    data = noise(*given, **options)
    assert KERNELS.usable(data.layout, jax.devices()[0])
    return data


@pytest.fixture(scope="module")
def one():
    return prepared(["H1"], 12, 0.05)


@pytest.fixture(scope="module")
def two():
    return prepared(["H1", "L1"], 6, 0.1, seed=2)


@pytest.fixture(scope="module")
def binary():
    """Data for a tight orbit, which makes timing blocks short."""
    return prepared(["H1", "L1"], 6, 0.05, orbit=ORBIT, seed=3)


def assert_every_bin(data, points, same_source=False, n_valid=None, first_bin=0):
    """Values, places, histogram and sub-bands of all bins of a batch are those of `twoF_band`."""
    expected = np.asarray(two_f(data, points))
    template, number = np.indices(expected.shape)
    n_valid = len(expected) if n_valid is None else n_valid
    counts = (expected > 0) & (template < n_valid) & (number >= first_bin)
    assert counts.any()
    found = loudest(KERNELS.ready(data), points, n_valid, expected.size, KERNELS, same_source, first_bin)

    twoF = np.asarray(found.twoF)
    real = twoF > LEAST
    assert real.sum() == counts.sum()
    assert (np.diff(twoF[real]) <= 0).all()
    values = np.full(expected.shape, np.nan)
    values[np.asarray(found.template)[real], np.asarray(found.frequency)[real]] = twoF[real]
    np.testing.assert_array_equal(np.isfinite(values), counts)
    np.testing.assert_allclose(values[counts], expected[counts], **TOLERANCE)

    maxima = np.where(counts, expected, LEAST).max(axis=0)
    edges = subband_edges(data.layout)
    tops = [maxima[a:b].max() for a, b in pairwise(edges)]
    np.testing.assert_allclose(subband_maxima(data.layout, np.asarray(found.sections)), tops, **TOLERANCE)
    place = np.clip(expected[counts] / HISTOGRAM_EDGES[1], 0, len(HISTOGRAM_EDGES) - 1).astype(int)
    histogram = np.bincount(place, minlength=len(HISTOGRAM_EDGES))
    # rounding moves values that lie next to an edge
    near = np.sum(np.abs(expected[counts] - 2 * np.round(expected[counts] / 2)) < 1e-3)
    assert np.sum(found.histogram) == counts.sum()
    assert np.abs(np.asarray(found.histogram) - histogram).sum() <= 2 * near
    return counts, values


def test_isolated_sources(one):
    assert_every_bin(one, bank(8))


def wave(t, p):
    return p * jnp.sin(2 * jnp.pi * t / 40000.0)


@pytest.mark.parametrize("same_source", [False, True])
def test_phase_models(one, same_source):
    """Timing is made before the kernels run, and knows the model; shared series are resampled without it."""
    points = bank(4, same_source)
    model = jfstat.PhaseModel(wave, np.array([0.0, 0.2, 0.5, 1.0]))
    points = jfstat.Doppler(points.alpha, points.delta, points.fkdot, points.reftime, model=model)
    assert_every_bin(one, points, same_source)


def test_two_detectors(two):
    assert_every_bin(two, bank(8, seed=1))


@pytest.mark.parametrize("n", [1, 3, 12])
def test_odd_batches(two, n):
    assert_every_bin(two, bank(n, seed=n))


@pytest.mark.parametrize("n", [5, 8])
def test_a_shared_series(two, n):
    points = bank(n, same_source=True, seed=2)
    _, values = assert_every_bin(two, points, same_source=True)
    np.testing.assert_allclose(
        jax.jit(KERNELS.maxima, static_argnums=2)(KERNELS.ready(two), points, True),
        np.nanmax(values, axis=1),
        rtol=1e-6,
    )


def test_orbits_with_short_blocks(binary):
    assert binary.layout.block_orbit < binary.layout.block
    counts, _ = assert_every_bin(binary, bank(8, orbit=ORBIT, seed=3))
    assert counts.all()


def test_bins_beyond_the_band_do_not_count(two):
    """Of an orbit for which the data were not prepared, of padding, and before the first bin."""
    orbit = jfstat.Orbit(asini=0.15, period=7200.0, tp=START + 0.0)
    counts, _ = assert_every_bin(two, bank(4, orbit=orbit, seed=4), n_valid=3, first_bin=211)
    assert not counts[:3, 211:].all()


def test_degenerate_antenna_matrices(two):
    blind = dataclasses.replace(two.observation, moments=jnp.zeros_like(two.observation.moments))
    nowhere = dataclasses.replace(two, observation=blind)  # A = B = C = 0: 2F is 4
    _, values = assert_every_bin(nowhere, bank(4), n_valid=3)
    assert (values[:3] == 4).all()


def test_three_radices_in_a_row():
    if EMULATE:
        pytest.skip("takes too long emulated")
    data = prepared(["H1"], 24, 3.0, seed=5)
    assert cuda_factors(data.layout.n_fft)[1:] in {(1, 1024), (1, 2048), (1, 4096)}
    assert_every_bin(data, bank(3, seed=5))


LENGTHS = {
    (64, 1, 64): (["H1"], 8),  # and the hours of data
    (96, 1, 256): (["H1", "L1"], 8),
    (80, 1, 400): (["H1"], 12),
    (64, 1, 1728): (["H1", "L1"], 48),
    (108, 1, 864): (["H1"], 48),
    (225, 1, 256): (["H1", "L1"], 24),
    (256, 1, 2304): (["H1"], 120),
    (64, 1, 7680): (["H1", "L1"], 120),
    (72, 1, 8192): (["H1"], 120),
    (200, 1, 4096): (["H1", "L1"], 120),
    (576, 1, 1024): (["H1", "L1"], 120),
    (64, 72, 256): (["H1"], 120),
    (64, 150, 256): (["H1", "L1"], 240),
    (72, 216, 256): (["H1"], 240),
    (72, 300, 256): (["H1"], 240),
    (100, 100, 576): (["H1"], 240),
}
"""Every kernel of the first kind, rows of one and of two parts, of equal and of different radices, and kernels between
of which some threads have no results to write."""


@pytest.mark.parametrize("factors", LENGTHS)
def test_every_bin_for_every_kind_of_length(factors, monkeypatch):
    """The prepared band is as wide as the transform's length allows."""
    length, (detectors, hours) = int(np.prod(factors)), LENGTHS[factors]
    if EMULATE and length > 1e5:
        pytest.skip("takes too long emulated")
    monkeypatch.setattr("jfstat.transforms._cuda_cost", lambda own: own != factors)
    monkeypatch.setattr("jfstat.data.sizes.transform_length", lambda n: length)
    forget_programs()
    try:
        data = prepared(detectors, hours, 0.85 * length / (3600 * hours) - 0.04, seed=length)
        assert kernels.factors_of(data.layout) == factors
        points = bank(3, seed=length)
        expected = np.asarray(two_f(data, points))
        assert relative_difference(data, points, expected) < 2e-6
        assert_every_bin(data, points)
        points = bank(3, same_source=True, seed=length)
        assert_every_bin(data, points, same_source=True)
    finally:
        forget_programs()


def forget_programs():
    """Some lengths are equal, so that a program with other factors would be taken for this one."""
    cuda_factors.cache_clear()
    kernels.plan.cache_clear()
    jax.clear_caches()


def relative_difference(data, points, expected):
    """L2, of all bins that count."""
    found = loudest(KERNELS.ready(data), points, len(expected), expected.size, KERNELS)
    real = np.asarray(found.twoF) > LEAST
    theirs = expected[np.asarray(found.template)[real], np.asarray(found.frequency)[real]]
    return np.linalg.norm(np.asarray(found.twoF)[real] - theirs) / np.linalg.norm(theirs)


@pytest.mark.parametrize("seed", range(8))
def test_random_data(seed):
    """Random detectors, spans and bands; the narrow ones have samples of many seconds, during which antenna patterns
    bend."""
    rng = np.random.default_rng(seed)
    detectors = ["H1", "L1", "V1"][: rng.integers(1, 4)]
    hours = int(np.exp(rng.uniform(np.log(14 if EMULATE else 6), np.log(24 if EMULATE else 240))))
    bandwidth = np.exp(rng.uniform(np.log(0.05 if EMULATE else 0.02), np.log(0.1 if EMULATE else 1.0)))
    data = prepared(detectors, hours, bandwidth, orbit=ORBIT if seed % 4 == 3 else None, seed=seed)
    points = bank(3, orbit=ORBIT if seed % 4 == 3 else None, seed=seed)
    assert relative_difference(data, points, np.asarray(two_f(data, points))) < 2e-6


def test_a_kernel_between():
    if EMULATE:
        pytest.skip("takes too long emulated")
    data = prepared(["H1"], 24, 30.0, seed=6)
    assert cuda_factors(data.layout.n_fft)[1] > 1
    points = bank(8, seed=6)
    ready = {KERNELS: KERNELS.ready(data), Xla(): data}
    found, expected = (loudest(own, points, 8, 1000, engine) for engine, own in ready.items())
    np.testing.assert_allclose(found.twoF, expected.twoF, **TOLERANCE)
    np.testing.assert_allclose(found.sections, expected.sections, **TOLERANCE)
    moved = np.abs(np.asarray(found.histogram) - np.asarray(expected.histogram)).sum()
    assert moved < 1e-4 * np.asarray(expected.histogram).sum()
    values = np.asarray(two_f(data, points))
    np.testing.assert_allclose(found.twoF, values[found.template, found.frequency], **TOLERANCE)


@pytest.fixture
def by_name(monkeypatch):
    """Lets `search(engine="cuda")` take the emulated kernels where there is no GPU."""
    if EMULATE:
        engines_by_name(monkeypatch.setattr, KERNELS)


def assert_same_tables(found, expected):
    assert found.meta["engine"] == "cuda" and expected.meta["engine"] == "xla"
    assert found.colnames == expected.colnames
    np.testing.assert_allclose(found["twoF"], expected["twoF"], **TOLERANCE)
    # candidates of nearly the same 2F may change places
    own, theirs = (
        set(zip(table["template"].tolist(), table["freq"].value.tolist(), strict=True)) for table in (found, expected)
    )
    assert len(own & theirs) >= len(found) - 2
    own, theirs = (table.meta["loudest_per_subband"] for table in (found, expected))
    assert own["start"] == theirs["start"] and own["stop"] == theirs["stop"]
    np.testing.assert_allclose(own["twoF"], theirs["twoF"], **TOLERANCE)
    assert found.meta["n_twoF"] == expected.meta["n_twoF"]
    histograms = [np.array(table.meta["twoF_histogram"]) for table in (found, expected)]
    assert np.abs(histograms[0] - histograms[1]).sum() <= 1e-3 * histograms[1].sum()


@pytest.mark.parametrize(("same_source", "batch_size"), [(False, 5), (True, 8)])
def test_search_tables_are_those_of_the_library(two, same_source, batch_size, by_name):
    options = dict(top=200, batch_size=batch_size, progress=False, per_detector=False)
    points = bank(20, same_source=same_source, seed=7)
    found, expected = (search(two, points, **options, engine=name) for name in ("cuda", "xla"))
    assert_same_tables(found, expected)


def test_the_kernels_are_the_choice_on_a_gpu(two):
    if EMULATE:
        pytest.skip("needs a GPU")
    found = jfstat.search(two, bank(2), top=3, progress=False, details=jfstat.Details(per_detector=False))
    assert found.meta["engine"] == "cuda"


def test_a_mesh_of_all_devices_changes_nothing(two, by_name):
    mesh = Mesh(np.array(jax.local_devices()), ("templates",))
    options = dict(top=200, batch_size=4, progress=False, per_detector=False, engine="cuda")
    points = bank(21, seed=8)
    alone, together = search(two, points, **options), search(two, points, **options, mesh=mesh)
    for name in alone.colnames:
        np.testing.assert_array_equal(together[name], alone[name])
    for name in ("twoF_histogram", "loudest_per_subband", "n_twoF"):
        assert together.meta[name] == alone.meta[name]


@pytest.mark.parametrize("shape", ["rectangular", "exponential"])
def test_transient_maps_are_those_of_a_cpu(one, shape):
    """They are computed in another order there."""
    t0, tau = START + 1800 * np.arange(20), 1800.0 * np.arange(2, 20)
    atoms = jfstat.atoms(one, jax.tree.map(lambda x: x[0], bank(1)))
    here = jfstat.transient_map(atoms, shape, t0, tau).twoF
    cpu = jax.devices("cpu")[0]
    with jax.default_device(cpu):
        there = jfstat.transient_map(jax.device_put(atoms, cpu), shape, t0, tau).twoF
    np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("one_position", [False, True])
def test_the_benchmark_times_the_same_numbers(one_position):
    """Its stages give what the whole computation gives, and that is 2F: `measure` refuses anything else."""
    if EMULATE:
        pytest.skip("times mean nothing emulated")
    setting = Setting("tiny", 0.5, 0.2, one_position=one_position)
    found = measure(Request(setting, batch=8, repeats=1, path="cuda"))
    assert found.path == "cuda" and found.tau > 0


@pytest.mark.skipif(EMULATE, reason="needs the kernel itself")
@pytest.mark.parametrize(("n_segments", "days", "width"), [(3, 0.5, 0.03), (20, 0.5, 0.002), (5, 1.0, 0.2)])
def test_sums_over_segments(n_segments, days, width):
    """The kernel of interpolating searches finds what the library does, for pieces of the band of all lengths."""
    tspan = n_segments * days * 86400
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, tspan, 98.9, 101.1 + width, 1800, 4e-24, seed=n_segments)
    edges = [(START + i * days * 86400, START + (i + 1) * days * 86400) for i in range(n_segments)]
    data = jfstat.prepare(sfts, 100.0, 100.0 + width, START, 4e-24, segments=edges, guard=0.5, fdots=[(-5e-9, 3e-9)])
    sky = dict(alpha=(1.0, 1.1), delta=(0.3, 0.36))
    bank = jfstat.template_bank(**sky, f1dot=(-4e-10, 0.0), mismatch=0.4, data=data)
    options = dict(top=50, progress=False, statistic=jfstat.Interpolated(0.3))
    found, expected = (search(data, bank, engine=name, **options) for name in (None, "xla"))
    assert (found.meta["engine"], expected.meta["engine"]) == ("cuda", "xla")
    assert found.meta["n_twoF"] == expected.meta["n_twoF"] == np.sum(found.meta["twoF_histogram"])
    for name in expected.colnames:
        np.testing.assert_array_equal(np.asarray(found[name]), np.asarray(expected[name]), err_msg=name)
    moved = np.abs(np.subtract(found.meta["twoF_histogram"], expected.meta["twoF_histogram"]))
    assert np.sum(moved) <= 1e-5 * found.meta["n_twoF"] + 4  # values at the edges of bins
    assert found.meta["loudest_per_subband"] == expected.meta["loudest_per_subband"]


def test_the_band_in_order(one, two, binary):
    """`twoF_band` and its vmap: of several sources, of one source, with an orbit, by the kernels, not XLA."""
    for data, orbit in ((one, None), (two, None), (binary, ORBIT)):
        for same_source in (False, True):
            points = bank(5, same_source, orbit)
            expected = np.asarray(two_f(data, points))
            if same_source:
                first = jax.tree.map(lambda x: x[0], points)

                def spun(fkdot, first=first, data=data):
                    return jfstat.twoF_band(data, dataclasses.replace(first, fkdot=fkdot))

                found = np.asarray(jax.jit(jax.vmap(spun))(points.fkdot))
            else:
                found = np.asarray(jax.jit(jax.vmap(jfstat.twoF_band, (None, 0)))(data, points))
            np.testing.assert_allclose(found, expected, **TOLERANCE)
            assert EMULATE or not np.array_equal(found, expected, equal_nan=True)
    gradient = jax.grad(lambda delta: jnp.sum(jfstat.twoF_band(one, jfstat.Doppler(1.0, delta, [100.0, 0.0], START))))
    other = jax.grad(lambda delta: jnp.sum(compiled_band(one, jfstat.Doppler(1.0, delta, [100.0, 0.0], START))))
    np.testing.assert_allclose(gradient(0.3), other(0.3), rtol=1e-3)
