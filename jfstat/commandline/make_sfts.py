"""`jfstat make-sfts`: SFT files from strain in frame files and HDF5 files of GWOSC."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import jfstat
from jfstat.commandline.overwriting import inputs_of
from jfstat.commandline.spellings import OptionGroup
from jfstat.commandline.words import bands, count, gps, natural, number, window_name, words

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments, Work

LISTED = 10
"""Most SFTs that are named because gating left them out."""
GWOSC_RATE, GWOSC_VALID = 4096, 1600.0
"""GWOSC's lower sampling rate, 1/s, and the frequency up to which strain at that rate is surely right, Hz."""
GATES = {"gate_bands": "bands", "gate_tzero": "tzero", "gate_tpad": "tpad", "gate_most": "most_gated"}
"""Options of gating, and the field of `jfstat.Gating` that each gives."""
OBSERVING = {"observing_kind": "--observing-kind", "observing_revision": "--observing-revision"}


def add_parser(subparsers: Any) -> None:
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
        help="strain files: frame files (.gwf) or HDF5 in GWOSC's layout (.hdf5, needs h5py); a name, "
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
    _add_making(parser.add_argument_group("SFTs"))
    _add_gating(parser.add_argument_group("gating of loud glitches"))
    _add_output(parser.add_argument_group("output"))
    parser.set_defaults(plan=plan)


def _add_making(made: OptionGroup) -> None:
    """Add the options that say how SFTs are made."""
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


def _add_gating(gates: OptionGroup) -> None:
    """Add the options of gating."""
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
        metavar="HZ-HZ,...",
        help="bands, Hz (default 25-50,70-110)",
    )
    gates.add_argument(
        "--gate-tzero",
        type=number,
        metavar="S",
        help="half-width of what is set to zero, s (default 1)",
    )
    gates.add_argument("--gate-tpad", type=number, metavar="S", help="taper, s (default 0.5)")
    gates.add_argument(
        "--gate-most",
        type=number,
        metavar="PART",
        help="leave SFTs out of which a larger part is set to zero (default 1/60, that is 30 s of 1800 s)",
    )


def _add_output(out: OptionGroup) -> None:
    """Add the options for files and their names."""
    out.add_argument(
        "--sft-write-path", "-p", default=".", metavar="DIR", help="where to write the SFT files (default: here)"
    )
    out.add_argument(
        "--observing-run",
        "-O",
        type=natural,
        default=0,
        metavar="N",
        help="for public names: the observing run, without the O (default 0, private names)",
    )
    out.add_argument(
        "--observing-kind", "-K", choices=("RUN", "AUX", "SIM", "DEV"), help="for public names: kind of the SFTs"
    )
    out.add_argument(
        "--observing-revision", "-R", type=count, metavar="N", help="for public names: revision, from 1 on"
    )
    out.add_argument("--misc-desc", "-X", default="", metavar="WORD", help="description in private names")
    out.add_argument("--comment-field", "-c", metavar="TEXT", help="comment in the SFTs")


def plan(arguments: Arguments) -> Work:
    """Return the making of SFTs that the options ask for."""
    window = window_name(arguments.window_type, arguments.window_param, "--window-param")
    gating = None
    if arguments.gate_threshold is not None:
        given = {field: getattr(arguments, option) for option, field in GATES.items()}
        gating = jfstat.Gating(arguments.gate_threshold, **{x: y for x, y in given.items() if y is not None})
    cache, segments = arguments.frame_cache, arguments.segment_file
    quality = jfstat.DataQuality(
        quality_bits(arguments.quality_bits),
        arguments.quality_channel,
        None if segments is None else jfstat.read_segments(segments),
        arguments.gps_start_time,
        arguments.gps_end_time,
    )
    paths = arguments.frame_files if cache is None else jfstat.read_frame_cache(cache)
    strain = jfstat.find_strain(paths, arguments.channel_name, arguments.IFO, quality)
    conditioning = jfstat.Conditioning(window, arguments.high_pass_freq or None, gating)
    band = arguments.start_freq, arguments.start_freq + arguments.band
    comment = arguments.comment_field or "made by jfstat make-sfts"
    how: dict[str, Any] = dict(comment=comment, description=_description(arguments, strain.channel, window))
    how |= dict(sources=inputs_of(arguments))
    made = partial(jfstat.each_sft, strain, arguments.sft_duration, *band, conditioning)
    write = partial(_written, made, arguments.sft_duration, arguments.sft_write_path, how, gating is not None)
    return partial(_run, strain, band, arguments.sft_write_path, write)


def _run(strain: Any, band: tuple[float, float], directory: str, write: Any) -> None:
    """Make and write SFTs one after the other, and say so."""
    seconds = sum(stop - first for first, stop in strain.stretches) / strain.rate
    print(
        f"{strain.site.prefix}: {len(strain.files)} files, {seconds:.0f} s of good time in {len(strain.stretches)} "
        f"stretches, {strain.rate} samples/s"
    )
    if strain.rate == GWOSC_RATE and band[1] > GWOSC_VALID:
        print(
            f"jfstat: note: GWOSC's strain at {GWOSC_RATE} Hz is not valid near its Nyquist frequency: above "
            f"{GWOSC_VALID:g} Hz use the files at 16384 Hz, or a smaller --band",
            file=sys.stderr,
        )
    print(f"wrote {write()} SFTs, {band[0]:g} to {band[1]:g} Hz, to {directory}")


def _written(made: Any, tsft: float, directory: str, how: dict[str, Any], gated: bool) -> int:
    """Write the SFTs, and return their number.

    Raises
    ------
    ValueError
        If there are none.
    """
    n, zeroed, left_out = 0, 0.0, []
    for own in made():
        if own.sfts is None:
            left_out.append(own)
            continue
        jfstat.write_sfts(own.sfts, directory, merge=False, name_band=False, **how)
        n, zeroed = n + 1, zeroed + own.gated
    if gated:
        print(f"gating set {zeroed:.1f} s of {n * tsft:.0f} s to zero and left out {len(left_out)} SFTs")
        for own in left_out[:LISTED]:
            print(f"  GPS {own.gps}: {own.gated:.1f} s of it would be zero")
    if n == 0:
        raise ValueError(
            f"--frame-files hold no stretch of {tsft:g} s of good time: no SFT was made; use a shorter "
            "--sft-duration, or other --quality-bits."
        )
    return n


def quality_bits(quality: list[str] | None) -> list[str | int] | None:
    """Return data-quality bits as `jfstat.DataQuality` takes them."""
    if quality is None:
        return None
    return [] if quality == ["none"] else [int(bit) if bit.isdigit() else bit for bit in quality]


def _description(arguments: Arguments, channel: str, window: str) -> str:
    """Return the field of the files' names that says what they are."""
    if arguments.observing_run == 0:
        given = arguments.first_given(*OBSERVING)
        if given:
            raise ValueError(f"{given} is for public names, with --observing-run: give that too, or neither.")
        return arguments.misc_desc
    missing = [spelled for name, spelled in OBSERVING.items() if getattr(arguments, name) is None]
    if missing:
        raise ValueError(f"--observing-run is for public names, which need {missing[0]} too: give it.")
    if arguments.is_given("misc_desc"):
        raise ValueError("--misc-desc is for private names, and --observing-run for public ones: give one of them.")
    kind = arguments.observing_kind, arguments.observing_revision
    return jfstat.public_description(arguments.observing_run, *kind, channel, window)
