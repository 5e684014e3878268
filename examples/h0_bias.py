"""Whether h0 is right where noise floors are estimated, against a matched filter of the same data with known floors.

    python examples/h0_bias.py --seed 2 --output examples/h0_bias.json
    python examples/h0_bias.py --sources 5 --loudness 8 25 --output examples/h0_bias_loud.json

2,016 injections into Gaussian noise, a day of two detectors, at random sky positions, polarisations and frequencies
near 40, 70, 120 and 250 Hz. Signals have a mean power q in an SFT, in units of the noise, of 0.15 and of 2. Floors are
stationary, drift by a factor of 6 in S within the data with some scatter from SFT to SFT, or have a slope of 60 % per
Hz. They are estimated in three ways, and the amplitudes from narrow data, as `search_pulsars` makes them, and from
prepared bands of 0.02 and 0.2 Hz.

Estimates A^mu are compared with the injected ones by A_true M A_estimated / (A_true M A_true), with M from the known
floors: the factor by which all strains, and h0, come out too large. The same of a float64 matched filter with the known
floor of each SFT and bin is subtracted, so that most of the noise cancels. `without` has the same numbers without
`Observation.signal_response`, as they were before there was such a factor; nothing else differs.

tests/data/test_unbiased_amplitude.py runs a few of the cases.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import jfstat  # noqa: E402
from jfstat.data.narrowsfts import narrow_sfts  # noqa: E402
from jfstat.data.observation import reference_time, unweighted  # noqa: E402
from jfstat.sfts.parts import InMemory  # noqa: E402

START, TSFT, DETECTORS, UNIT = 1_167_458_304, 1800, ("H1", "L1"), 1e-24
WAYS = {
    "101 bins": jfstat.Noise(),
    "101 bins, off_source=10": jfstat.Noise(off_source=10),
    "1001 bins": jfstat.Noise(median_bins=1001),
}
"""How floors are estimated."""
BANDS: dict[str, float | None] = {"narrow": None, "prepared, 0.02 Hz": 0.02, "prepared, 0.2 Hz": 0.2}
FLOORS = ("stationary", "drifting", "sloped")
LOUDNESS = (0.15, 2.0)
"""Power of a signal in an SFT over that of the noise."""
NEAR = (40.0, 70.0, 120.0, 250.0)
"""Frequencies of signals, to 0.5 Hz: few, which share compiled programs."""
GUARD = 0.15
HALF_WIDTH = 0.52
"""Guard of the data, and half the width of the SFTs, Hz."""


@dataclass(frozen=True)
class Source:
    """A template, its SFTs without noise for four amplitudes, and these A^mu.

    Attributes
    ----------
    point : jfstat.Doppler
    sfts : jfstat.SFTs
        Empty ones.
    waves : (4, D, S, n_bins) complex128 ndarray
    basis : (4, 4) ndarray
        A^mu of each wave in a row.
    """

    point: jfstat.Doppler
    sfts: jfstat.SFTs
    waves: np.ndarray
    basis: np.ndarray


def random_source(rng: np.random.Generator, days: float) -> Source:
    """Return a source at a random place."""
    f = float(rng.choice(NEAR) + rng.uniform(-0.5, 0.5))
    point = jfstat.Doppler(rng.uniform(0, 2 * np.pi), np.arcsin(rng.uniform(-1, 1)), [f, rng.uniform(-1e-10, 0)], START)
    times = dict.fromkeys(DETECTORS, START + TSFT * np.arange(round(days * 86400 / TSFT)))
    four = [jfstat.Amplitude(UNIT, 0.0, psi, phi0) for psi in (0.0, np.pi / 4) for phi0 in (0.0, np.pi / 2)]
    options: dict[str, Any] = dict(fmin=f - HALF_WIDTH, fmax=f + HALF_WIDTH, timestamps=times, sqrt_sx=None)
    each = [jfstat.simulate_sfts(DETECTORS, signals=[(point, own)], **options) for own in four]
    waves = np.array([[s.data for s in sfts] for sfts in each], complex)
    return Source(point, each[0], waves, np.array([own.canonical for own in four]))


def psd(rng: np.random.Generator, floor: str, shape: tuple[int, int, int], bin_width: float) -> np.ndarray:
    """Return S of each detector, SFT and bin, (D, S, n_bins), relative to 1 on average in the middle."""
    detectors, n, bins = shape
    size = np.array([1.0, 2.0])[:detectors, None, None] * np.ones(shape)
    if floor == "drifting":
        ramp = 6 ** (rng.choice([-1, 1], (detectors, 1)) * np.linspace(-0.5, 0.5, n))
        return size * (ramp * rng.uniform(0.7, 1.3, (detectors, n)))[:, :, None]
    if floor == "sloped":
        return size * (1 + rng.choice([-0.6, 0.6]) * bin_width * (np.arange(bins) - 0.5 * bins))
    return size


def case(
    rng: np.random.Generator,
    source: Source,
    floor: str,
    loudness: float,
    ways: dict[str, jfstat.Noise] = WAYS,
    bands: dict[str, float | None] = BANDS,
) -> dict[tuple[str, str], tuple[float, float]]:
    """Return by how much strains come out too large, with and without the response, by way and band."""
    detectors, n, bins = source.waves.shape[1:]
    s = UNIT**2 * psd(rng, floor, (detectors, n, bins), 1 / TSFT)
    white = source.waves / np.sqrt(0.25 * TSFT * s)  # SFTs' real and imaginary parts have a variance of Tsft S / 4
    four = white.reshape(4, -1)
    fisher = np.real(four.conj() @ four.T)  # in coefficients of the waves
    cosi, psi, phi0 = rng.uniform(-1, 1), rng.uniform(-np.pi / 4, np.pi / 4), rng.uniform(0, 2 * np.pi)
    true = np.linalg.solve(source.basis.T, np.array(jfstat.Amplitude(UNIT, cosi, psi, phi0).canonical))
    true *= np.sqrt(2 * loudness * detectors * n / (true @ fisher @ true))
    noise = rng.standard_normal((detectors, n, bins, 2)) @ [1, 1j]
    known = np.linalg.solve(fisher, np.real(four.conj() @ (true @ four + noise.reshape(-1))))
    data = noise * np.sqrt(0.25 * TSFT * s) + np.tensordot(true, source.waves, 1)
    series = [replace(x, data=own.astype(np.complex64)) for x, own in zip(source.sfts, data, strict=True)]
    sfts = replace(source.sfts, series=tuple(series))

    def excess(own: Any) -> tuple[float, float]:
        """Return the two factors less 1 for estimates from some data."""
        found = jfstat.estimate_amplitude(own, source.point)
        estimate = np.linalg.solve(source.basis.T, np.asarray(found.canonical))
        rho2 = float(jfstat.twoF(own, source.point)) - 4
        response = np.sqrt(float(own.observation.level(rho2)) / float(own.observation.sinv_tsft))
        size = true @ fisher @ true
        return tuple(float((true @ fisher @ (estimate * x - known)) / size) for x in (1.0, response))

    return {
        (way, band): excess(reduced(sfts, source.point, own, width))
        for way, own in ways.items()
        for band, width in bands.items()
    }


def reduced(sfts: jfstat.SFTs, point: jfstat.Doppler, noise: jfstat.Noise, width: float | None) -> Any:
    """Return narrow data around a template, or the prepared band of some width around it."""
    if width is not None:
        f = float(point.fkdot[0])
        return jfstat.prepare(sfts, f - width / 2, f + width / 2, START, noise, guard=GUARD, filters=False)
    seen = unweighted(sfts, reference_time(START, sfts.start), "DE405")
    return narrow_sfts(InMemory(sfts), [point], seen, noise, GUARD)[0]


Row = tuple[str, float, dict[tuple[str, str], Any]]


def cases(number: int, days: float, seed: int, loudnesses: Sequence[float]) -> list[Row]:
    """Return the floor, loudness and result of four injections of each kind for one source."""
    rng = np.random.default_rng([seed, number])
    source = random_source(rng, days)
    kinds = [(floor, loudness) for floor in FLOORS for loudness in loudnesses for _ in range(4)]
    return [(floor, loudness, case(rng, source, floor, loudness)) for floor, loudness in kinds]


def summary(rows: list[Row]) -> list[dict[str, Any]]:
    """Return mean and error of each kind and, first, of all floors together."""
    result = []
    for loudness in dict.fromkeys(q for _, q, _ in rows):
        for way in WAYS:
            for band in BANDS:
                for floors in (FLOORS, *((floor,) for floor in FLOORS)):
                    x = np.array([own[way, band] for f, q, own in rows if f in floors and q == loudness])
                    if len(x) < 2:
                        continue
                    mean, error = 1 + x.mean(axis=0), x.std(axis=0, ddof=1) / np.sqrt(len(x))
                    result.append(
                        {
                            "q": loudness,
                            "noise": way,
                            "data": band,
                            "floors": "all" if len(floors) > 1 else floors[0],
                            "ratio": round(float(mean[0]), 5),
                            "error": round(float(error[0]), 5),
                            "without": round(float(mean[1]), 5),
                        }
                    )
    return result


def main() -> None:
    """Compute all cases, print those of all floors together, and write all to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--sources", type=int, default=84, help="number of sources, with 24 injections each")
    parser.add_argument("--days", type=float, default=1.0)
    parser.add_argument("--loudness", type=float, nargs="+", default=LOUDNESS, help="mean power of signals in an SFT")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    one = partial(cases, days=given.days, seed=given.seed, loudnesses=given.loudness)
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        rows = [row for some in pool.imap(one, range(given.sources)) for row in some]
    found = summary(rows)
    if given.output:
        loud = " ".join(f"{q:g}" for q in given.loudness)
        command = f"python examples/h0_bias.py --sources {given.sources} --days {given.days:g} --loudness {loud}"
        command += f" --seed {given.seed} --output {given.output}"
        figures = {"command": command, "injections": len(rows), "ratios of amplitudes": found}
        given.output.write_text(json.dumps(figures, indent=1) + "\n")
    for line in found:
        if line["floors"] == "all":
            print(line)


if __name__ == "__main__":
    main()
