"""Call the kernels of 2F, with their constants for a layout, their arguments and their results.

Each function here calls one kernel, or calls `emulated` where there is no GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.bandseries import Layout
from jfstat.engines.cuda import emulated, filters, launch
from jfstat.engines.cuda.launch import Program, Shapes, tile_grid
from jfstat.engines.reduction import BINS, WIDTH
from jfstat.maths.lengths import largest_divisor
from jfstat.transforms import CUDA_COLUMNS, CUDA_MIDDLE, CUDA_ROWS, CUDA_TILE, cuda_factors, cuda_threads

COPIES = 64
"""Number of copies of the tallies, so that blocks do not wait for each other."""
LEAST_BLOCK, LEAST_RUN, LINEAR_BLOCK = 128, 48, 2048
"""A row of a tile's samples has one whole shift and one expansion of its timing if blocks and runs are this long: then
the position drifts by less than 0.005 samples in half a row. Otherwise every sample has its own. In blocks of so many
samples, which last half an hour at most, the antenna patterns are lines within a row; in shorter ones parabolas.
"""
REGISTERS = {8: 64, 10: 96, 12: 96, 16: 128, 20: 160, 24: 168}
"""Registers that a thread of the last kernel may take, by the numbers that it holds: with fewer, some are spilled to
memory.
"""
ALL_REGISTERS = 65536
"""Registers of a multiprocessor."""
THREADS, SHARED = 256, 72 << 10
"""Most threads and bytes of shared memory of a block of several rows."""
SMALLER = {256: (128, 96)}
"""Lengths of rows that are faster in blocks of fewer threads with fewer registers: threads, and registers of each. For
numbers of rows that do not fill such blocks this was not measured, and the usual numbers are taken.
"""
MOST_ROW_BYTES = 80 << 10
"""Most bytes of shared memory for the timing of a block's rows."""
COMPLEX = 8


class Plan(NamedTuple):
    """Programs for a layout: columns, perhaps middle, rows (reduced and values), and programs for shared series."""

    columns: Program
    middle: Program | None
    reduced: Program
    values: Program
    interpolate: Program


def pitches(r1: int, r2: int, r3: int, columns: int) -> dict[str, int]:
    """Return the pitches of numbers in shared memory between the radices of a transform, such that few share a bank.

    Sixteen complex numbers fill the banks, so sixteen columns side by side need no pitch.
    """

    def padded(n: int, remainder: int) -> int:
        return n + (remainder - n) % 16

    m = r2 * r3
    first = m if columns >= 16 else m | 1 if columns > 1 else padded(m, 1 if r3 == 1 else r3)
    second = 0 if r3 == 1 else padded(r1 * r2, max(1, 16 // r3))
    return {"PITCH": first, "SECOND_PITCH": second}


def column_registers(a1: int, a2: int) -> int:
    """Return the registers of a thread of the first kernel: for two series, one transform, and the rest."""
    return 4 * a1 + 2 * max(a1, a2) + 32


def middle_registers(a1: int, a2: int) -> int:
    """Return the registers of a thread of the middle kernel."""
    return 2 * max(a1, a2) + 36


@lru_cache
def plan(layout: Layout, n_detectors: int, orbit: bool, shared: bool) -> Plan:
    """Return the programs for data of a layout, which `transforms.cuda_factors` can transform."""
    n1, between, last = factors_of(layout)
    form = filters.form_of(layout.n_band + 2 * layout.padding)
    sample = {
        "DETECTORS": n_detectors,
        "FILTERS": form.terms,
        "PLANES": form.planes,
        "REACH": form.reach,
        "COLUMNS": CUDA_TILE,
    }
    return Plan(
        _columns(layout, sample, n1, orbit, shared),
        _middle(n1, between, last) if between > 1 else None,
        *_rows(n1, n1 * between, last),
        _interpolate(sample),
    )


def of_rows(layout: Layout, orbit: bool) -> bool:
    """Return whether the timing of a row of a tile's samples may be expanded about its middle."""
    block = layout.block_of(orbit)
    return block % CUDA_TILE == 0 and block >= LEAST_BLOCK and (not orbit or layout.run_orbit >= LEAST_RUN)


def rows_beyond(layout: Layout) -> int:
    """Return the number of rows of the columns' matrix after its last, whose samples are folded in."""
    _, between, last = factors_of(layout)
    return -(-(layout.n_blocks * layout.block - layout.n_fft) // (between * last))


def factors_of(layout: Layout) -> tuple[int, int, int]:
    """Return lengths over columns, middle and rows, `transforms.cuda_factors`, which the layout must have."""
    factors = cuda_factors(layout.n_fft)
    if factors is None:
        raise ValueError(f"the engine 'cuda' has no transforms of length {layout.n_fft}: use the engine 'xla'.")
    return factors


def _columns(layout: Layout, sample: Mapping[str, int | float], n1: int, orbit: bool, shared: bool) -> Program:
    a1, a2 = CUDA_COLUMNS[n1]
    beyond = rows_beyond(layout)
    of_column, _ = cuda_threads((a1, a2))
    threads = of_column * CUDA_TILE
    turned = -(-beyond // a2)
    own = pitches(a1, a2, 1, CUDA_TILE)
    curved = not shared and layout.block_of(orbit) < LINEAR_BLOCK
    row_bytes = (1 if shared else int(sample["DETECTORS"])) * (n1 + beyond) * (16 if shared else 64 if curved else 48)
    # the timing of many rows and detectors does not fit
    each = not of_rows(layout, orbit) or row_bytes > MOST_ROW_BYTES
    blocks = ALL_REGISTERS // (column_registers(a1, a2) * threads)
    constants = {
        **sample,
        "EACH": int(each),
        "CURVED": int(curved),
        "SHARED": int(shared),
        "A1": a1,
        "A2": a2,
        "T": of_column,
        "BEYOND": beyond,
        # what is folded in takes registers, and so do polynomials for every sample
        "BLOCKS": max(1, blocks - (turned > 1) - (turned > a1 // 2) - each),
        **own,
    }
    exchange = a1 * own["PITCH"] * CUDA_TILE * COMPLEX
    return Program.of(
        "columns.cu",
        "columns",
        constants,
        _columns_grid,
        threads,
        a2 * CUDA_TILE * COMPLEX + max(exchange, 0 if each else row_bytes),
    )


def _middle(n1: int, length: int, last: int) -> Program:
    a1, a2 = CUDA_MIDDLE[length]
    of_column, _ = cuda_threads((a1, a2))
    own = pitches(a1, a2, 1, CUDA_TILE)
    exchange = a1 * own["PITCH"] * CUDA_TILE * COMPLEX
    threads = of_column * CUDA_TILE
    constants = {
        "N1": n1,
        "A1": a1,
        "A2": a2,
        "T": of_column,
        "LAST": last,
        "COLUMNS": CUDA_TILE,
        "BLOCKS": ALL_REGISTERS // (middle_registers(a1, a2) * threads),
        **own,
    }
    return Program.of("middle.cu", "middle", constants, _middle_grid, threads, a2 * CUDA_TILE * COMPLEX + exchange)


def _rows(n1: int, n_rows: int, length: int) -> tuple[Program, Program]:
    """Return the programs that find the largest values in all rows, and all values of some rows."""
    r1, r2, r3 = radices = CUDA_ROWS[length]
    of_row, _ = cuda_threads(radices)
    own = pitches(r1, r2, r3, 1)
    first, second = r1 * own["PITCH"] * COMPLEX, r3 * own["SECOND_PITCH"] * COMPLEX
    parts = length // (r1 * r2 * r3)
    if parts == 1:  # two exchanges in turns
        exchange, stash = first, 0
        together = 2 * first if r3 == 1 else first + second
    else:
        exchange, stash = 0, max(first, second)
        together = stash + 2 * r1 * of_row * COMPLEX
    most, registers = SMALLER.get(length, (THREADS, REGISTERS[max(radices)]))
    if n_rows % (most // of_row):
        most, registers = THREADS, REGISTERS[max(radices)]
    groups = largest_divisor(n_rows, max(1, min(most // of_row, SHARED // together)))
    threads = of_row * groups
    constants = {
        "N1": n1,
        "PARTS": parts,
        "R1": r1,
        "R2": r2,
        "R3": r3,
        "T": of_row,
        "GROUPS": groups,
        "EXCHANGE": exchange,
        "STASH": stash,
        "GROUP_BYTES": together,
        "COLUMNS": CUDA_TILE,
        "BLOCKS": max(1, ALL_REGISTERS // (registers * threads)),
        **own,
    }
    tallies = {"BINS": BINS, "WIDTH": WIDTH, "COPIES": COPIES}
    static = 4 * (33 * BINS + 2 * groups + 1)
    return (
        Program.of("reduced.cu", "reduced", constants | tallies, _reduced_grid, threads, groups * together, static),
        Program.of("values.cu", "values", constants, _values_grid, threads, groups * together),
    )


def _interpolate(sample: Mapping[str, int | float]) -> Program:
    constants = {**sample, "EACH": 1, "CURVED": 0, "SHARED": 0}
    return Program.of("interpolate.cu", "interpolate", constants, _interpolate_grid, THREADS)


def _interpolate_grid(program: Program, shapes: Shapes) -> tuple[int, int, int]:
    return -(-shapes[-1][0] // program.threads), 1, 1


def _columns_grid(program: Program, shapes: Shapes) -> tuple[int, int, int]:
    return shapes[-1][0], *tile_grid(shapes[-1][2])  # the result's templates and tiles


def _middle_grid(program: Program, shapes: Shapes) -> tuple[int, int, int]:
    n_batch, n_series, _, n1, _ = shapes[0]
    return n_batch * n_series * n1, program["LAST"] // program["COLUMNS"], 1


def _reduced_grid(program: Program, shapes: Shapes) -> tuple[int, int, int]:
    return shapes[8][2] // program["GROUPS"], shapes[8][0], 1


def _values_grid(program: Program, shapes: Shapes) -> tuple[int, int, int]:
    return -(-shapes[-1][0] // program["GROUPS"]), 1, 1


# ---------------------------------------------------------------- calls


def interpolate(program: Program, given: jax.Array, timing: jax.Array, numbers: np.ndarray, emulate: bool) -> jax.Array:
    """Return the weighted series of one template, (n_samples, 4) float32: real and imaginary parts of both series.

    Parameters
    ----------
    program : Program
    given : (D, terms / 2, planes, n, 4) float32
        From `filters.subdivided`.
    timing : (D, n_blocks, 20) float32
        See `timing.packed_timing`.
    numbers : (4,) int32
        Columns, samples of a block, blocks, samples of the filters.
    emulate : bool
    """
    n_samples = int(numbers[1]) * int(numbers[2])
    result = jax.ShapeDtypeStruct((n_samples, 4), jnp.float32)
    if emulate:
        return emulated.interpolate(given, timing, numbers)
    return launch.call(program, result)(given, timing, jnp.asarray(numbers))


def columns(
    program: Program,
    given: jax.Array,
    timing: jax.Array,
    numbers: np.ndarray,
    emulate: bool,
) -> jax.Array:
    """Run the first kernel for a batch: (B, 4, tiles, N1, columns of a tile) complex64.

    Parameters
    ----------
    program : Program
    given : float32
        From `filters.subdivided`; or the series that all templates share, (n_samples, 4).
    timing : (B, D, n_blocks, 20) or, for a shared series, (B, n_blocks, 8) float32
        See `timing`.
    numbers : (4,) int32
        See `interpolate`.
    emulate : bool
    """
    n1, tile = program["A1"] * program["A2"], program["COLUMNS"]
    result = jax.ShapeDtypeStruct((timing.shape[0], 4, int(numbers[0]) // tile, n1, tile), jnp.complex64)
    if emulate:
        shared = bool(program["SHARED"])
        return emulated.columns(given, timing, numbers, n1, tile, shared)
    return launch.call(program, result)(given, timing, jnp.asarray(numbers))


def middle(program: Program, series: jax.Array, emulate: bool, in_place: bool = True) -> jax.Array:
    """Run the middle kernel of long transforms; in place, unless the series must be kept."""
    if emulate:
        return emulated.middle(series, program["A1"] * program["A2"])
    return launch.call(program, jax.ShapeDtypeStruct(series.shape, series.dtype), {0: 0} if in_place else None)(series)


class Reduced(NamedTuple):
    """Largest 2F and tallies that the last kernel returns.

    Attributes
    ----------
    largest : (B, 2, n_rows) float32
        Largest 2F of each template, parity and row; -1 if no bin counts.
    histogram : (COPIES, BINS) int32
    sections : (COPIES, S) float32
        -1 if none counts.
    """

    largest: jax.Array
    histogram: jax.Array
    sections: jax.Array


def reduced(
    program: Program,
    series: jax.Array,
    bins: jax.Array,
    offsets: jax.Array,
    n_rows: int,
    live: np.ndarray,
    emulate: bool,
) -> Reduced:
    """Run the last kernel for a batch.

    Parameters
    ----------
    program : Program
    series : complex64
        From `columns` or `middle`.
    bins : (B, 2, 2) int32
        For each parity: the first entry that counts, negative if in the second half, and the number of entries that
        count.
    offsets : (B,) float32
        Added to 2F.
    n_rows : int
    live : (S,) bool
        Which sections can have bins that count.
    emulate : bool
    """
    n_batch = series.shape[0]
    if emulate:
        return Reduced(*emulated.reduced(series, bins, offsets, n_rows, _length(program), len(live)))
    # the others hold infinity meanwhile: the kernel then knows at once how large a value must be to matter
    start = np.where(live, np.float32(-1), np.float32(np.inf)).view(np.int32)
    results = (
        jax.ShapeDtypeStruct((n_batch, 2, n_rows), jnp.float32),
        jax.ShapeDtypeStruct((COPIES, BINS), jnp.int32),
        jax.ShapeDtypeStruct((COPIES, len(live)), jnp.int32),
    )
    largest, histogram, sections = launch.call(program, results, {6: 1, 7: 2})(
        series,
        *_twiddles(program),
        _ranges(bins, n_rows * _length(program)),
        offsets,
        _row_numbers(n_rows, program),
        jnp.zeros((COPIES, BINS), jnp.int32),
        jnp.tile(jnp.asarray(start), (COPIES, 1)),
    )
    sections = jax.lax.bitcast_convert_type(sections, jnp.float32)
    return Reduced(largest, histogram, jnp.where(jnp.asarray(live), sections, -1.0))


def values(
    program: Program,
    series: jax.Array,
    bins: jax.Array,
    offsets: jax.Array,
    n_rows: int,
    chosen: jax.Array,
    emulate: bool,
) -> jax.Array:
    """Return 2F of all bins of some rows, (K, LENGTH) float32; -1 for bins that do not count.

    Parameters
    ----------
    program, series, bins, offsets, n_rows, emulate
        See `reduced`.
    chosen : (K,) int32
        Indices into `Reduced.largest`, flat.
    """
    length = _length(program)
    if emulate:
        return emulated.values(series, bins, offsets, n_rows, length, chosen)
    result = jax.ShapeDtypeStruct((*chosen.shape, length), jnp.float32)
    numbers = _row_numbers(n_rows, program, chosen.shape[0])
    return launch.call(program, result)(
        series, *_twiddles(program), _ranges(bins, n_rows * length), offsets, numbers, chosen
    )


def _ranges(bins: jax.Array, n_total: int) -> jax.Array:
    """Return the entries that count as `rows.cuh` takes them, (B, 2, 4) int32: a range, and whether it is inverted.

    Ranges that begin in the second half and end in the first go around the end of the entries.
    """
    first, count = bins[..., 0], bins[..., 1]
    around = (first < 0) & (first + count > 0)
    start = jnp.where(around, first + count, jnp.where(first < 0, first + n_total, first))
    zero = jnp.zeros_like(first)
    return jnp.stack([start, jnp.where(around, n_total - count, count), around.astype(jnp.int32), zero], axis=-1)


def _row_numbers(n_rows: int, program: Program, *more: int) -> jax.Array:
    return jnp.asarray(np.array([n_rows, n_rows * _length(program), *more], np.int32))


def _length(program: Program) -> int:
    """Return the length of the rows."""
    return program["PARTS"] * program["R1"] * program["R2"] * program["R3"]


@lru_cache
def _tables(parts: int, r1: int, r2: int, r3: int) -> tuple[np.ndarray, np.ndarray]:
    """Return twiddles of a row's transform after its first and second radix, complex64, as `rows.cuh` indexes them.

    Twiddles after the first radix differ between even and odd entries, which are shifted by half an entry.
    """
    length = r1 * r2 * r3
    q, t = np.meshgrid(np.arange(r1), np.arange(r2 * r3), indexing="ij")
    q2, b = np.meshgrid(np.arange(r2), np.arange(r3), indexing="ij")
    turns = [t * (parts * q + part) % (parts * length) / (parts * length) for part in range(parts)]
    second = np.exp(-2j * np.pi * (q2 * b % (r2 * r3)) / (r2 * r3))
    return np.exp(-2j * np.pi * np.stack(turns)).astype(np.complex64).reshape(-1), second.astype(np.complex64).reshape(
        -1
    )


def _twiddles(program: Program) -> tuple[jax.Array, ...]:
    return tuple(jnp.asarray(x) for x in _tables(*(program[name] for name in ("PARTS", "R1", "R2", "R3"))))


def probe() -> None:
    """Compile and load the smallest kernel.

    Raises
    ------
    CudaError
        If driver or compiler are missing or do not work together.
    """
    launch.loaded(_interpolate({"DETECTORS": 1, "FILTERS": 2, "PLANES": 1, "REACH": 1.0, "COLUMNS": 1}))
