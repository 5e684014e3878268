"""Detection efficiency for signals whose frequency wanders: Viterbi tracks beside the summed and the coherent search.

    python examples/tracking_injections.py

Signals of four strengths jump by up to a bin from one segment to the next ("wandering") or keep their frequency
("steady"), each in a band of its own, with a new phase in each segment if it wanders. A detection is a band whose
loudest value exceeds that of 99 % of as wide bands of noise, by each of three statistics at the same sky position:

- the log-likelihood of the best path through the segments, all jumps of up to a bin equally likely;
- the largest mean over segments of 2F, at one frequency;
- the largest 2F of all data.
"""

import argparse
import json
import os
import shlex
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jfstat

JSON = Path(__file__).with_suffix(".json")
START, SEGMENTS, LENGTH = 1_167_458_304, 12, 43200
STEP = 1 / (2 * LENGTH)
SKY = (4.276, -0.273)
NOISE = 1e-23
STRENGTHS = [2.5e-25, 3.2e-25, 4.0e-25, 5.0e-25]
WIDTH = 0.004
"""Width of a band, Hz."""
FALSE_ALARM = 0.01


def template():
    return jfstat.Doppler(*SKY, [50.0], START)


def prepared(sfts, low, high):
    """The data as segments and as a whole."""
    how = dict(sqrt_sx=NOISE, guard=0.1)
    return jfstat.prepare(sfts, low, high, segments=SEGMENTS, **how), jfstat.prepare(sfts, low, high, **how)


def loudest(data, low, n_bands):
    """The three statistics of each band."""
    segments, whole = data
    table = np.asarray(jfstat.twoF_by_segment(segments, template()))
    coherent = np.asarray(jfstat.twoF_band(whole, template()))
    path = jax.jit(lambda x: jfstat.viterbi(x / 2).log_likelihood)
    found = {"viterbi": [], "summed": [], "coherent": []}
    for i in range(n_bands):
        bands = [
            slice(int(np.searchsorted(f, low + i * WIDTH)), int(np.searchsorted(f, low + (i + 1) * WIDTH)))
            for f in (segments.frequencies, whole.frequencies)
        ]
        width = int(WIDTH / STEP)  # all of the same size
        own = table[:, bands[0].start : bands[0].start + width]
        found["viterbi"].append(float(path(jnp.asarray(own))))
        found["summed"].append(float(own.mean(axis=0).max()))
        found["coherent"].append(float(coherent[bands[1]].max()))
    return {name: np.array(values) for name, values in found.items()}


def injected(kind, n_each, seed):
    """Data with signals in the middles of bands, and the strength of each."""
    random = np.random.default_rng(seed)
    n = n_each * len(STRENGTHS)
    low = 50.0
    strength = np.repeat(np.arange(len(STRENGTHS)), n_each)
    first = low + WIDTH * (np.arange(n) + 0.5) + STEP * random.uniform(-0.5, 0.5, n)
    jumps = STEP * random.integers(-1, 2, (SEGMENTS - 1, n)) * (kind == "wandering")
    frequency = np.concatenate([[first], first + np.cumsum(jumps, axis=0)])
    phase = random.uniform(0, 2 * np.pi, (SEGMENTS, n))
    high = low + WIDTH * n
    parts = []
    for k in range(SEGMENTS):
        own = phase[k if kind == "wandering" else 0]
        signals = [
            (jfstat.Doppler(*SKY, [f], START), jfstat.Amplitude(STRENGTHS[s], 0.3, 0.2, p))
            for f, s, p in zip(frequency[k], strength, own, strict=True)
        ]
        begin = START + k * LENGTH
        parts.append(
            jfstat.simulate_sfts(
                ["H1", "L1"], begin, LENGTH, low - 0.15, high + 0.15, sqrt_sx=NOISE, signals=signals,
                seed=1000 * seed + k,
            )
        )  # fmt: skip
    return loudest(prepared(jfstat.join_sfts(parts), low, high), low, n), strength


def of_tables(n_segments, rho2, n_tables, wandering, random):
    """Statistics of simulated tables of 2F alone, for more segments: those of Viterbi tracks and of the mean.

    Noise is white and the antenna patterns constant; rho2 is of a segment, at the signal's own frequency.
    """
    n, found = int(WIDTH / STEP), {"viterbi": [], "summed": []}
    best = jax.jit(lambda x: jfstat.viterbi(x / 2).log_likelihood)
    time_ = np.arange(n)
    for _ in range(n_tables):
        jumps = random.integers(-1, 2, n_segments) * wandering
        f = n / 2 + random.uniform(-0.5, 0.5) + np.cumsum(jumps)
        z = random.standard_normal((2, n_segments, n, 2)).view(complex)[..., 0]
        amplitude = random.standard_normal((2, n_segments, 2)).view(complex)[..., 0]
        amplitude *= np.sqrt(rho2 / np.sum(np.abs(amplitude) ** 2, axis=0)) / np.sqrt(n)
        z += amplitude[..., None] * np.exp(1j * np.pi * f[:, None] * time_ / n)
        spectra = np.fft.fft(z, 2 * n)[..., :n] / np.sqrt(n)
        table = np.sum(np.abs(spectra) ** 2, axis=0)
        found["viterbi"].append(float(best(jnp.asarray(table, jnp.float32))))
        found["summed"].append(float(table.mean(axis=0).max()))
    return {name: np.array(values) for name, values in found.items()}


def longer(n_segments, strengths, n_noise=1000, n_each=200):
    """Efficiencies from simulated tables of more segments."""
    random = np.random.default_rng(11)
    noise = of_tables(n_segments, 0.0, n_noise, False, random)
    thresholds = {name: float(np.quantile(x, 1 - FALSE_ALARM)) for name, x in noise.items()}
    rows = {}
    for kind in ("wandering", "steady"):
        each = [of_tables(n_segments, rho2, n_each, kind == "wandering", random) for rho2 in strengths]
        rows[kind] = {name: [float(np.mean(x[name] > thresholds[name])) for x in each] for name in thresholds}
    about = {"segments": n_segments, "rho2_of_a_segment": strengths, "signals_each": n_each, "noise_tables": n_noise}
    return about | {"thresholds": thresholds, "efficiency": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--each", type=int, default=20, help="signals of each strength and kind")
    parser.add_argument("--noise", type=int, default=600, help="bands of noise")
    parser.add_argument("--output", type=Path, default=JSON)
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    began = time.perf_counter()
    low, high = 60.0, 60.0 + WIDTH * arguments.noise
    quiet = jfstat.simulate_sfts(["H1", "L1"], START, SEGMENTS * LENGTH, low - 0.15, high + 0.15, sqrt_sx=NOISE, seed=7)
    data = prepared(quiet, low, high)
    noise = loudest(data, low, arguments.noise)
    thresholds = {name: float(np.quantile(x, 1 - FALSE_ALARM)) for name, x in noise.items()}
    null = jfstat.viterbi_null(data[0], template(), n_frequencies=int(WIDTH / STEP))
    rho2 = [float(jfstat.predict_twoF(data[0][0], template(), jfstat.Amplitude(h0, 0.3, 0.2))) - 4 for h0 in STRENGTHS]
    result = {
        "segments": SEGMENTS,
        "segment_seconds": LENGTH,
        "bins_per_band": int(WIDTH / STEP),
        "false_alarm": FALSE_ALARM,
        "noise_bands": arguments.noise,
        "signals_each": arguments.each,
        "thresholds": thresholds,
        "viterbi_threshold_from_null": null.threshold(FALSE_ALARM),
        "rho2_of_a_segment": rho2,
        "efficiency": {},
    }
    print(result)
    for seed, kind in enumerate(("wandering", "steady")):
        found, strength = injected(kind, arguments.each, seed + 1)
        result["efficiency"][kind] = {
            name: [float(np.mean(x[strength == s] > thresholds[name])) for s in range(len(STRENGTHS))]
            for name, x in found.items()
        }
        print(kind, result["efficiency"][kind])
    result["tables"] = longer(60, [1.5, 2.5, 3.5, 5.0])
    print(result["tables"])
    result["command"] = shlex.join(["python", *sys.argv])
    result["seconds"], result["load"] = time.perf_counter() - began, os.getloadavg()[0]
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
