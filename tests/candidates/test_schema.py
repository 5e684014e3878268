"""What is known of each column of a table follows from one line of the schema."""

import numpy as np
import pytest
from astropy import units as u
from astropy.table import QTable

from jfstat.candidates.schema import ALL, COLUMNS, column_of, known_column
from jfstat.candidates.tables import carry_over, in_units, plain_column
from jfstat.signal.parameters import unit

EXAMPLES = {"f<k>dot": "f2dot", "<name>_error": "psi_error", "model<field>": "model.df", "twoF_<detector>": "twoF_H1"}
EXAMPLES |= {"twoF<detector>": "twoFH1", "mean_twoF_<detector>": "mean_twoF_L1"}
EXAMPLES |= {"h_<polarisation>": "h_x", "phase_<polarisation>": "phase_plus"}


@pytest.mark.parametrize("column", ALL, ids=lambda column: column.name)
def test_a_line_says_what_a_column_holds(column):
    name = EXAMPLES.get(column.name, column.name)
    own = column_of(name)
    assert own.name == name and own.about == column.about and own.about.endswith(".")
    u.Unit(own.unit)
    assert f"{1.0:{own.digits}}"
    assert own.unit == unit(name) or not unit(name), "a parameter has its unit in every table"


def test_each_name_has_one_line():
    names = [column.name for column in ALL]
    assert len(set(names)) == len(names) == sum(map(len, COLUMNS.values()))


def test_the_unit_of_a_family_follows_from_the_name():
    assert [column_of(name).unit for name in ("f1dot", "f12dot", "f1dot_error", "t0_error", "h0_error")] == [
        "Hz / s",
        "Hz / s12",
        "Hz / s",
        "s",
        "",
    ]
    assert column_of("phase_error").unit == "cycle"  # no error of a parameter


@pytest.mark.parametrize("name", ["twoF_V1", "twoF_my_own", "mean_twoF_H1", "start_twoF", "f1dot_error", "mine_error"])
def test_what_is_said_of_a_template_goes_stale(name):
    assert column_of(name).stale


@pytest.mark.parametrize("name", ["model", "model.df", "model.a[0]", "model_name", "f0dot", "fdot", "twO", "name", "x"])
def test_other_columns_go_on(name):
    assert not column_of(name).stale
    assert (known_column(name) is None) == (name in ("model_name", "f0dot", "fdot", "twO", "x"))
    assert column_of("model.df_error").stale


def test_a_users_own_columns_are_left_alone():
    found = in_units({"freq": np.ones(1), "mine": np.ones(1), "twoF": np.ones(1)}, {})
    assert found["mine"].unit is None and not hasattr(found["mine"], "to_value")
    table = QTable({"freq": [2.0] * u.Hz})
    carry_over(table, found)
    assert table.colnames == ["freq", "mine"] and table["freq"][0] == 2 * u.Hz


def test_values_are_printed_with_their_digits_and_unit():
    assert column_of("freq").text(100.00000000001) == "100.00000000001 Hz"
    assert column_of("twoF_H1").text(12.34567) == "12.3457"
    assert column_of("h0_error").text(1.23456789e-25) == "1.23457e-25"
    assert column_of("psi").text(0.5 * u.rad) == "0.5 rad"


@pytest.mark.parametrize("name", [column.name for column in ALL if column.double])
def test_float32_is_refused_where_it_would_not_do(name):
    with pytest.raises(ValueError, match=f"'{name}' in float32, which keeps too few digits"):
        plain_column(QTable({name: np.ones(2, np.float32)}), name)
    assert plain_column(QTable({"alpha": np.ones(2, np.float32)}), "alpha").dtype == np.float64
