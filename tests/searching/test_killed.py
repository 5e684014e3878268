"""A search by the program that is asked to stop."""

import os
import signal
import subprocess
import sys
import time

import pytest

import jfstat

START = 1167458304
COMMAND = ["search", "--Freq=50", "--FreqBand=0.06", "--refTime=1167458304", "--assumeSqrtSX=4e-24", "--batchSize=2"]
COMMAND += ["--Alpha=1.1", "--AlphaBand=1.0", "--dAlpha=0.02", "--Delta=-0.4", "--DeltaBand=0.8", "--dDelta=0.02"]
COMMAND += ["--NumCandidatesToKeep=100"]


def started(sfts, out, *more):
    """With a cache of compiled programs of its own: killed, it may leave half a program there."""
    with_steps = "--metricMismatch" not in " ".join(map(str, more))
    command = [x for x in COMMAND if with_steps or not x.startswith(("--dAlpha", "--dDelta"))]
    arguments = [*command, "--DataFiles", str(sfts), "--outputFstat", str(out), *map(str, more)]
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_COMPILATION_CACHE_DIR": str(out.parent / "cache")}
    return subprocess.Popen(
        [sys.executable, "-m", "jfstat", *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


def ended(process):
    _, error = process.communicate(timeout=600)
    assert process.returncode == 0, error


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_the_program_stops_at_a_signal_and_says_so(tmp_path, number):
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 86400, 48.9, 51.2, sqrt_sx=4e-24)
    files = ";".join(map(str, jfstat.write_sfts(sfts, tmp_path)))
    checkpoint = tmp_path / "search.checkpoint"
    process = started(files, tmp_path / "out.ecsv", "--checkpoint", checkpoint)
    while process.poll() is None and not checkpoint.exists():
        time.sleep(0.01)
    process.send_signal(number)
    _, error = process.communicate(timeout=300)
    assert process.returncode == 128 + number, error.decode()
    lines = error.decode().strip().splitlines()
    assert lines[-1].startswith("jfstat: search stopped after ")
    assert "Traceback" not in error.decode()
