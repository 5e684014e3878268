"""The `cuda` engine without a GPU: its kernels emulated, its lengths, filters, and what surrounds the kernels."""

import ctypes
import gc
import threading
import weakref
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compilations import counted_compilations
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial.chebyshev import chebval
from searches import division, task_of

import jfstat
from jfstat.data.bandseries import Layout
from jfstat.data.workers import compile_together
from jfstat.engines.cuda import cubins, emulated, filters, handler, kernels, launch, nvrtc, sums
from jfstat.engines.cuda.engine import LEAST_SHARED, Cuda, _live, _ranges
from jfstat.engines.cuda.errors import CudaError
from jfstat.engines.xla import Xla
from jfstat.searching.bank import stacked_bank
from jfstat.searching.driver.devices import made_ready, run
from jfstat.searching.reduce.loudest import geometry_program, loudest, loudest_program
from jfstat.searching.reduce.toplist import Toplist
from jfstat.statistic.bins import counts
from jfstat.statistic.spectrum import bin_numbers
from jfstat.transforms import (
    CUDA_COLUMNS,
    CUDA_MIDDLE,
    CUDA_ROWS,
    CUDA_TILE,
    GRANULE,
    block_length,
    cuda_factors,
    cuda_threads,
    transform_length,
)

START = 1167458304
KERNELS = Cuda(emulate=True)
ORBIT = jfstat.Orbit(asini=0.5, period=7200.0, tp=START + 1000.0, ecc=0.1, argp=0.7)


def prepared(detectors, hours, bandwidth, orbit=None):
    """Noise of half-hour SFTs, of which each detector misses others."""
    rng = np.random.default_rng(hours)
    starts = START + 1800 * np.arange(2 * hours)
    times = {name: starts[np.r_[True, rng.uniform(size=len(starts) - 2) < 0.8, True]] for name in detectors}
    sfts = jfstat.simulate_sfts(
        detectors, fmin=98.6, fmax=101.4 + bandwidth, timestamps=times, sqrt_sx=4e-24, seed=hours
    )
    return jfstat.prepare(sfts, 100.0, 100.0 + bandwidth, sqrt_sx=4e-24, orbit=orbit)


def bank(n, same_source, orbit):
    rng = np.random.default_rng(n)
    alpha, delta = rng.uniform(0, 2 * np.pi, n), np.arcsin(rng.uniform(-1, 1, n))
    if same_source:
        alpha[:], delta[:] = alpha[0], delta[0]
    orbit = None if orbit is None else jax.tree.map(lambda x: np.full(n, float(x)), orbit)
    return jfstat.Doppler(alpha, delta, np.stack([np.full(n, 100.0), rng.uniform(-1e-8, 0, n)], axis=1), START, orbit)


@pytest.mark.ci
@pytest.mark.parametrize("same_source", [False, True])
@pytest.mark.parametrize(
    ("detectors", "hours", "bandwidth", "orbit"),
    [(["H1"], 12, 0.05, None), (["H1", "L1", "V1"], 6, 0.1, None), (["H1", "L1"], 6, 0.05, ORBIT)],
)
def test_every_bin_is_that_of_the_library(detectors, hours, bandwidth, orbit, same_source):
    data, points = prepared(detectors, hours, bandwidth, orbit), bank(3, same_source, orbit)
    assert KERNELS.usable(data.layout, jax.devices()[0])
    expected = np.asarray(jax.vmap(jfstat.twoF_band, (None, 0))(data, points))
    found = loudest(KERNELS.ready(data), points, 3, expected.size, KERNELS, same_source)
    values = np.full(expected.shape, np.nan)
    values[np.asarray(found.template), np.asarray(found.frequency)] = np.asarray(found.twoF)
    assert np.isfinite(values).all()
    assert np.linalg.norm(values - expected) < 2e-6 * np.linalg.norm(expected)


def test_lengths_are_close_to_what_is_asked_for():
    rng = np.random.default_rng(0)
    asked = np.exp(rng.uniform(np.log(1e4), np.log(5e7), 300))
    chosen = [transform_length(n) for n in asked]
    ratio = np.array(chosen) / asked
    assert ratio.min() >= 1
    assert ratio.max() < 1.45
    assert ratio.mean() < 1.1
    for n in chosen:
        columns, middle, rows = cuda_factors(n)
        assert columns * middle * rows == n
        assert n % GRANULE == 0
        assert rows % CUDA_TILE == 0


def test_radices_make_the_lengths():
    for lengths in (CUDA_COLUMNS, CUDA_MIDDLE, CUDA_ROWS):
        for length, radices in lengths.items():
            product = np.prod(radices)
            assert length in ((product, 2 * product) if lengths is CUDA_ROWS else (product,))
            threads, results = cuda_threads(radices)
            # each thread makes one butterfly of the first radix, and holds no more than the largest at any
            assert threads >= product // radices[0]
            for radix in radices:
                assert radix * -(-product // radix // threads) <= max(radices)
            # results lie in equal sections, one of each thread in each
            last = [radix for radix in radices if radix > 1][-1]
            assert product % results == 0
            assert results // last * (product // results) == product // last


def test_rows_fit_small_gpus_or_are_refused_there():
    """With what their source declares: 99 KB is the least that GPUs of the kernels' capability have."""
    most = {length: kernels._rows(144, 144, length)[0] for length in CUDA_ROWS}
    too_long = {length for length, program in most.items() if program.shared + program.static > LEAST_SHARED}
    assert too_long == {8192}


def test_blocks_are_round_unless_that_makes_them_short():
    assert block_length(589824, 1228.8) == 1152
    assert block_length(110592, 230.4) == 192  # not 128
    assert block_length(1001, 100) == 91


@pytest.mark.parametrize("factors", [(64, 1, 64), (100, 1, 400), (64, 64, 256)])
def test_kernels_together_are_a_fourier_transform(factors):
    n1, between, rows = factors
    n, tile = n1 * between * rows, CUDA_TILE
    rng = np.random.default_rng(0)
    series = rng.normal(size=(n + 100, 4)).astype(np.float32)  # the last hundred are folded in
    series = np.pad(series, ((0, -len(series) % 32), (0, 0)))
    phase = np.zeros((1, len(series) // 32, 8), np.float32)  # nothing to remove
    numbers = np.array([between * rows, 32, len(series) // 32, 0], np.int32)
    y = emulated.columns(jnp.asarray(series), jnp.asarray(phase), numbers, n1, tile, True)
    if between > 1:
        y = emulated.middle(y, between)
    bins = jnp.asarray(np.array([[[-n, 2 * n], [-n, 2 * n]]], np.int32))
    found = np.asarray(emulated._two_f(y, bins, jnp.zeros(1, jnp.float32), n1 * between, rows))
    z = series[:, 0::2] + 1j * series[:, 1::2]
    double = np.zeros((2 * n, 2), complex)
    double[: len(z)] = z
    expected = np.sum(np.abs(np.fft.fft(double, axis=0)) ** 2, axis=1)  # bin 2 m + odd
    expected = expected.reshape(rows, n1 * between, 2).transpose(2, 1, 0)
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=2e-6 * expected.max())


@pytest.mark.parametrize("form", [filters.SMALL, filters.LARGE])
def test_subdivided_filters_interpolate_like_the_filters(form, monkeypatch):
    monkeypatch.setattr(filters, "form_of", lambda n: form)
    jax.clear_caches()
    data = prepared(["H1"], 6, 0.1)
    own, reach, layout = data.filters[0], float(data.band.reach), data.layout
    rng = np.random.default_rng(1)
    index = rng.integers(layout.padding, layout.padding + layout.n_band, 20000).astype(np.int32)
    shift = rng.uniform(-0.5, 0.5, 20000).astype(np.float32)
    terms = np.asarray(own)[:, :, index].astype(np.float64)
    expected = np.stack([chebval(shift / reach, terms[:, c], tensor=False) for c in range(2)])
    words = filters.subdivided(data.filters, data.band.reach)
    number = np.floor((shift + 0.5) * form.planes).astype(int)
    x = (shift + 0.5 - (number + 0.5) / form.planes) / form.reach
    found = emulated._interpolated(words[0][:, number, index], jnp.asarray(x, jnp.float32))
    error = np.stack([found.real, found.imag]) - expected
    assert np.sqrt(np.mean(error**2)) < 1.5e-6 * np.sqrt(np.mean(expected**2))
    assert words.nbytes == filters.subdivided_bytes(layout.n_band + 2 * layout.padding, 1)


@settings(deadline=None)
@given(st.integers(5, 60), st.integers(-3, 130), st.integers(-3, 130), st.integers(8, 40))
def test_ranges_of_entries_are_the_bins_that_count(n_frequencies, first, last, n_fft):
    n_frequencies = min(n_frequencies, 2 * n_fft - 1)
    first, last = max(first, 0), min(last, n_frequencies - 1)
    layout = prepared_layout(n_fft, n_frequencies)
    (low, high), ranges = (first, last), np.asarray(_ranges(layout, jnp.asarray([[first], [last]], jnp.int32)))
    entries = np.arange(n_fft)
    wide = np.asarray(kernels._ranges(jnp.asarray(ranges), n_fft))[0]
    for odd, (start, count, others, _) in enumerate(wide):
        expected = np.asarray(counts(bin_numbers(layout, odd, entries), low, high))
        # as `counts` of rows.cuh
        found = ((entries - start).astype(np.uint32) < np.uint32(count)) != bool(others)
        np.testing.assert_array_equal(found, expected)


def prepared_layout(n_fft, n_frequencies):
    return Layout(n_fft, n_frequencies, *[1] * 8)


@pytest.mark.parametrize("fraction", [1.0, 1.5, 1.9])
def test_live_sections_hold_the_band(fraction):
    layout = prepared_layout(57600, int(fraction * 57600))
    live = _live(layout)
    number = np.asarray(bin_numbers(layout, np.arange(2)[:, None], np.arange(57600)))
    inside = ((number >= 0) & (number < layout.n_frequencies)).any(axis=0).reshape(len(live), -1).any(axis=1)
    np.testing.assert_array_equal(live, inside)


def test_python_functions_are_targets_of_xla():
    """The interface to XLA, on a CPU: arguments and results come with addresses and shapes."""

    def double(stream, arrays):
        assert stream is None
        given, result = arrays
        assert given.shape == result.shape == (2, 3)
        source, target = ((ctypes.c_float * 6).from_address(array.address) for array in (given, result))
        target[:] = [2 * x for x in source]

    handler.register("jfstat_test_double", double, platform="cpu")
    call = jax.ffi.ffi_call("jfstat_test_double", jax.ShapeDtypeStruct((2, 3), jnp.float32))
    x = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)
    np.testing.assert_array_equal(jax.jit(lambda x: call(x) + 1)(x), 2 * x + 1)


def test_what_a_target_raises_is_an_error_of_one_line():
    def fail(stream, arrays):
        raise CudaError("NVIDIA's driver fails with error 2")

    handler.register("jfstat_test_fail", fail, platform="cpu")
    call = jax.ffi.ffi_call("jfstat_test_fail", jax.ShapeDtypeStruct((1,), jnp.float32))
    with pytest.raises(jax.errors.JaxRuntimeError, match="NVIDIA's driver fails with error 2"):
        jax.block_until_ready(jax.jit(call)(jnp.zeros(1, jnp.float32)))


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """A folder for machine code, and the list of what was compiled."""
    compiled = []

    def compile_(source, headers, architecture, options=()):
        compiled.append((architecture, headers["constants.cuh"]))
        return b"code"

    monkeypatch.setattr(nvrtc, "compiled", compile_)
    monkeypatch.setattr(nvrtc, "version", lambda: "12.9")
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "cache"))
    yield tmp_path / "cache", compiled
    jax.config.update("jax_compilation_cache_dir", before)


def one_block(program, shapes):
    return 1, 1, 1


def test_kernels_compile_at_the_same_time(monkeypatch):
    """What fails is told by the kernel that fails, when it is needed; the others are ready."""
    met = threading.Barrier(3, timeout=20)

    def cubin(source, constants, architecture, stored):
        if stored:
            met.wait()  # for all three
        if source == "bad.cu":
            raise CudaError("does not compile")
        return source.encode()

    monkeypatch.setattr(launch, "cubin", cubin)
    monkeypatch.setattr(launch, "architecture", lambda: "sm_90")
    monkeypatch.setattr(launch, "Kernel", lambda code, *given: code)
    first, second, bad = (
        launch.Program.of(f"{name}.cu", name, {}, one_block, 32) for name in ("first", "second", "bad")
    )
    forget_kernels()
    launch.compile_together([first, None, second, bad])
    assert (launch.loaded(first), launch.loaded(second)) == (b"first.cu", b"second.cu")
    with pytest.raises(CudaError, match="does not compile"):
        launch.loaded(bad)
    met.abort()  # nothing is compiled twice
    launch.compile_together([first, second])
    assert launch.loaded(first) == b"first.cu"
    forget_kernels()


def forget_kernels():
    for cached in (launch._loading, launch.loaded, launch._target):
        cached.cache_clear()


def test_a_kernel_that_failed_once_is_compiled_again(monkeypatch):
    """Such as one that met a full disk."""
    tried = []

    def cubin(source, constants, architecture, stored=True):
        tried.append(stored)
        if len(tried) == 1:
            raise OSError("the disk is full")
        return b"code"

    monkeypatch.setattr(launch, "cubin", cubin)
    monkeypatch.setattr(launch, "key", lambda *given: "again")
    monkeypatch.setattr(launch, "architecture", lambda: "sm_90")
    registered = {}
    monkeypatch.setattr(launch.handler, "register", lambda target, call: registered.update({target: call}))
    forget_kernels()
    started = []
    monkeypatch.setattr(launch, "Kernel", lambda code, *given: SimpleNamespace(launch=lambda *x: started.append(x)))
    assert launch.target(launch.Program.of("once.cu", "once", {}, one_block, 32)) == "jfstat_once_again"
    registered["jfstat_once_again"](7, [launch.handler.Array(1, (2,))])
    assert tried == [True, False]
    assert started == [(7, (1, 1, 1), [1])]
    forget_kernels()


def test_machine_code_is_kept_on_disk(cached):
    folder, compiled = cached
    constants = (("A", 3), ("B", 0.5))
    for _ in range(2):
        assert cubins.cubin("middle.cu", constants, "sm_90") == b"code"
    assert compiled == [("sm_90", "#pragma once\nconstexpr int A = 3;\nconstexpr double B = 0.5;\n")]
    cubins.cubin("middle.cu", constants, "sm_80")
    cubins.cubin("middle.cu", (("A", 4), ("B", 0.5)), "sm_90")
    assert len(compiled) == 3
    assert len(list((folder / cubins.KEPT.name).iterdir())) == 3


def test_a_folder_that_cannot_be_written_costs_time_only(cached):
    folder, compiled = cached
    folder.write_text("a file, not a folder")
    for _ in range(2):
        assert cubins.cubin("middle.cu", (("A", 3),), "sm_90") == b"code"
    assert len(compiled) == 2


def test_a_missing_compiler_is_named(monkeypatch):
    monkeypatch.setattr(nvrtc, "_candidates", list)

    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    nvrtc.library.cache_clear()
    with pytest.raises(CudaError, match=r"NVRTC is not installed: pip install 'jax\[cuda12\]'"):
        nvrtc.library()
    nvrtc.library.cache_clear()


def compiled(program, architecture):
    headers = {name: text for name, text in cubins.sources().items() if name.endswith(".cuh")}
    headers["constants.cuh"] = cubins.header(program.constants)
    return nvrtc.compiled(cubins.sources()[program.source], headers, architecture)


@pytest.fixture(scope="module")
def nvrtc_installed():
    """NVRTC needs no GPU; it is installed with the tests on Linux."""
    try:
        nvrtc.library()
    except CudaError as error:
        pytest.skip(str(error))


def few(lengths):
    """Lengths of transforms, of which the default run takes the shortest and the longest."""
    return [pytest.param(n, marks=() if n in (min(lengths), max(lengths)) else pytest.mark.ci) for n in lengths]


def columns_compile(columns, forms, architectures):
    """Compile the first kernel for columns of a length, and the one that interpolates, in some of their forms."""
    rows = next(r for r in CUDA_ROWS if cuda_factors(columns * r) == (columns, 1, r))
    n = columns * rows
    for block, orbit, shared, more in forms(columns):
        layout = Layout(n, n, 256, block, 128, 4, n // 256 + more, 256, n, 7)
        plan = kernels.plan(layout, 2, orbit, shared)
        for architecture in architectures:
            for program in (plan.columns, plan.interpolate):
                assert compiled(program, architecture).startswith(b"\x7fELF")


def all_forms(columns):
    """Blocks, whether there is an orbit, whether a source is shared, and sections beyond the series."""
    return (256, False, False, 1), (16, True, False, 1), (256, False, True, columns)


def form_in_turn(columns):
    return (all_forms(columns)[list(CUDA_COLUMNS).index(columns) % 3],)


@pytest.mark.ci
@pytest.mark.usefixtures("nvrtc_installed")
@pytest.mark.parametrize("columns", CUDA_COLUMNS)
def test_columns_compile(columns):
    """Each length in one of the forms, the shortest and the longest in all of them; see the next for the others."""
    if columns in (min(CUDA_COLUMNS), max(CUDA_COLUMNS)):
        columns_compile(columns, all_forms, ["sm_90"])
        columns_compile(columns, form_in_turn, ["sm_80"])
    else:
        columns_compile(columns, form_in_turn, ["sm_90"])


@pytest.mark.slow
@pytest.mark.usefixtures("nvrtc_installed")
@pytest.mark.parametrize("columns", CUDA_COLUMNS)
def test_columns_compile_in_all_forms(columns):
    columns_compile(columns, all_forms, ["sm_80", "sm_90"])


@pytest.mark.usefixtures("nvrtc_installed")
@pytest.mark.parametrize("length", few({**CUDA_ROWS, **CUDA_MIDDLE}))
def test_rows_and_the_kernels_between_compile(length):
    if length in CUDA_ROWS:
        for program in kernels._rows(144, 144, length):
            assert compiled(program, "sm_90").startswith(b"\x7fELF")
    if length in CUDA_MIDDLE:
        assert compiled(kernels._middle(225, length, 256), "sm_90").startswith(b"\x7fELF")


@pytest.mark.usefixtures("nvrtc_installed")
@pytest.mark.parametrize("piece", [64, 128, 256, 32768])
def test_sums_over_segments_compile(piece):
    program = sums.program(piece)
    assert compiled(program, "sm_90").startswith(b"\x7fELF")
    assert compiled(sums.sharing(piece), "sm_80").startswith(b"\x7fELF")
    assert piece % (program["THREADS"] * program["V"]) == 0


@pytest.mark.usefixtures("nvrtc_installed")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_kernels_of_staged_sums_compile(architecture):
    for program in (sums.ranks(), sums.staging(9)):
        assert compiled(program, architecture).startswith(b"\x7fELF")


def test_one_block_for_each_group_and_run_of_bins():
    program = sums.program(4096)
    shapes = [(0,)] * 6 + [(7, 5, 4096), (sums.COPIES, 30)]
    blocks, *others = program.grid(program, shapes)
    assert blocks * program["THREADS"] * program["V"] == 5 * 7 * 4096
    assert others == [1, 1]


def test_blocks_for_all_staged_bins():
    """There are blocks for all pieces, groups and bins, a piece being shorter than a block's bins or longer."""
    program = sums.staging(9)
    most = sums.RUN * sums.TILES
    for piece, blocks in ((512, 1), (most, 1), (2 * most, 2)):
        shapes = [(0,)] * 8 + [(7, 3 * sums.GROUPS, piece), (sums.COPIES, 30)]
        assert program.grid(program, shapes) == (7 * 3 * blocks, 1, 1)
    assert sums.ranks().grid(sums.ranks(), [(7, 3, 9, 256)] * 3 + [(7, 3, 9)]) == (7 * 3 * 9, 1, 1)


def test_blocks_for_all_bins_of_shared_sums():
    program = sums.sharing(4096)
    blocks, *others = program.grid(program, [(10, 4160), (7, 90, 3), (7,), (3,), (7, 90, 4160)])
    bins, tiles = program["THREADS"] * program["V"], blocks // (7 * sums.ROWS)
    assert blocks == tiles * 7 * sums.ROWS and tiles * bins >= 4160 > (tiles - 1) * bins
    assert others == [1, 1]


@pytest.mark.usefixtures("nvrtc_installed")
def test_what_does_not_compile_is_named():
    with pytest.raises(CudaError, match="cannot compile a kernel for sm_90: "):
        nvrtc.compiled("nonsense", {}, "sm_90")


def test_launches_fit_the_limits_for_all_lengths():
    for middle, rows in product((1, *CUDA_MIDDLE), CUDA_ROWS):
        tiles = middle * rows // CUDA_TILE
        grid = launch.tile_grid(tiles)
        assert np.prod(grid) == tiles
        assert max(grid) <= launch.MOST_BLOCKS


@pytest.mark.parametrize(("engine", "n_programs"), [(KERNELS, 2), (Xla(), 1)])
def test_programs_that_are_compiled_beforehand_are_those_that_run(engine, n_programs):
    """The geometry has a program of its own where kernels do the rest."""
    data, points = prepared(["H1"], 12, 0.05), bank(2, False, None)
    geometry, data = geometry_program(data, points, engine), engine.ready(data)
    programs = [geometry, loudest_program(data, points, 2, 11, engine, geometry=geometry)]
    assert sum(program is not None for program in programs) == n_programs
    compile_together([program for program in programs if program is not None])
    with counted_compilations() as compiled:
        loudest(data, points, 2, 11, engine)
        assert compiled == []
        loudest(data, points, 2, 12, engine)  # others are seen
        assert len(compiled) == 1


def part_for(engine, data, n, size):
    """The whole band for a search of n templates, `size` at a time, and its batches."""
    stack = stacked_bank(bank(n, False, None))
    plan, task = division(data, stack, size), task_of(data, stack, None, Toplist(4, None))
    return task.statistic._part(task, plan, 0)._replace(reduction=engine), plan.batches


@pytest.mark.parametrize(
    ("engine", "where"), [(KERNELS, jax.device_put), (Xla(), jax.device_put), (KERNELS, jax.device_get)]
)
def test_a_part_that_was_made_ready_needs_no_compilation(engine, where):
    data = prepared(["H1", "L1"], 6, 0.1)
    part, batches = part_for(engine, where(data), 5, 3)
    ready = made_ready(part, batches)
    with counted_compilations() as compiled:
        found = [state for state, _ in run(ready, batches, lambda: 0)]
    assert len(found) == 2 and not [name for name in compiled if "geometry" in name or "loudest" in name]
    expected = float(jnp.max(jax.vmap(jfstat.twoF_band, (None, 0))(data, bank(5, False, None))))
    assert max(state.peaks.twoF[0] for state in found) == pytest.approx(expected, rel=1e-5)


def test_data_are_let_go_when_there_is_no_memory_for_the_backends_form_of_them():
    """A search then tries again with smaller batches, and needs the memory."""

    class Full(Xla):
        def ready(self, data):
            raise MemoryError("full")

    def attempt():
        part, batches = part_for(Full(), prepared(["H1"], 6, 0.05), 2, 2)
        part = part._replace(data=replace(part.data))
        held = weakref.ref(part.data)
        try:
            made_ready(part, batches)
        except MemoryError as error:
            return held, str(error)
        return held, ""

    gc.collect()
    gc.disable()  # as soon as they are not needed, not when garbage is next collected
    try:
        held, message = attempt()
        assert message == "full" and held() is None
    finally:
        gc.enable()


def test_few_of_many_values_are_the_largest():
    """Fewer rows are looked at again than a block holds."""
    data, points = prepared(["H1"], 12, 0.05), bank(2, False, None)
    expected = np.sort(np.asarray(jax.vmap(jfstat.twoF_band, (None, 0))(data, points)).ravel())[::-1][:7]
    found = loudest(KERNELS.ready(data), points, 2, 7, KERNELS)
    np.testing.assert_allclose(found.twoF, expected, rtol=1e-5)


def test_other_failures_than_ours_are_reasons_too(monkeypatch):
    from jfstat.engines.cuda import engine

    def old_driver():
        raise AttributeError("undefined symbol:\n cuLibraryLoadData")

    monkeypatch.setattr(kernels, "probe", old_driver)
    engine._problem.cache_clear()
    assert Cuda().unavailable() == "AttributeError: undefined symbol: cuLibraryLoadData"
    engine._problem.cache_clear()
