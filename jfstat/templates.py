"""Signal parameters as pytrees: where the source is and how it turns (Doppler, Orbit), and its Amplitude."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from scipy.constants import speed_of_light

from jfstat.validation import as_float64, derivative_unit, gps_integer


def _register(cls: Any) -> Any:
    """Register a frozen dataclass as a pytree whose unflattening skips __init__.

    JAX puts placeholders of its own into the leaves, which the conversion of users' arguments must not see.
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


def _set(instance: Any, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(instance, name, value)


AMPLITUDE_FIELDS = ("h0", "cosi", "psi", "phi0")
"""Fields of an Amplitude but for its errors, all scalars of a signal."""
ORBIT_FIELDS = ("asini", "period", "tp", "ecc", "argp")
"""Fields of an Orbit, all scalars of a template."""


@_register
@dataclasses.dataclass(frozen=True, init=False, eq=False)
class Orbit:
    """A Keplerian orbit of the source about the binary's barycentre.

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

    Every field may carry leading batch axes, for vmap; they are broadcast against each other.

    Notes
    -----
    ``tp`` is kept as float64 GPS seconds, whose step of 1.2e-7 s is 1e-7 of the shortest orbit's radian: far below
    what any search resolves. Differences from the data's epoch are formed before anything else.

    Raises
    ------
    ValueError
        If an argument is not numeric or outside its range.
    """

    asini: jax.Array
    period: jax.Array
    tp: jax.Array
    ecc: jax.Array
    argp: jax.Array

    def __init__(self, asini: Any, period: Any, tp: Any, ecc: Any = 0.0, argp: Any = 0.0):
        tp = tp.gps if hasattr(tp, "gps") else tp
        if hasattr(asini, "to_value") and asini.unit.physical_type == "length":
            asini = asini.to_value("m") / speed_of_light
        values = [
            as_float64(asini, "asini", "s"),
            as_float64(period, "period", "s"),
            as_float64(tp, "tp", "s"),
            as_float64(ecc, "ecc"),
            as_float64(argp, "argp", "rad"),
        ]
        _set(self, **dict(zip(ORBIT_FIELDS, stacked(values, "an Orbit"), strict=True)))
        for name in ORBIT_FIELDS:
            require(getattr(self, name), name, np.isfinite, "finite", "give a number")
        require(self.period, "period", lambda x: x > 0, "positive", "give it in s")
        require(self.asini, "asini", lambda x: x >= 0, "non-negative", "turn argp by pi instead")
        require(self.ecc, "ecc", lambda x: (x >= 0) & (x < 1), "at least 0 and below 1", "orbits must be bound")
        if not any(isinstance(x, jax.core.Tracer) for x in (self.period, self.asini, self.ecc)):
            speed = 2 * np.pi * np.asarray(self.asini) / np.asarray(self.period) / (1 - np.asarray(self.ecc))
            require(speed, "asini", lambda x: x < 1, "an orbit slower than light, v/c", "check asini and period")


@_register
@dataclasses.dataclass(frozen=True, init=False, eq=False)
class Doppler:
    """The phase parameters of a template.

    Parameters
    ----------
    alpha, delta : float, Quantity or Angle
        Right ascension and declination, equatorial J2000, rad. A SkyCoord may stand as `alpha`, or as `sky`.
    fkdot : sequence of float or Quantity
        Frequency and its derivatives at `reftime` in the SSB: Hz, Hz/s, Hz/s^2, ...; shape (..., n), n >= 1.
    reftime : int or Time, optional
        GPS time in the SSB at which `fkdot` holds, a whole number of s, static. None means the data's.
    orbit : Orbit, optional
        For a source in a binary.
    sky : SkyCoord, optional
        Instead of `alpha` and `delta`.

    Every field but `reftime` may carry leading batch axes, for vmap; they are broadcast against each other.

    Raises
    ------
    ValueError
        If an argument is not numeric, has the wrong shape or is outside its range.
    """

    alpha: jax.Array
    delta: jax.Array
    fkdot: jax.Array
    reftime: int | None = dataclasses.field(metadata=dict(static=True))
    orbit: Orbit | None

    def __init__(
        self,
        alpha: Any = None,
        delta: Any = None,
        fkdot: Any = None,
        reftime: Any = None,
        orbit: Orbit | None = None,
        *,
        sky: Any = None,
    ):
        sky = alpha if hasattr(alpha, "icrs") else sky
        if sky is not None:
            if delta is not None or not hasattr(sky, "icrs"):
                raise ValueError("sky must be an astropy SkyCoord and stand alone: give it, or alpha and delta in rad.")
            alpha, delta = sky.icrs.ra.rad, sky.icrs.dec.rad
        for name, value in (("alpha", alpha), ("delta", delta), ("fkdot", fkdot)):
            if value is None:
                raise ValueError(f"{name} is missing: a Doppler needs alpha, delta (or sky) and fkdot.")
        if isinstance(fkdot, (list, tuple)):
            fkdot = [as_float64(f, f"fkdot[{k}]", derivative_unit(k)) for k, f in enumerate(fkdot)]
            if not fkdot:
                raise ValueError("fkdot is empty: give at least the frequency, in Hz.")
            fkdot = jnp.stack(stacked(fkdot, "fkdot"), axis=-1)
        elif hasattr(fkdot, "to_value"):
            if np.shape(fkdot)[-1:] != (1,):
                raise ValueError("fkdot is one Quantity for several units: write [f, f1dot, ...], each with its own.")
            fkdot = as_float64(fkdot, "fkdot", "Hz")
        fkdot = as_float64(fkdot, "fkdot")
        if fkdot.ndim == 0 or fkdot.shape[-1] == 0:
            raise ValueError("fkdot must be a sequence [f, f1dot, ...]: put a single frequency in brackets.")
        if orbit is not None and not isinstance(orbit, Orbit):
            raise ValueError(f"orbit must be a jfstat.Orbit or None, not {orbit!r}.")
        columns = [fkdot[..., k] for k in range(fkdot.shape[-1])]
        orbits = [] if orbit is None else [getattr(orbit, name) for name in ORBIT_FIELDS]
        alpha, delta = as_float64(alpha, "alpha", "rad"), as_float64(delta, "delta", "rad")
        values = stacked([alpha, delta, *columns, *orbits], "a Doppler")
        if orbit is not None and values[-1].shape != orbit.argp.shape:
            orbit = Orbit(*values[-len(ORBIT_FIELDS) :])
        _set(
            self,
            alpha=values[0],
            delta=values[1],
            fkdot=fkdot if values[0].shape == fkdot.shape[:-1] else jnp.stack(values[2 : 2 + len(columns)], axis=-1),
            reftime=None if reftime is None else gps_integer(reftime, "reftime"),
            orbit=orbit,
        )
        require(self.delta, "delta", lambda x: abs(x) <= np.pi / 2 + 1e-12, "within [-pi/2, pi/2]", "give it in rad")
        require(self.alpha, "alpha", np.isfinite, "finite", "give it in rad")
        require(self.fkdot, "fkdot", np.isfinite, "finite", "give Hz, Hz/s, ...")


@_register
@dataclasses.dataclass(frozen=True, init=False, eq=False)
class Amplitude:
    """The amplitude parameters of a signal, and their errors where they were estimated.

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
    errors : Amplitude, optional
        One-sigma errors of the four, as `estimate_amplitude` gives them.

    Raises
    ------
    ValueError
        If an argument is not numeric or outside its range.
    """

    h0: jax.Array
    cosi: jax.Array
    psi: jax.Array
    phi0: jax.Array
    errors: Amplitude | None

    def __init__(self, h0: Any, cosi: Any, psi: Any = 0.0, phi0: Any = 0.0, errors: Amplitude | None = None):
        values = [
            as_float64(h0, "h0"),
            as_float64(cosi, "cosi"),
            as_float64(psi, "psi", "rad"),
            as_float64(phi0, "phi0", "rad"),
        ]
        h0, cosi, psi, phi0 = stacked(values, "an Amplitude")
        _set(self, h0=h0, cosi=cosi, psi=psi, phi0=phi0, errors=errors)
        for name in AMPLITUDE_FIELDS:
            require(getattr(self, name), name, np.isfinite, "finite", "give a number")
        require(self.h0, "h0", lambda x: x >= 0, "non-negative", "shift phi0 by pi instead")
        require(self.cosi, "cosi", lambda x: abs(x) <= 1, "within [-1, 1]", "it is the cosine of an angle")

    @property
    def canonical(self) -> jax.Array:
        """The four amplitudes A^mu, (4,) float64 (Jaranowski, Krolak & Schutz 1998, eq. 32 to 35).

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


def stacked(values: list[jax.Array], what: str) -> list[jax.Array]:
    """Arrays broadcast to one shape, as leaves of a stack must have; those that have it stay as they are.

    Raises
    ------
    ValueError
        If their shapes do not fit.
    """
    try:
        shape = np.broadcast_shapes(*(x.shape for x in values))
    except ValueError:
        shapes = ", ".join(str(x.shape) for x in values)
        raise ValueError(
            f"the fields of {what} have shapes {shapes} that do not fit: give one value a template."
        ) from None
    return [x if x.shape == shape else jnp.broadcast_to(x, shape) for x in values]


def require(value: jax.Array | np.ndarray, name: str, condition: Any, what: str, hint: str) -> None:
    """Raise a ValueError unless a concrete array fulfils a condition everywhere; tracers pass.

    Raises
    ------
    ValueError
        Names the argument, the first offending value and what to do.
    """
    if isinstance(value, jax.core.Tracer):
        return
    # NumPy, because under an outer jit even constants would be traced by JAX's functions
    concrete = np.atleast_1d(np.asarray(value))
    good = condition(concrete)
    if not good.all():
        offender = float(concrete[~good][0])
        raise ValueError(f"{name} must be {what}, not {offender}: {hint}.")
