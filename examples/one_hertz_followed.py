"""The search of one_hertz_search.py by a coarse bank whose candidates are all followed up: its cost, depth, efficiency.

    python examples/one_hertz_followed.py                                           # thresholds of the whole search
    python examples/one_hertz_followed.py --run --output one_hertz_followed.json    # a patch of the sky, on a GPU

A search that claims a detection from its loudest value needs a fine bank. If all its candidates are refined, including
thousands that are only noise, the bank may be coarse: what counts is the mean of 2F at the peak next to a candidate,
where nothing is lost, and the search need only put a candidate near it (`jfstat.search_setups`, `followed`). The whole
search here may have ``--followed`` candidates of noise, and the patch its share of them.

``--run`` searches the same patch three times. Loud signals show what the bank and the segments' lattices lose; from
this follows the depth at which 95 % of signals should pass both thresholds. Then weak signals seen edge-on, with random
polarisation angles, are searched, as strong as the thresholds say for 95 % of them, their candidates refined, and those
that pass counted. (Among signals of random orientation the strongest would fill the table.) Finally noise alone is
searched, which is timed, its ``--noise`` loudest values are refined, and the peaks above several lower levels are
counted, beside the most that should exceed each. The time of the whole search leaves out the segments' own values,
which take a minute there and more in a patch, where each template needs more of them.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402
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
    options_of,
    position,
    simulated,
    spacing,
    write,
)
from scipy.stats import chi2  # noqa: E402

import jfstat  # noqa: E402
from jfstat.data.observation import Observation  # noqa: E402
from jfstat.limits.analytic import strain_exceeding, unit_power  # noqa: E402
from jfstat.searching.setups import (  # noqa: E402
    REFINED_MISMATCH,
    mean_exceeded_by,
    refined_values,
    threshold_of_mean,
)

NEAR = 1e-3
"""Largest distance of a signal's candidates from its frequency, Hz: other positions shift it."""
AT_PEAK = 0.5
"""A refined candidate is the signal's if the sum of 2F over segments is at least that at the signal less this."""
MOST = 20000
"""Largest number of values of the search that are kept before they are clustered."""
MOST_REFINED = 6000
"""Largest number of candidates that are refined."""
LEVELS = (1000.0, 300.0, 100.0, 30.0, 10.0)
"""Peaks of noise are counted above thresholds that at most so many should exceed in the patch."""


class Thresholds:
    """Thresholds of the whole search and, for a patch that is a share of it, what noise does above others."""

    def __init__(self, arguments: argparse.Namespace, observation: Observation):
        self.n_segments = observation.n_segments or 1
        n_frequencies = arguments.width / spacing(arguments)
        self.templates = expected(observation, arguments, arguments.mismatch)
        self.n_values = self.templates * n_frequencies
        usual = arguments.width * 2 * arguments.days * 86400
        self.n_refined = refined_values(expected(observation, arguments, REFINED_MISMATCH), usual)
        self.search = mean_exceeded_by(arguments.followed, self.n_values, self.n_segments)
        self.refined = threshold_of_mean(FALSE_ALARM, self.n_refined, self.n_segments)

    def conditions(self, power: np.ndarray, lost: np.ndarray) -> list[tuple[float, np.ndarray]]:
        """What signals that lose so much must exceed in the search and at their peaks."""
        seen = power * (1 - np.random.default_rng(0).choice(lost, len(power)))
        return [(self.search, seen), (self.refined, power)]


def main() -> None:
    parser = options_of(__doc__, mismatch=0.95, templates=1e6)
    parser.add_argument("--followed", type=float, default=1e6, help="candidates of noise of the whole search")
    parser.add_argument("--weak", type=int, default=100, help="with --run: number of weak signals")
    parser.add_argument("--noise", type=int, default=2000, help="with --run: loudest values whose peaks are counted")
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
        result["patch"] = run(arguments, observation, least)
    write(result, arguments.output)


class Patch:
    """A disc of the sky that is searched, and how long each step takes."""

    def __init__(self, arguments: argparse.Namespace, observation: Observation, least: Thresholds):
        self.arguments, self.observation, self.least = arguments, observation, least
        self.centre, self.radius = disc_of(arguments, least.templates / (4 * np.pi))
        self.times: dict[str, float] = {}
        self.bank: Any = None

    def timed(self, name: str, work: Any) -> Any:
        """Do something, and say and note how long it takes."""
        began = time.perf_counter()
        result = work()
        self.times[name] = time.perf_counter() - began
        print(f"{name}: {self.times[name]:.1f} s", flush=True)
        return result

    def signals(self, n: int, seed: int, amplitude: Any) -> list[Any]:
        """Signals at random positions within the disc, evenly spread over the band; `amplitude` makes each one's."""
        rng = np.random.default_rng(seed)
        made = []
        for i in range(n):
            alpha, delta = position(rng, self.centre, 0.95 * self.radius)
            spins = [FMIN + self.arguments.width * (i + 0.5) / n, float(rng.uniform(*self.arguments.f1dot))]
            made.append((jfstat.Doppler(alpha, delta, spins, self.observation.reftime.common), amplitude(rng)))
        return made

    def data(self, name: str, signals: list[Any]) -> jfstat.FstatData:
        """Noise with signals, prepared."""

        def made() -> jfstat.FstatData:
            data = simulated(self.arguments, signals, self.arguments.guard, True)
            jax.block_until_ready(data.series)
            return data

        return self.timed(f"data with {name}", made)

    def lay_bank(self, data: jfstat.FstatData) -> None:
        """Lay the bank, which all searches share."""
        how: dict[str, Any] = dict(mismatch=self.arguments.mismatch, f1dot=self.arguments.f1dot, data=data)
        self.bank = self.timed("bank", lambda: jfstat.template_bank(region=(self.centre, self.radius), **how))

    def search(self, name: str, data: jfstat.FstatData, top: int, threshold: float | None = None) -> Any:
        """Search the disc."""
        how: dict[str, Any] = dict(top=top, threshold=threshold, keep=jfstat.Keep(cluster=1.0), progress=False)
        statistic = jfstat.Interpolated(self.arguments.coherent_mismatch)
        return self.timed(f"search of {name}", lambda: jfstat.search(data, self.bank, statistic, **how))

    def refine(self, name: str, data: jfstat.FstatData, found: Any, merge: bool) -> Any:
        """Refine candidates in all four parameters."""
        fit = jfstat.Fit(["freq", "f1dot", "alpha", "delta"])
        return self.timed(f"refine {name}", lambda: jfstat.refine(data, found, fit=fit, merge=merge, progress=False))


def run(arguments: argparse.Namespace, observation: Observation, least: Thresholds) -> dict[str, Any]:
    """Search a disc of the sky with loud signals, with weak ones and without; refine candidates of the latter two."""
    patch = Patch(arguments, observation, least)
    loud = patch.signals(SIGNALS, 172, lambda rng: jfstat.Amplitude(SQRT_SX["L1"] / DEPTH, cosi=0.4, psi=0.3, phi0=1.0))
    data = patch.data("loud signals", loud)
    patch.lay_bank(data)
    found = patch.search("loud signals, with compilation", data, 1000)
    lost = losses(data, found, [point for point, _ in loud])
    del data
    print(f"loud signals lose {lost.mean():.3f} in the mean, {lost.max():.3f} at most", flush=True)
    isotropic = unit_power(observation, None, 0.0, 4000, 0)[1]
    h0 = strain_exceeding(least.conditions(isotropic, lost), least.n_segments, CONFIDENCE)
    weak = weak_signals(patch, lost)
    noise = peaks_of_noise(patch)
    each = noise["milliseconds_each"] / 1e3
    searching = (patch.times["search of noise"] - noise["seconds_coherent"]) * least.templates / len(patch.bank)
    return {
        "device": jax.devices()[0].device_kind,
        "centre_rad": [float(patch.centre.ra.rad), float(patch.centre.dec.rad)],
        "radius_rad": patch.radius,
        "seconds": patch.times,
        "n_templates": len(patch.bank),
        "n_twoF": found.meta["n_twoF"],
        "n_coherent": found.meta["n_coherent"],
        "engine": found.meta["engine"],
        "seconds_a_sum": patch.times["search of noise"] / (found.meta["n_twoF"] * arguments.segments),
        "losses": {"signals": SIGNALS, "mean": float(lost.mean()), "largest": float(lost.max()), "all": lost.tolist()},
        "depth": float(jfstat.sensitivity_depth(observation, h0)),
        "weak_signals": weak,
        "noise": noise,
        "whole_search_at_the_speed_of_the_patch": {
            "seconds_search": searching,
            "seconds_followed": arguments.followed * each,
            "seconds": searching + arguments.followed * each,
        },
    }


def weak_signals(patch: Patch, lost: np.ndarray) -> dict[str, Any]:
    """How many signals pass both thresholds that are as strong as 95 % of them should be."""
    arguments, least = patch.arguments, patch.least
    centre = patch.centre
    here = jfstat.Population(alpha=float(centre.ra.rad), delta=float(centre.dec.rad), cosi=0.0)
    power = unit_power(patch.observation, here, 0.0, 4000, 0)[1]
    h0 = strain_exceeding(least.conditions(power, lost), least.n_segments, CONFIDENCE)

    def edge_on(rng: np.random.Generator) -> jfstat.Amplitude:
        return jfstat.Amplitude(h0, 0.0, rng.uniform(-np.pi / 4, np.pi / 4), rng.uniform(0, 2 * np.pi))

    signals = patch.signals(arguments.weak, 173, edge_on)
    data = patch.data("weak signals", signals)
    found = patch.search("weak signals", data, MOST, least.search)
    print(f"{len(found)} candidates", flush=True)
    if len(found) > MOST_REFINED:
        raise SystemExit(f"more than {MOST_REFINED} candidates: give fewer signals, or a smaller --followed.")
    refined = patch.refine("candidates of weak signals", data, found, False)
    frequencies = np.array([float(point.fkdot[0]) for point, _ in signals])
    start, value = found["freq"].to_value("Hz"), np.asarray(refined["mean_twoF"])
    nearest = np.argmin(np.abs(start[:, None] - frequencies), axis=1)
    near = np.abs(start - frequencies[nearest]) < NEAR
    truth = np.array([float(jfstat.mean_twoF(data, point)) for point, _ in signals])
    peak = near & (least.n_segments * (value - truth[nearest]) >= -AT_PEAK)
    numbers = {
        "depth": float(jfstat.sensitivity_depth(patch.observation, h0)),
        "expected": CONFIDENCE,
        "signals": len(signals),
        "with_candidates": len(np.unique(nearest[near])),
        "at_their_peaks": len(np.unique(nearest[peak])),
        "detected": len(np.unique(nearest[peak & (value >= least.refined)])),
        "candidates": len(found),
        "of_noise": int(np.sum(~near)),
        "of_noise_detected": int(np.sum(~near & (value >= least.refined))),
    }
    print(numbers, flush=True)
    return numbers


def peaks_of_noise(patch: Patch) -> dict[str, Any]:
    """How many peaks of noise exceed thresholds that at most so many should exceed."""
    arguments, least = patch.arguments, patch.least
    data = patch.data("noise", [])
    found = patch.search("noise", data, arguments.noise)
    peaks = patch.refine("candidates of noise", data, found, True)
    share = len(patch.bank) / least.templates
    levels = chi2.isf(np.array(LEVELS) / (share * least.n_refined), 4 * least.n_segments) / least.n_segments
    values = np.asarray(peaks["mean_twoF"])
    plan = cost(arguments, len(patch.bank), found.meta["n_coherent"] / data.layout.n_frequencies)
    return {
        "candidates": len(found),
        "lowest_value": float(np.min(found["mean_twoF_interpolated"])),
        "above_threshold_of_search": int(np.sum(found["mean_twoF_interpolated"] >= least.search)),
        "above_threshold_of_search_expected": arguments.followed * share,
        "peaks": len(peaks),
        "milliseconds_each": 1e3 * patch.times["refine candidates of noise"] / len(found),
        "thresholds": levels.tolist(),
        "at_most_expected": list(LEVELS),
        "above": [int(np.sum(values >= level)) for level in levels],
        "seconds_coherent": plan["seconds_coherent"],
    }


if __name__ == "__main__":
    main()
