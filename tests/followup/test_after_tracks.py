"""Candidates of power along tracks are followed up to coherent 2F without being told the stages."""

from __future__ import annotations

from itertools import pairwise

import jax
import numpy as np
import pytest

import jfstat
from jfstat.commandline import main
from jfstat.followup import ladder
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
    spread = np.asarray(tracks_regions(observation, one, NAMES, 1))[0]
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


def test_without_a_first_stage_there_is_an_error(sfts, found, monkeypatch):
    monkeypatch.setattr(ladder, "TRIALS", 1)
    with pytest.raises(ValueError, match="stages is missing: power along tracks leaves too much open in freq, f1dot"):
        jfstat.follow_up(sfts, found, sqrt_sx=SQRT_SX, guard=0.1, progress=False)
