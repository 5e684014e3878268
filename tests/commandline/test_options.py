"""Every option has an effect: one that is given and not read is refused before anything is written."""

import numpy as np
import pytest

import jfstat
from jfstat.commandline import SUBCOMMANDS, _parser, main
from jfstat.commandline.arguments import Arguments
from jfstat.commandline.parser import UsageError
from jfstat.commandline.words import bands, count, natural

START = 1167458304
PAR = "PSRJ J0001+0001\nRAJ 00:01:00\nDECJ 00:01:00\nF0 25.0\nF1 -1e-12\nPEPOCH 54100\nDM 3\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """SFT files, a pulsar, points, sky positions, lines, segments and a detector."""
    path = tmp_path_factory.mktemp("options")
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 12 * 1800, 49.0, 51.0, sqrt_sx=1e-23, seed=1)
    jfstat.write_sfts(sfts, path)
    (path / "a.par").write_text(PAR)
    (path / "sky.txt").write_text("1.1 0.2\n1.3 0.2\n")
    (path / "grid.txt").write_text("% freq alpha delta f1dot f2dot f3dot\n50.0 1.1 0.2 0 0 0\n")
    (path / "L1lines.txt").write_text("50.2,0,0,1,1,0.01,0.01,hum\n")
    (path / "segments.txt").write_text(f"{START} {START + 10800}\n{START + 10800} {START + 21600}\n")
    return path


POINT = ["--Alpha=1.1", "--Delta=0.2"]
LATTICE = ["--metricMismatch=0.3", "--f1dotBand=1e-9"]
SEGMENTED = ["--segments=2"]
WINDOW = ["--transient-WindowType=rect", "--transient-tau=3600"]
AMPLITUDE = ["--h0=1e-24", "--cosi=0"]
ORBIT = ["--orbitasini=0.01", "--orbitPeriod=20000", f"--orbitTp={START}"]
BRAKING = ["--spindownAge=3e10", "--minBraking=2", "--maxBraking=7", "--metricMismatch=0.5"]
DATA = {"IFOs": "H1", "detectorFiles": None, "minStartTime": START, "maxStartTime": START + 10800}
PREPARED = {"assumeSqrtSX": 1e-23, "RngMedWindow": 51, "offSourceBins": 10, "guard": 0.5, "ephemeris": "DE405"}
PREPARED |= {"ephemEarth": None, "ephemSun": None}
"""None: an option that is tested with others, below."""
BANK = {"Freq": 50, "FreqBand": 0.01, "dFreq": ("1e-5", ["--FreqBand=0.001"]), "refTime": START}
GRID = {"Alpha": 1.1, "AlphaBand": ("0.1", ["--dAlpha=0.1"]), "dAlpha": ("0.1", ["--AlphaBand=0.1"])}
GRID |= {"Delta": 0.2, "DeltaBand": ("0.1", ["--dDelta=0.1"]), "dDelta": ("0.1", ["--DeltaBand=0.1"])}
for spin in ("f1dot", "f2dot", "f3dot"):
    GRID |= {spin: 1e-20, f"{spin}Band": 1e-20, f"d{spin}": ("1e-20", [f"--{spin}Band=1e-20"])}
for name in ("orbitasini", "orbitPeriod", "orbitTp", "orbitEcc", "orbitArgp"):
    value = {"orbitasini": 0.01, "orbitPeriod": 20000, "orbitTp": START, "orbitEcc": 0.1, "orbitArgp": 1}[name]
    rest = [word for word in ORBIT if not word.startswith(f"--{name}=")]
    GRID |= {name: (str(value), rest), f"{name}Band": ("0.01", [*ORBIT, f"--d{name}=0.01"])}
    GRID |= {f"d{name}": ("0.01", [*ORBIT, f"--{name}Band=0.01"])}
REGION = {
    "skyRegion": ("allsky", LATTICE),
    "skyRadius": ("0.1", [*POINT, *LATTICE]),
    "metricMismatch": ("0.3", [*POINT, "--f1dotBand=1e-9"]),
}
REGION |= {"strictSpindownBounds": ("", [*POINT, *LATTICE]), "gridFile": ("sky.txt", ["--gridType=3"])}
REGION |= {"gridType": 0, "spindownAge": ("3e10", BRAKING[1:]), "minBraking": ("2", [BRAKING[0], *BRAKING[2:]])}
REGION |= {"maxBraking": ("7", [*BRAKING[:2], BRAKING[3]])}
WINDOWS = {"transient-WindowType": ("rect", WINDOW[1:]), "transient-tau": ("3600", WINDOW[:1])}
WINDOWS |= {f"transient-{name}": ("1800", WINDOW) for name in ("t0Offset", "t0Band", "dt0", "tauBand", "dtau")}
WINDOWS |= {"transient-t0Epoch": (str(START), WINDOW), "outputTransientStats": ("OUT/stats.txt", WINDOW)}
WINDOWS |= {"outputTransientStatsAll": ("OUT/all.txt", WINDOW)}
OUT = {"outputFstat": "OUT/a.ecsv", "TwoFthreshold": 30, "NumCandidatesToKeep": 3, "Fstar0": 2, "oLGX": "0.1,0.1"}
WORK = {"countTemplates": "", "checkpoint": "OUT/c", "unit": ("1/2", ["--outputFstat=OUT/u.ecsv"]), "batchSize": 2}
WORK |= {"devices": 1} | dict.fromkeys(("distributed", "coordinator", "numProcesses", "processId"))
SEGMENTS = {"segments": 2, "segmentDuration": 10800, "segmentList": "segments.txt"}
SEARCH = {**DATA, **PREPARED, **SEGMENTS, **BANK, **GRID, **REGION, **WINDOWS, **OUT, **WORK}
SEARCH |= {"DataFiles": "*.sft", "cohMaxMismatch": ("0.3", SEGMENTED), "outputLoudest": "OUT/l.txt", "cluster": 1}
SEARCH |= {"RankingStatistic": "BSGL", "BSGLthreshold": 1, "linefiles": "L1lines.txt", "lineVeto": "", "noDetails": ""}
BACKGROUND = {"backgroundPositions": 10, "outputBackground": ("OUT/b.ecsv", ["--backgroundPositions=10"])}
SEARCH |= BACKGROUND | {"outputGrid": "OUT/g.txt", "vetoLines": ("", ["--linefiles=L1lines.txt"]), "engine": "xla"}
TRACK = {name: x for name, x in SEARCH.items() if name not in (*WINDOWS, "outputGrid")} | {
    "h0": ("1e-24", ["--cosi=0.1"])
}
TRACK |= {"cosi": ("0.1", ["--h0=1e-24"]), "psi": ("0.1", ["--h0=1e-24", "--cosi=0.1"]), "maxJump": 2, "subband": 0.005}
TRACK |= {"jumpProbabilities": "0.2,0.6,0.2", "outputTrack": "OUT/t.ecsv", "logLikelihoodThreshold": 3}
POWER = {name: TRACK[name] for name in (*DATA, *PREPARED, *BANK, *GRID, *REGION, *WORK) if name != "guard"}
POWER |= {"DataFiles": "*.sft", "dFreq": ("0.00027777777777777778", ["--FreqBand=0.01"]), "bins": 2}
POWER |= {"outputFstat": "OUT/a.ecsv", "NumCandidatesToKeep": 3, "criticalRatioThreshold": 5, "noDetails": ""}
POWER |= BACKGROUND | {"linefiles": "L1lines.txt", "vetoLines": ("", ["--linefiles=L1lines.txt"])}
POINTS = {
    **DATA,
    **PREPARED,
    **SEGMENTS,
    **BANK,
    **GRID,
    **WINDOWS,
    **OUT,
    "DataFiles": "*.sft",
    "gridFile": ("grid.txt", None),
}
POINTS |= {"outputFstatAtoms": "OUT/atoms", "outputGrid": "OUT/g.txt", "countTemplates": ""}
PULSARS = {**DATA, **PREPARED, **OUT, "DataFiles": "*.sft", "par": "a.par", "harmonic": 2.0, "refTime": START}
PULSARS |= {"FreqBand": 1e-3, "f1dotBand": ("1e-12", ["--FreqBand=1e-3"])}
PULSARS |= {"NumCandidatesToKeep": ("2", ["--FreqBand=1e-3"])}
PLANS = {"search": SEARCH, "track": TRACK, "track-power": POWER, "points": POINTS, "search-pulsars": PULSARS}
USUAL = {"search": ["--Freq=50", *POINT], "track": ["--Freq=50", *POINT, *SEGMENTED], "points": ["--Freq=50", *POINT]}
USUAL["track-power"] = ["--Freq=50", *POINT]


def actions_of(command):
    """A command's options and files."""
    return [x for x in _parser(command)._subparsers._group_actions[0].choices[command]._actions if x.dest != "help"]


def options_of(command):
    """Names of a command's options, as they are spelled."""
    return [max(x.option_strings, key=len)[2:] for x in actions_of(command) if x.option_strings]


@pytest.mark.parametrize(("command", "name"), [(command, name) for command in PLANS for name in options_of(command)])
def test_every_option_of_a_search_has_an_effect(command, name, folder, tmp_path, monkeypatch):
    """It is read before the work begins, in a command line in which it makes sense."""
    monkeypatch.chdir(folder)
    value = PLANS[command][name]
    if value is None:
        pytest.skip("tested with others")
    value, others = value if isinstance(value, tuple) else (value, [])
    usual = USUAL.get(command, ["--par=a.par"])
    if others is None or (name == "gridFile" and command != "points"):
        usual = [word for word in usual if word not in POINT and (others is not None or word != "--Freq=50")]
    words = {word.partition("=")[0]: word for word in ("--DataFiles=*.sft", *usual, *(others or ()))}
    if name in SEGMENTS:
        words.pop("--segments", None)
    if name == "skyRegion":
        words = {key: word for key, word in words.items() if word not in POINT}
    words[f"--{name}"] = f"--{name}" if value == "" else f"--{name}={value}"
    line = [word.replace("OUT", str(tmp_path)) for word in words.values()]
    arguments = _parser(command).arguments([command, *line])
    assert arguments.is_given(name.replace("-", "_"))
    arguments.plan(arguments)
    arguments.seal()
    assert not list(tmp_path.iterdir())


def test_the_options_that_go_together_have_an_effect(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    mine = tmp_path / "z.ifo"
    mine.write_text("latitude = 46\nlongitude = -119\nelevation = 142\nxarm_azimuth = 126\nyarm_azimuth = 216\n")
    own = jfstat.Detector.read(mine, "Z1")
    sfts = jfstat.simulate_sfts([own], START, 7200, 49.0, 51.0, sqrt_sx=1e-23)
    jfstat.write_sfts(sfts, tmp_path / "own")
    files = f"--DataFiles={tmp_path}/own/*.sft"
    for command in PLANS:
        line = [files, f"--detectorFiles=Z1={mine}", *USUAL.get(command, ["--par=a.par"])]
        line = [word.replace("segments=2", "segmentDuration=3600") for word in line]
        arguments = _parser(command).arguments([command, *line])
        arguments.plan(arguments)
        arguments.seal()
    assert main(["split-sfts", files, f"--detectorFiles=Z1={mine}", "-fb", "1", "-n", str(tmp_path / "split")]) == 0
    assert len(list((tmp_path / "split").glob("Z-*.sft"))) == 2
    line = ["split-sfts", "--DataFiles=*.sft", f"--detectorFiles=H1={mine}", "-fb", "1", "-n", str(tmp_path / "other")]
    assert main(line) == 1 and "a Detector H1, whose place splitting does not need" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


IGNORED = {
    "simulate seed": ["simulate", "--noiseSFTs=*.sft", "--randSeed=3", "--Freq=50", *POINT, *AMPLITUDE],
    "simulate Tsft": ["simulate", "--noiseSFTs=*.sft", "--Tsft=900", "--Freq=50", *POINT, *AMPLITUDE],
    "simulate window": ["simulate", "--noiseSFTs=*.sft", "--SFTWindowType=hann", "--Freq=50", *POINT, *AMPLITUDE],
    "odds of one detector": ["search", "--DataFiles=*.sft", "--IFOs=H1", "--Freq=50", *POINT, "--Fstar0=3"],
    "odds without details": ["search", "--DataFiles=*.sft", "--Freq=50", *POINT, "--Fstar0=3", "--noDetails"],
    "gates without a threshold": ["make-sfts", "--frame-files=x.hdf5", "-f", "7", "--gate-tpad=1"],
    "operation on one bin": ["psd", "-i", "*.sft", "--PSDmthopBins=min"],
}


@pytest.mark.parametrize("name", IGNORED)
def test_options_without_an_effect_are_refused_before_anything_is_written(name, folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    if name.startswith("gates"):
        strain = pytest.importorskip("h5py")
        with strain.File(folder / "x.hdf5", "w"):
            pass
    line = IGNORED[name]
    out = {"simulate": "--outSFTdir", "search": "--outputFstat", "make-sfts": "-p", "psd": "-o"}[line[0]]
    assert (
        main(
            [
                *line,
                f"{out}={tmp_path}/x" if out.startswith("--") else out,
                *([] if out.startswith("--") else [f"{tmp_path}/x"]),
            ]
        )
        == 1
    )
    said = capsys.readouterr().err
    assert "has no effect beside the other options" in said or "leave " in said or name.startswith("gates")
    assert not list(tmp_path.iterdir())


def test_an_option_that_is_read_too_late_is_a_mistake_of_the_program():
    arguments = Arguments({"a": 1, "b": None}, {"a": "--a"})
    with pytest.raises(ValueError, match=r"^--a has no effect beside the other options: leave it out"):
        arguments.seal()
    arguments = Arguments({"a": 1, "b": None}, {"a": "--a"})
    assert arguments.a == 1 and arguments.first_given("b", "a") == "--a" and not arguments.is_given("b")
    arguments.seal()
    with pytest.raises(RuntimeError, match="the option b is first read after the work began"):
        _ = arguments.b
    with pytest.raises(AttributeError):
        _ = arguments.c


ACTIONS = [(command, own) for command in SUBCOMMANDS for own in actions_of(command) if own.option_strings]
WHOLE = [(command, own) for command, own in ACTIONS if own.type in (count, natural)]


@pytest.mark.parametrize(("command", "own"), WHOLE, ids=[f"{x} {own.option_strings[0]}" for x, own in WHOLE])
def test_negative_numbers_of_bins_and_other_things_are_refused(command, own):
    assert own.type is not int
    for word in ("-1", "-101", "1.5", "x", *(["0"] if own.type is count else [])):
        with pytest.raises(UsageError, match=f"{own.option_strings[0]}.*'{word}' is not a whole number"):
            _parser(command).arguments([command, f"{own.option_strings[0]}={word}"])


def test_no_option_takes_whole_numbers_of_either_sign():
    assert not [f"{command} {own.dest}" for command, own in ACTIONS if own.type is int]
    assert {"RngMedWindow", "offSourceBins", "maxBins", "window", "binSize", "Nmax"} <= {x.dest for _, x in WHOLE}


@pytest.mark.parametrize("size", ["-1", "0", "1e-9", "-1e-3"])
def test_bins_of_less_than_a_bin_are_refused(size, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert main(["psd", "-i", "*.sft", f"--binSizeHz={size}"]) == 1
    assert f"--binSizeHz={float(size):g} is less than a bin of" in capsys.readouterr().err


USUAL_VALUES = [(x, own) for x, own in ACTIONS if own.default not in (None, False, "", []) and not own.required]


@pytest.mark.parametrize(("command", "own"), USUAL_VALUES, ids=[f"{x} {own.dest}" for x, own in USUAL_VALUES])
def test_an_option_with_its_usual_value_is_given_too(command, own):
    """Python has one object for a small number or a letter, so that it cannot be told whether it is the default."""
    others = [f"{x.option_strings[0]}=1" for x in actions_of(command) if x.required and x.option_strings]
    spelled = f"{own.option_strings[0]}={own.default}"
    groups = _parser(command)._subparsers._group_actions[0].choices[command]._mutually_exclusive_groups
    others += [f"{group._group_actions[0].option_strings[0]}=1" for group in groups if group.required]
    given = _parser(command).arguments([command, *others, spelled])
    assert given.is_given(own.dest) or (len(str(own.default)) == 1 and isinstance(own.default, str))
    assert not _parser(command).arguments([command, *others]).is_given(own.dest)


def test_defaults_in_the_help_are_the_librarys():
    usual = jfstat.Gating()
    assert np.array_equal(usual.bands, bands("25-50,70-110")) and (usual.tzero, usual.tpad) == (1.0, 0.5)
    assert jfstat.Fit().mismatch == 1 and (jfstat.Stages().veto, jfstat.Stages().false_alarm) == (1e-3, 1e-3)
    assert jfstat.Noise().median_bins == 101 and jfstat.PulsarBand().harmonic == 2
    assert set(PLANS) < set(SUBCOMMANDS)
