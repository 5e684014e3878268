"""Sub-bands of equal width, in each of which a path of its own may end."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jfstat.validation import shown


def subband_bins(subband: float, dfreq: float, n_frequencies: int) -> int:
    """Return the number of frequencies of a sub-band, which the last of a band may have fewer of.

    Parameters
    ----------
    subband : float
        Width, Hz.
    dfreq : float
        Spacing of the frequencies, Hz.
    n_frequencies : int
        Their number.

    Raises
    ------
    ValueError
        If the sub-band has less than two frequencies, or is no part of the band.
    """
    n = round(subband / dfreq)
    if not 2 <= n < n_frequencies:
        raise ValueError(
            f"subband is {shown(subband)} Hz, {n} of the band's {n_frequencies} frequencies: give a width of two or "
            "more, or None for the whole band."
        )
    return n


def ending_within(table: jax.Array, place: jax.Array | int, bins: int) -> jax.Array:
    """Return a table of log-likelihoods, (K, N), in which paths end in one sub-band alone.

    Parameters
    ----------
    table : (K, N) float
    place : () int
        A frequency of the sub-band.
    bins : int
        Number of frequencies of a sub-band.
    """
    own = jnp.arange(table.shape[1], dtype=jnp.int32) // bins == jnp.asarray(place, jnp.int32) // bins
    return table.at[-1].set(jnp.where(own, table[-1], -jnp.inf))
