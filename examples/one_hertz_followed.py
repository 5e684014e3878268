"""The search of one_hertz_search.py by a coarse bank whose candidates are all followed up: its cost, depth, efficiency.

    python examples/one_hertz_followed.py                                           # thresholds of the whole search
    python examples/one_hertz_followed.py --run --output one_hertz_followed.json    # a patch of the sky, on a GPU

A search that calls its loudest value a detection needs a fine bank. If so many candidates are followed up that
thousands of noise are among them, the bank may be coarse: what counts is the mean of 2F at the peak next to a
candidate, where nothing is lost, and the search need only find its neighbourhood (`jfstat.search_setups`, `followed`).
The whole search here may have ``--followed`` candidates of noise, and the patch its share of them.

``--run`` searches the same patch twice. Loud signals show what the bank and the segments' lattices lose; from this
follows the depth at which 95 % of signals should pass both thresholds. Then weak signals of random orientation, as
strong as this depth says for the patch, are searched and their candidates refined, and those that pass are counted.
Peaks of noise above lower thresholds, of the loudest ``--noise`` values, are counted beside the number that the
threshold of refined candidates was made for.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402
from astropy import units  # noqa: E402
from one_hertz_search import (  # noqa: E402
    CONFIDENCE,
    DEPTH,
    FALSE_ALARM,
    FMIN,
    SIGNALS,
    SQRT_SX,
    cost,
    disc_of,
    expected,
    losses,
    simulated,
    spacing,
)
from scipy.stats import chi2  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import written_to  # noqa: E402
from jfstat.data.observation import Observation  # noqa: E402
from jfstat.limits.analytic import strain_exceeding, unit_power  # noqa: E402
from jfstat.searching.setups import (  # noqa: E402
    BETWEEN_FREQUENCIES,
    REFINED_MISMATCH,
    mean_exceeded_by,
    threshold_of_mean,
)

NEAR = 1e-3
"""Largest distance of a signal's candidates from its frequency, Hz: other positions shift it."""
AT_PEAK = 0.5
"""A refined candidate is the signal's if the sum of 2F over segments is at least that at the signal less this."""
LEVELS = (1000.0, 300.0, 100.0, 30.0, 10.0)
"""Peaks of noise are counted above thresholds that at most so many should exceed in the patch."""


class Thresholds:
    """Thresholds of the whole search and, for a patch that is a share of it, what noise does above others."""

    def __init__(self, arguments: argparse.Namespace, observation: Observation):
        self.n_segments = observation.n_segments or 1
        n_frequencies = arguments.width / spacing(arguments)
        self.templates = expected(observation, arguments, arguments.mismatch)
        self.n_values = self.templates * n_frequencies
        finer = np.sqrt(BETWEEN_FREQUENCIES / REFINED_MISMATCH)
        usual = arguments.width * 2 * arguments.days * 86400
        self.n_refined = expected(observation, arguments, REFINED_MISMATCH) * usual * finer
        self.search = mean_exceeded_by(arguments.followed, self.n_values, self.n_segments)
        self.refined = threshold_of_mean(FALSE_ALARM, self.n_refined, self.n_segments)

    def conditions(self, power: np.ndarray, lost: np.ndarray) -> list[tuple[float, np.ndarray]]:
        """What signals that lose so much must exceed in the search and at their peaks."""
        seen = power * (1 - np.random.default_rng(0).choice(lost, len(power)))
        return [(self.search, seen), (self.refined, power)]


def directions(centre: Any, radius: float, f1dot: tuple[float, float], n: int, seed: int) -> list[Any]:
    """Positions in a disc and spin-downs of n signals."""
    rng = np.random.default_rng(seed)
    places = []
    for _ in range(n):
        turn, away = rng.uniform(0, 2 * np.pi), radius * np.sqrt(rng.uniform())
        place: Any = centre.directional_offset_by(turn * units.rad, away * units.rad)
        places.append((float(place.ra.rad), float(place.dec.rad), float(rng.uniform(*f1dot))))
    return places


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--segments", type=int, default=26)
    parser.add_argument("--days", type=float, default=10.0, help="length of a segment, d")
    parser.add_argument("--width", type=float, default=1.0, help="of the band from 171 Hz on, Hz")
    parser.add_argument("--f1dot", type=float, default=-1e-11, help="lowest, as in --f1dot=-1e-11; up to 0, Hz/s")
    parser.add_argument("--spacing", type=float, default=1.0, help="of frequencies, 1/(2T), T the length of a segment")
    parser.add_argument("--mismatch", type=float, default=0.95)
    parser.add_argument("--coherent-mismatch", type=float, default=0.2)
    parser.add_argument("--followed", type=float, default=1e6, help="candidates of noise of the whole search")
    parser.add_argument("--templates", type=float, default=1e6, help="with --run: of the patch, about")
    parser.add_argument("--weak", type=int, default=100, help="with --run: number of weak signals")
    parser.add_argument("--noise", type=int, default=2000, help="with --run: loudest values whose peaks are counted")
    parser.add_argument("--guard", type=float, default=0.3, help="with --run: width of the SFTs beyond the band, Hz")
    parser.add_argument("--run", action="store_true", help="search a patch of the sky")
    parser.add_argument("--output", type=Path, help="JSON file")
    arguments = parser.parse_args()
    arguments.f1dot = (arguments.f1dot, 0.0)
    observation = simulated(arguments, [], 0.05, False).observation
    least = Thresholds(arguments, observation)
    print(f"{least.n_values:.3g} values: mean 2F of {least.search:.3f} for {arguments.followed:g} candidates of noise,")
    print(f"{least.refined:.3f} at their peaks for a false alarm of {FALSE_ALARM:g}", flush=True)
    result: dict[str, Any] = {
        "command": " ".join(["one_hertz_followed.py", *sys.argv[1:]]),
        "jfstat": jfstat.__version__,
        "settings": {k: v for k, v in vars(arguments).items() if k not in ("output", "run")},
        "whole": {
            "templates": least.templates,
            "values": least.n_values,
            "sums": least.n_values * least.n_segments,
            "threshold": least.search,
            "refined_threshold": least.refined,
        },
    }
    if arguments.run:
        result["patch"] = run(arguments, observation, least, result["whole"])
    text = json.dumps(result, indent=1)
    print(text)
    if arguments.output:
        written_to(arguments.output, (text + "\n").encode())


def run(
    arguments: argparse.Namespace, observation: Observation, least: Thresholds, whole: dict[str, float]
) -> dict[str, Any]:
    """Search a disc of the sky for loud and for weak signals, and refine the weak ones' candidates."""
    centre, radius = disc_of(arguments, least.templates / (4 * np.pi))
    reftime = observation.reftime.common
    times: dict[str, float] = {}

    def timed(name: str, work: Any) -> Any:
        began = time.perf_counter()
        result = work()
        times[name] = time.perf_counter() - began
        print(f"{name}: {times[name]:.1f} s", flush=True)
        return result

    def data_with(signals: list[Any]) -> jfstat.FstatData:
        data = simulated(arguments, signals, arguments.guard, True)
        jax.block_until_ready(data.series)
        return data

    def frequency(i: int, n: int) -> float:
        return FMIN + arguments.width * (i + 0.5) / n

    # what the bank loses
    amplitude = jfstat.Amplitude(h0=SQRT_SX["L1"] / DEPTH, cosi=0.4, psi=0.3, phi0=1.0)
    loud = [
        (jfstat.Doppler(alpha, delta, [frequency(i, SIGNALS), f1dot], reftime), amplitude)
        for i, (alpha, delta, f1dot) in enumerate(directions(centre, 0.95 * radius, arguments.f1dot, SIGNALS, 172))
    ]
    data = timed("data with loud signals", lambda: data_with(loud))
    bank = timed(
        "bank",
        lambda: jfstat.template_bank(
            region=(centre, radius), f1dot=arguments.f1dot, mismatch=arguments.mismatch, data=data
        ),
    )
    statistic = jfstat.Interpolated(arguments.coherent_mismatch)

    def search(data: jfstat.FstatData, top: int | None, threshold: float | None) -> Any:
        return jfstat.search(
            data, bank, statistic, top=top, threshold=threshold, keep=jfstat.Keep(cluster=1.0), progress=False
        )

    found = timed("search", lambda: search(data, 1000, None))
    lost = losses(data, found, [point for point, _ in loud])
    print(f"loud signals lose {lost.mean():.3f} in the mean, {lost.max():.3f} at most", flush=True)

    # weak signals
    isotropic = unit_power(observation, None, 0.0, 4000, 0)[1]
    h0 = strain_exceeding(least.conditions(isotropic, lost), least.n_segments, CONFIDENCE)
    here = jfstat.Population(alpha=float(centre.ra.rad), delta=float(centre.dec.rad))
    own_power = unit_power(observation, here, 0.0, 4000, 0)[1]
    own_h0 = strain_exceeding(least.conditions(own_power, lost), least.n_segments, CONFIDENCE)
    rng = np.random.default_rng(174)
    weak = []
    for i, (alpha, delta, f1dot) in enumerate(directions(centre, 0.95 * radius, arguments.f1dot, arguments.weak, 173)):
        angles = rng.uniform(-1, 1), rng.uniform(-np.pi / 4, np.pi / 4), rng.uniform(0, 2 * np.pi)
        point = jfstat.Doppler(alpha, delta, [frequency(i, arguments.weak), f1dot], reftime)
        weak.append((point, jfstat.Amplitude(own_h0, *angles)))
    del data
    data = timed("data with weak signals", lambda: data_with(weak))
    found = timed("search again, programs compiled", lambda: search(data, None, least.search))
    print(f"{len(found)} candidates", flush=True)
    names = ["freq", "f1dot", "alpha", "delta"]
    refined = timed("refine", lambda: jfstat.refine(data, found, fit=jfstat.Fit(names), progress=False))
    frequencies = np.array([float(point.fkdot[0]) for point, _ in weak])
    start = found["freq"].to_value("Hz")
    at = np.argmin(np.abs(start[:, None] - frequencies), axis=1)
    near = np.abs(start - frequencies[at]) < NEAR
    n_near = int(near.sum())
    value = np.asarray(refined["mean_twoF"])
    truth = np.array([float(jfstat.mean_twoF(data, point)) for point, _ in weak])
    peak = near & (least.n_segments * (value - truth[at]) >= -AT_PEAK)
    in_search = np.unique(at[near])
    at_peak = np.unique(at[peak])
    detected = np.unique(at[peak & (value >= least.refined)])
    print(f"{len(found)} candidates, {n_near} near signals; of {len(weak)} signals {len(in_search)} have any,", end=" ")
    print(f"{len(at_peak)} end at the peak and {len(detected)} above the threshold", flush=True)

    # peaks of noise
    loudest = timed("search for peaks of noise", lambda: search(data, arguments.noise, None))
    apart = np.min(np.abs(loudest["freq"].to_value("Hz")[:, None] - frequencies), axis=1)
    noise = loudest[apart > NEAR]
    peaks = timed(
        "refine noise", lambda: jfstat.refine(data, noise, fit=jfstat.Fit(names), merge=True, progress=False)
    )
    share = len(bank) / least.templates * (1 - 2 * NEAR * len(weak) / arguments.width)
    levels = chi2.isf(np.array(LEVELS) / (share * least.n_refined), 4 * least.n_segments) / least.n_segments
    values = np.asarray(peaks["mean_twoF"])
    seconds = times["refine noise"] / len(noise)
    sums = times["search again, programs compiled"]
    plan = cost(arguments, len(bank), found.meta["n_coherent"] / data.layout.n_frequencies)
    return {
        "device": jax.devices()[0].device_kind,
        "centre_rad": [float(centre.ra.rad), float(centre.dec.rad)],
        "radius_rad": radius,
        "seconds": times,
        "n_templates": len(bank),
        "n_twoF": found.meta["n_twoF"],
        "n_coherent": found.meta["n_coherent"],
        "engine": found.meta["engine"],
        "seconds_a_sum": sums / (found.meta["n_twoF"] * arguments.segments),
        "losses": {"signals": SIGNALS, "mean": float(lost.mean()), "largest": float(lost.max()), "all": lost.tolist()},
        "depth": float(jfstat.sensitivity_depth(observation, h0)),
        "weak_signals": {
            "depth": float(jfstat.sensitivity_depth(observation, own_h0)),
            "expected": CONFIDENCE,
            "signals": len(weak),
            "with_candidates": len(in_search),
            "at_their_peaks": len(at_peak),
            "detected": len(detected),
            "candidates": len(found),
            "of_noise": len(found) - n_near,
            "of_noise_expected": arguments.followed * share,
        },
        "noise": {
            "values": len(noise),
            "lowest_value": float(np.min(loudest["mean_twoF_interpolated"])),
            "peaks": len(peaks),
            "milliseconds_each": 1e3 * seconds,
            "thresholds": levels.tolist(),
            "at_most_expected": list(LEVELS),
            "above": [int(np.sum(values >= level)) for level in levels],
        },
        "whole_search_at_the_speed_of_the_patch": {
            "seconds_sums": (sums - plan["seconds_coherent"]) * least.templates / len(bank),
            "seconds_followed": arguments.followed * seconds,
            "seconds": (sums - plan["seconds_coherent"]) * least.templates / len(bank) + arguments.followed * seconds,
        },
    }


if __name__ == "__main__":
    main()
