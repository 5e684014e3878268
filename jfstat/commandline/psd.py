"""`jfstat psd`: noise floors of SFT files over frequency, and spectrograms."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import jfstat
from jfstat.atomic import replacing
from jfstat.commandline.words import count, gps, number, words
from jfstat.commandline.work import check_outputs

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments, Work

OPERATIONS = (
    *("arithsum", "arithmean", "arithmedian", "harmsum", "harmmean", "powerminus2sum", "powerminus2mean"),
    *("min", "max"),
)
"""ComputePSD's names of how to combine, as `jfstat.psd` takes them."""
USUAL_BINS = 101
"""Bins of the running median, by default."""


def add_parser(subparsers: Any) -> None:
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
        type=count,
        default=USUAL_BINS,
        metavar="BINS",
        help=f"width of the running median, bins (default {USUAL_BINS})",
    )
    for option, letter, default, what in (
        ("PSDmthopSFTs", "S", "harmmean", "SFTs of a detector"),
        ("PSDmthopIFOs", "I", "harmsum", "detectors"),
        ("PSDmthopBins", "A", "arithmedian", "bins, with --binSize"),
    ):
        how.add_argument(
            f"--{option}",
            f"-{letter}",
            choices=OPERATIONS,
            metavar="OP",
            default=default,
            help=f"how to combine {what}: {', '.join(OPERATIONS)} (default {default})",
        )
    how.add_argument("--binSize", "-z", type=count, metavar="BINS", help="bins to combine to one row (default 1)")
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
    parser.set_defaults(plan=plan)


def plan(arguments: Arguments) -> Work:
    """Return the estimate that the options ask for."""
    outputs = arguments.outputPSD, arguments.plot, arguments.spectrogram
    check_outputs(outputs)
    chosen: Any = dict(detectors=arguments.IFOs, start=arguments.startTime, end=arguments.endTime)
    files = jfstat.find_sfts(arguments.inputData, **chosen)
    (low, high), tsft = files.band, files.times.tsft
    fmin = low if arguments.Freq is None else arguments.Freq
    fmax = high if arguments.FreqBand is None else fmin + arguments.FreqBand
    if not low * (1 - 1e-12) <= fmin < fmax <= high * (1 + 1e-12):
        raise ValueError(
            f"--Freq and --FreqBand ask for {fmin:.10g} to {fmax:.10g} Hz, but --inputData covers {low:.10g} to "
            f"{high:.10g} Hz: give a band in it."
        )
    wing = (arguments.blocksRngMed // 2 + 1) / tsft  # full windows at the ends of the band
    wide: Any = dict(fmin=max(low, fmin - wing), fmax=min(high, fmax + wing))
    read = partial(jfstat.read_sfts, arguments.inputData, **wide, **chosen)
    size = _bin_size(arguments, tsft)
    how: Any = dict(over_sfts=arguments.PSDmthopSFTs, bin_size=size)
    if len(files.times.detectors) > 1 and outputs[:2] != (None, None):  # only these show all detectors together
        how["over_detectors"] = arguments.PSDmthopIFOs
    if size > 1:
        how["over_bins"] = arguments.PSDmthopBins
    return partial(_run, read, (fmin, fmax), arguments.blocksRngMed, how, outputs)


def _check_pictures(paths: dict[str, str | None]) -> None:
    """Raise a ValueError if matplotlib has no format for a picture's name; it is imported only if one is drawn."""
    for option, path in paths.items():
        if path is None:
            continue
        from matplotlib.backend_bases import FigureCanvasBase

        if _format(path) not in FigureCanvasBase.get_supported_filetypes():
            raise ValueError(f"{option}={path} has an ending that matplotlib does not draw: give .png, .pdf or .svg.")


def _format(path: str) -> str:
    """Return the format of a picture by its file's ending."""
    return Path(path).suffix.lstrip(".").lower() or "png"


def _bin_size(arguments: Arguments, tsft: float) -> int:
    """Return how many bins make a row."""
    if arguments.binSizeHz is None:
        return 1 if arguments.binSize is None else arguments.binSize
    if arguments.binSize is not None:
        raise ValueError("--binSize and --binSizeHz say the same: give one.")
    size = int(arguments.binSizeHz * tsft + 0.5)
    if size < 1:
        raise ValueError(f"--binSizeHz={arguments.binSizeHz:g} is less than a bin of {1 / tsft:g} Hz: give more.")
    return size


def _run(read: Any, band: tuple[float, float], bins: int, how: dict[str, Any], outputs: tuple[str | None, ...]) -> None:
    """Read, estimate, print the median floors, write and draw."""
    text, picture, pictures = outputs
    _check_pictures({"--plot": picture, "--spectrogram": pictures})
    sfts = read()
    print(sfts)
    table: Any = jfstat.psd(sfts, *band, median_bins=bins, **how)
    path = None if text is None else jfstat.write_psd(table, text)
    for name, n_sfts in zip(table.meta["detectors"], table.meta["n_sfts"], strict=True):
        floor = float(np.median(np.asarray(table[f"sqrt_sx_{name}"].value)))
        print(f"  {name}: {n_sfts} SFTs, median noise floor {floor:.4g} /sqrt(Hz)")
    if path is not None:
        print(f"wrote {len(table)} rows to {path}")
    if picture is not None:
        print(f"drew {_drawn(picture, [table], 'plot_psd')}")
    if pictures is not None:
        parts = jfstat.spectrogram(sfts, *band, median_bins=bins)
        print(f"drew {_drawn(pictures, parts, 'plot_spectrogram')}")


def _drawn(path: str, parts: Any, plot: str) -> str:
    """Draw one panel for each part by a function of `jfstat.plots`, and return the file's name."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4 * len(parts)), layout="constrained")
    for i, part in enumerate(parts):
        getattr(jfstat.plots, plot)(figure.add_subplot(len(parts), 1, i + 1), part)
    with replacing(Path(path)) as file:
        figure.savefig(file, format=_format(path), dpi=150)
    return path
