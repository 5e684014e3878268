"""Define the parameters of a signal as pytrees: Doppler for its phase, with an Orbit in a binary, and Amplitude."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Never

import jax
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.display import Displayed, Facts
from jfstat.maths.arrays import broadcast, on_device, stacked_first, stacked_last
from jfstat.maths.pytrees import registered, set_fields
from jfstat.signal.columns import (
    AnyTable,
    check_limits,
    column_values,
    one_row,
    parameter_columns,
    refuse_window,
)
from jfstat.signal.constants import SPEED_OF_LIGHT
from jfstat.signal.parameters import (
    AMPLITUDE_FIELDS,
    MOTION_FIELDS,
    ORBIT_FIELDS,
    SKY,
    spin_name,
    spin_names,
    unit,
)
from jfstat.signal.phasemodel import PhaseModel
from jfstat.signal.possible import require_possible, require_possible_orbit, require_possible_source
from jfstat.signal.showing import doppler_facts, scalars_facts
from jfstat.signal.stacks import Stackable
from jfstat.signal.times import GPSTime, TimeLike, gps_time
from jfstat.validation import (
    AngleLike,
    DurationLike,
    FrequencyLike,
    NumberLike,
    as_float64,
    precise,
    require_x64,
)

if TYPE_CHECKING:
    from astropy.coordinates import SkyCoord
    from astropy.table import Row, Table
    from astropy.time import Time

REFTIME = "reftime"
"""Entry of a table's meta, or column of a table whose rows hold at different times."""
SpinsLike = NumberLike | Sequence[FrequencyLike]
"""A frequency and its derivatives: Hz, Hz/s, Hz/s^2, ..., or each a Quantity."""


@registered
@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class Orbit(Displayed, Stackable):
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
        set_fields(self, **dict(zip(ORBIT_FIELDS, stacked(values, "an Orbit"), strict=True)))
        require_possible_orbit(self)

    def _facts(self) -> Facts:
        return scalars_facts(self, ORBIT_FIELDS, "orbits")


@registered
@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class Doppler(Displayed, Stackable):
    """The phase parameters of a template.

    Every field may carry leading batch axes, for vmap; they are broadcast against each other. A stack is indexed and
    iterated like an array with these axes: ``points[i]`` is one template, ``points[2:5]`` and ``points[mask]`` are
    stacks, ``len(points)`` is their number.

    Parameters
    ----------
    alpha, delta : float, Quantity or Angle
        Right ascension, within [-pi, 3 pi], and declination, equatorial J2000, rad. A SkyCoord may be given as `alpha`
        or as `sky`.
    fkdot : sequence of float or Quantity
        Frequency and its derivatives at `reftime` in the SSB: Hz, Hz/s, Hz/s^2, ...; shape (..., n), n >= 1. Nested
        lists mean what an array of the same numbers means: one ``[f, f1dot, ...]`` for each template. In a list
        ``[f, f1dot, ...]`` an entry may be an array if another is a number or all have units.
    reftime : float, str, Time or GPSTime, optional
        GPS time in the SSB at which `fkdot` holds, s; kept to the nanosecond. None means the reference time of the
        data.
    orbit : Orbit, optional
        Orbit of a source in a binary.
    sky : SkyCoord, optional
        Sky position, instead of `alpha` and `delta`.
    motion : (pmra, pmdec), optional
        Proper motion: d(alpha)/dt cos(delta) and d(delta)/dt, rad/s, or Quantities such as ``5 * u.mas / u.yr``. With
        it `alpha` and `delta` hold at `reftime`, as `fkdot` does. An array or nested lists have the shape (..., 2).
    model : PhaseModel, optional
        User-defined phase, added to the phase of `fkdot`.

    Attributes
    ----------
    varied : tuple of str or None
        Names of the parameters over whose ranges a bank was asked to extend, besides the frequency; a range counts even
        if one template covers it. `template_bank` and `bank_from_table` say it, and a part of a bank, such as
        ``bank[2:5]``, keeps it; None for other templates, one of a bank too, and for what is made of a bank by
        ``jax.tree.map``, ``jax.device_put`` or ``dataclasses.replace``, because it is no part of the pytree.
    asked : dict of str to (low, high), or None
        The ranges that `template_bank` was asked to cover, kept and lost like `varied`. A lattice extends beyond them.

    Raises
    ------
    TypeError
        If `orbit` is no Orbit or `model` no PhaseModel, or an argument is unknown: the message says where it belongs.
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
    >>> len(two), two[1].fkdot.shape, two[two.fkdot[:, 0] > 100.0105].fkdot.shape
    (2, (1,), (1, 1))
    """

    alpha: jax.Array
    delta: jax.Array
    fkdot: jax.Array
    reftime: GPSTime | None
    orbit: Orbit | None
    motion: jax.Array | None
    model: PhaseModel | None
    varied: tuple[str, ...] | None = dataclasses.field(init=False, default=None)
    asked: Mapping[str, tuple[float, float]] | None = dataclasses.field(init=False, default=None)

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
        **others: Never,
    ):
        if others:
            raise TypeError(_belongs(next(iter(others))))
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
        motion = None if motion is None else _motion(motion)
        times, orbits = jax.tree.leaves(reftime), jax.tree.leaves(orbit)
        shapes = [alpha.shape, delta.shape, fkdot.shape[:-1], *(x.shape for x in (*times, *orbits))]
        shapes += [] if motion is None else [motion.shape[:-1]]
        shape = _common_shape(shapes, "a Doppler")
        set_fields(
            self,
            alpha=broadcast(alpha, shape),
            delta=broadcast(delta, shape),
            fkdot=broadcast(fkdot, (*shape, fkdot.shape[-1])),
            reftime=jax.tree.map(lambda x: broadcast(x, shape), reftime),
            orbit=jax.tree.map(lambda x: broadcast(x, shape), orbit),
            motion=None if motion is None else broadcast(motion, (*shape, len(MOTION_FIELDS))),
            model=None if model is None else model.for_stack(shape),
            varied=None,
            asked=None,
        )
        require_possible_source(self)

    def _facts(self) -> Facts:
        return doppler_facts(self)

    @classmethod
    def from_row(cls, row: Row | Table, *, model: PhaseModel | None = None) -> Doppler:
        """Return the template of one row of a table, as `search`, `refine`, `follow_up` and `read_candidates` make it.

        Functions of one template, such as `twoF`, take the row itself too, and `bank_from_table` makes a stack of all
        rows of a table.

        Parameters
        ----------
        row : Row, or Table of one row
            Columns ``freq``, ``alpha``, ``delta``, and any of ``f1dot``, ..., of a proper motion and of an orbit, with
            or without units. asini = 0 means no orbit. Frequencies, and positions with a proper motion, hold at the
            table's ``meta["reftime"]``, of which a stack of tables has one; without it the template has the reference
            time of the data. Other columns are ignored, also the window of a
            transient signal: give that to `transient_twoF`.
        model : PhaseModel, optional
            For a row of templates with a phase model: any one with its function. Its parameters are the row's.

        Raises
        ------
        TypeError
            If `row` is no row of a table, or `model` no PhaseModel.
        ValueError
            If a column is missing, or has another unit or a value that is impossible for a template; or if there are
            several rows.

        Examples
        --------
        >>> found = jfstat.search(data, point, top=3, progress=False)
        >>> best = jfstat.Doppler.from_row(found[0])
        >>> round(float(best.fkdot[0]), 4), best.fkdot.shape
        (100.01, (2,))
        >>> bool(jfstat.twoF(data, best) == jfstat.twoF(data, found[0]))
        True
        """
        require_x64()
        kinds.instance(PhaseModel, or_none=True)(model, "model")
        return template_of_row(one_row(row, "row"), "row", model)


@registered
@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class Amplitude(Displayed, Stackable):
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
        set_fields(self, h0=h0, cosi=cosi, psi=psi, phi0=phi0)
        for name in AMPLITUDE_FIELDS:
            require_possible(getattr(self, name), name)

    def _facts(self) -> Facts:
        return scalars_facts(self, AMPLITUDE_FIELDS, "signals")

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


FOREIGN = {
    r"f|f0|freq|frequency|fkdots|f[0-9]+(dot)?|spins?": "takes fkdot=[freq, f1dot, ...], in Hz, Hz/s, ...",
    r"ra|right_?ascension|longitude": "takes alpha=, the right ascension in rad",
    r"dec|decl|declination|latitude": "takes delta=, the declination in rad",
    r"position|coord|coordinates?|skycoord|skypos": "takes sky=, a SkyCoord, or alpha= and delta=",
    r"asini|a1|period|pb|tp|t0|tasc|ecc|argp|om|binary": "takes orbit=jfstat.Orbit(asini, period, tp, ecc, argp)",
    r"tref|t_ref|ref_?time|reference_?time|epoch|pepoch": "takes reftime=, the GPS time at which fkdot holds",
    r"pmra|pmdec|proper_?motion|pm": "takes motion=(pmra, pmdec), in rad/s",
    r"h0|cosi|cosiota|psi|phi0|amplitude": "has no amplitude, which is a jfstat.Amplitude(h0, cosi, psi, phi0)",
    r"phase_?model|phase": "takes model=, a jfstat.PhaseModel",
}
"""What to say of arguments that `Doppler` does not have, by the names that other programs give them, in small letters.
"""


def _belongs(name: str) -> str:
    """Return where an argument belongs that `Doppler` does not have, as a sentence."""
    usual = "takes alpha, delta (or sky), fkdot, reftime, orbit, motion and model"
    right = next((says for names, says in FOREIGN.items() if re.fullmatch(names, name.lower())), usual)
    return f"a Doppler has no argument {name!r}: it {right}."


def points_from(
    columns: Mapping[str, np.ndarray], reftime: TimeLike | None, model: PhaseModel | None = None
) -> Doppler:
    """Return a stack of templates, NumPy leaves, from columns as `jfstat.signal.columns.parameter_columns` returns
    them.

    If a phase model is given, of one template, its parameters are taken from columns too.

    Raises
    ------
    ValueError
        If a value is impossible for a template.
    """
    fkdot = np.stack([columns[name] for name in spin_names(tuple(columns))], axis=-1)
    orbit = Orbit(*(columns[name] for name in ORBIT_FIELDS)) if "asini" in columns else None
    if model is not None:
        model = model.repeated(len(columns["alpha"])).replaced({name: columns[name] for name in model.places(0)}, 1)
    motion = None
    if MOTION_FIELDS[0] in columns:
        motion = np.stack([columns[name] for name in MOTION_FIELDS], axis=-1)
    points = Doppler(columns["alpha"], columns["delta"], fkdot, reftime, orbit, motion=motion, model=model)
    return jax.tree.map(np.asarray, points)


def template_of_row(row: AnyTable, name: str, model: PhaseModel | None = None) -> Doppler:
    """Return the template of a table of one row, with `name` for the row in errors; see `Doppler.from_row`."""
    elsewhere = "use jfstat.Doppler.from_row(row, model=)"
    given = parameter_columns(row, name, ("freq", *SKY), elsewhere if model is None else None)
    if "asini" in given and not given["asini"][0]:  # an isolated source in a table with orbits
        given = {column: x for column, x in given.items() if column not in ORBIT_FIELDS}
    check_limits(given, name, numbered=False)
    if model is not None:
        for column in model.places(0):
            here = column in row.colnames
            given[column] = column_values(row, column, "", False, name) if here else np.array([model.value(column, 0)])
    try:
        with jax.ensure_compile_time_eval():  # a row's values are known, also within a transformation
            stack = points_from(given, _reftime_of(row, name), model)
    except ValueError as error:
        raise ValueError(f"{name} holds no possible template: {error}") from error
    return jax.tree.map(lambda x: on_device(x[0]), stack)


def _reftime_of(row: AnyTable, name: str) -> TimeLike | None:
    """Return the reference time of a row: the one in its column ``reftime``, or else its table's."""
    if REFTIME in row.colnames:
        return float(column_values(row, REFTIME, "s", False, name)[0])
    return (row.meta or {}).get(REFTIME)


def template(x: Any, name: str) -> Doppler | None:
    """Convert a row of a table to its template, for `jfstat.public`; rows of transient signals are refused."""
    return _of_row(x, name, persistent=True)


def template_of_any(x: Any, name: str) -> Doppler | None:
    """Convert a row as `template` does, for functions that a window does not concern: of transient signals too."""
    return _of_row(x, name, persistent=False)


def _of_row(x: Any, name: str, persistent: bool) -> Doppler | None:
    if isinstance(x, Doppler) or not hasattr(x, "colnames"):
        return None  # the function itself says what is wrong with anything else
    row = one_row(x, name)
    if persistent:
        refuse_window(row, name)
    return template_of_row(row, name)


def _light_seconds(asini: Any) -> Any:
    """Return a length in light-seconds; anything but a Quantity that is a length is returned unchanged."""
    if hasattr(asini, "to_value") and asini.unit.physical_type == "length":
        return asini.to_value("m") / SPEED_OF_LIGHT
    return asini


def _spins(fkdot: Any) -> jax.Array:
    """Return the frequency and its derivatives, (..., n) float64, from a user's argument."""
    if isinstance(fkdot, (list, tuple)):
        if not fkdot:
            raise ValueError("fkdot is empty: give at least the frequency, in Hz.")
        if _is_nested(fkdot):
            fkdot = _rows(fkdot, "fkdot", _spins)
        else:
            if not any(hasattr(f, "to_value") for f in fkdot):  # units tell the derivatives apart
                _refuse_arrays(fkdot, "fkdot", "np.stack([f, f1dot], axis=-1)")
            convert = [precise, *[as_float64] * len(fkdot)]
            fkdot = [convert[k](f, f"fkdot[{k}]", unit(spin_name(k))) for k, f in enumerate(fkdot)]
            fkdot = stacked_last(stacked(fkdot, "fkdot"))
    elif hasattr(fkdot, "to_value"):
        if np.shape(fkdot)[-1:] != (1,):
            raise ValueError("fkdot is one Quantity for several units: write [f, f1dot, ...], each with its own.")
        fkdot = precise(fkdot, "fkdot", "Hz")
    fkdot = precise(fkdot, "fkdot")
    if fkdot.ndim == 0 or fkdot.shape[-1] == 0:
        raise ValueError("fkdot must be a sequence [f, f1dot, ...]: put a single frequency in brackets.")
    return fkdot


def _motion(motion: Any) -> jax.Array:
    """Return a proper motion, (..., 2) float64, rad/s, from a user's argument."""
    if not isinstance(motion, (list, tuple)):
        motion = as_float64(motion, "motion", unit(MOTION_FIELDS[0]))
    elif motion and _is_nested(motion):
        motion = _rows(motion, "motion", _motion)
    elif len(motion) == len(MOTION_FIELDS):
        _refuse_arrays(motion, "motion", "np.stack([pmra, pmdec], axis=-1)")
        each = [as_float64(x, name, unit(name)) for name, x in zip(MOTION_FIELDS, motion, strict=True)]
        motion = stacked_last(stacked(each, "motion"))
    if isinstance(motion, (list, tuple)) or motion.shape[-1:] != (len(MOTION_FIELDS),):
        raise ValueError("motion must be (pmra, pmdec), the proper motion in rad/s or with units, or None.")
    return motion


def _is_nested(values: Sequence[Any]) -> bool:
    return all(isinstance(x, (list, tuple)) for x in values)


def _rows(values: Sequence[Any], name: str, read: Callable[[Any], jax.Array]) -> jax.Array:
    """Return nested lists as an array of the same numbers; `read` takes each list if they hold more than plain numbers.

    Raises
    ------
    ValueError
        If the lists have different lengths.
    """
    if len(set(map(len, values))) == 1 and all(isinstance(leaf, (int, float)) for leaf in jax.tree.leaves(values)):
        return as_float64(values, name)
    rows = [read(x) for x in values]
    if len({x.shape for x in rows}) > 1:
        raise ValueError(f"{name} holds lists of different lengths: give as many numbers for each template.")
    return stacked_first(rows)


def _refuse_arrays(values: Sequence[Any], name: str, remedy: str) -> None:
    """Raise a ValueError for a list of arrays, which may be one for each template or one for each component."""
    if all(isinstance(x, (list, tuple)) or getattr(x, "ndim", 0) for x in values):
        raise ValueError(f"{name} must not be a list of arrays, which may be rows or columns: give {remedy}.")


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
