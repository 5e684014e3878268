"""Set-ups of searches over segments compared by cost and depth."""

import json
from pathlib import Path

import numpy as np
import pytest
from astropy import units
from scipy.stats import chi2

import jfstat
from jfstat.searching.setups import INTERPOLATED_FREQUENCY, NEAREST_FREQUENCY, _mean_loss

START, DAY, PERIOD = 1_167_458_304, 86400.0, 68023.7
ORBIT = dict(asini=(1.43, 1.45), period=PERIOD, tp=(START, START + 60))
BANK = dict(alpha=4.276, delta=-0.273, orbit=ORBIT, freq=(60.0, 60.1))


@pytest.fixture(scope="module")
def cuts():
    """Twelve days of one detector in segments of 2 and of 4 d."""
    sfts = jfstat.simulate_sfts(["H1"], START, 12 * DAY, fmin=59.9, fmax=60.2, sqrt_sx=None)
    return [jfstat.segment_observations(sfts, days * DAY, sqrt_sx=4e-24) for days in (2, 4)]


@pytest.fixture(scope="module")
def setups(cuts):
    return jfstat.search_setups(cuts, [0.2, (0.2, 0.4)], BANK, (1e-9, 1e-10), progress=False)


def test_rows_are_ordered_by_depth_and_have_units(setups):
    assert len(setups) == 4
    assert np.all(np.diff(setups["depth"].value) <= 0)
    assert sorted(setups["n_segments"]) == [3, 3, 6, 6]
    assert setups["depth"].unit == units.Hz**-0.5 and setups["seconds"].unit == setups["segment_length"].unit == "s"
    # the longer segments are more sensitive and take longer, at equal mismatches
    plain = setups[setups["coherent_mismatch"] == 0]
    assert plain["n_segments"][0] == 3 and plain["seconds"][0] > plain["seconds"][1]


def test_sizes_are_those_of_banks(cuts, setups):
    for observation in cuts:
        bank = jfstat.template_bank(4.276, -0.273, orbit=ORBIT, freq=(60.0, 60.1), mismatch=0.2, data=observation)
        size = jfstat.bank_size(observation, 0.2, **BANK)
        assert size == pytest.approx(len(bank.alpha), rel=0.15)
        own = setups[setups["n_segments"] == observation.n_segments]
        np.testing.assert_array_equal(own["n_templates"], size)


def test_costs_and_depths_are_those_of_the_formulas(cuts, setups):
    for row in setups:
        observation = next(x for x in cuts if x.n_segments == row["n_segments"])
        n_frequencies = int(0.1 * 2 * row["segment_length"].value + 1e-6) + 1
        assert row["n_twoF"] == pytest.approx(row["n_templates"] * n_frequencies)
        most = row["n_templates"] * row["n_segments"]
        cost = 1e-9 * row["n_coherent"] * n_frequencies
        if row["coherent_mismatch"] > 0:
            cost += 1e-10 * most * n_frequencies
            assert row["n_coherent"] < most
        else:
            assert row["n_coherent"] == most
        assert row["seconds"].value == pytest.approx(cost)
        beyond = chi2.sf(row["threshold"] * row["n_segments"], 4 * row["n_segments"])
        assert 1 - (1 - beyond) ** row["n_twoF"] == pytest.approx(0.01, rel=1e-3)
        m = row["mismatch"] + row["coherent_mismatch"]
        lost = 0.385 * m / (1 + 0.8 * m) + 0.065
        if row["coherent_mismatch"]:
            lost = 0.32 * m / (1 + 0.45 * m) + 0.08
        h0 = jfstat.sensitivity(observation, row["threshold"], mismatch=lost)
        assert row["h0"] == pytest.approx(h0, rel=0.02)
        assert row["depth"].value == pytest.approx(float(jfstat.sensitivity_depth(observation, row["h0"])))


def test_mean_losses_are_those_measured():
    """Ten cases of 2000 random signals, and four searches on a GPU."""
    examples = Path(__file__).parents[2] / "examples"
    banks = json.loads((examples / "segments_coverage.json").read_text())["banks"]
    for m in (0.1, 0.3):
        own = [bank for bank in banks if bank["mismatch"] == bank["coherent_mismatch"] == m]
        assert len(own) == 5
        alone, both = (np.mean([bank[name]["mean"] for bank in own]) for name in ("template", "bins"))
        assert _mean_loss(m, 0.0) - NEAREST_FREQUENCY == pytest.approx(alone, rel=0.1)
        assert _mean_loss(m, m) == pytest.approx(both, rel=0.1)
    for setup in json.loads((examples / "one_hertz_setups.json").read_text())["setups"]:
        said = setup["settings"]
        finer = INTERPOLATED_FREQUENCY * (1 - said["spacing"] ** 2)  # it goes with the square of the spacing
        expected = _mean_loss(said["mismatch"], said["coherent_mismatch"]) - finer
        assert setup["patch"]["losses"]["mean"] == pytest.approx(expected, rel=0.1)


def test_bad_arguments_are_refused(cuts):
    wrong = [
        (ValueError, "bank cannot hold 'asini'", (cuts, [0.1], BANK | dict(asini=(1, 2)), 1e-9)),
        (ValueError, "seconds must be a pair", (cuts, [(0.1, 0.1)], BANK, 1e-9)),
        (ValueError, "observations must have segments", (cuts[0].segment(0), [0.1], BANK, 1e-9)),
        (TypeError, "observations must be Observations", ([3], [0.1], BANK, 1e-9)),
        (ValueError, "at least one entry", (cuts, [], BANK, 1e-9)),
        (ValueError, "must hold freq", (cuts, [0.1], dict(alpha=1.0, delta=0.3), 1e-9)),
        (ValueError, "lowest frequency first", (cuts, [0.1], BANK | dict(freq=(61.0, 60.0)), 1e-9)),
        (ValueError, "between 0 and 1", (cuts, [1.5], BANK, 1e-9)),
        (ValueError, "pairs", (cuts, [(0.1, 0.2, 0.3)], BANK, (1e-9, 1e-10))),
        (TypeError, "observations must be a list", (None, [0.1], BANK, 1e-9)),
        (ValueError, "bank cannot hold 'mismatch'", (cuts, [0.1], BANK | dict(mismatch=0.1), 1e-9)),
        (ValueError, "a time or a pair", (cuts, [0.1], BANK, (1e-9, 1e-10, 1.0))),
    ]
    for kind, message, arguments in wrong:
        with pytest.raises(kind, match=message):
            jfstat.search_setups(*arguments, progress=False)


@pytest.mark.ci
def test_sizes_of_isolated_banks():
    seen = jfstat.observation(["H1", "L1"], START, 5 * DAY, sqrt_sx=4e-24)
    for ranges in (dict(alpha=(1.0, 1.05), delta=(0.2, 0.25), f1dot=(-1e-10, 0.0)), dict(alpha=[1, 2], delta=[0, 0.3])):
        size = jfstat.bank_size(seen, 0.2, freq=100.0, **ranges)
        bank = jfstat.template_bank(**ranges, data=seen, mismatch=0.2, freq=100.0)
        assert size == pytest.approx(len(bank.alpha), rel=0.1)
    # far more than a bank may have
    assert jfstat.bank_size(seen, 0.01, freq=1900.0, region="all", f1dot=(-1e-8, 0.0), f2dot=(0.0, 1e-16)) > 1e9
    with pytest.raises(ValueError, match="freq must be given with a mismatch"):
        jfstat.bank_size(seen, 0.2, 1.0, 0.2)
