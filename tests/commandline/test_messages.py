"""The line that says why a command is refused names options, where the library's error names arguments."""

import re
from pathlib import Path

import pytest
from test_options import options_of

import jfstat
from jfstat.commandline import SUBCOMMANDS, _parser, main
from jfstat.commandline.messages import in_options
from jfstat.commandline.spellings import ADVICE, ARGUMENTS

START = 1167458304
FILES = ["--DataFiles=*.sft", "--Freq=50"]
SEARCH = ["search", *FILES, "--Alpha=1.1", "--Delta=0.2"]
POWER = ["track-power", *FILES, "--Alpha=1.1", "--Delta=0.2"]
LATTICE = [*SEARCH, "--metricMismatch=0.3"]
SEGMENTED = [*SEARCH, "--segments=2"]
PULSARS = ["search-pulsars", "--DataFiles=*.sft", "--par=a.par"]
SOURCE = ["--Alpha=1.1", "--Delta=0.2", "--h0=1e-23", "--cosi=0.5"]
DAY = [f"--startTime={START}", "--duration=7200"]
PREDICT = ["predict", *SOURCE, "--IFOs=H1,L1", *DAY, "--assumeSqrtSX=1e-23"]
SIMULATE = ["simulate", "--IFOs=H1", *DAY, "--fmin=49.8", "--Band=0.4", "--outSFTdir=new"]
LIMIT = ["upper-limit", *FILES, "--TwoFthreshold=30"]
MAKE = ["make-sfts", "--frame-files=*.sft", "--high-pass-freq=7", "--sft-write-path=new"]
SAID = [
    ([*SEARCH, "--RngMedWindow=1"], "--RngMedWindow must be a whole number of at least 3"),
    ([*SEARCH, "--RngMedWindow=100000"], "give --assumeSqrtSX or lower --RngMedWindow or --offSourceBins."),
    ([*SEARCH, "--RngMedWindow=1000000000"], "--RngMedWindow must be a whole number of at least 3 and at most 1000"),
    ([*SEARCH, "--offSourceBins=1000000000"], "--offSourceBins must be a whole number from 0 to"),
    ([*SEARCH, "--offSourceBins=10", "--RngMedWindow=5"], "--RngMedWindow must be at least 7 with --offSourceBins"),
    ([*SEARCH, "--assumeSqrtSX=0"], "--assumeSqrtSX of H1 must be positive"),
    ([*SEARCH, "--assumeSqrtSX=1,2,3"], "--assumeSqrtSX has 3 values for 2 detectors"),
    ([*SEARCH, "--guard=-1"], "--guard must not be negative"),
    ([*SEARCH, "--IFOs=H9"], "--IFOs: detector 'H9' is unknown: use one of A1"),
    ([*SEARCH, "--IFOs=H1,H1"], "--IFOs must be different prefixes such as ['H1', 'L1'], not ['H1', 'H1']."),
    ([*SEARCH, "--minStartTime=1e30"], "--minStartTime must be a GPS time"),
    ([*SEARCH, f"--minStartTime={START + 9}", f"--maxStartTime={START + 1}"], f"and --maxStartTime={START + 1}"),
    ([*SEARCH, "--ephemeris=DE999"], "or --ephemEarth and --ephemSun."),
    ([*SEARCH, "--refTime=1e30"], "--refTime must be a GPS time"),
    ([*SEARCH[:3], "--Alpha=99", "--Delta=0"], "--Alpha must be within [-pi, 3 pi]"),
    ([*SEARCH, "--f1dotBand=1e-9", "--df1dot=1e30"], "--df1dot must be finite"),
    ([*SEARCH, "--orbitasini=1", "--orbitPeriod=-1", f"--orbitTp={START}"], "--orbitPeriod must be positive"),
    ([*SEARCH, "--cluster=-1"], "--cluster must be a positive number, not -1.0"),
    ([*PULSARS, "--oLGX=1"], "--oLGX must be 2 finite odds"),
    ([*SEARCH, "--batchSize=1000000000"], "--batchSize must be a whole number from 1 to 1000000, not 1000000000."),
    ([*SEARCH, "--FreqBand=0.01", "--dFreq=10"], "--dFreq must be within"),
    ([*SEARCH, "--FreqBand=0.01", "--dFreq=-1"], "--dFreq must be positive"),
    ([*SEARCH, "--BSGLthreshold=1", "--IFOs=H1"], "--BSGLthreshold compares detectors"),
    ([*SEARCH, "--RankingStatistic=BSGL", "--noDetails"], "several detectors, and no --noDetails"),
    ([*SEARCH, "--backgroundPositions=5"], "--backgroundPositions must be a whole number from 10 to 10000, not 5."),
    ([*SEARCH, "--transient-WindowType=rect", "--transient-tau=7200", "--transient-t0Band=1e30"], "--transient-t0Band"),
    ([*LATTICE[:-1], "--metricMismatch=3"], "--metricMismatch must be between 0 and 1"),
    (
        [*LATTICE, "--f1dotBand=1e-9", "--segments=2", "--cohMaxMismatch=3"],
        "--cohMaxMismatch must be a number between",
    ),
    ([*LATTICE, "--skyRadius=9"], "--skyRadius must be above 0 and at most pi"),
    ([*LATTICE, "--AlphaBand=9"], "--Alpha must span at most 2 pi"),
    (
        [*SEGMENTED[:-1], "--segments=99"],
        "not 99: give a duration by --segmentDuration.",
    ),
    ([*SEGMENTED[:-1], "--segmentDuration=-1"], "--segmentDuration must be positive"),
    ([*SEARCH, "--linefiles=l.txt"], "write L1:FILE, with the detector"),
    (["search", *FILES, "--gridFile={1 0.2; 1 9}"], "--gridFile has delta = 9.0 in row 1"),
    ([*POWER, "--FreqBand=0.01", "--dFreq=0.5"], "--dFreq must be the width of a bin"),
    ([*POWER, "--f1dotBand=1e-9"], "natural steps here: give --df1dot, ..., or --metricMismatch."),
    ([*POWER, "--spindownAge=1e10", "--minBraking=2", "--maxBraking=7"], "--spindownAge is not for power"),
    ([*POWER, "--bins=3"], "--bins must be 1 or an even number"),
    ([*POWER[:2], "--Freq=49.5", *SOURCE[:2]], "--Freq=49.5 and --Freq+--FreqBand=49.5 must lie within"),
    (["track", *SEGMENTED[1:], "--subband=-1"], "--subband must be a positive number of Hz, not -1.0."),
    (["track", *SEGMENTED[1:], "--maxJump=90000"], "--maxJump must be a number of bins"),
    (["track", *SEGMENTED[1:], "--h0=1e-24", "--cosi=3"], "--cosi must be within [-1, 1]"),
    (["points", *SEARCH[1:], "--dFreq=-1", "--FreqBand=0.1"], "--dFreq must be positive"),
    (["points", *SEARCH[1:], "--FreqBand=1e12"], "narrow --FreqBand or the other bands"),
    ([*PULSARS, "--harmonic=-1"], "--harmonic must be positive"),
    ([*PULSARS, "--harmonic=5000"], "pulsar J0001+0001: --harmonic must be at most 1000"),
    ([*PREDICT[:-1], "--assumeSqrtSX=1e-23,0"], "--assumeSqrtSX of L1 must be positive"),
    ([*PREDICT, "--transientWindowType=rect", f"--transientStartTime={START}", "--transientTau=0"], "--transientTau"),
    ([*PREDICT, "--aPlus=1"], "--h0 and --cosi do not go with --aPlus and --aCross"),
    ([*PREDICT[:5], "--IFOs=H1", "--timestampsFiles=a,b", PREDICT[-1]], "--timestampsFiles names 2 files"),
    ([*SIMULATE, "--Tsft=-1"], "--Tsft must be positive"),
    (
        [*SIMULATE[:3], "--Tsft=0.01", "--duration=1e15", *SIMULATE[4:]],
        "--duration must hold at most 1e+08 SFTs of --Tsft=0.01 s",
    ),
    ([*SIMULATE, "--sqrtSX=-1"], "--sqrtSX of H1 must be positive"),
    ([*SIMULATE[:5], "--Band=1e9", SIMULATE[-1]], "--fmin=49.8 and --fmin+--Band=1e+09 Hz ask for bins beyond"),
    ([*SIMULATE, "--SFTWindowType=x"], "--SFTWindowType: window 'x' is unknown: use 'rectangular'"),
    ([*SIMULATE, *SOURCE[:3], "--Freq=50", "--cosi=7"], "source on the command line: --cosi must be within"),
    ([*SIMULATE, "--injectionSources={Alpha=1;Delta=9;Freq=50;h0=1;cosi=0}"], "cosi=0}: Delta must be within"),
    ([*SIMULATE, "--injectionSources={Alpha=1;Delta=0;Freq=50;h0=1}"], "}: h0 and cosi, or aPlus and aCross, must"),
    ([*SIMULATE, "--artefacts={Freq=-50;h0=1}"], "artefact {Freq=-50;h0=1}: Freq=-50 must be positive and h0=1"),
    ([*SIMULATE, "--artefacts={Freq=50;h0=1;swingPhase=1}"], "}: period and swingPhase are of a swing"),
    ([*LIMIT, "--f1dot=1e30"], "--f1dot must be at most"),
    ([*LIMIT, "--Alpha=9e9", "--Delta=0"], "--Alpha must be within"),
    ([*MAKE], "--frame-files has '"),
    ([*MAKE, "--gate-threshold=1", "--gate-most=-1"], "--gate-most must be positive"),
    ([*MAKE, "--quality-bits=99"], "--quality-bits must be a sequence of names such as 'DATA'"),
    (["psd", "--inputData=*.sft", "--blocksRngMed=2", "--plot=a.png"], "--blocksRngMed must be a whole number"),
    (["psd", "--inputData=*.sft", "--blocksRngMed=9999", "--plot=a.png"], "lower --blocksRngMed."),
    (["psd", "--inputData=*.sft", "--plot=a.xyz"], "--plot=a.xyz has an ending that matplotlib does not draw"),
    (["clean-sfts", "--sftDir=*.sft", "--fMax=-1", "--linefiles=L1:l.txt", "--outDir=new"], "and --fMax=-1.0 Hz"),
    (["split-sfts", "-D", "*.sft", "-fb", "0.1", "-fx", "0.2", "-n", "new"], "--frequency-bandwidth of 180 bins"),
    (
        ["convert-sfdb", "-i", "a.par", "--fmin=1", "--fmax=0", "-n", "new"],
        "not --fmin=1.0 and --fmax=0.0 Hz",
    ),
    (["hardware-injections", "--DataFiles=*.sft", "--run=O9"], "--run must be one of S5"),
    ([*SEARCH, "--batchSize=1" + 400 * "0"], "--batchSize"),
    (
        [
            "points",
            *SEARCH[1:],
            "--transient-WindowType=rect",
            "--transient-tau=7200",
            "--transient-t0Epoch=1000000000",
        ],
        "choose other --transient-t0Epoch and --transient-tau",
    ),
    (["benchmark", "--detectors=x"], "--detectors: detector 'x' is unknown"),
]
"""Words of a command line, and what it must say."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("messages")
    jfstat.write_sfts(jfstat.simulate_sfts(["H1", "L1"], START, 4 * 1800, 49.5, 50.5, sqrt_sx=1e-23, seed=1), path)
    (path / "a.par").write_text("PSRJ J0001+0001\nRAJ 00:01:00\nDECJ 00:01:00\nF0 25.0\nPEPOCH 54100\n")
    (path / "l.txt").write_text("50.2,0,0,1,1,0.01,0.01,hum\n")
    return path


@pytest.mark.parametrize(("words", "said"), SAID, ids=[f"{words[0]} {said[:40]}" for words, said in SAID])
def test_a_message_names_the_option(words, said, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert main(words) == 1
    line = capsys.readouterr().err.strip().rpartition("jfstat: error: ")[2]
    assert said in line and "\n" not in line
    assert not re.search(r"sqrt_sx|median_bins|off_source| or None|None or |jfstat\.[A-Z]", line)


def told(message, *words):
    """A message of the library as the user of a command line gets it."""
    return in_options(message, _parser(words[0]).arguments(list(words)))


@pytest.mark.parametrize(
    "message",
    [
        "the data have 3 segments: use segments and a start of your own, mismatch and all.",
        "data have 3 segments, and bins and bands that start at one time.",
        "--dFreq has no effect on fmin=3.",
        "path 'fmin=50/sqrt_sx.txt' cannot be read: name another file.",
        "source {Alpha=1; h0=2; fmin=50}: alpha and delta are fine, and tsft too.",
        "median_bins_of_mine and points.alpha are others' names, as segmentsof is.",
        "the files cover 49 to 51 Hz, not all of fmin=49.3 to fmax=52.4 Hz.",  # with Doppler shifts and margins
        "zeros must be a number from 0 to 1, for a command that has no such option.",
        "subband, a word: here no option",
    ],
)
def test_other_words_stay(message):
    assert told(message, *SEGMENTED, "--FreqBand=1") == message


def test_the_option_is_the_one_that_was_given():
    assert told("segments must not overlap.", *SEARCH) == "--segments must not overlap."
    assert told("segments must not overlap.", *SEARCH, "--segmentList=a.txt") == "--segmentList must not overlap."
    both = [*LATTICE, "--segments=2", "--cohMaxMismatch=0.2"]
    assert told("mismatch must be larger, not 0.3: or else.", *both).startswith("--metricMismatch must")
    assert told("mismatch must be larger, not 0.2: or else.", *both).startswith("--cohMaxMismatch must")
    assert told("lower fmax.", *SEARCH) == "lower --Freq+--FreqBand."
    assert told("lower fmax.", *SIMULATE) == "lower --fmin+--Band."
    assert told("lower fmax.", "convert-sfdb", "-i", "x", "--fmin=1", "--fmax=2", "-n", "y") == "lower --fmax."
    assert told("channel='X' is unknown.", *MAKE, "--quality-channel=X") == "--quality-channel='X' is unknown."
    assert told("channel='X' is unknown.", *MAKE, "--channel-name=X") == "--channel-name='X' is unknown."


def test_what_only_python_can_do_is_not_advised():
    said = "detector 'Q1' is unknown: use one of H1, or give a jfstat.Detector."
    known = "--IFOs: detector 'Q1' is unknown: use one of H1"
    assert told(said, *SEARCH, "--IFOs=Q1") == f"{known}, or describe it by --detectorFiles."
    assert told(said, "psd", "--inputData=x", "--IFOs=Q1") == f"{known}."
    wider = "subband is 1 Hz: give a wider one, or None for the whole band."
    assert told(wider, "track", *SEGMENTED[1:], "--subband=1") == "--subband is 1 Hz: give a wider one."


def test_what_is_translated_exists():
    known = {name for command in SUBCOMMANDS for name in options_of(command)}
    parts = {part for options in ARGUMENTS.values() for option in options for part in option.split("+")}
    assert parts <= known, parts - known
    assert {option for instead in ADVICE.values() for option, _ in instead} - {""} <= known
    sources = [path.read_text("utf-8") for path in Path(jfstat.__file__).parent.rglob("*.py")]
    texts = [re.sub(r'"\s*\n\s*f?"', "", text) for text in sources if "ADVICE" not in text]
    for said in ADVICE:
        assert any(said in text for text in texts), said
