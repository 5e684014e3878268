"""The background of a search: its loudest values at other positions, and what they say of candidates."""

import json
import warnings
from dataclasses import replace

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


def mismatch_of(data):
    """Function for the mean square of the difference of two directions' phases, by the detectors' positions, with
    frequency and spin-down fitted: by a plain least-squares fit."""
    seen, places, designs, weights = data.observation, [], [], []
    for i in range(len(seen.detectors)):
        there = np.asarray(seen.weight[i]) > 0
        time = np.asarray(seen.start[i])[there] + 900.0
        trajectory = jax.tree.map(lambda x, i=i: x[i], seen.trajectory)
        places.append(np.asarray(jax.vmap(lambda t, own=trajectory: own(t).position)(time)))
        designs.append(np.stack([time**0, time, time**2], axis=1))
        weights.append(np.asarray(seen.weight[i])[there])
    root = np.sqrt(np.concatenate(weights) / np.sum(np.concatenate(weights)))[:, None]
    design, place = root * np.concatenate(designs), root * np.concatenate(places)
    design = design / np.linalg.norm(design, axis=0)

    def mismatch(first, second):
        phase = 2 * np.pi * float(data.fmin) * place @ (first - second)
        return float(np.sum((phase - design @ np.linalg.lstsq(design, phase)[0]) ** 2))

    return mismatch


@pytest.mark.parametrize(
    ("detectors", "start", "sky"),
    [(["H1"], 1182000000, (0.3, -0.5)), (["H1", "L1"], 1182000000, (2.0, 1.0)), (["H1", "L1"], START, (2.0, 0.4))],
)
def test_positions_are_apart_by_their_exact_mismatch(detectors, start, sky):
    """Of few days, phases know little of what is along the Earth's axis, and a mirror image of the source is near."""
    sfts = jfstat.simulate_sfts(detectors, start, DAYS * 86400, F - 1, F + 1)
    data = jfstat.prepare(sfts, F - 0.001, F, start)
    bank = stacked_bank(jfstat.Doppler([sky[0]] * 2, [sky[1]] * 2, [[F, 0.0], [F, -2e-10]]))
    turn = turn_of(data, bank, 20)
    own = directions(bank)[0]
    there = [turn.about(own[None], angle)[0] for angle in turn.angles]
    mismatch = mismatch_of(data)
    assert min(mismatch(own, x) for x in there) > 0.97 * 25
    assert min(mismatch(x, y) for i, x in enumerate(there) for y in there[:i]) > 0.97 * 0.5
    assert np.all(np.diff(np.abs(turn.angles)) > -1e-12) and len(set(np.sign(turn.angles))) == 2


def test_a_wide_bank_does_not_search_the_same_sky_twice(data):
    alpha = np.linspace(2.0, 2.5, 6)
    wide = stacked_bank(jfstat.Doppler(alpha, np.full(6, 0.4), np.full((6, 1), F)))
    turn = turn_of(data, wide, 10)
    turned = [directions(turn.turned(wide, angle)) for angle in (0.0, *turn.angles)]
    between = [x @ y.T for i, x in enumerate(turned) for y in turned[:i]]
    assert np.max(between) < np.cos(0.03)


def test_places_of_a_background_are_said_without_measuring_it(data, measured):
    places = jfstat.background_positions(data, BANK, 12)
    assert np.array_equal(places["rotation"], np.unique(measured["rotation"])[np.argsort(_order(measured))])
    turn = turn_of(data, stacked_bank(BANK), 12)
    turned = turn.turned(stacked_bank(BANK), float(places["rotation"][5].value))
    assert (places["alpha"][5].value, places["delta"][5].value) == (turned.alpha[1], turned.delta[1])
    assert places.meta == {"positions": 12, "axis": "velocity"}


def _order(measured):
    """Of the rotations in rising order, the number of each position."""
    first = [int(np.flatnonzero(measured["rotation"] == x)[0]) for x in np.unique(measured["rotation"])]
    return np.array(measured["position"])[first]


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


@pytest.mark.ci
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


@pytest.mark.ci
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
    # the sub-band that is not extrapolated is never as unlikely
    assert p[:3] == pytest.approx(5 * np.array(truth), rel=0.6)
    low, high = (np.array(judged[f"empirical_false_alarm_{end}"]) for end in ("low", "high"))
    assert np.all(low[:3] < 5 * np.array(truth)) and np.all(5 * np.array(truth) < high[:3])
    above = int(np.sum(maxima[:, 3] >= 50))
    assert p[3:] == pytest.approx(1 - (1 - np.array([(above + 1) / (k + 1), 1 / (k + 1)])) ** 6)
    assert low[4] == 0 and low[3] < p[3] < high[3]
    # the true probability of a sub-band lies between those that its ranks can have
    alone = by_hand(np.where(np.arange(20) < 8, 25.0, 300.0)[:, None])
    judged = jfstat.empirical_false_alarm(candidates([100.5], [400.0]), alone)
    assert judged["background"][0] == "rank" and judged["empirical_false_alarm"][0] == pytest.approx(1 / 21)
    assert judged["empirical_false_alarm_high"][0] == pytest.approx(1 - 0.05 ** (1 / 20))


def test_searches_claim_as_often_as_they_say_although_some_sub_bands_are_not_extrapolated():
    """Two of five sub-bands see a burst at some positions, and noise in the search, too; with 20 positions those two
    can never claim less than 1/21 of their own, so that only the other three reach a probability of 10 %."""
    rng, k, searches = np.random.default_rng(3), 20, 400
    claimed = []
    for _ in range(searches):
        maxima = rng.gumbel(25, 2.1, (k + 1, 5))
        burst = rng.permuted(np.arange(k + 1) < 7)
        maxima[burst, 3:] = rng.uniform(100, 300, (7, 2))
        judged = jfstat.empirical_false_alarm(candidates(100.5 + np.arange(5), maxima[-1]), by_hand(maxima[:-1]))
        assert judged.meta["background"]["rank"] >= 2
        claimed.append(judged.meta["empirical_false_alarm"])
    for alarm in (0.05, 0.1):
        error = np.sqrt(alarm * (1 - alarm) / searches)
        assert abs(np.mean(np.array(claimed) <= alarm) - alarm) < 2.5 * error


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
        pytest.param(
            jfstat.Transient(jfstat.TransientRange("rect", [START, START + 40000], [40000.0]), ranking="BtSG"),
            marks=pytest.mark.slow,
        ),
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
    positions = 15 if statistic.name == "Transient" else 30  # of windows each takes a second
    own = jfstat.background(data, bank, statistic, positions, **QUIET)
    assert own.colnames[-1] == column
    judged = jfstat.empirical_false_alarm(found, own)
    order = np.argsort(-np.array(judged[column]))
    assert 1e-3 < judged["empirical_false_alarm"][order[0]] <= 1  # of noise, the same for all statistics
    loudest = np.array([np.max(own[column][own["position"] == i]) for i in range(positions)])
    assert 0.7 < np.median(loudest) / found[column].max() < 1.3
    threshold = jfstat.empirical_thresholds(own, 0.01)["threshold"]
    assert np.all(threshold > np.median(own[column]))


def test_power_along_tracks_needs_longer_data(sfts):
    power = jfstat.normalise(sfts, F - 0.02, F)
    with pytest.raises(ValueError, match="positions must be 10 or more, and there is room for 0"):
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
    with pytest.raises(ValueError, match="is of another background: what differs is number of positions"):
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
        (dict(bank=allsky), "positions must be 10 or more, and there is room for 0"),
        (dict(positions=9), "positions must be a whole number from 10 to 10000, not 9, or None"),
        (dict(positions=5000), r"positions=5000, and there is room for \d+ that these data tell apart: ask for fewer"),
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


@pytest.mark.ci
def test_backgrounds_of_other_searches_are_refused(sfts, data, measured):
    prior, other = jfstat.BSGL(jfstat.LinePrior(5.0)), jfstat.BSGL(jfstat.LinePrior(60.0))
    found = jfstat.search(data, BANK, prior, top=3, **QUIET)
    with pytest.raises(ValueError, match=r"of another search: Fstar0 is 60.0 there, and 5.0 in found"):
        jfstat.empirical_false_alarm(found, jfstat.background(data, BANK, other, 10, **QUIET))
    windows = jfstat.TransientRange("rect", [START, START + 40000], [40000.0])
    found = jfstat.search(data, BANK, jfstat.Transient(windows, "BtSG"), top=3, **QUIET)
    with pytest.raises(ValueError, match="of another ranking: it has max_twoF_band, and found log10BtSG_band"):
        own = jfstat.background(data, BANK, jfstat.Transient(windows), 10, **QUIET)
        jfstat.empirical_false_alarm(found, own)
    elsewhere = jfstat.Doppler([1.9, 1.9], [0.4, 0.4], BANK.fkdot)
    with pytest.raises(ValueError, match="of another bank, whose alpha is 2 to 2"):
        jfstat.empirical_false_alarm(jfstat.search(data, elsewhere, top=3, **QUIET), measured)
    loud = jfstat.SFTs(tuple(replace(x, data=2 * x.data) for x in sfts), sfts.tsft, sfts.first_bin)
    with pytest.raises(ValueError, match="of other data, with other noise floors"):
        found = jfstat.search(jfstat.prepare(loud, F - 0.02, F, START), BANK, top=3, **QUIET)
        jfstat.empirical_false_alarm(found, measured)
    refined = jfstat.refine(data, jfstat.search(data, BANK, top=1, **QUIET), **QUIET)
    with pytest.raises(ValueError, match="found has no statistic in its meta: give the table of a search"):
        jfstat.empirical_false_alarm(refined, measured)


def test_an_empty_table_is_judged(data, measured):
    found = jfstat.search(data, BANK, threshold=1e4, **QUIET)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judged = jfstat.empirical_false_alarm(found, measured)
    assert len(judged) == 0 and "empirical_false_alarm" in judged.colnames
    assert judged.meta["empirical_false_alarm"] is None
