"""Check the data, templates and amplitudes that users pass to functions."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.fit import check_fit, fits
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.data.observation import Observation, one_segment
from jfstat.maths.arrays import any_traced
from jfstat.signal.parameters import AMPLITUDE_FIELDS, ORBIT_FIELDS
from jfstat.signal.templates import Amplitude, Doppler
from jfstat.validation import refuse_rounded, shown


def check_data(data: object, or_narrow: bool = False, or_segments: bool = False) -> None:
    """Raise an error unless `data` is FstatData, or NarrowData if `or_narrow`.

    With `or_segments` the data may have segments.

    Raises
    ------
    TypeError
        If it is of another kind.
    ValueError
        If it has segments or is a stack, or its segments overlap in time.
    """
    if or_narrow and isinstance(data, NarrowData):
        if data.observation.shape and not (or_segments and data.n_segments is not None):
            raise ValueError("data are a stack of narrow data, but one is wanted: use jax.vmap(function, (0, 0)).")
        return
    if not isinstance(data, FstatData):
        kind = type(data).__name__
        raise TypeError(f"data must be FstatData from jfstat.prepare, not {kind}: prepare the SFTs first.")
    if len(data.observation.shape) > 1:
        raise ValueError(f"data have {len(data.observation.shape)} leading axes, so they are a stack: use jax.vmap.")
    if data.n_segments is not None and not or_segments:
        raise ValueError(
            f"data has {data.n_segments} segments, but those of one are wanted: use jax.vmap over the leading axis of "
            "data, or data[i]."
        )
    if data.n_segments is not None:
        _refuse_overlap(data.observation, "data")


def check_segments(segments: object) -> None:
    """Raise an error unless `segments` are data with a leading axis of segments, one after the other.

    Raises
    ------
    TypeError
        If it is neither FstatData nor NarrowData.
    ValueError
        If it has no leading axis, or one that is not of segments, since their times overlap.
    """
    if not isinstance(segments, (FstatData, NarrowData)):
        kind = type(segments).__name__
        raise TypeError(f"segments must be FstatData from jfstat.prepare(..., segments=), not {kind}.")
    if len(segments.observation.shape) > 1:
        raise ValueError(
            f"segments have {len(segments.observation.shape)} leading axes, so they are a stack of data with segments: "
            "use jax.vmap(function, (0, None))."
        )
    if segments.n_segments is None:
        if isinstance(segments, NarrowData):
            raise ValueError("segments must be a stack of narrow data, one for each segment: see jax.tree.map.")
        raise ValueError("segments has no segments: give jfstat.prepare the argument segments=, or use jfstat.twoF.")
    _refuse_overlap(segments.observation, "segments")


def _refuse_overlap(observation: Observation, name: str) -> None:
    """Raise a ValueError if the segments of the argument `name` overlap: they would count as independent data."""
    if _overlap(observation):
        raise ValueError(
            f"{name} overlap in time, so they are a stack of data sets or of templates and no segments: take one of "
            "them, use jax.vmap, or jfstat.prepare with segments=."
        )


def _overlap(observation: Observation) -> bool:
    """Return whether SFTs of one segment start among those of another; False where their times are not known."""
    if any_traced(observation):
        return False
    start, weight, epoch = (np.asarray(x) for x in (observation.start, observation.weight, observation.epoch))
    start = start + (epoch - np.min(epoch))[:, None, None]
    first = np.min(np.where(weight > 0, start, np.inf), axis=(1, 2))
    last = np.max(np.where(weight > 0, start, -np.inf), axis=(1, 2))
    order = np.argsort(first)
    return bool(np.any(first[order][1:] <= np.maximum.accumulate(last[order])[:-1]))


def observation_of(data: object, name: str = "data", segments: bool = False) -> Observation:
    """Return the observation of data, or the observation itself; with `segments`, it may have a leading segment axis.

    Raises
    ------
    TypeError
        If `data` is of another kind.
    ValueError
        If it has segments or is a stack; with `segments`, if they overlap in time.
    """
    observation = data.observation if isinstance(data, (FstatData, NarrowData)) else data
    if isinstance(observation, Observation):
        if len(observation.shape) > int(segments):
            raise ValueError(
                f"{name} has segments or is a stack, but one is wanted: use jax.vmap(function, (0, None)), or data[i]."
            )
        if observation.shape:
            _refuse_overlap(observation, name)
        return observation
    kind = type(data).__name__
    raise TypeError(
        f"{name} must be an Observation from jfstat.observation or FstatData from jfstat.prepare, not {kind}."
    )


def check_filters(data: FstatData) -> None:
    """Raise a ValueError unless the data hold the interpolation filters that resampling needs."""
    if not data.filters:
        raise ValueError(
            "data hold no interpolation filters, left out or too large for the device's memory: use jfstat.search, "
            "which takes the band in parts, or prepare with filters, or a narrower band."
        )


def check_point(data: FstatData | NarrowData, point: Doppler, band: bool = False, name: str = "point") -> None:
    """Raise a ValueError unless `point` is one template that fits the data, in every segment if there are several.

    With `band` the template must fit at all frequencies of the band. Traced values are not checked. Messages about its
    shape call it `name`.
    """
    check_template(name, point)
    if data.n_segments is None:
        return _check_fit(data, point, band)
    if any_traced(data.observation, point):
        return None
    with jax.ensure_compile_time_eval():  # under an outer jit, constants stay constants
        good = np.asarray(_fits_each(data if band else data.for_one_template, point, band))
    if not good.all():
        first = int(np.argmin(good))
        try:
            _check_fit(one_segment(data, first), point, band)
        except ValueError as error:
            raise ValueError(f"segment {first}: {error}") from None


def check_signal(data: FstatData | NarrowData, point: Doppler, name: str = "point") -> None:
    """Raise an error unless `data`, of any kind and with segments or not, hold the signal of the template `point`.

    Messages about the template's shape call it `name`.

    Raises
    ------
    TypeError, ValueError
        See `check_data`, `check_segments` and `check_point`.
    """
    if getattr(data, "n_segments", None) is not None:
        check_segments(data)
    check_data(data, or_narrow=True, or_segments=True)
    check_point(data, point, name=name)


def _check_fit(data: FstatData | NarrowData, point: Doppler, band: bool) -> None:
    """Raise a ValueError if a template does not fit one segment; `band` is for FstatData."""
    if band and isinstance(data, FstatData):
        check_fit(data, point, band)
    else:
        data.check(point)


@partial(jax.jit, static_argnames="band")
def _fits_each(segments: FstatData | NarrowData, point: Doppler, band: bool) -> jax.Array:
    """Return whether a template fits each segment, (K,) bool."""
    return jax.vmap(lambda data: fits(data, point, band) if band else data.fits(point))(segments)


def _check_scalars(kind: type, name: str, value: object, fields: dict[str, int]) -> None:
    """Raise a TypeError for a value of the wrong kind, a ValueError if `fields` have the wrong number of axes."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a jfstat.{kind.__name__}, not {type(value).__name__}: build one first.")
    for field, ndim in fields.items():
        leaf = getattr(value, field)
        if np.ndim(leaf) != ndim:
            raise ValueError(
                f"{name}.{field} has shape {np.shape(leaf)}, but a single template is wanted: "
                "use jax.vmap(function, (None, 0))(data, points) for a stack."
            )


def _refuse_rounded_leaves(name: str, tree: object) -> None:
    """Raise a ValueError if an array of a pytree, the argument `name`, is of floats of less than 64 bits."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if getattr(leaf, "dtype", None) != np.float64:  # names take time
            refuse_rounded(leaf, f"{name}.{jax.tree_util.keystr(path, simple=True, separator='.')}")


def check_sky(name: str, value: object) -> None:
    """Raise a TypeError or ValueError unless `value` is one template; the orbit is not checked."""
    _check_scalars(Doppler, name, value, {"alpha": 0, "delta": 0, "fkdot": 1})
    _refuse_rounded_leaves(name, value)


def check_template(name: str, value: Doppler) -> None:
    """Raise a TypeError or ValueError unless `value` is one template, with scalar fields."""
    check_sky(name, value)
    if value.orbit is not None:
        _check_scalars(type(value.orbit), f"{name}.orbit", value.orbit, dict.fromkeys(ORBIT_FIELDS, 0))
    if value.model is not None:
        value.model.check()


def check_amplitude(value: object, n_segments: int | None = None) -> None:
    """Raise a TypeError or ValueError unless `value` is the amplitude of one signal, with scalar fields.

    With `n_segments` its fields may have an axis of segments.
    """
    if isinstance(value, Amplitude):
        _refuse_rounded_leaves("amplitude", value)
        if n_segments is not None and np.ndim(value.h0) == 1:
            if len(value) != n_segments:
                raise ValueError(
                    f"amplitude is of {len(value)} segments, but the data have {n_segments}: give one value, or one "
                    "each."
                )
            return
    _check_scalars(Amplitude, "amplitude", value, dict.fromkeys(AMPLITUDE_FIELDS, 0))


def check_key(key: object) -> None:
    """Raise an error unless `key` is one random key of JAX, new or old style."""
    new = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    old = isinstance(key, (jax.Array, np.ndarray)) and key.dtype == np.uint32 and np.ndim(key) > 0
    if not new and not old:
        raise TypeError(f"key must be a random key of JAX, not {shown(key)}: make one with jax.random.key(seed).")
    if np.ndim(key) != (0 if new else 1):  # type: ignore[arg-type]
        raise ValueError(f"key holds keys of shape {np.shape(key)}, but one is wanted: use jax.vmap.")  # type: ignore[arg-type]
