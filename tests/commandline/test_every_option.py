"""Each option of each command, in a small run: another result, another file, or another message than without it."""

import os
import re
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest
from sfdb_files import transform
from strain_files import write_frame
from test_options import PLANS, SEGMENTS, START, options_of

import jfstat
from jfstat.commandline import SUBCOMMANDS, _parser, main

POINT = ["--Alpha=1.1", "--Delta=0.2"]
FILES = {"earth": "earth00-40-DE405.dat.gz", "sun": "sun00-40-DE405.dat.gz"}
DAY = ["--startTime=1167458304", "--duration=3600"]
TIMES = re.compile(r"in [\d.]+ s|[\d.]+ s\b|[\d.e+-]+ s left|would take.*|[\d.]+e[+-]\d+ 2F/s")
"""Parts of what is printed that differ from run to run."""

SIMULATE = ["--IFOs=H1", *DAY, "--fmin=49.8", "--Band=0.4", "--sqrtSX=1e-23", "--outSFTdir=out"]
SIGNAL = [*POINT, "--Freq=50", "--h0=1e-22", "--cosi=0.5", f"--refTime={START}", "--psi=0.1", "--phi0=0.2"]
ORBIT = ["--orbitasini=1", "--orbitPeriod=20000", f"--orbitTp={START}"]
BRIEF = ["--transientWindowType=rect", f"--transientStartTime={START + 500}", "--transientTau=1000"]
PREDICT = [*POINT, "--h0=1e-23", "--cosi=0.5", "--IFOs=H1", *DAY, "--assumeSqrtSX=1e-23"]
FROM_FILES = [*POINT, "--h0=1e-23", "--cosi=0.5", "--DataFiles=*.sft", "--Freq=50"]
LIMIT = ["--DataFiles=*.sft", "--Freq=50", *POINT, "--TwoFthreshold=30", "--injections=80", "--mismatch=0.1"]
PSD = ["--inputData=*.sft", "--outputPSD=psd.txt"]
CONVERT = ["--file-pattern=one.SFDB09", "--fmin=0.01", "--fmax=0.05", "--outSFTdir=out"]
SPLIT = ["--DataFiles=*.sft", "--frequency-bandwidth=0.5", "--output-directory=out"]
CLEAN = ["--sftDir=*.sft", "--linefiles=L1lines.txt", "--outDir=out"]
MAKE = ["--frame-files=strain.hdf5", "--high-pass-freq=7", "--sft-duration=16", "--start-freq=30", "--band=20"]
MAKE += ["--sft-write-path=out"]
GATES = ["--gate-threshold=300", "--gate-most=0.99"]
PUBLIC = ["--observing-run=4", "--observing-kind=SIM", "--observing-revision=1"]
REFINE = ["--DataFiles=*.sft", "--candidates=found.ecsv", "--outputFstat=out.ecsv", "--guard=0.2", "--parameters=freq"]
FOLLOW = ["--DataFiles=*.sft", "--candidates=parts.ecsv", "--outputFstat=out.ecsv", "--guard=0.2", "--parameters=freq"]
TABLES = dict(linefiles="L1lines.txt", ephemeris="DE421", outputFstat="other.ecsv")
DATA = dict(IFOs="L1", minStartTime=START + 1800, maxStartTime=START + 10800)
PREPARED = dict(assumeSqrtSX=2e-23, RngMedWindow=51, offSourceBins=10, guard=0.4, ephemeris="DE421")


def without(line, *names):
    return [word for word in line if word.partition("=")[0][2:] not in names]


CASES = {
    "simulate": {
        **dict(outSFTdir="other", outLabel="x", IFOs="L1", startTime=START + 1800, duration=5400, fmin=49.7, Band=0.5),
        **dict(Tsft=900, sqrtSX=2e-23, SFTWindowType="hann", randSeed=1, artefacts="{Freq=50;h0=1e-22}"),
        "SFTWindowParam": (0.3, [*SIMULATE, "--SFTWindowType=tukey"]),
        "timestampsFiles": ("times.txt", without(SIMULATE, "startTime", "duration")),
        "noiseSFTs": ("H*.sft", ["--outSFTdir=out", *SIGNAL]),
        "outFrameDir": "frames",
        "outFrChannels": ("H1:X", [*SIMULATE, "--outFrameDir=frames"]),
        "inFrames": ("one.gwf", ["--outSFTdir=out", "--fmin=49.5", "--Band=1", "--Tsft=1800", *SIGNAL]),
        "inFrChannels": (
            "H1:OTHER_STRAIN",
            ["--outSFTdir=out", "--fmin=49.5", "--Band=1", "--Tsft=1800", "--inFrames=two.gwf", *SIGNAL],
        ),
        "detectorFiles": ("Z1=z.ifo", [*without(SIMULATE, "IFOs"), "--IFOs=Z1"]),
        **{
            name: (value, [*SIMULATE, *without(SIGNAL, name)])
            for name, value in {
                **dict(Alpha=1.3, Delta=0.3, Freq=50.01, f1dot=1e-7, f2dot=1e-11, f3dot=1e-14, h0=2e-22, cosi=0.1),
                **dict(psi=0.4, phi0=1.2, refTime=START + 1000.3, ephemeris="DE200", injectionSources="source.dat"),
            }.items()
        },
        **{
            name: (2e-22, [*SIMULATE, *without(SIGNAL, "h0", "cosi"), f"--{other}=1e-22"])
            for name, other in (("aPlus", "aCross"),)
        },
        "aCross": (1e-22, [*SIMULATE, *without(SIGNAL, "h0", "cosi"), "--aPlus=2e-22"]),
        **{
            name: (value, [*SIMULATE, *SIGNAL, *without(ORBIT, name)])
            for name, value in dict(
                orbitasini=2, orbitPeriod=30000, orbitTp=START + 5000, orbitEcc=0.3, orbitArgp=1
            ).items()
        },
        **{
            name: (value, [*SIMULATE, *SIGNAL, *without(BRIEF, name)])
            for name, value in dict(
                transientWindowType="exp", transientStartTime=START + 900, transientTau=1500
            ).items()
        },
    },
    "predict": {
        **dict(Alpha=1.3, Delta=0.5, h0=2e-23, cosi=0.1, psi=0.5, IFOs="L1"),
        "minStartTime": (START + 40000, [*without(PREDICT, "startTime"), f"--minStartTime={START}"]),
        **dict(startTime=START + 40000, duration=7200, assumeSqrtSX=2e-23, PureSignal="", Tsft=1000),
        "phi0": None,
        "aPlus": (2e-23, [*without(PREDICT, "h0", "cosi"), "--aCross=1e-23"]),
        "aCross": (1e-23, [*without(PREDICT, "h0", "cosi"), "--aPlus=2e-23"]),
        "DataFiles": ("*.sft", without(PREDICT, "startTime", "duration", "IFOs")),
        "detectorFiles": ("Z1=z.ifo", [*without(PREDICT, "IFOs"), "--IFOs=Z1"]),
        "timestampsFiles": ("times.txt", without(PREDICT, "startTime", "duration")),
        "ephemeris": None,
        **{
            name: (value, FROM_FILES)
            for name, value in dict(Freq=50.3, maxStartTime=START + 7200, RngMedWindow=51, offSourceBins=10).items()
        },
        **{
            name: (value, [*PREDICT, *without(BRIEF, name)])
            for name, value in dict(
                transientWindowType="exp", transientStartTime=START + 900, transientTau=1500
            ).items()
        },
    },
    "upper-limit": {
        **DATA,
        **PREPARED,
        **dict(DataFiles="H*.sft", Freq=50.1, FreqBand=0.02, Alpha=1.3, Delta=0.5, cosi=0.1, confidence=0.9),
        **dict(TwoFthreshold=40, mismatch=0.2, injections=90, randSeed=1, f1dot=-1e-6, f1dotBand=1e-6),
        **dict(segments=2, segmentDuration=10800, segmentList="segments.txt"),
        "candidates": ("found.ecsv", without(LIMIT, "TwoFthreshold")),
        "detectorFiles": None,
        "ephemeris": None,
        "guard": None,
    },
    "psd": {
        **dict(inputData="H*.sft", IFOs="L1", startTime=START + 1800, endTime=START + 7200, Freq=49.5, FreqBand=0.5),
        **dict(blocksRngMed=51, PSDmthopSFTs="min", PSDmthopIFOs="max", binSize=2, binSizeHz=0.002, outputPSD="a.ecsv"),
        **dict(plot="a.png", spectrogram="b.png"),
        "PSDmthopBins": ("max", [*PSD, "--binSize=3"]),
    },
    "convert-sfdb": {
        **DATA | {"minStartTime": START + 1000},
        "file-pattern": "two.SFDB09",
        "fmin": 0.02,
        "fmax": 0.04,
        "zeros": 0.6,
        "outSFTdir": "other",
        "segment-file": "segments.txt",
        "outLabel": "x",
    },
    "split-sfts": {
        **DATA,
        "DataFiles": "H*.sft",
        "detectorFiles": None,
        "frequency-bandwidth": 0.7,
        "frequency-overlap": 0.1,
        "start-frequency": 49.5,
        "end-frequency": 50.2,
        "output-directory": "other",
        "outLabel": "x",
    },
    "clean-sfts": {
        **dict(sftDir="L*.sft", fMin=49.5, fMax=50.9, linefiles="L1:wide.txt", window=50, maxBins=2, randSeed=1),
        **dict(outDir="other", outLabel="x", outSingleSFT=""),
    },
    "make-sfts": {
        "frame-files": "other.hdf5",
        "gps-start-time": START + 16,
        "gps-end-time": START + 32,
        "IFO": "L1",
        "segment-file": "science.txt",
        "quality-bits": "DATA,CBC_CAT1",
        "sft-duration": 8,
        "high-pass-freq": 20,
        "window-type": "hann",
        "start-freq": 35,
        "band": 10,
        "sft-write-path": "other",
        "misc-desc": "x",
        "comment-field": "hello",
        "gate-threshold": 300,
        "window-param": (0.3, [*MAKE, "--window-type=tukey"]),
        **{
            name: (value, [*MAKE, *without(GATES, name)])
            for name, value in {"gate-bands": "60-90", "gate-tzero": 0.2, "gate-tpad": 0.1, "gate-most": 0.99}.items()
        },
        **{
            name: (value, [*MAKE, *without(PUBLIC, name)])
            for name, value in {"observing-run": 3, "observing-kind": "DEV", "observing-revision": 2}.items()
        },
        "frame-cache": ("cache.txt", without(MAKE, "frame-files")),
        "channel-name": "nothing",
        "quality-channel": "nothing",
    },
    "hardware-injections": {  # tests/commandline/test_hardware_command.py
        **dict.fromkeys(("DataFiles", "frame-files", "IFOs", "minStartTime", "maxStartTime", "run", "channel-name")),
        **dict.fromkeys(("quality-bits", "sft-duration", "high-pass-freq", "tolerance", "outputFstat")),
    },
    "dump-sfts": dict(SFTfiles="H*.sft", headerOnly="", dataOnly="", timestampsOnly="", Nmax=2),
    "merge": dict(outputFstat="other.ecsv", files=None),
    "validate-sfts": dict(files=None),
    "refine": {
        **DATA,
        **PREPARED,
        **TABLES,
        **dict(
            DataFiles="H*.sft", candidates="parts.ecsv", NumCandidatesToKeep=1, parameters="freq,alpha", mismatch=None
        ),
        **dict(bins=None, bounds="freq=50.0001:50.0002", keepAll="", refTime=START + 100),
        **dict(segments=2, segmentDuration=10800, segmentList="segments.txt"),
        "detectorFiles": None,
        "refTime": (START + 5000, [word.replace("found.ecsv", "bare.txt") for word in REFINE]),
        "numTwoF": (10**6, [*(word.replace("found.ecsv", "bare.txt") for word in REFINE), f"--refTime={START}"]),
    },
    "follow-up": {
        **DATA,
        **PREPARED,
        **TABLES,
        **dict(
            DataFiles="H*.sft", candidates="found.ecsv", NumCandidatesToKeep=1, parameters="freq,alpha", mismatch=None
        ),
        **dict(bins=None, stages="2,1", veto=0.5, falseAlarm=0.5, checkpoint="state"),
        "detectorFiles": None,
        "refTime": (START + 5000, [word.replace("parts.ecsv", "bareparts.txt") for word in [*FOLLOW, "--stages=2,1"]]),
        "numTwoF": (
            10**6,
            [*(word.replace("parts.ecsv", "bareparts.txt") for word in FOLLOW), "--stages=2,1", f"--refTime={START}"],
        ),
    },
}
"""For each option its value, or also the other words of a command line in which it makes sense; None: `ELSEWHERE`."""
BASES = {
    "simulate": SIMULATE,
    "predict": PREDICT,
    "upper-limit": LIMIT,
    "psd": PSD,
    "convert-sfdb": CONVERT,
    "split-sfts": SPLIT,
    "clean-sfts": CLEAN,
    "make-sfts": MAKE,
    "dump-sfts": ["--SFTfiles=*.sft"],
    "refine": REFINE,
    "follow-up": FOLLOW,
    "merge": ["one.ecsv", "two.ecsv", "--outputFstat=merged.ecsv"],
}
ELSEWHERE = {
    "phi0": "2F does not depend on the phase: a parameter of Amplitude, read as the others",
    "ephemeris": "changes a prediction or a limit beyond the digits that are printed",
    "ephemEarth": "together with ephemSun: test_the_two_files_of_an_ephemeris_have_an_effect",
    "ephemSun": "together with ephemEarth",
    "detectorFiles": "test_the_options_that_go_together_have_an_effect, test_detectors",
    "mismatch": "how far from a candidate data reach: tests of refine",
    "bins": "the same",
    "guard": "changes a limit beyond the digits that are printed",
    "files": "names of files, not an option",
}
REFUSED = ("IFO", "channel-name", "quality-channel", "candidates")
"""Options whose value is refused here: without effect beside files of GWOSC, or of another search."""
MARKS = {"upper-limit": pytest.mark.ci} | dict.fromkeys(("refine", "follow-up"), pytest.mark.slow)
"""Marks of commands that compile much."""
TESTED = [
    (command, name) for command in CASES for name in options_of(command) if CASES[command].get(name, 0) is not None
]


KNOWN = {}
"""Outcomes of the command lines without an option, which many options share."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """What the command lines read."""
    path = tmp_path_factory.mktemp("inputs")
    point = jfstat.Doppler(1.1, 0.2, [50.0003], START)
    amplitude = jfstat.Amplitude(2e-23, 0.3)
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], START, 12 * 1800, 49.0, 51.0, sqrt_sx=1e-23, seed=1, signals=[(point, amplitude)]
    )
    jfstat.write_sfts(sfts, path)
    x = np.random.default_rng(1).standard_normal(128 * 3600)
    write_frame(path / "one.gwf", START, 128, H1__STRAIN=x)
    write_frame(path / "two.gwf", START, 128, H1__STRAIN=x, H1__OTHER_STRAIN=x + 1)
    (path / "source.dat").write_text("Alpha = 1\nDelta = 0.1\nFreq = 50\nh0 = 1e-22\ncosi = 0\n")
    (path / "L1lines.txt").write_text("50.2,0,0,1,1,0.01,0.01,hum\n")
    (path / "wide.txt").write_text("50.2,0,0,1,1,0.02,0.02,hum\n")
    (path / "segments.txt").write_text(f"{START} {START + 10800}\n{START + 10800} {START + 21600}\n")
    (path / "science.txt").write_text(f"{START} {START + 16}\n")
    (path / "times.txt").write_text(f"{START} 0\n{START + 9000} 0\n")
    bins = np.full(100, 1e-22)
    blocks = [
        transform(x, START + 1024 * i, bins, 1024, n_zeroes=2_000_000 * (i == 2))
        for x in ("H1", "L1")
        for i in range(14)
    ]
    for name, own in (("one", blocks), ("two", blocks[:3])):
        (path / f"{name}.SFDB09").write_bytes(b"".join(own))
    (path / "z.ifo").write_text(
        "latitude = 46\nlongitude = -119\nelevation = 142\nxarm_azimuth = 126\nyarm_azimuth = 216\n"
    )
    return path


@pytest.fixture(scope="module")
def tables(inputs):
    """Candidates of searches with and without segments, and of units."""
    data = jfstat.prepare(sfts := jfstat.read_sfts(inputs), 49.999, 50.001, reftime=START, guard=0.3)
    bank = jfstat.template_bank((1.05, 1.15, 0.05), 0.2)
    found = jfstat.search(data, bank, top=2)
    for name in ("found.ecsv", "found.txt"):
        jfstat.write_candidates(found, inputs / name)
    for i in (1, 2):
        jfstat.write_candidates(
            jfstat.search(data, bank, top=2, run=jfstat.Run(unit=(i, 2))), inputs / f"{('one', 'two')[i - 1]}.ecsv"
        )
    parts = jfstat.search(jfstat.prepare(sfts, 49.999, 50.001, reftime=START, guard=0.3, segments=3), bank, top=2)
    for name in ("parts.ecsv", "parts.txt"):
        jfstat.write_candidates(parts, inputs / name)
    for name, table in (("bare.txt", found), ("bareparts.txt", parts)):  # of an unknown reference time
        del table.meta["reftime"], table.meta["n_twoF"]
        jfstat.write_candidates(table, inputs / name)
    return inputs


@pytest.fixture(scope="module")
def strain(inputs):
    pytest.importorskip("h5py")
    from strain_files import ALL_DATA_QUALITY, coloured_noise, write_gwosc

    quality = np.full(64, ALL_DATA_QUALITY, np.uint32)
    quality[40:] &= ~np.uint32(2)
    x = coloured_noise(64, 4096, 1)
    x[20 * 4096] += 1e-17
    write_gwosc(inputs / "strain.hdf5", "H1", START, x, 4096, quality=quality)
    write_gwosc(inputs / "other.hdf5", "H1", START + 64, coloured_noise(64, 4096, 2), 4096)
    (inputs / "cache.txt").write_text(f"H H1_GWOSC {START} 64 file://localhost{inputs}/strain.hdf5\n")
    return inputs


def outcome(command, line, folder, here, capsys):
    """Exit status, what is printed, and what files then hold, without times."""
    shutil.copytree(folder, here)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
        status = main([command, *line])
    said = capsys.readouterr()
    files = {
        path.relative_to(here): path.read_bytes() for path in here.rglob("*") if path.is_file() and path not in before
    }
    said = TIMES.sub("", said.out), TIMES.sub("", said.err if status else "")
    shutil.rmtree(here)
    return status, *said, files


def words_for(command, name, value, others):
    """A command line without and with an option."""
    base = BASES[command] if others is None else others
    if name in SEGMENTS and command != "upper-limit":
        base = without(base, *SEGMENTS)
    word = f"--{name}" if value == "" else f"--{name}={value}"
    return base, [*without(base, name, *(["sft-write-path"] if name == "sft-write-path" else [])), word]


@pytest.mark.ci
@pytest.mark.parametrize(
    ("command", "name"),
    [
        pytest.param(command, name, marks=[MARKS[command]] if command in MARKS else [])
        for command, name in TESTED
        if name not in ELSEWHERE or name in CASES[command]
    ],
)
def test_every_option_makes_a_difference(command, name, inputs, tmp_path, capsys, request):
    if command in ("refine", "follow-up", "merge", "upper-limit"):
        request.getfixturevalue("tables")
    if command == "make-sfts":
        request.getfixturevalue("strain")
    given = CASES[command][name]
    value, others = given if isinstance(given, tuple) else (given, None)
    before, after = words_for(command, name, value, others)
    first = KNOWN.get((command, *before)) or outcome(command, before, inputs, tmp_path / "here", capsys)
    KNOWN[command, *before] = first
    second = outcome(command, after, inputs, tmp_path / "here", capsys)
    assert first != second, (before, after)
    assert second[0] == 0 or name in REFUSED, second[2]


@pytest.mark.parametrize("command", sorted(CASES))
def test_words_are_read_without_x64(command):
    """As in a shell: JAX is set up only after the options are read."""
    with jax.enable_x64(False):
        for name, given in CASES[command].items():
            value, others = given if isinstance(given, tuple) else (given, None)
            if value is None or (others is None and command not in BASES):
                continue
            _, line = words_for(command, name, value, others)
            assert _parser(command).arguments([command, *line]).plan is not None


def test_a_sky_region_in_a_shell(tmp_path):
    region = "--skyRegion=(0.8,0.1),(1.4,0.1),(5:30:00,0.7)"
    options = ["--DataFiles=none.sft", "--Freq=50", "--FreqBand=0.1", "--metricMismatch=0.3", "--countTemplates"]
    environment = {name: x for name, x in os.environ.items() if name != "JAX_ENABLE_X64"}
    command = [sys.executable, "-m", "jfstat", "search", region, *options]
    said = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert said.returncode == 1 and "none.sft" in said.stderr and "sky region" not in said.stderr


def test_every_option_of_every_command_is_tried():
    for command in SUBCOMMANDS:
        for name in options_of(command):
            if command in ("demo", "benchmark"):
                continue
            known = CASES.get(command, PLANS.get(command, {}))
            assert name in known or name in ELSEWHERE, f"{command} --{name}"


def test_runs_are_the_same_twice(inputs, tmp_path, capsys):
    """Or a difference would say nothing."""
    for command in ("simulate", "psd", "convert-sfdb", "split-sfts", "clean-sfts", "predict", "dump-sfts"):
        first, second = (outcome(command, BASES[command], inputs, tmp_path / "here", capsys) for _ in range(2))
        assert first == second and first[0] == 0, command
