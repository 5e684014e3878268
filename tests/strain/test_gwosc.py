"""HDF5 files of GWOSC: what contradicts itself, is missing, or lies in other files is refused."""

import os
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from strain_files import write_gwosc

import jfstat
from jfstat.strain.hdf5 import _worker

START, RATE, SECONDS = 1_256_655_616, 64, 64
DQ, DQ_NAMES = "quality/simple/DQmask", "quality/simple/DQShortnames"
INJ, INJ_NAMES = "quality/injections/Injmask", "quality/injections/InjShortnames"


@pytest.fixture
def path(tmp_path):
    x = np.random.default_rng(0).standard_normal(SECONDS * RATE)
    return write_gwosc(tmp_path / "a.hdf5", "H1", START, x, RATE)


def put(path, name, value):
    """Replace a dataset, or take it out."""
    with h5py.File(path, "r+") as file:
        del file[name]
        if value is not None:
            file[name] = value


def refused(path, *texts, seconds=30):
    began = time.perf_counter()
    with pytest.raises(ValueError, match="cannot be used") as error:
        jfstat.sfts_from_frames(path, tsft=16)
    assert time.perf_counter() - began < seconds
    for text in (str(path), *texts):
        assert text in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("fraction", [0.7, 0.5, 1e-3, -0.25, np.nan, np.inf, 2.0**60])
@pytest.mark.parametrize("name", ["meta/GPSstart", "meta/Duration"])
def test_times_are_whole_seconds(name, fraction, path):
    put(path, name, (START if name == "meta/GPSstart" else SECONDS) + fraction)
    refused(path, name, "not a whole number of seconds")


def test_whole_seconds_may_be_floats(path):
    expected = jfstat.sfts_from_frames(path, tsft=16)["H1"]
    put(path, "meta/GPSstart", float(START))
    put(path, "meta/Duration", [float(SECONDS)])
    found = jfstat.sfts_from_frames(path, tsft=16)["H1"]
    assert found.gps.tolist() == expected.gps.tolist()
    np.testing.assert_array_equal(found.data, expected.data)


@pytest.mark.parametrize(
    ("name", "attribute", "value"),
    [
        ("strain/Strain", "Xstart", START + 1),
        ("strain/Strain", "Xstart", START + 0.7),
        ("strain/Strain", "Xstart", "early"),
        ("strain/Strain", "Npoints", 3),
        (DQ, "Xstart", START - 60),
        (DQ, "Xspacing", 2.0),
        (INJ, "Xspacing", 0.5),
        (INJ, "Npoints", 65),
    ],
)
def test_what_is_stated_twice_must_agree(name, attribute, value, path):
    with h5py.File(path, "r+") as file:
        file[name].attrs[attribute] = value
    refused(path, attribute, name)


@pytest.mark.parametrize("attribute", ["Xstart", "Npoints"])
def test_what_is_stated_once_need_not_be_stated_twice(attribute, path):
    with h5py.File(path, "r+") as file:
        del file["strain/Strain"].attrs[attribute]
    assert len(jfstat.sfts_from_frames(path, tsft=16)) == 4


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        (DQ, (f"lacks {DQ},",)),
        (DQ_NAMES, (f"lacks {DQ_NAMES},",)),
        (INJ, (f"lacks {INJ},",)),
        (INJ_NAMES, (f"lacks {INJ_NAMES},",)),
        ("quality/simple", ("no bit DATA", "ask for")),
        ("quality", ("no bit DATA", "ask for")),
    ],
)
def test_masks_and_their_names_come_together(name, texts, path):
    put(path, name, None)
    refused(path, *texts)


def test_all_is_good_where_no_bits_are_asked_for(path):
    put(path, "quality", None)
    assert len(jfstat.sfts_from_frames(path, tsft=16, quality=jfstat.DataQuality([]))) == 4


@pytest.mark.parametrize("kind", ["f8", "f4", "S3", "?"])
def test_masks_are_whole_numbers(kind, path):
    for name in (DQ, INJ):
        with h5py.File(path, "r+") as file:
            usual = file[name][()]
            del file[name]
            file[name] = (usual + 0.5).astype(kind) if kind.startswith("f") else usual.astype(kind)
        refused(path, name, "no whole numbers")
        put(path, name, usual)
    assert len(jfstat.sfts_from_frames(path, tsft=16)) == 4


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([b"DATA", b"DATA"], "two bits that are named 'DATA'"),
        ([b"DATA", b"NO_CW_HW_INJ"], "two bits that are named 'NO_CW_HW_INJ'"),
        ([b"DATA", b"CBC\xff"], "neither numbers nor text"),
        ([1, 2], "not names of bits"),
        ([f"BIT{k}".encode() for k in range(64)], "64 bits"),
        (np.array([], "S3"), "not names of bits"),
    ],
)
def test_names_of_bits_make_sense(names, text, path):
    put(path, DQ_NAMES, names)
    refused(path, text)


def absurd(path, seconds, rate, **options):
    """A file that states a length, and holds no values."""
    with h5py.File(path, "r+") as file:
        for name, n, kind in (("strain/Strain", seconds * rate, "f8"), (DQ, seconds, "u4"), (INJ, seconds, "u4")):
            del file[name]
            file.create_dataset(name, shape=(n,), dtype=kind, fillvalue=127, **options)
        file["strain/Strain"].attrs["Xspacing"] = 1 / rate
        file["strain/Strain"].attrs["Xstart"] = START
    put(path, "meta/Duration", seconds)


@pytest.mark.parametrize("options", [{}, {"chunks": (4096,)}, {"chunks": (4096,), "compression": "gzip"}])
@pytest.mark.parametrize(("seconds", "rate"), [(2**33, 1), (2**33, 4096), (40_000_000, 64), (40_000_000, 1)])
def test_lengths_that_no_file_can_hold_are_refused_at_once(seconds, rate, options, path):
    if seconds * rate * 8 > 2**32 and not options:
        options = {"chunks": (1 << 20,)}
    absurd(path, seconds, rate, **options)
    refused(path, "stored bytes")


@pytest.mark.parametrize("start", [-5, 0, 2**31 - 30, 2**40])
def test_times_that_no_detector_ran_at_are_refused(start, path):
    put(path, "meta/GPSstart", start)
    with h5py.File(path, "r+") as file:
        file["strain/Strain"].attrs["Xstart"] = start
    refused(path, "no detector ran")


def external_values(file, other):
    other.write_bytes(np.zeros(SECONDS * RATE).tobytes())
    del file["strain/Strain"]
    file.create_dataset("strain/Strain", (SECONDS * RATE,), "f8", external=[(str(other), 0, 8 * SECONDS * RATE)])


def external_link(file, other):
    del file["strain/Strain"]
    file["strain/Strain"] = h5py.ExternalLink(str(other), "strain/Strain")


def external_group(file, other):
    del file["strain"]
    file["strain"] = h5py.ExternalLink(str(other), "strain")


def soft_link(file, other):
    file["elsewhere"] = h5py.ExternalLink(str(other), "strain/Strain")
    del file["strain/Strain"]
    file["strain/Strain"] = h5py.SoftLink("/elsewhere")


def virtual(file, other):
    layout = h5py.VirtualLayout((SECONDS * RATE,), "f8")
    layout[:] = h5py.VirtualSource(str(other), "strain/Strain", (SECONDS * RATE,))
    del file["strain/Strain"]
    file.create_virtual_dataset("strain/Strain", layout)


@pytest.mark.parametrize("change", [external_values, external_link, external_group, soft_link, virtual])
def test_values_in_other_files_are_refused(change, path, tmp_path):
    other = write_gwosc(tmp_path / "b.h5", "H1", START, np.ones(SECONDS * RATE), RATE)
    with h5py.File(path, "r+") as file:
        change(file, other)
        if "strain" in file and isinstance(file.get("strain", getlink=True), h5py.HardLink):
            strain = file.get("strain/Strain", getlink=True)
            if isinstance(strain, h5py.HardLink):
                file["strain/Strain"].attrs["Xspacing"] = 1 / RATE
    refused(path, "other file")


def test_a_process_that_died_is_followed_by_another(path):
    worker = _worker(os.getpid())
    expected = jfstat.sfts_from_frames(path, tsft=16)["H1"].data
    for _ in range(3):
        assert worker.process is not None
        worker.process.kill()
        worker.process.wait()
        np.testing.assert_array_equal(jfstat.sfts_from_frames(path, tsft=16)["H1"].data, expected)


def test_the_reading_process_needs_a_python_that_answers(path, monkeypatch):
    """A program that has Python built in, a missing one, and ones that print or echo."""
    for program in ("/nowhere/python", "", None, sys.executable):
        _worker.cache_clear()
        monkeypatch.setattr(sys, "executable", program)
        if program == sys.executable and program:
            monkeypatch.setattr(sys, "path", [*sys.path, Path("/tmp")])
        try:
            jfstat.sfts_from_frames(path, tsft=16)
        except ValueError as error:
            assert "HDF5 files cannot be read here" in str(error) and "\n" not in str(error)
    _worker.cache_clear()
    monkeypatch.setattr(sys, "executable", "/bin/true")
    with pytest.raises(ValueError, match=r"'/bin/true' does not answer: .* set sys.executable"):
        jfstat.sfts_from_frames(path, tsft=16)
    _worker.cache_clear()


def test_what_is_printed_when_python_starts_is_no_reply(path, tmp_path, monkeypatch):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("print('a banner')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    _worker.cache_clear()
    assert len(jfstat.sfts_from_frames(path, tsft=16)["H1"].data)
    _worker.cache_clear()
