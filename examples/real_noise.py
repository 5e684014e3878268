"""From strain as detectors have it to candidates: O3-like noise with lines, a floor that changes, glitches and gaps.

    python examples/real_noise.py --output examples/real_noise.json

Simulated strain of two detectors goes to a frame file (H1, .gwf) and to GWOSC's HDF5 (L1), both with data-quality bits,
and from there through `jfstat make-sfts`, with and without gating, to 2F of the signal in it and of the noise around.
docs/strain.md walks through the same in Python.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import jfstat  # noqa: E402
from jfstat.commandline import main  # noqa: E402
from jfstat.strain.strainfile import DATA_QUALITY_BITS  # noqa: E402

START, RATE, TSFT = 1_256_655_618, 256, 1800
SIGNAL = jfstat.Doppler(2.1, 0.4, [97.3, -1e-10], START)
AMPLITUDE = jfstat.Amplitude(2.2e-24, 0.6, 0.3, 1.2)
LINES = ((60.0, 2e-22), (36.7, 4e-21), (96.0, 3e-23), (98.45, 2e-23))
"""Frequencies, Hz, and amplitudes of lines: mains, calibration, two teeth of a comb."""


def density(f: np.ndarray) -> np.ndarray:
    """An amplitude spectral density as steep as O3's, 1/sqrt(Hz): 4e-24 in the bucket, 1000 times that at 10 Hz."""
    f = np.maximum(f, 1e-3)
    return 4e-24 * np.sqrt(1 + (f / 400) ** 2 + (f / 50) ** -9) * np.minimum(1, (f / 9) ** 8)


def signal_strain(detector: str, hours: float) -> np.ndarray:
    """Strain of the signal alone: SFTs of it, turned back into the time series that they are of."""
    f = float(np.asarray(SIGNAL.fkdot)[0])
    signals = [(SIGNAL, AMPLITUDE)]
    sfts = jfstat.simulate_sfts([detector], START, hours * 3600, f - 3, f + 3, tsft=TSFT, signals=signals)
    spectrum = np.zeros((len(sfts), TSFT * RATE // 2 + 1), np.complex128)
    spectrum[:, sfts.first_bin : sfts.first_bin + sfts.n_bins] = sfts[detector].data
    return np.fft.irfft(spectrum * RATE, axis=1).ravel()


def strain(detector: str, hours: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Strain (n,), and data-quality bits of each second: noise, lines, glitches, a signal, and a gap without data."""
    rng = np.random.default_rng(seed)
    x = signal_strain(detector, hours)
    n = len(x)
    t = np.arange(n) / RATE
    white = np.fft.rfft(rng.standard_normal(n))
    noise = np.fft.irfft(white * density(np.fft.rfftfreq(n, 1 / RATE)) * np.sqrt(RATE / 2), n)
    # the floor changes by a third within two hours, and for half an hour it is twice as high
    level = 1 + 0.3 * np.sin(2 * np.pi * t / 7200 + seed)
    level[(t > 4000) & (t < 5800)] *= 2
    x += noise * level
    for f, amplitude in LINES:
        x += amplitude * np.sin(2 * np.pi * f * t + rng.uniform(0, 6))
    for _ in range(rng.poisson(6 * hours)):  # glitches
        centre, f, loud = rng.uniform(0, hours * 3600), rng.uniform(30, 110), 10 ** rng.uniform(-21.5, -18.5)
        width = rng.uniform(1, 6) / f
        near = slice(max(0, int((centre - 6 * width) * RATE)), int((centre + 6 * width) * RATE))
        s = t[near] - centre
        x[near] += loud * np.exp(-((s / width) ** 2)) * np.sin(2 * np.pi * f * s)
    bits = np.full(n // RATE, 2 ** len(DATA_QUALITY_BITS) - 1, np.uint32)
    gap = slice(round(0.6 * len(bits)), round(0.6 * len(bits)) + 700)
    bits[gap] = 0
    x[gap.start * RATE : gap.stop * RATE] = np.nan
    return x, bits


def write_gwosc(path: Path, detector: str, x: np.ndarray, bits: np.ndarray) -> None:
    """A file in the layout of GWOSC's HDF5 files."""
    import h5py

    with h5py.File(path, "w") as file:
        file["meta/Detector"], file["meta/GPSstart"], file["meta/Duration"] = detector, START, len(bits)
        file["quality/simple/DQmask"] = bits
        file["quality/simple/DQShortnames"] = [name.encode() for name in DATA_QUALITY_BITS]
        file["strain/Strain"] = x
        file["strain/Strain"].attrs["Xspacing"] = 1 / RATE


def write_frame(path: Path, detector: str, x: np.ndarray, bits: np.ndarray) -> None:
    """A frame file with the channels that GWOSC's have."""
    import lal
    import lalframe

    epoch = lal.LIGOTimeGPS(START)
    frame = lalframe.FrameNew(epoch, len(bits), "LIGO", 0, 0, 0)
    channels = (("STRAIN", "REAL8", x, 1 / RATE), ("DQMASK", "UINT4", bits, 1.0))
    for name, kind, values, spacing in channels:
        create = getattr(lal, f"Create{kind}TimeSeries")
        series = create(f"{detector}:GWOSC-SIM_{name}", epoch, 0.0, spacing, lal.DimensionlessUnit, len(values))
        series.data.data = values
        getattr(lalframe, f"FrameAdd{kind}TimeSeriesProcData")(frame, series)
    lalframe.FrameWrite(frame, str(path))


def write_files(folder: Path, hours: float) -> None:
    """Strain of H1 as a frame file and of L1 as HDF5."""
    folder.mkdir(parents=True, exist_ok=True)
    seconds = round(hours * 3600)
    write_frame(folder / f"H-H1_GWOSC_SIM-{START}-{seconds}.gwf", "H1", *strain("H1", hours, 1))
    write_gwosc(folder / f"L-L1_GWOSC_SIM-{START}-{seconds}.hdf5", "L1", *strain("L1", hours, 2))


def make_sfts(folder: Path, out: Path, *options: str) -> None:
    """`jfstat make-sfts` for each detector."""
    for detector in ("H1", "L1"):
        words = ["make-sfts", "--frame-files", str(folder), "--IFO", detector, "-f", "7", "-F", "20", "-B", "107.5"]
        assert main([*words, "-p", str(out), *options]) == 0


def values(sfts: jfstat.SFTs, noise: jfstat.Noise) -> dict[str, float]:
    """2F of the signal, what is expected of it, and the mean of 2F in the noise near it."""
    f = float(np.asarray(SIGNAL.fkdot)[0])
    data = jfstat.prepare(sfts, f - 0.3, f + 0.3, START, noise)
    band = np.asarray(jfstat.twoF_band(data, SIGNAL))
    quiet = np.abs(np.asarray(data.frequencies) - f) > 0.02
    return {
        "2F of the signal": round(float(jfstat.twoF(data, SIGNAL)), 2),
        "expected 2F": round(float(jfstat.predict_twoF(data, SIGNAL, AMPLITUDE)), 2),
        "mean 2F of the noise": round(float(np.nanmean(band[quiet])), 3),
        "largest 2F of the noise": round(float(np.nanmax(band[quiet])), 1),
    }


def measured(hours: float) -> dict[str, Any]:
    """2F with and without gating, with the running median and with off-source bins."""
    result: dict[str, Any] = {"hours": hours}
    ways = {"running median": jfstat.Noise(), "off-source bins": jfstat.Noise(median_bins=301, off_source=10)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder / "strain", hours)
        for gated, options in (("as it is", ()), ("gated", ("--gate-threshold", "10"))):
            make_sfts(folder / "strain", folder / gated, *options)
            sfts = jfstat.read_sfts(folder / gated)
            result[gated] = {"SFTs": len(sfts)} | {way: values(sfts, noise) for way, noise in ways.items()}
            print(gated, result[gated], flush=True)
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--hours", type=float, default=12.0)
    given = parser.parse_args()
    command = f"python examples/real_noise.py --hours {given.hours:g} --output examples/real_noise.json"
    found = {"command": command} | measured(given.hours)
    if given.output:
        given.output.write_text(json.dumps(found, indent=1) + "\n")
