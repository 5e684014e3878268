"""What the comparisons with LALSuite share: its programs, its ephemerides, its detectors, and its SFTs."""

import shutil
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from jfstat.geometry.ephemeris import ephemeris_files

lal = pytest.importorskip("lal")
lalpulsar = pytest.importorskip("lalpulsar")
OLD_SITES = tuple(map(int, version("lalsuite").split(".")[:2])) < (7, 26)
"""Whether LIGO India and the Einstein Telescope may stand elsewhere: they moved after LALSuite 7.23."""


def run(program, **options):
    """Run ``lalpulsar_<program>`` with ``--name=value`` options; what it printed. It must succeed."""
    program = f"lalpulsar_{program}"
    here = Path(sys.executable).with_name(program)
    path = str(here) if here.exists() else shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed")
    arguments = [
        f"--{name}={value!r}" if isinstance(value, float) else f"--{name}={value}" for name, value in options.items()
    ]
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def ephemeris(name="DE405"):
    return lalpulsar.InitBarycenter(*(str(path) for path in ephemeris_files(name)[1:]))


def site(prefix):
    """LALSuite's detector with a prefix."""
    return next(d for d in lal.CachedDetectors if d.frDetector.prefix == prefix)


def gps_vector(times):
    """LIGOTimeGPSVector of pairs (s, ns)."""
    vector = lalpulsar.CreateTimestampVector(len(times))
    vector.data = [lal.LIGOTimeGPS(int(s), int(ns)) for s, ns in times]
    return vector


def sky(alpha, delta):
    position = lal.SkyPosition()
    position.longitude, position.latitude, position.system = alpha, delta, lal.COORDINATESYSTEM_EQUATORIAL
    return position


def random_sky(rng):
    """Right ascension and declination of a random direction."""
    return float(rng.uniform(0, 2 * np.pi)), float(np.arcsin(rng.uniform(-1, 1)))


def load_sfts(directory):
    """MultiSFTVector of all SFTs in a directory."""
    return lalpulsar.LoadMultiSFTs(lalpulsar.SFTdataFind(f"{directory}/*.sft", lalpulsar.SFTConstraints()), -1, -1)


def compute_fstatistic(directory, doppler, band, dfreq, method, **options):
    """Table of lalpulsar_ComputeFstatistic_v2 over [fkdot[0], fkdot[0] + band], columns (frequency, 2F)."""
    keys = ["Freq", "f1dot", "f2dot", "f3dot"]
    options |= {key: float(f) for key, f in zip(keys, doppler.fkdot, strict=False)}
    options |= dict(Alpha=float(doppler.alpha), Delta=float(doppler.delta), refTime=int(doppler.reftime))
    if (orbit := doppler.orbit) is not None:
        options |= dict(orbitasini=float(orbit.asini), orbitPeriod=float(orbit.period), orbitTp=float(orbit.tp))
        options |= dict(orbitEcc=float(orbit.ecc), orbitArgp=float(orbit.argp))
    output = Path(directory) / f"fstat-{method}.txt"
    run("ComputeFstatistic_v2", DataFiles=f"{directory}/*.sft", FreqBand=band, dFreq=dfreq, FstatMethod=method,
        outputFstat=output, outputLogfile="/dev/null", **options)  # fmt: skip
    names = next(line for line in output.read_text().splitlines() if line.startswith("%% freq")).split()[1:]
    table = np.atleast_2d(np.loadtxt(output, comments="%"))
    return table[:, [0, names.index("2F")]]


def read_values(path):
    """Numbers that a program wrote as ``name = value;`` lines."""
    values = {}
    for line in Path(path).read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("%") and line.endswith(";"):
            value = value.strip(" ;").replace(" ", "")
            values[name.strip()] = complex(value.replace("i", "j")) if value.endswith("i") else float(value)
    return values
