"""Sub-bands of equal width, in each of which a path of its own may end."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jfstat.validation import shown


def subband_bins(subband: float, dfreq: float, n_frequencies: int) -> int:
    """Return the number of frequencies of a sub-band, of which the last one of a band may have fewer.

    A sub-band wider than the band is all of it.

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
        If the sub-band has less than two frequencies.
    """
    n = round(subband / dfreq)
    if n < 2:
        raise ValueError(
            f"subband is {shown(subband)} Hz, which is less than two of the frequencies {shown(dfreq)} Hz apart: give "
            "a wider one, or None for the whole band."
        )
    return min(n, n_frequencies)


def ending_within(table: jax.Array, first: jax.Array | int, stop: jax.Array | int) -> jax.Array:
    """Return a table of log-likelihoods, (K, N), in which paths end from one frequency up to, not including, another.

    Parameters
    ----------
    table : (K, N) float
    first, stop : () int
        Indices of frequencies.
    """
    number = jnp.arange(table.shape[1], dtype=jnp.int32)
    return table.at[-1].set(jnp.where((number >= first) & (number < stop), table[-1], -jnp.inf))


def best_of_each(values: jax.Array, bins: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return template, last frequency and value of the best path of each of S sub-bands, (B S,) each; traceable.

    Parameters
    ----------
    values : (B, N) float
        Log-likelihoods of the best paths of templates that end at each frequency.
    bins : int
        Number of frequencies of a sub-band.
    """
    each = jnp.pad(values, ((0, 0), (0, -values.shape[1] % bins)), constant_values=-jnp.inf)
    each = each.reshape(len(values), -1, bins)
    template, subband = (x.reshape(-1).astype(jnp.int32) for x in jnp.indices(each.shape[:2]))
    frequency = subband * bins + jnp.argmax(each, axis=2).reshape(-1).astype(jnp.int32)
    return template, frequency, jnp.max(each, axis=2).reshape(-1)
