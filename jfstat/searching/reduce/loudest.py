"""Find the loudest values of a batch of templates with one compiled program or two.

2F itself is not stored: it is reduced to the maxima of short rows of bins as it is computed, and only the rows with the
largest maxima are examined again. The same pass takes a histogram and the maxima of sections of the spectrum.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from jfstat.compileroptions import LONG_VECTORS, jit_with
from jfstat.data.workers import results_of
from jfstat.engines.engine import HasGeometry, Loudest
from jfstat.lines.doppler import LineBands
from jfstat.maths.arrays import LEAST


def loudest(
    data: Any,
    points: Any,
    n_valid: jax.Array | int,
    keep: int,
    reduction: Any,
    same_source: bool = False,
    first_bin: jax.Array | int = 0,
    bands: LineBands | None = None,
) -> Loudest:
    """Return the `keep` largest values of 2F of a batch of templates, exactly, and tallies of all values.

    Where fewer values count, and for sections of which none does, the result is `arrays.LEAST`.

    Parameters
    ----------
    data
        Data from `Reduction.ready`.
    points : Doppler or Lookup
        A stack of B templates that fit the data, or in an interpolating search their lookups.
    n_valid : int
        Templates from this one on are padding and do not count.
    keep : int
        Number of values to return; static.
    reduction : Reduction
        Computes the values; static.
    same_source : bool
        Static. Whether all templates have the sky position, orbit and reference time of the first: the data are then
        resampled once, and only the spin-down is taken off for each template.
    first_bin : int
        Bins of the band before this one do not count.
    bands : LineBands, optional
        Bins that these lines affect do not count; only XLA can.
    """
    geometry = None
    if isinstance(reduction, HasGeometry):
        geometry = _geometry(replace(data, filters=()), points, reduction, same_source)
    return _loudest(data, points, n_valid, keep, reduction, same_source, first_bin, bands, geometry)


def geometry_program(data: Any, points: Any, reduction: Any, same_source: bool = False) -> jax.stages.Lowered | None:
    """Return the first program that `loudest` runs with these arguments, lowered for compilation; None if it runs only
    one.

    The program takes no filters, so `data` may be given before `reduction.ready` is applied to them.
    """
    if not isinstance(reduction, HasGeometry):
        return None
    return _geometry.lower(replace(data, filters=()), points, reduction, same_source)


def loudest_program(
    data: Any,
    points: Any,
    n_valid: jax.Array | int,
    keep: int,
    reduction: Any,
    same_source: bool = False,
    first_bin: jax.Array | int = 0,
    bands: LineBands | None = None,
    geometry: jax.stages.Lowered | None = None,
) -> jax.stages.Lowered:
    """Return the last program that `loudest` runs with these arguments; `geometry` is from `geometry_program`."""
    found = None if geometry is None else results_of(geometry, jax.tree.leaves(data)[0])
    return _loudest.lower(data, points, n_valid, keep, reduction, same_source, first_bin, bands, found)


@jit_with(LONG_VECTORS, kept=True, static_argnames=("reduction", "same_source"))
def _geometry(data: Any, points: Any, reduction: HasGeometry, same_source: bool) -> Any:
    return reduction.geometry(data, points, same_source)


def loudest_within(
    data: Any,
    points: Any,
    n_valid: jax.Array | int,
    keep: int,
    reduction: Any,
    same_source: bool,
    first_bin: jax.Array | int,
    bands: LineBands | None = None,
    geometry: Any = None,
) -> Loudest:
    """Return the values of `loudest` within a larger program, to be compiled with `compileroptions.LONG_VECTORS`.

    `geometry` is the result of a `HasGeometry` reduction for the templates, if it is known.
    """
    if geometry is None and isinstance(reduction, HasGeometry):
        geometry = reduction.geometry(data, points, same_source)
    bins = reduction.bins(data, points, n_valid, first_bin, bands)
    found = reduction.reduced(data, points if geometry is None else geometry, bins, keep, same_source)
    return found._replace(twoF=jnp.maximum(found.twoF, LEAST), sections=jnp.maximum(found.sections, LEAST))


_loudest = jit_with(LONG_VECTORS, kept=True, static_argnames=("keep", "reduction", "same_source"))(loudest_within)
