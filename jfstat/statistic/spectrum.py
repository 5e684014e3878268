"""From demodulated series to their spectra at the searched frequencies, steps vi and vii of the paper's section 3."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jfstat.data.fstatdata import Layout


def folded(z: jax.Array, n_fft: int) -> jax.Array:
    """The series whose length-`n_fft` transform gives the even bins, and the one that gives the odd bins.

    Bins lie at k/(2 T), T being n_fft samples. The series is longer than T, because delays stretch it and filters
    ring; what lies beyond T is added to what lies one T earlier, with alternating sign for odd k, which is exact at
    these frequencies. Two transforms of N cost less than one of 2 N.

    Parameters
    ----------
    z : (..., n) complex64
    n_fft : int

    Returns
    -------
    (..., 2, n_fft) complex64.
    """
    n = z.shape[-1]
    turns = -(-n // n_fft)
    z = jnp.pad(z, [(0, 0)] * (z.ndim - 1) + [(0, turns * n_fft - n)]).reshape(*z.shape[:-1], turns, n_fft)
    signs = (1 - 2 * (jnp.arange(turns) % 2)).astype(z.dtype)[:, None]
    angle = (-jnp.pi / n_fft) * jnp.arange(n_fft, dtype=z.real.dtype)
    even = jnp.sum(z, axis=-2)
    odd = jnp.sum(z * signs, axis=-2) * jax.lax.complex(jnp.cos(angle), jnp.sin(angle))
    return jnp.stack([even, odd], axis=-2)


def band_spectrum(z: jax.Array, layout: Layout) -> jax.Array:
    """Fourier transform of a demodulated series at the searched frequencies, in their order.

    Parameters
    ----------
    z : (..., n) complex64
        From `resampled`; zero frequency belongs to the band's central bin.

    Returns
    -------
    (..., n_frequencies) complex64.
    """
    halves = jnp.fft.fft(folded(z, layout.n_fft))
    low = -(layout.n_frequencies // 2)
    # bin k of the fine grid is entry k // 2 of the even (k even) or odd (k odd) half
    first = low // 2
    entries = jnp.arange(first, first + layout.n_frequencies // 2 + 1)
    pairs = jnp.take(halves, entries % layout.n_fft, axis=-1)
    fine = jnp.swapaxes(pairs, -1, -2).reshape(*z.shape[:-1], -1)
    return jax.lax.dynamic_slice_in_dim(fine, low - 2 * first, layout.n_frequencies, axis=-1)
