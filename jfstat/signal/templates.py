"""Define the parameters of a signal as pytrees: Doppler for its phase, with an Orbit in a binary, and Amplitude."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.maths.arrays import broadcast, stacked_last
from jfstat.signal.constants import SPEED_OF_LIGHT
from jfstat.signal.parameters import AMPLITUDE_FIELDS, LIMITS, MOTION_FIELDS, ORBIT_FIELDS, speed_bound, spin_name, unit
from jfstat.signal.phasemodel import PhaseModel
from jfstat.signal.times import GPSTime, TimeLike, gps_time
from jfstat.validation import (
    AngleLike,
    DurationLike,
    FrequencyLike,
    NumberLike,
    as_float64,
    float64_of,
    precise,
    require,
)

if TYPE_CHECKING:
    from astropy.coordinates import SkyCoord
    from astropy.time import Time

Class = TypeVar("Class", bound=type)
SpinsLike = NumberLike | Sequence[FrequencyLike]
"""A frequency and its derivatives: Hz, Hz/s, Hz/s^2, ..., or each a Quantity."""


def _register(cls: Class) -> Class:
    """Register a frozen dataclass as a pytree whose unflattening skips __init__.

    JAX replaces leaves by placeholders, which the checks of users' arguments would refuse.
    """
    names = [f.name for f in dataclasses.fields(cls) if not f.metadata.get("static")]
    static = [f.name for f in dataclasses.fields(cls) if f.metadata.get("static")]

    def flatten_with_keys(x):
        return [(jax.tree_util.GetAttrKey(n), getattr(x, n)) for n in names], tuple(getattr(x, n) for n in static)

    def flatten(x):
        return [getattr(x, n) for n in names], tuple(getattr(x, n) for n in static)

    def unflatten(aux, leaves):
        x = object.__new__(cls)
        for name, value in [*zip(static, aux, strict=True), *zip(names, leaves, strict=True)]:
            object.__setattr__(x, name, value)
        return x

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


def _set(instance: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(instance, name, value)


@_register
@dataclasses.dataclass(frozen=True, init=False, eq=False)
class Orbit:
    """A Keplerian orbit of the source about the binary's barycentre.

    Every field may carry leading batch axes, for vmap; they are broadcast against each other.

    Parameters
    ----------
    asini : float or Quantity
        Projected semi-major axis, light-seconds.
    period : float or Quantity
        Orbital period, s.
    tp : float or Time
        GPS time of a periapsis passage, in the SSB, s.
    ecc : float
        Eccentricity, 0 <= ecc < 1.
    argp : float or Angle
        Argument of periapsis, rad.

    Notes
    -----
    ``tp`` is a float64 GPS time, rounded to 1.2e-7 s. That is far below what any search resolves. The data's epoch is
    subtracted from it before any other arithmetic.

    Raises
    ------
    ValueError
        If an argument is not numeric or outside its range.

    Examples
    --------
    >>> orbit = jfstat.Orbit(asini=1.44, period=68023.7, tp=start)
    >>> float(jfstat.Doppler(4.276, -0.273, [100.0], start, orbit=orbit).orbit.ecc)
    0.0
    """

    asini: jax.Array
    period: jax.Array
    tp: jax.Array
    ecc: jax.Array
    argp: jax.Array

    def __init__(
        self,
        asini: NumberLike,
        period: DurationLike,
        tp: NumberLike | Time,
        ecc: NumberLike = 0.0,
        argp: AngleLike = 0.0,
    ):
        values = [
            as_float64(_light_seconds(asini), "asini", "s"),
            precise(period, "period", "s"),
            precise(getattr(tp, "gps", tp), "tp", "s"),
            as_float64(ecc, "ecc"),
            as_float64(argp, "argp", "rad"),
        ]
        _set(self, **dict(zip(ORBIT_FIELDS, stacked(values, "an Orbit"), strict=True)))
        for name in ORBIT_FIELDS:
            _require_possible(getattr(self, name), name)
        if not any(isinstance(x, jax.core.Tracer) for x in (self.period, self.asini, self.ecc)):
            speed = speed_bound(*map(np.asarray, (self.asini, self.period, self.ecc)))
            require(speed, "asini", lambda x: x < 1, "an orbit slower than light, v/c", "check asini and period")


@_register
@dataclasses.dataclass(frozen=True, init=False, eq=False)
class Doppler:
    """The phase parameters of a template.

    Every field may carry leading batch axes, for vmap; they are broadcast against each other.

    Parameters
    ----------
    alpha, delta : float, Quantity or Angle
        Right ascension and declination, equatorial J2000, rad. A SkyCoord may be given as `alpha` or as `sky`.
    fkdot : sequence of float or Quantity
        Frequency and its derivatives at `reftime` in the SSB: Hz, Hz/s, Hz/s^2, ...; shape (..., n), n >= 1.
    reftime : float, str, Time or GPSTime, optional
        GPS time in the SSB at which `fkdot` holds, s; kept to the nanosecond. None means the reference time of the
        data.
    orbit : Orbit, optional
        Orbit of a source in a binary.
    sky : SkyCoord, optional
        Sky position, instead of `alpha` and `delta`.
    motion : (pmra, pmdec), optional
        Proper motion: d(alpha)/dt cos(delta) and d(delta)/dt, rad/s, or Quantities such as ``5 * u.mas / u.yr``. With
        it `alpha` and `delta` hold at `reftime`, as `fkdot` does. An array has the shape (..., 2).
    model : PhaseModel, optional
        User-defined phase, added to the phase of `fkdot`.

    Raises
    ------
    TypeError
        If `orbit` is no Orbit or `model` no PhaseModel.
    ValueError
        If an argument is not numeric, has the wrong shape or is outside its range.

    Examples
    --------
    >>> import astropy.units as u
    >>> jfstat.Doppler(2.1 * u.rad, 27 * u.deg, [100.01, -1e-10], reftime=start).fkdot.shape
    (2,)
    >>> two = jfstat.Doppler(2.1, 0.47, np.array([[100.01], [100.011]]), start)
    >>> jax.vmap(jfstat.twoF, (None, 0))(data, two).shape
    (2,)
    """

    alpha: jax.Array
    delta: jax.Array
    fkdot: jax.Array
    reftime: GPSTime | None
    orbit: Orbit | None
    motion: jax.Array | None
    model: PhaseModel | None

    def __init__(
        self,
        alpha: AngleLike | SkyCoord | None = None,
        delta: AngleLike | None = None,
        fkdot: SpinsLike | None = None,
        reftime: TimeLike | None = None,
        orbit: Orbit | None = None,
        *,
        sky: SkyCoord | None = None,
        motion: Sequence[NumberLike] | NumberLike | None = None,
        model: PhaseModel | None = None,
    ):
        position: Any = alpha if hasattr(alpha, "icrs") else sky
        if position is not None:
            if delta is not None or not hasattr(position, "icrs"):
                raise ValueError("sky must be an astropy SkyCoord and stand alone: give it, or alpha and delta in rad.")
            alpha, delta = position.icrs.ra.rad, position.icrs.dec.rad
        for name, value in (("alpha", alpha), ("delta", delta), ("fkdot", fkdot)):
            if value is None:
                raise ValueError(f"{name} is missing: a Doppler needs alpha, delta (or sky) and fkdot.")
        fkdot = _spins(fkdot)
        kinds.instance(Orbit, or_none=True)(orbit, "orbit")
        kinds.instance(PhaseModel, or_none=True)(model, "model")
        alpha, delta = as_float64(alpha, "alpha", "rad"), as_float64(delta, "delta", "rad")
        reftime = None if reftime is None else gps_time(reftime, "reftime")
        motions = [] if motion is None else _motion(motion)
        times, orbits = jax.tree.leaves(reftime), jax.tree.leaves(orbit)
        shapes = [alpha.shape, delta.shape, fkdot.shape[:-1], *(x.shape for x in (*times, *orbits, *motions))]
        shape = _common_shape(shapes, "a Doppler")
        _set(
            self,
            alpha=broadcast(alpha, shape),
            delta=broadcast(delta, shape),
            fkdot=broadcast(fkdot, (*shape, fkdot.shape[-1])),
            reftime=jax.tree.map(lambda x: broadcast(x, shape), reftime),
            orbit=jax.tree.map(lambda x: broadcast(x, shape), orbit),
            motion=None if motion is None else stacked_last([broadcast(x, shape) for x in motions]),
            model=None if model is None else model.for_stack(shape),
        )
        if self.motion is not None:
            require(self.motion, "motion", np.isfinite, "finite", "give rad/s")
        _require_possible(self.delta, "delta")
        require(self.alpha, "alpha", np.isfinite, "finite", "give it in rad")
        require(self.fkdot, "fkdot", np.isfinite, "finite", "give Hz, Hz/s, ...")


@_register
@dataclasses.dataclass(frozen=True, init=False, eq=False)
class Amplitude:
    """The amplitude parameters of a signal.

    Parameters
    ----------
    h0 : float
        Strain amplitude.
    cosi : float
        Cosine of the inclination, -1 to 1.
    psi : float or Angle
        Polarisation angle, rad.
    phi0 : float or Angle
        Phase at the reference time, rad.

    Raises
    ------
    ValueError
        If an argument is not numeric or outside its range.

    Examples
    --------
    >>> jfstat.Amplitude(h0=1e-25, cosi=1.0).canonical
    Array([ 1.e-25,  0.e+00, -0.e+00,  1.e-25], dtype=float64)
    """

    h0: jax.Array
    cosi: jax.Array
    psi: jax.Array
    phi0: jax.Array

    def __init__(self, h0: NumberLike, cosi: NumberLike, psi: AngleLike = 0.0, phi0: AngleLike = 0.0):
        values = [
            as_float64(h0, "h0"),
            as_float64(cosi, "cosi"),
            as_float64(psi, "psi", "rad"),
            as_float64(phi0, "phi0", "rad"),
        ]
        h0, cosi, psi, phi0 = stacked(values, "an Amplitude")
        _set(self, h0=h0, cosi=cosi, psi=psi, phi0=phi0)
        for name in AMPLITUDE_FIELDS:
            _require_possible(getattr(self, name), name)

    @property
    def canonical(self) -> jax.Array:
        """Four amplitudes A^mu, (4,) float64 (Jaranowski, Krolak & Schutz 1998, eq. 32 to 35).

        A1 to A4 multiply a cos, b cos, a sin and b sin of the phase, as in XLALAmplitudeParams2Vect.
        """
        plus, cross = 0.5 * self.h0 * (1 + self.cosi**2), self.h0 * self.cosi
        cos_phi, sin_phi = jnp.cos(self.phi0), jnp.sin(self.phi0)
        cos_psi, sin_psi = jnp.cos(2 * self.psi), jnp.sin(2 * self.psi)
        return jnp.stack(
            [
                plus * cos_phi * cos_psi - cross * sin_phi * sin_psi,
                plus * cos_phi * sin_psi + cross * sin_phi * cos_psi,
                -plus * sin_phi * cos_psi - cross * cos_phi * sin_psi,
                -plus * sin_phi * sin_psi + cross * cos_phi * cos_psi,
            ],
            axis=-1,
        )


def check_possible(point: Doppler) -> None:
    """Raise the ValueError of the constructors if a concrete template has values that they would refuse.

    Transformations of JAX make templates without calling the constructors.
    """
    orbit = point.orbit
    if orbit is not None:
        orbit = Orbit(*(getattr(orbit, name) for name in ORBIT_FIELDS))
    Doppler(point.alpha, point.delta, point.fkdot, orbit=orbit, motion=point.motion)


def _light_seconds(asini: Any) -> Any:
    """Return a length in light-seconds; anything but a Quantity that is a length is returned unchanged."""
    if hasattr(asini, "to_value") and asini.unit.physical_type == "length":
        return asini.to_value("m") / SPEED_OF_LIGHT
    return asini


def _spins(fkdot: Any) -> jax.Array:
    """Return the frequency and its derivatives, (..., n) float64, from a user's argument."""
    if isinstance(fkdot, (list, tuple)):
        convert = [precise, *[as_float64] * len(fkdot)]
        fkdot = [convert[k](f, f"fkdot[{k}]", unit(spin_name(k))) for k, f in enumerate(fkdot)]
        if not fkdot:
            raise ValueError("fkdot is empty: give at least the frequency, in Hz.")
        fkdot = stacked_last(stacked(fkdot, "fkdot"))
    elif hasattr(fkdot, "to_value"):
        if np.shape(fkdot)[-1:] != (1,):
            raise ValueError("fkdot is one Quantity for several units: write [f, f1dot, ...], each with its own.")
        fkdot = precise(fkdot, "fkdot", "Hz")
    fkdot = precise(fkdot, "fkdot")
    if fkdot.ndim == 0 or fkdot.shape[-1] == 0:
        raise ValueError("fkdot must be a sequence [f, f1dot, ...]: put a single frequency in brackets.")
    return fkdot


def _motion(motion: Any) -> list[jax.Array]:
    """Return the components of a proper motion, (...) float64 each, rad/s, from a user's argument."""
    if not isinstance(motion, (list, tuple)) and float64_of(motion, "motion").shape[-1:] == (len(MOTION_FIELDS),):
        motion = [motion[..., i] for i in range(len(MOTION_FIELDS))]
    if not isinstance(motion, (list, tuple)) or len(motion) != len(MOTION_FIELDS):
        raise ValueError("motion must be (pmra, pmdec), the proper motion in rad/s or with units, or None.")
    return [as_float64(x, name, unit(name)) for name, x in zip(MOTION_FIELDS, motion, strict=True)]


def stacked(values: list[jax.Array], what: str) -> list[jax.Array]:
    """Return arrays broadcast to their common shape, which the leaves of a stack must have.

    Raises
    ------
    ValueError
        If their shapes do not fit.
    """
    shape = _common_shape([x.shape for x in values], what)
    return [broadcast(x, shape) for x in values]


def _common_shape(shapes: Sequence[tuple[int, ...]], what: str) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(
            f"the fields of {what} have shapes {', '.join(map(str, shapes))} that do not fit: give one value per "
            "template."
        ) from None


def _require_possible(value: jax.Array | np.ndarray, name: str) -> None:
    """Raise a ValueError unless a parameter is finite and within its limits; traced values are not checked."""
    require(value, name, np.isfinite, "finite", "give a number")
    if name in LIMITS:
        limit = LIMITS[name]
        require(value, name, limit.holds, limit.must_be, limit.hint)
