"""What the meta of a table says of its origin is written and read in one place."""

import numpy as np
import pytest
from astropy.table import QTable

import jfstat
from jfstat.candidates.provenance import Provenance, joint_ephemeris, reftime_of
from jfstat.signal.times import gps_time

START = 1167458304


@pytest.fixture(scope="module")
def observation():
    return jfstat.observation(["H1", "L1"], start=START, duration=4 * 1800, sqrt_sx=(4e-24, 6e-24))


def test_an_observation_gives_the_header_of_a_table(observation):
    origin = Provenance.from_observation(observation, gps_time(START + 0.5, "reftime"), ["freq", "alpha"])
    sqrt_sx = origin.meta.pop("sqrt_sx")
    assert {name: x for name, x in origin.meta.items() if name != "sqrt_sx"} == {
        "version": jfstat.__version__,
        "reftime": START + 0.5,
        "detectors": ["H1", "L1"],
        "ephemeris": "DE405",
        "start": START,
        "tspan": 7200.0,
        "parameters": ["freq", "alpha"],
        "tsft": 1800.0,
        "n_sfts": [4, 4],
    }
    np.testing.assert_allclose(sqrt_sx, [4e-24, 6e-24])
    bare = Provenance.from_observation(observation, gps_time(START, "reftime"), ["freq"], of_sfts=False)
    assert list(bare.meta) == ["version", "reftime", "detectors", "ephemeris", "start", "tspan", "parameters"]


def test_the_meta_of_a_table_reads_back(observation):
    origin = Provenance.from_observation(observation, gps_time(START, "reftime"), ["freq"])
    table = QTable({"freq": [1.0]}, meta=origin.meta | {"mine": 3})
    assert Provenance.of(table) == origin
    assert Provenance.of(table, "sqrt_sx", "reftime").meta == origin.meta


def test_tables_that_say_nothing():
    assert Provenance.of(QTable({"freq": [1.0]})).meta == {}
    assert Provenance.of(jfstat.Doppler(1.0, 0.2, [100.0])).meta == {}
    assert reftime_of(QTable({"freq": [1.0]}), 5) == 5 and reftime_of(QTable(meta={"reftime": 0}), 5) == 0


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ({}, "found lacks 'parameters' in its meta, a list of names: give a table as jfstat made it."),
        ({"parameters": "freq"}, "found has parameters = 'freq' in its meta, not a list of names: correct"),
        (
            {"parameters": ["freq"], "n_segments": 2.5},
            "n_segments = 2.5 in its meta, not a number of segments",
        ),
        ({"parameters": ["freq"], "detectors": [1]}, r"detectors = \[1\] in its meta, not a list of names"),
        ({"parameters": ["freq"], "tspan": "long"}, "tspan = 'long' in its meta, not a time in s"),
    ],
)
def test_what_is_missing_or_wrong_is_named(meta, message):
    with pytest.raises(ValueError, match=message):
        Provenance.of(QTable({"freq": [1.0]}, meta=meta), "parameters", name="found")


def test_rows_with_several_ephemerides():
    assert joint_ephemeris(["DE405", "DE405"]) == "DE405" and joint_ephemeris(["DE405", "DE421"]) == "by row"
