"""Each option of the searching commands, in a small run: another table, file or message than without it."""

import re

import numpy as np
import pytest
from test_every_option import TIMES
from test_options import ORBIT, PLANS, POINT, SEGMENTS, START, USUAL, options_of

import jfstat
from jfstat.commandline import main

PAR = "PSRJ J0001+0001\nRAJ 00:01:00\nDECJ 00:01:00\nF0 25.0\nF1 -1e-12\nPEPOCH 57754\nDM 3\n"
VALUES = {
    **dict(ephemeris="DE200", IFOs="L1", assumeSqrtSX=2e-23, refTime=START + 5000, guard=0.9, TwoFthreshold=1e5),
    **dict(f1dot=1e-9, f2dot=1e-14, f3dot=1e-18, f1dotBand="5e-9", f2dotBand="3e-13", f3dotBand="3e-17"),
    **dict(Freq=50.003, Alpha=1.15, Delta=0.25, dFreq=3e-6, NumCandidatesToKeep=1, par="b.par", harmonic=2.001),
    **dict(logLikelihoodThreshold=1e9, BSGLthreshold=-1e9, Fstar0=1e4, minStartTime=START + 3600),
}
"""Values that differ from usual ones, where those of the tests of reading do not."""
TOGETHER = {
    **{f"d{spin}": ("1e-10", [f"--{spin}Band=1e-9"]) for spin in ("f1dot",)},
    "df2dot": ("1e-15", ["--f2dotBand=1e-14"]),
    "df3dot": ("1e-19", ["--f3dotBand=1e-18"]),
    "gridType": ("1", ["--AlphaBand=0.2", "--DeltaBand=0.2", "--dAlpha=0.08", "--dDelta=0.1"]),
    "dFreq": ("3e-6", ["--FreqBand=0.0003"]),
    "orbitTpBand": ("4000", [*ORBIT, "--dorbitTp=1000"]),
    "transient-t0Epoch": (f"{START + 3600}", ["--transient-WindowType=rect", "--transient-tau=3600"]),
    "outputGrid": ("OUT/g.txt", []),
    "segmentDuration": ("7200", []),
    "segmentList": ("parts.txt", []),
    "metricMismatch": ("0.1", ["--f1dotBand=1e-9"]),
    "strictSpindownBounds": ("", ["--f1dotBand=1e-9", "--metricMismatch=0.001", "--f1dot=-1e-9"]),
    "BSGLthreshold": ("-1e9", ["--RankingStatistic=BSGL"]),
    "oLGX": ("0.3,0.2", []),
    "transient-dt0": ("900", ["--transient-WindowType=rect", "--transient-tau=3600", "--transient-t0Band=3600"]),
    "transient-dtau": ("900", ["--transient-WindowType=rect", "--transient-tau=3600", "--transient-tauBand=3600"]),
}
SAME = {
    "engine": "xla is what searches on CPUs use",
    "devices": "one device is what there is",
    "batchSize": "tables do not depend on the batches",
}
"""Options that change how, not what, is computed."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("searches")
    signals = [(jfstat.Doppler(1.1, 0.2, [50.0031], START), jfstat.Amplitude(2e-23, 0.3))]
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 12 * 1800, 49, 51, sqrt_sx=1e-23, seed=1, signals=signals)
    jfstat.write_sfts(sfts, path)
    (path / "a.par").write_text(PAR)
    (path / "b.par").write_text(PAR.replace("25.0", "25.001"))
    (path / "sky.txt").write_text("1.1 0.2\n1.3 0.2\n")
    (path / "grid.txt").write_text("% freq alpha delta f1dot f2dot f3dot\n50.0 1.1 0.2 0 0 0\n")
    (path / "L1lines.txt").write_text("50.0,0,0,1,1,0.0051,0.0051,hum\n")
    (path / "parts.txt").write_text(f"{START} {START + 7200}\n{START + 7200} {START + 21600}\n")
    (path / "segments.txt").write_text(f"{START} {START + 10800}\n{START + 10800} {START + 21600}\n")
    return path


def command_lines(command, name, folder, out):
    """A command line in which an option makes sense, without and with it."""
    value = PLANS[command][name]
    value, others = value if isinstance(value, tuple) else (value, [])
    if name in TOGETHER:
        value, others = TOGETHER[name]
    value = VALUES.get(name, value) if name not in TOGETHER else value
    usual = USUAL.get(command, ["--par=a.par"])
    if others is None or (name == "gridFile" and command != "points"):
        usual = [word for word in usual if word not in POINT and (others is not None or word != "--Freq=50")]
    usual = [*usual, *(["--FreqBand=0.005"] if command in ("search", "track") else [])]
    if command == "track" and re.fullmatch("f[123]dotBand", name):
        others = [f"--d{name[:5]}={float(value) / 4:g}"]
    if command == "track" and name == "NumCandidatesToKeep":
        others = ["--AlphaBand=0.1", "--dAlpha=0.1"]
    if command == "search-pulsars" and name == "NumCandidatesToKeep":
        value = 3
    if command == "points" and name in ("NumCandidatesToKeep", "TwoFthreshold"):
        others = ["--FreqBand=0.0003"]
    line = ["--DataFiles=*.sft", *usual, *(others or ())]
    line += [] if name == "outputGrid" else ["--outputFstat=OUT/a.ecsv"]
    words = {word.partition("=")[0]: word for word in line}
    if name in SEGMENTS and command != "track":
        words.pop("--segments", None)
    if name == "skyRegion":
        words = {key: word for key, word in words.items() if word not in POINT}
    without = [word for key, word in words.items() if key != f"--{name}"]
    if name in SEGMENTS and command == "track":
        words.pop("--segments", None)
    words[f"--{name}"] = f"--{name}" if value == "" else f"--{name}={value}"
    return [[word.replace("OUT", str(out)) for word in line] for line in (without, words.values())]


def outcome(command, line, out, capsys):
    """Exit status, what is printed, and tables and files, without what repeats the command line."""
    out.mkdir()
    status = main([command, *line])
    said = capsys.readouterr()
    files = {}
    for path in sorted(out.rglob("*")):
        if path.suffix == ".ecsv":
            table = jfstat.read_candidates(path) if path.name in ("a.ecsv", "u.ecsv") else path.read_text()
            files[path.name] = (
                table if isinstance(table, str) else (table.colnames, np.array(table.as_array()).tobytes())
            )
        elif path.is_file():
            files[path.name] = b"".join(x for x in path.read_bytes().splitlines() if not x.startswith(b"%"))
    return status, TIMES.sub("", said.out).replace(str(out), ""), TIMES.sub("", said.err if status else ""), files


KNOWN = {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "name"),
    [(command, name) for command in PLANS for name in options_of(command) if PLANS[command][name] is not None],
)
def test_every_option_of_a_search_makes_a_difference(command, name, folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    out = tmp_path / "out"
    before, after = command_lines(command, name, folder, out)
    key = command, *(word.replace(str(out), "") for word in before)
    if key not in KNOWN:
        KNOWN[key] = outcome(command, before, out, capsys)
        if out.exists():
            out.rename(tmp_path / "before")
    first, second = KNOWN[key], outcome(command, after, out, capsys)
    assert second[0] == 0, (second[2], after)
    if name in SAME:  # what is printed may name the batches, and values may be rounded in another order
        assert first[3].keys() == second[3].keys()
        for (names, one), (others, other) in zip(first[3].values(), second[3].values(), strict=True):
            assert names == others
            np.testing.assert_allclose(np.frombuffer(one), np.frombuffer(other), rtol=1e-4)
    else:
        assert first != second, (before, after)
