"""`jfstat benchmark`: tables of times for named settings, compared with LALSuite."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from jfstat.benchmarking import cores, lalsuite
from jfstat.benchmarking.measure import Measurement, Request, measure
from jfstat.benchmarking.report import Row, as_dict, device_name, draw, main_table, stage_table, write_json
from jfstat.benchmarking.settings import CPU_ROWS, ROWS, Setting, scan
from jfstat.benchmarking.worker import measure_on
from jfstat.commandline.options import add_ephemeris, ephemeris, number, option_type, words
from jfstat.engines.choice import NAMES
from jfstat.geometry.detectors import get_detector
from jfstat.geometry.ephemeris import ephemeris_files
from jfstat.io.candidates import check_writable

if TYPE_CHECKING:
    from jfstat.commandline.options import Subparsers


@option_type("a whole number of at least 1")
def _count(word: str) -> int:
    """A positive whole number."""
    if int(word) < 1:
        raise ValueError
    return int(word)


@option_type("a whole number, not negative")
def _seed(word: str) -> int:
    """A whole number from 0 on."""
    if int(word) < 0:
        raise ValueError
    return int(word)


@option_type("a comma-separated list of whole numbers of at least 1")
def _counts(word: str) -> list[int]:
    """Positive whole numbers from a comma-separated list."""
    return sorted({_count(part) for part in word.split(",")})


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "benchmark",
        help="time the computation on this machine, beside LALSuite",
        description="Time the computation of 2F from prepared data (random noise) to the largest value over the band, "
        "for batches of random templates, new ones for every call. tau is the median time per frequency bin, template "
        "and detector. On a CPU, jfstat runs in processes of their own on given numbers of cores, and LALSuite's "
        "ResampGeneric takes turns with the first of them, on the same one core. A stage's passes are its time in "
        "units of what reading and writing each sample of the transforms once takes at the measured bandwidth of a "
        "copy; it needs at the least as many as its input and output make up.",
    )
    rows = parser.add_argument_group("what to time")
    rows.add_argument(
        "--rows",
        type=words,
        metavar="NAME,...",
        help=f"settings by name, of {', '.join(ROWS)} (default: all on a GPU, {', '.join(CPU_ROWS)} on a CPU)",
    )
    rows.add_argument(
        "--scan", action="store_true", help="the paper's figure: 1 to 100 d at 0.606 Hz, and 0.1 to 5 Hz at 10 d"
    )
    rows.add_argument("--days", type=number, metavar="D", help="a setting of one's own: length, d (default 1)")
    rows.add_argument("--bandwidth", type=number, metavar="HZ", help="its band, Hz (default 0.606)")
    rows.add_argument("--frequency", type=number, metavar="HZ", help="its lowest frequency, Hz (default 100)")
    rows.add_argument("--detectors", type=words, metavar="H1,L1", help="its detectors (default H1)")
    how = parser.add_argument_group("how")
    how.add_argument("--path", choices=NAMES, help="engine that computes (default: as jfstat.search would)")
    how.add_argument("--batch", type=_count, metavar="N", help="templates computed together (default: by length)")
    how.add_argument("--repeats", type=_count, default=7, metavar="N", help="times measured of each (default 7)")
    how.add_argument(
        "--cores",
        type=_counts,
        metavar="N,...",
        help="on a CPU: numbers of cores to measure on (default 1,2 where there are two)",
    )
    how.add_argument("--seed", type=_seed, default=0, metavar="N", help="of noise and templates, no unit (default 0)")
    how.add_argument("--no-lalsuite", action="store_true", help="do not run LALSuite's benchmark beside it")
    add_ephemeris(how)
    out = parser.add_argument_group("output")
    out.add_argument("--output", type=Path, metavar="FILE", help="all numbers, as JSON")
    out.add_argument("--plot", type=Path, metavar="FILE", help="picture of tau over length and bandwidth, .png or .pdf")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Measure row by row, then print tables and write files."""
    on_cpu = jax.default_backend() == "cpu"
    settings = _chosen(arguments, on_cpu)
    numbers_of_cores = _numbers_of_cores(arguments.cores, on_cpu)
    ephemeris_files(ephemeris(arguments))  # a wrong name should not cost minutes
    for path in filter(None, (arguments.output, arguments.plot)):
        check_writable(path)
    if arguments.plot is not None and arguments.plot.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise ValueError(f"--plot {arguments.plot} must end in .png, .pdf or .svg: name it so.")
    program = None if arguments.no_lalsuite else lalsuite.find_program()

    rows = []
    for k, setting in enumerate(settings, start=1):
        request = Request(
            setting,
            batch=arguments.batch,
            repeats=arguments.repeats,
            seed=arguments.seed,
            ephemeris=ephemeris(arguments),
            lalsuite=program,
            path=arguments.path,
        )
        rows.append(Row(setting, _measured(request, numbers_of_cores)))
        first = rows[-1].runs[0]
        print(f"{k}/{len(settings)} {setting.name}: tau {first.tau:.2e} s", file=sys.stderr, flush=True)

    first = rows[0].runs[0]
    print(f"{device_name(first)}, jax {jax.__version__}: a copy moves {first.copy_bandwidth / 1e9:.3g} GB/s")
    if on_cpu:
        print("all processes keep freed memory: " + " ".join(f"{k}={v}" for k, v in first.environment.items()))
    print(main_table(rows))
    print()
    print(stage_table(rows))
    if program is None and not arguments.no_lalsuite:
        print(f"\nno columns of LALSuite: {lalsuite.PROGRAM} is not installed; pip install lalsuite gets it")
    if arguments.output is not None:
        write_json(as_dict(rows, shlex.join(["jfstat", *sys.argv[1:]])), arguments.output)
        print(f"\nwrote {arguments.output}")
    if arguments.plot is not None:
        print(f"wrote {draw(rows, arguments.plot)}")


def _measured(request: Request, numbers_of_cores: list[int] | None) -> tuple[Measurement, ...]:
    """Measure in this process, or in one process for each number of cores; LALSuite only beside the first."""
    if numbers_of_cores is None:
        jax.config.update("jax_enable_compilation_cache", False)  # or it would hide what compilation costs
        return (measure(request),)
    runs = []
    for n in numbers_of_cores:
        # the last cores: the system's own work prefers the first
        runs.append(measure_on(cores.available()[-n:], request))
        request = request.without_lalsuite()
    return tuple(runs)


def _chosen(arguments: argparse.Namespace, on_cpu: bool) -> list[Setting]:
    """The settings that the options name.

    Raises
    ------
    ValueError
        If a row or detector is unknown or a number out of range.
    """
    given = {name: getattr(arguments, name) for name in ("days", "bandwidth", "frequency", "detectors")}
    own: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name in own.get("detectors", ()):
        get_detector(name)
    names = arguments.rows
    if names is None:
        names = [] if own or arguments.scan else CPU_ROWS if on_cpu else ROWS
    for name in names:
        if name not in ROWS:
            raise ValueError(f"--rows: {name!r} is not one of {', '.join(ROWS)}: choose from those.")
    settings = [ROWS[name] for name in names] + (scan() if arguments.scan else [])
    if own:
        own = {"days": 1.0} | own | {"detectors": tuple(own.get("detectors", ("H1",)))}
        settings.append(Setting("own", **own))
    if not settings:
        raise ValueError(f"--rows names none: give some of {', '.join(ROWS)}.")
    return settings


def _numbers_of_cores(wanted: list[int] | None, on_cpu: bool) -> list[int] | None:
    """Numbers of cores to measure on; None on an accelerator."""
    if not on_cpu:
        if wanted is not None:
            raise ValueError("--cores is for the CPU: leave it out, or set JAX_PLATFORMS=cpu.")
        return None
    most = len(cores.available())
    if most == 0:  # the system does not let processes choose
        if wanted is not None:
            raise ValueError("--cores needs a system that restricts processes to cores, such as Linux: leave it out.")
        return [1]
    if wanted is not None and wanted[-1] > most:
        raise ValueError(f"--cores {wanted[-1]} is more than the {most} cores that there are: ask for fewer.")
    return wanted or [n for n in (1, 2) if n <= most]
