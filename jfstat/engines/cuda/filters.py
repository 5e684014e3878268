"""Convert the interpolation filters to the form that the kernels take: more of them, with fewer terms each.

`prepare` makes filters that reach from half a sample before a sample to half a sample after it. Here that interval is
cut into parts, each with a polynomial of its own, which needs fewer terms for the same accuracy: less is then read for
each sample and template, though more is kept.
"""

from __future__ import annotations

import operator
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import chebyshev

from jfstat.compileroptions import NO_TRIALS, jit_with
from jfstat.maths.arrays import is_traced

DRIFT = 0.001
"""Distance by which a row's samples may lie beyond the ends of a part, in samples, because of the Earth's motion. A few
of the samples that orbits move lie up to 0.005 beyond, where the polynomials extrapolate; see `kernels.of_rows`.
"""


class Form(NamedTuple):
    """Partition of the interval between samples.

    Attributes
    ----------
    planes : int
        Parts, a power of two.
    terms : int
        Coefficients for each, an even number.
    """

    planes: int
    terms: int

    @property
    def reach(self) -> float:
        """Half width of a part with a margin of `DRIFT`, samples."""
        return 0.5 / self.planes + DRIFT


SMALL, LARGE = Form(8, 4), Form(2, 6)
"""Forms for short and for long series: 256 and 96 bytes a sample are kept, 32 and 48 are read for each template."""
MOST_SMALL = 1 << 20
"""Largest number of samples of a series in the `SMALL` form: longer ones would read too much for any cache."""
NODES = 16
"""Number of nodes at which the filters' sum is taken for the polynomials: more than their degree needs."""


def form_of(n: int) -> Form:
    """Return the form for filters of n samples."""
    return SMALL if n <= MOST_SMALL else LARGE


def subdivided(filters: tuple[jax.Array, ...], reach: jax.Array) -> jax.Array:
    """Return filters of all detectors for all parts of the interval between samples.

    Parameters
    ----------
    filters : tuple of D (P, 2, n) float32
        See `FstatData.filters`.
    reach : () float64
        See `Band.reach`.

    Returns
    -------
    (D, terms / 2, planes, n, 4) float32
        Real and imaginary parts of the coefficients of x^0, x^1, ..., two to a group; x is the distance from the middle
        of the part in units of the form's reach.
    """
    if is_traced(filters[0]):  # options of the compiler are those of the whole program
        return _subdivided(filters, reach)
    return _compiled(filters, reach)


def _subdivided(filters: tuple[jax.Array, ...], reach: jax.Array) -> jax.Array:
    form, n_given = form_of(filters[0].shape[-1]), filters[0].shape[0]
    planes, terms = form
    matrix = _polynomials(form, n_given, reach).astype(jnp.float32)

    def of_detector(own: jax.Array) -> jax.Array:
        # term by term, since XLA computes matrix products in lower precision on some devices
        found = reduce(operator.add, [matrix[:, :, p, None, None] * own[p][None, None] for p in range(n_given)])
        grouped = found.reshape(planes, terms // 2, 4, -1)  # of (planes, terms, 2, n)
        return grouped.transpose(1, 0, 3, 2)

    return jnp.stack([of_detector(own) for own in filters])


_compiled = jit_with(NO_TRIALS)(_subdivided)


def subdivided_bytes(n: int, n_detectors: int) -> int:
    """Return the memory of `subdivided`'s result for filters of n samples."""
    form = form_of(n)
    return n_detectors * form.planes * form.terms * n * 8


def _polynomials(form: Form, n_terms: int, reach: jax.Array) -> jax.Array:
    """Return coefficients of each part's polynomial for each of the filters' terms, (planes, terms, P) float64."""
    planes, terms = form
    nodes = np.cos((np.arange(NODES) + 0.5) * np.pi / NODES)
    # from values at the nodes to Chebyshev polynomials, of which the first are kept, and from these to powers
    to_chebyshev = 2 / NODES * np.cos(np.outer(np.arange(terms), np.arccos(nodes)))
    to_chebyshev[0] /= 2
    powers = [chebyshev.cheb2poly(np.eye(terms)[k, : k + 1]) for k in range(terms)]
    to_powers = np.stack([np.pad(p, (0, terms - len(p))) for p in powers], axis=1)
    middles = (np.arange(planes) + 0.5) / planes - 0.5
    x = jnp.asarray(middles[:, None] + form.reach * nodes) / reach  # (planes, NODES)
    values = [jnp.ones_like(x), x]
    for _ in range(2, n_terms):
        values.append(2 * x * values[-1] - values[-2])
    each = jnp.stack(values[:n_terms], axis=-1)  # (planes, NODES, P)
    # not a matrix product, which XLA would compute on GPUs by a library
    return jnp.sum((to_powers @ to_chebyshev)[None, :, :, None] * each[:, None], axis=2)
