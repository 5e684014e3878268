"""ComputeFstatistic_v2's spellings: each option once, with what it means as an argument of jfstat."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

import jfstat
from jfstat.commandline.words import (
    count,
    declination,
    gps,
    natural,
    number,
    numbers,
    reference_time,
    right_ascension,
    sky_region,
    unit,
    words,
)

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments

OptionGroup: TypeAlias = "argparse._ActionsContainer"
"""A parser or a group of its options, for which argparse has no public name."""

REPLACEMENTS = {
    "FstatMethod": "leave it out, there is one method, resampling",
    "Dterms": "leave it out, nothing is cut off at some bins",
    "SSBprecision": "leave it out, times at the barycentre are exact",
    "metricType": "leave it out, --metricMismatch uses the phase metric of the data",
    "projectMetric": "leave it out, mismatches are at the best frequency",
    "computeBSGL": "leave it out, with several detectors log10BSGL is always there",
    "BSGLlogcorr": "leave it out, log10BSGL has the logarithmic correction",
    "outputSingleFstats": "leave it out, 2F of each detector is always there",
    "outputFstatHist": "leave it out, .ecsv and .hdf5 files of --outputFstat hold a histogram",
    "UseNoiseWeights": "leave it out, SFTs are weighted by their noise",
    "clusterOnScanline": "use --cluster",
    "FracCandidatesToKeep": "use --NumCandidatesToKeep or --TwoFthreshold",
    "injectionSources": "use jfstat simulate, which adds signals to SFTs",
    "injectSqrtSX": "use jfstat simulate",
    "outputLogfile": "leave it out, what is printed is the log",
    "workingDir": "leave it out",
    "timerCount": "leave it out",
    "outputTiming": "leave it out, the time is printed, and jfstat benchmark measures its parts",
    "outputFstatTiming": "leave it out, the time is printed, and jfstat benchmark measures its parts",
    "allowedMismatchFromSFTLength": "leave it out, phases within an SFT are exact",
    "resampFFTPowerOf2": "leave it out, lengths are chosen by their cost",
    "transient-useFReg": "leave it out, B_tS/G is the mean of e^F",
    "FstatHistBin": "leave it out, bins are as wide as noise requires",
    "sftFiles": "use --DataFiles",
    "overlap-fraction": "leave it out, the F-statistic needs SFTs that do not overlap",
    "frame-checksums": "leave it out, damaged frames are refused",
    "allow-skipping": "leave it out, call the program once for each channel",
    "par": "use jfstat search-pulsars",
    "outputFstatAtoms": "use jfstat points",
}
"""What to give instead of options of ComputeFstatistic_v2 and its relatives that a command does not have."""


class Option(NamedTuple):
    """How argparse adds an option, without its name.

    Attributes
    ----------
    help : str
    metavar : str or None
        None for an option without a value.
    type : callable
        Of its word.
    short : str or None
        A second spelling.
    default : object
    choices : tuple of str or None
    """

    help: str
    metavar: str | None = None
    type: Callable[[str], Any] = str
    short: str | None = None
    default: Any = None
    choices: tuple[str, ...] | None = None


def _flag(about: str) -> Option:
    return Option(about, default=False)


ORBIT = {
    "asini": ("orbitasini", "light-s", "binary orbit: projected semi-major axis"),
    "period": ("orbitPeriod", "s", "binary orbit: period"),
    "tp": ("orbitTp", "GPS", "binary orbit: time of periapsis in the SSB"),
    "ecc": ("orbitEcc", "1", "binary orbit: eccentricity (default 0)"),
    "argp": ("orbitArgp", "rad", "binary orbit: argument of periapsis (default 0)"),
}
"""For each field of `jfstat.Orbit`: its option, unit, meaning."""
SPINS = ("f1dot", "f2dot", "f3dot")

DATA = ("DataFiles", "IFOs", "detectorFiles", "minStartTime", "maxStartTime")
NOISE = ("assumeSqrtSX", "RngMedWindow", "offSourceBins")
EPHEMERIS = ("ephemeris", "ephemEarth", "ephemSun")
PREPARATION = (*NOISE, "guard", *EPHEMERIS)
SEGMENTS = ("segments", "segmentDuration", "segmentList")
TRANSIENT = ("transientWindowType", "transientStartTime", "transientTau")
AMPLITUDE = ("h0", "cosi", "aPlus", "aCross", "psi", "phi0")
ORBIT_OPTIONS = tuple(option for option, _, _ in ORBIT.values())
WINDOWS = (
    *("transient-WindowType", "transient-t0Epoch", "transient-t0Offset", "transient-t0Band", "transient-dt0"),
    *("transient-tau", "transient-tauBand", "transient-dtau", "outputTransientStats", "outputTransientStatsAll"),
)
ODDS = ("Fstar0", "oLGX")
MOST_STEPS = 10_000_000
"""Most start times or time scales of windows, which is far more than data have."""
OF_LINES = ("H1", "H2", "L1", "V1", "G1", "K1", "I1")
"""Detectors that --linefiles may name before a file."""

OPTIONS = {
    # data
    "DataFiles": Option("SFT files: a name or glob, several joined by ';', or list:FILE", "PATTERN", short="D"),
    "IFOs": Option("detectors; with --DataFiles, all by default", "H1,L1", words, "I"),
    "detectorFiles": Option(
        "one's own detectors: for each its prefix in SFT files, and a file with latitude, longitude, xarm_azimuth and "
        "yarm_azimuth in degrees (azimuths from east through north) and elevation in m, as Bilby's .ifo files",
        "Z1=FILE,...",
        words,
    ),
    "minStartTime": Option("use SFTs from this time on, GPS s or UTC", "GPS", gps),
    "maxStartTime": Option("use SFTs before this time, GPS s or UTC", "GPS", gps),
    "timestampsFiles": Option("a file a detector with lines of GPS s and ns", "FILE,...", words),
    # preparation
    "assumeSqrtSX": Option(
        "noise floor, 1/sqrt(Hz), one or one a detector in the order of --IFOs, or else of their names (default: "
        "estimated)",
        "X,...",
        numbers,
    ),
    "RngMedWindow": Option(
        "width of the running median that estimates the noise floor, bins (default 101)", "BINS", count, "k"
    ),
    "offSourceBins": Option(
        "estimate the noise floor at each bin from bins further away than this on both sides, so that loud signals do "
        "not raise their own; 10 is enough for most (default: the running median over all bins)",
        "BINS",
        natural,
    ),
    "guard": Option(
        "how far beyond the band to use the SFTs, Hz, as far as they go (default 1)", "HZ", number, default=1.0
    ),
    "ephemeris": Option(
        "solar-system ephemeris by name (default: the one that a table of candidates names, or DE405)",
        "NAME",
    ),
    "ephemEarth": Option("instead: Earth's file; with --ephemSun", "FILE", Path),
    "ephemSun": Option("instead: the Sun's file; with --ephemEarth", "FILE", Path),
    "segments": Option("semi-coherent: cut the data into N segments and take the mean 2F", "N", count),
    "segmentDuration": Option("semi-coherent: cut the data into segments of so many s", "S", number),
    "segmentList": Option(
        "semi-coherent: segments from a file with a line 'start end' for each, GPS s, as Weave's --segment-list", "FILE"
    ),
    "cohMaxMismatch": Option(
        "with segments: read each segment's 2F from a lattice of its own with this mismatch, no unit, as Weave's "
        "--coh-max-mismatch (default: compute every segment at every template)",
        "M",
        number,
    ),
    # templates
    "Freq": Option("lowest frequency, Hz", "HZ", number, "f"),
    "FreqBand": Option("frequency band, Hz (default 0: one frequency)", "HZ", number, "b", 0.0),
    "dFreq": Option(
        "spacing of the frequencies, Hz: finer ones cost more in proportion (default 1/(2T))", "HZ", number, "r"
    ),
    "refTime": Option(
        "reference time of frequency and spin-down in the SSB, GPS s or UTC (default: data start)",
        "GPS",
        reference_time,
    ),
    "Alpha": Option(
        "right ascension, equatorial J2000: rad, or hours:minutes:seconds", "RAD|H:M:S", right_ascension, "a"
    ),
    "AlphaBand": Option("range in Alpha, rad (default 0)", "RAD|H:M:S", right_ascension, default=0.0),
    "dAlpha": Option("step in Alpha, rad; a flat grid needs it with --AlphaBand", "RAD|H:M:S", right_ascension),
    "Delta": Option("declination, equatorial J2000: rad, or degrees:minutes:seconds", "RAD|D:M:S", declination, "d"),
    "DeltaBand": Option("range in Delta, rad (default 0)", "RAD|D:M:S", declination, default=0.0),
    "dDelta": Option("step in Delta, rad; a flat grid needs it with --DeltaBand", "RAD|D:M:S", declination),
    **{
        name: option
        for k, spin, unit_of in ((1, "f1dot", "Hz/s"), (2, "f2dot", "Hz/s^2"), (3, "f3dot", "Hz/s^3"))
        for name, option in {
            spin: Option(f"derivative {k} of the frequency, {unit_of} (default 0)", unit_of.upper(), number),
            f"{spin}Band": Option(f"range in {spin}, {unit_of} (default 0)", unit_of.upper(), number),
            f"d{spin}": Option(
                f"step in {spin} of a flat grid, {unit_of} (default 1/(2T^{k + 1}))", unit_of.upper(), number
            ),
        }.items()
    },
    **{
        option: Option(
            f"{about}, { {'GPS': 'GPS s (or UTC)', '1': 'no unit'}.get(of, of) }",
            of.upper(),
            gps if of == "GPS" else number,
        )
        for option, of, about in ORBIT.values()
    },
    **{
        name.format(option): Option(f"{what} in {option}, {label}{rest}", of.upper(), number)
        for option, of, label in (
            (option, "s" if of == "GPS" else of, {"GPS": "s", "1": "no unit"}.get(of, of))
            for option, of, _ in ORBIT.values()
        )
        for name, what, rest in (("{}Band", "range", " (default 0)"), ("d{}", "step", ": of a flat grid"))
    },
    "skyRegion": Option(
        "with --metricMismatch, instead of --Alpha and --Delta: the whole sky, or a polygon's vertices, rad or "
        "sexagesimal",
        "allsky|(A,D),...",
        sky_region,
    ),
    "skyRadius": Option("with --metricMismatch: a disc about --Alpha, --Delta, rad", "RAD", number),
    "metricMismatch": Option(
        "place templates of sky and spin-down, and of orbits whose bands have no steps, on a lattice with at most this "
        "mismatch, by the metric of the data, at the best frequency; its bins cost 0.07 more in the mean (default: a "
        "flat grid)",
        "M",
        number,
        "X",
    ),
    "strictSpindownBounds": _flag(
        "with --metricMismatch: leave out templates beyond the ranges of spin-down, which signals at their edges may "
        "need"
    ),
    "spindownAge": Option(
        "instead of f1dot and f2dot: the source's age, s, with --minBraking and --maxBraking; -f1dot is between "
        "Freq/((maxBraking - 1) age) and Freq/((minBraking - 1) age), f2dot is braking index times f1dot^2/Freq",
        "S",
        number,
    ),
    "minBraking": Option("with --spindownAge: least braking index, above 1", "N", number),
    "maxBraking": Option("with --spindownAge: largest braking index", "N", number),
    "gridFile": Option(
        "instead of all these: a table of templates, .ecsv, .hdf5 or text as of ComputeFstatistic_v2 or PyFstat, with "
        "columns alpha, delta, f1dot, ... and an orbit's; all frequencies of the band are searched at each. With "
        "--gridType=3 sky positions alone, alpha and delta; or rows between braces, '{1.1 0.2; 1.2 0.2}'",
        "FILE",
    ),
    "gridType": Option(
        "as in ComputeFstatistic_v2; only 1 and 3 say more than the other options do: 0 flat, 1 sky positions of equal "
        "density, --dAlpha/cos(Delta) and --dDelta apart, 2 and 8 metric (--metricMismatch), 3 sky positions from "
        "--gridFile, 9 by age and braking index (--spindownAge); its 6, exact points, is jfstat points",
        "N",
        natural,
    ),
    # amplitudes
    "h0": Option("strain amplitude; with --cosi", "STRAIN", number),
    "cosi": Option("cosine of the inclination, -1 to 1; with --h0", "COS", number),
    "aPlus": Option("instead of --h0 and --cosi: plus amplitude", "STRAIN", number),
    "aCross": Option("with --aPlus: cross amplitude", "STRAIN", number),
    "psi": Option("polarisation angle, rad (default 0)", "RAD", number),
    "phi0": Option("phase at --refTime, rad (default 0)", "RAD", number),
    "transientWindowType": Option("a transient signal: rect or exp (default none)", choices=("none", "rect", "exp")),
    "transientStartTime": Option("its start, GPS s or UTC", "GPS", gps),
    "transientTau": Option("its duration, or for exp its decay time, s; exp ends at 3 tau", "S", number),
    # searches for transient signals
    "transient-WindowType": Option(
        "search for transient signals, at each template and frequency: rect from t0 to t0 + tau, or exp, "
        "exp(-(t - t0)/tau) to t0 + 3 tau (default none)",
        default="none",
        choices=("none", "rect", "exp"),
    ),
    "transient-t0Epoch": Option("earliest start time, GPS s or UTC (default: data start)", "GPS", gps),
    "transient-t0Offset": Option("instead: earliest start time after the data's start, s", "S", number),
    "transient-t0Band": Option("range of start times, s (default 0)", "S", number, default=0.0),
    "transient-dt0": Option("step of start times, s (default: length of an SFT)", "S", number),
    "transient-tau": Option("smallest time scale, s; needed with a window", "S", number),
    "transient-tauBand": Option("range of time scales, s (default 0)", "S", number, default=0.0),
    "transient-dtau": Option("step of time scales, s (default: length of an SFT)", "S", number),
    "outputTransientStats": Option(
        "the windows of largest 2F, Bayes factors (natural logarithm) and most probable times of the points that are "
        "kept, in ComputeFstatistic_v2's format; .ecsv and .hdf5 files of --outputFstat have them too",
        "FILE",
    ),
    "outputTransientStatsAll": Option(
        "2F of every window of the points that are kept, a line each, in ComputeFstatistic_v2's format", "FILE"
    ),
    "outputGrid": Option(
        "write the templates at all frequencies, and stop: .ecsv, .hdf5, or anything else for ComputeFstatistic_v2's "
        "text format",
        "FILE",
    ),
    "outputFstatAtoms": Option(
        "write Fa, Fb and the antenna matrix of each SFT's time, a file BASE_<template>.dat for each template and "
        "frequency, in ComputeFstatistic_v2's format",
        "BASE",
    ),
    # output
    "outputFstat": Option("candidates: .ecsv, .hdf5, or anything else for ComputeFstatistic_v2's text format", "FILE"),
    "outputLoudest": Option(
        "the first candidate of the table, or with --transient-WindowType the loudest in 2F of all data, with Fa, Fb, "
        "the antenna matrix, amplitudes, their errors and Fisher matrix, as lines 'name = value;' in "
        "ComputeFstatistic_v2's format",
        "FILE",
    ),
    "NumCandidatesToKeep": Option(
        "keep at most this many, the loudest (default 1000, or all above --TwoFthreshold; 0: all above it)",
        "N",
        natural,
    ),
    "TwoFthreshold": Option("keep only 2F at or above this, no unit", "2F", number, "F"),
    "Fstar0": Option("log10BSGL: the transition scale, no unit (default 0)", "F", number, default=0.0),
    "oLGX": Option("log10BSGL: prior line odds of each detector (default: equal)", "X,...", numbers),
    "RankingStatistic": Option(
        "what the candidates, the loudest in 2F in either case, are sorted by: 2F or log10BSGL (default F); use "
        "--BSGLthreshold to keep lines from filling the table; BtSG, with --transient-WindowType: search for the "
        "largest log10 B_tS/G, which --TwoFthreshold is then of, instead of the largest 2F of a window; BSGLtL, with "
        "segments of several detectors: search for the largest log10BSGLtL, which --TwoFthreshold is then of",
        default="F",
        choices=("F", "BSGL", "BtSG", "BSGLtL"),
    ),
    "BSGLthreshold": Option(
        "keep only candidates with log10BSGL at or above this, no unit: lines in one detector fill no table then",
        "LOG10B",
        number,
    ),
    "linefiles": Option(
        "lists of known lines (Hz), one or more for a detector, whose names hold it, as in O3L1lines.csv; or L1:FILE. "
        "Formats of GWOSC, TDFstat and SFTclean. A column 'line' of .ecsv and .hdf5 files names those that a candidate "
        "crosses",
        "FILE,...",
        words,
    ),
    "vetoLines": _flag(
        "leave out, for each template, the frequencies that --linefiles affect: they never become candidates"
    ),
    "lineVeto": _flag(
        "add a column line_veto: the detectors whose 2F alone is larger than that of all, and DM-off if 2F is larger "
        "with the Doppler modulation switched off, for each candidate"
    ),
    "cluster": Option(
        "keep only the loudest of candidates within this mismatch of it by the metric, no unit, such as 1, and of "
        "those that one signal explains",
        "M",
        number,
    ),
    "noDetails": _flag(
        "leave out what is computed for each candidate apart: each detector's own 2F, log10BSGL, amplitudes"
    ),
    # work
    "countTemplates": _flag("count the templates, time some of them, print what the search would cost, and stop"),
    "checkpoint": Option(
        "keep the state of the search here after each batch, and go on from it if it is there; Ctrl-C and SIGTERM then "
        "stop after the batch, with exit status 128 + signal",
        "FILE",
    ),
    "unit": Option("do the I-th of N parts of the work; jfstat merge joins their files", "I/N", unit),
    "batchSize": Option("templates at a time on a device (default: by memory)", "N", count),
    "engine": Option(
        "what computes 2F: xla runs everywhere, cuda on NVIDIA GPUs (default: the fastest that is usable)",
        choices=("xla", "cuda"),
    ),
    "devices": Option("divide the work among the first N devices of this machine; 0: all", "N", natural),
    "distributed": _flag(
        "divide it among the devices of all processes, which run this same command: as found by JAX under Slurm and "
        "MPI, or as told by the next three"
    ),
    "coordinator": Option("address of the first process", "HOST:PORT"),
    "numProcesses": Option("number of processes", "N", count),
    "processId": Option("which of them this is, from 0", "I", natural),
    # candidates
    "candidates": Option(
        "what jfstat search wrote, .ecsv, .hdf5, or ComputeFstatistic_v2's text format", "FILE", short="c"
    ),
    "randSeed": Option(
        "seed of the random numbers, no unit (default 0, a seed like others; each stretch of time needs its own)",
        "N",
        natural,
        default=0,
    ),
}
"""Every option that several commands have, or that is ComputeFstatistic_v2's."""

ARGUMENTS: dict[str, tuple[str, ...]] = {
    # data
    "detector": ("IFO", "IFOs", "detectors"),
    "detectors": ("IFOs", "detectors", "detectorFiles"),
    "sfts": ("DataFiles", "inputData", "sftDir", "IFOs", "detectors"),
    "pattern": ("DataFiles", "noiseSFTs", "inputData", "sftDir", "SFTfiles", "file-pattern"),
    "paths": ("frame-files", "frame-cache", "inFrames", "par"),
    "start": ("startTime", "minStartTime", "gps-start-time"),
    "end": ("endTime", "maxStartTime", "gps-end-time"),
    "duration": ("duration",),
    "timestamps": ("timestampsFiles",),
    "files": ("timestampsFiles",),
    "tsft": ("Tsft", "sft-duration"),
    "fmin": ("fmin", "fMin", "start-frequency", "start-freq", "Freq"),
    "fmax": ("fmax", "fMax", "end-frequency", "fmin+Band", "start-freq+band", "Freq+FreqBand"),
    "width": ("frequency-bandwidth",),
    "overlap": ("frequency-overlap",),
    "channel": ("channel-name", "quality-channel", "inFrChannels"),
    "channels": ("outFrChannels",),
    "quality": ("quality-bits",),
    "bits": ("quality-bits",),
    "highpass": ("high-pass-freq",),
    "window": ("SFTWindowType", "SFTWindowParam", "window-type", "window-param", "window"),
    "threshold": ("TwoFthreshold", "criticalRatioThreshold", "logLikelihoodThreshold", "gate-threshold"),
    "bands": ("gate-bands",),
    "gating": ("gate-bands",),
    "tzero": ("gate-tzero",),
    "tpad": ("gate-tpad",),
    "most_gated": ("gate-most",),
    "zeros": ("zeros",),
    "description": ("outLabel", "misc-desc"),
    "comment": ("comment-field",),
    "run": ("run",),
    "artefacts": ("artefacts",),
    "tolerance": ("tolerance",),
    "lines": ("linefiles",),
    "max_bins": ("maxBins",),
    "bin_size": ("binSize", "binSizeHz"),
    # preparation
    "sqrt_sx": ("assumeSqrtSX", "sqrtSX"),
    "median_bins": ("RngMedWindow", "blocksRngMed"),
    "off_source": ("offSourceBins",),
    "guard": ("guard",),
    "ephemeris": ("ephemeris",),
    "segments": ("segments", "segmentDuration", "segmentList", "segment-file"),
    # templates
    "freq": ("Freq", "FreqBand"),
    "fkdot": ("Freq", "f1dot", "f2dot", "f3dot"),
    "fdots": tuple(f"{name}{band}" for band in ("Band", "") for name in SPINS),
    "fdots[0]": ("f1dot", "f1dotBand"),
    **{name: (name, f"{name}Band", f"d{name}") for name in SPINS},
    "dfreq": ("dFreq",),
    "reftime": ("refTime",),
    "alpha": ("Alpha", "AlphaBand", "dAlpha"),
    "delta": ("Delta", "DeltaBand", "dDelta"),
    **{
        name: (option, f"{option}Band", f"d{option}")
        for field, (option, _, _) in ORBIT.items()
        for name in (field, f"orbit {field}")
    },
    "region": ("skyRegion", "skyRadius"),
    "mismatch": ("metricMismatch", "mismatch", "cohMaxMismatch"),
    "strict": ("strictSpindownBounds",),
    "age": ("spindownAge",),
    "index": ("maxBraking", "minBraking"),
    "table": ("gridFile",),
    "points": ("gridFile",),
    "harmonic": ("harmonic",),
    # signals, with the parameters of sources, which are called as the options
    **{name: (name,) for name in ("Alpha", "Delta", "Freq", *AMPLITUDE, *TRANSIENT, *ORBIT_OPTIONS)},
    "t0": ("transientStartTime", "transient-t0Epoch", "transient-t0Offset"),
    "tau": ("transientTau", "transient-tau"),
    # statistics, candidates
    **dict.fromkeys(("Transient", "transient"), ("transient-t0Epoch", "transient-t0Offset", "transient-t0Band")),
    "transitions": ("maxJump", "jumpProbabilities"),
    "subband": ("subband",),
    "fstar0": ("Fstar0",),
    "olgx": ("oLGX",),
    "top": ("NumCandidatesToKeep",),
    "bsgl_threshold": ("BSGLthreshold",),
    "ranking": ("RankingStatistic",),
    "cluster": ("cluster",),
    "veto_lines": ("vetoLines",),
    "positions": ("backgroundPositions",),
    "found": ("candidates",),
    "parameters": ("parameters",),
    "bins": ("bins",),
    "bounds": ("bounds",),
    "stages": ("stages",),
    "veto": ("veto",),
    "false_alarm": ("falseAlarm",),
    "injections": ("injections",),
    "confidence": ("confidence",),
    # work
    "batch_size": ("batchSize",),
    "engine": ("engine",),
    "mesh": ("devices",),
    "seed": ("randSeed", "seed"),
}
"""For each argument of the library that its messages may name: the options that give it in one command or another."""
NO_WORDS = ("fmin", "fmax", "tsft", "dfreq")
"""Arguments whose names are no words of a sentence, besides those with an underscore."""
ADVICE: dict[str, tuple[tuple[str, str], ...]] = {
    ", or give a jfstat.Detector": (("detectorFiles", ", or describe it by --detectorFiles"), ("", "")),
    ", or Detectors": (("", ""),),
    ", or (earth_file, sun_file)": (("ephemEarth", ", or --ephemEarth and --ephemSun"),),
    "None filters nothing": (("high-pass-freq", "0 filters nothing"),),
    ", or 'unknown' for files": (("", ""),),
    "give a duration as a float": (("segmentDuration", "give a duration by --segmentDuration"),),
    "give the lines' detector by detector=": (("linefiles", "write L1:FILE, with the detector of the lines"),),
    ", None for 1/(2T), or single frequencies to jfstat.fstat_table (jfstat points)": (
        ("dFreq", ", leave it out for 1/(2T), or give single frequencies to jfstat points"),
    ),
    "f1dot cannot be a Braking for NormalisedSFTs: give ranges of f1dot and f2dot": (
        ("spindownAge", "--spindownAge is not for power along tracks: give --f1dotBand and --f2dotBand"),
    ),
    "f1dot, ... have no natural steps for NormalisedSFTs: give (low, high, step), or a mismatch": (
        ("df1dot", "spin-downs have no natural steps here: give --df1dot, ..., or --metricMismatch"),
    ),
    "use refine(model=)": (("", "use jfstat.refine(model=) in Python"),),
    "use jfstat.refine(model=) in each stage": (("", "use jfstat.refine(model=) in Python"),),
    "give jfstat.Doppler templates, which hold it, or refine's model=": (("", "use jfstat.refine(model=) in Python"),),
    "give jfstat.Doppler templates, which hold it": (("", "use jfstat.Doppler templates in Python"),),
    "give what search(..., run=Run(unit=(i, n))) returned": (("", "give what jfstat search --unit=I/N wrote"),),
    "remove the column log_likelihood and meta['transitions'] to follow up such signals at the paths' frequencies": (
        ("", "give the table of another search"),
    ),
    "choose other t0 and tau": (("transient-tau", "choose other --transient-t0Epoch and --transient-tau"),),
    " and per_detector": (("noDetails", ", and no --noDetails"),),
    ", or make Dopplers": (("", ""),),
    "Give fmin and fmax to jfstat.normalise, or SFTs of a wider band": (("", "Give SFTs of a wider band"),),
}
"""What messages say to users of Python alone: for commands with an option, or any, what to say instead."""


def add(group: OptionGroup, *names: str, required: bool = False, **changes: Any) -> None:
    """Add options of `OPTIONS` to a parser or group; `changes` are arguments of ``add_argument``, such as ``help``."""
    for name in names:
        own = OPTIONS[name]
        flags = [f"--{name}", *([f"-{own.short}"] if own.short else [])]
        if own.default is False:
            how: dict[str, Any] = dict(action="store_true", help=own.help)
        else:
            how = dict(help=own.help, default=own.default, required=required)
            how |= dict(choices=own.choices) if own.choices else dict(type=own.type, metavar=own.metavar)
        group.add_argument(*flags, **(how | changes))


def own_detectors(arguments: Arguments) -> dict[str, jfstat.Detector]:
    """Return the detectors of ``--detectorFiles`` by prefix.

    Raises
    ------
    ValueError
        If a word is not PREFIX=FILE, a prefix is given twice, or a file is malformed.
    """
    own: dict[str, jfstat.Detector] = {}
    for word in arguments.detectorFiles or ():
        prefix, equals, name = word.partition("=")
        if not equals or not name or prefix in own:
            raise ValueError(f"--detectorFiles has {word!r}: give PREFIX=FILE, each prefix once, such as Z1=mine.ifo.")
        try:
            own[prefix] = jfstat.Detector.read(name, prefix)
        except (OSError, ValueError) as error:
            raise ValueError(f"--detectorFiles: {error}") from None
    return own


def detectors(arguments: Arguments) -> list[str | jfstat.Detector] | None:
    """Return the detectors of ``--IFOs``, the user's own among them; None if it is not given.

    Raises
    ------
    ValueError
        If it does not name one of ``--detectorFiles``.
    """
    if arguments.IFOs is None:
        return None
    own = own_detectors(arguments)
    unused = sorted(set(own) - set(arguments.IFOs))
    if unused:
        raise ValueError(f"--detectorFiles has {unused[0]}, which --IFOs does not name: add it there, or leave it out.")
    named: list[str] = arguments.IFOs
    return [own.get(name, name) for name in named]


def find_files(arguments: Arguments, pattern: str, check_crc: bool = True) -> jfstat.SFTFiles:
    """Find the SFTs of some files that the options of detectors, and of times if there are any, ask for.

    Raises
    ------
    OSError, ValueError
        As `jfstat.find_sfts`, or if there are no SFTs of one of ``--detectorFiles``.
    """
    own = own_detectors(arguments)
    start, end = (getattr(arguments, name, None) for name in ("minStartTime", "maxStartTime"))
    files = jfstat.find_sfts(pattern, detectors(arguments), start, end, check_crc, own=list(own.values()))
    present = files.times.detectors
    unused = sorted(set(own) - set(present))
    if unused:
        raise ValueError(f"--detectorFiles has {unused[0]}, of which there are no SFTs, only of {', '.join(present)}.")
    return files


def data_files(arguments: Arguments, check_crc: bool = True) -> jfstat.SFTFiles:
    """Find the SFTs of ``--DataFiles``; see `find_files`."""
    return find_files(arguments, arguments.DataFiles, check_crc)


def check_band(files: jfstat.SFTFiles, low: float, high: float) -> None:
    """Raise a ValueError unless ``--DataFiles`` contain a band, Hz."""
    first, last = files.band
    if low < first or high > last:
        raise ValueError(
            f"--DataFiles cover {first:.10g} to {last:.10g} Hz, not all of {low:.10g} to {high:.10g} Hz: choose other "
            "frequencies or name other files."
        )


def read_band(files: jfstat.SFTFiles, low: float, high: float, guard: float, **around: Any) -> jfstat.SFTs:
    """Read a band of ``--DataFiles``; see `jfstat.SFTFiles.read_band`.

    Raises
    ------
    OSError, ValueError
        If the files cannot be read, or do not contain the band.
    """
    check_band(files, low, high)
    return files.read_band(low, high, guard, **around)


def timestamps(arguments: Arguments) -> dict[str, np.ndarray]:
    """Return the start times of SFTs by detector, from ``--timestampsFiles``.

    Raises
    ------
    ValueError
        If there is no file for one of ``--IFOs``, or a file is malformed.
    """
    return jfstat.read_timestamps(arguments.timestampsFiles, arguments.IFOs)


def frequency_step(arguments: Arguments) -> float | None:
    """Return ``--dFreq``, Hz, which has an effect only on a band.

    Raises
    ------
    ValueError
        If there is no band, or it is not positive.
    """
    if arguments.dFreq is not None and not arguments.FreqBand:
        raise ValueError("--dFreq has no effect without --FreqBand: leave it out, or give the band in Hz.")
    if arguments.dFreq is not None and not arguments.dFreq > 0:
        raise ValueError(f"--dFreq must be positive, not {arguments.dFreq:g}: give it in Hz.")
    return arguments.dFreq


def floors(arguments: Arguments, option: str = "assumeSqrtSX") -> float | list[float] | dict[str, float] | None:
    """Return noise floors as `jfstat.prepare` takes them, from values in the order of ``--IFOs``.

    Raises
    ------
    ValueError
        If there are several values, and not one for each of ``--IFOs``.
    """
    given = getattr(arguments, option)
    if given is None or len(given) == 1:
        return None if given is None else given[0]
    names = arguments.IFOs
    if names is None:
        return given
    if len(given) != len(names):
        raise ValueError(f"--{option} has {len(given)} values for {len(names)} detectors: give one for each.")
    return dict(zip(names, given, strict=True))


def noise(arguments: Arguments) -> jfstat.Noise:
    """Return the noise floor that ``--assumeSqrtSX``, ``--RngMedWindow`` and ``--offSourceBins`` ask for.

    Raises
    ------
    ValueError
        If one of them is out of range, or has no effect beside another.
    """
    given = floors(arguments)
    how = {"median_bins": getattr(arguments, "RngMedWindow", None), "off_source": arguments.offSourceBins}
    estimated = {name: x for name, x in how.items() if x is not None}
    if given is not None and estimated:
        option = "--offSourceBins" if "off_source" in estimated else "--RngMedWindow"
        raise ValueError(f"{option} estimates the noise floor, which --assumeSqrtSX gives: leave one of them out.")
    return jfstat.Noise(given, **estimated)


def ephemeris(arguments: Arguments) -> str | tuple[Path, Path] | None:
    """Return the ephemeris that is chosen, by name or by its two files; None for the default.

    Raises
    ------
    ValueError
        If one of the files is missing, or a name is given as well.
    """
    name, files = arguments.ephemeris, (arguments.ephemEarth, arguments.ephemSun)
    if files == (None, None):
        return name
    if None in files or name is not None:
        raise ValueError("--ephemEarth and --ephemSun go together and without --ephemeris: give both files, or a name.")
    return files


def preparation(arguments: Arguments, meta: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return how data are prepared, as keywords of `jfstat.prepare`: noise floor, ephemeris and guard.

    By default the ephemeris is that of the search whose table has the given meta, if this names one.
    """
    chosen, stated = ephemeris(arguments), None if meta is None else meta.get("ephemeris")
    if chosen is None and stated is not None:
        chosen = stated if re.fullmatch(r"DE\d+", str(stated)) else None
        if chosen is None:
            print(f"the table's ephemeris, {stated}, has no name that is known: DE405 is used, see --ephemEarth")
    return dict(sqrt_sx=noise(arguments), guard=arguments.guard, ephemeris=chosen or "DE405")


def reftime_of(arguments: Arguments, table: Any, option: str) -> Any:
    """Return the reference time that the table of an option states, or else ``--refTime``; None without either.

    Raises
    ------
    ValueError
        If the two contradict each other.
    """
    given, own = arguments.refTime, table.meta.get("reftime")
    if own is None:
        return given
    if given is not None and jfstat.Doppler(0.0, 0.0, [1.0], own).reftime != given:
        raise ValueError(f"--refTime is {given} and {option}'s {own}: leave --refTime out.")
    return own


def segments_option(arguments: Arguments) -> str | None:
    """Return the option that asks for segments, as users write it; None if there is none.

    Raises
    ------
    ValueError
        If several are given.
    """
    given = [f"--{name}" for name in SEGMENTS if getattr(arguments, name) is not None]
    if len(given) > 1:
        raise ValueError(f"{given[0]} and {given[1]} are two ways to give segments: give one.")
    return given[0] if given else None


def segments(arguments: Arguments) -> Any:
    """Return the segments that are asked for, as `jfstat.prepare` takes them; None for none.

    Raises
    ------
    OSError, ValueError
        If several options are given, or a file cannot be read.
    """
    if segments_option(arguments) is None:
        return None
    if arguments.segmentList is not None:
        return jfstat.read_segments(arguments.segmentList)
    return arguments.segments if arguments.segments is not None else float(arguments.segmentDuration)


def line_prior(arguments: Arguments) -> jfstat.LinePrior:
    """Return the prior knowledge of lines, for log10BSGL."""
    return jfstat.LinePrior(arguments.Fstar0, arguments.oLGX)


def check_veto(arguments: Arguments) -> None:
    """Raise a ValueError if ``--vetoLines`` is given without lines."""
    if arguments.vetoLines and arguments.linefiles is None:
        raise ValueError("--vetoLines needs --linefiles: name the lists of lines.")


def known_lines(files: list[str] | None) -> Any:
    """Return the lines of ``--linefiles`` as a table; None if it is not given.

    Raises
    ------
    OSError, ValueError
        If a file cannot be read, or does not say whose lines it holds.
    """
    if files is None:
        return None
    from astropy.table import vstack

    if not files:
        raise ValueError("--linefiles names no file: give at least one.")
    parts = []
    for file in files:
        detector, colon, path = file.partition(":")
        named = colon and detector in OF_LINES
        parts.append(jfstat.read_lines(path, detector) if named else jfstat.read_lines(file))
    return vstack(parts, metadata_conflicts="silent")


def kept(arguments: Arguments, option: str = "TwoFthreshold") -> tuple[int | None, float | None]:
    """Return `top` and `threshold` of `jfstat.search`; the option is the one that has the threshold.

    Raises
    ------
    ValueError
        If all are to be kept that are above a threshold that is not given.
    """
    top, threshold = arguments.NumCandidatesToKeep, getattr(arguments, option)
    if top == 0 and threshold is None:
        raise ValueError(f"--NumCandidatesToKeep 0 keeps all at or above --{option}: give that as well.")
    return 1000 if top is None and threshold is None else top or None, threshold


def band_edges(start: float, width: float) -> tuple[float, float]:
    """Return low and high of a band, whose width may be negative, as in ComputeFstatistic_v2."""
    return min(start, start + width), max(start, start + width)


def whole_sfts(duration: float | None, tsft: float) -> float | None:
    """Return a duration rounded up to whole SFTs, which then cover it, as in LALSuite (XLALMakeTimestamps).

    Raises
    ------
    ValueError
        If it is not positive.
    """
    if duration is None or not tsft > 0:  # which is refused elsewhere
        return duration
    if not duration > 0:
        raise ValueError(f"--duration must be positive, not {duration:g}: give it in s.")
    return tsft * math.ceil(duration / tsft * (1 - 1e-12))


def orbit(given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an orbit among options by name, without those that are None.

    Raises
    ------
    ValueError
        If one that every orbit needs is missing.
    """
    fields = {name: given.get(option) for name, (option, _, _) in ORBIT.items()}
    fields = {name: value for name, value in fields.items() if value is not None}
    missing = [ORBIT[name][0] for name in ("asini", "period", "tp") if name not in fields]
    if fields and missing:
        raise ValueError(f"--{missing[0]} is missing: a binary orbit needs --orbitasini, --orbitPeriod and --orbitTp.")
    return fields


def windows(arguments: Arguments, start: float, tsft: float) -> jfstat.TransientRange | None:
    """Return the windows of transient signals that are asked for; None without ``--transient-WindowType``.

    Parameters
    ----------
    arguments : Arguments
    start, tsft : float
        Start of the data, GPS s, and length of an SFT, s, which the slices of time have too.

    Raises
    ------
    ValueError
        If an option is missing, out of range or of no effect.
    """
    shape = arguments.transient_WindowType
    if shape == "none":
        own = [name.replace("-", "_") for name in WINDOWS[1:]]
        given = arguments.first_given(*own)
        if given is not None:
            raise ValueError(f"{given} needs --transient-WindowType: give rect or exp.")
        return None
    for name in ("transient_dt0", "transient_dtau", "transient_tau"):
        value = getattr(arguments, name)
        if value is not None and not value > 0:
            raise ValueError(f"--{name.replace('_', '-')} must be positive, not {value:g}: give it in s.")
    for name in ("transient_t0Band", "transient_tauBand"):
        if not getattr(arguments, name) >= 0:
            given = f"--{name.replace('_', '-')}"
            raise ValueError(f"{given} must not be negative, not {getattr(arguments, name):g}: give it in s.")
    if arguments.transient_tau is None:
        raise ValueError("--transient-tau is missing: give the smallest time scale in s.")
    if arguments.transient_tau < tsft:
        raise ValueError(
            f"--transient-tau={arguments.transient_tau:g} is less than {tsft:g} s, an SFT, of which windows are made: "
            "give at least that, or make shorter SFTs."
        )
    first, offset = arguments.transient_t0Epoch, arguments.transient_t0Offset
    if first is not None and offset is not None:
        raise ValueError("--transient-t0Epoch and --transient-t0Offset exclude each other: give one.")

    def steps(name: str, low: float, step: float | None) -> Any:
        band, step = getattr(arguments, name), step or tsft
        if not band / step < MOST_STEPS:
            raise ValueError(f"--{name.replace('_', '-')} has {band / step:.3g} steps of {step:g} s: give fewer.")
        return low + step * np.arange(int(band / step + 1e-9) + 1)

    t0 = steps("transient_t0Band", start + (offset or 0.0) if first is None else first, arguments.transient_dt0)
    tau = steps("transient_tauBand", arguments.transient_tau, arguments.transient_dtau)
    return jfstat.TransientRange(shape, t0, tau, duration=tsft)
