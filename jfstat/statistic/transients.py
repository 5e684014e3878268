"""Compute 2F of transient signals: at one window, and over all start times and time scales of a range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jfstat import kinds
from jfstat.data.checks import check_data, check_point
from jfstat.data.direct import detector_sums
from jfstat.data.fit import nan_unless_fit
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.data.observation import refuse_windowed
from jfstat.display import Displayed, Facts, brief, is_known, memory, value_range
from jfstat.geometry.trajectory import Trajectory
from jfstat.maths.arrays import any_traced, is_traced
from jfstat.public import public
from jfstat.signal.templates import Doppler, template_of_any
from jfstat.signal.transientwindow import (
    TAPER_NODES,
    Shape,
    TransientWindow,
    end_of,
    shape_and_end,
    shape_value,
    tapered_mean,
    window_mean,
)
from jfstat.statistic.atoms import USUAL_DURATION, Atoms, atoms, check_atoms
from jfstat.statistic.combine import AntennaMatrix, two_f, two_f_of_powers
from jfstat.validation import (
    DurationLike,
    NumberLike,
    as_float64,
    positive_number,
    positive_seconds,
    precise,
    require,
    require_x64,
)

PATTERN_NODES = 5
"""Number of Gauss-Legendre nodes for the antenna matrix over the part of each SFT that a window covers."""
LINEAR, ALL = 4, 7
"""Numbers of rows of `_totals`: the real and imaginary parts of Fa and Fb, in which windows are linear, and all rows
with A, B, C, in which they are quadratic.
"""
RHO_MAX = "the largest signal-to-noise ratio of the prior"
BLOCK = 4
"""Number of slices from which on sums are stored together for exponential windows on GPUs."""
MOST_MULTIPLES = 64
"""Largest whole number in a ratio of the steps of t0 and tau for which windows share the times at which they end."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class TransientMap(Displayed):
    """2F over start times and time scales of a transient signal, at one template; made by `jfstat.transient_map`.

    Attributes
    ----------
    twoF : (n, m) float64
        2F of the windowed data with the antenna matrix of the window.
    t0 : (n,) float64
        Start times, GPS s.
    tau : (m,) float64
        Time scales, s.
    shape, end : static
        Shape and end of the windows, see `TransientWindow`.
    taper : () float64 or None
        Width of the windows' tapers, s; None for sharp edges.
    """

    twoF: jax.Array
    t0: jax.Array
    tau: jax.Array
    shape: Shape = field(metadata=dict(static=True))
    end: float = field(metadata=dict(static=True))
    taper: jax.Array | None = None

    @property
    def max_twoF(self) -> jax.Array:
        """Largest 2F, () float64."""
        return jnp.max(self.twoF)

    @property
    def best(self) -> TransientWindow:
        """Window with the largest 2F; of several, the earliest and shortest."""
        place = jnp.argmax(self.twoF)
        n_tau = self.tau.shape[0]
        t0, tau = self.t0[place // n_tau], self.tau[place % n_tau]
        taper = 0.0 if self.taper is None else self.taper
        return TransientWindow(self.shape, t0, tau, end=end_of(self.shape, self.end), taper=taper)

    def log10_bayes_factor(self, rho_max: float = 1.0) -> jax.Array:
        """Return log10 B_tS/G, () float64: odds of a transient signal against noise, marginalised over t0 and tau.

        B = 70/rho_max^4 times the mean of exp(F) over the map, with equal prior probabilities of its windows and
        amplitudes up to a signal-to-noise ratio of rho_max (Prix, Giampanis & Messenger 2011, Phys. Rev. D 84, 023007).
        LALSuite's logBstat is its natural logarithm for rho_max = 1, the default; other values shift all log10 B by
        -4 log10(rho_max).

        Raises
        ------
        ValueError
            If `rho_max` is not positive.
        """
        require_x64()
        rho_max = positive_number(rho_max, "rho_max", RHO_MAX)
        return log10_bayes(jax.scipy.special.logsumexp(0.5 * self.twoF) - np.log(self.twoF.size), rho_max)

    @property
    def posterior(self) -> jax.Array:
        """Posterior probabilities of the windows, (n, m) float64, proportional to exp(F), whose sum is 1."""
        return jax.nn.softmax(0.5 * self.twoF.reshape(-1)).reshape(self.twoF.shape)

    @property
    def posterior_t0(self) -> jax.Array:
        """Posterior probabilities of the start times, (n,) float64."""
        return jnp.sum(self.posterior, axis=1)

    @property
    def posterior_tau(self) -> jax.Array:
        """Posterior probabilities of the time scales, (m,) float64."""
        return jnp.sum(self.posterior, axis=0)

    def _facts(self) -> Facts:
        name = self.shape if isinstance(self.shape, str) else getattr(self.shape, "__name__", "own")
        title = f"TransientMap: {' x '.join(map(str, np.shape(self.twoF)))} windows, {name}"
        if not is_known(self.twoF, self.t0, self.tau):
            return Facts(title, [])
        rows = [("t0", f"GPS {value_range(self.t0)}"), ("tau", value_range(self.tau, "s"))]
        rows += [] if self.taper is None else [("taper", value_range(self.taper, "s"))]
        return Facts(title, [*rows, ("twoF", value_range(self.twoF)), ("memory", memory(self))], many=True)


def log10_bayes(log_mean: ArrayLike, rho_max: float) -> Any:
    """Return log10 B_tS/G from the logarithm of the mean of exp(F) over windows."""
    return (np.log(70.0) - 4 * np.log(rho_max) + log_mean) / np.log(10.0)


@dataclass(frozen=True, init=False, repr=False, eq=False)
class TransientRange(Displayed):
    """Start times and time scales of a transient signal over which a search marginalises and maximises.

    Parameters
    ----------
    shape, end
        Shape and end of the windows, see `TransientWindow`.
    t0 : (n,) array
        Start times, GPS s.
    tau : (m,) array or Quantity
        Time scales, s, positive.
    duration : float or Quantity, optional
        Duration of the atoms, s, see `jfstat.atoms`; 1800 s by default. Windows that begin and end with slices lose
        nothing, while others lose part of the slices at their ends.
    rho_max : float
        See `TransientMap.log10_bayes_factor`.

    Raises
    ------
    TypeError
        If `shape` is neither a name nor a function.
    ValueError
        If an argument is out of range.
    """

    shape: Shape
    t0: jax.Array
    tau: jax.Array
    end: float
    duration: float
    rho_max: float

    def __init__(
        self,
        shape: Shape,
        t0: NumberLike,
        tau: DurationLike,
        *,
        end: float | None = None,
        duration: DurationLike = USUAL_DURATION,
        rho_max: float = 1.0,
    ):
        shape, last = shape_and_end(shape, end)
        starts, scales = checked_times(t0, tau)
        length = positive_seconds(duration, "duration")
        largest = positive_number(rho_max, "rho_max", RHO_MAX)
        values = dict(shape=shape, t0=starts, tau=scales, end=last, duration=length, rho_max=largest)
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _facts(self) -> Facts:
        times = [(name, f"{np.size(x)} from {value_range(x, 's')}") for name, x in (("t0", self.t0), ("tau", self.tau))]
        return Facts("TransientRange", [("shape", brief(self.shape)), *times])


@public(point=template_of_any, window=kinds.instance(TransientWindow))
def transient_twoF(data: FstatData | NarrowData | Atoms, point: Doppler | None, window: TransientWindow) -> jax.Array:
    """Compute 2F at one template of a transient signal with a given window.

    This is the matched filter for a signal whose amplitude is multiplied by the window: Fa = sum of g x a exp(-2 pi i
    phase), A = sum of g^2 a^2, and B, C, Fb alike (Prix, Giampanis & Messenger 2011, Phys. Rev. D 84, 023007). In noise
    it is chi^2 with 4 degrees of freedom for any window. Works under jit, vmap and grad in `point`, ``window.t0``,
    ``window.tau`` and ``window.taper``; of prepared data, `data` may be traced too.

    Parameters
    ----------
    data : FstatData, NarrowData or Atoms
        Prepared data are weighted sample by sample. For atoms the window is its mean over each slice, which neglects
        its variation within slices, at a loss of some (duration/tau)^2/12 of rho^2 for an exponential one; narrow data
        are taken as atoms, see `jfstat.atoms`. In each case 2F is continuous in t0 and tau, with kinks where a sharp
        end of the window crosses a sample or slice; its first two derivatives are continuous for tapered windows.
    point : Doppler, Row or None
        One template, scalar fields, or a row of a table, whose own window is not used; None for atoms, which have
        a template already.
    window : TransientWindow
        One window.

    Returns
    -------
    () float64
        4 if the window holds too few data for the antenna matrix to be invertible.

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        As `twoF`; if `window` is a stack; or if `point` is given with atoms.

    Examples
    --------
    >>> window = jfstat.TransientWindow('rectangular', t0=start, tau=21600)
    >>> round(float(jfstat.transient_twoF(data, point, window)))
    54
    """
    if np.ndim(window.t0):
        raise ValueError(f"window has shape {np.shape(window.t0)}, but one is wanted: use jax.vmap for a stack.")
    if isinstance(data, Atoms):
        check_atoms(data)
        if point is not None:
            raise ValueError("point must be None for atoms, which are those of a template already.")
        return _window_twoF(data, window)
    check_data(data, or_narrow=True)
    if point is None:
        raise ValueError("point is missing: only atoms have a template of their own.")
    if isinstance(data, NarrowData):
        return _window_twoF(atoms(data, point), window)
    check_point(data, point)
    refuse_windowed(data.observation)
    return _prepared_twoF(data.for_one_template, point, window)


@jax.jit
def _window_twoF(own: Atoms, window: TransientWindow) -> jax.Array:
    weight = window.mean(own.start, own.end, own.epoch)
    fa, fb = (jnp.sum(x, axis=0) @ weight.astype(x.dtype) for x in (own.Fa, own.Fb))
    return two_f(fa, fb, AntennaMatrix(*(jnp.sum(x, axis=0) @ weight**2 for x in (own.A, own.B, own.C))))


@jax.jit
def _prepared_twoF(data: FstatData, point: Doppler, window: TransientWindow) -> jax.Array:
    observation, band = data.observation, data.band
    source = observation.source(point)
    block = data.layout.block_of(point.orbit is not None)
    t = band.start + band.dt * jnp.arange(data.series.shape[-1], dtype=jnp.float64)
    weight = window.mean(t - 0.5 * band.dt, t + 0.5 * band.dt, observation.epoch)
    start, end = (x - observation.epoch.astype(jnp.float64) for x in (window.t0, window.t1))
    sharp = window.taper is None
    x, node_weights = np.polynomial.legendre.leggauss(PATTERN_NODES if sharp else TAPER_NODES)

    def one(detector: tuple[jax.Array, Trajectory, jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, ...]:
        series, trajectory, response, sft_start, sft_weight = detector
        fa, fb = detector_sums(band, block, source, series, trajectory, response, weight=weight)
        first, last = start, end
        if not sharp:  # each SFT has nodes in each part of the window
            breaks = window.breaks - observation.epoch.astype(jnp.float64)
            first, last = (jnp.tile(x, len(sft_start)) for x in (breaks[:-1], breaks[1:]))
            sft_start, sft_weight = (jnp.repeat(x, len(breaks) - 1) for x in (sft_start, sft_weight))
        low = jnp.clip(sft_start, first, last)
        length = jnp.clip(sft_start + observation.tsft, first, last) - low
        time = low[:, None] + 0.5 * length[:, None] * jnp.asarray(1 + x)[None]
        since = (time - start) / window.tau
        value = shape_value(window.shape, since) if sharp else window.value(time, observation.epoch)
        share = (sft_weight * length / observation.tsft)[:, None] * jnp.asarray(0.5 * node_weights)[None] * value**2
        a, b = source.patterns(response, trajectory.sidereal(time))
        return fa, fb, jnp.sum(share * a * a), jnp.sum(share * b * b), jnp.sum(share * a * b)

    fits = nan_unless_fit(data, point)
    each = (data.series, observation.trajectory, observation.response, observation.start, observation.weight)
    fa, fb, A, B, C = (jnp.sum(x) for x in jax.lax.map(one, each))
    return two_f(fa, fb, AntennaMatrix(A, B, C)) * fits


@public
def transient_map(
    atoms: Atoms, window: Shape | TransientWindow, t0: NumberLike, tau: DurationLike, *, end: float | None = None
) -> TransientMap:
    """Compute 2F of transient signals over start times and time scales, at the template of the atoms.

    Each value equals `transient_twoF` of the atoms. LALSuite's XLALComputeTransientFstatMap rounds t0 and the
    ends of windows to whole atoms; here slices that a window covers in part count by their mean. Sums over rectangular
    windows are differences of prefix sums, sums over exponential ones follow from one pass over the slices for each
    tau; any other shape takes a product of matrices for each tau. Pure: works under jit, vmap over atoms, and grad.

    Parameters
    ----------
    atoms : Atoms
    window : str, callable or TransientWindow
        Shape of the windows: ``"rectangular"``, ``"exponential"``, or a function of (t - t0)/tau; see
        `TransientWindow`. The shape and the taper of a given window are taken, and its t0 and tau are ignored. Windows
        with a taper take a product of matrices for each tau, whatever their shape.
    t0 : (n,) array
        Start times, GPS s.
    tau : (m,) array or Quantity
        Time scales, s. Windows need some hours of data or two detectors: 2F is 4 where the antenna matrix cannot be
        inverted. Times at equal steps are fastest if the steps of t0 and tau are in a ratio of small numbers.
    end : float, optional
        Where a function ends, in units of tau; 1 by default.

    Returns
    -------
    TransientMap

    Raises
    ------
    TypeError
        If `atoms` or `window` is of another kind.
    ValueError
        If `t0` or `tau` is no sequence of numbers, some tau is not positive, no window is within the data (traced times
        are not checked), or windows are shorter than their tapers or have several.
    """
    check_atoms(atoms)
    taper = None
    if isinstance(window, TransientWindow):
        if end is not None:
            raise ValueError("end goes with a function: a TransientWindow has its own.")
        shape, last, taper = window.shape, window.end, window.taper
    else:
        shape, last = shape_and_end(window, end, "window")
    starts, scales = checked_times(t0, tau)
    if taper is not None:
        if taper.ndim:
            raise ValueError(f"window has tapers of shape {taper.shape}, but a map has one: take one of the stack.")
        if not is_traced(taper):
            least = float(taper) / last * (1 - 1e-12)
            require(scales, "tau", lambda x: x >= least, f"at least {least:g} s, so that windows hold their tapers",
                    "lengthen it or shorten the taper")  # fmt: skip
    if not any_traced(atoms.start, atoms.end, atoms.epoch, starts, scales, taper):
        epoch = int(atoms.epoch)
        ends = epoch + float(np.asarray(atoms.start).min()), epoch + float(np.asarray(atoms.end).max())
        check_within("t0", ends, starts, scales, last, 0.0 if taper is None else float(taper))
    windows = Windows(starts, scales, shape, last, taper=taper)
    return compiled_map(atoms, windows.on(atoms.start, atoms.end, atoms.epoch))


def check_within(
    name: str, ends: tuple[float, float], t0: ArrayLike, tau: ArrayLike, end: float, taper: float = 0.0
) -> None:
    """Raise a ValueError, which begins with a name, if no window overlaps the time from one end to the other, GPS s."""
    (first, last), starts, longest = ends, np.asarray(t0), end * float(np.asarray(tau).max()) + 0.5 * taper
    if not np.any((starts - 0.5 * taper < last) & (starts + longest > first)):
        raise ValueError(
            f"{name} has no window within the data, from GPS {first:.0f} to {last:.0f} s: choose other t0 and tau."
        )


def checked_times(t0: NumberLike, tau: DurationLike) -> tuple[jax.Array, jax.Array]:
    """Return start times and time scales as arrays, (n,) and (m,) float64.

    Raises
    ------
    ValueError
        If one is no sequence of numbers, not finite, or some time scale not positive.
    """
    # what is of the right kind already need not go to the device twice
    starts: Any = t0 if _is_plain(t0) else precise(getattr(t0, "gps", t0), "t0", "s")
    scales: Any = tau if _is_plain(tau) else as_float64(tau, "tau", "s")
    for name, x in (("t0", starts), ("tau", scales)):
        if x.ndim != 1 or not x.shape[0]:
            raise ValueError(f"{name} must be a sequence of times, not of shape {x.shape}: put one in brackets.")
        require(x, name, np.isfinite, "finite", "give it in s")
    require(scales, "tau", lambda x: x > 0, "positive", "give it in s")
    return starts, scales


def _is_plain(x: object) -> bool:
    """Return whether a value is a float64 NumPy array, not of a subclass."""
    return type(x) is np.ndarray and x.dtype == np.float64


class Grid(NamedTuple):
    """Properties of a map's windows that are known beforehand and save work.

    Attributes
    ----------
    ends : (int, int) or None
        Common steps from `common_ends`: terms that depend on the end of a window are then computed once for each
        different end.
    one_slice : bool
        Whether a window may lie within one slice.
    """

    ends: tuple[int, int] | None
    one_slice: bool


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Windows:
    """Windows of a map: every start time with every time scale.

    Attributes
    ----------
    t0, tau : (n,), (m,) float64
        Start times, GPS s, and time scales, s.
    shape, end
        Shape and end of the windows, see `TransientWindow`.
    grid : Grid
    taper : () float64 or None
        Width of the tapers, s; None for sharp edges.
    """

    t0: jax.Array
    tau: jax.Array
    shape: Shape = field(metadata=dict(static=True))
    end: float = field(metadata=dict(static=True))
    grid: Grid = field(default=Grid(None, True), metadata=dict(static=True))
    taper: jax.Array | None = None

    def on(self, start: ArrayLike, end: ArrayLike, epoch: ArrayLike) -> Windows:
        """Return these windows with their grid, if known, for slices from `start` to `end`, s since the epoch.

        The grid is known for sharp rectangular windows whose times are not traced.
        """
        if self.shape != "rectangular" or self.taper is not None or any_traced(self.t0, self.tau):
            return self
        t0, length = np.asarray(self.t0), self.end * np.asarray(self.tau)
        ends = common_ends(t0, length)
        if any_traced(start, end, epoch):
            return replace(self, grid=Grid(ends, True))
        first, last, origin = np.asarray(start), np.asarray(end)[-1], int(np.asarray(epoch))
        shortest, longest = length.min(), max((first[1:] - first[:-1]).max(initial=0.0), last - first[-1])
        early = t0.min() - origin + shortest < (first[1] if len(first) > 1 else last)
        outside = early or t0.max() - origin >= first[-1]
        return replace(self, grid=Grid(ends, bool(outside or shortest <= longest)))


def common_ends(t0: np.ndarray, length: np.ndarray) -> tuple[int, int] | None:
    """Return the steps of t0 and of window length in units of a common step, if windows end at few different times.

    The result is None if they do not.
    """
    n, m = len(t0), len(length)
    steps = []
    for x in (t0, length):
        step = float(x[-1] - x[0]) / max(len(x) - 1, 1)
        if not step > 0 or np.abs(x - x[0] - step * np.arange(len(x))).max() > 1e-6:
            return None
        steps.append(step)
    ratio = Fraction(steps[0] / steps[1]).limit_denominator(MOST_MULTIPLES)
    p, q = ratio.numerator, ratio.denominator
    if not 0 < p <= MOST_MULTIPLES or abs(steps[0] * q - steps[1] * p) * max(n, m) > 1e-6:
        return None
    return (p, q) if p * n + q * m < n * m else None


@jax.jit
def compiled_map(atoms: Atoms, windows: Windows) -> TransientMap:
    """Compute `transient_map` without checks."""
    t0, tau, shape, end = windows.t0, windows.tau, windows.shape, windows.end
    since = t0 - atoms.epoch.astype(jnp.float64)
    if windows.taper is None:
        sums = window_sums(atoms, _totals(atoms), since, tau, shape, end, windows.grid)
    else:
        sums = _any_shape(atoms, _totals(atoms), since, tau, shape, end, windows.taper)
    fa_re, fa_im, fb_re, fb_im, A, B, C = sums
    cross = fa_re * fb_re + fa_im * fb_im
    twoF = two_f_of_powers(fa_re**2 + fa_im**2, fb_re**2 + fb_im**2, cross, AntennaMatrix(A, B, C))
    return TransientMap(twoF, t0, tau, shape, end, windows.taper)


def window_sums(
    atoms: Atoms, rows: jax.Array, since: jax.Array, tau: jax.Array, shape: Shape, end: float, grid: Grid
) -> list[jax.Array]:
    """Compute sums over the windows, (n, m) float64 for each of seven rows.

    Parameters
    ----------
    atoms : Atoms
        Atoms whose slices are summed over.
    rows : (7, K) float64
        Rows to sum: four that are multiplied by the window, and three by its square, such as the real and
        imaginary parts of Fa and Fb, and A, B, C.
    since, tau : (n,), (m,) float64
        Start times, s since the epoch, and time scales, s.
    shape, end, grid
    """
    if shape == "rectangular":
        return _rectangular(atoms, rows, since, end * tau, grid)
    if shape == "exponential":
        return _exponential(atoms, rows, since, tau, end)
    return _any_shape(atoms, rows, since, tau, shape, end)


def _totals(atoms: Atoms) -> jax.Array:
    """Return real and imaginary parts of Fa and Fb, and A, B, C, summed over detectors: (ALL, K) float64."""
    fa, fb = (jnp.sum(x, axis=0) for x in (atoms.Fa, atoms.Fb))
    return jnp.stack([fa.real, fa.imag, fb.real, fb.imag, *(jnp.sum(x, axis=0) for x in (atoms.A, atoms.B, atoms.C))])


def _located(start: jax.Array, stop: jax.Array, t: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the slice that each time lies in and the fraction of it before the time; times are clipped to the data."""
    last = start.shape[0] - 1
    # a loop takes each of its steps to the host on other devices than CPUs
    after = partial(jnp.searchsorted, side="right")
    next_one = jax.lax.platform_dependent(start, t, cpu=after, default=partial(after, method="scan_unrolled"))
    k = jnp.clip(next_one - 1, 0, last)
    length = stop[k] - start[k]
    there = length > 0
    return k, jnp.clip((t - start[k]) / jnp.where(there, length, 1.0), 0.0, 1.0)


def _rectangular(atoms: Atoms, rows: jax.Array, t0: jax.Array, length: jax.Array, grid: Grid) -> list[jax.Array]:
    """Return sums over rectangular windows from prefix sums, (n, m) float64 for each of the rows.

    A window is the difference of the sums up to its two ends. These come first, in a loop or behind a barrier, because
    XLA would compute them for each window otherwise. A slice covered in part counts by the square of the window's mean
    in A, B and C.
    """
    n, m = t0.shape[0], length.shape[0]
    if grid.ends is None:
        ends, index = (t0[:, None] + length[None]).reshape(-1), None
    else:
        p, q = grid.ends
        step = (length[-1] - length[0]) / max(q * (m - 1), 1)
        ends = t0[0] + length[0] + step * jnp.arange(p * (n - 1) + q * (m - 1) + 1, dtype=jnp.float64)
        index = p * jnp.arange(n, dtype=jnp.int32)[:, None] + q * jnp.arange(m, dtype=jnp.int32)[None]
    k, f = _located(atoms.start, atoms.end, jnp.concatenate([t0, ends]))
    is_end = np.arange(n + ends.shape[0]) >= n
    # a window holds the rest of the slice that it starts in: all of this slice is summed, and the rest taken off again
    whole, part = jnp.where(is_end, k, k + 1), jnp.where(is_end, f, f - 1)
    prefix = jnp.concatenate([jnp.zeros((ALL, 1)), jnp.cumsum(rows, axis=1)], axis=1)

    def up_to(row: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        x, before, squared = row
        return before[whole] + jnp.where(squared, part * jnp.abs(part), part) * x[k]

    def at_end(x: jax.Array) -> jax.Array:
        return x[n:].reshape(n, m) if index is None else x[n:].at[index].get(mode="promise_in_bounds")

    def row_by_row(x: jax.Array, before: jax.Array, squared: jax.Array) -> jax.Array:
        return jax.lax.map(up_to, (x, before, squared))

    def together(x: jax.Array, before: jax.Array, squared: jax.Array) -> jax.Array:
        return jax.lax.optimization_barrier(jax.vmap(up_to)((x, before, squared)))

    # a loop takes each of its steps to the host on other devices than CPUs
    each = jax.lax.platform_dependent(rows, prefix, jnp.arange(ALL) >= LINEAR, cpu=row_by_row, default=together)
    sums = [at_end(x) - x[:n, None] for x in each]
    if not grid.one_slice:
        return sums
    k0, f0 = k[:n, None], f[:n, None]
    inside, share = at_end(k) == k0, (at_end(f) - f0) ** 2
    return sums[:LINEAR] + [jnp.where(inside, share * rows[i][k0], sums[i]) for i in range(LINEAR, ALL)]


def _exponential(atoms: Atoms, rows: jax.Array, t0: jax.Array, tau: jax.Array, end: float) -> list[jax.Array]:
    """Return sums over exponential windows, (n, m) float64 for each of the rows."""
    # GPUs are bound by memory: there sums are stored for fewer slices
    cpu, other = partial(_by_blocks, end, 1, _one_by_one), partial(_by_blocks, end, BLOCK, _in_pairs)
    return jax.lax.platform_dependent(atoms.start, atoms.end, rows, t0, tau, cpu=cpu, default=other)


def _by_blocks(
    end: float,
    size: int,
    scan: Callable[[tuple[jax.Array, ...], jax.Array, jax.Array], tuple[jax.Array, ...]],
    start: jax.Array,
    stop: jax.Array,
    rows: jax.Array,
    t0: jax.Array,
    tau: jax.Array,
) -> list[jax.Array]:
    """Compute sums over exponential windows from sums over all slices from each block on, which `scan` makes.

    The sum from a block on, with weights that decay from the block's start, follows from the sum from the next block
    on. A window is the difference of two of them, the second of which is smaller by the factor that the window has
    decayed by: no digits are lost. The slices of the blocks at its ends count by their own means.
    """
    b0 = _located(start, stop, t0)[0][:, None] // size
    b1 = _located(start, stop, t0[:, None] + (end * tau)[None])[0] // size
    padding = -start.shape[0] % size
    start, stop = (jnp.append(x, jnp.full(padding, stop[-1])).reshape(-1, size) for x in (start, stop))
    blocks = jnp.pad(rows, ((0, 0), (0, padding))).reshape(ALL, -1, size)
    first = jnp.append(start[:, 0], stop[-1, -1])
    # exponentials are computed once, not for each of the rows
    mean = window_mean(
        "exponential", jnp.inf, *((x - start[:, :1])[..., None] / tau[None, None] for x in (start, stop))
    )
    decay = jnp.exp(-jnp.diff(first)[:, None] / tau[None])
    onwards = scan(tuple(jnp.moveaxis(x, 0, 2) for x in (blocks[:LINEAR], blocks[LINEAR:])), mean, decay)
    # stored in memory: XLA would compute the last sums again for each window
    linear, quadratic = jax.lax.optimization_barrier(tuple(jnp.pad(x, ((0, 1), (0, 0), (0, 0))) for x in onwards))

    def means(b: jax.Array) -> list[jax.Array]:
        times = [[(x[b, j] - t0[:, None]) / tau[None] for x in (start, stop)] for j in range(size)]
        return [window_mean("exponential", end, *ends) for ends in times]

    apart = b1 > b0  # a window within one block has this block's slices once
    decays = [jnp.exp(-jnp.where(apart, (first[b] - t0[:, None]) / tau[None], 0.0)) for b in (b0 + 1, b1)]
    # without data between the blocks at its ends the difference of two sums is a rounding error
    held = jnp.cumsum(jnp.any(blocks != 0, axis=(0, 2)), dtype=jnp.int32)
    some = held[jnp.maximum(b1 - 1, 0)] > held[jnp.minimum(b0, len(held) - 1)]
    decays = [jnp.where(some, x, 0.0) for x in decays]
    # stored too: exponentials are expensive, and XLA would compute them for each of the rows
    weights = jax.lax.optimization_barrier((*means(b0), *(jnp.where(apart, x, 0.0) for x in (*means(b1), *decays))))
    column = jnp.arange(tau.shape[0])
    sums = []
    for i in range(ALL):
        weight = weights if i < LINEAR else tuple(x * x for x in weights)
        beyond = linear[:, i] if i < LINEAR else quadratic[:, i - LINEAR]
        slices = (blocks[i, b, j] for b in (b0, b1) for j in range(size))
        terms = *slices, beyond[b0 + 1, column], -beyond[b1, column]
        sums.append(sum(w * x for w, x in zip(weight, terms, strict=True)))
    return sums


def _one_by_one(rows: tuple[jax.Array, ...], mean: jax.Array, decay: jax.Array) -> tuple[jax.Array, ...]:
    """Return the sums over all slices from each block on, each from the sum of the next block.

    Parameters
    ----------
    rows : tuple
        (B, size, r) float64 for the linear and for the quadratic rows of the slices of each block.
    mean : (B, size, m) float64
        Mean over each slice of a window that starts with the block.
    decay : (B, m) float64
        Decay of the window until the end of the block.

    Returns
    -------
    (B, r, m) float64 for the linear and for the quadratic rows
    """

    def from_here(later: tuple[jax.Array, ...], own: tuple[Any, ...]) -> tuple[tuple[jax.Array, ...], Any]:
        block, g, kept = own
        found = _joined(later, _weighted(block, g), kept)
        return found, found

    last = tuple(jnp.zeros((x.shape[2], mean.shape[2])) for x in rows)
    return jax.lax.scan(from_here, last, (rows, mean, decay), reverse=True)[1]


def _in_pairs(rows: tuple[jax.Array, ...], mean: jax.Array, decay: jax.Array) -> tuple[jax.Array, ...]:
    """Return the sums of `_one_by_one` with more operations in fewer steps, for devices with thousands of threads."""

    def joined(later: tuple[Any, ...], own: tuple[Any, ...]) -> tuple[Any, ...]:
        return _joined(later[0], own[0], own[1]), own[1] * later[1]

    return jax.lax.associative_scan(joined, (_weighted(rows, mean), decay), reverse=True)[0]


def _joined(later: tuple[jax.Array, ...], own: tuple[jax.Array, ...], kept: jax.Array) -> tuple[jax.Array, ...]:
    """Return sums from a slice on, from its own sums and the sums of later slices, times the window's decay."""
    kept = kept[..., None, :]
    return own[0] + kept * later[0], own[1] + kept**2 * later[1]


def _weighted(rows: tuple[jax.Array, ...], mean: jax.Array) -> tuple[jax.Array, ...]:
    """Return weighted sums over the slices of blocks, (..., r, m)."""
    found = []
    for x, power in zip(rows, (1, 2), strict=True):
        first, *others = (x[..., j, :, None] * mean[..., j, None, :] ** power for j in range(mean.shape[-2]))
        found.append(sum(others, first))
    return tuple(found)


def _any_shape(
    atoms: Atoms,
    rows: jax.Array,
    t0: jax.Array,
    tau: jax.Array,
    shape: Shape,
    end: float,
    taper: jax.Array | None = None,
) -> list[jax.Array]:
    """Return sums over windows of any shape, (n, m) float64 for each of the rows; the taper is in s."""

    def one(scale: jax.Array) -> jax.Array:
        low, high = ((x[None] - t0[:, None]) / scale for x in (atoms.start, atoms.end))
        if taper is None:
            weight = window_mean(shape, end, low, high)
        else:
            weight = tapered_mean(shape, end, taper / scale, low, high)
        return jnp.concatenate([rows[:LINEAR] @ weight.T, rows[LINEAR:] @ (weight**2).T])

    return list(jnp.moveaxis(jax.lax.map(one, tau), 0, -1))
