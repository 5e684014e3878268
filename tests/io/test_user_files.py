"""Files of tables that are cut or damaged, and names that lead to no regular file."""

import os
import signal
import subprocess
import sys

import astropy.units as u
import numpy as np
import pytest
from astropy.table import QTable

import jfstat
from jfstat.commandline import main
from jfstat.io.candidates import HDF5_PATH
from jfstat.io.lal.times import read_segments

START = 1_167_458_304


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    columns = {"freq": rng.uniform(50, 51, 40) * u.Hz, "alpha": rng.uniform(0, 6, 40) * u.rad}
    columns |= {"delta": rng.uniform(-1, 1, 40) * u.rad, "twoF": rng.uniform(20, 30, 40)}
    return QTable(columns, meta={"version": "0.1.0", "reftime": START, "detectors": ["H1"]})


def same(table, other):
    return table.colnames == other.colnames and all(np.array_equal(table[x], other[x]) for x in table.colnames)


def test_a_table_cut_at_the_end_of_a_row_is_not_whole(found, tmp_path):
    path = jfstat.write_candidates(found, tmp_path / "found.ecsv")
    lines = path.read_text().splitlines(keepends=True)
    assert same(jfstat.read_candidates(path), found)
    for cut in (1, 14, 40):
        path.write_text("".join(lines[:-cut]))
        with pytest.raises(ValueError, match="is incomplete or damaged, by its checksum: make it again"):
            jfstat.read_candidates(path)
    path.write_text("".join(lines)[:-4] + "\n")  # within the last number
    with pytest.raises(ValueError, match="is incomplete or damaged"):
        jfstat.read_candidates(path)


def test_other_programs_may_read_and_write_the_tables(found, tmp_path):
    path = jfstat.write_candidates(found, tmp_path / "found.ecsv")
    table = QTable.read(path, format="ascii.ecsv")
    assert same(table, found) and table.meta == found.meta
    table[:7].write(tmp_path / "fewer.ecsv", format="ascii.ecsv")  # which drops the checksum
    assert same(jfstat.read_candidates(tmp_path / "fewer.ecsv"), found[:7])
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))  # as version control may do
    assert same(jfstat.read_candidates(path), found)


def test_hdf5_tables_have_a_checksum_and_others_are_read_as_they_are(found, tmp_path):
    path = jfstat.write_candidates(found, tmp_path / "found.hdf5")
    assert same(jfstat.read_candidates(path), found)
    assert same(QTable.read(path, path=HDF5_PATH, format="hdf5"), found)
    found[:7].write(tmp_path / "other.hdf5", path=HDF5_PATH, format="hdf5", serialize_meta=True)
    assert same(jfstat.read_candidates(tmp_path / "other.hdf5"), found[:7])
    whole = path.read_bytes()
    for content in (whole[:-1], whole[:700], whole[:9] + b"x" + whole[10:], b"x" + whole[1:], whole[:100]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"is incomplete or damaged|is not a \.hdf5 file of candidates"):
            jfstat.read_candidates(path)


@pytest.mark.parametrize("suffix", [".ecsv", ".hdf5"])
def test_no_damaged_table_is_taken(found, tmp_path, suffix):
    """Every kind of damage at random places: it is refused by one sentence, or the table is the same."""
    path = jfstat.write_candidates(found, tmp_path / f"found{suffix}")
    whole, rng = np.frombuffer(path.read_bytes(), np.uint8), np.random.default_rng(1)
    refused = 0
    for _ in range(300):
        content, place = whole.copy(), int(rng.integers(len(whole)))
        match int(rng.integers(4)):
            case 0:
                content[place] ^= 1 << rng.integers(8)
            case 1:
                content = content[:place]
            case 2:
                content = np.delete(content, slice(place, place + int(rng.integers(1, 100))))
            case _:
                content[place : place + 64] = rng.integers(0, 256, len(content[place : place + 64]))
        path.write_bytes(content.tobytes())
        try:
            assert same(jfstat.read_candidates(path), found)
        except ValueError as error:
            refused += 1
            assert "\n" not in str(error) and str(error).startswith("path ")
    assert refused > 250


class Hung(BaseException):
    pass


@pytest.fixture
def soon():
    """A call that does not end within seconds is interrupted."""

    def interrupt(*_):
        raise Hung

    usual = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, usual)


@pytest.mark.parametrize("kind", ["named pipe", "device"])
def test_what_is_no_regular_file_is_never_waited_for(tmp_path, soon, kind, capsys):
    def name(suffix):
        path = tmp_path / f"H1file{suffix}"
        if kind == "named pipe":
            os.mkfifo(path)
        else:
            path.symlink_to("/dev/zero")
        return path

    folder = tmp_path / "folder"
    folder.mkdir()
    if kind == "named pipe":
        os.mkfifo(folder / "x.sft")
    else:
        (folder / "x.sft").symlink_to("/dev/zero")
    sft, text = name(".sft"), name(".txt")
    for call in (
        lambda: jfstat.read_sfts(sft),
        lambda: jfstat.read_sfts(f"{tmp_path}/*.sft"),
        lambda: jfstat.read_sfts(folder),
        lambda: jfstat.read_sfts(f"list:{text}"),
        lambda: jfstat.validate_sfts(sft),
        lambda: jfstat.read_candidates(name(".ecsv")),
        lambda: read_segments(text),
        lambda: jfstat.read_candidates(name(".hdf5")),
        lambda: jfstat.read_candidates(text),
        lambda: jfstat.read_templates(text),
        lambda: jfstat.read_lines(text),
        lambda: jfstat.read_par(text),
        lambda: jfstat.read_pulsars(name(".csv")),
        lambda: jfstat.Detector.read(text, "X1"),
        lambda: jfstat.simulate_sfts("H1", START, 3600, 99, 101, signals=SIGNALS, ephemeris=(text, text)),
    ):
        with pytest.raises((OSError, ValueError), match=f"{kind}|does not exist") as error:
            call()
        assert "\n" not in str(error.value)
    assert main(["search", f"@{text}"]) == 1
    assert kind in capsys.readouterr().err


SIGNALS = [(jfstat.Doppler(1.0, 0.3, [100.0]), jfstat.Amplitude(1e-24, 0.3))]


def test_the_program_does_not_wait_for_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "x.sft")
    done = subprocess.run(
        [sys.executable, "-m", "jfstat", "validate-sfts", str(tmp_path / "x.sft")],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 1
    assert "it is a named pipe, not a regular file" in done.stdout + done.stderr
