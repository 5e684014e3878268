"""`jfstat make-sfts`: SFT files from strain in frame files and HDF5 files of GWOSC."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

import numpy as np

from jfstat.commandline.options import gps, number, option_type, words
from jfstat.io.lal.times import read_segments
from jfstat.sfts.container import SFTs, SFTSeries
from jfstat.sfts.naming import public_description
from jfstat.sfts.writing import write_sfts
from jfstat.strain.files import DataQuality, read_cache, strain_of_files
from jfstat.strain.gating import Gating
from jfstat.strain.making import Conditioning, Made, Making, made_sfts

if TYPE_CHECKING:
    from jfstat.commandline.options import Subparsers
    from jfstat.strain.strain import Strain

LISTED = 10
"""Most SFTs that are named because gating left them out."""
GWOSC_RATE, GWOSC_VALID = 4096, 1600.0
"""GWOSC's lower sampling rate, 1/s, and the frequency up to which strain at that rate is surely right, Hz."""


@option_type("a list of bands such as 25-50,70-110, in Hz")
def bands(word: str) -> list[tuple[float, float]]:
    """Pairs of frequencies, Hz."""
    pairs = [part.split("-") for part in word.split(",")]
    return [(number(low), number(high)) for low, high in pairs]


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "make-sfts",
        help="make SFT files from strain in frame files and HDF5 files of GWOSC",
        description="Make SFTs of one detector's strain and write a file for each. Options are named as "
        "lalpulsar_MakeSFTs's. SFTs follow one another from the start of each stretch of good time.",
    )
    data = parser.add_argument_group("strain")
    files = data.add_mutually_exclusive_group(required=True)
    files.add_argument(
        "--frame-files",
        metavar="PATTERN",
        help="strain files: frame files (.gwf, needs LALSuite) or HDF5 in GWOSC's layout (.hdf5, needs h5py); a name, "
        "folder or glob, several joined by ';', or list:FILE",
    )
    files.add_argument(
        "--frame-cache", "-C", metavar="FILE", help="instead: a frame cache, lines of 'H H1_HOFT start length URL'"
    )
    data.add_argument(
        "--channel-name", "-N", metavar="NAME", help="channel of frame files (default: the only one named ..STRAIN)"
    )
    data.add_argument("--IFO", metavar="H1", help="detector, if there are files of several")
    data.add_argument("--gps-start-time", "-s", type=gps, metavar="GPS", help="use strain from here on, GPS s or UTC")
    data.add_argument("--gps-end-time", "-e", type=gps, metavar="GPS", help="use strain up to here, GPS s or UTC")
    data.add_argument(
        "--segment-file",
        "-g",
        metavar="FILE",
        help="science segments, lines of start and end in GPS s, as lalpulsar_MakeSFTDAG's",
    )
    data.add_argument(
        "--quality-bits",
        type=words,
        metavar="BIT,...",
        help="data-quality bits that must be set: GWOSC's names, such as DATA,CBC_CAT1, or numbers of the bits of "
        "--quality-channel; none for none (default: DATA in files that have GWOSC's bits); NO_CW_HW_INJ throws most of "
        "a LIGO run away, which has hardware injections of continuous waves most of the time",
    )
    data.add_argument("--quality-channel", metavar="NAME", help="channel of frame files whose bits have numbers")
    made = parser.add_argument_group("SFTs")
    made.add_argument(
        "--sft-duration", "-t", type=number, default=1800.0, metavar="S", help="length of an SFT, s (default 1800)"
    )
    made.add_argument(
        "--high-pass-freq",
        "-f",
        type=number,
        required=True,
        metavar="HZ",
        help="knee frequency of the high-pass filter, Hz; 7 is usual; 0 for none",
    )
    made.add_argument(
        "--window-type",
        "-w",
        default="tukey:0.001",
        metavar="NAME",
        help="rectangular, hann or tukey:BETA (default tukey:0.001, as LVK's SFTs)",
    )
    made.add_argument("--window-param", "-r", type=number, metavar="BETA", help="with tukey: tapered fraction, 0 to 1")
    made.add_argument(
        "--start-freq", "-F", type=number, default=48.0, metavar="HZ", help="lowest frequency, Hz (default 48)"
    )
    made.add_argument("--band", "-B", type=number, default=2000.0, metavar="HZ", help="band, Hz (default 2000)")
    gates = parser.add_argument_group("gating of loud glitches")
    usual = Gating()
    gates.add_argument(
        "--gate-threshold",
        type=number,
        metavar="SIGMA",
        help="fade strain out where it exceeds so many standard deviations in one of the bands; 10 is a usual value "
        "(default: no gating)",
    )
    gates.add_argument(
        "--gate-bands",
        type=bands,
        default=usual.bands,
        metavar="HZ-HZ,...",
        help="bands, Hz (default " + ",".join(f"{low:g}-{high:g}" for low, high in usual.bands) + ")",
    )
    gates.add_argument(
        "--gate-tzero",
        type=number,
        default=usual.tzero,
        metavar="S",
        help=f"half-width of what is set to zero, s (default {usual.tzero:g})",
    )
    gates.add_argument(
        "--gate-tpad", type=number, default=usual.tpad, metavar="S", help=f"taper, s (default {usual.tpad:g})"
    )
    gates.add_argument(
        "--gate-most",
        type=number,
        default=usual.most_gated,
        metavar="PART",
        help="leave SFTs out of which a larger part is set to zero (default 1/60, that is 30 s of 1800 s)",
    )
    out = parser.add_argument_group("output")
    out.add_argument(
        "--sft-write-path", "-p", default=".", metavar="DIR", help="where to write the SFT files (default: here)"
    )
    out.add_argument(
        "--observing-run",
        "-O",
        type=int,
        default=0,
        metavar="N",
        help="for public names: the observing run, without the O (default 0, private names)",
    )
    out.add_argument(
        "--observing-kind", "-K", choices=("RUN", "AUX", "SIM", "DEV"), help="for public names: kind of the SFTs"
    )
    out.add_argument("--observing-revision", "-R", type=int, metavar="N", help="for public names: revision, from 1 on")
    out.add_argument("--misc-desc", "-X", default="", metavar="WORD", help="description in private names")
    out.add_argument("--comment-field", "-c", metavar="TEXT", help="comment in the SFTs")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Make and write SFTs one after the other."""
    window = arguments.window_type.lower()
    if arguments.window_param is not None:
        window = f"{window}:{arguments.window_param:g}"
    gating = None
    if arguments.gate_threshold is not None:
        gating = Gating(
            arguments.gate_threshold,
            arguments.gate_bands,
            arguments.gate_tzero,
            arguments.gate_tpad,
            arguments.gate_most,
        )
    strain = strain_of_files(
        arguments.frame_files if arguments.frame_cache is None else read_cache(arguments.frame_cache),
        arguments.channel_name,
        arguments.IFO,
        DataQuality(
            _bits(arguments.quality_bits),
            arguments.quality_channel,
            None if arguments.segment_file is None else read_segments(arguments.segment_file),
            arguments.gps_start_time,
            arguments.gps_end_time,
        ),
    )
    low, high = arguments.start_freq, arguments.start_freq + arguments.band
    conditioning = Conditioning(window, arguments.high_pass_freq or None, gating)
    making = Making.of(strain.rate, arguments.sft_duration, low, high, conditioning)
    description = _description(arguments, strain.channel, window)
    seconds = sum(stop - first for first, stop in strain.stretches) / strain.rate
    print(
        f"{strain.site.prefix}: {len(strain.files)} files, {seconds:.0f} s of good time in {len(strain.stretches)} "
        f"stretches, {strain.rate} samples/s"
    )
    if strain.rate == GWOSC_RATE and high > GWOSC_VALID:
        print(
            f"jfstat: note: GWOSC's strain at {GWOSC_RATE} Hz is not valid near its Nyquist frequency: above "
            f"{GWOSC_VALID:g} Hz use the files at 16384 Hz, or a smaller --band",
            file=sys.stderr,
        )
    comment = arguments.comment_field or "made by jfstat make-sfts"
    n, gated, left_out = 0, 0.0, []
    for sft in made_sfts(strain, making):
        if sft.bins is None:
            left_out.append(sft)
            continue
        _write(strain, making, sft, arguments.sft_write_path, comment, description)
        n, gated = n + 1, gated + sft.gated
    if gating is not None:
        print(f"gating set {gated:.1f} s of {n * making.tsft:.0f} s to zero and left out {len(left_out)} SFTs")
        for sft in left_out[:LISTED]:
            print(f"  GPS {sft.gps}: {sft.gated:.1f} s of it would be zero")
    if n == 0:
        raise ValueError(
            f"--frame-files hold no stretch of {making.tsft:g} s of good time: no SFT was made; use a shorter "
            "--sft-duration, or other --quality-bits."
        )
    print(f"wrote {n} SFTs, {low:g} to {high:g} Hz, to {arguments.sft_write_path}")


def _write(strain: Strain, making: Making, sft: Made, directory: str, comment: str, description: str) -> None:
    """Write a file of one SFT."""
    assert sft.bins is not None
    times = np.array([sft.gps], np.int64)
    series = SFTSeries.of(strain.site, times, np.zeros_like(times), sft.bins[np.newaxis], making.conditioning.window)
    sfts = SFTs((series,), making.tsft, making.bins.start)
    write_sfts(sfts, directory, merge=False, comment=comment, description=description, name_band=False)


def _bits(quality: list[str] | None) -> list[str | int] | None:
    """Data-quality bits as `sfts_from_frames` takes them."""
    if quality is None:
        return None
    return [] if quality == ["none"] else [int(bit) if bit.isdigit() else bit for bit in quality]


def _description(arguments: argparse.Namespace, channel: str, window: str) -> str:
    """The field of the files' names that says what they are."""
    public = {"--observing-kind": arguments.observing_kind, "--observing-revision": arguments.observing_revision}
    if arguments.observing_run == 0:
        given = [name for name, value in public.items() if value is not None]
        if given:
            raise ValueError(f"{given[0]} is for public names, with --observing-run: give that too, or neither.")
        return arguments.misc_desc
    missing = [name for name, value in public.items() if value is None]
    if missing:
        raise ValueError(f"--observing-run is for public names, which need {missing[0]} too: give it.")
    if arguments.misc_desc:
        raise ValueError("--misc-desc is for private names, and --observing-run for public ones: give one of them.")
    return public_description(
        arguments.observing_run, arguments.observing_kind, arguments.observing_revision, channel, window
    )
