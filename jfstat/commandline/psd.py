"""`jfstat psd`: noise floors of SFT files over frequency, and spectrograms."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jfstat.atomic import replacing, written_to
from jfstat.commandline.options import gps, number, words
from jfstat.data.noise import MEDIAN_BINS
from jfstat.data.psd import OPERATIONS, psd, spectrogram
from jfstat.io.candidates import HDF5_SUFFIXES, check_writable, write_candidates
from jfstat.io.lal.psd import psd_text
from jfstat.sfts.reading import band_of, read_sfts

if TYPE_CHECKING:
    from jfstat.candidates.tables import AnyTable
    from jfstat.commandline.options import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "psd",
        help="noise floors of SFT files over frequency, and spectrograms",
        description="Estimate the single-sided power spectral density of the noise in SFT files, by a running median "
        "of each SFT's periodogram: of each detector and of all together. Options are named as ComputePSD's.",
    )
    data = parser.add_argument_group("data")
    data.add_argument(
        "--inputData",
        "-i",
        required=True,
        metavar="PATTERN",
        help="SFT files: a name or glob, several joined by ';', or list:FILE",
    )
    data.add_argument("--IFOs", "--IFO", type=words, metavar="H1,L1", help="detectors (default: all)")
    data.add_argument("--startTime", "-s", type=gps, metavar="GPS", help="use SFTs from this time on, GPS s or UTC")
    data.add_argument("--endTime", "-e", type=gps, metavar="GPS", help="use SFTs before this time, GPS s or UTC")
    data.add_argument("--Freq", type=number, metavar="HZ", help="lowest frequency, Hz (default: that of the files)")
    data.add_argument(
        "--FreqBand", type=number, metavar="HZ", help="frequency band, Hz (default: up to the files' end)"
    )
    how = parser.add_argument_group("estimate")
    how.add_argument(
        "--blocksRngMed",
        "-w",
        type=int,
        default=MEDIAN_BINS,
        metavar="BINS",
        help=f"width of the running median, bins (default {MEDIAN_BINS})",
    )
    for option, letter, default, what in (
        ("PSDmthopSFTs", "S", "harmmean", "SFTs of a detector"),
        ("PSDmthopIFOs", "I", "harmsum", "detectors"),
        ("PSDmthopBins", "A", "arithmedian", "bins, with --binSize"),
    ):
        how.add_argument(
            f"--{option}",
            f"-{letter}",
            choices=tuple(OPERATIONS),
            metavar="OP",
            default=default,
            help=f"how to combine {what}: {', '.join(OPERATIONS)} (default {default})",
        )
    how.add_argument("--binSize", "-z", type=int, metavar="BINS", help="bins to combine to one row (default 1)")
    how.add_argument("--binSizeHz", "-Z", type=number, metavar="HZ", help="the same in Hz")
    out = parser.add_argument_group("output")
    out.add_argument(
        "--outputPSD",
        "-o",
        metavar="FILE",
        help="table: .ecsv or .hdf5 with units (Hz, 1/Hz, 1/sqrt(Hz)), or anything else for ComputePSD's text format, "
        "Hz and 1/Hz, with a further column for each detector",
    )
    out.add_argument("--plot", metavar="FILE", help="picture of the amplitude spectral densities, 1/sqrt(Hz)")
    out.add_argument("--spectrogram", metavar="FILE", help="picture of the noise floor over time and frequency")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Read, estimate, print the median floors, write and draw."""
    for file in filter(None, (arguments.outputPSD, arguments.plot, arguments.spectrogram)):
        check_writable(file)
    chosen = {"detectors": arguments.IFOs, "start": arguments.startTime, "end": arguments.endTime}
    tsft, first_bin, last_bin = band_of(arguments.inputData, **chosen)
    low, high = first_bin / tsft, (last_bin + 1) / tsft
    fmin = low if arguments.Freq is None else arguments.Freq
    fmax = high if arguments.FreqBand is None else fmin + arguments.FreqBand
    if not low * (1 - 1e-12) <= fmin < fmax <= high * (1 + 1e-12):
        raise ValueError(
            f"--Freq and --FreqBand ask for {fmin:.10g} to {fmax:.10g} Hz, but --inputData covers {low:.10g} to "
            f"{high:.10g} Hz: give a band in it."
        )
    wing = (arguments.blocksRngMed // 2 + 1) / tsft  # full windows at the ends of the band
    sfts = read_sfts(arguments.inputData, fmin=max(low, fmin - wing), fmax=min(high, fmax + wing), **chosen)
    print(sfts)
    table = psd(
        sfts,
        fmin,
        fmax,
        median_bins=arguments.blocksRngMed,
        over_sfts=arguments.PSDmthopSFTs,
        over_detectors=arguments.PSDmthopIFOs,
        bin_size=_bin_size(arguments, tsft),
        over_bins=arguments.PSDmthopBins,
    )
    path = None if arguments.outputPSD is None else _written(table, Path(arguments.outputPSD))
    _print_floors(table)
    if path is not None:
        print(f"wrote {len(table)} rows to {path}")
    if arguments.plot is not None:
        print(f"drew {_drawn(arguments.plot, [table], 'plot_psd')}")
    if arguments.spectrogram is not None:
        parts = spectrogram(sfts, fmin, fmax, median_bins=arguments.blocksRngMed)
        print(f"drew {_drawn(arguments.spectrogram, parts, 'plot_spectrogram')}")


def _bin_size(arguments: argparse.Namespace, tsft: float) -> int:
    if arguments.binSizeHz is None:
        return 1 if arguments.binSize is None else arguments.binSize
    if arguments.binSize is not None:
        raise ValueError("--binSize and --binSizeHz say the same: give one.")
    return int(arguments.binSizeHz * tsft + 0.5)


def _print_floors(table: AnyTable) -> None:
    """Print the median over frequency of each amplitude spectral density."""
    import numpy as np

    for name, n_sfts in zip(table.meta["detectors"], table.meta["n_sfts"], strict=True):
        floor = float(np.median(np.asarray(table[f"sqrt_sx_{name}"].value)))
        print(f"  {name}: {n_sfts} SFTs, median noise floor {floor:.4g} /sqrt(Hz)")


def _written(table: Any, path: Path) -> Path:
    """Write the table in the format that the file's suffix names."""
    if path.suffix.lower() in (".ecsv", *HDF5_SUFFIXES):
        return write_candidates(table, path)
    return written_to(path, psd_text(table).encode())


def _drawn(path: str, parts: Any, plot: str) -> str:
    """A picture with one panel for each part, drawn by a function of `jfstat.plots`."""
    from matplotlib.figure import Figure

    from jfstat import plots

    figure = Figure(figsize=(9, 4 * len(parts)), layout="constrained")
    for i, part in enumerate(parts):
        getattr(plots, plot)(figure.add_subplot(len(parts), 1, i + 1), part)
    suffix = Path(path).suffix.lstrip(".") or "png"
    with replacing(Path(path)) as file:
        figure.savefig(file, format=suffix, dpi=150)
    return path
