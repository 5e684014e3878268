"""The all-sky search of 171-172 Hz over segments of 10 d of O2 (Wette et al. 2021) in outline: its plan, cost, a patch.

    python examples/one_hertz_search.py                                # the plan of the whole search
    python examples/one_hertz_search.py --run --output one_hertz.json  # a patch of the sky, really, on a GPU
    python examples/one_hertz_search.py --run --segments 37 --days 7 --coherent-mismatch 0.05  # another set-up

Wette et al. 2021, Phys. Rev. D 103, 083020, is the search for which the paper's implementation was written. Here: 26
segments of 10 d of H1 and L1 with O2's duty factors, 1 Hz, interpolating, with mismatches and a range of f1dot that are
options: numbers of templates are proportional to the range. Templates are counted by the lattices' volume; that parts
of a search need some of the segments' templates several times is left out. Seconds are from costs measured on an H200
(docs/performance.md): `SUM` for each template, segment and frequency, `NEAREST` for each template and segment, and
`COHERENT` for each coherent 2F value and detector.

``--run`` simulates Gaussian noise with signals in a disc of the sky of about ``--templates`` templates, searches it,
and says what it predicted, what it took, and what the signals lose. From their mean loss follows the depth that the
whole search reaches, to be compared with other set-ups' (`jfstat.search_setups` takes losses by the mismatches
instead). ``--width`` and ``--segments`` make it smaller.
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
from astropy.coordinates import SkyCoord  # noqa: E402
from omega_centauri import timestamps  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import written_to  # noqa: E402
from jfstat.data.memory import FLOAT32  # noqa: E402
from jfstat.data.observation import Observation  # noqa: E402
from jfstat.limits.analytic import strain_exceeding, unit_power  # noqa: E402
from jfstat.maths.lattices import expected_points  # noqa: E402
from jfstat.metrics.phasemetric import factor  # noqa: E402
from jfstat.searching.setups import threshold_of_mean  # noqa: E402

START, DAY = 1167458304, 86400
FMIN = 171.0
SQRT_SX = {"H1": 8e-24, "L1": 7e-24}
"""Noise floors of O2 at 171 Hz, about, 1/sqrt(Hz)."""
DEPTH = 20.0
"""sqrt(S)/h0 of the injected signals, 1/sqrt(Hz): so loud that noise hardly changes what they lose."""
SIGNALS = 20
"""Number of injected signals."""
APART = 1e-3
"""Largest difference between a signal's frequency and that of its loudest template, Hz."""
FALSE_ALARM, CONFIDENCE = 0.01, 0.95
"""Of the whole search, and of the signals of which `depth` says how weak they may be."""
SUM = 1.5e-13
"""s a template, segment and frequency, including the overhead of a search: 26 segments of 10 d, 1 Hz."""
NEAREST = 1e-8
"""s a template and segment: the nearest points of the segments' lattices."""
COHERENT = 6.2e-11
"""s a value and detector of a segment's 2F by the library, 10 d."""
WEAVE = (4.3e-10, 2.1e-7)
"""LALSuite's Weave on one core, as measured by one_hertz_weave.py for 1 Hz: s a template, segment and frequency, the
mean over segments and the list of candidates included, and s a coherent value of both detectors."""
ROOM = 0.4 * 140e9
"""Memory for the segments' values on an H200, bytes."""


def expected(observation: Observation, arguments: argparse.Namespace, mismatch: float) -> float:
    """Number of templates of a lattice over the whole sky and the range of f1dot: their volume by that of a cell.

    Of the sky's metric, with the factor R in the three components of a unit vector n, an area of the sky counts with
    det(R) |R^-T n|.
    """
    low, high = arguments.f1dot
    r = factor(observation, 1, observation.reftime.common, FMIN + arguments.width)
    sky = r[2:, 2:]
    n = np.random.default_rng(1).normal(size=(10000, 3))
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    stretch = abs(np.linalg.det(sky)) * np.linalg.norm(np.linalg.solve(sky.T, n.T), axis=0)
    volume = 4 * np.pi * np.mean(stretch) * abs(r[1, 1]) * (high - low)
    return expected_points(float(np.log(volume)), 3, float(np.sqrt(mismatch)))


def spacing(arguments: argparse.Namespace) -> float:
    """Return the spacing of frequencies, Hz."""
    return arguments.spacing / (2 * arguments.days * DAY)


def cost(arguments: argparse.Namespace, fine: float, coherent: float) -> dict[str, float]:
    """Values, memory and seconds of a search with so many templates, and with so many of the segments' in all."""
    n_frequencies = arguments.width / spacing(arguments)
    sums = fine * arguments.segments * n_frequencies
    seconds = {
        "seconds_sums": SUM * sums,
        "seconds_nearest": NEAREST * fine * arguments.segments,
        "seconds_coherent": COHERENT * 2 * coherent * n_frequencies,
    }
    return {
        "templates": fine,
        "coherent_templates": coherent,
        "frequencies": n_frequencies,
        "sums": sums,
        "coherent_values": coherent * n_frequencies,
        "bytes_of_coherent_values": FLOAT32 * coherent * n_frequencies,
        "parts": FLOAT32 * coherent * n_frequencies / ROOM,
        **seconds,
        "seconds": sum(seconds.values()),
        "seconds_of_weave_on_a_core": WEAVE[0] * sums + WEAVE[1] * coherent * n_frequencies,
    }


def say(plan: dict[str, float]) -> None:
    """Print a plan."""
    seconds, theirs = plan["seconds"], plan["seconds_of_weave_on_a_core"]
    print(f"{plan['templates']:.3g} templates and {plan['coherent_templates']:.3g} of the segments,")
    print(f"each at {plan['frequencies']:.3g} frequencies: {plan['sums']:.3g} sums of values of segments,")
    print(f"{plan['coherent_values']:.3g} such values, {plan['bytes_of_coherent_values']:.3g} bytes")
    print(f"in {max(plan['parts'], 1):.0f} part(s) of a GPU's memory")
    print(f"seconds on one H200: {plan['seconds_sums']:.3g} for the sums,", end=" ")
    print(f"{plan['seconds_nearest']:.3g} for the nearest points and", end=" ")
    print(f"{plan['seconds_coherent']:.3g} for the values, together {seconds / 86400:.3g} d")
    print(f"seconds of Weave on one core: {theirs:.3g} ({theirs / seconds:.0f} times as many)")


def edges(arguments: argparse.Namespace) -> list[tuple[float, float]]:
    """Starts and ends of the segments."""
    length = arguments.days * DAY
    return [(START + i * length, START + (i + 1) * length) for i in range(arguments.segments)]


def simulated(arguments: argparse.Namespace, signals: list[Any], guard: float, noise: bool) -> jfstat.FstatData:
    """Segments of SFTs as of O2; without noise for the plan, which needs their times alone."""
    days = arguments.segments * arguments.days
    f, width = (FMIN, arguments.width) if noise else (FMIN + arguments.width - 0.01, 0.01)
    reach = guard + 1.2e-4 * (f + width) + 0.01
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"],
        timestamps=timestamps(days),
        fmin=f - reach,
        fmax=f + width + reach,
        sqrt_sx=SQRT_SX if noise else None,
        signals=signals,
        seed=3,
    )
    reftime = START + days * DAY / 2
    how: dict[str, Any] = dict(segments=edges(arguments), fdots=[arguments.f1dot], dfreq=spacing(arguments))
    return jfstat.prepare(sfts, f, f + width, reftime, sqrt_sx=SQRT_SX, guard=guard, filters=noise, **how)


def disc_of(arguments: argparse.Namespace, density: float) -> tuple[Any, float]:
    """A disc at a random place with so many templates, for a density of templates per steradian."""
    rng = np.random.default_rng(171)
    centre: Any = SkyCoord(rng.uniform(0, 2 * np.pi), np.arcsin(rng.uniform(-1, 1)), unit="rad")
    return centre, float(np.sqrt(arguments.templates / density / np.pi))


def position(rng: np.random.Generator, centre: Any, radius: float) -> tuple[float, float]:
    """A random position in a disc, rad."""
    turn, away = rng.uniform(0, 2 * np.pi), radius * np.sqrt(rng.uniform())
    place: Any = centre.directional_offset_by(turn * units.rad, away * units.rad)
    return float(place.ra.rad), float(place.dec.rad)


def losses(data: jfstat.FstatData, found: Any, points: list[jfstat.Doppler]) -> np.ndarray:
    """Return what signals lose of rho^2 between their own templates and the loudest near their frequencies."""
    loudest = found.meta["loudest_per_subband"]
    low, high = np.array(loudest["start"]), np.array(loudest["stop"])
    apart = min(APART, 0.3 * (high.max() - low.min()) / len(points))  # of other signals
    lost = []
    for point in points:
        f, own = float(point.fkdot[0]), float(jfstat.mean_twoF(data, point))
        near = (high > f - apart) & (low < f + apart)
        lost.append(1 - (np.max(np.array(loudest["twoF"])[near]) - 4) / (own - 4))
    return np.array(lost)


def depth(observation: Observation, n_values: float, lost: float) -> float:
    """Return the depth sqrt(S)/h0 of which 95 % of signals exceed a threshold of so many values, as `search_setups`
    does."""
    n_segments = observation.n_segments or 1
    threshold = threshold_of_mean(FALSE_ALARM, n_values, n_segments)
    _, power = unit_power(observation, None, 0.0, 4000, 0)
    h0 = strain_exceeding([(threshold, power * (1 - lost))], n_segments, CONFIDENCE)
    return float(jfstat.sensitivity_depth(observation, h0))


def run(arguments: argparse.Namespace, observation: Observation) -> dict[str, Any]:
    """Search a disc of the sky, and compare what it takes with the prediction."""
    whole = expected(observation, arguments, arguments.mismatch)
    centre, radius = disc_of(arguments, whole / (4 * np.pi))
    rng = np.random.default_rng(172)
    reftime = observation.reftime.common
    amplitude = jfstat.Amplitude(h0=SQRT_SX["L1"] / DEPTH, cosi=0.4, psi=0.3, phi0=1.0)
    signals = []
    for i in range(SIGNALS):
        alpha, delta = position(rng, centre, radius)
        f = FMIN + arguments.width * (i + rng.uniform(0.3, 0.7)) / SIGNALS
        spins = [f, float(rng.uniform(*arguments.f1dot))]
        signals.append((jfstat.Doppler(alpha, delta, spins, reftime), amplitude))
    times = {}

    def done(name: str, began: float) -> None:
        times[name] = time.perf_counter() - began
        print(f"{name}: {times[name]:.1f} s", flush=True)

    began = time.perf_counter()
    data = simulated(arguments, signals, arguments.guard, True)
    jax.block_until_ready(data.series)
    done("simulation and preparation", began)
    began = time.perf_counter()
    bank = jfstat.template_bank(region=(centre, radius), f1dot=arguments.f1dot, mismatch=arguments.mismatch, data=data)
    done("bank", began)
    statistic = jfstat.Interpolated(arguments.coherent_mismatch)
    found: Any = None
    for name in ("search", "search again, programs compiled"):
        began = time.perf_counter()
        found = jfstat.search(data, bank, statistic, top=1000, progress=False)
        done(name, began)
    meta = found.meta
    n_frequencies = data.layout.n_frequencies
    plan = cost(arguments, meta["n_templates"], meta["n_coherent"] / n_frequencies)
    lost = losses(data, found, [point for point, _ in signals])
    print(f"the {SIGNALS} signals lose {lost.mean():.3f} of rho^2 in the mean and {lost.max():.3f} at most")
    return {
        "device": jax.devices()[0].device_kind,
        "centre_rad": [float(centre.ra.rad), float(centre.dec.rad)],
        "radius_rad": radius,
        "seconds": times,
        "n_templates": meta["n_templates"],
        "n_twoF": meta["n_twoF"],
        "n_coherent": meta["n_coherent"],
        "engine": meta["engine"],
        "seconds_a_sum": times["search again, programs compiled"] / (meta["n_twoF"] * arguments.segments),
        "predicted": plan,
        "expected_templates_without_edges": arguments.templates,
        "losses": {"signals": SIGNALS, "mean": float(lost.mean()), "largest": float(lost.max())},
        "depth": depth(observation, whole * n_frequencies, float(lost.mean())),
    }


def options_of(doc: str | None, mismatch: float, templates: float) -> argparse.ArgumentParser:
    """The options of searches of 1 Hz and of a patch, with their defaults of a bank's mismatch and a patch's size."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--segments", type=int, default=26)
    parser.add_argument("--days", type=float, default=10.0, help="length of a segment, d")
    parser.add_argument("--width", type=float, default=1.0, help="of the band from 171 Hz on, Hz")
    parser.add_argument("--f1dot", type=float, default=-1e-11, help="lowest, as in --f1dot=-1e-11; up to 0, Hz/s")
    parser.add_argument("--spacing", type=float, default=1.0, help="of frequencies, 1/(2T), T the length of a segment")
    parser.add_argument("--mismatch", type=float, default=mismatch)
    parser.add_argument("--coherent-mismatch", type=float, default=0.2)
    parser.add_argument("--templates", type=float, default=templates, help="with --run: of the patch, about")
    parser.add_argument("--guard", type=float, default=0.3, help="with --run: width of the SFTs beyond the band, Hz")
    parser.add_argument("--run", action="store_true", help="search a patch of the sky")
    parser.add_argument("--output", type=Path, help="JSON file")
    return parser


def write(result: dict[str, Any], output: Path | None) -> None:
    """Print a result, and write it to a JSON file if there is one."""
    text = json.dumps(result, indent=1)
    print(text)
    if output:
        written_to(output, (text + "\n").encode())


def main() -> None:
    parser = options_of(__doc__, mismatch=0.3, templates=1e5)
    arguments = parser.parse_args()
    arguments.f1dot = (arguments.f1dot, 0.0)
    observation = simulated(arguments, [], 0.05, False).observation
    fine = expected(observation, arguments, arguments.mismatch)
    each = [
        expected(observation.segment(i), arguments, arguments.coherent_mismatch)
        for i in range(observation.n_segments or 0)
    ]
    plan = cost(arguments, fine, sum(each))
    print(f"{arguments.segments} segments of {arguments.days:g} d, {FMIN:g} Hz and {arguments.width:g} Hz more,")
    print(f"all sky, f1dot {arguments.f1dot[0]:g} to {arguments.f1dot[1]:g} Hz/s:")
    say(plan)
    result: dict[str, Any] = {
        "command": " ".join(["one_hertz_search.py", *sys.argv[1:]]),
        "jfstat": jfstat.__version__,
        "settings": {k: v for k, v in vars(arguments).items() if k not in ("output", "run")},
        "plan": plan,
        "refinement": fine * arguments.segments / sum(each),
    }
    if arguments.run:
        result["patch"] = run(arguments, observation)
        own = result["patch"]
        result["whole_search_at_the_speed_of_the_patch"] = {
            # the patch has many more of the segments' templates for each of its own
            "seconds": plan["seconds_coherent"]
            + (own["seconds"]["search again, programs compiled"] - own["predicted"]["seconds_coherent"])
            * fine
            / own["n_templates"],
            "coherent_templates": fine * own["n_coherent"] / plan["frequencies"] / own["n_templates"],
        }
    write(result, arguments.output)


if __name__ == "__main__":
    main()
