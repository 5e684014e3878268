"""From prepared data and a batch of templates to their largest 2F: as a whole, and one stage at a time.

A `Path` is one way of computing it. To time another, write a function from (data, points, same_source) that returns one
and add it to `PATHS`; nothing else needs to know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from jfstat.data.fstatdata import FstatData
from jfstat.maths.lengths import radices_for
from jfstat.statistic.backends.loudest import Method, first_without_spin_down, maxima, two_f_of_entries
from jfstat.statistic.backends.triton import chain
from jfstat.statistic.resample import interpolated, spun_down, timing
from jfstat.statistic.spectrum import folded
from jfstat.templates import Doppler

COMPLEX = 8
"""Bytes of a complex64."""


@dataclass(frozen=True)
class Stage:
    """A step of the computation, to be timed alone.

    Attributes
    ----------
    name : str
    run : callable
        Jitted, from (data, points, what the stage before returned) to arrays; the first gets None.
    least_bytes : int
        What it must read and write at the least for the whole batch: each input and each output once.
    """

    name: str
    run: Callable[[FstatData, Doppler, Any], Any]
    least_bytes: int


@dataclass(frozen=True)
class Path:
    """A way from prepared data to maxima of 2F.

    Attributes
    ----------
    name : str
    whole : callable
        Jitted by `jax.jit`, from (data, points) to the largest 2F of each template over the band, (batch,) float32.
    stages : tuple of Stage
        In order; the last returns what `whole` does.
    """

    name: str
    whole: Any
    stages: tuple[Stage, ...]


def library(data: FstatData, points: Doppler, same_source: bool) -> Path:
    """By XLA and the platform's FFT library.

    Parameters
    ----------
    data : FstatData
    points : Doppler
        A stack of templates; only its length matters here.
    same_source : bool
        Whether they share a sky position: the data are then resampled once, without spin-down.
    """
    batch, size = points.alpha.shape[0], _Sizes(data)
    resampling = (
        (
            Stage("geometry", _geometry_once, size.cubics),
            Stage("interpolation", _interpolation_once, size.bank + size.cubics + size.series),
            Stage("spin-down", _spin_down, (1 + batch) * size.series),
        )
        if same_source
        else (
            Stage("geometry", _geometry, batch * size.cubics),
            Stage("interpolation", _interpolation, size.bank + batch * (size.cubics + size.series)),
        )
    )
    rest = (
        Stage("folding", _folding, batch * (size.series + size.transforms)),
        Stage("fft", _fft, batch * 2 * size.transforms),
        Stage("2F and maxima", _maxima, batch * size.searched),
    )
    return Path("library", _whole(Method.LIBRARY, same_source), resampling + rest)


def fused(data: FstatData, points: Doppler, same_source: bool, method: Method = Method.FUSED) -> Path:
    """By the fused kernels; arguments as for `library`."""
    batch, size = points.alpha.shape[0], _Sizes(data)
    lanes, interpret = chain.lanes_for(batch), method is Method.INTERPRETED
    radices = radices_for(data.layout.n_fft)
    if radices is None:
        raise ValueError(f"transforms of length {data.layout.n_fft} have no fused kernels: use --path library.")

    @jax.jit
    def geometry(data: FstatData, points: Doppler, _: None) -> Any:
        return jax.vmap(chain.packed_timing, (None, 0))(data, points)

    @jax.jit
    def interpolation(data: FstatData, points: Doppler, packed: Any) -> Any:
        return chain.interpolated_from(data, points, packed, lanes, interpret)

    @jax.jit
    def once(data: FstatData, points: Doppler, _: None) -> Any:
        one = jax.tree.map(lambda x: x[None], first_without_spin_down(points))
        return chain.interpolated(data, one, 1, interpret)

    @jax.jit
    def spin_down(data: FstatData, points: Doppler, series: Any) -> Any:
        return chain.spun_down(data, points, series, lanes, interpret)

    @jax.jit
    def transforms(data: FstatData, points: Doppler, series: Any) -> Any:
        return chain.transformed(data.layout, series, points.alpha.shape[0], lanes, interpret)

    @jax.jit
    def two_f_and_maxima(data: FstatData, points: Doppler, y: Any) -> jax.Array:
        n = points.alpha.shape[0]
        bins = jnp.stack([jnp.zeros(n, jnp.int32), jnp.full(n, data.layout.n_frequencies - 1, jnp.int32)])
        return jnp.max(chain.maxima_of(data, points, y, bins, lanes, interpret).value, axis=(1, 3)).reshape(-1)

    resampling = (
        (
            Stage("geometry, interpolation", once, size.bank + size.cubics + size.series),
            Stage("spin-down", spin_down, (1 + batch) * size.series),
        )
        if same_source
        else (
            Stage("geometry", geometry, batch * size.cubics),
            Stage("interpolation", interpolation, size.bank + batch * (size.cubics + size.series)),
        )
    )
    rest = (
        Stage("fft", transforms, batch * (size.series + (2 * len(radices) - 3) * size.transforms)),
        Stage("2F and maxima", two_f_and_maxima, batch * size.transforms),
    )
    return Path(method.value, _whole(method, same_source), resampling + rest)


PATHS: dict[str, Callable[[FstatData, Doppler, bool], Path]] = {"library": library, "fused": fused}
"""By name: functions from (data, points, same_source) to a Path."""


def _whole(method: Method, same_source: bool) -> Any:
    """What `jfstat.search` does up to the largest 2F of each template."""
    return jax.jit(lambda data, points: maxima(data, points, method, same_source))


class _Sizes:
    """Bytes of what the stages hand on; for one template but for the bank."""

    def __init__(self, data: FstatData):
        layout, n_detectors = data.layout, len(data.detectors)
        self.bank = sum(x.nbytes for x in data.bank)
        self.cubics = n_detectors * layout.n_blocks * (2 * 4 + 4 * 4 * 4)  # two int32, four cubics in float32
        self.series = 2 * COMPLEX * layout.n_blocks * layout.block
        self.transforms = 4 * COMPLEX * layout.n_fft
        self.searched = 2 * COMPLEX * layout.n_frequencies


@jax.jit
def _geometry(data: FstatData, points: Doppler, _: None) -> Any:
    return jax.vmap(timing, (None, 0))(data, points)


@jax.jit
def _interpolation(data: FstatData, points: Doppler, cubics: Any) -> Any:
    return jax.vmap(interpolated, (None, 0, 0))(data, points, cubics)


@jax.jit
def _geometry_once(data: FstatData, points: Doppler, _: None) -> Any:
    return timing(data, first_without_spin_down(points))


@jax.jit
def _interpolation_once(data: FstatData, points: Doppler, cubics: Any) -> Any:
    return interpolated(data, first_without_spin_down(points), cubics)


@jax.jit
def _spin_down(data: FstatData, points: Doppler, series: Any) -> Any:
    return jax.vmap(spun_down, (None, 0, None))(data, points, series)


@jax.jit
def _folding(data: FstatData, points: Doppler, series: Any) -> jax.Array:
    return jax.vmap(lambda z: folded(z, data.layout))(series)


@jax.jit
def _fft(data: FstatData, points: Doppler, z: jax.Array) -> jax.Array:
    return jnp.fft.fft(z)


@jax.jit
def _maxima(data: FstatData, points: Doppler, spectrum: jax.Array) -> jax.Array:
    return jnp.max(two_f_of_entries(data, points, spectrum, points.alpha.shape[0]), axis=(1, 2))
