"""Compare set-ups of a search over segments by cost and depth, before any of them is run: `search_setups`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jfstat import kinds
from jfstat.banks.template_bank import bank_size, checked_band
from jfstat.data.checks import observation_of
from jfstat.data.fstatdata import FstatData
from jfstat.data.observation import Observation
from jfstat.limits.analytic import sensitivity_depth, strain_exceeding, unit_power
from jfstat.limits.population import Population
from jfstat.public import host
from jfstat.searching.session.progress import progress_bar
from jfstat.validation import positive_number, probability, shown

if TYPE_CHECKING:
    from astropy.table import QTable

MEAN_LOSS, INTERPOLATED_LOSS = (0.385, 0.8), (0.32, 0.45)
"""Mean loss of rho^2 by a bank over segments, a m / (1 + b m) for its mismatch m, and with interpolation for the sum of
both mismatches: a and b through the losses of random signals, for mismatches of 0.1 and 0.3 in
examples/segments_coverage.json (0.24 to 0.44 of m, 0.18 to 0.32 of the sum) and up to 0.95 in
examples/one_hertz_setups.json and one_hertz_followed.json. Half of the mismatch, the mean of the metric's own in a
lattice A_n*, says too much: the best of several templates counts, and losses grow more slowly than the metric says."""
NEAREST_FREQUENCY, INTERPOLATED_FREQUENCY = 0.065, 0.08
"""Mean loss from frequencies 1/(2T) apart, without interpolation, and with it, as measured there (0.05 to 0.11)."""
REFINED_MISMATCH = 0.02
"""Mismatch of a bank with about as many independent values as 2F has in a continuous region, for thresholds of refined
candidates. Values of such a bank above a threshold, if independent, are between 0.4 and 50 times as many as the peaks
of 2F above it, for one to five parameters, 1 to 100 segments and probabilities of one value from 1e-8 to 1e-24 (by
Worsley 1994, Adv. Appl. Probab. 26, 13, as if all segments had the mean metric, without edges)."""
BETWEEN_FREQUENCIES = np.pi**2 / 48
"""Mismatch halfway between frequencies 1/(2T) apart."""
CONFIDENCE = 0.95
"""Least detection probability of signals as strong as `h0`."""
SAMPLES = 4000
"""Number of draws from the population."""
RANGES = "freq", "alpha", "delta", "f1dot", "f2dot", "f3dot", "orbit", "region", "reftime"
"""Arguments of `bank_size` that a mapping may hold."""
MOST_SEGMENTS = 8
"""Number of segments whose own lattices are counted."""


@host(population=kinds.instance(Population, or_none=True), progress=kinds.flag)
def search_setups(
    observations: Observation | FstatData | Sequence[Observation | FstatData],
    mismatch: float | Sequence[float | tuple[float, float]],
    bank: Mapping[str, Any],
    seconds: float | tuple[float, float],
    population: Population | None = None,
    false_alarm: float = 0.01,
    progress: bool = True,
    *,
    followed: tuple[float, float] | None = None,
) -> QTable:
    """Return what searches over segments would cost, and how weak a signal each would find, the most sensitive first.

    Of all set-ups, numbers of segments and mismatches, that fit into a budget, the first of the table is the one to
    take. No lattice is laid and no strain used. Cost and sensitivity follow from the numbers of templates and the
    distribution of the mean of 2F over segments, as in Prix & Shaltev 2012 (Phys. Rev. D 85, 084010) and Leaci & Prix
    2015 (Phys. Rev. D 91, 102003), but with the metric of the data's own times and for any ranges that
    `template_bank` knows.

    Parameters
    ----------
    observations : Observation or FstatData, or a sequence of them
        The same data cut into segments in different ways, see `segment_observations`. Noise floors must be known.
    mismatch : float or sequence of float or (float, float)
        Mismatches of the bank; a pair is the mismatch of the bank and of the segments' own lattices, for
        `Interpolated`.
    bank : mapping
        Arguments of `bank_size`: ``freq``, the band (low, high) in Hz, and ranges and values of parameters.
    seconds : float or (float, float)
        Time that the device takes for 2F of one template in one segment at one frequency, all detectors together; and,
        for `Interpolated`, for adding one such value to the total of one template at one frequency, s. The first is
        ``plan.seconds() / (plan.n_values * n_segments)`` of a plan of a small search without `Interpolated`, the
        second the same of a plan with it and many templates.
    population : Population, optional
        Distribution of the signals, as for `sensitivity`.
    false_alarm : float
        Probability that noise alone exceeds the threshold anywhere in the search, if all values were independent. Those
        of neighbouring templates are not, so that the threshold is a little too high. With `followed`, the probability
        that any refined peak of noise exceeds ``refined_threshold``; ``threshold`` then follows from `followed` alone.
    progress : bool
        Whether to show a progress bar.
    followed : (float, float), optional
        For searches whose candidates are all followed up, as by `refine` with the same segments: how many candidates
        of noise there may be at most, and the time that the follow-up of one takes, s. With many, the threshold of the
        search is so low that even a coarse bank misses few of the signals that are significant at their peaks (Brady
        & Creighton 2000, Phys. Rev. D 61, 082001; Cutler, Gholami & Krishnan 2005, Phys. Rev. D 72, 042004).

    Returns
    -------
    QTable
        A row for each set-up, by falling depth: ``segment_length``, s; ``n_segments``; ``mismatch`` and
        ``coherent_mismatch`` (0 without interpolation); ``n_templates``; ``n_coherent``, the expected number of
        templates of all segments' own lattices, at most one for each template and segment, estimated from eight
        segments; ``n_twoF``, the number of means of 2F; ``seconds``; ``threshold``, of the mean of 2F; ``h0``, the
        strain at which 95 % of signals exceed it; and ``depth``, sqrt(S)/h0, 1/sqrt(Hz). For `h0` rho^2 is taken to be
        lower by 0.385 m / (1 + 0.8 m) for the mismatch m and by 0.065 for frequencies 1/(2T) apart, with interpolation
        by 0.32 m / (1 + 0.45 m) for the sum m of both mismatches and by 0.08: about the mean losses of random signals.
        With `followed`, ``threshold`` is that of the search, which as many values of noise are expected to exceed, and
        ``refined_threshold`` that of the mean of 2F at a candidate's peak, where nothing is lost, for `false_alarm`
        among as many values as a bank of mismatch 0.02 has; at least 95 % of signals of strength ``h0`` exceed both,
        if each loses the mean.

    Raises
    ------
    TypeError
        If an argument is unknown or of another kind.
    ValueError
        If an argument is out of range, an observation has no segments or no noise floor, `mismatch` has pairs and
        `seconds` has not, or `followed` is no pair.

    Examples
    --------
    >>> seen = jfstat.segment_observations(sfts, 43200.0, sqrt_sx=4e-24)
    >>> bank = dict(alpha=2.0, delta=0.5, f1dot=(-1e-9, 0.0), freq=(100.0, 100.1))
    >>> setups = jfstat.search_setups(seen, [0.1, 0.3], bank, seconds=1e-9, progress=False)
    >>> len(setups), bool(setups["depth"][0] > setups["depth"][1])
    (2, True)
    """
    from astropy import units as u
    from astropy.table import QTable

    seen = [_with_segments(data) for data in _sequence(observations, "observations", (Observation, FstatData))]
    pairs = [_mismatches(x) for x in _sequence(mismatch, "mismatch", (float, int))]
    if not seen or not pairs:
        raise ValueError("observations and mismatch must each have at least one entry: there is no set-up to compare.")
    each, adding = _costs(seconds)
    if adding is None and any(coherent for _, coherent in pairs):
        raise ValueError("seconds must be a pair where mismatch has pairs: give the time of adding a value, too.")
    low, high = _band(bank)
    alarm = probability(false_alarm, "false_alarm", "try 0.01")
    n_followed, cost_followed = _followed(followed)
    rows = []
    with progress_bar(len(seen) * len(pairs), progress, "set-ups", "set-ups") as advance:
        for observation in seen:
            n_segments, length = int(observation.n_segments or 0), float(np.max(np.asarray(observation.tspan)))
            n_frequencies = int((high - low) * 2 * length) + 1
            _, power = unit_power(observation, population, 0.0, SAMPLES, 0)
            sizes = {own: bank_size(observation, own, **bank) for own in {own for own, _ in pairs}}
            each_size = {own: _coherent_sizes(observation, own, bank) for own in {own for _, own in pairs if own}}
            peaks = [] if followed is None else [(_refined_threshold(observation, bank, n_frequencies, alarm), power)]
            for own, coherent in pairs:
                n_templates = sizes[own]
                most = n_coherent = n_templates * n_segments
                if coherent:
                    n_coherent = n_segments * float(np.mean(np.minimum(each_size[coherent], n_templates)))
                n_twoF = n_templates * n_frequencies
                cost = each * n_coherent * n_frequencies + min(n_followed, n_twoF) * cost_followed
                cost += adding * most * n_frequencies if coherent and adding is not None else 0.0
                if peaks:
                    threshold = mean_exceeded_by(n_followed, n_twoF, n_segments)
                else:
                    threshold = threshold_of_mean(alarm, n_twoF, n_segments)
                seen_power = power * (1 - _mean_loss(own, coherent))
                h0 = strain_exceeding([(threshold, seen_power), *peaks], n_segments, CONFIDENCE)
                depth = float(sensitivity_depth(observation, h0))
                counts = n_templates, n_coherent, n_twoF
                thresholds = threshold, *(least for least, _ in peaks)
                rows.append((length, n_segments, own, coherent, *counts, cost, *thresholds, h0, depth))
                advance(1, "")
    names = "segment_length", "n_segments", "mismatch", "coherent_mismatch", "n_templates", "n_coherent", "n_twoF"
    refined = [] if followed is None else ["refined_threshold"]
    rows.sort(key=lambda row: -row[-1])
    table = QTable(rows=rows, names=[*names, "seconds", "threshold", *refined, "h0", "depth"])
    table["segment_length"] <<= u.s
    table["seconds"] <<= u.s
    table["depth"] <<= u.Hz**-0.5
    table.meta = {"false_alarm": alarm, "confidence": CONFIDENCE, "band": [low, high]}
    if followed is not None:
        table.meta["followed"] = [n_followed, cost_followed]
    return table


def _sequence(given: object, name: str, single: tuple[type, ...]) -> list[Any]:
    """Return a sequence as a list, and one of what it may hold as a list of it."""
    if isinstance(given, single):
        return [given]
    if not isinstance(given, (list, tuple)) and not (isinstance(given, np.ndarray) and given.ndim):
        raise TypeError(f"{name} must be a list, not {shown(given)}.")
    return list(given)


def _with_segments(data: object) -> Observation:
    """Return the observation of data with segments."""
    if not isinstance(data, (Observation, FstatData)):
        raise TypeError(f"observations must be Observations with segments, not {shown(data)}.")
    observation = observation_of(data, segments=True)
    if observation.n_segments is None:
        raise ValueError("observations must have segments: make them with jfstat.segment_observations.")
    return observation


def _mismatches(x: object) -> tuple[float, float]:
    """Return the mismatch of a bank and of segments' lattices, the latter 0 without interpolation."""
    hint = "try 0.1, or (0.1, 0.1) with interpolation"
    if isinstance(x, (tuple, list)):
        if len(x) != 2:
            raise ValueError(f"mismatch must hold numbers or pairs, not {shown(x)}: {hint}.")
        return probability(x[0], "mismatch", hint), probability(x[1], "mismatch", hint)
    return probability(x, "mismatch", hint), 0.0


def _costs(seconds: object) -> tuple[float, float | None]:
    """Return the time of a value of 2F and of adding one to a sum, s; None if the latter is not known."""
    what = "a time in s"
    if not isinstance(seconds, (tuple, list)):
        return positive_number(seconds, "seconds", what), None
    if len(seconds) != 2:
        raise ValueError(f"seconds must be a time or a pair of times, not {shown(seconds)}.")
    return positive_number(seconds[0], "seconds", what), positive_number(seconds[1], "seconds", what)


def _followed(given: object) -> tuple[float, float]:
    """Return the number of candidates of noise that are followed up and the time that each takes, s; 0 without."""
    if given is None:
        return 0.0, 0.0
    hint = "followed must be a pair, a number of candidates and the time of one in s"
    if not (isinstance(given, (tuple, list)) and len(given) == 2):
        raise ValueError(f"{hint}, not {shown(given)}: try (1e6, 0.02).")
    return positive_number(given[0], "followed[0]", "a number"), positive_number(given[1], "followed[1]", "a time in s")


def _band(bank: object) -> tuple[float, float]:
    """Return the band to be searched, Hz."""
    if not isinstance(bank, Mapping):
        raise TypeError(f"bank must be a mapping of arguments of jfstat.bank_size, not {shown(bank)}.")
    unknown = [name for name in bank if name not in RANGES]
    if unknown:
        raise ValueError(f"bank cannot hold {unknown[0]!r}: give some of {', '.join(RANGES)}.")
    freq = bank.get("freq")
    if not (isinstance(freq, (tuple, list)) and len(freq) == 2):
        raise ValueError(f"bank must hold freq, the band (low, high) in Hz, not {shown(freq)}.")
    return checked_band(*freq)


def _mean_loss(mismatch: float, coherent: float) -> float:
    """Return the mean loss of rho^2 for the mismatches of a bank and of segments' lattices."""
    total, frequency = mismatch + coherent, INTERPOLATED_FREQUENCY if coherent else NEAREST_FREQUENCY
    slope, bend = INTERPOLATED_LOSS if coherent else MEAN_LOSS
    return slope * total / (1 + bend * total) + frequency


def _coherent_sizes(observation: Observation, mismatch: float, bank: Mapping[str, Any]) -> np.ndarray:
    """Return the numbers of templates of the own lattices of up to `MOST_SEGMENTS` segments, evenly spread."""
    reftime, n = bank.get("reftime"), observation.n_segments or 1
    own = {**bank, "reftime": observation.reftime.common if reftime is None else reftime}
    chosen = np.unique(np.linspace(0, n - 1, min(n, MOST_SEGMENTS)).round().astype(int))
    return np.array([bank_size(observation.segment(int(i)), mismatch, **own) for i in chosen])


def _refined_threshold(observation: Observation, bank: Mapping[str, Any], n_frequencies: int, alarm: float) -> float:
    """Return the mean of 2F that any peak of noise in the region exceeds with a probability."""
    n = refined_values(bank_size(observation, REFINED_MISMATCH, **bank), n_frequencies)
    return threshold_of_mean(alarm, n, int(observation.n_segments or 0))


def refined_values(n_templates: float, n_frequencies: float) -> float:
    """Return as how many independent values all peaks count.

    Parameters
    ----------
    n_templates : float
        Size of a bank of mismatch `REFINED_MISMATCH`.
    n_frequencies : float
        Number of frequencies 1/(2T) apart.
    """
    return n_templates * n_frequencies * float(np.sqrt(BETWEEN_FREQUENCIES / REFINED_MISMATCH))


def mean_exceeded_by(number: float, n: float, n_segments: int) -> float:
    """Return the mean of 2F that a given number of n independent values exceed on average; 0 if there are fewer."""
    from scipy.stats import chi2

    return float(chi2.isf(min(1.0, number / n), 4 * n_segments) / n_segments)


def threshold_of_mean(false_alarm: float, n: float, n_segments: int) -> float:
    """Return the mean of 2F over segments that the largest of n independent values exceeds with a probability."""
    single = -np.expm1(np.log1p(-false_alarm) / n)
    return mean_exceeded_by(single, 1.0, n_segments)
