"""Record how each candidate ended, and make the table that `refine` returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from jfstat.candidates.bounds import outside
from jfstat.candidates.lineflags import crossed_lines
from jfstat.candidates.linerobust import bsgl_column
from jfstat.candidates.provenance import Provenance
from jfstat.candidates.tables import AnyTable, carry_over, in_units
from jfstat.data.fstatdata import FstatData
from jfstat.followup.candidates import Candidates, SearchedWith
from jfstat.followup.method import NEWTON, Method
from jfstat.followup.neighbourhood import MANY
from jfstat.maths.newton import CONVERGED, LEFT, NOWHERE, OUT_OF_STEPS, STALLED
from jfstat.signal.templates import Doppler
from jfstat.signal.values import columns as parameter_values
from jfstat.statistic.total import amplitude_columns

if TYPE_CHECKING:
    import jax
    from astropy.table import QTable

CLIMBS, CLIMBS_MANY = 6, 16
"""Number of trial points from which to climb, with few parameters, and with `MANY` or more besides the frequency: there
trial points are further apart, and the highest may belong to other peaks than the signal's."""
NOISE = 1e-3
"""False-alarm probability, over all templates tried, above which the message warns of noise."""
CELLS = 8
"""Number of independent templates counted for each one tried, because a climb covers more than its start.
With this value at most a per cent of candidates in pure noise end without a warning (tests/followup/test_refine.py)."""
CERTAIN = 0.95
"""Fraction of the probability on a peak below which the message mentions other peaks."""
FOREIGN = 0.9
"""Loss of rho^2 between the peak and the candidate above which the message says that they may not belong together: the
neighbourhood is made for losses up to three quarters."""
ENDINGS = {
    STALLED: "not converged: no step gains any more, though the slope is not zero",
    OUT_OF_STEPS: "not converged: too many steps",
    LEFT: "not converged: wandered off without meeting a maximum, or to where there are no templates",
    NOWHERE: "not refined: 2F is not defined at the start",
}


def most_climbs(n_parameters: int) -> int:
    """Return the largest number of trial points from which to climb, for a number of parameters."""
    return CLIMBS if n_parameters <= MANY else CLIMBS_MANY


@dataclass
class Results:
    """Results for n candidates, filled in as they are followed up; NumPy arrays.

    Attributes
    ----------
    points : Doppler
        Stack of the given templates, later of the refined ones.
    names : tuple of p str
        Names of the parameters to refine.
    open : (n,) bool
        Whether the candidate is still to be followed up.
    messages : list of n str
    covariance, spread : (n, p, p) float64
        As in `Peak`.
    rivals : (n, c, p) float64
        As in `Peak`.
    twoF, start_twoF, noise_chance, peak_probability, moved : (n,) float64
        Values at the peak and the start as in `PeakValues`; all 2F are sums over segments.
    start_mismatch : (n,) float64
        Loss of rho^2 between the peak and the candidate, 0 to 1; see `mismatch`.
    twoF_per_detector : (n, D) float64
    amplitudes : (n, a) float64
        See `amplitude_columns`.
    steps, tried : (n,) int64
        Numbers of gradients and of trial points, over all rounds.
    covered : (n,) float64
        See `Neighbourhood.trial_points`.
    converged : (n,) bool
    """

    points: Doppler
    names: tuple[str, ...]
    open: np.ndarray
    messages: list[str]
    covariance: np.ndarray
    spread: np.ndarray
    rivals: np.ndarray
    twoF: np.ndarray
    start_twoF: np.ndarray
    start_mismatch: np.ndarray
    noise_chance: np.ndarray
    peak_probability: np.ndarray
    moved: np.ndarray
    twoF_per_detector: np.ndarray
    amplitudes: np.ndarray
    steps: np.ndarray
    tried: np.ndarray
    covered: np.ndarray
    converged: np.ndarray

    @classmethod
    def blank(
        cls, candidates: Candidates, names: tuple[str, ...], n_detectors: int, n_segments: int | None = None
    ) -> Results:
        """Return the results before any climb; candidates with problems are closed."""
        n, p = len(candidates.problems), len(names)
        return cls(
            points=candidates.points,
            names=names,
            open=np.array([not problem for problem in candidates.problems], bool),
            messages=list(candidates.problems),
            covariance=np.full((n, p, p), np.nan),
            spread=np.full((n, p, p), np.nan),
            rivals=np.full((n, most_climbs(p), p), np.nan),
            twoF=np.full(n, np.nan),
            start_twoF=np.full(n, np.nan),
            start_mismatch=np.full(n, np.nan),
            noise_chance=np.full(n, np.nan),
            peak_probability=np.full(n, np.nan),
            moved=np.zeros(n),
            twoF_per_detector=np.full((n, n_detectors), np.nan),
            amplitudes=np.full((n, len(amplitude_columns(n_segments))), np.nan),
            steps=np.zeros(n, int),
            tried=np.zeros(n, int),
            covered=np.ones(n),
            converged=np.zeros(n, bool),
        )

    def compare_with(self, start_mismatch: np.ndarray, wide: bool) -> None:
        """Record how much of a signal at each peak its candidate lost, and which candidates hardly show it, unless the
        region of the peaks was so `wide` that this is no surprise."""
        self.start_mismatch[:] = start_mismatch
        for row in np.flatnonzero(self.converged & (start_mismatch > FOREIGN) & (not wide)):
            shown = 1 - start_mismatch[row]
            self.messages[row] += f"; it may be another signal, of which the candidate shows {shown:.2g}"

    def close(self, row: int | np.integer, message: str) -> None:
        """Record that a candidate ended without a peak, and why."""
        self.open[row] = self.converged[row] = False
        self.noise_chance[row] = self.peak_probability[row] = np.nan
        self.messages[row] = message


class Rivals(NamedTuple):
    """Other peaks near a candidate's.

    Attributes
    ----------
    share : float
        Probability of the candidate's peak among the climbed ones; see `Peak`.
    freq, twoF : float
        Frequency, Hz, and value of the highest 2F elsewhere; see `PeakValues`.
    shrinkage : float
        Factor that multiplies 2F in probabilities; see `PeakValues`.
    """

    share: float = 1.0
    freq: float = np.nan
    twoF: float = -np.inf
    shrinkage: float = 1.0

    def peak_probability(self, twoF: float) -> float:
        """Return the probability that a signal lies on a peak of a given 2F rather than on one of these others."""
        return float(1 / (1 / self.share + np.exp(min(0.5 * self.shrinkage * (self.twoF - twoF), 700.0))))


NO_RIVALS = Rivals()


def ending(
    status: int,
    twoF: float,
    chance: float,
    has_errors: bool,
    rivals: Rivals = NO_RIVALS,
    held: Sequence[str] = (),
    n_segments: int | None = None,
) -> str:
    """Return a sentence on how a candidate ended.

    Parameters
    ----------
    status : int
        See `Maximum`.
    twoF : float
        2F at the peak, summed over segments.
    chance : float
        False-alarm probability, from `jfstat.candidates.falsealarm.false_alarm`.
    has_errors : bool
    rivals : Rivals
    held : sequence of str
        Names of the parameters at their bounds.
    n_segments : int, optional
        Number of segments, if the data have any: the sentence then names the mean of 2F.
    """
    if status != CONVERGED:
        return ENDINGS[status]
    what = "2F" if n_segments is None else "mean 2F"
    other = f"{rivals.twoF:.1f}" if n_segments is None else f"{rivals.twoF / n_segments:.3f}"
    sentence = "converged"
    if held:
        sentence += f", with {' and '.join(held)} at the bound"
    if chance > NOISE:
        sentence += f", but noise alone reaches this {what} with a chance of {chance:.2g}"
    if rivals.twoF >= twoF:
        sentence += f", but not to the highest peak nearby: {what} is {other} at {rivals.freq:.8f} Hz"
    elif rivals.peak_probability(twoF) < CERTAIN * rivals.share:
        sentence += f"; {what} is almost as high, {other}, at {rivals.freq:.8f} Hz"
    if rivals.share < CERTAIN:
        sentence += f"; other peaks nearby hold {1 - rivals.share:.2g} of the probability, and the errors reach them"
    if chance <= NOISE and not has_errors:
        sentence += f"; {what} is too flat for error bars"
    return sentence


def results_table(
    data: FstatData,
    found: AnyTable | Doppler,
    candidates: Candidates,
    results: Results,
    names: tuple[str, ...],
    searched: SearchedWith,
    lines: QTable | None = None,
    method: Method = NEWTON,
) -> QTable:
    """Return the table of `refine`, with the columns of `found` that do not depend on the template."""
    columns: dict[str, np.ndarray] = {}
    kept = np.isnan(results.twoF)  # not refined: parameters stay as given
    refined = parameter_values(results.points)
    errors = np.sqrt(np.diagonal(results.covariance, axis1=1, axis2=2))
    for name, value in refined.items():
        x = np.where(kept | _irrelevant(results, name), candidates.given[name], value)
        columns[name] = np.where(kept, x, np.mod(np.where(kept, 0.0, x), 2 * np.pi)) if name == "alpha" else x
    columns |= {f"{name}_error": errors[:, i] for i, name in enumerate(names)}
    loud = "twoF" if data.n_segments is None else "mean_twoF"
    n_segments = data.n_segments or 1
    columns[loud] = results.twoF / n_segments
    # each detector's mean is over the segments in which it has data
    weight = np.asarray(data.observation.weight).reshape(n_segments, len(data.detectors), -1)
    counts = np.maximum(np.any(weight > 0, axis=-1).sum(axis=0), 1)
    columns |= {f"{loud}_{x}": results.twoF_per_detector[:, d] / counts[d] for d, x in enumerate(data.detectors)}
    columns |= bsgl_column(results.twoF, results.twoF_per_detector, searched.line_prior)
    columns |= dict(zip(amplitude_columns(data.n_segments), results.amplitudes.T, strict=True))
    columns |= {f"start_{loud}": results.start_twoF / n_segments, "start_mismatch": results.start_mismatch}
    columns |= {"noise_chance": results.noise_chance}
    columns |= {"peak_probability": results.peak_probability, "moved": results.moved}
    columns |= {"steps": results.steps, "converged": results.converged}
    columns |= {"message": np.array(results.messages, dtype=str), "covariance": results.covariance}
    if searched.bounds:
        columns["outside"] = outside(columns, searched.bounds)
    if lines is not None:
        columns["line"] = _lines_of(data, candidates, results, lines)
    origin = Provenance.from_observation(data.observation, candidates.reftime, names, of_sfts=False)
    meta = origin.meta | {
        **({} if searched.n_twoF is None else {"n_twoF": searched.n_twoF}),
        **searched.line_prior.meta,
        "bounds": {name: list(pair) for name, pair in searched.bounds.items()},
        "optimizer": method.name,
        "max_steps": method.max_steps,
    }
    own = getattr(found, "meta", {})
    meta |= {name: own[name] for name in ("lines", "veto_lines") if name in own}
    table = in_units(columns, meta)
    if not isinstance(found, Doppler):
        carry_over(table, found)
    return table


def _lines_of(data: FstatData, candidates: Candidates, results: Results, lines: QTable) -> np.ndarray:
    """Return the column ``line``; empty for candidates that are no possible templates."""
    sound = np.flatnonzero([not problem for problem in candidates.problems])
    points = jax.tree.map(lambda x: np.asarray(x)[sound] if np.ndim(x) else np.asarray(x), results.points)
    crossed = np.full(len(candidates.problems), "", dtype=object)
    crossed[sound] = crossed_lines(data.observation, points, lines)
    return crossed.astype(str)


def _irrelevant(results: Results, name: str) -> np.ndarray | jax.Array | bool:
    """Return where a column describes the orbit of an isolated candidate."""
    orbit = results.points.orbit
    return orbit.asini == 0 if orbit is not None and hasattr(orbit, name) else False
