"""Candidates of power along tracks are followed up to coherent 2F without being told the stages."""

from __future__ import annotations

from itertools import pairwise

import jax
import numpy as np
import pytest
from astropy.table import QTable

import jfstat
from jfstat.commandline import main
from jfstat.followup import ladder
from jfstat.followup.rungs import _first_region
from jfstat.followup.stages import Steps, tracks_regions

START, DAY, SQRT_SX = 1_167_458_304, 86400, 1e-23
NAMES = ("freq", "f1dot")


@pytest.fixture(scope="module")
def signal():
    return jfstat.Doppler(2.1, 0.4, [100.02, -2e-8], START), jfstat.Amplitude(SQRT_SX / 10, 0.5, 0.3, 1.0)


@pytest.fixture(scope="module")
def sfts(signal):
    return jfstat.simulate_sfts(["H1", "L1"], START, 6 * DAY, 99.8, 100.3, sqrt_sx=SQRT_SX, signals=[signal], seed=4)


@pytest.fixture(scope="module")
def found(sfts):
    data = jfstat.normalise(sfts, 100.0, 100.05, sqrt_sx=SQRT_SX)
    bank = jfstat.template_bank(2.1, 0.4, f1dot=(-5e-8, 0.0), data=data, mismatch=0.3, reftime=START)
    return jfstat.search(data, bank, top=1, progress=False)


def test_the_first_stage_is_chosen_by_the_metric_of_tracks(sfts, signal):
    stages = jfstat.follow_up_stages(sfts, signal[0], None, parameters=NAMES)
    assert 1 < stages[0] <= 6 * DAY / (4 * 1800) and stages[-1] == 1
    assert all(a > b for a, b in pairwise(stages))
    steps = Steps.of(sfts, signal[0], NAMES, "DE405")
    assert steps.trials(steps.of_tracks, stages[0]) <= 1000 and steps.bins(steps.of_tracks, stages[0]) <= 32
    few = jfstat.follow_up_stages(sfts, signal[0], None, parameters=NAMES, most_trials=30)
    assert few[0] > stages[0] and steps.trials(steps.of_tracks, few[0]) <= 30
    with pytest.raises(
        ValueError, match="power along tracks leaves so much open in freq, f1dot that 72 segments would"
    ):
        jfstat.follow_up_stages(sfts, signal[0], None, parameters=NAMES, most_trials=1)


def test_the_region_is_the_unit_ball_of_tracks(sfts, signal):
    """On its edge the mean of (pi^2/3) (T df)^2 over SFTs, of exact frequencies, is 1."""
    observation = jfstat.observation(sfts, reftime=START, sqrt_sx=SQRT_SX)
    point = signal[0]
    one = jax.tree.map(lambda x: np.asarray(x)[None], point)
    spread = np.asarray(tracks_regions(observation, one, NAMES, np.int32(1), 1))[0]
    times = np.concatenate([observation.start[0] + x for x in (450.0, 1350.0)])
    for angle in np.linspace(0, np.pi, 7):
        step = spread @ [np.cos(angle), np.sin(angle)]
        # df of an isolated source: what both parameters change, up to the Doppler factor of 1e-4
        df = step[0] + step[1] * times
        assert np.mean(np.pi**2 / 3 * (1800 * df) ** 2) == pytest.approx(1, rel=0.01)


@pytest.mark.ci
def test_candidates_of_tracks_end_on_their_coherent_peak(sfts, signal, found, tmp_path, capsys):
    table = jfstat.follow_up(sfts, found, sqrt_sx=SQRT_SX, guard=0.1, progress=False)
    last = jfstat.last_stage(table)
    assert table.meta["stages"] == list(jfstat.follow_up_stages(sfts, signal[0], None, parameters=NAMES))
    assert list(last["passed"]) == [True] and list(last["n_segments"]) == [1]
    assert list(table["message"]) == ["converged"] * len(table)
    for name, value in zip(NAMES, np.asarray(signal[0].fkdot), strict=True):
        assert np.all(np.abs(last[name].value - value) < 5 * last[f"{name}_error"].value)
    data = jfstat.prepare(sfts, 100.0, 100.05, sqrt_sx=SQRT_SX, guard=0.1)
    assert np.all(last["mean_twoF"] >= float(jfstat.twoF(data, signal[0])) - 0.1)
    # the command, from files
    jfstat.write_sfts(sfts, tmp_path)
    jfstat.write_candidates(found, tmp_path / "found.ecsv")
    files = ["--DataFiles", f"{tmp_path}/*.sft", "--candidates", f"{tmp_path}/found.ecsv"]
    own = ["--guard", "0.1", "--assumeSqrtSX", str(SQRT_SX), "--outputFstat", f"{tmp_path}/out.ecsv"]
    assert main(["follow-up", *files, *own]) == 0
    assert "1 of 1 candidate(s) passed all stages" in capsys.readouterr().out
    again = jfstat.read_candidates(tmp_path / "out.ecsv")
    np.testing.assert_allclose(jfstat.last_stage(again)["mean_twoF"], last["mean_twoF"], rtol=1e-6)


@pytest.mark.ci
@pytest.mark.parametrize("period", [0.0, np.nan])
def test_isolated_candidates_beside_binaries_have_regions_of_their_own(sfts, period):
    columns = {"freq": np.full(4, 100.02), "alpha": np.full(4, 2.1), "delta": np.full(4, 0.4), "f1dot": np.zeros(4)}
    columns |= {"asini": np.array([0.2, 0.0, 0.2, 0.0]), "period": np.array([DAY, period, DAY, period])}
    columns |= {"tp": np.array([START, period, START, period]), "ecc": np.zeros(4), "argp": np.zeros(4)}
    meta = {"statistic": "TrackPower", "reftime": START}
    fit, noise = jfstat.Fit(["freq", "asini"]), jfstat.Noise(SQRT_SX)
    for order in ([0, 1, 2, 3], [1, 0, 3, 2]):
        table = QTable({name: x[order] for name, x in columns.items()}, meta=meta)
        own = ladder.ladder_of(sfts, table, jfstat.Stages((36, 1)), fit, noise, "DE405", 0.1)
        spread = _first_region(own, np.arange(4)).spread
        binaries = np.asarray(table["asini"]) != 0
        assert np.all(np.isfinite(spread[binaries])) and np.all(np.isfinite(spread[~binaries][:, 0, 0]))
        # the frequency alone: pi^2/3 (T df)^2 = 1
        np.testing.assert_allclose(spread[~binaries][:, 0, 0], np.sqrt(3) / np.pi / 1800, rtol=1e-3)


def test_regions_are_as_large_as_asked_and_no_larger_than_can_be_covered(sfts, found):
    def around(**fit):
        own = ladder.ladder_of(
            sfts, found, jfstat.Stages((6, 1)), jfstat.Fit(NAMES, **fit), jfstat.Noise(SQRT_SX), "DE405", 0.1
        )
        return _first_region(own, np.arange(1)).spread

    whole = around()
    np.testing.assert_allclose(around(mismatch=0.25), whole / 2)
    for beyond in (dict(mismatch=0), dict(mismatch=50), dict(bins=4)):
        assert around(**beyond) is None


def test_without_a_first_stage_there_is_an_error(sfts, found, monkeypatch):
    monkeypatch.setattr(ladder, "TRIALS", 1)
    with pytest.raises(ValueError, match="stages is missing: power along tracks leaves too much open in freq, f1dot"):
        jfstat.follow_up(sfts, found, sqrt_sx=SQRT_SX, guard=0.1, progress=False)
