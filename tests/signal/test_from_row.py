"""A row of a table is a template: Doppler.from_row, and rows in the place of templates."""

import astropy.units as u
import jax
import numpy as np
import pytest
from astropy.table import QTable, Table

import jfstat
from jfstat.candidates.schema import SINGLE
from jfstat.signal.parameters import MOTION_FIELDS, ORBIT_FIELDS, PRECISE, SKY

START = 1_167_458_304
POINT = jfstat.Doppler(2.1, 0.47, [100.01, -1e-10], START + 1000)


@pytest.fixture(scope="module")
def sfts():
    signals = [(POINT, jfstat.Amplitude(4e-25, 0.3, 0.4, 1.0))]
    return jfstat.simulate_sfts(["H1", "L1"], START, 43200, 99.6, 100.4, sqrt_sx=4e-24, signals=signals, seed=3)


@pytest.fixture(scope="module")
def data(sfts):
    return jfstat.prepare(sfts, 100.0, 100.02, guard=0.3, sqrt_sx=4e-24)


@pytest.fixture(scope="module")
def found(data):
    return jfstat.search(data, POINT, top=3, progress=False)


def same(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for x, y in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(x, y)


def table(**columns):
    own = {"freq": [100.0, 100.25] * u.Hz, "alpha": [1.0, 2.0] * u.rad, "delta": [0.1, 0.2] * u.rad}
    return QTable(own | columns, meta={"reftime": START})


@pytest.mark.ci
def test_the_row_of_a_search(found, data):
    point = jfstat.Doppler.from_row(found[1])
    assert point.reftime == found.meta["reftime"] == START + 1000
    assert point.fkdot.tolist() == [found["freq"][1].value, found["f1dot"][1].value]
    assert all(isinstance(x, jax.Array) for x in jax.tree.leaves(point)) and point.varied is None
    same(point, jfstat.bank_from_table(found)[1])
    bare = Table({name: np.asarray(found[name]) for name in ("freq", "f1dot", "alpha", "delta")}, meta=found.meta)
    plain = Table(found)  # with units, but of columns that are no Quantities, as Table.read makes them
    assert plain["freq"].unit == "Hz" and not isinstance(plain["freq"], u.Quantity)
    for row in (found[1:2], bare[1], bare[1:2], bare[[1]], plain[1]):
        same(jfstat.Doppler.from_row(row), point)
    degrees = found.copy()
    degrees["alpha"] = degrees["alpha"].to("deg")
    assert float(jfstat.Doppler.from_row(degrees[1]).alpha) == pytest.approx(float(point.alpha), abs=1e-15)
    # 2F of the table is that of the row
    assert float(jfstat.twoF(data, found[0])) == pytest.approx(float(found["twoF"][0]), rel=1e-5)


def test_orbits_motions_and_isolated_rows():
    orbits = dict(asini=[1.5, 0.0], period=[5e4, np.nan], tp=[1e9, np.nan])
    rows = table(**orbits, pmra=[1e-15, 0.0], f2dot=[1e-18, 0.0], f1dot=[-1e-10, 0.0])
    bound, alone = (jfstat.Doppler.from_row(row) for row in rows)
    orbit = jfstat.Orbit(1.5, 5e4, 1e9)
    same(bound, jfstat.Doppler(1.0, 0.1, [100.0, -1e-10, 1e-18], START, orbit, motion=(1e-15, 0.0)))
    assert alone.orbit is None and alone.fkdot.shape == (3,)
    rows.meta.clear()
    assert jfstat.Doppler.from_row(rows[0]).reftime is None
    exact = table()
    exact.meta["reftime"] = "1167458304.123456789"
    assert int(jfstat.Doppler.from_row(exact[0]).reftime.nanoseconds) == 123456789


def ramp(t, p):
    return p["df"] * t


def test_a_phase_model():
    rows = table(**{"model.df": [1e-7, 2e-7]})
    with pytest.raises(ValueError, match=r"^row has the column 'model.df' of a phase model"):
        jfstat.Doppler.from_row(rows[0])
    model = jfstat.PhaseModel(ramp, {"df": 0.0})
    point = jfstat.Doppler.from_row(rows[1], model=model)
    assert point.model.function is ramp and float(point.model.parameters["df"]) == 2e-7
    assert float(jfstat.Doppler.from_row(table()[0], model=model).model.parameters["df"]) == 0.0
    with pytest.raises(TypeError, match="model"):
        jfstat.Doppler.from_row(rows[0], model=ramp)


@pytest.mark.parametrize(
    ("row", "kind", "message"),
    [
        (lambda: table(), ValueError, "row is a table of 2 rows, but one is wanted"),
        (lambda: table()[:0], ValueError, "row is a table of 0 rows"),
        (lambda: POINT, TypeError, "row must be a row of a table"),
        (lambda: {"freq": 100.0}, TypeError, "row must be a row of a table"),
        (lambda: QTable({"freq": [1.0]})[0], ValueError, "row lacks the column 'alpha'"),
        (lambda: table(asini=[1.0, 1.0])[0], ValueError, "row lacks the column 'period'"),
        (lambda: table(freq=[1, 2] * u.s)[0], ValueError, "row has a column 'freq' that is not in Hz"),
        (lambda: table(freq=np.ones(2, np.float32))[0], ValueError, "row has a column 'freq' in float32"),
        (lambda: table(alpha=[30.0, 1.0])[0], ValueError, "row has alpha = 30.0, which must be within"),
        (lambda: table(freq=[np.nan, 1.0])[0], ValueError, "row holds no possible template: fkdot must be finite"),
        (
            lambda: Table({"freq": np.ma.array([1.0], mask=[True]), "alpha": [1.0], "delta": [0.1]}, masked=True)[0],
            ValueError,
            "row holds no possible template: fkdot must be finite",
        ),
    ],
)
def test_rows_that_are_no_templates(row, kind, message):
    with pytest.raises(kind, match=f"^{message}") as error:
        jfstat.Doppler.from_row(row())
    assert "\n" not in str(error.value)


@pytest.mark.ci
def test_rows_in_the_place_of_templates(found, data, sfts):
    row, point = found[0], jfstat.Doppler.from_row(found[0])
    same(jfstat.twoF(data, row), jfstat.twoF(data, point))
    same(jfstat.twoF(data, point=found[:1]), jfstat.twoF(data, point))
    for function in (jfstat.fstat, jfstat.twoF_band, jfstat.estimate_amplitude, jfstat.narrow, jfstat.metric):
        same(function(data, row), function(data, point))
    near = jfstat.narrow(data, row)
    assert bool(jfstat.covers(near, row)) and float(jfstat.twoF(near, row)) == float(jfstat.twoF(near, point))
    segments = jfstat.prepare(sfts, 100.0, 100.02, guard=0.3, sqrt_sx=4e-24, segments=2)
    same(jfstat.mean_twoF(segments, row), jfstat.mean_twoF(segments, point))
    same(jax.jit(lambda data: jfstat.twoF(data, row))(data), jfstat.twoF(data, point))
    amplitude = jfstat.Amplitude(4e-25, 0.3)
    same(jfstat.predict_twoF(data, row, amplitude), jfstat.predict_twoF(data, point, amplitude))
    with pytest.raises(ValueError, match=r"^point is a table of 3 rows"):
        jfstat.twoF(data, found)
    with pytest.raises(ValueError, match=r"^point lacks the column 'freq'"):
        jfstat.twoF(data, QTable({"x": [1.0]})[0])


def test_rows_of_transients_are_refused_where_their_window_would_be_ignored(found, data):
    late = found.copy()
    late["t0"], late["tau"] = [START + 3600.0] * 3 * u.s, [7200.0] * 3 * u.s
    for function in (jfstat.twoF, jfstat.fstat, jfstat.twoF_band, jfstat.estimate_amplitude, jfstat.metric):
        with pytest.raises(ValueError, match=r"^point is a row of a table of transient signals.*transient_twoF"):
            function(data, late[0])
    window = jfstat.TransientWindow("rectangular", START + 3600, 7200)
    same(jfstat.transient_twoF(data, late[0], window), jfstat.transient_twoF(data, found[0], window))
    same(jfstat.Doppler.from_row(late[0]), jfstat.Doppler.from_row(found[0]))


@pytest.mark.ci
def test_a_row_is_refined(found, data):
    row, whole = jfstat.refine(data, found[0], progress=False), jfstat.refine(data, found[:1], progress=False)
    assert row.colnames == whole.colnames and row.meta["parameters"] == whole.meta["parameters"]
    assert row["twoF"][0] == whole["twoF"][0] and row["freq"][0] == whole["freq"][0]


def test_parameters_of_double_precision_are_those_of_the_schema():
    names = ["freq", *SKY, *MOTION_FIELDS, *ORBIT_FIELDS]
    assert tuple(name for name in names if SINGLE[name].double) == PRECISE


@pytest.mark.parametrize("masked", [False, True])
def test_columns_of_plain_tables_have_units(masked):
    own = Table(
        {"freq": [0.1], "alpha": [180.0], "delta": [30.0], "f1dot": [1.0]}, masked=masked, meta={"reftime": START}
    )
    own["freq"].unit, own["alpha"].unit, own["delta"].unit, own["f1dot"].unit = "kHz", "deg", "deg", "nHz / s"
    point = jfstat.Doppler.from_row(own[0])
    np.testing.assert_allclose([*point.fkdot, point.alpha, point.delta], [100.0, 1e-9, np.pi, np.pi / 6], rtol=1e-15)
    own["freq"].unit = "m"
    with pytest.raises(ValueError, match="has a column 'freq' that is not in Hz"):
        jfstat.Doppler.from_row(own[0])


def test_templates_in_single_precision_are_refused(data):
    """Whoever converts a tree to float32 loses the phase."""
    rounded = jax.tree.map(lambda x: x.astype(np.float32) if x.dtype == np.float64 else x, POINT)
    for call in (jfstat.twoF, jfstat.twoF_band, jfstat.narrow, lambda d, p: jfstat.search(d, p, progress=False)):
        with pytest.raises(
            ValueError, match=r"\.(alpha|fkdot) must be float64, not float32, which keeps too few digits"
        ):
            call(data, rounded)
