"""What the program prints may be lost; its tables are not."""

import os
import signal
import subprocess
import sys
import time

import pytest

import jfstat
from jfstat.commandline import main

START = 1167458304
SEARCH = ["search", "--Freq=50", "--FreqBand=0.001", "--Alpha=1.1", "--Delta=0.4", "--NumCandidatesToKeep=3"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sfts")
    jfstat.write_sfts(jfstat.simulate_sfts(["H1", "L1"], START, 4 * 1800, 48.9, 51.1), folder)
    return f"{folder}/*.sft"


@pytest.fixture(scope="module")
def commands(files, tmp_path_factory):
    """A command line of each program that writes a table, without the table's name."""
    folder = tmp_path_factory.mktemp("tables")
    units = [folder / f"{i}.ecsv" for i in (1, 2)]
    for i, unit in enumerate(units, 1):
        assert main([*SEARCH, f"--DataFiles={files}", f"--unit={i}/2", f"--outputFstat={unit}"]) == 0
    points = folder / "points.txt"
    points.write_text("50.0002 1.1 0.4 0 0 0\n")
    return {
        "search": [*SEARCH, f"--DataFiles={files}"],
        "exact points": ["points", f"--gridFile={points}", f"--DataFiles={files}"],
        "merge": ["merge", *map(str, units)],
        "refine": ["refine", f"--candidates={units[1]}", f"--DataFiles={files}", "--parameters=freq"],
    }


@pytest.mark.parametrize("name", ["search", "exact points", "merge", pytest.param("refine", marks=pytest.mark.ci)])
@pytest.mark.parametrize("fault", ["full", "closed pipe"])
def test_tables_outlive_standard_output(commands, tmp_path, monkeypatch, capsys, name, fault):
    out = tmp_path / "found.ecsv"
    if fault == "full":
        stream = open("/dev/full", "w", buffering=1)  # noqa: SIM115
    else:
        reader, writer = os.pipe()
        os.close(reader)
        stream = os.fdopen(writer, "w", buffering=1)
    with stream:
        monkeypatch.setattr(sys, "stdout", stream)
        status = main([*commands[name], f"--outputFstat={out}"])
        monkeypatch.undo()
    assert len(jfstat.read_candidates(out)) > 0
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("jfstat")]
    if fault == "full":
        assert status == 1
        expected = "standard output cannot be written (No space left on device); files are as they should be"
        assert said == [f"jfstat: error: {expected}"]
    else:
        assert status == 0 and said == []


@pytest.mark.ci
def test_the_program_itself_with_a_reader_that_ends(commands, tmp_path):
    """With PYTHONUNBUFFERED the pipe is found closed at the first line, and otherwise at the end."""
    for unbuffered in ("", "1"):
        out = tmp_path / f"found{unbuffered}.ecsv"
        with subprocess.Popen(
            [sys.executable, "-m", "jfstat", *commands["merge"], f"--outputFstat={out}"],
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered, "PYTHONIOENCODING": "ascii"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            process.stdout.close()
            error = process.stderr.read()
            assert process.wait(60) == 0
        assert error == b""
        assert len(jfstat.read_candidates(out)) == 3


def test_letters_that_the_encoding_lacks_are_spelt_out(commands, tmp_path):
    out = tmp_path / "gefunden-ä.ecsv"
    done = subprocess.run(
        [sys.executable, "-m", "jfstat", *commands["merge"], f"--outputFstat={out}"],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"gefunden-\\xe4.ecsv" in done.stdout
    assert len(jfstat.read_candidates(out)) == 3


@pytest.mark.ci
def test_an_interruption_is_told_in_one_line():
    """At moments from the start of the program to its end, however long that takes."""
    told, wait, ended = 0, 0.1, False
    # programs in the background of a shell ignore it, and so would those that they start
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        while not ended:
            with subprocess.Popen(
                [sys.executable, "-m", "jfstat", "psd", "--inputData=nowhere"], stderr=subprocess.PIPE, text=True
            ) as process:
                time.sleep(wait)
                ended = process.poll() is not None
                process.send_signal(signal.SIGINT)
                _, error = process.communicate(timeout=60)
            lines = error.strip().splitlines()
            if "jfstat: error: interrupted" in lines:
                told += 1
                assert lines == ["jfstat: error: interrupted"]
                # Python ends itself by the signal if it came while a package ran Python from C: shells say 130 too
                assert process.returncode in (130, -signal.SIGINT)
            wait *= 1.3
    finally:
        signal.signal(signal.SIGINT, inherited)
    assert told


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_streams_that_the_caller_has_closed_do_not_matter(commands, tmp_path, monkeypatch, closed):
    out = tmp_path / "found.ecsv"
    monkeypatch.setattr(sys, closed, None)
    status = main([*commands["search"], f"--outputFstat={out}"])
    monkeypatch.undo()
    assert status == 0 and len(jfstat.read_candidates(out)) == 3
