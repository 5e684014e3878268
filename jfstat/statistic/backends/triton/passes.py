"""The Pallas kernels, each of which reads and writes the series once.

Templates come in groups. The templates of a group lie side by side in memory, in *lanes*: whichever axis of the series
a kernel transforms, neighbouring threads then read and write neighbouring numbers, and nothing is ever transposed. A
group has `lanes` templates; its arrays end with axes

- (2 series, lanes) after `interpolate`,
- (2 series, lanes, 2 parities) after `first`: even and odd bins.

Real and imaginary parts are apart. All arrays are flat; the shapes in the docstrings say how.

Frequencies come out in the order of their digits: with radices r_1, r_2, ... row (q_1, q_2, ...) holds entry
q_1 + r_1 (q_2 + r_2 (q_3 + ...)) of the transform.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from jfstat.data.bandseries import Layout
from jfstat.data.blocks import SLOPES
from jfstat.maths.turns import turn
from jfstat.statistic.backends.triton.butterflies import Twiddles, divide, multiply, remainder, transform, unit_root
from jfstat.statistic.backends.triton.counters import SUMS, Counters
from jfstat.statistic.bins import counts
from jfstat.statistic.spectrum import bin_numbers
from jfstat.transforms import sections_per_digit

THREADS = 128
"""Largest number of threads of a program; each computes one butterfly."""
WARP = 32
"""Number of threads that can sum without waiting for each other."""
TILE = 128
"""Largest number of samples that a program of `interpolate` computes for each template of a group."""
Planes = tuple[jax.Array, jax.Array]
"""Real and imaginary parts, flat."""


def _call(
    body: Callable[..., None],
    programs: int,
    shapes: Any,
    name: str,
    interpret: bool,
    threads: int = THREADS,
    aliases: Any = None,
) -> Any:
    return pl.pallas_call(
        body,
        out_shape=shapes,
        grid=(programs,),
        name=name,
        interpret=interpret,
        input_output_aliases=aliases or {},
        compiler_params=triton.CompilerParams(num_warps=max(1, threads // 32), num_stages=1),
    )


def _plane(n: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((n,), jnp.float32)


def _threads(butterflies: int) -> int:
    """Threads of a program, a power of two that divides the number of butterflies."""
    return math.gcd(butterflies, THREADS)


def _rows(length: int, threads: int) -> tuple[jax.Array, jax.Array]:
    """Row and place in it of each thread of this program, for rows of `length`; one row per program if that divides."""
    program = pl.program_id(0)
    thread = lax.iota(jnp.int32, threads)
    if length % threads == 0:
        programs = length // threads
        return divide(program, programs), remainder(program, programs) * threads + thread
    flat = program * threads + thread
    return divide(flat, length), remainder(flat, length)


def interpolate(
    banks: Sequence[jax.Array],
    cubics: jax.Array,
    integers: jax.Array,
    reach: jax.Array,
    lanes: int,
    block: int,
    n_blocks: int,
    interpret: bool = False,
) -> Planes:
    """Resampled, demodulated series, times two weights each and summed over detectors.

    Parameters
    ----------
    banks : D of (P, 2, n) float32
    cubics : (B, D, n_blocks, 16) float32
        Coefficients of position, phase and the two weights, four each.
    integers : (B, D, n_blocks, 2) int32
        Base and slope.
    reach : (1,) float32
        Inverse of the bank's reach.
    lanes, block, n_blocks : int
        B is a multiple of `lanes`, a power of two.

    Returns
    -------
    two of (B / lanes, n_blocks block, 2, lanes) float32, flat.
    """
    n_templates, n_detectors = cubics.shape[:2]
    n_samples = block * n_blocks
    tile = math.gcd(block, TILE)
    tile = tile if tile >= 16 else 16
    whole_blocks = block % tile == 0
    n_tiles, n_groups = -(-n_samples // tile), n_templates // lanes
    terms, _, length = banks[0].shape

    def body(*refs: Any) -> None:
        *bank_refs, cubic_ref, integer_ref, reach_ref, real_ref, imaginary_ref = refs
        program = pl.program_id(0)
        # one tile of all groups after the other: the bank's samples are then still in the cache
        group = remainder(program, n_groups)
        first = divide(program, n_groups) * tile
        n = first + lax.iota(jnp.int32, tile)
        if whole_blocks:
            own_block = divide(first, block)
            j = (first - own_block * block + lax.iota(jnp.int32, tile))[None, :]
        else:
            n = jnp.minimum(n, n_samples - 1)  # the last tile repeats its last sample
            own_block = divide(n, block)[None, :]
            j = n[None, :] - own_block * block
        lane = lax.iota(jnp.int32, lanes)[:, None]
        u = (2 * j.astype(jnp.float32) + 1) * np.float32(1 / block) - 1
        inverse = reach_ref[0]
        totals = [None] * 4
        for d, bank_ref in enumerate(bank_refs):
            row = ((group * lanes + lane) * n_detectors + d) * n_blocks + own_block

            def polynomial(k: int, row: jax.Array = row) -> jax.Array:
                c = [cubic_ref[row * 16 + (4 * k + i)] for i in range(4)]
                return c[0] + u * (c[1] + u * (c[2] + u * c[3]))

            base, slope = integer_ref[row * 2], integer_ref[row * 2 + 1]
            shift = polynomial(0)
            whole = jnp.floor(shift + 0.5)
            x = (shift - whole) * inverse
            index = jnp.clip(base + j + whole.astype(jnp.int32), 0, length - 1)
            real, imaginary = bank_ref[index], bank_ref[index + length]
            lower, current = jnp.ones_like(x), x
            for p in range(1, terms):
                real = real + bank_ref[index + 2 * p * length] * current
                imaginary = imaginary + bank_ref[index + (2 * p + 1) * length] * current
                lower, current = current, 2 * x * current - lower
            cycles = remainder(slope * j, SLOPES).astype(jnp.float32) * np.float32(1 / SLOPES) + polynomial(1)
            cos, sin = turn(jnp.floor(cycles + 0.5) - cycles)
            z = multiply((real, imaginary), (cos, sin))
            for s in range(2):
                weight = polynomial(2 + s)
                for c in range(2):
                    term = z[c] * weight
                    totals[2 * s + c] = term if totals[2 * s + c] is None else totals[2 * s + c] + term
        out = ((group * n_samples + n[None, :]) * 2) * lanes + lane
        for s in range(2):
            real_ref[out + s * lanes] = totals[2 * s]
            imaginary_ref[out + s * lanes] = totals[2 * s + 1]

    shape = _plane(n_groups * n_samples * 2 * lanes)
    run = _call(body, n_groups * n_tiles, (shape, shape), "interpolate", interpret)
    return run(*(bank.reshape(-1) for bank in banks), cubics.reshape(-1), integers.reshape(-1), reach)


def rotate(
    series: Planes, cubics: jax.Array, slopes: jax.Array, lanes: int, block: int, n_blocks: int, interpret: bool = False
) -> Planes:
    """The same series for many templates, with the spin-down of each removed.

    Parameters
    ----------
    series : two of (n_blocks block, 2) float32
        Real and imaginary parts of one sky position's two weighted series.
    cubics : (n_blocks, 4, B) float32
        Coefficients of the phase.
    slopes : (n_blocks, B) int32
    lanes, block, n_blocks : int

    Returns
    -------
    As `interpolate`.
    """
    n_templates = slopes.shape[1]
    n_samples = block * n_blocks
    size = n_templates * n_samples
    threads = _threads(size)

    def body(x_real: Any, x_imaginary: Any, cubic_ref: Any, slope_ref: Any, real_ref: Any, imaginary_ref: Any) -> None:
        group, place = _rows(n_samples * lanes, threads)
        n, lane = divide(place, lanes), remainder(place, lanes)
        own_block = divide(n, block)
        j = n - own_block * block
        u = (2 * j.astype(jnp.float32) + 1) * np.float32(1 / block) - 1
        template = group * lanes + lane
        c = [cubic_ref[(own_block * 4 + i) * n_templates + template] for i in range(4)]
        slope = slope_ref[own_block * n_templates + template]
        cycles = remainder(slope * j, SLOPES).astype(jnp.float32) * np.float32(1 / SLOPES)
        cycles = cycles + (c[0] + u * (c[1] + u * (c[2] + u * c[3])))
        phasor = turn(jnp.floor(cycles + 0.5) - cycles)
        for s in range(2):
            z = multiply((x_real[2 * n + s], x_imaginary[2 * n + s]), phasor)
            out = ((group * n_samples + n) * 2 + s) * lanes + lane
            real_ref[out], imaginary_ref[out] = z

    run = _call(body, size // threads, (_plane(2 * size), _plane(2 * size)), "rotate", interpret, threads)
    return run(*series, cubics.reshape(-1), slopes.reshape(-1))


def first(x: Planes, lanes: int, n_fft: int, n_samples: int, radix: int, interpret: bool = False) -> Planes:
    """First radix of the transforms of length n_fft that give even and odd bins; samples beyond n_fft are folded in.

    Parameters
    ----------
    x : two of (groups, n_samples, 2, lanes) float32
    lanes, n_fft, n_samples, radix : int

    Returns
    -------
    two of (groups, radix, n_fft / radix, 2, lanes, 2) float32.
    """
    rest = n_fft // radix
    width = 4 * lanes
    beyond = n_samples - n_fft
    size = x[0].size // n_samples * n_fft * 2
    threads = _threads(size // radix)

    def body(x_real: Any, x_imaginary: Any, y_real: Any, y_imaginary: Any) -> None:
        group, place = _rows(rest * width, threads)
        m, lane = divide(place, width), remainder(place, width)
        odd = (lane & 1) != 0
        base = (group * n_samples + m) * (2 * lanes) + (lane >> 1)
        sign = jnp.where(odd, np.float32(-1), np.float32(1))
        values = []
        for p in range(radix):
            index = base + np.int32(p * rest * 2 * lanes)
            value = x_real[index], x_imaginary[index]
            if p * rest < beyond:
                inside = m < beyond - p * rest
                index = jnp.where(inside, index + np.int32(n_fft * 2 * lanes), index)
                value = tuple(
                    v + jnp.where(inside, ref[index] * sign, np.float32(0))
                    for v, ref in zip(value, (x_real, x_imaginary), strict=True)
                )
            if p:
                cos, sin = np.float32(math.cos(math.pi * p / radix)), np.float32(-math.sin(math.pi * p / radix))
                value = multiply(value, (jnp.where(odd, cos, np.float32(1)), jnp.where(odd, sin, np.float32(0))))
            values.append(value)
        cos, sin = unit_root(m, 2 * n_fft)
        half_bin = jnp.where(odd, cos, np.float32(1)), jnp.where(odd, sin, np.float32(0))
        twiddles = Twiddles(m, n_fft, half_bin)
        out = (group * n_fft + m) * width + lane
        for q, value in transform(values):
            place = out + np.int32(q * rest * width)
            y_real[place], y_imaginary[place] = twiddles.times(q, value)

    shapes = (_plane(size), _plane(size))
    return _call(body, size // (threads * radix), shapes, f"first_{radix}", interpret, threads)(*x)


def middle(y: Planes, lanes: int, length: int, radix: int, interpret: bool = False) -> Planes:
    """One radix of transforms of rows of `length`, in place.

    Parameters
    ----------
    y : two of (rows, length, 4 lanes) float32
    lanes, length, radix : int

    Returns
    -------
    two of (rows, radix, length / radix, 4 lanes) float32.
    """
    rest = length // radix
    width = 4 * lanes
    size = y[0].size
    threads = _threads(size // radix)

    def body(x_real: Any, x_imaginary: Any, y_real: Any, y_imaginary: Any) -> None:
        row, place = _rows(rest * width, threads)
        base = row * (length * width) + place
        places = [base + np.int32(p * rest * width) for p in range(radix)]
        twiddles = Twiddles(divide(place, width), length)
        for q, value in transform([(x_real[i], x_imaginary[i]) for i in places]):
            y_real[places[q]], y_imaginary[places[q]] = twiddles.times(q, value)

    shapes = (_plane(size), _plane(size))
    run = _call(body, size // (threads * radix), shapes, f"middle_{radix}", interpret, threads, {0: 0, 1: 1})
    return run(*y)


class Reduced(NamedTuple):
    """What `last` returns of 2F.

    Attributes
    ----------
    rows : (groups, n_fft / radix, lanes, 2) float32, flat
        Largest 2F of the row's bins, see `entry_of` and `spectrum.bin_numbers`; -1 if none of them counts.
    stripes : (programs, radix) or, if radix is odd, (programs, radix + 1) float32
        Largest 2F in each stripe of `n_fft / radix` entries; for a middle stripe, separately for its positive and its
        negative frequencies. Programs go through the rows in order.
    counts : (programs, SUMS) int32
        See `counters.Counters.sums`.
    """

    rows: jax.Array
    stripes: jax.Array
    counts: jax.Array


def last(
    y: Planes,
    bins: jax.Array,
    offset: jax.Array,
    lanes: int,
    layout: Layout,
    radices: Sequence[int],
    interpret: bool = False,
) -> Reduced:
    """Last radix, 2F, its maximum over the bins of a thread, and what sections and the histogram need.

    Parameters
    ----------
    y : two of (groups, n_fft / radix, radix, 2, lanes, 2) float32
    bins : (2, B) int32
        First and last bin of the band that count, of each template.
    offset : (B,) float32
        Added to 2F.
    lanes : int
    layout : Layout
    radices : sequence of int
        All radices; the last is this kernel's.
    """
    radix, n_fft, n_frequencies = radices[-1], layout.n_fft, layout.n_frequencies
    rows = n_fft // radix
    width = 2 * lanes
    n_templates = bins.shape[1]
    size = y[0].size // (2 * radix)
    threads = math.gcd(size, THREADS if interpret else WARP, width * _rows_together(radices))
    n_stripes = radix + radix % 2

    def body(y_real: Any, y_imaginary: Any, bins_ref: Any, offset_ref: Any, out: Any, top: Any, count: Any) -> None:
        row, lane = _rows(width, threads)
        base = row * (radix * 2 * width) + lane
        group = divide(row, rows)
        template = group * lanes + (lane >> 1)
        power: dict[int, Any] = {}
        for s in range(2):
            values = []
            for p in range(radix):
                index = base + np.int32((2 * p + s) * width)
                values.append((y_real[index], y_imaginary[index]))
            start = None if s else offset_ref[template]
            for q, (real, imaginary) in transform(values):
                square = imaginary * imaginary + (power[q] if s else start)
                power[q] = real * real + square
        low, high = bins_ref[template], bins_ref[template + n_templates]
        entry = entry_of(row - group * rows, radices)
        tops = [jnp.full((threads,), -1, jnp.float32)] * n_stripes
        counters = Counters((threads,))
        for q, value in power.items():
            if _never(q * rows, (q + 1) * rows, n_fft, n_frequencies):
                continue
            number = bin_numbers(layout, lane & 1, entry + np.int32(q * rows))
            counted = counts(number, low, high)
            counters.add(value, counted)
            value = jnp.where(counted, value, np.float32(-1))
            if 2 * q + 1 == radix:
                positive = number >= n_frequencies // 2
                tops[q] = jnp.where(positive, value, np.float32(-1))
                tops[q + 1] = jnp.where(positive, np.float32(-1), value)
            else:
                tops[q + (2 * q > radix and n_stripes > radix)] = value
        best = tops[0]
        for value in tops[1:]:
            best = jnp.maximum(best, value)
        out[row * width + lane] = best
        program = pl.program_id(0)
        for q, value in enumerate(tops):
            top[program * n_stripes + q] = _largest(value)
        for i, total in enumerate(counters.sums()):
            count[program * SUMS + i] = total

    programs = size // threads
    shapes = (_plane(size), _plane(programs * n_stripes), jax.ShapeDtypeStruct((programs * SUMS,), jnp.int32))
    found = _call(body, programs, shapes, f"last_{radix}", interpret, threads)(*y, bins.reshape(-1), offset)
    return Reduced(found[0], found[1].reshape(programs, n_stripes), found[2].reshape(programs, SUMS))


def _largest(values: jax.Array) -> jax.Array:
    """Largest of a program's values, each -1 or at least 0.

    Their bits are compared as integers, which have the same order and for which GPUs have a reduction.
    """
    return lax.bitcast_convert_type(jnp.max(lax.bitcast_convert_type(values, jnp.int32)), jnp.float32)


def _rows_together(radices: Sequence[int]) -> int:
    """Number of consecutive rows of `last` in one section, a power of two; unlimited if stripes are not divided."""
    each = sections_per_digit(radices)
    if each == 1:
        return 1 << 30
    rows = radices[-2] // each
    return rows & -rows


def entry_of(row: jax.Array, radices: Sequence[int]) -> jax.Array:
    """First entry of the transform in a row of `last`: the row's digits in reverse order."""
    entry = jnp.zeros_like(row)
    for i in reversed(range(len(radices) - 1)):
        entry = entry + remainder(row, radices[i]) * np.int32(math.prod(radices[:i]))
        row = divide(row, radices[i])
    return entry


def _never(start: int, stop: int, n_fft: int, n_frequencies: int) -> bool:
    """Whether no entry from `start` to `stop` - 1 is in the band, neither as positive nor as negative frequency."""
    half = n_frequencies // 2
    return 2 * start + half >= n_frequencies and 2 * (stop - 1 - n_fft) + 1 + half < 0
