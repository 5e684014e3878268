"""Compute 2F at all frequencies of the band: by the kernels of a GPU that has them, by XLA otherwise."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.custom_derivatives import SymbolicZero

from jfstat.data.checks import check_data, check_filters, check_point
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import default_device, device_of
from jfstat.engines.choice import fastest
from jfstat.engines.engine import HasBand
from jfstat.maths.arrays import is_traced
from jfstat.public import public
from jfstat.signal.templates import Doppler, template
from jfstat.statistic.fstat import compiled_band, nan_beyond
from jfstat.statistic.resample import Resampled, check_series


@public(point=template)
def twoF_band(data: FstatData, point: Doppler, *, series: Resampled | None = None) -> jax.Array:
    """Compute 2F at all frequencies of the band for one sky position, spin-down, orbit and phase model.

    The band is computed by resampling and FFT. On an NVIDIA GPU that the engine `cuda` supports its kernels compute the
    values, for one template or for a stack under ``jax.vmap``, and templates of one source are resampled once;
    derivatives, templates with `series` and stacks of data are computed by XLA. On several GPUs divide the templates by
    ``jax.shard_map``: XLA does not divide the kernels' work by itself.

    Pure; works under jit, vmap, jvp and grad.

    Parameters
    ----------
    data : FstatData
    point : Doppler or Row
        One template, scalar fields; ``fkdot[0]`` is ignored.
    series : Resampled, optional
        From `resample` at the template's sky position, orbit and reference time, for any spin-down; avoids resampling
        again.

    Returns
    -------
    (n_frequencies,) float32
        2F at ``data.frequencies``, taken at the template's reference time. All are NaN if values are traced and the
        template does not fit. Bins that the orbit moves out of the prepared band are NaN: those near its edges, if
        `prepare` was not given the orbit.

    Raises
    ------
    TypeError
        If `data`, `point` or `series` is of another kind.
    ValueError
        If shapes are wrong or, for concrete values, the template does not fit the data: its spin-down moves the edges
        of the band, or its orbit the centre, out of the prepared band, or its orbit is too fast.

    Examples
    --------
    >>> values = jfstat.twoF_band(data, point)
    >>> values.shape == data.frequencies.shape
    True
    >>> round(float(data.frequencies[np.argmax(values)]), 4)
    100.01
    """
    check_data(data)
    check_filters(data)
    check_point(data, point, band=True)
    if series is not None:
        check_series(data, point, series)
    engine = None if series is not None else _engine_for(data)
    if engine is None:
        return compiled_band(data, point, series)
    return _by(engine)(data, point)


def _engine_for(data: FstatData) -> HasBand | None:
    """Return the engine that computes all values of the band where the data are, or will be; None for XLA."""
    if is_traced(data.series):
        with jax.ensure_compile_time_eval():
            device = default_device()
    else:
        device = device_of(data)
    engine = fastest(data.layout, device)
    return engine if isinstance(engine, HasBand) else None


@cache
def _by(engine: HasBand) -> Any:
    """Return the function of data and one template whose values an engine computes, and its derivatives XLA."""

    @jax.custom_jvp
    def band(data: FstatData, point: Doppler) -> jax.Array:
        return _of_stack(engine, True)(data, jax.tree.map(lambda x: x[None], point))[0]

    def derivative(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[jax.Array, jax.Array]:
        """Differentiate XLA's program with respect to the leaves that have a tangent."""
        leaves, structure = jax.tree.flatten(primals)
        directions = jax.tree.leaves(tangents, is_leaf=lambda x: isinstance(x, SymbolicZero))
        varied = [i for i, x in enumerate(directions) if not isinstance(x, SymbolicZero)]

        def of(values: list[jax.Array]) -> jax.Array:
            given = dict(zip(varied, values, strict=True))
            return compiled_band(*structure.unflatten([given.get(i, x) for i, x in enumerate(leaves)]))

        return jax.jvp(of, ([leaves[i] for i in varied],), ([directions[i] for i in varied],))

    band.defjvp(derivative, symbolic_zeros=True)
    return jax.jit(band)


@cache
def _of_stack(engine: HasBand, same_source: bool) -> Any:
    """Return the function of data and a stack of templates, under whose ``vmap`` the stack grows.

    With `same_source` all templates have the sky position, orbit and reference time of the first.
    """

    @custom_vmap
    def band(data: FstatData, points: Doppler) -> jax.Array:
        n = len(points)
        if not n:
            return jnp.zeros((0, data.layout.n_frequencies), jnp.float32)
        shared = same_source and n > 1

        def by_engine(data: FstatData, points: Doppler) -> jax.Array:
            most, ready = engine.largest_batch(data.layout), engine.ready(data)
            parts = [points[first : first + most] for first in range(0, n, most)]
            values = jnp.concatenate([engine.band(ready, part, shared) for part in parts])
            return jax.vmap(nan_beyond, (None, 0, 0))(data, points, values)

        return jax.lax.platform_dependent(data, points, default=_by_xla, **{engine.platform: by_engine})

    @band.def_vmap
    def _(size: int, batched: tuple[Any, ...], data: FstatData, points: Doppler) -> tuple[jax.Array, bool]:
        """Make one stack of the stacks of templates; XLA computes stacks of data."""
        if any(jax.tree.leaves(batched[0])):
            axes = jax.tree.map(lambda own: 0 if own else None, batched)
            return jax.vmap(_by_xla, axes)(data, points), True
        own = batched[1]
        same = same_source and not any(jax.tree.leaves((own.alpha, own.delta, own.reftime, own.orbit, own.motion)))
        whole = jax.tree.map(
            lambda x, with_axis: x if with_axis else jnp.broadcast_to(x, (size, *x.shape)), points, own
        )
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), whole)
        values = _of_stack(engine, same)(data, flat)
        return values.reshape(size, points.alpha.shape[1 if own.alpha else 0], values.shape[-1]), True

    return band


def _by_xla(data: FstatData, points: Doppler) -> jax.Array:
    return jax.vmap(compiled_band, (None, 0))(data, points)
