"""From options and SFT files to a file of candidates: `jfstat search`."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from jfstat.commandline.inputs import add_data_files, read_band
from jfstat.commandline.options import (
    ORBIT_OPTIONS,
    add_orbit,
    add_preparation,
    add_sky,
    declination,
    ephemeris,
    gps,
    noise_floors,
    number,
    right_ascension,
    whole_second,
)
from jfstat.data.prepare import prepare
from jfstat.searching.grid import grid, orbits
from jfstat.searching.search import search, search_plan
from jfstat.searching.tables import check_writable, write_candidates
from jfstat.templates import Orbit


def add_parser(subparsers: Any) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "search",
        help="search SFT files for signals over a band and a flat grid of templates",
        description="Search SFT files over a frequency band and a flat grid of templates; print and write the loudest "
        "candidates. Options are named as ComputeFstatistic_v2's. Frequencies are spaced by 1/(2T), T being the data's "
        "span; spin-downs by 1/(2T^2), 1/(2T^3), ... unless a step is given.",
    )
    data = parser.add_argument_group("data")
    add_data_files(data)
    add_preparation(data)
    grids = parser.add_argument_group("templates: each parameter from its value to value + band, by a step")
    add_sky(grids)
    for name, kind, unit in (("Alpha", right_ascension, "RAD|H:M:S"), ("Delta", declination, "RAD|D:M:S")):
        grids.add_argument(
            f"--{name}Band", type=kind, default=0.0, metavar=unit, help=f"range in {name}, rad (default 0)"
        )
        grids.add_argument(f"--d{name}", type=kind, metavar=unit, help=f"step in {name}, rad; needed with --{name}Band")
    grids.add_argument("--Freq", "-f", type=number, required=True, metavar="HZ", help="lowest frequency, Hz")
    grids.add_argument(
        "--FreqBand", "-b", type=number, default=0.0, metavar="HZ", help="frequency band, Hz (default 0: one frequency)"
    )
    for k in (1, 2, 3):
        unit = "Hz/s" if k == 1 else f"Hz/s^{k}"
        grids.add_argument(
            f"--f{k}dot", type=number, metavar=unit.upper(), help=f"derivative {k} of the frequency, {unit} (default 0)"
        )
        grids.add_argument(
            f"--f{k}dotBand", type=number, metavar=unit.upper(), help=f"range in f{k}dot, {unit} (default 0)"
        )
        grids.add_argument(
            f"--df{k}dot", type=number, metavar=unit.upper(), help=f"step in f{k}dot, {unit} (default 1/(2T^{k + 1}))"
        )
    grids.add_argument(
        "--refTime",
        type=gps,
        metavar="GPS",
        help="reference time of frequency and spin-down in the SSB, GPS s or UTC (default: data start)",
    )
    add_orbit(grids)
    for option, unit, _ in ORBIT_OPTIONS.values():
        label = "s" if unit == "GPS" else "no unit" if unit == "1" else unit
        grids.add_argument(
            f"--{option}Band", type=number, metavar=unit.upper(), help=f"range in {option}, {label} (default 0)"
        )
        grids.add_argument(f"--d{option}", type=number, metavar=unit.upper(), help=f"step in {option}, {label}")
    out = parser.add_argument_group("output")
    out.add_argument(
        "--outputFstat",
        "-F",
        metavar="FILE",
        help="candidates: .ecsv, .hdf5, or anything else for ComputeFstatistic_v2's text format",
    )
    out.add_argument(
        "--NumCandidatesToKeep",
        type=int,
        default=1000,
        metavar="N",
        help="keep at most this many, the loudest (default 1000)",
    )
    out.add_argument("--TwoFthreshold", type=number, metavar="2F", help="keep only 2F at or above this, no unit")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Read, prepare and search; print the loudest candidate and write the table."""
    if arguments.FreqBand < 0:
        raise ValueError(
            f"--FreqBand must not be negative, not {arguments.FreqBand:g}: give the width of the band in Hz."
        )
    if not arguments.Freq > 0:
        raise ValueError(f"--Freq must be positive, not {arguments.Freq:g}: give the lowest frequency in Hz.")
    fmin, fmax = arguments.Freq, arguments.Freq + arguments.FreqBand
    alpha, delta = (_range(arguments, name) for name in ("Alpha", "Delta"))
    for name, value in (("Alpha", alpha), ("Delta", delta)):
        if isinstance(value, tuple) and len(value) == 2:
            raise ValueError(f"--d{name} is missing: the sky has no natural step, so give one in rad.")
    spins = {f"f{k}dot": _range(arguments, f"f{k}dot") for k in (1, 2, 3)}
    stack = _orbits(arguments)
    if arguments.outputFstat is not None:
        check_writable(arguments.outputFstat)  # rather now than after the search
    fdots = [(x[0], x[1]) if isinstance(x, tuple) else (x or 0.0, x or 0.0) for x in spins.values()]
    reftime = whole_second(arguments.refTime, "--refTime")
    sfts = read_band(arguments, fmin, fmax, arguments.guard, stack, fdots, reftime)
    # a band of no width is one frequency, as in ComputeFstatistic_v2: less than a bin wide
    fmax = max(fmax, fmin + 0.25 / (sfts.end - sfts.start))
    data = prepare(
        sfts,
        fmin,
        fmax,
        reftime,
        noise_floors(arguments),
        ephemeris(arguments),
        arguments.guard,
        orbit=stack,
        fdots=fdots,
    )
    del sfts  # prepared data are all that is needed; SFTs may fill the memory
    bank = grid(alpha, delta, spins["f1dot"] or 0.0, spins["f2dot"], spins["f3dot"], orbit=stack, data=data)
    print(data)
    plan = search_plan(data, bank)
    parts = "" if len(plan.bands) == 1 else f", the band in {len(plan.bands)} parts"
    print(f"needs {plan.device_bytes / 1e9:.2f} GB of memory, {plan.batch_size} template(s) at a time{parts}")
    began = time.perf_counter()
    found: Any = search(
        data, bank, arguments.NumCandidatesToKeep, arguments.TwoFthreshold, progress=sys.stderr.isatty()
    )
    elapsed = time.perf_counter() - began
    print(f"{found.meta['n_twoF']} values of 2F for {found.meta['n_templates']} template(s) in {elapsed:.1f} s")
    print_loudest(found)
    if arguments.outputFstat is not None:
        print(f"wrote {len(found)} candidates to {write_candidates(found, arguments.outputFstat)}")


def print_loudest(found: Any) -> None:
    """Print the loudest candidate, a parameter a line with its unit."""
    if len(found) == 0:
        print("no candidate at or above --TwoFthreshold")
        return
    print(f"loudest of {len(found)} candidates, at reference time GPS {found.meta['reftime']}:")
    for name in found.colnames:
        value = found[name][0]
        unit = getattr(value, "unit", "")
        digits = ".4f" if name.startswith("twoF") else ".16g"
        print(f"  {name:8s} {float(getattr(value, 'value', value)):{digits}} {unit}".rstrip())


def _range(arguments: argparse.Namespace, name: str) -> Any:
    """What `grid` takes, from a value, its band and its step: a number, or (low, high[, step]); None if not given."""
    low, width, step = (getattr(arguments, option) for option in (name, f"{name}Band", f"d{name}"))
    if step is not None and step <= 0:
        raise ValueError(f"--d{name} must be positive, not {step:g}: give the step of the grid.")
    if width is not None and width < 0:
        raise ValueError(f"--{name}Band must not be negative, not {width:g}: the range starts at --{name}.")
    if not width:
        return low
    low = 0.0 if low is None else low
    return (low, low + width) if step is None else (low, low + width, step)


def _orbits(arguments: argparse.Namespace) -> Orbit | None:
    given = {}
    for name, (option, _, _) in ORBIT_OPTIONS.items():
        value = _range(arguments, option)
        if isinstance(value, tuple) and len(value) == 2:
            raise ValueError(f"--d{option} is missing: orbits have no natural step, so give one.")
        if value is not None:
            given[name] = value
    missing = [ORBIT_OPTIONS[name][0] for name in ("asini", "period", "tp") if name not in given]
    if given and missing:
        raise ValueError(f"--{missing[0]} is missing: a binary orbit needs --orbitasini, --orbitPeriod and --orbitTp.")
    return orbits(given) if given else None
