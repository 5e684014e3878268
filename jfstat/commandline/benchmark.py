"""`jfstat benchmark`: how long 2F takes on this machine, in a table and by stages."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from jfstat.atomic import written_to
from jfstat.benchmarking.measure import Request, measure
from jfstat.benchmarking.report import as_dict, device_name, main_table, stage_table
from jfstat.benchmarking.settings import CPU_ROWS, ROWS, Setting
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


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "benchmark",
        help="time the computation on this machine",
        description="Time the computation of 2F from prepared data (random noise) to the largest value over the band, "
        "for batches of random templates, new ones for every call. tau is the median time per frequency bin, template "
        "and detector. A stage's passes are its time in units of what reading and writing each sample of the "
        "transforms once takes at the measured bandwidth of a copy; it needs at the least as many as its input and "
        "output make up. examples/benchmarks of the repository compares with LALSuite and draws the paper's figure.",
    )
    rows = parser.add_argument_group("what to time")
    rows.add_argument(
        "--rows",
        type=words,
        metavar="NAME,...",
        help=f"settings by name, of {', '.join(ROWS)} (default: all on a GPU, {', '.join(CPU_ROWS)} on a CPU)",
    )
    rows.add_argument("--days", type=number, metavar="D", help="a setting of one's own: length, d (default 1)")
    rows.add_argument("--bandwidth", type=number, metavar="HZ", help="its band, Hz (default 0.606)")
    rows.add_argument("--frequency", type=number, metavar="HZ", help="its lowest frequency, Hz (default 100)")
    rows.add_argument("--detectors", type=words, metavar="H1,L1", help="its detectors (default H1)")
    how = parser.add_argument_group("how")
    how.add_argument("--path", choices=NAMES, help="engine that computes (default: as jfstat.search would)")
    how.add_argument("--batch", type=_count, metavar="N", help="templates computed together (default: by length)")
    how.add_argument("--repeats", type=_count, default=7, metavar="N", help="times measured of each (default 7)")
    how.add_argument("--seed", type=_seed, default=0, metavar="N", help="of noise and templates, no unit (default 0)")
    add_ephemeris(how)
    out = parser.add_argument_group("output")
    out.add_argument("--output", type=Path, metavar="FILE", help="all numbers, as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Measure row by row, then print tables and write the file."""
    settings = _chosen(arguments)
    ephemeris_files(ephemeris(arguments))  # a wrong name should not cost minutes
    if arguments.output is not None:
        check_writable(arguments.output)
    jax.config.update("jax_enable_compilation_cache", False)  # or it would hide what compilation costs
    rows = []
    for k, setting in enumerate(settings, start=1):
        how = {name: getattr(arguments, name) for name in ("batch", "repeats", "seed", "path")}
        found = measure(Request(setting, ephemeris=ephemeris(arguments), **how))
        rows.append({"setting": dataclasses.asdict(setting), "runs": [dataclasses.asdict(found)]})
        print(f"{k}/{len(settings)} {setting.name}: tau {found.tau:.2e} s", file=sys.stderr, flush=True)
    first = rows[0]["runs"][0]
    print(f"{device_name(first)}, jax {jax.__version__}: a copy moves {first['copy_bandwidth'] / 1e9:.3g} GB/s")
    print(f"{main_table(rows)}\n\n{stage_table(rows)}")
    if arguments.output is not None:
        values = as_dict(rows, shlex.join(["jfstat", *sys.argv[1:]]))
        written_to(arguments.output, (json.dumps(values, indent=1, allow_nan=False) + "\n").encode())
        print(f"\nwrote {arguments.output}")


def _chosen(arguments: argparse.Namespace) -> list[Setting]:
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
        names = [] if own else CPU_ROWS if jax.default_backend() == "cpu" else ROWS
    for name in names:
        if name not in ROWS:
            raise ValueError(f"--rows: {name!r} is not one of {', '.join(ROWS)}: choose from those.")
    settings = [ROWS[name] for name in names]
    if own:
        own = {"days": 1.0} | own | {"detectors": tuple(own.get("detectors", ("H1",)))}
        settings.append(Setting("own", **own))
    if not settings:
        raise ValueError(f"--rows names none: give some of {', '.join(ROWS)}.")
    return settings
