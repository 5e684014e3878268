"""`jfstat search --par`: known pulsars, each at its own template or in a small band around it."""

from __future__ import annotations

import argparse
import time
import warnings
from typing import TYPE_CHECKING, Any

from jfstat.candidates.tables import AnyTable
from jfstat.commandline.inputs import detectors_to_read
from jfstat.commandline.options import ephemeris, line_prior, noise, number
from jfstat.io.candidates import HDF5_SUFFIXES, check_writable, write_candidates
from jfstat.pulsars.pulsar import QUADRUPOLE
from jfstat.pulsars.reading import read_pulsars
from jfstat.searching.knownpulsars import PulsarBand
from jfstat.searching.pulsars import search_pulsars
from jfstat.sfts.reading import find_sfts

if TYPE_CHECKING:
    from jfstat.commandline.options import OptionGroup

SHOWN = ("name", "freq", "twoF", "log10BSGL", "h0", "h0_error", "false_alarm")
"""Columns that are printed."""
MOST_ROWS = 40
"""Rows that are printed."""
NOTABLE = 0.03
"""Phase error in cycles from which on a pulsar is pointed out: up to some per cent of 2F may be lost."""
APPLIES = (
    *(
        "par",
        "harmonic",
        "DataFiles",
        "IFOs",
        "detectorFiles",
        "minStartTime",
        "maxStartTime",
        "assumeSqrtSX",
        "offSourceBins",
        "guard",
        "refTime",
    ),
    *("ephemeris", "ephemEarth", "ephemSun", "FreqBand", "f1dotBand", "outputFstat", "NumCandidatesToKeep"),
    *("Fstar0", "oLGX", "run"),
)
"""Options that go with ``--par``."""


def add_pulsars(group: OptionGroup) -> None:
    """Add the option for known pulsars."""
    group.add_argument(
        "--par",
        nargs="+",
        metavar="FILE",
        help="instead of all these: .par files of known pulsars, or tables as the ATNF catalogue's (.csv); patterns "
        "are allowed. 2F and amplitudes at each pulsar's template, in one table; with --FreqBand and --f1dotBand the "
        "loudest --NumCandidatesToKeep (default 1) of a band of this full width around each",
    )
    group.add_argument(
        "--harmonic",
        type=number,
        default=QUADRUPOLE,
        metavar="N",
        help="with --par: frequency of the signals over that of the rotation, no unit (default 2)",
    )


def run_pulsars(arguments: argparse.Namespace, given: list[str]) -> None:
    """Search the pulsars, write the table and print a summary; `given` are the options on the command line."""
    for name in given:
        if name not in APPLIES:
            raise ValueError(f"--{name} does not go with --par: leave it out.")
    path = arguments.outputFstat
    if path is not None and not path.lower().endswith((".ecsv", *HDF5_SUFFIXES)):
        raise ValueError("--par needs --outputFstat with .ecsv or .hdf5: the text format has no names.")
    if arguments.f1dotBand and not arguments.FreqBand:
        raise ValueError("--f1dotBand with --par needs --FreqBand, the width of the band in frequency: give both.")
    if arguments.NumCandidatesToKeep is not None and not arguments.FreqBand:
        raise ValueError("--NumCandidatesToKeep with --par needs --FreqBand: without, each pulsar has one template.")
    if arguments.NumCandidatesToKeep is not None and arguments.NumCandidatesToKeep < 1:
        raise ValueError("--NumCandidatesToKeep with --par must be at least 1, the rows of each pulsar.")
    if path is not None:
        check_writable(path)
    chosen = (arguments.ephemeris, arguments.ephemEarth, arguments.ephemSun) != (None, None, None)
    band = PulsarBand(
        abs(arguments.FreqBand),
        abs(arguments.f1dotBand or 0.0),
        arguments.NumCandidatesToKeep or 1,
        arguments.harmonic,
        arguments.refTime,
    )
    began = time.perf_counter()
    found: Any = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            pulsars = read_pulsars(arguments.par)
            print(f"{len(pulsars)} pulsars from {', '.join(arguments.par)}")
            files = find_sfts(
                arguments.DataFiles, detectors_to_read(arguments), arguments.minStartTime, arguments.maxStartTime
            )
            found = search_pulsars(
                files,
                pulsars,
                band,
                sqrt_sx=noise(arguments),
                ephemeris=ephemeris(arguments) if chosen else None,
                guard=arguments.guard,
                line_prior=line_prior(arguments),
            )
        finally:
            for warning in caught:
                print(f"note: {warning.message}")
    if path is not None:
        write_candidates(found, path)
    print(f"{found.meta['n_twoF']} values of 2F in {time.perf_counter() - began:.1f} s")
    _print_summary(found)
    if path is not None:
        print(f"wrote {len(found)} {'candidates' if arguments.FreqBand else 'pulsars'} to {path}")


def _print_summary(found: AnyTable) -> None:
    """The loudest rows with some columns, and what a template leaves out of its pulsar's timing solution."""
    from astropy.table import QTable

    table: Any = QTable({name: found[name] for name in SHOWN if name in found.colnames})
    formats = {"freq": ".9f", "h0": ".3g", "h0_error": ".2g", "false_alarm": ".3g", "twoF": ".2f", "log10BSGL": ".2f"}
    for name in table.colnames[1:]:
        table[name].info.format = formats[name]
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
