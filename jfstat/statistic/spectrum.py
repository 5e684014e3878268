"""Fourier transform resampled series at the searched frequencies: steps vi and vii of the paper's section 3."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.bandseries import Layout
from jfstat.maths.arrays import PRECISE
from jfstat.maths.turns import turn
from jfstat.statistic.resample import Resampled

MOST_ADDED = 4
"""Largest length of a series, in lengths of a transform, for which each length is added separately, without a copy of
the series.
"""


def folded(series: Resampled, layout: Layout) -> jax.Array:
    """Return series whose transforms of length `n_fft` give the even and the odd bins.

    Bins are at k/(2 T), where T is n_fft samples. The series is longer than T, because delays stretch it and filters
    ring, and because the spacing of frequencies may be coarser than one over twice the data's span. The samples beyond
    T are added to those one T earlier, with alternating sign for odd k, which is exact at these frequencies. Two
    transforms of length N cost less than one of length 2 N.

    Parameters
    ----------
    series : Resampled
    layout : Layout

    Returns
    -------
    (2, 2, n_fft // block, block // run, run) complex64
        Series of a and b, for even and odd bins, in the series' blocks and runs.
    """
    n_blocks, runs, run = series.a.shape
    block = runs * run
    turn_blocks = layout.n_fft // block
    # the turn by half a bin, as a product: of each block's start, which is computed once for its samples, and within it
    start = turn(jnp.arange(turn_blocks, dtype=jnp.float32)[:, None, None] * (-0.5 / turn_blocks))
    angle = np.arange(block).reshape(1, runs, run) * (-np.pi / layout.n_fft)
    within = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    cos, sin = start[0] * within[0] - start[1] * within[1], start[1] * within[0] + start[0] * within[1]

    n_turns = -(-n_blocks // turn_blocks)
    # the first blocks of the result are sums over all turns; the last turn covers no others
    n_first = n_blocks - (n_turns - 1) * turn_blocks

    def part(z: jax.Array, odd: bool) -> jax.Array:
        signs = np.where(np.arange(n_turns) % 2 & odd, -1, 1).astype(np.float32)

        def added(x: jax.Array, turns: int, n_own: int) -> jax.Array:
            return sum(x[k * turn_blocks :][:n_own] * signs[k] for k in range(turns))  # type: ignore[return-value]

        def turned(re: jax.Array, im: jax.Array) -> jax.Array:
            if not odd:
                return jax.lax.complex(re, im)
            c, s = cos[: re.shape[0]], sin[: re.shape[0]]
            return jax.lax.complex(re * c - im * s, re * s + im * c)

        # real and imaginary parts are separated first and joined last: XLA's CPU code then vectorises
        real, imaginary = z.real, z.imag
        if n_turns > MOST_ADDED:
            whole = ((0, n_turns * turn_blocks - n_blocks), (0, 0), (0, 0))
            parts = (jnp.pad(x, whole).reshape(n_turns, -1, runs, run) for x in (real, imaginary))
            return turned(*(jnp.tensordot(signs, part, 1, precision=PRECISE) for part in parts))
        first = turned(*(added(x, n_turns, n_first) for x in (real, imaginary)))
        if n_turns == 1:
            return first
        # written over the rest: a concatenation would keep the code from vectorising, which takes six times as long
        return turned(*(added(x, n_turns - 1, turn_blocks) for x in (real, imaginary))).at[:n_first].set(first)

    parts = [part(z, odd) for z in series for odd in (False, True)]
    return jnp.stack(parts).reshape(2, 2, turn_blocks, runs, run)


def spectra(z: jax.Array, layout: Layout) -> jax.Array:
    """Compute the Fourier transforms of folded series at even and odd bins, in FFT order.

    Parameters
    ----------
    z : (..., n_fft // block, block // run, run) complex64
        From `folded`.
    layout : Layout

    Returns
    -------
    (..., n_fft) complex64
        After `folded`: Fa and Fb; even and odd bins. Entry m is bin 2 m, or 2 m + 1, of 2 n_fft; `bin_numbers` gives
        its place in the band.
    """
    with jax.named_scope("fft"):
        return jnp.fft.fft(z.reshape(*z.shape[:-3], layout.n_fft))


def spectra_of_batch(resample: Callable[..., Resampled], layout: Layout, *stacks: object) -> jax.Array:
    """Compute the Fourier transforms of the series of a batch of templates.

    On a CPU the series are made one after the other, each in the caches. The loop around it also keeps the samples in
    blocks until their transform: for flat arrays, XLA's CPU code would divide to find the block of each.

    Parameters
    ----------
    resample : callable
        Makes the series of one template from its rows of the stacks; its fields may have leading axes, such as an axis
        of detectors, before the axes of the blocks.
    layout : Layout
    *stacks : pytrees
        Leaves with a leading axis B.

    Returns
    -------
    (B, ..., 2, 2, n_fft) complex64
        See `spectra`; "..." are the leading axes of a series.
    """

    def one(*rows: object) -> jax.Array:
        series = resample(*rows)
        fold = partial(folded, layout=layout)
        for _ in range(series.a.ndim - 3):
            fold = jax.vmap(fold)
        return fold(series)

    with jax.named_scope("folding"):
        z = jax.lax.platform_dependent(
            *stacks, cpu=lambda *rows: jax.lax.map(lambda row: one(*row), rows), default=jax.vmap(one)
        )
    return spectra(z, layout)


def bin_numbers(layout: Layout, odd: jax.Array | int, m: jax.Array) -> jax.Array:
    """Return the index into ``FstatData.frequencies`` of entry m of the even or odd spectrum, perhaps beyond its ends.

    Parameters
    ----------
    layout : Layout
    odd, m : int, int32
        0 or 1; 0 to n_fft - 1.
    """
    signed = jnp.where(m < (layout.n_fft + 1) // 2, m, m - layout.n_fft)
    return 2 * signed + odd + layout.n_frequencies // 2


def in_order(values: jax.Array, layout: Layout) -> jax.Array:
    """Return the values at the entries of `spectra` in the order of the band's frequencies.

    Parameters
    ----------
    values : (2, n_fft)
        Even and odd bins.
    layout : Layout

    Returns
    -------
    (n_frequencies,)
    """
    low = -(layout.n_frequencies // 2)
    first, count = low // 2, layout.n_frequencies // 2 + 1
    # bin k is entry k // 2 of the even (k even) or odd (k odd) half; negative ones are at the end
    halves = jnp.concatenate([values[:, layout.n_fft + first :], values[:, : count + first]], axis=1)
    start = low - 2 * first
    return halves.T.reshape(-1)[start : start + layout.n_frequencies]
