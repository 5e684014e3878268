"""`follow_up` takes candidates through stages of fewer and longer segments, and knows how 2F of a signal grows."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import wait
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from astropy.table import QTable
from compilations import counted_compilations
from scipy.stats import beta, chi2, kstest

import jfstat
from jfstat.candidates.provenance import Provenance
from jfstat.candidates.schema import known_column
from jfstat.commandline import main
from jfstat.data.workers import in_background
from jfstat.followup import batches, coverage, rungs
from jfstat.followup import ladder as laddermodule
from jfstat.followup.band import CandidateBand
from jfstat.followup.candidates import SearchedWith
from jfstat.followup.distinct import distinct
from jfstat.followup.growth import Before, Growth, noise_chance, stage_chance
from jfstat.followup.ladder import ladder_of
from jfstat.followup.peak import _semi_axes
from jfstat.followup.rungs import UNKNOWN, Ladder
from jfstat.followup.stages import possible_divisions, stage_edges
from jfstat.maths.ball import covering_ellipsoid
from jfstat.maths.newton import Maximum
from jfstat.signal.times import gps_time

START, DAY = 1_167_458_304, 86400
REFTIME = START + 2 * DAY
FREQ, SQRT_SX = 60.02, 4e-24
NAMES = ("freq", "f1dot", "alpha", "delta")


@pytest.fixture(scope="module")
def signal():
    return jfstat.Doppler(2.1, 0.6, [FREQ, -3e-10], REFTIME), jfstat.Amplitude(h0=1.4e-25, cosi=0.3, psi=0.2, phi0=1.0)


@pytest.fixture(scope="module")
def sfts(signal):
    """Four days of H1 and L1 with the signal, and another one that ends after two days."""
    short = jfstat.Doppler(0.9, -0.2, [FREQ + 0.03, 2e-10], REFTIME), jfstat.Amplitude(2.6e-25, 0.5, 0.4, 2.0)
    whole = jfstat.simulate_sfts(["H1", "L1"], START, 4 * DAY, 59.8, 60.25, sqrt_sx=SQRT_SX, signals=[signal], seed=7)
    first = jfstat.inject(whole.select(end=START + 2 * DAY), [short])
    return jfstat.join_sfts([first, whole.select(start=START + 2 * DAY)])


@pytest.fixture(scope="module")
def found(signal):
    """Candidates near the signal, near the short one, in noise, and one that is no template."""
    point = signal[0]
    rows = np.array(
        [
            [float(point.fkdot[0]) + 1e-6, -3e-10 + 2e-12, 2.11, 0.605],
            [FREQ + 0.03, 2e-10, 0.9, -0.2],
            [FREQ + 0.015, 0.0, 1.0, 1.0],
            [FREQ, 0.0, 1.0, 4.0],
        ]
    )
    columns = {name: rows[:, i] for i, name in enumerate(NAMES)} | {"name": np.array(["a", "b", "c", "d"])}

    return QTable(columns, meta={"reftime": REFTIME, "n_twoF": 10_000})


@pytest.fixture(scope="module")
def ladder(sfts, found):
    return jfstat.follow_up(sfts, found, (4, 1), sqrt_sx=SQRT_SX, guard=0.1, progress=False)


def plain(column):
    return np.asarray(getattr(column, "value", column))


@pytest.mark.ci
def test_a_signal_ends_on_its_coherent_peak(sfts, signal, ladder):
    own = ladder[ladder["name"] == "a"]
    assert list(own["stage"]) == [0, 1] and list(own["n_segments"]) == [4, 1]
    assert all(own["passed"]) and all(own["converged"])
    data = jfstat.prepare(sfts, FREQ - 0.01, FREQ + 0.01, REFTIME, SQRT_SX, guard=0.1, filters=False)
    truth = float(jfstat.twoF(data, signal[0]))
    assert truth <= own["mean_twoF"][1] < truth + chi2.isf(1e-4, 4)
    off = np.array(
        [plain(own[name])[1] - float(x) for name, x in zip(NAMES, (*signal[0].fkdot, 2.1, 0.6), strict=True)]
    )
    assert np.all(np.abs(off) < 4.5 * np.array([plain(own[f"{name}_error"])[1] for name in NAMES]))
    assert own["expected_low"][1] < own["mean_twoF"][1] < own["expected_high"][1]
    assert np.isnan(own["expected_mean_twoF"][0]) and np.isnan(own["signal_chance"][0])
    assert np.isnan(plain(own["phi0"])[0]) and np.isfinite(plain(own["phi0"])[1])
    assert own["noise_chance"][1] < 1e-6


@pytest.mark.ci
def test_what_is_no_steady_signal_is_rejected(ladder):
    short = ladder[ladder["name"] == "b"]
    assert short["mean_twoF"][0] > 40 and short["passed"][0]
    assert short["signal_chance"][-1] < 1e-3 and not short["passed"][-1]
    assert "2F grows as little as this for a signal with a chance of" in short["message"][-1]
    noise = ladder[ladder["name"] == "c"]
    assert not noise["passed"][-1]
    bad = ladder[ladder["name"] == "d"]
    assert len(bad) == 1 and not bad["passed"][0] and bad["message"][0].startswith("not refined: delta")
    assert np.isnan(bad["mean_twoF"][0])


def ahead(own, prepared, stage):
    return in_background(partial(prepared, stage))


def test_an_error_of_a_stage_that_is_prepared_ahead_is_raised_in_that_stage(sfts, found, monkeypatch):
    prepared, refined, stages = CandidateBand.prepared, rungs.refined, []

    def failing(self, *given, **named):
        if named["segments"] is None:
            raise OSError("no such file")
        return prepared(self, *given, **named)

    monkeypatch.setattr(rungs, "prepared_ahead", ahead)
    monkeypatch.setattr(CandidateBand, "prepared", failing)
    monkeypatch.setattr(rungs, "refined", lambda *given, **named: stages.append(1) or refined(*given, **named))
    with pytest.raises(OSError, match="no such file"):
        jfstat.follow_up(sfts, found[:1], (4, 1), sqrt_sx=SQRT_SX, guard=0.1, progress=False)
    assert len(stages) == 1


def done(future):
    wait([future])
    return future


def test_data_prepared_for_nothing_are_waited_for(sfts, found, monkeypatch):
    begun = []
    monkeypatch.setattr(rungs, "prepared_ahead", lambda *given: begun.append(ahead(*given)) or begun[-1])
    fit = jfstat.Fit(bounds={"f1dot": (1e-9, 2e-9)})  # in which no candidate starts
    table = jfstat.follow_up(sfts, found[:3], (4, 1), fit, sqrt_sx=SQRT_SX, guard=0.1, progress=False)
    assert len(table) == 3 and not any(table["passed"]) and all("outside its bounds" in x for x in table["message"])
    assert len(begun) == 1 and begun[0].done() and begun[0].result().n_segments is None


@pytest.mark.ci
def test_data_of_stages_that_are_over_are_freed(sfts, found, monkeypatch):
    """On accelerators the first stage's data, of many segments, are prepared in a thread, whose result is kept."""
    refined, data, left = rungs.refined, [], []

    def spied(own, *given, **named):
        data.append(weakref.ref(own))
        gc.collect()
        left.append([x() is not None for x in data])
        return refined(own, *given, **named)

    monkeypatch.setattr(rungs, "prepared_ahead", ahead)
    monkeypatch.setattr(laddermodule, "prepared_ahead", ahead)
    monkeypatch.setattr(rungs, "refined", spied)
    stages = jfstat.Stages((4, 2, 1), veto=0)
    jfstat.follow_up(sfts, found[:1], stages, sqrt_sx=SQRT_SX, guard=0.1, progress=False)
    assert len(left) == 3 and not left[-1][0]


def test_more_segments_than_sfts_are_refused_before_data_are_prepared(sfts, found, monkeypatch):
    monkeypatch.setattr(CandidateBand, "prepared", lambda *given, **named: pytest.fail("prepared"))
    for n in (len(sfts) + 1, 10**8):
        many = found.copy()
        many.meta |= {"n_segments": n, "segment_tspan": 1800.0}
        with pytest.raises(ValueError, match=f"n_segments must be at most the number of SFTs, {len(sfts)}, not {n}"):
            jfstat.follow_up(sfts, many, sqrt_sx=SQRT_SX, guard=0.1, progress=False)


@pytest.mark.ci
def test_as_on_an_accelerator_the_ladder_is_the_same_and_others_compile_nothing(sfts, found, monkeypatch):
    tried, refined = [], rungs.refined
    monkeypatch.setattr(rungs, "refined", lambda *given, **named: tried.append(refined(*given, **named)) or tried[-1])
    run = dict(sqrt_sx=SQRT_SX, guard=0.1, progress=False)
    expected = jfstat.follow_up(sfts, found[:2], (4, 1), **run)
    monkeypatch.setattr(batches, "_on_cpu", lambda data: False)
    monkeypatch.setattr(batches, "DEVICE_SIZES", (1, 2, 4))
    monkeypatch.setattr(coverage, "SHARED_RATIO", 16)  # on a CPU wider data take a minute
    monkeypatch.setattr(rungs, "prepared_ahead", lambda *given: done(ahead(*given)))
    with counted_compilations() as names:
        table = jfstat.follow_up(sfts, found[:2], (4, 1), **run)
    shared = {"survey", "focus", "look", "climb", "measure", "describe", "_mismatches", "_fits"}
    # the second stage takes those that were foreseen: others would have been compiled beside them
    counts = {name: names.count(f"jit({name})") for name in shared}
    assert counts.pop("_fits") <= 2  # earlier tests have tables of this size
    assert counts.pop("describe") == 1  # of both stages
    assert counts == dict.fromkeys(counts, 2)
    assert list(table["candidate"]) == list(expected["candidate"]) and list(table["passed"]) == list(expected["passed"])
    for name in ("mean_twoF", "noise_chance", "steps", "start_mismatch", "peak_probability"):
        np.testing.assert_allclose(plain(table[name]), plain(expected[name]), rtol=1e-3, atol=0)
    # frequencies that are computed for all do not count for those that do not need them
    counts = [list(results.tried) for results in tried]
    assert counts[:2] == counts[2:] and len(counts) == 4
    with counted_compilations() as names:
        jfstat.follow_up(sfts, found[[0, 0, 1]], (4, 1), **run)
    shared.remove("_fits")  # another one for tables of more rows
    assert not shared & {name.removeprefix("jit(").removesuffix(")") for name in names}


def test_candidates_whose_2F_need_not_grow_are_refused(sfts, found):
    one = found[:1]
    windows, paths, named = one.copy(), one.copy(), one.copy()
    windows["t0"], windows["tau"] = [START], [DAY]
    paths["log_likelihood"] = [40.0]
    named.meta["transitions"] = [-0.7, -0.7]
    for table, said in ((windows, "of transient signals, whose windows"), (paths, "of paths"), (named, "of paths")):
        with pytest.raises(ValueError, match=f"found is {said}"):
            jfstat.follow_up(sfts, table, (4, 1), sqrt_sx=SQRT_SX, guard=0.1, progress=False)


@pytest.mark.ci
def test_the_table_has_all_stages_and_survives_files(ladder, found, tmp_path):
    assert ladder.meta["stages"] == [4, 1] and "n_segments" not in ladder.meta
    assert list(ladder["candidate"]) == sorted(ladder["candidate"])
    assert ladder.colnames[:7] == ["candidate", "stage", "n_segments", *NAMES]
    assert all(known_column(name) for name in ladder.colnames)
    again: Any = jfstat.read_candidates(jfstat.write_candidates(ladder, tmp_path / "ladder.ecsv"))
    assert again.colnames == ladder.colnames and again.meta == ladder.meta
    for name in ladder.colnames:
        assert again[name].unit == ladder[name].unit if hasattr(ladder[name], "unit") else True
        np.testing.assert_array_equal(plain(again[name]), plain(ladder[name]))
    ends: Any = jfstat.last_stage(ladder)
    assert list(ends["candidate"]) == [0, 1, 2, 3] and list(ends["name"]) == list(found["name"])
    assert ends["stage"][0] == 1
    with pytest.raises(ValueError, match="no columns 'candidate' and 'stage'"):
        jfstat.last_stage(found)


@pytest.mark.ci
def test_ends_on_one_peak_are_counted_once(ladder):
    ends: Any = jfstat.last_stage(ladder)
    ends = ends[np.asarray(ends["converged"])][[0, 0, 1]]
    alone = distinct(ends, "mean_twoF")
    assert list(alone["candidate"]) == list(ends["candidate"][1:])
    assert list(alone["n_merged"]) == [2, 1]


@pytest.mark.ci
def test_the_ladder_is_drawn(ladder):
    ax = pytest.importorskip("matplotlib.figure").Figure().add_subplot()
    assert jfstat.plots.plot_ladder(ax, ladder, expected=290.0) is ax
    assert [text.get_text() for text in ax.get_xticklabels()] == ["4", "1"]
    labels = ax.get_legend_handles_labels()[1]
    assert labels.count("rejected") == 1 and "candidate 0" in labels and "candidate 1" not in labels
    line = ax.get_lines()[labels.index("candidate 0")]
    own = ladder[ladder["candidate"] == 0]
    np.testing.assert_allclose(line.get_ydata(), own["n_segments"] * (own["mean_twoF"] - 4))


@pytest.mark.ci
def test_the_command_does_the_same(sfts, found, ladder, tmp_path, capsys):
    jfstat.write_sfts(sfts, tmp_path)
    jfstat.write_candidates(found, tmp_path / "found.ecsv")
    options = ["--DataFiles", f"{tmp_path}/*.sft", "--candidates", f"{tmp_path}/found.ecsv", "--guard", "0.1"]
    assert main(["follow-up", *options, "--stages", "4,1", "--outputFstat", f"{tmp_path}/out.ecsv"]) == 0
    out = capsys.readouterr().out
    assert "1 of 4 candidate(s) passed all stages" in out and "expected of a signal" in out
    table: Any = jfstat.read_candidates(tmp_path / "out.ecsv")
    own, same = table[table["candidate"] == 0], ladder[ladder["candidate"] == 0]
    np.testing.assert_allclose(own["mean_twoF"], same["mean_twoF"], rtol=0.05)  # with floors estimated, not given
    assert main(["follow-up", *options]) == 1
    assert "--stages is missing" in capsys.readouterr().err
    assert main(["follow-up", *options, "--stages", "1,4"]) == 1
    assert "stages must be falling numbers" in capsys.readouterr().err
    assert main(["follow-up", *options, "--stages", "4,x"]) == 1
    assert "is not falling whole numbers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stages": (1, 4)}, "stages must be falling numbers"),
        ({"stages": ()}, "stages must be falling numbers"),
        ({"stages": (4, 2.0)}, "stages must be falling numbers"),
        ({}, "does not say how many segments"),
        ({"stages": (4, 1), "fit": jfstat.Fit(["period"])}, "parameters has 'period'"),
        ({"stages": (4, 1), "fit": jfstat.Fit(bounds={"period": (1.0, 2.0)})}, "bounds has 'period'"),
    ],
)
def test_bad_arguments_are_refused(sfts, found, options, message):
    with pytest.raises(ValueError, match=message):
        jfstat.follow_up(sfts, found, progress=False, **options)


def test_rates_are_probabilities():
    with pytest.raises(ValueError, match="veto must be a probability"):
        jfstat.Stages((4, 1), veto=2)
    with pytest.raises(ValueError, match="false_alarm must be a probability"):
        jfstat.Stages((4, 1), false_alarm=-1.0)


@pytest.mark.ci
def test_what_is_fitted_is_chosen_as_in_refine(sfts, found):
    """Parameters, bounds and steps of a `Fit` hold in each stage."""
    fit = jfstat.Fit(["freq", "f1dot"], {"f1dot": (-4e-10, 4e-10)}, max_steps=30)
    ladder: Any = jfstat.follow_up(sfts, found[:3], (4, 1), fit, sqrt_sx=SQRT_SX, guard=0.1, progress=False)
    assert ladder.meta["parameters"] == ["freq", "f1dot"] and ladder.meta["max_steps"] == 30
    assert np.all(np.abs(plain(ladder["f1dot"])) <= 4e-10)
    np.testing.assert_array_equal(plain(ladder["delta"]), plain(found["delta"])[np.asarray(ladder["candidate"])])
    out = jfstat.Fit(["freq", "f1dot"], {"f1dot": (0.0, 1e-9)})
    ladder = jfstat.follow_up(sfts, found[:1], (4, 1), out, sqrt_sx=SQRT_SX, guard=0.1, progress=False)
    assert list(ladder["message"]) == ["not refined: f1dot starts outside its bounds"]


def test_without_a_sound_candidate_there_is_an_error(sfts, found):
    with pytest.raises(ValueError, match="found holds no candidate that can be followed up; the first: delta"):
        jfstat.follow_up(sfts, found[3:], (4, 1), progress=False)
    far = jfstat.Doppler(1.0, 0.3, [99.0], REFTIME)
    with pytest.raises(ValueError, match="outside the SFTs' band"):
        jfstat.follow_up(sfts, far, (4, 1), progress=False)


@pytest.mark.ci
def test_stages_are_as_few_as_the_metric_allows(sfts, signal):
    stages = jfstat.follow_up_stages(sfts, signal[0], 24)
    assert stages[0] == 24 and stages[-1] == 1
    assert all(a % b == 0 for a, b in pairwise(stages))
    few = jfstat.follow_up_stages(sfts, signal[0], 24, most_trials=30)
    assert len(few) > len(stages) and few[0] == 24 and few[-1] == 1
    assert jfstat.follow_up_stages(sfts, signal[0], 1) == (1,)
    with pytest.raises(ValueError, match="n_segments must be a whole number"):
        jfstat.follow_up_stages(sfts, signal[0], 0)


def test_stages_nest_and_leave_gaps_out(sfts):
    edges: list[Any] = list(stage_edges(sfts, (8, 4, 3, 1)))
    assert [x for pair in edges[1] for x in pair] == [
        x for k in range(4) for x in (edges[0][2 * k][0], edges[0][2 * k + 1][1])
    ]
    assert len(edges[2]) == 3 and edges[3] is None
    gap = jfstat.join_sfts([sfts.select(end=START + DAY), sfts.select(start=START + 2 * DAY)])
    assert [len(x or ()) for x in stage_edges(gap, (8, 4, 2))] == [6, 3, 2]


@pytest.fixture(scope="module")
def falls():
    """Sums of 2F over four segments, and 2F of the whole, at the same templates in noise."""
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, DAY, 99.7, 100.3, sqrt_sx=SQRT_SX, seed=11)
    parts, whole = (
        jfstat.prepare(sfts, 99.9, 100.1, START, SQRT_SX, guard=0.1, filters=False, segments=n) for n in (4, None)
    )
    freqs = jnp.asarray(99.91 + 0.18 * np.arange(400) / 400)

    def values(freq):
        point = jfstat.Doppler(1.0, 0.3, jnp.stack([freq, jnp.zeros(())]), START)
        return jfstat.sum_twoF(parts, point), jfstat.twoF(whole, point)

    return jax.tree.map(np.asarray, jax.jit(lambda: jax.lax.map(values, freqs))())


@pytest.mark.ci
def test_joined_segments_lose_a_chi_squared_part(falls):
    sums, whole = falls
    # templates 39 bins apart are independent
    assert kstest(sums - whole, chi2(12).cdf).pvalue > 1e-3
    assert kstest(whole / sums, beta(2, 6).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(sums - whole, whole)[0, 1]) < 4 / np.sqrt(len(sums))


def test_growth_of_a_loud_signal_is_that_of_the_segments(falls):
    growth = Growth.expected(np.array([1e6]), 4, 1, 0)
    assert growth.mean[0] == pytest.approx(12, rel=1e-3) and growth.variance[0] == pytest.approx(24, rel=1e-3)
    np.testing.assert_allclose(growth.chance(np.array([30.0])), chi2.sf(30.0, 12), rtol=1e-2)
    weak = Growth.expected(np.array([330.0]), 60, 10, 4)
    assert weak.mean[0] > 200 and weak.variance[0] > 400
    np.testing.assert_allclose(weak.chance(weak.fall(1e-3)), 1e-3, rtol=1e-6)
    assert weak.chance(np.array([-1.0]))[0] == 1.0


def test_weak_candidates_leave_more_open():
    """The region of a peak: 4.3 sigma, longer by 1/trust where that stays within the unit ball."""

    def radii(curvature, trust):
        hessian = -2 * trust * jnp.diag(jnp.asarray(curvature))[None]
        zero = jnp.zeros(1)
        one = Maximum(x=zero, value=zero, gradient=zero, hessian=hessian, status=zero, steps=zero)
        return np.sort(np.linalg.norm(_semi_axes(one, jnp.ones(1), jnp.asarray(trust)), axis=0))

    np.testing.assert_allclose(radii([1e5, 1e4], 1.0), 4.3 / np.sqrt([1e5, 1e4]))
    np.testing.assert_allclose(radii([400.0, 100.0], 0.5), [4.3 / np.sqrt(200) / 0.5, 1.0])
    np.testing.assert_allclose(radii([400.0, 20.0], 0.5)[1], 4.3 / np.sqrt(10))


@pytest.mark.ci
def test_steps_to_a_template_are_those_that_lead_there(sfts, signal):
    data = jfstat.observation(["H1", "L1"], START, 4 * DAY, sqrt_sx=SQRT_SX)
    rng = np.random.default_rng(2)
    orbit = jfstat.Orbit(1.3, 70_000.0, START, 0.1, 0.3)
    near_pole = jfstat.Doppler(2.1, 1.57, [800.0, 1e-9], START - 1e8, orbit)
    for point, names in ((near_pole, None), (signal[0], ("freq", "f1dot", "delta"))):
        coordinates = jfstat.whiten(data, point, names)
        x = 0.3 * rng.normal(size=len(coordinates.names))
        step = coordinates.step_to(coordinates.point(x))
        np.testing.assert_allclose(np.linalg.solve(coordinates.matrix, step), x, atol=1e-4)


def test_chance_of_noise():
    total, many = np.array([60.0]), np.array([1e4])
    assert stage_chance(total, 1, np.array([1.0]))[0] == pytest.approx(chi2.sf(60, 4), rel=1e-6)
    assert stage_chance(total, 1, many)[0] == pytest.approx(1e4 * chi2.sf(60, 4), rel=1e-3)
    # chosen from so many that the noise is 1.5 times as large there: directions decide
    divided = stage_chance(total, 1, many, Before(np.array([360.0]), 60))[0]
    assert divided == pytest.approx(1e4 * beta(2, 118).sf(1 / 6), rel=1e-2)
    assert divided > 1e4 * chi2.sf(60, 4)
    assert stage_chance(np.array([np.nan]), 1, many)[0] != 0
    # segments without data: nothing was joined, and rounding decides nothing
    assert list(stage_chance(np.array([90.0, 90.1]), 2, many, Before(np.array([90.0, 90.0]), 2))) == [1, 1]
    np.testing.assert_allclose(noise_chance(np.array([[0.3, 1e-4, 0.9], [0.2, 0.5, 0.9]])), [0.4, 2e-4, 1.0])
    assert np.isnan(noise_chance(np.array([[0.3], [np.nan]]))[0])


def test_noise_passes_a_ladder_as_rarely_as_said():
    """Noise that each stage chooses as the highest of its trials, 60 segments to 10 to 1, as directions are random."""
    rng = np.random.default_rng(5)
    n, trials = 2000, np.full(2000, 500.0)
    first = chi2(240).ppf(rng.uniform(size=n) ** (1 / 1e6))  # the loudest of a million
    second = first * beta(20, 100).rvs((500, n), random_state=rng).max(axis=0)
    last = second * beta(2, 18).rvs((500, n), random_state=rng).max(axis=0)
    steps = [stage_chance(first, 60, np.full(n, 1e6))]
    steps.append(stage_chance(second, 10, trials, Before(first, 60)))
    steps.append(stage_chance(last, 1, trials, Before(second, 10)))
    # to leave out the choice that the second stage has made would say 1e-3 of one candidate in 15
    leaving_out = 2 * np.minimum(steps[0], stage_chance(last, 1, trials, Before(first, 60)))
    assert np.mean(leaving_out < 1e-3) > 0.03
    chances = noise_chance(np.array(steps))
    for level in (1e-3, 1e-2, 0.1, 0.5):
        assert np.sum(chances <= level) <= level * n + 4 * np.sqrt(level * n) + 1


@pytest.mark.parametrize(
    ("meta", "divisions", "expected"),
    [
        ({"n_twoF": 100}, (4, 5), 0),
        ({"n_twoF": 100}, (8,), 100),
        ({"n_twoF": 100}, (), 100),  # segments of unequal lengths
        ({"n_twoF": 100}, (1,), 100),  # a coherent search
        ({}, (1,), 0),
    ],
)
def test_templates_of_a_search_with_other_segments_count_in_every_stage(meta, divisions, expected):
    found = QTable(meta=meta)
    own: dict = dict(found=found, searched=SearchedWith.of(found, ("H1",)), first=4, divisions=divisions)
    ladder = Ladder(**dict.fromkeys(Ladder._fields) | own)
    assert ladder.chosen_otherwise == expected
    assert ladder.n_templates == (100 if meta else UNKNOWN)


@pytest.mark.filterwarnings("ignore:.*segments hold no SFT")
@pytest.mark.parametrize(
    ("days", "n", "lost", "share"),
    [
        (12, 12, (), 0.6),
        (12, 12, (5,), 0.6),
        (12, 12, (1, 3, 4), 0.6),
        (4, 35, (), 1.0),  # shorter than three SFTs, as the longest is
        (4, 80, (), 1.0),
        (60, 120, (7, 8, 9, 40, 77), 0.7),
        (60, 60, (10, 11), 0.7),
    ],
)
def test_the_number_of_segments_of_a_search_includes_those_without_sfts(days, n, lost, share):
    rng, slots = np.random.default_rng(n), np.arange(days * 48)
    there = (rng.uniform(size=(2, len(slots))) < share) & ~np.isin(slots * n // len(slots), lost)
    there[:, [0, -1]] = True
    times = {name: START + 1800 * slots[own] for name, own in zip(("H1", "L1"), there, strict=True)}
    sfts = jfstat.simulate_sfts(list(times), timestamps=times, fmin=49.9, fmax=50.1, sqrt_sx=None)

    def searched(segments):
        seen = jfstat.segment_observations(sfts, segments, sqrt_sx=SQRT_SX)
        return Provenance.from_observation(seen, gps_time(START, "reftime"), ())

    own = searched(n)
    held = own.n_segments
    assert held == n - len(lost)
    assert possible_divisions(sfts, own)[0] == n
    cut = START + days * DAY * 2 / 3
    assert possible_divisions(sfts, searched([(START, cut), (cut, START + days * DAY)])) == ()
    assert possible_divisions(sfts, replace(own, segment_tspan=None)) == (held,)
    assert possible_divisions(sfts, replace(own, n_segments=None)) == (1,)


@pytest.mark.filterwarnings("ignore:.*segments hold no SFT")
def test_the_first_stage_is_a_number_of_segments_that_there_may_be():
    """Of fewer SFTs than segments of two hours."""
    times = {"H1": np.sort(START + 1800 * np.random.default_rng(1).choice(30 * 48, 40, replace=False))}
    sfts = jfstat.simulate_sfts(["H1"], timestamps=times, fmin=59.5, fmax=60.5, sqrt_sx=SQRT_SX)
    meta = {"reftime": START, "n_twoF": 1000, "n_segments": 36, "segment_tspan": 3600.0, "tspan": 30.0 * DAY}
    found = QTable({"freq": [60.0], "alpha": [1.0], "delta": [0.2]}, meta=meta)
    fit = jfstat.Fit(["freq"])
    noise = jfstat.Noise(SQRT_SX)
    numbers = ladder_of(sfts, found, jfstat.Stages(), fit, noise, "DE405", 0.2).numbers
    assert numbers[0] <= len(sfts) and numbers[-1] == 1


@pytest.mark.parametrize("radii", [(3.0, 0.2), (2.0, 1.0, 0.01), (1.5, 1.0, 0.7, 0.0)])
def test_trial_points_cover_an_ellipsoid(radii):
    rng = np.random.default_rng(3)
    q = len(radii)
    turned = np.linalg.qr(rng.normal(size=(q, q)))[0]
    points, factor = covering_ellipsoid(turned * radii, 0.5, 10_000)
    assert factor == 1 and not points[0].any()
    inside = rng.normal(size=(2000, q))
    inside *= rng.uniform(size=(2000, 1)) ** (1 / q) / np.linalg.norm(inside, axis=1, keepdims=True)
    nearest = np.min(np.linalg.norm((inside * radii @ turned.T)[:, None] - points, axis=2), axis=1)
    # its surface, where the larger ellipsoid falls short of a ball's reach, may be a little further
    assert np.mean(nearest <= 0.5) > 0.99 and nearest.max() < 0.6
    fewer, factor = covering_ellipsoid(20 * turned * radii, 0.5, 50)
    assert 0 < factor < 1 and len(fewer) < 150
