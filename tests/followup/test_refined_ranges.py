"""What a search was asked to vary is fitted, even where one template covers a range: by tables, files and units."""

import numpy as np
import pytest
from cases import make
from searches import search

import jfstat
from jfstat.followup.candidates import SearchedWith, usual_names
from jfstat.followup.fstattable import fstat_table

F0 = 151.0


@pytest.fixture(scope="module")
def case():
    return make(F0, seed=7, days=1.0, noise=True, h0=6e-25, half_band=0.005, guard=0.2, fkdot=(0.0,))


@pytest.fixture(scope="module")
def asked(case):
    """A bank of one template near the signal, for ranges of the sky; and which parameters were asked for."""
    rng = np.random.default_rng(2)
    alpha, delta = (float(x) + rng.uniform(-0.002, 0.002) for x in (case.doppler.alpha, case.doppler.delta))
    bank = jfstat.template_bank(
        (alpha - 0.002, alpha + 0.002), (delta - 0.002, delta + 0.002), data=case.data, mismatch=0.3
    )
    assert bank.alpha.shape == (1,)
    return bank


@pytest.fixture(scope="module")
def found(case, asked):
    return jfstat.search(case.data, asked, top=2, progress=False)


def fitted(table):
    given = {name: np.asarray(table[name].value) for name in ("freq", "f1dot", "alpha", "delta")}
    return usual_names(given, SearchedWith.of(table, ()).parameters)


@pytest.mark.ci
def test_tables_and_files_name_them(found, tmp_path):
    assert found.meta["parameters"] == ["freq", "alpha", "delta"]
    assert fitted(found) == fitted(found[:1]) == ("freq", "alpha", "delta")
    for name in ("found.ecsv", "found.hdf5", "found.txt"):
        again = jfstat.read_candidates(jfstat.write_candidates(found, tmp_path / name))
        assert fitted(again) == ("freq", "alpha", "delta")
        assert jfstat.bank_from_table(again).varied == ("freq", "alpha", "delta")
    assert jfstat.read_templates(tmp_path / "found.txt").meta["parameters"] == ["freq", "alpha", "delta"]


@pytest.mark.ci
def test_so_do_searches_of_their_rows_units_and_tables_of_exact_points(case, asked, found):
    row = found[:1]
    assert jfstat.search(case.data, row, top=1, progress=False).meta["parameters"] == ["freq", "alpha", "delta"]
    assert fstat_table(case.data, row, progress=False).meta["parameters"] == ["freq", "alpha", "delta"]
    units = [search(case.data, asked, top=2, progress=False, unit=(i, 2)) for i in (1, 2)]
    assert jfstat.merge(units).meta["parameters"] == ["freq", "alpha", "delta"]
    units[1].meta["parameters"] = ["freq"]
    with pytest.raises(ValueError, match=r"different searches.*parameters"):
        jfstat.merge(units)


def test_what_nobody_asked_for_stays_held(case, asked):
    held = jfstat.template_bank(float(asked.alpha[0]), float(asked.delta[0]), data=case.data)
    for bank in (held, jfstat.Doppler(asked.alpha, asked.delta, asked.fkdot, asked.reftime)):
        assert jfstat.search(case.data, bank, top=1, progress=False).meta["parameters"] == ["freq"]
    kept = search(case.data, held, top=1, progress=False, bounds={"f1dot": (-1e-12, 1e-12)})
    assert kept.meta["parameters"] == ["freq", "f1dot"]


def test_rows_are_refused_in_a_sentence(case, found):
    for call, name in (
        (lambda row: fstat_table(case.data, row), "points"),
        (lambda row: jfstat.search(case.data, row), "table"),
        (jfstat.distinct, "refined"),
        (lambda row: jfstat.write_candidates(row, "x.ecsv"), "table"),
    ):
        with pytest.raises(TypeError, match=rf"^{name} must be a table, not one of its rows: give a slice"):
            call(found[0])


@pytest.mark.ci
def test_errors_of_the_frequency_are_honest(case, found):
    """With the sky held, the error of the frequency was 300 times too small."""
    refined = jfstat.refine(case.data, found[:1], progress=False)
    assert refined.meta["parameters"] == ["freq", "alpha", "delta"]
    pull = (refined["freq"][0].value - float(case.doppler.fkdot[0])) / refined["freq_error"][0].value
    assert refined["converged"][0] and abs(pull) < 5
