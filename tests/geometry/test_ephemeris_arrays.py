"""Ephemerides from arrays: those of a file give the same 2F, astropy's own one to its accuracy."""

import gzip
import os

import astropy.units as u
import numpy as np
import pytest
from astropy.coordinates import CartesianRepresentation, get_body_barycentric_posvel
from astropy.time import Time
from hypothesis import given, settings
from hypothesis import strategies as st

import jfstat
from jfstat.geometry.ephemeris import ephemeris_files, load_ephemeris

START = 1167458304
NOISE = 4e-24


def rows(path, start, end):
    """Rows of an ephemeris file between two GPS times: times, positions, velocities, accelerations."""
    lines = [line for line in gzip.decompress(path.read_bytes()).splitlines() if not line.startswith(b"#")][1:]
    table = np.array([line.split() for line in lines], float)
    table = table[(table[:, 0] > start) & (table[:, 0] < end)]
    return table[:, 0], table[:, 1:4], table[:, 4:7], table[:, 7:10]


@pytest.fixture(scope="module")
def tables():
    _, earth, sun = ephemeris_files("DE405")
    return [rows(path, START - 4e5, START + 6e5) for path in (earth, sun)]


@pytest.fixture(scope="module")
def case():
    point = jfstat.Doppler(2.1, -0.7, [213.02, -1e-9], START)
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], START, 86400, fmin=212, fmax=214, sqrt_sx=NOISE, signals=[(point, jfstat.Amplitude(4e-25, 0.3))]
    )
    return sfts, point


@pytest.mark.ci
def test_the_arrays_of_a_file_give_the_same_two_f(tables, case):
    sfts, point = case
    own = jfstat.Ephemeris(*tables, name="DE405 by hand")
    both = [jfstat.prepare(sfts, 213, 213.04, sqrt_sx=NOISE, ephemeris=e) for e in ("DE405", own)]
    first, second = (float(jfstat.twoF(data, point)) for data in both)
    assert first > 60
    assert second == pytest.approx(first, rel=1e-9)
    assert both[1].ephemeris == "DE405 by hand"
    np.testing.assert_allclose(*(jfstat.twoF_band(data, point) for data in both), rtol=1e-4, atol=1e-4)
    observed = jfstat.observation(["H1"], START, 86400, ephemeris=own)
    np.testing.assert_allclose(
        observed.trajectory.coefficients, jfstat.observation(["H1"], START, 86400).trajectory.coefficients, atol=1e-9
    )
    other = jfstat.simulate_sfts(
        ["H1", "L1"], START, 86400, fmin=212, fmax=214, sqrt_sx=NOISE, ephemeris=own,
        signals=[(point, jfstat.Amplitude(4e-25, 0.3))],
    )  # fmt: skip
    np.testing.assert_allclose(other["L1"].data, sfts["L1"].data, rtol=0, atol=1e-6 * np.abs(sfts["L1"].data).max())


@pytest.mark.parametrize(("given", "accuracy"), [(2, 1e-10), (3, 1e-10), (4, 1e-12)])
def test_fewer_derivatives_are_interpolated(tables, given, accuracy):
    own = load_ephemeris(jfstat.Ephemeris(*(t[:given] for t in tables)), START, START + 86400, START)
    files = load_ephemeris("DE405", START, START + 86400, START)
    t = np.linspace(0, 86400, 1001)
    np.testing.assert_allclose(own.earth(t), files.earth(t), rtol=0, atol=accuracy)
    np.testing.assert_allclose(own.sun(t), files.sun(t), rtol=0, atol=accuracy)


def write_table(path, table, late=0, lines_of=(10,)):
    """A file in LALSuite's format, with a header some seconds late and so many numbers on each line of a row."""
    step = np.diff(table[0])[0]
    lines = [f"{table[0][0] + late:.0f} {step:.0f} {len(table[0])}"]
    for row in np.column_stack([table[0], *table[1:]]):
        lines += [" ".join(map(repr, part.tolist())) for part in np.split(row, np.cumsum(lines_of[:-1]))]
    path.write_text("# rows\n" + "\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(("late", "lines_of"), [(-1, (10,)), (864000, (10,)), (864000, (3, 3, 3, 1))])
def test_files_may_be_of_all_kinds_that_lalsuite_reads(tables, tmp_path, late, lines_of):
    """The header's time is that of New Year, as in LALSuite's yearly files, whose rows begin ten days before it."""
    files = [write_table(tmp_path / name, t, late, lines_of) for name, t in zip(("earth", "sun"), tables, strict=True)]
    own = load_ephemeris(files, START, START + 86400, START)
    theirs = load_ephemeris("DE405", START, START + 86400, START)
    t = np.linspace(0, 86400, 101)
    np.testing.assert_array_equal(own.earth(t), theirs.earth(t))
    np.testing.assert_array_equal(own.sun(t), theirs.sun(t))
    lalpulsar = pytest.importorskip("lalpulsar")
    read = lalpulsar.InitBarycenter(*map(str, files))
    assert read.ephemE[0].gps == tables[0][0][0] and read.nentriesE == len(tables[0][0])


def test_files_are_read_again_only_when_they_have_changed(tables, tmp_path):
    """Rows are kept, but a file that is replaced counts at once, and no times are taken for others."""

    def written(name, table):
        return write_table(tmp_path / name, table)

    def distances(start, end):
        return np.linalg.norm(
            load_ephemeris(files, start, end, START).earth(np.linspace(start, end, 5) - START), axis=-1
        )

    earth, sun = tables
    files = written("earth.dat", earth), written("sun.dat", sun)
    first = distances(START, START + 86400)
    np.testing.assert_array_equal(distances(START, START + 86400), first)
    for days in (1, 3):  # other times of the same piece
        own = load_ephemeris("DE405", START + days * 86400, START + (days + 1) * 86400, START)
        t = (days + np.linspace(0, 1, 5)) * 86400
        found = distances(START + days * 86400, START + (days + 1) * 86400)
        np.testing.assert_allclose(found, np.linalg.norm(own.earth(t), axis=-1), rtol=1e-12)
    written("earth.dat", (earth[0], *(1.01 * x for x in earth[1:])))
    np.testing.assert_allclose(distances(START, START + 86400), 1.01 * first, rtol=1e-9)
    before = files[0].stat()
    written("new.dat", earth).replace(files[0])  # another file of this name
    os.utime(files[0], ns=(before.st_atime_ns, before.st_mtime_ns))
    np.testing.assert_array_equal(distances(START, START + 86400), first)
    with pytest.raises(ValueError, match="covers GPS"):
        load_ephemeris(files, START, START + 30 * 86400, START)


def test_astropys_ephemeris_is_right_to_its_own_accuracy(case):
    """The `builtin` one, erfa.epv00: the Earth within 13.4 km, 45 us, of DE405 between 1900 and 2100."""
    sfts, point = case
    times = Time(START + 7200.0 * np.arange(-10, 30), format="gps")
    both = [(times, *get_body_barycentric_posvel(body, times, ephemeris="builtin")) for body in ("earth", "sun")]
    own = jfstat.Ephemeris(*both, name="builtin")
    t = np.linspace(0, 86400, 301)
    theirs, files = (load_ephemeris(e, START, START + 86400, START) for e in (own, "DE405"))
    difference = np.abs(theirs.earth(t) - files.earth(t)).max()
    assert 1e-7 < difference < 4.5e-5
    assert np.abs(theirs.sun(t) - files.sun(t)).max() < 4.5e-5
    # 1e-2 cycles that hardly change in a day
    first, second = (
        float(jfstat.twoF(jfstat.prepare(sfts, 213, 213.04, sqrt_sx=NOISE, ephemeris=e), point)) for e in (own, "DE405")
    )
    assert first == pytest.approx(second, rel=1e-3)


@settings(deadline=None, max_examples=10)
@given(st.sampled_from(["km", "AU", "m"]), st.integers(-3, 3))
def test_units_and_kinds_of_arrays_do_not_matter(unit, shift):
    t = START + 7200.0 * np.arange(40)
    x = 500 * np.stack([np.cos(2e-7 * t), np.sin(2e-7 * t), 0 * t], axis=-1)
    v = 1e-4 * np.stack([-np.sin(2e-7 * t), np.cos(2e-7 * t), 0 * t], axis=-1)
    plain = jfstat.Ephemeris((t, x, v), (t[::4], 0 * x[::4]))
    second = 299792458.0 * u.m
    quantities = ((x * second).to(unit), (v * second / u.s).to(f"{unit} / d"))
    cartesian = CartesianRepresentation((x * second).to(unit).T)
    for earth in ((Time(t, format="gps"), *quantities), (t, cartesian, quantities[1])):
        other = jfstat.Ephemeris(earth, (t[::4], 0 * x[::4]))
        np.testing.assert_allclose(other.earth.position, plain.earth.position, rtol=0, atol=1e-9)
    at = 100000.0 + 1000 * shift
    got = load_ephemeris(plain, START + 50000, START + 150000, START).earth(np.array([at]))
    expected = 500 * np.array([np.cos(2e-7 * (START + at)), np.sin(2e-7 * (START + at)), 0])
    np.testing.assert_allclose(got[0], expected, atol=1e-6)


T = START + 7200.0 * np.arange(5)
X = np.ones((5, 3))


@pytest.mark.parametrize(
    ("earth", "error", "message"),
    [
        (T, TypeError, r"earth must be \(times, position\[, velocity"),
        ((T,), TypeError, "earth must be"),
        ((T[::-1], X), ValueError, "earth's times must be two or more and increase"),
        ((T[:1], X[:1]), ValueError, "earth's times must be two or more"),
        ((T, X.T), ValueError, r"earth's positions have shape \(3, 5\), not \(5, 3\)"),
        ((T, X, X[:4]), ValueError, "earth's velocities have shape"),
        ((T, np.nan * X), ValueError, "earth's positions must be finite"),
        ((T, 1.5e8 * X), ValueError, "earth's positions exceed 998 light-seconds"),
        ((T, X * u.s), ValueError, "earth's positions must be convertible to m"),
        ((T, X, X * u.m), ValueError, "earth's velocities must be convertible to m / s"),
        ((T, "far"), ValueError, "earth's positions must be numbers"),
    ],
)
def test_malformed_arrays_are_refused(earth, error, message):
    with pytest.raises(error, match=message):
        jfstat.Ephemeris(earth, (T, X))


def test_times_that_are_not_covered_are_refused():
    own = jfstat.Ephemeris((T, X), (T, X), name="short")
    with pytest.raises(ValueError, match=r"the ephemeris short \(earth\) covers GPS 1167458304 to .* use another"):
        jfstat.observation(["H1"], START, 86400, ephemeris=own)
    with pytest.raises(ValueError, match=r"must be a name such as 'DE405', two files or an Ephemeris"):
        jfstat.observation(["H1"], START, 86400, ephemeris=3)
