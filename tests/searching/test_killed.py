"""A search by the program, killed at random moments and called again: the table is that of a search left alone."""

import os
import random
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


SEGMENTS = ["--segments=4"]
INTERPOLATING = [*SEGMENTS, "--cohMaxMismatch=0.3", "--metricMismatch=0.02", "--f1dot=-2e-8", "--f1dotBand=2e-8"]


@pytest.mark.slow
@pytest.mark.parametrize("segments", [[], SEGMENTS, INTERPOLATING], ids=["coherent", "segments", "interpolating"])
def test_killed_at_34_random_moments(tmp_path, segments):
    point = jfstat.Doppler(1.5, 0.2, [50.0123], reftime=START)
    signals = [(point, jfstat.Amplitude(1e-24, 0.3, 0.2, 1.0))]
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 86400, 48.9, 51.2, sqrt_sx=4e-24, signals=signals)
    (tmp_path / "sfts").mkdir()
    jfstat.write_sfts(sfts, tmp_path / "sfts")
    files = tmp_path / "sfts" / "*.sft"
    alone = started(files, tmp_path / "alone.ecsv", *segments)
    ended(alone)

    out, checkpoint = tmp_path / "killed.ecsv", tmp_path / "search.checkpoint"
    rng, kills = random.Random(1), 0
    while kills < 34:
        process = started(files, out, "--checkpoint", checkpoint, *segments)
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        while process.poll() is None and (not checkpoint.exists() or checkpoint.stat().st_mtime_ns == before):
            time.sleep(0.002)  # until it computes
        time.sleep(rng.uniform(0, 0.25))
        if process.poll() is not None:
            ended(process)
            if kills == 0:
                pytest.fail("the search was over before it could be killed")
            # too fast for so many kills in one search: begin another
            assert out.read_bytes() == (tmp_path / "alone.ecsv").read_bytes()
            out.unlink()
            checkpoint.unlink()
            continue
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
        assert not out.exists()
    process = started(files, out, "--checkpoint", checkpoint, *segments)
    ended(process)
    assert out.read_bytes() == (tmp_path / "alone.ecsv").read_bytes()
    assert not list(tmp_path.glob(".search.checkpoint.*.part"))


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
