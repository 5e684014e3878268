"""Compute false-alarm probabilities and thresholds from a measured background: `empirical_false_alarm`,
`empirical_thresholds`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from jfstat import kinds
from jfstat.candidates.provenance import other_floors
from jfstat.candidates.tables import in_units, plain_column
from jfstat.maths.gumbel import Maximum, Scale, is_gumbel, log_likelihood
from jfstat.public import host
from jfstat.searching.result import SAME_KIND
from jfstat.searching.statistics import statistic_of
from jfstat.validation import probability

if TYPE_CHECKING:
    from astropy.table import QTable
    from numpy.typing import ArrayLike

    from jfstat.candidates.tables import AnyTable

OWN_SCALE = 5.41
"""Half of a difference that chi-squared with one degree of freedom exceeds in one of a thousand cases."""
CREDIBILITY = 0.9
"""Probability of the intervals that are given."""
COMMON, OWN, RANK = "common", "own", "rank"
SAME_SEARCH = (*SAME_KIND, "fmin", "fmax", "n_templates")
"""Keys of meta in which a search and its background agree."""
SAME_PRIOR = ("Fstar0", "oLGX")
"""Keys in which they agree if the statistic is one with a prior of lines."""
SAME_TEMPLATE = 1e-9
"""Largest difference of a candidate's parameter from the bank's range, relative to its largest value."""


@host(found=kinds.table, background=kinds.table)
def empirical_false_alarm(found: AnyTable, background: AnyTable) -> QTable:
    """Add to each candidate the probability that noise alone is as loud, by the measured background of its search.

    Let p be the probability that the loudest value of the candidate's sub-band is as loud. The column has the
    probability that any sub-band of the whole search has a p as small, so that a line concerns the candidates of its
    own sub-band only. p comes from the maxima of this sub-band at the positions of the background. They have a Gumbel
    distribution where the noise is Gaussian, and often where it is not; p is then predicted from them with all that
    they leave open, its location and scale, so that among searches of noise as many are as loud as it says
    (`jfstat.maths.gumbel`). As for distromax (Tenorio, Modafferi, Keitel & Sintes 2022, Phys. Rev. D 105, 044029), p
    may be much smaller than one over the number of positions. The column ``background`` says how:

    - ``common``: sub-bands whose maxima have one scale in common, as in noise without lines; each has its own location;
    - ``own``: the maxima have a Gumbel distribution of another scale;
    - ``rank``: they have none, as may be where there is a line. Nothing is extrapolated: p is (k + 1)/(K + 1) if k of K
      positions are as loud, so that it is never small.

    With n sub-bands of the first two kinds and none of the third, the search has a p as small with the probability 1 -
    (1 - p)^n. A sub-band of the third kind can only have the values 1/(K + 1), 2/(K + 1) and so on, and counts with the
    largest of them that is no larger than p (Tarone 1990, Biometrics 46, 515): not at all for p below 1/(K + 1).

    Cuts on candidates, such as `Keep.bsgl_threshold` or a veto, are not made on the background: of what passes them
    the probability is an upper bound.

    Parameters
    ----------
    found : QTable
        Candidates from `search`, or from `merge`.
    background : QTable
        From `background`, for the same search.

    Returns
    -------
    QTable
        A copy of `found` with ``empirical_false_alarm``; the ends of the interval that holds the true probability with
        a credibility of 90 %, ``empirical_false_alarm_low`` and ``empirical_false_alarm_high``; and ``background``. Far
        beyond the values of the background the interval spans orders of magnitude, and the probability, a mean over
        what the maxima leave open, may lie above it. In meta ``empirical_false_alarm`` is the smallest of all
        candidates, and ``background`` has the numbers of positions, sub-bands, and sub-bands of each kind.

    Raises
    ------
    TypeError
        If an argument is no table.
    ValueError
        If `background` is not from `background`, is of another search as far as its meta shows, or lacks the sub-band
        of a candidate.

    Examples
    --------
    >>> bank = jfstat.Doppler(alpha=2.0, delta=0.47, fkdot=[100.0, -1e-10])
    >>> found = jfstat.search(data, bank, top=3, progress=False)
    >>> measured = jfstat.background(data, bank, positions=10, progress=False)
    >>> judged = jfstat.empirical_false_alarm(found, measured)
    >>> len(judged), str(judged["background"][0])
    (3, 'common')
    """
    from astropy.table import QTable

    column = _loudness(found, "found")
    _check_same(found, background, column)
    subbands = _subbands(background)
    value, freq = plain_column(found, column), plain_column(found, "freq")
    place = np.searchsorted([own.low for own in subbands], freq, side="right") - 1
    inside = [p >= 0 and f <= subbands[p].high for p, f in zip(place, freq, strict=True)]
    if not all(inside):
        outside = float(freq[np.argmin(inside)])
        raise ValueError(
            f"background has no sub-band for the candidate at {outside:.10g} Hz: give the table of the search, before "
            "its candidates are refined."
        )
    alarms, alike = np.zeros((3, len(freq))), Counter(own.ranks for own in subbands)
    for i in np.unique(place):
        own = place == i
        alarms[:, own] = subbands[i].alarms(value[own])
        # the true probability, of which these are limits, may lie between those that ranks can have
        true = alike - Counter([subbands[i].ranks]) + Counter([None])
        alarms[1:, own] = _in_search(alarms[1:, own], true)
    alarms[0] = _in_search(alarms[0], alike)
    judged: Any = QTable(found, copy=True)
    names = (f"empirical_false_alarm{end}" for end in ("", "_low", "_high"))
    for name, x in zip(names, alarms, strict=True):
        judged[name] = x
    judged["background"] = np.array([subbands[i].kind for i in place], dtype="U6")
    judged.meta["background"] = {"positions": background.meta["positions"], "subbands": len(subbands)} | {
        kind: sum(own.kind == kind for own in subbands) for kind in (COMMON, OWN, RANK)
    }
    judged.meta["empirical_false_alarm"] = float(alarms[0].min()) if len(freq) else None
    return judged


@host(background=kinds.table)
def empirical_thresholds(background: AnyTable, false_alarm: float = 0.01) -> QTable:
    """Return, for each sub-band, the value that the loudest of a search in noise exceeds as rarely as asked for.

    Parameters
    ----------
    background : QTable
        From `background`.
    false_alarm : float
        Probability that noise exceeds the threshold of any sub-band in a whole search.

    Returns
    -------
    QTable
        A row for each sub-band: ``fmin`` and ``fmax``, Hz; ``threshold``; ``threshold_error``, the standard deviation
        of the value that is truly exceeded as rarely, given the maxima of the background; and ``background``, see
        `empirical_false_alarm`. Where this is ``rank``, the threshold is one of the maxima if there are positions
        enough for it, and infinite otherwise, without an error (NaN).

    Raises
    ------
    TypeError
        If `background` is no table.
    ValueError
        If it is not from `background`, or `false_alarm` is not between 0 and 1.

    Examples
    --------
    >>> bank = jfstat.Doppler(alpha=2.0, delta=0.47, fkdot=[100.0, -1e-10])
    >>> measured = jfstat.background(data, bank, positions=10, progress=False)
    >>> thresholds = jfstat.empirical_thresholds(measured, 0.05)
    >>> thresholds.colnames
    ['fmin', 'fmax', 'threshold', 'threshold_error', 'background']
    """
    alarm = probability(false_alarm, "false_alarm", "try 0.01")
    subbands = _subbands(background)
    each = _in_subband(alarm, Counter(own.ranks for own in subbands))
    rows = [own.threshold(each) for own in subbands]
    columns = {
        "fmin": np.array([own.low for own in subbands]),
        "fmax": np.array([own.high for own in subbands]),
        "threshold": np.array([threshold for threshold, _ in rows]),
        "threshold_error": np.array([error for _, error in rows]),
        "background": np.array([own.kind for own in subbands], dtype="U6"),
    }
    meta = {"statistic": background.meta["statistic"], "column": _loudness(background, "background")}
    return in_units(columns, meta | {"false_alarm": alarm, "positions": background.meta["positions"]})


@dataclass(frozen=True, eq=False)
class _Subband:
    """Maxima of a sub-band at all positions, and what they say of one more.

    Attributes
    ----------
    low, high : float
        Hz.
    maxima : (K,) float64 ndarray
    kind : str
    maximum : Maximum or None
        None for the kind "rank".
    """

    low: float
    high: float
    maxima: np.ndarray
    kind: str = RANK
    maximum: Maximum | None = None

    @property
    def ranks(self) -> int | None:
        """Number of maxima among which ranks are counted; None if probabilities are extrapolated."""
        return None if self.maximum is not None else len(self.maxima)

    def alarms(self, x: np.ndarray) -> np.ndarray:
        """Return the probability that noise reaches x in this sub-band, and the ends of its interval: (3, n)."""
        if self.maximum is not None:
            return np.stack([self.maximum.exceeded(x), *self.maximum.interval(x, CREDIBILITY)])
        from scipy.stats import beta

        n, tail = len(self.maxima), 0.5 * (1 - CREDIBILITY)
        above = n - np.searchsorted(np.sort(self.maxima), x, side="left")
        # the interval of Clopper & Pearson 1934
        low = np.where(above > 0, beta.ppf(tail, np.maximum(above, 1), n - above + 1), 0.0)
        high = np.where(above < n, beta.ppf(1 - tail, above + 1, np.maximum(n - above, 1)), 1.0)
        return np.stack([(above + 1) / (n + 1), low, high])

    def threshold(self, p: float) -> tuple[float, float]:
        """Return the value that noise exceeds in this sub-band with a probability, and its error."""
        if self.maximum is not None:
            return self.maximum.quantile(p), self.maximum.quantile_error(p)
        n = len(self.maxima)
        above = int(_possible(p, n)) - 1  # as many maxima may be as loud
        return (float(np.sort(self.maxima)[n - 1 - above]), np.nan) if above >= 0 else (np.inf, np.nan)


def _possible(p: ArrayLike, n: int) -> np.ndarray:
    """Return the number of the values 1/(n + 1) to 1 that are p at most, up to rounding."""
    return np.floor(np.asarray(p) * (n + 1) + 1e-9)


def _in_search(p: ArrayLike, alike: Counter[int | None]) -> np.ndarray:
    """Return how often noise gives any sub-band a probability of at most p, (...) from (...), given how many sub-bands
    have the same `ranks`."""
    x = np.asarray(p)
    with np.errstate(divide="ignore"):  # a probability of 1
        none = sum(count * np.log1p(-(x if n is None else _possible(x, n) / (n + 1))) for n, count in alike.items())
    return -np.expm1(none)


def _in_subband(alarm: float, alike: Counter[int | None]) -> float:
    """Return the largest probability that noise gives any sub-band as rarely as asked for, by bisection: `_in_search`
    has steps."""
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _in_search(middle, alike) <= alarm else (low, middle)
    return low


def _subbands(background: AnyTable) -> list[_Subband]:
    """Return the sub-bands of a background, by rising frequency, each with the distribution of its maxima.

    A sub-band has a scale of its own if its maxima are much less likely by the common one: half of the difference of
    their log-likelihoods, each at its best, exceeds what one of a thousand would without a difference.
    """
    column = _loudness(background, "background")
    if "positions" not in background.meta:
        raise ValueError("background has no positions in its meta: give the table of jfstat.background.")
    low, high, value = (plain_column(background, name) for name in ("fmin", "fmax", column))
    order = np.argsort(low, kind="stable")
    edges = np.flatnonzero(np.diff(low[order])) + 1
    parts = np.split(order, edges) if len(order) else []
    found = [_Subband(float(low[own][0]), float(high[own][0]), value[own]) for own in parts]
    regular = [i for i, own in enumerate(found) if np.ptp(own.maxima) > 0 and is_gumbel(own.maxima)]
    if not regular:
        return found
    scales = {i: Scale.of([found[i].maxima]) for i in regular}
    best = {i: float(scale.beta[np.argmax(scale.probability)]) for i, scale in scales.items()}
    centre, usual = float(np.median(list(best.values()))), regular
    for _ in range(2):  # the first common scale is that of the middle sub-band
        usual = [i for i in regular if _gain(found[i].maxima, best[i], centre) < OWN_SCALE] or regular
        common = Scale.of([found[i].maxima for i in usual])
        centre = float(common.beta[np.argmax(common.probability)])
    for i in regular:
        kind, scale = (COMMON, common) if i in usual else (OWN, scales[i])
        found[i] = replace(found[i], kind=kind, maximum=Maximum(found[i].maxima, scale))
    return found


def _gain(maxima: np.ndarray, best: float, centre: float) -> float:
    """Return by how much the log-likelihood of a scale exceeds that of another."""
    first, second = log_likelihood([maxima], np.array([best, centre]))
    return float(first - second)


def _loudness(table: AnyTable, name: str) -> str:
    """Return the name of the column with a table's loudest values."""
    meta = table.meta or {}
    column = statistic_of(meta).loudness(meta)
    if column not in table.colnames:
        raise ValueError(
            f"{name} lacks the column {column!r}, which its statistic maximises: give a table of a search."
        )
    return column


def _check_same(found: AnyTable, background: AnyTable, column: str) -> None:
    """Raise a ValueError if a table is not of the search whose background was measured, as far as it shows."""
    theirs, own = found.meta, background.meta
    if "statistic" not in theirs:
        raise ValueError("found has no statistic in its meta: give the table of a search, before it is refined.")
    keys = SAME_SEARCH + (SAME_PRIOR if column.startswith("log10BSGL") else ())
    differing = next((key for key in keys if theirs.get(key) != own.get(key)), None)
    if differing is not None:
        raise ValueError(
            f"background is of another search: {differing} is {own.get(differing)} there, and {theirs.get(differing)} "
            "in found; give its own."
        )
    if column != (other := _loudness(background, "background")):
        raise ValueError(f"background is of another ranking: it has {other}, and found {column}; give its own.")
    if other_floors(theirs, own):
        raise ValueError("background is of other data, with other noise floors: give that of the same data.")
    for name, (low, high) in own.get("bank", {}).items():
        value = plain_column(found, name) if name in found.colnames else np.zeros(0)
        slack = SAME_TEMPLATE * max(abs(low), abs(high))
        if np.any((value < low - slack) | (value > high + slack)):
            raise ValueError(f"background is of another bank, whose {name} is {low:.10g} to {high:.10g}: give its own.")
