"""From prepared data and a batch of templates to their largest 2F: as a whole, and one stage at a time.

A `Path` is one way of computing it. To time another, write the two functions from (data, points) that return one, for
templates of different and of the same sky position, and add them to `PATHS`; nothing else needs to know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from jfstat.data.fstatdata import FstatData
from jfstat.statistic.combine import AntennaMatrix, antenna_matrix, two_f
from jfstat.statistic.resample import interpolated, resampled, spun_down, timing
from jfstat.statistic.spectrum import bin_numbers, folded, spectra
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


def plain(data: FstatData, points: Doppler) -> Path:
    """Each template resampled on its own, in plain JAX.

    Parameters
    ----------
    data : FstatData
    points : Doppler
        A stack of templates; only its length matters here.
    """
    batch, size = points.alpha.shape[0], _Sizes(data)
    return Path(
        "plain",
        _plain,
        (
            Stage("geometry", _geometry, batch * size.cubics),
            Stage("interpolation", _interpolation, size.bank + batch * (size.cubics + size.series)),
            Stage("folding", _folding, batch * (size.series + size.transforms)),
            Stage("fft", _fft, batch * 2 * size.transforms),
            Stage("2F and maxima", _maxima, batch * size.searched),
        ),
    )


def plain_one_position(data: FstatData, points: Doppler) -> Path:
    """One sky position: resampled once without spin-down, which is then taken off for each template.

    Parameters
    ----------
    data : FstatData
    points : Doppler
        A stack of templates of the same sky position.
    """
    batch, size = points.alpha.shape[0], _Sizes(data)
    return Path(
        "plain",
        _plain_one_position,
        (
            Stage("geometry", _geometry_once, size.cubics),
            Stage("interpolation", _interpolation_once, size.bank + size.cubics + size.series),
            Stage("spin-down", _spin_down, (1 + batch) * size.series),
            Stage("folding", _folding, batch * (size.series + size.transforms)),
            Stage("fft", _fft, batch * 2 * size.transforms),
            Stage("2F and maxima", _maxima, batch * size.searched),
        ),
    )


PATHS = {"plain": (plain, plain_one_position)}
"""By name: functions from (data, points) to a Path, for templates of different and of the same sky position."""


class _Sizes:
    """Bytes of what the stages hand on; for one template but for the bank."""

    def __init__(self, data: FstatData):
        layout, n_detectors = data.layout, len(data.detectors)
        self.bank = sum(x.nbytes for x in data.bank)
        self.cubics = n_detectors * layout.n_blocks * (2 * 4 + 4 * 4 * 4)  # two int32, four cubics in float32
        self.series = 2 * COMPLEX * layout.n_blocks * layout.block
        self.transforms = 4 * COMPLEX * layout.n_fft
        self.searched = 2 * COMPLEX * layout.n_frequencies


def largest_two_f(data: FstatData, point: Doppler, spectrum: jax.Array) -> jax.Array:
    """Largest 2F over the band of one template, () float32, from its `spectra`."""
    matrix = AntennaMatrix(*(jnp.sum(x, axis=0) for x in antenna_matrix(data, point)))
    value = two_f(spectrum[0], spectrum[1], matrix)
    odd, m = jnp.arange(2, dtype=jnp.int32)[:, None], jnp.arange(data.layout.n_fft, dtype=jnp.int32)
    number = bin_numbers(data.layout, odd, m)
    return jnp.max(jnp.where((number >= 0) & (number < data.layout.n_frequencies), value, 0.0))


def without_spin_down(points: Doppler) -> Doppler:
    """The first of a stack of templates, its spin-down set to zero."""
    alpha, delta, fkdot = points.alpha[0], points.delta[0], points.fkdot[0]
    return Doppler(alpha, delta, fkdot.at[1:].set(0.0), points.reftime)


@jax.jit
def _plain(data: FstatData, points: Doppler) -> jax.Array:
    def one(point: Doppler) -> jax.Array:
        return largest_two_f(data, point, spectra(resampled(data, point), data.layout))

    return jax.vmap(one)(points)


@jax.jit
def _plain_one_position(data: FstatData, points: Doppler) -> jax.Array:
    series = resampled(data, without_spin_down(points))

    def one(point: Doppler) -> jax.Array:
        return largest_two_f(data, point, spectra(spun_down(data, point, series), data.layout))

    return jax.vmap(one)(points)


@jax.jit
def _geometry(data: FstatData, points: Doppler, _: None) -> Any:
    return jax.vmap(timing, (None, 0))(data, points)


@jax.jit
def _interpolation(data: FstatData, points: Doppler, cubics: Any) -> Any:
    return jax.vmap(interpolated, (None, 0, 0))(data, points, cubics)


@jax.jit
def _geometry_once(data: FstatData, points: Doppler, _: None) -> Any:
    return timing(data, without_spin_down(points))


@jax.jit
def _interpolation_once(data: FstatData, points: Doppler, cubics: Any) -> Any:
    return interpolated(data, without_spin_down(points), cubics)


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
    return jax.vmap(largest_two_f, (None, 0, 0))(data, points, spectrum)
