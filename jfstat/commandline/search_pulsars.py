"""`jfstat search-pulsars`: known pulsars, each at its own template or in a small band around it."""

from __future__ import annotations

import time
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import jfstat
from jfstat.commandline.spellings import DATA, EPHEMERIS, ODDS, add, data_files, ephemeris, line_prior, noise
from jfstat.commandline.words import count, number
from jfstat.commandline.work import TABLES, check_outputs

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments, Work

SHOWN = ("name", "freq", "twoF", "log10BSGL", "h0", "h0_error", "false_alarm")
"""Columns that are printed."""
FORMATS = {"freq": ".9f", "h0": ".3g", "h0_error": ".2g", "false_alarm": ".3g", "twoF": ".2f", "log10BSGL": ".2f"}
MOST_ROWS = 40
"""Rows that are printed."""
NOTABLE = 0.03
"""Phase error in cycles from which on a pulsar is pointed out: up to some per cent of 2F may be lost."""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "search-pulsars",
        help="search SFT files for known pulsars",
        description="Compute 2F and the amplitudes at each known pulsar's template, in one table, or search a band "
        "around each. Without a band only the bins around the signals are read.",
    )
    data = parser.add_argument_group("data")
    add(data, "DataFiles", required=True)
    add(data, *DATA[1:], "assumeSqrtSX", "offSourceBins", "guard", *EPHEMERIS[1:])
    add(data, "ephemeris", help="solar-system ephemeris by name (default: each timing solution's own)")
    own = parser.add_argument_group("pulsars")
    own.add_argument(
        "--par",
        nargs="+",
        required=True,
        metavar="FILE",
        help=".par files of known pulsars, or tables as the ATNF catalogue's (.csv); patterns are allowed",
    )
    own.add_argument(
        "--harmonic",
        type=number,
        metavar="N",
        help="frequency of the signals over the rotation's, no unit (default 2)",
    )
    add(own, "refTime", help="reference time of the table, GPS s or UTC (default: data start)")
    add(own, "FreqBand", help="search a band of this full width around each pulsar, Hz")
    add(own, "f1dotBand", help="with --FreqBand: and so wide a range of f1dot, Hz/s")
    out = parser.add_argument_group("output")
    add(out, "outputFstat", help="a row for each pulsar or candidate: .ecsv or .hdf5")
    add(out, "NumCandidatesToKeep", type=count, help="with --FreqBand: the loudest N of each pulsar's band (default 1)")
    add(out, *ODDS)
    parser.set_defaults(plan=plan)


def plan(arguments: Arguments) -> Work:
    """Return the search that the options ask for."""
    path, width, top = arguments.outputFstat, arguments.FreqBand, None
    if width < 0:
        raise ValueError(f"--FreqBand={width:g} is negative: give the full width of the band in Hz.")
    if path is not None and not path.lower().endswith(TABLES):
        raise ValueError("jfstat search-pulsars needs --outputFstat with .ecsv or .hdf5: the text format has no names.")
    if arguments.f1dotBand and not width:
        raise ValueError("--f1dotBand needs --FreqBand, the width of the band in frequency: give both.")
    top = arguments.NumCandidatesToKeep
    if top is not None and not width:
        raise ValueError("--NumCandidatesToKeep needs --FreqBand: without, each pulsar has one template.")
    check_outputs([path])
    given = {"harmonic": arguments.harmonic, "top": top, "reftime": arguments.refTime}
    chosen: Any = {name: value for name, value in given.items() if value is not None}
    band = jfstat.PulsarBand(width, abs(arguments.f1dotBand or 0.0), **chosen)
    files = data_files(arguments, check_crc=False)
    prior = line_prior(arguments) if len(files.times.detectors) > 1 else None
    how: Any = dict(sqrt_sx=noise(arguments), ephemeris=ephemeris(arguments), guard=arguments.guard, line_prior=prior)
    return partial(_run, files, arguments.par, band, how, path)


def _run(files: jfstat.SFTFiles, names: list[str], band: jfstat.PulsarBand, how: dict[str, Any], path: Any) -> None:
    """Search, write the table and print a summary."""
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            pulsars = jfstat.read_pulsars(names)
            print(f"{len(pulsars)} pulsars from {', '.join(names)}")
            found: Any = jfstat.search_pulsars(files, pulsars, band, **how)
        finally:
            for warning in caught:
                print(f"note: {warning.message}")
    what = "candidates" if float(band.freq) else "pulsars"  # type: ignore[arg-type]
    if path is not None:
        jfstat.write_candidates(found, path)
    print(f"{found.meta['n_twoF']} values of 2F in {time.perf_counter() - began:.1f} s")
    _print_summary(found)
    if path is not None:
        print(f"wrote {len(found)} {what} to {path}")


def _print_summary(found: Any) -> None:
    """Print the loudest rows with some columns, and what a template leaves out of its pulsar's timing solution."""
    from astropy.table import QTable

    table: Any = QTable({name: found[name] for name in SHOWN if name in found.colnames})
    for name in table.colnames[1:]:
        table[name].info.format = FORMATS[name]
    table.sort("twoF", reverse=True)
    print("\n".join(table[:MOST_ROWS].pformat(max_lines=-1, max_width=-1)))
    if len(table) > MOST_ROWS:
        print(f"... and {len(table) - MOST_ROWS} more, in --outputFstat")
    if "phase_error" in found.colnames:
        notable = dict(zip(found["name"], found["phase_error"].to_value("cycle"), strict=True))
        for name, error in notable.items():
            if not error <= NOTABLE:
                print(
                    f"note: the template of {name} leaves out parts of its timing solution, up to {error:.2g} cycles: "
                    "search shorter stretches of the data"
                )
