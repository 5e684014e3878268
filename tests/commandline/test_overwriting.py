"""No command writes over a file that it reads, under whatever name, and none writes two things to one file."""

import os
import shutil

import numpy as np
import pytest

import jfstat
from jfstat.commandline import SUBCOMMANDS, _parser, main
from jfstat.commandline.overwriting import BASES, DIRECTORIES, READ, WRITTEN

START = 1167458304
SIGNAL = ["--Alpha=1.1", "--Delta=0.2", "--Freq=50", "--h0=1e-24", "--cosi=0"]
PLACES = ("PATTERN", "FILE", "DIR", "SOURCES", "BASE")
"""Words of metavars of options that name files."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """SFT files and what a search, a psd and others write."""
    path = tmp_path_factory.mktemp("made")
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 6 * 1800, 49.0, 51.0, sqrt_sx=1e-23, seed=1)
    jfstat.write_sfts(sfts, path / "in")
    (path / "L1lines.txt").write_text("50.2,0,0,1,1,0.01,0.01,hum\n")
    (path / "segments.txt").write_text(f"{START} {START + 5400}\n{START + 5400} {START + 10800}\n")
    (path / "times.txt").write_text(f"{START} 0\n")
    (path / "source.dat").write_text("Alpha = 1\nDelta = 0.1\nFreq = 50\nh0 = 1e-24\ncosi = 0\n")
    (path / "grid.txt").write_text("% freq alpha delta f1dot f2dot f3dot\n50.0 1.1 0.2 0 0 0\n")
    (path / "psr.par").write_text("PSRJ J0001+0001\nRAJ 00:01:00\nDECJ 00:01:00\nF0 25.0\nF1 -1e-12\nPEPOCH 54100\n")
    (path / "files.txt").write_text(f"{path}/in/{sorted(os.listdir(path / 'in'))[0]}\n")
    words = [f"-D={path}/in/*.sft", "--Alpha=1.1", "--Delta=0.2", "--Freq=50", "--FreqBand=0.01"]
    assert main(["search", *words, f"--outputFstat={path}/found.ecsv"]) == 0
    (path / "search.ini").write_text("Freq = 50\n")
    return path


@pytest.fixture
def here(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here" / "files.txt").write_text("\n".join(f"in/{name}" for name in os.listdir("in")))
    return tmp_path / "here"


def content(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()}


def refused(line, folder, capsys):
    """The message of a command line that is refused before it changes a file."""
    before = content(folder)
    assert main(line) == 1, line
    assert content(folder) == before
    return capsys.readouterr().err


NAMES = {
    "itself": lambda path: path,
    "by a folder above": lambda path: f"in/../{path}",
    "absolute": os.path.abspath,
    "a link": lambda path: os.symlink(path, "link.ecsv") or "link.ecsv",
    "a link to a link": lambda path: os.symlink(path, "a") or os.symlink("a", "b.ecsv") or "b.ecsv",
    "a second name": lambda path: os.link(path, "second.ecsv") or "second.ecsv",
    "a folder's link": lambda path: os.symlink(".", "there") or f"there/{path}",
}
DATA = "--DataFiles=in/*.sft"
POINT = ["--Alpha=1.1", "--Delta=0.2", "--Freq=50"]
TABLES = {
    "refine": ["refine", DATA, "-c", "found.ecsv"],
    "follow-up": ["follow-up", DATA, "-c", "found.ecsv", "--stages=2,1"],
    "merge": ["merge", "found.ecsv"],
    "search": ["search", DATA, "--Freq=50", "--gridFile=found.ecsv"],
    "points": ["points", DATA, "--gridFile=found.ecsv"],
    "track": ["track", DATA, "--Freq=50", "--gridFile=found.ecsv", "--segments=2"],
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("command", TABLES)
def test_a_table_that_is_read_is_not_replaced(command, name, here, capsys):
    out = NAMES[name]("found.ecsv")
    said = refused([*TABLES[command], f"--outputFstat={out}"], here, capsys)
    assert f"--outputFstat would replace {out}, which is read too: choose another file" in said


OTHERS = {
    "candidates of a limit": (
        ["refine", DATA, "-c", "found.ecsv", "--outputFstat=L1lines.txt"],
        "--linefiles=L1lines.txt",
    ),
    "lines by detector": (["search", DATA, *POINT, "--outputFstat=L1lines.txt"], "--linefiles=L1:L1lines.txt"),
    "segments": (["search", DATA, *POINT, "--outputFstat=segments.txt"], "--segmentList=segments.txt"),
    "several lines": (
        ["search", DATA, *POINT, "--outputLoudest=L1lines.txt"],
        "--linefiles=H1:L1lines.txt,L1:L1lines.txt",
    ),
    "SFTs": (["search", DATA, *POINT, "--outputFstat=in/SFT"], None),
    "SFTs of a psd": (["psd", "-i", "in/*.sft", "--outputPSD=in/SFT"], None),
    "a picture": (["psd", "-i", "in", "--plot=in/SFT"], None),
    "a list": (["search", "--DataFiles=list:files.txt", *POINT, "--outputFstat=files.txt"], None),
    "SFTs of a list": (["search", "--DataFiles=list:files.txt", *POINT, "--outputFstat=in/SFT"], None),
    "a checkpoint": (["search", DATA, *POINT, "--checkpoint=L1lines.txt"], "--linefiles=L1lines.txt"),
    "par": (["search-pulsars", DATA, "--outputFstat=p.ecsv"], "--par=p*"),
    "pars of a folder": (["search-pulsars", DATA, "--outputFstat=./p.ecsv"], "--par=p.ecsv"),
    "options": (["search", "@search.ini", DATA, *POINT, "--outputFstat=search.ini"], None),
    "points": (["points", DATA, "--gridFile=grid.txt", "--outputFstat=grid.txt"], None),
    "atoms": (["points", DATA, "--gridFile=grid_50.dat", "--outputFstatAtoms=grid"], None),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_files_that_are_read_are_not_replaced(name, here, capsys):
    line, more = OTHERS[name]
    shutil.copy("grid.txt", "grid_50.dat")
    shutil.copy("psr.par", "p.ecsv")
    line = [word.replace("SFT", sorted(os.listdir("in"))[0]) if "SFT" in word else word for word in line]
    said = refused([*line, *([more] if more else [])], here, capsys)
    assert "which is read too: choose another file" in said or (name == "par" and "which is read too" in said)


@pytest.mark.parametrize("out", ["in", "./in", "there", "in/../in"])
def test_sft_files_that_are_read_are_not_replaced(out, here, capsys):
    os.symlink("in", "there")
    lines = {
        "simulate": ["simulate", "-D", "in/*.sft", "-n", out, *SIGNAL],
        "split": ["split-sfts", "-D", "in/*.sft", "-n", out, "-fb", "2"],
        "clean": ["clean-sfts", "-i", "in/*.sft", "-o", out, "--linefiles=L1lines.txt", "-s", "--outLabel="],
    }
    for line in lines.values():
        assert "would be replaced, which is read too: choose another directory" in refused(line, here, capsys)
    assert main([*lines["simulate"], "--outLabel=louder"]) == 0  # other names


@pytest.mark.parametrize("seed", range(4))
def test_splitting_into_the_folder_that_is_read_is_all_or_nothing(seed, here, capsys):
    """The second band's name is a file's that is read: the first is not written either."""
    rng = np.random.default_rng(seed)
    width = float(rng.integers(600, 1800)) / 1800
    first = jfstat.split_sfts("in/*.sft", "parts", width)
    shutil.rmtree("in")
    before = content(here)
    with pytest.raises(ValueError, match="would be replaced, which is read too"):
        jfstat.split_sfts("parts/*.sft", "parts", width, overlap=0.0)
    assert content(here) == before
    again = jfstat.split_sfts(
        "parts/*.sft", "parts", width / 2, description="again"
    )  # what is written matches the pattern too
    assert set(again).isdisjoint(first) and all(path.exists() for path in [*first, *again])


def test_bands_below_1_hz_do_not_replace_each_other(tmp_path):
    sfts = jfstat.simulate_sfts("H1", START, 3600, 0.0, 2.0, sqrt_sx=1e-23)
    jfstat.write_sfts(sfts, tmp_path / "in")
    with pytest.raises(ValueError, match="files of several bands would have one name"):
        jfstat.split_sfts(tmp_path / "in", tmp_path / "out", 0.25)
    assert not (tmp_path / "out").exists()
    assert len(jfstat.split_sfts(tmp_path / "in", tmp_path / "out", 1.0)) == 2


@pytest.mark.parametrize("merge", [True, False])
def test_write_sfts_keeps_its_sources(merge, tmp_path):
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 3600, 50.0, 50.1, sqrt_sx=1e-23)
    files = jfstat.write_sfts(sfts, tmp_path, merge)
    louder = jfstat.inject(sfts, [(jfstat.Doppler(1.0, 0.2, [50.05]), jfstat.Amplitude(1e-22, 0.3))])
    before = content(tmp_path)
    for sources in (files, files[-1:], files[0]):
        with pytest.raises(ValueError, match="would be replaced, which is read too"):
            jfstat.write_sfts(louder, tmp_path, merge, sources=sources)
        assert content(tmp_path) == before
    assert jfstat.write_sfts(louder, tmp_path, merge) == files  # whoever names no sources replaces what is there


def test_two_things_are_not_written_to_one_file(here, capsys):
    os.symlink("new.ecsv", "link.ecsv")
    for one, two in (("a.txt", "a.txt"), ("a.txt", "./a.txt"), ("new.ecsv", "link.ecsv"), ("in/../a", "a")):
        line = ["search", DATA, *POINT, f"--outputFstat={one}", f"--outputLoudest={two}"]
        assert "are one file" in refused(line, here, capsys)
        assert "are one file" in refused(["psd", "-i", "in", f"--outputPSD={one}", f"--plot={two}"], here, capsys)


def test_directories_that_cannot_be_made_are_refused_before_the_work(here, capsys):
    (here / "file").write_text("")
    noise = ["--IFOs=H1", f"--startTime={START}", "--duration=1800", "--fmin=50", "--Band=1", "--sqrtSX=1e-23"]
    clean = ["clean-sfts", "--sftDir=in/*.sft", "--linefiles=L1lines.txt", "--outDir=file/below"]
    for line in (["simulate", *noise, "--outSFTdir=file/below"], clean):
        said = refused(line, here, capsys)
        assert "directory 'file/below' cannot be written to (Not a directory): choose another" in said
    assert "directory 'file' cannot be written to" in refused(["simulate", *noise, "-n", "file"], here, capsys)


def test_every_option_that_names_files_is_known_to_the_check():
    known = {*READ, *WRITTEN, *DIRECTORIES, *BASES}
    for command in SUBCOMMANDS:
        for own in _parser(command)._subparsers._group_actions[0].choices[command]._actions:
            if any(word in str(own.metavar) for word in PLACES):
                assert own.dest in known, f"{command} --{own.dest}"
