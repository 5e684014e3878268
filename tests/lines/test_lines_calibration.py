"""The searches of examples/lines_calibration.py are those of `jfstat.search`, and the page's tables are its figures."""

import json
from pathlib import Path

import numpy as np
import pytest
from astropy.table import QTable

import jfstat

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "examples" / "lines_calibration.json"
DETECTORS = ["H1", "L1"]


@pytest.fixture(scope="module")
def calibration():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples"))
        import lines_calibration

        yield lines_calibration


@pytest.fixture
def few(calibration, monkeypatch):
    """The example with few statistics, which are compiled sooner, and few depths."""
    monkeypatch.setattr(calibration, "COHERENT", {"log10BSGL, default": jfstat.BSGL()})
    tuned = {f"log10{x.__name__} of segments": x(jfstat.LinePrior(20.0)) for x in (jfstat.BSGL, jfstat.BSGLtL)}
    monkeypatch.setattr(calibration, "OVER_SEGMENTS", tuned)
    monkeypatch.setattr(calibration, "DEPTHS", (25.0, 5.0))
    return calibration


def largest(data, bank, statistic, column, keep=None):
    found = jfstat.search(data, bank, statistic, top=1, keep=keep, details=jfstat.Details(False), progress=False)
    return float(found[column][0])


@pytest.mark.slow
def test_loudest_values_are_those_of_searches(few):
    """Of a loud line in one detector, with a drifting one in both: all statistics, and known lines left out."""
    rng = np.random.default_rng(3)
    where = few.place(rng)
    lines = [
        jfstat.Artefact(where.fmin + 0.03, 1e-24, detectors=["H1"]),
        jfstat.Artefact(where.fmin + 0.07, 1e-25, f1dot=2e-9, reftime=few.START),
    ]
    sfts = jfstat.inject_artefacts(few.noise(rng, where, few.floors("Gaussian noise", DETECTORS)), lines)
    lists = {name: few.known(lines, DETECTORS, bins) for name, bins in few.LISTS.items()}
    found = few.judged(sfts, where, lists, few.crossings(sfts, where, lists), seed=4)
    data, segments = few.prepared(sfts, where), few.prepared(sfts, where, few.N_SEGMENTS)
    expected = {
        "2F": largest(data, where.bank, None, "twoF"),
        "log10BSGL, default": largest(data, where.bank, jfstat.BSGL(), "log10BSGL"),
        "mean 2F of segments": largest(segments, where.bank, None, "mean_twoF"),
    }
    for name, statistic in few.OVER_SEGMENTS.items():
        expected[name] = largest(segments, where.bank, statistic, name.split()[0])
    for name, table in lists.items():
        veto = jfstat.Keep(lines=table, veto_lines=True)
        expected[f"2F; {name} vetoed"] = largest(data, where.bank, None, "twoF", veto)
    clean = few.prepared(jfstat.clean(sfts, lists["known lines, wide"], seed=4), where)
    expected["2F; known lines, wide cleaned"] = largest(clean, where.bank, None, "twoF")
    for name, value in expected.items():
        assert found.loudest[name] == pytest.approx(value, rel=1e-4, abs=2e-3), name
    assert found.loudest["2F"] > 300 > 60 > found.loudest["2F; known lines, wide vetoed"]
    assert found.vetoed is not None and found.vetoed["line_veto (either)"] and found.vetoed["known lines crossed"]
    # the drifting line is in the list with all its frequencies
    drifting = lists["known lines"][-1]
    assert drifting["fmin"] == pytest.approx(where.fmin + 0.07 - 0.5 / few.TSFT)
    assert drifting["fmax"] == pytest.approx(where.fmin + 0.07 + 2e-9 * 86400 * few.DAYS + 0.5 / few.TSFT)


@pytest.mark.slow
def test_a_few_searches_give_figures_and_tables(few, tmp_path):
    result = {"depths": [25.0, 5.0], "fstar0": {}}
    for kind in ("Gaussian noise", "everything"):
        number = few.KINDS.index(kind)
        done = [[few.one_search(1, DETECTORS, (number, k, signal)) for k in range(2)] for signal in (False, True)]
        result[kind] = few.figures([own[0] for own in done[0]], done[1])
        again = few.one_search(1, DETECTORS, (number, 1, True))
        assert [x.twoF for x in again] == [x.twoF for x in done[1][1]]
    found = result["Gaussian noise"]["detections"]["2F"]["0.1"]
    assert found["detected"][1] == 1.0 and 20 < found["threshold"] < 60
    strong = result["Gaussian noise"]["vetoed_signals"][-1]
    assert strong["from"] == 1000 and (strong["candidates"] == 0 or strong["line_veto (either)"] == 0)
    assert json.loads(json.dumps(result))["everything"]["searches"] == 2


def test_known_lines_have_the_columns_of_lists(calibration):
    table = calibration.known([], DETECTORS, 0.5)
    assert isinstance(table, QTable) and len(table) == 0
    assert table.colnames[:4] == ["detector", "freq", "fmin", "fmax"]


def test_detected_fractions_are_at_their_false_alarm(calibration):
    """Of values whose distributions are known: exponential ones, and shifted by 1 for signals."""
    rng = np.random.default_rng(0)
    quiet, loud = rng.exponential(size=4000), 1 + rng.exponential(size=4000)
    made = (
        [calibration.Judged({"2F": x}, 0.0, None) for x in quiet],
        [[calibration.Judged({"2F": x}, 0.0, None)] for x in loud],
    )
    found = calibration.detections(*made)["2F"]
    for level in (0.1, 0.01):
        own = found[str(level)]
        deviation = own["standard_deviation"][0]
        assert np.exp(1) * level == pytest.approx(own["detected"][0], abs=4 * deviation)
        binomial = np.sqrt(np.exp(1) * level / 4000)
        assert 0.8 * binomial < deviation < 4 * binomial


def test_the_tables_are_the_committed_figures(calibration):
    page = (ROOT / "docs" / "lines.md").read_text()
    for row in calibration.tables(json.loads(FIGURES.read_text())):
        assert row in page
