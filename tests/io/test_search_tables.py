"""Tables of candidates on disk: what is written reads back the same, and files of ComputeFstatistic_v2 read too."""

import os

import numpy as np
import pytest
from astropy import units as u
from astropy.table import QTable

import jfstat
from jfstat.candidates.tables import in_units
from jfstat.io.candidates import read_candidates, write_candidates
from jfstat.signal.values import columns

META = {
    "reftime": 1167458304,
    "detectors": ["H1", "L1"],
    "ephemeris": "DE405",
    "start": 1167458300,
    "tspan": 172800.0,
    "n_templates": 726,
    "n_twoF": 30109398,
    "parameters": ["freq", "alpha", "delta"],
    "Fstar0": 2.5,
    "oLGX": [0.25, 0.75],
}


def table(orbit=False, order=1):
    rng = np.random.default_rng(1)
    fkdot = np.column_stack([100 + rng.random(5), *(rng.normal(size=5) * 1e-9**k for k in range(1, order + 1))])
    orbits = jfstat.Orbit(rng.random(5), 1e4 * (1 + rng.random(5)), 1e9 + rng.random(5), rng.random(5), rng.random(5))
    found = jfstat.Doppler(rng.random(5), rng.random(5), fkdot, META["reftime"], orbits if orbit else None)
    named = columns(found) | {"twoF": rng.random(5)} | {f"twoF_{name}": rng.random(5) for name in ("H1", "L1")}
    return in_units(named, META)


def assert_same(a, b):
    assert a.colnames == b.colnames
    for name in a.colnames:
        assert getattr(a[name], "unit", None) == getattr(b[name], "unit", None)
        np.testing.assert_array_equal(np.asarray(a[name]), np.asarray(b[name]))
    assert dict(a.meta) == dict(b.meta)


@pytest.mark.parametrize("orbit", [False, True])
def test_ecsv_keeps_everything(tmp_path, orbit):
    original = table(orbit, order=2)
    path = write_candidates(original, tmp_path / "found.ecsv")
    assert_same(read_candidates(path), original)
    assert os.listdir(tmp_path) == ["found.ecsv"]


def test_hdf5_keeps_everything(tmp_path):
    pytest.importorskip("h5py")
    path = write_candidates(table(orbit=True), tmp_path / "found.hdf5")
    assert_same(read_candidates(path), table(orbit=True))


def test_hdf5_without_h5py_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    for action in (lambda p: write_candidates(table(), p), read_candidates):
        with pytest.raises(ValueError, match="needs h5py"):
            action(tmp_path / "found.h5")


@pytest.mark.parametrize("orbit", [False, True])
def test_text_keeps_values_and_meta(tmp_path, orbit):
    original = table(orbit, order=3)
    back = read_candidates(write_candidates(original, tmp_path / "found.txt"))
    assert set(back.colnames) == set(original.colnames)
    for name in original.colnames:
        np.testing.assert_array_equal(np.asarray(back[name]), np.asarray(original[name]))
        assert getattr(back[name], "unit", None) == getattr(original[name], "unit", None)
    assert dict(back.meta) == dict(original.meta)


def test_text_is_laid_out_as_by_ComputeFstatistic_v2(tmp_path):
    lines = write_candidates(table(orbit=True), tmp_path / "found.dat").read_text().splitlines()
    comments = [line for line in lines if line.startswith("%%")]
    assert comments[-2] == "%% columns:"
    assert comments[-1] == "%% freq alpha delta f1dot f2dot f3dot 2F 2F_H1 2F_L1 asini period tp argp ecc"
    assert lines[-1] == "%DONE"
    values = np.loadtxt(tmp_path / "found.dat", comments="%")
    assert values.shape == (5, 14)
    assert not values[:, 4:6].any()
    np.testing.assert_array_equal(values[:, 12], table(orbit=True)["argp"].value)


def test_text_converts_units_and_refuses_what_it_cannot_hold(tmp_path):
    degrees = table()
    degrees["alpha"] = degrees["alpha"].to(u.deg)
    back = read_candidates(write_candidates(degrees, tmp_path / "found.txt"))
    np.testing.assert_allclose(back["alpha"].value, table()["alpha"].value, rtol=1e-14)
    plain = QTable({name: np.asarray(table()[name]) for name in table().colnames})
    np.testing.assert_array_equal(
        read_candidates(write_candidates(plain, tmp_path / "p.txt"))["alpha"].value, table()["alpha"].value
    )
    wrong = table()
    wrong["alpha"] = np.ones(5) * u.m
    with pytest.raises(ValueError, match="'alpha' that is not in rad"):
        write_candidates(wrong, tmp_path / "wrong.txt")
    with pytest.raises(ValueError, match="lacks the column 'twoF'"):
        write_candidates(QTable({"freq": [1.0], "alpha": [1.0], "delta": [1.0]}), tmp_path / "wrong.txt")
    with pytest.raises(ValueError, match="'f4dot', which the text format cannot hold"):
        write_candidates(table(order=4), tmp_path / "wrong.txt")
    for name in ("pmra", "model.df", "reftime"):
        wrong = table()
        wrong[name] = np.arange(5.0)
        with pytest.raises(ValueError, match=f"'{name}', which the text format cannot hold"):
            write_candidates(wrong, tmp_path / "wrong.txt")
    circles = table(orbit=True)
    circles.remove_columns(["ecc", "argp"])
    written = read_candidates(write_candidates(circles, tmp_path / "circles.txt"))
    assert not np.any(written["ecc"]) and not np.any(written["argp"].value)
    assert not (tmp_path / "wrong.txt").exists()


CFS = """%% cmdline: lalpulsar_ComputeFstatistic_v2 --Alpha=1 --Delta=0.3
%% LALPulsar: 7.1.2 (UNCLEAN 548bc5710bea021239da56e9beff1feaae163956)
%% Loaded SFTs: [ H1:20, L1:20 ]
%% GPS starttime         = 1167458304 (Tue Jan  3 05:58:06 2017 GMT)
%% Total time spanned    = 36000 s (10.00 hours)
%% Pulsar-params refTime = 1167458304
%% columns:
%% freq alpha delta f1dot f2dot f3dot 2F 2F_H1 2F_L1 log10BSGL
100 1 0.2999999999999998 -1e-10 0 0 12.3638201 2.29183197 20.8612251 1.5
100.0000138888889 1 0.2999999999999998 0 0 0 18.2718468 2.06689835 23.2653046 -2
%DONE
"""


def test_files_of_ComputeFstatistic_v2_are_read(tmp_path):
    (tmp_path / "cfs.txt").write_text(CFS)
    found = read_candidates(tmp_path / "cfs.txt")
    assert found["freq"][1] == 100.0000138888889 * u.Hz
    assert found["f1dot"][0] == -1e-10 * u.Hz / u.s
    assert found["twoF_L1"][0] == 20.8612251
    assert found["log10BSGL"][1] == -2
    assert found.meta == {"reftime": 1167458304, "start": 1167458304, "tspan": 36000.0, "detectors": ["H1", "L1"]}


@pytest.mark.parametrize(
    ("options", "fkdot", "varied"),
    [
        ("--Alpha=1 --Delta=0.3 --AlphaBand=0 --FreqBand=0.1", "[ 99:99.1, -1e-09:-1e-09, 0:0 ]", ["freq"]),
        ("--Alpha=1 --AlphaBand=0.1", "[ 99:99, -1e-09:0, 0:0 ]", ["freq", "f1dot", "alpha", "delta"]),
        ('--skyRegion="allsky"', "[ 99:99, 0:0, 0:1e-18 ]", ["freq", "f2dot", "alpha", "delta"]),
        ("--orbitTp=1e9 --orbitTpBand=100 --orbitasini=1.4", "[ 99:99, 0:0 ]", ["freq", "tp"]),
        ("--orbitPeriodBand=0.5 --orbitasiniBand=1", "[ 99:99, 0:0 ]", ["freq", "asini", "period"]),
    ],
)
def test_files_of_ComputeFstatistic_v2_tell_what_it_varied(tmp_path, options, fkdot, varied):
    lines = CFS.replace("--Alpha=1 --Delta=0.3", options).splitlines()
    lines.insert(6, f"%% Spin-range at refTime: fkdot = {fkdot}")
    (tmp_path / "cfs.txt").write_text("\n".join([*lines, ""]))
    assert read_candidates(tmp_path / "cfs.txt").meta["parameters"] == varied


FIXED = "--orbitasini=1.44 --orbitPeriod=68023.7 --orbitTp=1167470000 --orbitArgp=0.9"


@pytest.mark.parametrize("read", [read_candidates, jfstat.read_templates])
def test_a_fixed_orbit_of_ComputeFstatistic_v2_is_on_its_command_line_alone(tmp_path, read):
    path = tmp_path / "cfs.txt"
    orbit = dict(asini=1.44, period=68023.7, tp=1167470000.0, argp=0.9, ecc=0.0)
    path.write_text(CFS.replace("--Delta=0.3", f"--Delta=0.3 {FIXED} --gridType=8"))
    found = read(path)
    assert {name: float(found[name].value[1]) if name != "ecc" else float(found[name][1]) for name in orbit} == orbit
    assert found.colnames[-5:] == ["asini", "period", "tp", "argp", "ecc"]
    path.write_text(CFS.replace("--Delta=0.3", f"--Delta=0.3 {FIXED} --gridType=6"))
    assert "asini" not in read(path).colnames  # which ignores orbits
    path.write_text(CFS.replace("--Delta=0.3", "--Delta=0.3 --orbitasini=0 --orbitPeriod=68023.7"))
    assert "asini" not in read(path).colnames
    path.write_text(CFS.replace("--Delta=0.3", f"--Delta=0.3 {FIXED.replace('1.44', 'x')}"))
    with pytest.raises(ValueError, match="a command line whose orbit is not given in numbers"):
        read(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("cut.txt", CFS.removesuffix("%DONE\n"), "does not end with %DONE"),
        ("torn.txt", CFS.replace(" 1.5\n", "\n"), "is not a ComputeFstatistic_v2 text file"),
        ("bare.txt", "1 2 3\n%DONE\n", "is not a text file of candidates"),
        ("no.ecsv", "hello", "is not a .ecsv file"),
        ("absent.ecsv", None, "cannot be read"),
        ("absent.txt", None, "cannot be read"),
    ],
)
def test_bad_files_are_named(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(FileNotFoundError if content is None else ValueError, match=message) as caught:
        read_candidates(tmp_path / name)
    assert name in str(caught.value)


def test_a_directory_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="cannot be written"):
        write_candidates(table(), tmp_path / "nowhere" / "found.ecsv")
