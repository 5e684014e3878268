"""Fourier transforms of resampled series at the searched frequencies: steps vi and vii of the paper's section 3."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.bandseries import Layout
from jfstat.data.blocks import within_blocks
from jfstat.maths.turns import turn
from jfstat.statistic.resample import Resampled

MOST_ADDED = 4
"""Lengths of a transform in a series up to which each is added on its own, without another copy of the series."""


def folded(series: Resampled, layout: Layout) -> jax.Array:
    """Series whose transforms of length `n_fft` give the even and the odd bins.

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
    (2, 2, n_fft) complex64
        Of a and b, even and odd.
    """
    n_blocks, runs, run = series.a.shape
    block = runs * run
    turn_blocks = layout.n_fft // block
    n = jnp.arange(turn_blocks, dtype=jnp.int32)[:, None, None] * block + within_blocks(block, run)[0]
    cos, sin = turn(n.astype(jnp.float32) * (-0.5 / layout.n_fft))

    def part(z: jax.Array, odd: bool) -> jax.Array:
        # real and imaginary parts are separated first and joined last: XLA's CPU code then vectorises, and keeps the
        # interpolated series in memory instead of interpolating again for each of the four results
        real, imaginary = z.real, z.imag

        def turned(start: int) -> jax.Array:
            re, im = real[start : start + turn_blocks], imaginary[start : start + turn_blocks]
            if not odd:
                return jax.lax.complex(re, im)
            c, s = cos[: re.shape[0]], sin[: re.shape[0]]
            return jax.lax.complex(re * c - im * s, re * s + im * c)

        if n_blocks > MOST_ADDED * turn_blocks:
            n_turns = -(-n_blocks // turn_blocks)
            real, imaginary = (
                jnp.tensordot(
                    np.where(np.arange(n_turns) % 2 & odd, -1, 1).astype(np.float32),
                    jnp.pad(x, ((0, n_turns * turn_blocks - n_blocks), (0, 0), (0, 0))).reshape(n_turns, -1, runs, run),
                    1,
                )
                for x in (real, imaginary)
            )
            return turned(0)
        total = turned(0)
        for number, start in enumerate(range(turn_blocks, n_blocks, turn_blocks), start=1):
            beyond = turned(start)
            m = beyond.shape[0]
            head = total[:m] - beyond if odd and number % 2 else total[:m] + beyond
            total = jnp.concatenate([head, total[m:]])
        return total

    parts = [part(z, odd) for z in series for odd in (False, True)]
    return jnp.stack(parts).reshape(2, 2, layout.n_fft)


def spectra(series: Resampled, layout: Layout) -> jax.Array:
    """Fourier transforms of a resampled series at even and odd bins, in FFT order.

    Returns
    -------
    (2, 2, n_fft) complex64
        Fa and Fb; even and odd bins. Entry m is bin 2 m, or 2 m + 1, of 2 n_fft; `bin_numbers` gives its place in the
        band.
    """
    with jax.named_scope("folding"):
        z = folded(series, layout)
    with jax.named_scope("fft"):
        return jnp.fft.fft(z)


def bin_numbers(layout: Layout, odd: jax.Array | int, m: jax.Array) -> jax.Array:
    """Index into ``FstatData.frequencies`` of entry m of the even or odd spectrum, possibly beyond its ends.

    Parameters
    ----------
    layout : Layout
    odd, m : int, int32
        0 or 1; 0 to n_fft - 1.
    """
    signed = jnp.where(m < (layout.n_fft + 1) // 2, m, m - layout.n_fft)
    return 2 * signed + odd + layout.n_frequencies // 2


def in_order(values: jax.Array, layout: Layout) -> jax.Array:
    """Values at the entries of `spectra` in the order of the band's frequencies.

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
