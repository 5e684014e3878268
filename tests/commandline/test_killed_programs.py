"""Programs killed a hundred times at random moments, or unable to write: nothing is lost, no file is half written, and
what the last call ends in is as if left alone."""

import hashlib
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from strain_files import coloured_noise, write_gwosc

import jfstat

START, KILLS = 1167458304, 100
OVER = ["--batchSize=2", "--assumeSqrtSX=4e-24", f"--refTime={START}", "--NumCandidatesToKeep=100"]
OVER += ["--Alpha=1.1", "--AlphaBand=1.0", "--Delta=-0.4", "--DeltaBand=0.8", "--Freq=50", "--FreqBand=0.06"]
FLAT = [*OVER, "--dAlpha=0.02", "--dDelta=0.02", "--DataFiles=sfts/*.sft", "--outputFstat=out/table.ecsv"]
LATTICE = ["--cohMaxMismatch=0.3", "--metricMismatch=0.02", "--f1dot=-2e-8", "--f1dotBand=2e-8"]
WINDOWS = ["--transient-WindowType=rect", "--transient-t0Band=43200", "--transient-tau=7200"]
WINDOWS += ["--transient-tauBand=36000", "--transient-dt0=7200", "--transient-dtau=7200"]
RESUMED = {
    "TwoF": ["search", *FLAT],
    "MeanTwoF": ["search", *FLAT, "--segments=4"],
    "BSGLtL": ["search", *FLAT, "--segments=4", "--RankingStatistic=BSGLtL"],
    "Interpolated": ["search", *OVER, *FLAT[-2:], "--segments=4", *LATTICE],
    "Transient": ["search", *FLAT, *WINDOWS],
    "BestPath": ["track", *FLAT, "--segments=4"],
}
"""Searches, which go on from their checkpoint."""
CANDIDATES = ["--DataFiles=sfts/*.sft", "--candidates=candidates.ecsv", "--outputFstat=out/table.ecsv"]
MAKE = ["--frame-files=strain.hdf5", "--sft-duration=64", "--high-pass-freq=7", "--start-freq=20", "--band=100"]
SIMULATE = ["--IFOs=H1,L1", f"--startTime={START}", "--duration=86400", "--fmin=49", "--Band=2", "--sqrtSX=4e-24"]
REPEATED = {
    "refine": ["refine", *CANDIDATES],
    "follow-up": ["follow-up", *CANDIDATES, "--stages=2,1", "--NumCandidatesToKeep=2"],
    "make-sfts": ["make-sfts", *MAKE, "--sft-write-path=out"],
    "split-sfts": ["split-sfts", "--DataFiles=sfts/*.sft", "--frequency-bandwidth=0.02", "--output-directory=out"],
    "clean-sfts": ["clean-sfts", "--sftDir=sfts/*.sft", "--linefiles=H1:lines.csv", "--outDir=out"],
    "simulate": ["simulate", *SIMULATE, "--outSFTdir=out", "--randSeed=1"],
}
"""Programs that begin again."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    point = jfstat.Doppler(1.5, 0.2, [50.0123], reftime=START)
    signals = [(point, jfstat.Amplitude(1e-24, 0.3, 0.2, 1.0))]
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 86400, 48.9, 51.2, sqrt_sx=4e-24, signals=signals)
    jfstat.write_sfts(sfts, folder / "sfts")
    data = jfstat.prepare(sfts, 49.99, 50.03, START)
    found = jfstat.search(data, point, top=3, progress=False)
    jfstat.write_candidates(found, folder / "candidates.ecsv")
    write_gwosc(folder / "strain.hdf5", "H1", START, coloured_noise(8192, 1024, 3), 1024)
    names = "Frequency or frequency spacing [Hz],Type,Offset,First,Last,Left,Right,What"
    rows = [f"{f:.3f},0,0,1,1,0.01,0.01,line" for f in np.arange(49.2, 51, 0.1)]
    (folder / "lines.csv").write_text("\n".join([names, *rows, ""]))
    return folder


LIMITED = """\
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
sys.argv[0] = "jfstat"
runpy.run_module("jfstat", run_name="__main__")
"""
"""Program that runs jfstat as on a disk that is full: no file may become longer than 500 bytes."""


def started(folder, words, cache, program=("-m", "jfstat")):
    """A program with a cache of compiled programs of its own: killed, it may leave half a program there."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_COMPILATION_CACHE_DIR": str(cache), "XLA_FLAGS": ""}
    command = [sys.executable, *program, *words]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def ended(process):
    _, error = process.communicate(timeout=600)
    assert process.returncode == 0, error


def digests(folder: Path) -> dict[str, str]:
    """Checksums of all files of a folder, but for temporary ones that a killed process left."""
    files = [x for x in folder.rglob("*") if x.is_file() and not (x.name[0] == "." and x.suffix == ".part")]
    return {str(x.relative_to(folder)): hashlib.sha256(x.read_bytes()).hexdigest() for x in files}


def left_alone(inputs, tmp_path, words):
    """Checksums of what a program that is left alone writes, those of its inputs, and how long it takes, s."""
    (inputs / "out").mkdir(exist_ok=True)
    for old in (inputs / "out").iterdir():
        old.unlink()
    before = digests(inputs)
    ended(started(inputs, words, tmp_path / "cache"))  # compiles
    begun = time.monotonic()
    ended(started(inputs, words, tmp_path / "cache"))
    seconds, out = time.monotonic() - begun, digests(inputs / "out")
    for new in (inputs / "out").iterdir():
        new.unlink()
    assert digests(inputs) == before
    assert out
    return before, out, seconds


@pytest.mark.slow
@pytest.mark.parametrize("name", RESUMED)
def test_killed_searches_go_on_from_their_checkpoint(inputs, tmp_path, name):
    words, checkpoint = RESUMED[name], tmp_path / "checkpoint"
    before, alone, _ = left_alone(inputs, tmp_path, words)
    rng, kills = random.Random(1), 0
    while kills < KILLS:
        process = started(inputs, [*words, f"--checkpoint={checkpoint}"], tmp_path / "cache")
        earlier = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        while process.poll() is None and (not checkpoint.exists() or checkpoint.stat().st_mtime_ns == earlier):
            time.sleep(0.002)  # until it computes
        time.sleep(rng.uniform(0, 0.25))
        if process.poll() is not None:
            ended(process)
            assert kills, "the search was over before it could be killed"
            # too fast for so many kills in one search: begin another
            assert digests(inputs / "out") == alone
            (inputs / "out" / "table.ecsv").unlink()
            checkpoint.unlink()
            continue
        process.kill()
        process.communicate()
        kills += 1
        # whole or absent
        assert digests(inputs / "out").items() <= alone.items()
    ended(started(inputs, [*words, f"--checkpoint={checkpoint}"], tmp_path / "cache"))
    assert digests(inputs / "out") == alone
    assert not list(tmp_path.glob(".checkpoint.*.part"))
    (inputs / "out" / "table.ecsv").unlink()
    assert digests(inputs) == before


@pytest.mark.slow
@pytest.mark.parametrize("name", REPEATED)
def test_killed_programs_leave_whole_files_and_their_input(inputs, tmp_path, name):
    words = REPEATED[name]
    before, alone, seconds = left_alone(inputs, tmp_path, words)
    rng, kills, partial, runs = random.Random(2), 0, 0, 0
    while kills < KILLS:
        runs += 1
        assert runs < 5 * KILLS, "the program was mostly over before it could be killed"
        process = started(inputs, words, tmp_path / "cache")
        time.sleep(rng.uniform(0.4, 1.1) * seconds)
        over = process.poll() is not None
        process.kill()
        process.communicate()
        kills += not over
        written = digests(inputs / "out")
        assert written.items() <= alone.items()
        partial += 0 < len(written) < len(alone)
        if over or kills % 2:  # the next one begins on what this one left, or anew
            for file in (inputs / "out").iterdir():
                file.unlink()
    assert partial or len(alone) < 10, "no kill fell between the first and the last file"
    ended(started(inputs, words, tmp_path / "cache"))
    assert digests(inputs / "out") == alone
    for file in (inputs / "out").iterdir():
        file.unlink()
    assert digests(inputs) == before


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files as Linux does")
@pytest.mark.parametrize("name", [*RESUMED, *REPEATED])
def test_programs_that_cannot_write_say_so_and_leave_nothing(inputs, tmp_path, name):
    words = (RESUMED | REPEATED)[name]
    before, _, _ = left_alone(inputs, tmp_path, words)
    elsewhere = [x.replace("=out", "=/proc/out") for x in words]  # where nobody may write
    for call, program in ((words, ("-c", LIMITED)), (elsewhere, ("-m", "jfstat"))):
        process = started(inputs, call, tmp_path / "cache", program)
        _, error = process.communicate(timeout=600)
        assert process.returncode == 1
        last = error.strip().splitlines()[-1]
        assert last.startswith("jfstat: ") and " cannot be " in last, error
        assert "Traceback" not in error
        assert not list((inputs / "out").iterdir())
        assert digests(inputs) == before
