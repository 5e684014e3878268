"""The background of a search: its loudest values at other positions, and what they say of candidates."""

import json
import warnings

import jax
import numpy as np
import pytest
from astropy.table import QTable
from scipy.stats import gumbel_r

import jfstat
from jfstat.searching.bank import stacked_bank
from jfstat.searching.offsource import _poles, directions, turn_of

START, DAYS, F = 1_167_458_304, 2, 400.0
QUIET = dict(progress=False)
BANK = jfstat.Doppler([2.0, 2.0], [0.4, 0.4], [[F, 0.0], [F, -2e-10]])


@pytest.fixture(scope="module")
def sfts():
    return jfstat.simulate_sfts(["H1", "L1"], START, DAYS * 86400, F - 1, F + 1, seed=5)


@pytest.fixture(scope="module")
def data(sfts):
    return jfstat.prepare(sfts, F - 0.02, F, START)


@pytest.fixture(scope="module")
def measured(data):
    return jfstat.background(data, BANK, positions=12, **QUIET)


def test_a_background_holds_the_loudest_values_of_the_turned_bank(data, measured):
    angle = np.array(measured["rotation"])[np.array(measured["position"]) == 7][0]
    turn = turn_of(data, stacked_bank(BANK), 12)
    assert turn.axis == measured.meta["axis"] == "velocity" and angle == turn.angles[7]
    found = jfstat.search(data, turn.turned(stacked_bank(BANK), angle), top=5, **QUIET)
    own = measured[measured["position"] == 7]
    for name, key in (("fmin", "start"), ("fmax", "stop"), ("twoF", "twoF")):
        assert np.array(own[name]).tolist() == found.meta["loudest_per_subband"][key]
    assert measured.colnames == ["position", "rotation", "fmin", "fmax", "twoF"]
    assert str(measured["rotation"].unit) == "rad" and str(measured["fmin"].unit) == "Hz"
    assert measured.meta["positions"] == 12 and measured.meta["n_templates"] == 2
    assert not {"top", "loudest_per_subband", "false_alarm"} & set(measured.meta)


def test_positions_are_near_and_on_both_sides_and_apart(data):
    angles = turn_of(data, stacked_bank(BANK), 20).angles
    assert len(set(np.round(angles, 12))) == 20 and np.abs(angles).max() < np.pi
    assert sorted(angles)[:10] == pytest.approx(-np.array(sorted(angles)[10:])[::-1])
    few = turn_of(data, stacked_bank(BANK), 10).angles
    assert few[:2].tolist() == angles[:2].tolist() and np.abs(few[2]) > np.abs(angles[2])  # there is more room
    wide = stacked_bank(jfstat.Doppler([2.0, 2.5], [0.4, 0.4], [[F, 0.0]] * 2))
    assert np.abs(turn_of(data, wide, 10).angles).min() > np.abs(few).min() + 0.05


def test_positions_keep_the_mean_doppler_shift_or_the_ecliptic_latitude(data):
    usual = turn_of(data, stacked_bank(BANK), 20)
    earth = jfstat.observation(["H1"], start=START, duration=DAYS * 86400).trajectory
    ends = [np.asarray(jax.tree.map(lambda x: x[0], earth)(t).position) for t in (0.0, DAYS * 86400.0)]
    velocity = (ends[1] - ends[0]) / np.linalg.norm(ends[1] - ends[0])
    assert usual.axis == "velocity" and usual.pole @ velocity > 0.999
    # where the detectors go to, all positions would be near
    alpha, delta = np.mod(np.arctan2(*usual.pole[1::-1]), 2 * np.pi), np.arcsin(usual.pole[2])
    bank = stacked_bank(jfstat.Doppler([alpha, alpha + 0.1], [delta, delta + 0.05], [[F, 0.0]] * 2))
    turn = turn_of(data, bank, 20)
    assert turn.axis == "ecliptic"
    turned = turn.turned(bank, 0.7)
    before, after = directions(bank), directions(turned)
    assert after @ turn.pole == pytest.approx(before @ turn.pole)  # ecliptic latitudes
    assert after @ after.T == pytest.approx(before @ before.T)
    east = np.array([1.0, 0.0, 0.0])
    longitudes = [np.arctan2(x @ np.cross(turn.pole, east), x @ east) for x in (before, after)]
    assert np.mod(longitudes[1] - longitudes[0], 2 * np.pi) == pytest.approx(0.7)
    own = jfstat.background(data, bank, positions=20, **QUIET)
    assert own.meta["axis"] == "ecliptic" and len(set(own["position"])) == 20
    year = jfstat.observation(["H1"], timestamps=START + 86400 * np.arange(365), sqrt_sx=1e-23)
    assert list(_poles(year)) == ["ecliptic", "Earth"]


def test_a_loud_signal_is_subtracted_from_the_data_of_its_background(sfts):
    """Of a signal of 2F = 1000 in two days the nearest positions show enough to look like a line."""
    point = jfstat.Doppler(2.0, 0.4, [F - 0.01, -1e-10], START)
    loud = jfstat.inject(sfts, [(point, jfstat.Amplitude(1.2e-24, 0.3, 0.1, 1.0))])
    data = jfstat.prepare(loud, F - 0.02, F, START)
    found = jfstat.search(data, BANK, top=1, **QUIET)
    best = jfstat.refine(data, found, **QUIET)[0]
    amplitude = jfstat.Amplitude(best["h0"], best["cosi"], best["psi"], best["phi0"].value + np.pi)
    clean = jfstat.add_signal(data, jfstat.Doppler.from_row(best), amplitude)
    with_it, without = (jfstat.background(x, BANK, positions=20, **QUIET) for x in (data, clean))
    assert found["twoF"][0] > 1000 and 60 < np.max(with_it["twoF"]) < 0.4 * found["twoF"][0]
    assert np.max(without["twoF"]) < 40
    judged = jfstat.empirical_false_alarm(found, without)
    assert judged["background"][0] == "common" and judged["empirical_false_alarm"][0] < 1e-20


def test_in_gaussian_noise_the_formula_is_measured(data):
    found = jfstat.search(data, BANK, top=20, **QUIET)
    own = jfstat.background(data, BANK, **QUIET)
    judged = jfstat.empirical_false_alarm(found, own)
    assert own.meta["positions"] == judged.meta["background"]["positions"] >= 50
    assert judged.meta["empirical_false_alarm"] == judged["empirical_false_alarm"].min()
    # neighbouring frequencies are not independent: the formula says too much
    assert 0.6 * found.meta["false_alarm"] < judged.meta["empirical_false_alarm"] < 1.1 * found.meta["false_alarm"]
    low, high = judged["empirical_false_alarm_low"], judged["empirical_false_alarm_high"]
    assert np.all((low < judged["empirical_false_alarm"]) & (judged["empirical_false_alarm"] < high))
    said = jfstat.summary(judged).splitlines()[-1]
    assert said.strip().startswith("smallest false-alarm probability of a candidate, measured at")


def by_hand(maxima, **meta):
    """A background with maxima (K, n) of n sub-bands of 1 Hz from 100 Hz on."""
    k, n = maxima.shape
    columns = {"position": np.repeat(np.arange(k), n), "fmin": np.tile(100.0 + np.arange(n), k)}
    columns |= {"fmax": columns["fmin"] + 1, "twoF": maxima.ravel()}
    return QTable(columns, meta={"statistic": "TwoF", "reftime": START, "positions": k} | meta)


def candidates(freq, twoF):
    return QTable({"freq": np.asarray(freq), "twoF": np.asarray(twoF)}, meta={"statistic": "TwoF", "reftime": START})


def test_each_sub_band_has_the_distribution_of_its_own_maxima():
    rng, k = np.random.default_rng(7), 200
    maxima = rng.gumbel(25, 2.1, (k, 6))
    maxima[:, 1] += 20  # a louder sub-band
    maxima[:, 2] = rng.gumbel(60, 12, k)  # a line
    maxima[:, 3] = np.where(rng.uniform(size=k) < 0.3, rng.uniform(100, 300, k), maxima[:, 3])  # seen at some positions
    judged = jfstat.empirical_false_alarm(
        candidates([100.5, 101.5, 102.5, 103.5, 103.5], [50, 70, 130, 50, 400]), by_hand(maxima)
    )
    assert judged["background"].tolist() == ["common", "common", "own", "rank", "rank"]
    assert judged.meta["background"] == {"positions": k, "subbands": 6, "common": 4, "own": 1, "rank": 1}
    truth = [gumbel_r.sf(50, 25, 2.1), gumbel_r.sf(70, 45, 2.1), gumbel_r.sf(130, 60, 12)]
    p = np.array(judged["empirical_false_alarm"])
    assert p[:3] == pytest.approx(6 * np.array(truth), rel=0.6)
    low, high = (np.array(judged[f"empirical_false_alarm_{end}"]) for end in ("low", "high"))
    assert np.all(low[:3] < 6 * np.array(truth)) and np.all(6 * np.array(truth) < high[:3])
    above = int(np.sum(maxima[:, 3] >= 50))
    assert p[3:] == pytest.approx(1 - (1 - np.array([(above + 1) / (k + 1), 1 / (k + 1)])) ** 6)
    assert low[4] == 0 and low[3] < p[3] < high[3]


def test_thresholds_have_the_false_alarm_probability():
    rng = np.random.default_rng(8)
    maxima = rng.gumbel(25, 2.1, (40, 3))
    maxima[:, 2] = np.where(np.arange(40) < 10, 25, 300)
    own = by_hand(maxima)
    table = jfstat.empirical_thresholds(own, 0.02)
    judged = jfstat.empirical_false_alarm(candidates(np.array(table["fmin"][:2]) + 0.5, table["threshold"][:2]), own)
    assert judged["empirical_false_alarm"] == pytest.approx(0.02)
    assert table["background"].tolist() == ["common", "common", "rank"]
    assert np.isinf(table["threshold"][2]) and np.isnan(table["threshold_error"][2])
    assert 0.3 < table["threshold_error"][0] < 3
    loose = jfstat.empirical_thresholds(own, 0.9)
    assert loose["threshold"][2] == 300.0  # more than half of the maxima may be louder
    assert jfstat.empirical_thresholds(by_hand(np.full((20, 1), 25.0)), 0.5)["background"].tolist() == ["rank"]


@pytest.mark.ci
@pytest.mark.parametrize(
    "statistic",
    [
        jfstat.TwoF(),
        jfstat.BSGL(),
        jfstat.Transient(jfstat.TransientRange("rect", [START, START + 40000], [40000.0])),
        jfstat.Transient(jfstat.TransientRange("rect", [START, START + 40000], [40000.0]), ranking="BtSG"),
        jfstat.MeanTwoF(),
        jfstat.Interpolated(0.1),
        jfstat.BestPath(1),
        jfstat.BestPath(1, subband=0.005),
        jfstat.BSGLtL(),
    ],
    ids=lambda x: x.name,
)
def test_every_statistic_has_a_background(statistic, sfts):
    segments = statistic.name in ("MeanTwoF", "Interpolated", "BestPath", "BSGLtL")
    data = jfstat.prepare(sfts, F - 0.02, F, START, segments=43200.0 if segments else None)
    bank = jfstat.template_bank(2.0, 0.4, (-4e-10, 0.0), freq=(F - 0.02, F), mismatch=0.5, data=data)
    found = jfstat.search(data, bank, statistic, top=30, **QUIET)
    column = type(statistic).loudness(found.meta)
    own = jfstat.background(data, bank, statistic, 30, **QUIET)
    assert own.colnames[-1] == column
    judged = jfstat.empirical_false_alarm(found, own)
    order = np.argsort(-np.array(judged[column]))
    assert 0.05 < judged["empirical_false_alarm"][order[0]] <= 1  # of noise
    loudest = np.array([np.max(own[column][own["position"] == i]) for i in range(30)])
    assert 0.8 < np.median(loudest) / found[column].max() < 1.25
    threshold = jfstat.empirical_thresholds(own, 0.01)["threshold"]
    assert np.all(threshold > np.median(own[column]))


def test_power_along_tracks_needs_longer_data(sfts):
    power = jfstat.normalise(sfts, F - 0.02, F)
    with pytest.raises(ValueError, match="positions must be 10 or more, and for this bank and these data no position"):
        jfstat.background(power, BANK, **QUIET)
    times = (START + 43200 * np.arange(400)).tolist()
    longer = jfstat.simulate_sfts(["H1"], timestamps=times, fmin=F - 0.5, fmax=F + 0.5)
    own = jfstat.background(jfstat.normalise(longer, F - 0.01, F), BANK, positions=10, **QUIET)
    assert own.colnames[-1] == "critical_ratio"


def test_vetoed_lines_are_left_out(data, tmp_path):
    (tmp_path / "H1lines.txt").write_text(f"{F - 0.004},0,0,1,1,0.001,0.001,line\n")
    lines = jfstat.read_lines(tmp_path / "H1lines.txt")
    own = jfstat.background(data, BANK, positions=10, lines=lines, **QUIET)
    bare = jfstat.background(data, BANK, positions=10, **QUIET)
    assert own.meta["veto_lines"] is True and own.meta["n_twoF"] < bare.meta["n_twoF"]
    found = jfstat.search(data, BANK, keep=jfstat.Keep(lines=lines, veto_lines=True), **QUIET)
    assert len(jfstat.empirical_false_alarm(found, own)) == len(found)
    with pytest.raises(
        ValueError, match="background is of another search: veto_lines is None there, and True in found"
    ):
        jfstat.empirical_false_alarm(found, bare)


def test_a_background_goes_on_from_its_checkpoint(data, measured, tmp_path, monkeypatch):
    path, plan = tmp_path / "b", jfstat.searching.plan.SearchPlan
    calls, loudest = [], plan.loudest

    def counted(self):
        if len(calls) == 5:
            raise KeyboardInterrupt
        calls.append(1)
        return loudest(self)

    monkeypatch.setattr(plan, "loudest", counted)
    with pytest.raises(KeyboardInterrupt):
        jfstat.background(data, BANK, positions=12, checkpoint=path, **QUIET)
    monkeypatch.setattr(plan, "loudest", lambda self: calls.append(1) or loudest(self))
    again = jfstat.background(data, BANK, positions=12, checkpoint=path, **QUIET)
    assert len(calls) == 12
    for name in measured.colnames:
        assert np.array_equal(again[name], measured[name])
    assert again.meta == measured.meta
    with pytest.raises(ValueError, match="is of another background: what differs is the positions; name another file"):
        jfstat.background(data, BANK, positions=11, checkpoint=path, **QUIET)
    with pytest.raises(ValueError, match="is of another background: what differs is statistic"):
        jfstat.background(data, BANK, jfstat.BSGL(), positions=12, checkpoint=path, **QUIET)
    path.write_bytes(path.read_bytes().replace(b"twoF", b"twoG", 1))
    with pytest.raises(ValueError, match="is no checkpoint of a background, or damaged"):
        jfstat.background(data, BANK, positions=12, checkpoint=path, **QUIET)


def test_a_background_is_kept_in_files(measured, tmp_path):
    path = jfstat.write_candidates(measured, tmp_path / "b.ecsv")
    again = jfstat.read_candidates(path)
    one, other = (jfstat.empirical_thresholds(table, 0.1) for table in (measured, again))
    assert np.array_equal(one["threshold"], other["threshold"]) and json.dumps(one.meta) == json.dumps(other.meta)


def test_what_cannot_be_measured_is_refused(data, measured):
    allsky = jfstat.template_bank((0.0, 6.2, 0.5), (-1.0, 1.0, 0.5), f1dot=[0.0], data=data)
    refused = [
        (dict(bank=allsky), "no position can be told apart"),
        (dict(positions=9), "positions must be a whole number from 10 to 10000, not 9, or None"),
        (dict(positions=5000), r"for this bank and these data \d+ positions can be told apart"),
        (dict(run=jfstat.Run(unit=(1, 2))), "run has a unit"),
        (dict(lines=3), "lines must be"),
    ]
    for given, said in refused:
        with pytest.raises((ValueError, TypeError), match=said):
            jfstat.background(data, given.pop("bank", BANK), **given, **QUIET)
    found = jfstat.search(data, BANK, top=3, **QUIET)
    with pytest.raises(ValueError, match="background has no positions in its meta"):
        jfstat.empirical_thresholds(found)
    with pytest.raises(ValueError, match="background is of another search: n_templates is 2 there, and 1 in found"):
        jfstat.empirical_false_alarm(jfstat.search(data, BANK[0], top=3, **QUIET), measured)
    found["freq"][0] *= 1.1
    with pytest.raises(ValueError, match="background has no sub-band for the candidate at"):
        jfstat.empirical_false_alarm(found, measured)
    with pytest.raises(ValueError, match="found lacks the column 'twoF'"):
        jfstat.empirical_false_alarm(found["freq", "alpha"], measured)


def test_an_empty_table_is_judged(data, measured):
    found = jfstat.search(data, BANK, threshold=1e4, **QUIET)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judged = jfstat.empirical_false_alarm(found, measured)
    assert len(judged) == 0 and "empirical_false_alarm" in judged.colnames
    assert judged.meta["empirical_false_alarm"] is None
