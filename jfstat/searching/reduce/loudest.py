"""The loudest values of a batch of templates, computed by an engine as one program or two.

2F itself is not stored: it is reduced to the maxima of short rows of bins as it is computed, and only the rows with the
largest maxima are then looked at again. The same pass takes a histogram and the maxima of sections of the spectrum.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import jax

from jfstat.data.workers import results_of
from jfstat.engines.coherentbands import CoherentBands
from jfstat.engines.engine import HasGeometry, Loudest
from jfstat.lines.doppler import LineBands
from jfstat.reproducible import LONG_VECTORS
from jfstat.statistic.bins import counted_bins
from jfstat.statistic.transientband import TransientBand


def loudest(
    data: Any,
    points: Any,
    n_valid: jax.Array | int,
    keep: int,
    engine: Any,
    same_source: bool = False,
    first_bin: jax.Array | int = 0,
    bands: LineBands | None = None,
) -> Loudest:
    """The `keep` largest values of 2F of a batch of templates, exactly, and tallies of all values.

    Parameters
    ----------
    data : FstatData, TransientBand or CoherentBands
    points : Doppler or Lookup
        A stack of B templates that fit the data, or of what stands for them in an interpolating search.
    n_valid : int
        Templates from this one on are padding and do not count.
    keep : int
        Static.
    engine : Engine or Interpolated
        Static. The latter with the latter kinds of data and points.
    same_source : bool
        Static. Whether all templates have the sky position, orbit and reference time of the first: the data are then
        resampled once, and only the spin-down is taken off for each template.
    first_bin : int
        Bins of the band before this one do not count.
    bands : LineBands, optional
        Bins that these lines affect do not count; the engine must be the library.
    """
    geometry = None
    if isinstance(engine, HasGeometry):
        geometry = _geometry(replace(data, filters=()), points, engine, same_source)
    return _loudest(data, points, n_valid, keep, engine, same_source, first_bin, bands, geometry)


def geometry_program(data: Any, points: Any, engine: Any, same_source: bool = False) -> jax.stages.Lowered | None:
    """The first program that `loudest` runs with these arguments, to be compiled; None if there is only one.

    It takes no filters: the data may be those that `engine.ready` is still to be given.
    """
    if not isinstance(engine, HasGeometry):
        return None
    return _geometry.lower(replace(data, filters=()), points, engine, same_source)


def loudest_program(
    data: Any,
    points: Any,
    n_valid: jax.Array | int,
    keep: int,
    engine: Any,
    same_source: bool = False,
    first_bin: jax.Array | int = 0,
    bands: LineBands | None = None,
    geometry: jax.stages.Lowered | None = None,
) -> jax.stages.Lowered:
    """The program that `loudest` runs last with the same arguments; `geometry` is from `geometry_program`."""
    found = None if geometry is None else results_of(geometry, jax.tree.leaves(data)[0])
    return _loudest.lower(data, points, n_valid, keep, engine, same_source, first_bin, bands, found)


@partial(jax.jit, static_argnames=("engine", "same_source"), compiler_options=LONG_VECTORS)
def _geometry(data: Any, points: Any, engine: HasGeometry, same_source: bool) -> Any:
    return engine.geometry(data, points, same_source)


def loudest_within(
    data: Any,
    points: Any,
    n_valid: jax.Array | int,
    keep: int,
    engine: Any,
    same_source: bool,
    first_bin: jax.Array | int,
    bands: LineBands | None = None,
    geometry: Any = None,
) -> Loudest:
    """The same within a larger program, which is to be compiled with `reproducible.LONG_VECTORS`.

    `geometry` is what an engine that `HasGeometry` gives for the templates, if that is known.
    """
    if geometry is None and isinstance(engine, HasGeometry):
        geometry = engine.geometry(data, points, same_source)
    if isinstance(data, CoherentBands):
        bins = data.counted_bins(points, n_valid, first_bin)
    else:
        own = data.data if isinstance(data, TransientBand) else data
        bins = counted_bins(own, points, n_valid, first_bin, bands)
    return engine.reduced(data, points if geometry is None else geometry, bins, keep, same_source)


_loudest = jax.jit(loudest_within, static_argnames=("keep", "engine", "same_source"), compiler_options=LONG_VECTORS)
