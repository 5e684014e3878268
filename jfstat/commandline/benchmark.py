"""`jfstat benchmark`: how long 2F takes on this machine, in a table and by stages."""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jfstat
from jfstat.atomic import written_to
from jfstat.commandline.spellings import EPHEMERIS, add, ephemeris
from jfstat.commandline.words import count, natural, number, words
from jfstat.commandline.work import check_outputs

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments, Work


def add_parser(subparsers: Any) -> None:
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
        help="settings by name, of 1d, 5d, 10d, 10d-narrow, 10d-wide, 100d, 100d-two, 10d-spindown (default: all on a "
        "GPU, 1d, 5d, 10d on a CPU)",
    )
    rows.add_argument("--days", type=number, metavar="D", help="a setting of one's own: length, d (default 1)")
    rows.add_argument("--bandwidth", type=number, metavar="HZ", help="its band, Hz (default 0.606)")
    rows.add_argument("--frequency", type=number, metavar="HZ", help="its lowest frequency, Hz (default 100)")
    rows.add_argument("--detectors", type=words, metavar="H1,L1", help="its detectors (default H1)")
    how = parser.add_argument_group("how")
    how.add_argument("--path", choices=("xla", "cuda"), help="engine that computes (default: as jfstat.search would)")
    how.add_argument("--batch", type=count, metavar="N", help="templates computed together (default: by length)")
    how.add_argument("--repeats", type=count, default=7, metavar="N", help="times measured of each (default 7)")
    how.add_argument("--seed", type=natural, default=0, metavar="N", help="of noise and templates, no unit (default 0)")
    add(how, *EPHEMERIS)
    out = parser.add_argument_group("output")
    out.add_argument("--output", type=Path, metavar="FILE", help="all numbers, as JSON")
    parser.set_defaults(plan=plan)


def plan(arguments: Arguments) -> Work:
    """Return the measurement that the options ask for."""
    settings, tables = _chosen(arguments), ephemeris(arguments) or "DE405"
    jfstat.observation("H1", 1167458304, 86400, ephemeris=tables)  # a wrong name should not cost minutes
    check_outputs([arguments.output])
    how: Any = dict(arguments.read("batch", "repeats", "seed", "path"), ephemeris=tables)
    return partial(_run, settings, how, arguments.output)


def _run(settings: list[Any], how: dict[str, Any], output: Path | None) -> None:
    """Measure row by row, then print tables and write the file."""
    import jax

    from jfstat import benchmarking

    jax.config.update("jax_enable_compilation_cache", False)  # or it would hide what compilation costs
    rows = []
    for k, setting in enumerate(settings, start=1):
        found = benchmarking.measure(benchmarking.Request(setting, **how))
        rows.append({"setting": dataclasses.asdict(setting), "runs": [dataclasses.asdict(found)]})
        print(f"{k}/{len(settings)} {setting.name}: tau {found.tau:.2e} s", file=sys.stderr, flush=True)
    first = rows[0]["runs"][0]
    device = benchmarking.device_name(first)
    print(f"{device}, jax {jax.__version__}: a copy moves {first['copy_bandwidth'] / 1e9:.3g} GB/s")
    print(f"{benchmarking.main_table(rows)}\n\n{benchmarking.stage_table(rows)}")
    if output is not None:
        values = benchmarking.as_dict(rows, shlex.join(["jfstat", *sys.argv[1:]]))
        written_to(output, (json.dumps(values, indent=1, allow_nan=False) + "\n").encode())
        print(f"\nwrote {output}")


def _chosen(arguments: Arguments) -> list[Any]:
    """Return the settings that the options name.

    Raises
    ------
    ValueError
        If a row or detector is unknown or a number out of range.
    """
    import jax

    from jfstat.benchmarking import CPU_ROWS, ROWS, Setting

    given = arguments.read("days", "bandwidth", "frequency", "detectors")
    own: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if "detectors" in own:
        jfstat.observation(own["detectors"], 1167458304, 86400)  # refuses detectors that are not known
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
