"""What line-robust statistics gain in noise with lines, and what vetoes lose: directed searches of simulated noise.

    python examples/lines_calibration.py --searches 1000 --processes 16 --output examples/lines_calibration.json
    python examples/lines_calibration.py --table examples/lines_calibration.json
    python examples/lines_calibration.py --plot docs/lines_calibration.png examples/lines_calibration.json

Each search is directed: a random position in the sky, a band of 0.1 Hz at random frequencies below 200 Hz, two days of
two detectors with gaps, and five spin-downs. The noise is Gaussian and stationary; or there are lines in one detector,
in one for some hours, or in both; or the instruments misbehave in all ways of `jfstat.inject_artefacts`; or one
detector is less sensitive than the other by a factor of four. So many searches of each kind are of noise alone, and
their loudest values give the thresholds. As many others have a signal of random orientation, with each of some
sensitivity depths in turn. It is detected if a value within 0.1 mHz of its frequency exceeds the threshold. Vetoes
judge the loudest candidate of each search of noise and of each signal, wherever its 2F is so large that Gaussian noise
reaches it in less than 1 % of searches.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from astropy.table import QTable
from scipy.stats import chi2

jax.config.update("jax_enable_x64", True)

import jfstat  # noqa: E402
from jfstat.atomic import written_to  # noqa: E402
from jfstat.candidates.falsealarm import false_alarm  # noqa: E402
from jfstat.lines.doppler import LineBands, line_bands, lines_near  # noqa: E402
from jfstat.statistic.bins import counted_bins  # noqa: E402

START, DAYS, TSFT, SQRT_SX = 1_167_458_304, 2.0, 1800, 4e-24
N_SEGMENTS = 4
LOWEST, HIGHEST, WIDTH, GUARD, ROOM = 190.0, 200.0, 0.1, 0.15, 0.05
SPIN_DOWNS = -4e-10, -3e-10, -2e-10, -1e-10, 0.0
WING = 1.1e-4
"""Largest Doppler shift of a detector, in units of the frequency."""
NEAR = 1e-4
"""Distance from a signal within which values are its own, Hz."""
DEPTHS = 40.0, 32.0, 25.0, 20.0, 15.0, 10.0, 5.0, 2.5
"""Sensitivity depths of the signals, 1/sqrt(Hz)."""
LEVELS = 0.1, 0.01
KINDS = (
    "Gaussian noise",
    "lines in one detector",
    "lines for hours",
    "lines in both detectors",
    "everything",
    "unequal detectors",
    "unequal detectors, lines in one",
)
UNEQUAL = 4.0
"""Ratio of the floors of unequal detectors, the last one's to the others'; signals have the same mean rho^2."""
LISTS = {"known lines": 0.5, "known lines, wide": 3.5}
"""Bins of SFTs by which the bands of lists of known lines reach beyond the lines on either side."""
CLASSES = 0.0, 60.0, 100.0, 300.0, 1000.0, np.inf
"""Edges of the classes of 2F in which vetoes are counted; the first begins where candidates do."""
BOOTSTRAPS = 200


def priors(n_segments: int) -> dict[str, jfstat.LinePrior]:
    """Priors of lines: the default, and scales F*0 that noise exceeds at one template and frequency with p."""
    scales = {f"p = {p:.0e}".replace("e-0", "e-"): 0.5 * chi2.isf(p, 4 * n_segments) for p in (1e-3, 1e-6, 1e-9)}
    return {"default": jfstat.LinePrior()} | {name: jfstat.LinePrior(round(x, 2)) for name, x in scales.items()}


COHERENT = {f"log10BSGL, {name}": jfstat.BSGL(prior) for name, prior in priors(1).items()}
OVER_SEGMENTS = {
    f"log10{statistic.__name__} of segments, {name}": statistic(prior)
    for statistic in (jfstat.BSGL, jfstat.BSGLtL)
    for name, prior in priors(N_SEGMENTS).items()
}


class Place(NamedTuple):
    """What is searched: the lowest frequency, Hz, and one template for each spin-down."""

    fmin: float
    bank: jfstat.Doppler


class Judged(NamedTuple):
    """The loudest values of a search, by the names of statistics, and what vetoes say of the loudest candidate."""

    loudest: dict[str, float]
    twoF: float
    vetoed: dict[str, bool] | None
    """None if Gaussian noise could be as loud."""


# Simulated data.


def start_times(detectors: Sequence[str]) -> dict[str, list[int]]:
    """Start times of the SFTs, a quarter of which are missing."""
    rng = np.random.default_rng(0)
    every = START + TSFT * np.arange(round(DAYS * 86400 / TSFT))
    return {name: sorted(rng.choice(every, round(0.75 * len(every)), replace=False).tolist()) for name in detectors}


def place(rng: np.random.Generator) -> Place:
    """A random position and band."""
    f, n = float(rng.uniform(LOWEST, HIGHEST)), len(SPIN_DOWNS)
    alpha, delta = rng.uniform(0, 2 * np.pi), np.arcsin(rng.uniform(-1, 1))
    fkdot = [[f, f1dot] for f1dot in SPIN_DOWNS]
    return Place(f, jfstat.Doppler(np.full(n, alpha), np.full(n, delta), fkdot, START))


def floors(kind: str, detectors: Sequence[str]) -> dict[str, float]:
    """Noise floors of the detectors, whose sum of 1/S is the same for all kinds of noise."""
    ratios = dict.fromkeys(detectors, 1.0)
    if kind.startswith("unequal"):
        ratios[detectors[-1]] = UNEQUAL
    mean = np.mean([x**-2 for x in ratios.values()])
    return {name: float(SQRT_SX * x * np.sqrt(mean)) for name, x in ratios.items()}


def noise(rng: np.random.Generator, where: Place, floor: dict[str, float]) -> jfstat.SFTs:
    """Gaussian noise with gaps."""
    low, high = where.fmin - GUARD - ROOM, where.fmin + WIDTH + GUARD + ROOM
    seed = int(rng.integers(2**31))
    times = start_times(list(floor))
    return jfstat.simulate_sfts(list(floor), fmin=low, fmax=high, timestamps=times, sqrt_sx=floor, seed=seed)


def strain(rng: np.random.Generator, low: float, high: float) -> float:
    """A random amplitude of a line, which stands out of the noise of an SFT by 10^low to 10^high."""
    return float(SQRT_SX / np.sqrt(TSFT) * 10 ** rng.uniform(low, high))


def lines(rng: np.random.Generator, where: Place, mean: float, **options: Any) -> list[jfstat.Artefact]:
    """Some lines, hardly visible to loud: steady, drifting or swinging."""
    wing = WING * where.fmin
    found = []
    for _ in range(rng.poisson(mean)):
        freq = rng.uniform(where.fmin - wing, where.fmin + WIDTH + wing)
        own: dict[str, Any] = {"freq": freq, "phi0": rng.uniform(0, 2 * np.pi), "h0": strain(rng, -0.8, 0.7)}
        shape = rng.integers(3)
        if shape == 1:
            own |= {"f1dot": rng.normal(0, 3e-9), "reftime": START}
        elif shape == 2:
            period = rng.uniform(3600, 86400)
            own |= {"period": period, "swing": rng.uniform(0, 1e-3) * period / (2 * np.pi)}
        found.append(jfstat.Artefact(**own, **options))
    return found


def artefacts(
    rng: np.random.Generator, kind: str, where: Place, floor: dict[str, float]
) -> list[jfstat.simulate.artefacts.Disturbance]:
    """What the instruments of a kind of noise do."""
    f, detectors = where.fmin, list(floor)

    def one() -> list[str]:
        return [str(rng.choice(detectors))]

    if kind in ("Gaussian noise", "unequal detectors"):
        return []
    if kind in ("lines in one detector", "unequal detectors, lines in one"):
        found = []
        for line in lines(rng, where, 2.0):
            (own,) = one()
            found.append(replace(line, h0=float(line.h0) * floor[own] / SQRT_SX, detectors=(own,)))  # type: ignore[arg-type]
        return found
    if kind == "lines in both detectors":
        return list(lines(rng, where, 2.0))
    if kind == "lines for hours":
        found = []
        for line in lines(rng, where, 2.0):
            hours = rng.uniform(2, 12)
            begin = START + rng.uniform(0, DAYS * 86400 - hours * 3600)
            window = jfstat.TransientWindow("rectangular", begin, hours * 3600)
            found.append(replace(line, h0=3 * float(line.h0), window=window, detectors=tuple(one())))  # type: ignore[arg-type]
        return found
    seeds = iter(rng.integers(2**31, size=8).tolist())
    spacing = rng.uniform(0.02, 0.08)
    first = int(np.ceil((f - 0.5 * spacing) / spacing))
    last = int(np.floor((f + WIDTH) / spacing))
    offset = rng.uniform(-0.01, 0.01)
    drift = jfstat.FloorDrift(0.3, timescale=40000.0, slope=float(rng.normal(0, 0.6)), seed=next(seeds))
    glitches = jfstat.Glitches(rate=20.0, h0=5e-21, band=(60.0, 600.0), seed=next(seeds))
    broad = jfstat.BroadLine(rng.uniform(f, f + WIDTH), 0.03, SQRT_SX * rng.uniform(0, 2), seed=next(seeds))
    found = [
        replace(broad, detectors=tuple(one())),
        glitches,
        drift,
        jfstat.WanderingLine(
            rng.uniform(f, f + WIDTH), strain(rng, -0.8, 0.7), wander=3e-4, seed=next(seeds), detectors=one()
        ),
        *jfstat.comb(spacing, range(first, last + 1), strain(rng, -1.5, 0.0), offset=offset, detectors=one()),
    ]
    both = [() if rng.uniform() < 0.3 else one() for _ in range(20)]
    for line, own in zip(lines(rng, where, 1.0), both, strict=False):
        found.append(replace(line, detectors=tuple(own) or None))
    return found


def known(found: Sequence[Any], detectors: Sequence[str], bins: float) -> QTable:
    """A list of all narrow lines, whose bands reach so many bins of SFTs beyond the true ones."""
    rows = []
    for one in found:
        half, t = bins / TSFT, np.array([0.0, DAYS * 86400])
        if isinstance(one, jfstat.Artefact):
            swing = 2 * np.pi * abs(float(one.swing)) / float(one.period)  # type: ignore[arg-type]
            track = float(one.freq) + float(one.f1dot) * t  # type: ignore[arg-type]
            low, high = track.min() - swing - half, track.max() + swing + half
        elif isinstance(one, jfstat.WanderingLine):
            half += 2 * float(one.wander) * np.sqrt(DAYS)  # type: ignore[arg-type]
            low, high = float(one.freq) - half, float(one.freq) + half  # type: ignore[arg-type]
        else:
            continue
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        rows += [(name, middle, low, high, half, half, "simulated") for name in one.detectors or detectors]
    names = "detector", "freq", "fmin", "fmax", "left_width", "right_width", "name"
    kinds = "U2", float, float, float, float, float, "U9"
    return QTable(rows=rows or None, names=names, dtype=kinds)


def unit_signal(rng: np.random.Generator, where: Place, sfts: jfstat.SFTs) -> tuple[float, jfstat.SFTs]:
    """The frequency of a random signal, and SFTs of it alone for a sensitivity depth of 1."""
    margin = 1e-3
    freq = float(rng.uniform(where.fmin + margin, where.fmin + WIDTH - margin))
    fkdot = [freq, float(rng.uniform(SPIN_DOWNS[0], SPIN_DOWNS[-1]))]
    point = jfstat.Doppler(float(where.bank.alpha[0]), float(where.bank.delta[0]), fkdot, START)
    amplitude = jfstat.Amplitude(
        SQRT_SX, rng.uniform(-1, 1), rng.uniform(-np.pi / 4, np.pi / 4), rng.uniform(0, 2 * np.pi)
    )
    silent = replace(sfts, series=tuple(replace(own, data=np.zeros_like(own.data)) for own in sfts))
    return freq, jfstat.inject(silent, [(point, amplitude)])


def added(sfts: jfstat.SFTs, signal: jfstat.SFTs, factor: float) -> jfstat.SFTs:
    """SFTs with another's bins times a factor added."""
    pairs = zip(sfts, signal, strict=True)
    return replace(sfts, series=tuple(replace(a, data=a.data + np.float32(factor) * b.data) for a, b in pairs))


# Searches.


@partial(jax.jit, static_argnames="statistics")
def values(
    data: jfstat.FstatData, points: jfstat.Doppler, statistics: tuple[jfstat.BSGL | jfstat.BSGLtL, ...]
) -> jax.Array:
    """Compute 2F, or its mean over segments, and statistics for templates and frequencies: (1 + n, B, m) float32.

    These are the values that `jfstat.search` maximises; XLA computes the transforms once for all statistics.
    """
    found = [own.odds_and_sums(data, points, True) for own in statistics]
    return jnp.stack([found[0][1] / (data.n_segments or 1), *(odds for odds, _ in found)])


@jax.jit
def affected(data: jfstat.FstatData, points: jfstat.Doppler, bands: LineBands) -> jax.Array:
    """Return which frequencies of the templates ``Keep(veto_lines=True)`` leaves out, (B, m) bool."""
    ranges = counted_bins(data, points, points.alpha.shape[0], 0, bands)[2:]
    number = jnp.arange(data.layout.n_frequencies, dtype=jnp.int32)
    return jnp.any((number >= ranges[::2, :, None]) & (number <= ranges[1::2, :, None]), axis=0)


def prepared(sfts: jfstat.SFTs, where: Place, segments: int | None = None) -> jfstat.FstatData:
    """Prepare the band of a search."""
    return jfstat.prepare(sfts, where.fmin, where.fmin + WIDTH, START, guard=GUARD, segments=segments)


def largest(found: np.ndarray, frequencies: np.ndarray, freq: float | None, left: np.ndarray | None) -> np.ndarray:
    """The largest of each statistic, of all values or those near a frequency, without those that are left out."""
    counted = np.ones(found.shape[1:], bool) if left is None else ~left
    if freq is not None:
        counted &= np.abs(frequencies - freq) <= NEAR
    return np.where(counted, found, -np.inf).max(axis=(1, 2))


def crossings(sfts: jfstat.SFTs, where: Place, lists: dict[str, QTable]) -> dict[str, np.ndarray]:
    """Return which frequencies of the templates cross lines of each list, (B, m) bool each."""
    data = prepared(sfts, where)
    crossed = {}
    for name, table in lists.items():
        near = lines_near(table, data.observation, where.bank, where.fmin, where.fmin + WIDTH)
        if len(near):
            crossed[name] = np.asarray(affected(data, where.bank, line_bands(near, data.observation, where.bank)))
        else:
            crossed[name] = np.zeros((len(SPIN_DOWNS), data.layout.n_frequencies), bool)
    return crossed


def judged(
    sfts: jfstat.SFTs,
    where: Place,
    lists: dict[str, QTable],
    crossed: dict[str, np.ndarray],
    freq: float | None = None,
    seed: int = 0,
) -> Judged:
    """Search SFTs with all statistics, vetoes and cuts.

    Parameters
    ----------
    sfts : SFTs
    where : Place
    lists : dict of str to QTable
        Known lines; the last list is that of the lines to clean.
    crossed : dict of str to (B, m) bool ndarray
        See `crossings`.
    freq : float, optional
        Frequency of a signal, Hz: only values near it count.
    seed : int
        Of the noise that replaces lines.
    """
    data = prepared(sfts, where)
    found = np.asarray(values(data, where.bank, tuple(COHERENT.values())))
    frequencies, names, loudest = np.asarray(data.frequencies), ("2F", *COHERENT), {}

    def add(own: np.ndarray, words: str, left: np.ndarray | None = None) -> None:
        largest_of = largest(own, frequencies, freq, left)
        loudest.update({name + words: float(x) for name, x in zip(names, largest_of, strict=True)})

    add(found, "")
    cleaned = found
    if len(next(iter(lists.values()))):
        clean = jfstat.clean(sfts, list(lists.values())[-1], seed=seed)
        cleaned = np.asarray(values(prepared(clean, where), where.bank, tuple(COHERENT.values())))
    for name, left in crossed.items():
        add(found, f"; {name} vetoed", left)
    add(cleaned, f"; {list(lists)[-1]} cleaned")

    segments = prepared(sfts, where, N_SEGMENTS)
    sums = np.asarray(values(segments, where.bank, tuple(OVER_SEGMENTS.values())))
    means = largest(sums, np.asarray(segments.frequencies), freq, None)
    loudest |= {name: float(x) for name, x in zip(("mean 2F of segments", *OVER_SEGMENTS), means, strict=True)}

    counted = np.abs(frequencies - freq) <= NEAR if freq is not None else np.ones(len(frequencies), bool)
    template, k = np.unravel_index(np.argmax(np.where(counted, found[0], -np.inf)), found.shape[1:])
    twoF = float(found[0, template, k])
    if false_alarm(twoF, found[0].size) > 0.01:
        return Judged(loudest, twoF, None)
    row = {"freq": [frequencies[k]], "f1dot": [SPIN_DOWNS[template]]}
    row |= {name: [float(getattr(where.bank, name)[0])] for name in ("alpha", "delta")}
    veto = str(jfstat.line_veto(data, QTable(row, meta={"reftime": START}))["line_veto"][0]).split(", ")
    odds = dict(zip(COHERENT, found[1:, template, k].tolist(), strict=True))
    fails = {
        "louder in one detector": any(name in veto for name in data.detectors),
        "louder without Doppler shifts": "DM-off" in veto,
        "line_veto (either)": veto != [""],
        **{f"log10BSGL < {x}": odds["log10BSGL, default"] < x for x in (0, 1, 2)},
        **{f"{name} crossed": bool(left[template, k]) for name, left in crossed.items()},
    }
    return Judged(loudest, twoF, fails)


def one_search(seed: int, detectors: Sequence[str], job: tuple[int, int, bool]) -> list[Judged]:
    """One search, given what its random numbers depend on: of noise, or of a signal at each depth in turn."""
    kind, number, signal = job
    rng = np.random.default_rng([seed, kind, number, signal])
    where = place(rng)
    floor = floors(KINDS[kind], detectors)
    disturbances = artefacts(rng, KINDS[kind], where, floor)
    sfts = noise(rng, where, floor)
    if disturbances:
        sfts = jfstat.inject_artefacts(sfts, disturbances)
    lists = {name: known(disturbances, detectors, bins) for name, bins in LISTS.items()}
    search = partial(judged, where=where, lists=lists, crossed=crossings(sfts, where, lists), seed=number)
    if not signal:
        return [search(sfts)]
    freq, unit = unit_signal(rng, where, sfts)
    return [search(added(sfts, unit, 1 / depth), freq=freq) for depth in DEPTHS]


# Figures.


def detections(of_noise: list[Judged], of_signals: list[list[Judged]]) -> dict[str, Any]:
    """Fractions of detected signals by statistic, false alarm of the whole search, and depth.

    Standard deviations are of bootstraps of the searches, of noise and of signals: they include the thresholds' own.
    """
    rng, result = np.random.default_rng(0), {}
    chosen = [(rng.integers(len(x), size=len(x)) for x in (of_noise, of_signals)) for _ in range(BOOTSTRAPS)]
    pairs = [tuple(x) for x in chosen]
    for name in of_noise[0].loudest:
        quiet = np.array([one.loudest[name] for one in of_noise])
        loud = np.array([[one.loudest[name] for one in depths] for depths in of_signals])
        result[name] = {}
        for level in LEVELS:

            def fractions(quiet: np.ndarray, loud: np.ndarray, level: float = level) -> tuple[float, np.ndarray]:
                threshold = np.quantile(quiet, 1 - level, method="higher")
                return float(threshold), np.mean(loud > threshold, axis=0)

            threshold, found = fractions(quiet, loud)
            deviation = np.std([fractions(quiet[a], loud[b])[1] for a, b in pairs], axis=0)
            result[name][str(level)] = {
                "threshold": round(threshold, 3),
                "detected": [round(float(x), 4) for x in found],
                "standard_deviation": [round(float(x), 4) for x in deviation],
            }
    return result


def lost(candidates: Sequence[Judged]) -> list[dict[str, Any]]:
    """Fractions of candidates that vetoes take away, by classes of 2F."""
    rows = []
    for low, high in pairwise(CLASSES):
        own = [one.vetoed for one in candidates if one.vetoed is not None and low <= one.twoF < high]
        row: dict[str, Any] = {"from": low, "to": None if np.isinf(high) else high, "candidates": len(own)}
        row |= {name: round(float(np.mean([x[name] for x in own])), 4) for name in (own[0] if own else ())}
        rows.append(row)
    return rows


def figures(of_noise: list[Judged], of_signals: list[list[Judged]]) -> dict[str, Any]:
    """All figures of a kind of noise."""
    return {
        "searches": len(of_noise),
        "noise_with_candidates": round(float(np.mean([one.vetoed is not None for one in of_noise])), 4),
        "median_2F": [round(float(x), 1) for x in np.median([[x.twoF for x in own] for own in of_signals], axis=0)],
        "detections": detections(of_noise, of_signals),
        "vetoed_noise": lost(of_noise),
        "vetoed_signals": lost([one for own in of_signals for one in own]),
    }


COHERENT_SHOWN = {
    "2F": "2F",
    "log10BSGL, default": "BSGL, {1 default}",
    "log10BSGL, p = 1e-6": "BSGL, {1 p = 1e-6}",
    "2F; known lines vetoed": "2F, lines vetoed",
    "2F; known lines, wide vetoed": "wide",
    "2F; known lines, wide cleaned": "2F, lines cleaned, wide",
    "log10BSGL, p = 1e-6; known lines vetoed": "BSGL, {1 p = 1e-6}, lines vetoed",
}
"""Statistics of the page's first table, in its words."""
SEGMENTS_SHOWN = {
    "mean 2F of segments": "mean of 2F",
    "log10BSGL of segments, default": "BSGL, {4 default}",
    "log10BSGL of segments, p = 1e-6": "BSGL, {4 p = 1e-6}",
    "log10BSGLtL of segments, default": "BSGLtL, {4 default}",
    "log10BSGLtL of segments, p = 1e-6": "BSGLtL, {4 p = 1e-6}",
}
"""Statistics of the page's table for segments, in its words."""
VETOES = {
    "louder in one detector": "one detector",
    "louder without Doppler shifts": "DM-off",
    "line_veto (either)": "either",
    "log10BSGL < 0": "log10BSGL < 0",
    "log10BSGL < 2": "< 2",
    "known lines crossed": "known lines",
    "known lines, wide crossed": "wide",
}
"""Vetoes of the page's table, in its words."""
DEPTH = 25.0
"""Sensitivity depth of the page's table."""


def detection_table(result: dict[str, Any], shown: dict[str, str]) -> Iterator[str]:
    """Yield the lines of a table of detected signals in Markdown, at both false alarms."""
    column = result["depths"].index(DEPTH)
    heads = list(shown.values())
    for k, own in result["fstar0"].items():
        for name, scale in own.items():
            heads = [words.replace(f"{{{k} {name}}}", f"F\\*0 = {scale:.3g}") for words in heads]
    yield "| noise | " + " | ".join(heads) + " |"
    yield "|---|" + "---|" * len(heads)
    for kind in KINDS:
        if kind in result:
            own = [result[kind]["detections"][name] for name in shown]
            each = [[100 * x[str(level)]["detected"][column] for level in LEVELS] for x in own]
            yield f"| {kind} | " + " | ".join(", ".join(f"{x:.0f} %" for x in both) for both in each) + " |"


def veto_table(result: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the table of vetoed candidates, in Markdown."""
    yield "| candidates | number | " + " | ".join(VETOES.values()) + " |"
    yield "|---|---:|" + "---:|" * len(VETOES)
    quiet, disturbed = ("Gaussian noise", "unequal detectors"), [k for k in KINDS if "lines" in k or k == "everything"]
    classes = (0, 60), (60, 100), (100, 300), (300, np.inf)
    signals = [(kind, *ends) for kind in quiet for ends in classes]
    signals += [("everything", 0, 100), ("everything", 100, np.inf)]
    noise = [(kind, 0, np.inf) for kind in disturbed]
    for words, key, rows in (("signals in ", "vetoed_signals", signals), ("", "vetoed_noise", noise)):
        for kind, low, high in rows:
            own = [x for x in result.get(kind, {}).get(key, ()) if low <= x["from"] < high and x["candidates"]]
            n = sum(x["candidates"] for x in own)
            if n:
                if np.isinf(high):
                    size = f", 2F above {low:g}" if low else ""
                else:
                    size = f", {low:g} to {high:g}" if low else f", 2F below {high:g}"
                shares = [sum(x["candidates"] * x[name] for x in own) / n for name in VETOES]
                yield f"| {words}{kind}{size} | {n} | " + " | ".join(f"{100 * x:.1f} %" for x in shares) + " |"


def tables(result: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the page's tables in Markdown."""
    for shown in (COHERENT_SHOWN, SEGMENTS_SHOWN):
        yield from detection_table(result, shown)
        yield ""
    yield from veto_table(result)


def plot(result: dict[str, Any], path: Path, level: float = 0.01) -> None:
    """Draw the fractions of detected signals against depth in all kinds of noise."""
    from matplotlib.figure import Figure

    kinds = [kind for kind in KINDS if kind in result]
    shown = {
        "2F": ("2F", "k-"),
        "log10BSGL, default": (f"log10BSGL, F*0 = {result['fstar0']['1']['default']:g}", "C0--"),
        "log10BSGL, p = 1e-6": (f"log10BSGL, F*0 = {result['fstar0']['1']['p = 1e-6']:g}", "C0-"),
        "2F; known lines vetoed": ("2F, known lines vetoed", "C1:"),
        "log10BSGL, p = 1e-6; known lines vetoed": ("log10BSGL, known lines vetoed", "C2-."),
    }
    columns = min(4, len(kinds))
    figure = Figure((2.1 * columns, 2.2 * -(-len(kinds) // 4) + 0.5), layout="constrained")
    grid = figure.subplots(-(-len(kinds) // 4), columns, sharex=True, sharey=True, squeeze=False)
    for ax, kind in zip(grid.flat, kinds, strict=False):
        for name, (words, style) in shown.items():
            own = result[kind]["detections"][name][str(level)]
            ax.errorbar(result["depths"], own["detected"], own["standard_deviation"], fmt=style, lw=1.2, label=words)
        ax.set(xscale="log", ylim=(0, 1.03))
        ax.set_title(kind, fontsize="small")
        ax.set_xticks(ticks := [2.5, 5, 10, 20, 40], [f"{x:g}" for x in ticks])
        ax.minorticks_off()
    for ax in grid.flat[len(kinds) :]:
        ax.set_axis_off()
    figure.supxlabel("sensitivity depth (1/sqrt(Hz))", fontsize="medium")
    figure.supylabel(f"detected at {100 * level:g} % false alarm", fontsize="medium")
    figure.legend(*grid.flat[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize="x-small")
    figure.savefig(path, dpi=100)


def main(arguments: list[str] | None = None) -> None:
    """Run the searches and write their figures, or show those of a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=1000, help="of noise, and as many of signals, for each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--detectors", nargs="+", default=["H1", "L1"])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--table", type=Path, metavar="JSON", help="only print the tables of a file in Markdown")
    parser.add_argument("--plot", nargs=2, type=Path, metavar=("PNG", "JSON"), help="only draw the figures of a file")
    options = parser.parse_args(arguments)
    if options.table is not None:
        print("\n".join(tables(json.loads(options.table.read_text()))))
        return
    if options.plot is not None:
        plot(json.loads(options.plot[1].read_text()), options.plot[0])
        return
    # each process computes on one thread, so that results do not depend on the number of processes
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
    n = options.searches
    result: dict[str, Any] = {"command": shlex.join(["python", *sys.argv]), "depths": DEPTHS}
    result["fstar0"] = {str(k): {name: p.fstar0 for name, p in priors(k).items()} for k in (1, N_SEGMENTS)}
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for kind, name in enumerate(KINDS):
            if name not in options.kinds:
                continue
            began, done = time.perf_counter(), []
            jobs = [(kind, number, signal) for number in range(n) for signal in (False, True)]
            for own in pool.imap(partial(one_search, options.seed, options.detectors), jobs):
                done.append(own)
                if len(done) % 100 == 0 or len(done) == 2 * n:
                    seconds = (time.perf_counter() - began) / len(done)
                    print(f"{name}: {len(done)} of {2 * n}, {seconds:.2f} s each", file=sys.stderr, flush=True)
            result[name] = figures([own[0] for own in done[::2]], done[1::2])
            if options.output is not None:
                written_to(options.output, (json.dumps(result, indent=1) + "\n").encode())
    if options.output is None:
        print("\n".join(tables(result)))


if __name__ == "__main__":
    main()
