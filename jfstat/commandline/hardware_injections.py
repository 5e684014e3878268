"""`jfstat hardware-injections`: are LIGO's hardware injections in the data as they were injected?"""

from __future__ import annotations

import sys
import time
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import jfstat
from jfstat.commandline.make_sfts import quality_bits
from jfstat.commandline.spellings import add
from jfstat.commandline.words import number, words
from jfstat.commandline.work import TABLES, check_outputs

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments, Work

SHOWN = ("name", "freq", "expected_twoF", "twoF", "h0_injected", "h0", "h0_error", "phase_difference")
SHOWN += ("phase_difference_error", "agrees")
"""Columns that are printed."""
FORMATS = {"freq": ".6f", "expected_twoF": ".1f", "twoF": ".1f", "h0_injected": ".3g", "h0": ".3g", "h0_error": ".2g"}
FORMATS |= {"phase_difference": ".3f", "phase_difference_error": ".2g"}
LOUD = 68.0
"""Expected 2F, of a signal-to-noise ratio of 8, from which on an injection says something about the data."""
OF_STRAIN = ("channel_name", "quality_bits", "sft_duration", "high_pass_freq")
"""Options that go with ``--frame-files``."""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "hardware-injections",
        help="find LIGO's hardware injections in strain or SFT files and compare them with what was injected",
        description="Filter the data with each continuous wave that was injected into LIGO's hardware, and print "
        "expected and found 2F, h0 and phase. Strain files are turned into SFTs of the bands around the injections, in "
        "memory. Exit status 1 if an injection with an expected signal-to-noise ratio of 8 or more does not agree.",
    )
    data = parser.add_argument_group("data")
    files = data.add_mutually_exclusive_group(required=True)
    add(files, "DataFiles")
    files.add_argument(
        "--frame-files",
        metavar="PATTERN",
        help="instead: strain files, as for jfstat make-sfts: HDF5 of GWOSC (needs h5py) or frame files (.gwf)",
    )
    add(data, "IFOs", help="detectors (default: all of LIGO's)")
    add(data, "minStartTime", help="use data from this time on, GPS s or UTC")
    add(data, "maxStartTime", help="use SFTs, or strain, before this time, GPS s or UTC")
    data.add_argument(
        "--run",
        metavar="RUN",
        help="observing run: S5, S6, O1, O2, O3, O3a, O3b or O4a (default: the one of the data's times)",
    )
    strain = parser.add_argument_group("strain files")
    strain.add_argument("--channel-name", "-N", metavar="NAME", help="channel of frame files, as for jfstat make-sfts")
    strain.add_argument(
        "--quality-bits",
        type=words,
        metavar="BIT,...",
        help="data-quality bits that must be set, as for jfstat make-sfts (default: DATA); seconds without injections "
        "are left out",
    )
    strain.add_argument("--sft-duration", "-t", type=number, metavar="S", help="length of an SFT, s (default 1800)")
    strain.add_argument(
        "--high-pass-freq", type=number, metavar="HZ", help="knee frequency of the high-pass filter, Hz (default 7)"
    )
    out = parser.add_argument_group("comparison")
    out.add_argument(
        "--tolerance",
        type=number,
        default=0.1,
        metavar="X",
        help="error of amplitude (as a part of it) and phase (rad) that actuators and calibration are allowed, beyond "
        "four standard deviations of the noise (default 0.1)",
    )
    add(out, "outputFstat", help="a row for each injection: .ecsv or .hdf5")
    parser.set_defaults(plan=plan)


def plan(arguments: Arguments) -> Work:
    """Return the comparison that the options ask for."""
    path = arguments.outputFstat
    if path is not None and not path.lower().endswith(TABLES):
        raise ValueError("jfstat hardware-injections needs --outputFstat with .ecsv or .hdf5: others have no names.")
    check_outputs([path])
    times = arguments.minStartTime, arguments.maxStartTime
    tolerance, run = arguments.tolerance, arguments.run
    if not tolerance >= 0:
        raise ValueError(f"--tolerance={tolerance:g} is negative: give a part of the amplitude, such as 0.1.")
    if run is not None:
        jfstat.hardware_injections(run)  # or there is no such run
    if arguments.DataFiles is not None:
        unused = arguments.first_given(*OF_STRAIN)
        if unused is not None:
            raise ValueError(f"{unused} goes with --frame-files only: leave it out.")
        data = partial(_files, arguments.DataFiles, arguments.IFOs, times)
    else:
        how: dict[str, Any] = dict(detectors=arguments.IFOs, channel=arguments.channel_name)
        how["quality"] = jfstat.DataQuality(quality_bits(arguments.quality_bits), start=times[0], end=times[1])
        if arguments.sft_duration is not None:
            how["tsft"] = arguments.sft_duration
        if arguments.high_pass_freq is not None:
            how["conditioning"] = jfstat.Conditioning(highpass=arguments.high_pass_freq or None)
        data = partial(_strain, arguments.frame_files, run, how)
    return partial(_run, data, run, tolerance, path)


def _files(pattern: str, detectors: list[str] | None, times: tuple[float | None, float | None]) -> Any:
    """Return the SFTs of ``--DataFiles``."""
    return jfstat.find_sfts(pattern, detectors, start=times[0], end=times[1], check_crc=False)


def _strain(paths: str, run: str | None, how: dict[str, Any]) -> Any:
    """Make the SFTs of ``--frame-files``, and say so."""
    began = time.perf_counter()
    bands = jfstat.hardware_injection_sfts(paths, run, **how)
    numbers = ", ".join(f"{len(series)} of {series.detector}" for series in bands[0])
    print(f"{numbers}: SFTs of {bands[0].tsft:g} s in {len(bands)} bands, in {time.perf_counter() - began:.1f} s")
    return bands


def _run(data: Any, run: str | None, tolerance: float, path: str | None) -> None:
    """Compare, write and print the table, and judge it; raises SystemExit if an injection does not agree."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            sfts = data()
            began = time.perf_counter()
            found: Any = jfstat.check_hardware_injections(sfts, run, tolerance=tolerance)
        finally:
            for warning in caught:
                print(f"note: {warning.message}", file=sys.stderr)
    if path is not None:
        jfstat.write_candidates(found, path)
    print(f"{len(found)} hardware injections of {found.meta['run']} in {time.perf_counter() - began:.1f} s")
    table = found[list(SHOWN)]
    for name, text in FORMATS.items():
        table[name].info.format = text
    print("\n".join(table.pformat(max_lines=-1, max_width=-1)))
    if path is not None:
        print(f"wrote {len(found)} injections to {path}")
    if found.meta["left_out"]:
        print(f"not in the data's bands: {', '.join(found.meta['left_out'])}")
    loud = found["expected_twoF"] >= LOUD
    wrong = list(found["name"][loud & ~found["agrees"]])
    if not any(loud):
        print(f"no injection has an expected 2F of {LOUD:g} or more: use more data, or the run's other bands")
        return
    print(
        f"{sum(loud) - len(wrong)} of {sum(loud)} injections with an expected 2F of {LOUD:g} or more agree within "
        f"{tolerance:g} and the noise" + (f", not {', '.join(wrong)}" if wrong else "")
    )
    if wrong:
        raise SystemExit(1)
