"""The submit files in examples/cluster: their command lines are ones that the program takes."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from jfstat.commandline import _join_negative, _parser

FOLDER = Path(__file__).parents[2] / "examples" / "cluster"


def command_line(text: str) -> list[str]:
    """Arguments of the file's ``jfstat search``, for unit 3."""
    joined = text.replace("\\\n", " ")
    line = next(line for line in joined.splitlines() if "jfstat search --" in line)
    line = line[line.index("jfstat search") :].rstrip("& ")
    line = line.removesuffix('"') if line.count('"') % 2 else line  # HTCondor's arguments stand in quotes
    line = line.replace("$(Unit)", "3").replace("$unit", "3")
    return shlex.split(line)[1:]


@pytest.mark.parametrize("name", ["htcondor.sub", "slurm_units.sh", "slurm_distributed.sh"])
def test_the_command_line_is_understood(name):
    arguments = _parser().parse_args(_join_negative(command_line((FOLDER / name).read_text())))
    assert arguments.metricMismatch == 0.1
    assert arguments.FreqBand == 1
    assert arguments.distributed == ("distributed" in name)
    if "distributed" not in name:
        assert arguments.unit == (3, 64)
        assert arguments.outputFstat == "units/3.ecsv"


def test_a_job_of_patches_searches_its_line_of_the_list(tmp_path):
    """The script as it is, with a program in jfstat's place that writes down its arguments."""
    (tmp_path / "patches.txt").write_text("0.0 0.1 -0.5 0.2\n0.1 0.1 -0.5 0.2\n6.2e+00 1.0e-01 -1.5e+00 2.0e-01\n")
    program = tmp_path / "jfstat"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/arguments\n')
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_JOB_ID": "7"}
    done = subprocess.run(["bash", FOLDER / "slurm_patches.sh"], cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0
    arguments = _parser().parse_args(_join_negative((tmp_path / "arguments").read_text().splitlines()))
    place = arguments.Alpha, arguments.AlphaBand, arguments.Delta, arguments.DeltaBand
    assert place == (6.2, 0.1, -1.5, 0.2)
    assert (arguments.metricMismatch, arguments.cohMaxMismatch, arguments.f1dot) == (0.3, 0.2, -1e-11)
    assert arguments.outputFstat == "patches/3.ecsv" and arguments.segmentList == "segments.txt"


@pytest.mark.parametrize("name", ["slurm_units.sh", "slurm_patches.sh", "slurm_distributed.sh", "one_machine_slurm.sh"])
def test_the_scripts_are_bash(name):
    assert subprocess.run(["bash", "-n", FOLDER / name], check=False).returncode == 0


def test_as_many_units_are_queued_as_the_command_says():
    condor, slurm = ((FOLDER / name).read_text() for name in ("htcondor.sub", "slurm_units.sh"))
    assert re.search(r"queue Unit from seq 1 (\d+)", condor)[1] == re.search(r"--unit \$\(Unit\)/(\d+)", condor)[1]
    assert re.search(r"--array=1-(\d+)", slurm)[1] == re.search(r'--unit "\$unit/(\d+)"', slurm)[1]


def test_htcondors_own_parser_reads_the_submit_file():
    """64 jobs, and what HTCondor does after each exit status: leave the queue, go back to it, or be held."""
    htcondor = pytest.importorskip("htcondor2")
    classad = pytest.importorskip("classad2")
    submit = htcondor.Submit((FOLDER / "htcondor.sub").read_text())
    assert [item["Unit"] for item in submit.itemdata()] == [str(i) for i in range(1, 65)]
    assert submit["kill_sig"] == "SIGTERM"
    assert submit["arguments"].count("$(Unit)") == 3

    def expected(name, **job):
        ad = classad.ClassAd({"NumJobStarts": 1, "ExitBySignal": False, "ExitCode": 0, **job})
        ad["asked"] = classad.ExprTree(submit[name])
        return ad.eval("asked")

    for code, leaves, held in ((0, True, False), (143, False, False), (130, False, False), (1, False, True)):
        assert expected("on_exit_remove", ExitCode=code) is leaves
        assert expected("on_exit_hold", ExitCode=code) is held
    assert expected("on_exit_hold", ExitCode=143, NumJobStarts=101) is True
    killed = {"ExitBySignal": True, "ExitCode": classad.Value.Undefined}
    assert expected("on_exit_remove", **killed) is False
    assert expected("on_exit_hold", **killed) is False


def test_a_smaller_search_is_all_that_is_changed_for_the_run_on_one_machine():
    """What examples/slurm_run.py replaces stands in both files; what it found is that nothing differs."""
    run = (FOLDER.parent / "slurm_run.py").read_text()
    replaced = re.findall(r'\("(--\w+Band [\d.]+ ?)", "--', run)
    assert len(replaced) >= 3
    for name in ("slurm_units.sh", "slurm_distributed.sh"):
        assert all(words in (FOLDER / name).read_text() for words in replaced)
    found = json.loads((FOLDER.parent / "slurm_run.json").read_text())
    assert found["slurm_units.sh"]["merged table beside the undivided one"].startswith("none")
    assert found["slurm_distributed.sh"]["table beside the undivided one"].startswith("none")
