"""Set-ups of searches over segments compared by cost and depth."""

import json
from pathlib import Path

import numpy as np
import pytest
from astropy import units
from scipy.special import comb, gammaln
from scipy.stats import binom, chi2, ncx2

import jfstat
from jfstat.limits.analytic import unit_power
from jfstat.maths.lattices import expected_points
from jfstat.searching.setups import (
    BETWEEN_FREQUENCIES,
    INTERPOLATED_FREQUENCY,
    NEAREST_FREQUENCY,
    REFINED_MISMATCH,
    _mean_loss,
)

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


def test_followed_setups_meet_both_thresholds(cuts, setups):
    followed, false_alarm = 50.0, 0.01
    table = jfstat.search_setups(
        cuts, [0.2, (0.2, 0.4), (0.9, 0.4)], BANK, (1e-9, 1e-10), progress=False, followed=(followed, 2.0)
    )
    assert table.meta["followed"] == [followed, 2.0]
    for row in table:
        observation = next(x for x in cuts if x.n_segments == row["n_segments"])
        k, power = unit_power(observation, None, 0.0, 4000, 0)
        beyond = chi2.sf([row["threshold"] * k, row["refined_threshold"] * k], 4 * k)
        assert beyond[0] * row["n_twoF"] == pytest.approx(followed)
        n_frequencies = row["n_twoF"] / row["n_templates"]
        n = jfstat.bank_size(observation, 0.02, **BANK) * n_frequencies * np.sqrt(np.pi**2 / 48 / 0.02)
        assert 1 - (1 - beyond[1]) ** n == pytest.approx(false_alarm, rel=1e-3)
        seen = power * (1 - _mean_loss(row["mismatch"], row["coherent_mismatch"]))
        found = np.mean(ncx2.sf(row["threshold"] * k, 4 * k, row["h0"] ** 2 * seen))
        refined = np.mean(ncx2.sf(row["refined_threshold"] * k, 4 * k, row["h0"] ** 2 * power))
        assert found + refined - 1 == pytest.approx(0.95, abs=1e-6)
    # the same set-up without follow-up costs as much, but for 50 candidates of 2 s, and has a higher threshold
    for row in setups:
        same = (table["mismatch"] == row["mismatch"]) & (table["coherent_mismatch"] == row["coherent_mismatch"])
        own = table[same & (table["n_segments"] == row["n_segments"])][0]
        assert own["seconds"].value == pytest.approx(row["seconds"].value + 100.0)
        assert own["threshold"] < row["threshold"] < own["refined_threshold"]
    # a coarse bank loses less depth if its candidates are followed up
    coarse, fine = (table[table["mismatch"] == m] for m in (0.9, 0.2))
    alone = jfstat.search_setups(cuts, [(0.9, 0.4)], BANK, (1e-9, 1e-10), progress=False)
    assert max(coarse["depth"]) / max(fine["depth"]) > max(alone["depth"]) / max(setups["depth"])


def test_everything_is_followed_if_there_are_fewer_values(cuts):
    alone = jfstat.search_setups(cuts[0], 0.2, BANK, 1e-9, progress=False)
    table = jfstat.search_setups(cuts[0], 0.2, BANK, 1e-9, progress=False, followed=(1e12, 1e-6))
    assert table["threshold"][0] == 0 and table["h0"][0] > 0
    assert table["seconds"][0].value == pytest.approx(alone["seconds"][0].value + 1e-6 * alone["n_twoF"][0])


def peak_density(n_parameters, value, degrees):
    """Expected number of peaks per volume of a chi-squared field by its Euler characteristic (Worsley 1994).

    The covariance of the underlying Gaussian fields falls with half the mismatch, so that the volume is the metric's.
    """
    total = 0.0
    for i in range((n_parameters - 1) // 2 + 1):
        for j in range(n_parameters - 2 * i):
            if degrees >= n_parameters - j - 2 * i:
                sign = (-1) ** (n_parameters - 1 + i + j)
                scale = gammaln(n_parameters) - gammaln(i + 1) - gammaln(j + 1) - i * np.log(2)
                total += sign * comb(degrees - 1, n_parameters - 1 - j - 2 * i) * np.exp(scale) * value ** (i + j)
    log = 0.5 * (degrees - n_parameters) * np.log(value) - value / 2 - 0.5 * (degrees - 2) * np.log(2)
    return total * np.exp(log - gammaln(degrees / 2)) / (2 * np.pi) ** (n_parameters / 2)


def test_peaks_are_about_as_many_as_values_of_the_bank_that_thresholds_assume():
    for n_parameters in range(1, 6):
        # a lattice times frequencies as far apart as the mismatch says
        lattice = expected_points(0.0, n_parameters - 1, float(np.sqrt(REFINED_MISMATCH)))
        values = lattice / (2 * np.sqrt(REFINED_MISMATCH))
        for degrees in (4, 40, 104, 400):
            for p in (1e-8, 1e-12, 1e-17, 1e-20, 1e-24):
                peaks = peak_density(n_parameters, chi2.isf(p, degrees), degrees)
                assert 0.02 < peaks / (values * p) < 2.3
    # frequencies 1/(2T) apart are twice this mismatch's distance apart: half way, (2 pi T)^2 (1/(4T))^2 / 12 is lost
    assert pytest.approx((2 * np.pi / 4) ** 2 / 12) == BETWEEN_FREQUENCIES


def test_mean_losses_are_those_measured():
    """Ten cases of 2000 random signals, and six searches on a GPU."""
    examples = Path(__file__).parents[2] / "examples"
    banks = json.loads((examples / "segments_coverage.json").read_text())["banks"]
    for m in (0.1, 0.3):
        own = [bank for bank in banks if bank["mismatch"] == bank["coherent_mismatch"] == m]
        assert len(own) == 5
        alone, both = (np.mean([bank[name]["mean"] for bank in own]) for name in ("template", "bins"))
        assert _mean_loss(m, 0.0) - NEAREST_FREQUENCY == pytest.approx(alone, rel=0.1)
        assert _mean_loss(m, m) == pytest.approx(both, rel=0.1)
    names = "one_hertz_setups.json", "one_hertz_followed.json"
    for setup in [own for name in names for own in json.loads((examples / name).read_text())["setups"]]:
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
    for followed, message in ((1e6, "must be a pair"), ((1e6, 0.0), r"followed\[1\] must be positive")):
        with pytest.raises(ValueError, match=message):
            jfstat.search_setups(cuts, [0.1], BANK, 1e-9, progress=False, followed=followed)


def test_committed_numbers_of_the_followed_search():
    """Depth and cost beside the search without follow-up, signals and noise, and Weave's way of adding on a GPU."""
    root = Path(__file__).parents[2]

    def measured(name):
        return json.loads((root / "examples" / name).read_text())

    alone = measured("one_hertz_setups.json")["setups"][0]
    for setup in measured("one_hertz_followed.json")["setups"]:
        assert setup["patch"]["depth"] > alone["patch"]["depth"]
        weak, noise = setup["patch"]["weak_signals"], setup["patch"]["noise"]
        assert weak["at_their_peaks"] == weak["signals"] == 60
        assert binom.cdf(weak["detected"], 60, weak["expected"]) > 0.01
        assert weak["of_noise_detected"] == 0
        seen, expected = noise["above_threshold_of_search"], noise["above_threshold_of_search_expected"]
        assert abs(seen - expected) < 3 * expected**0.5
        assert all(own <= most for own, most in zip(noise["above"], noise["at_most_expected"], strict=True))
    first = measured("one_hertz_followed.json")["setups"][0]["patch"]
    whole = "whole_search_at_the_speed_of_the_patch"
    assert first[whole]["seconds"] < 2e5
    assert first[whole]["seconds"] / alone[whole]["seconds"] == pytest.approx(0.28, abs=0.01)
    theirs = measured("one_hertz_weave_cuda.json")
    assert theirs["seconds_a_sum"] / theirs["beside"]["seconds_a_sum"] == pytest.approx(16, abs=1)


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
