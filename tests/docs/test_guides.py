"""The Python of the guides runs as printed, and their tables are the committed results of examples."""

import json
import re
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from pages import run_page
from scipy.stats import ncx2

import jfstat

DOCS = Path(__file__).parents[2] / "docs"
START = 1167458304


@pytest.mark.ci
def test_ten_minutes_run_up_to_the_search(capsys):
    names = run_page(DOCS / "quickstart.md", 7, last=4)
    found, signal = names["found"][0], names["signal"]
    assert found["twoF"] > 80
    assert abs(found["freq"].value - float(signal.fkdot[0])) < 2e-3
    assert "templates" in capsys.readouterr().out


@pytest.mark.slow
def test_ten_minutes_and_posteriors_run(tmp_path, monkeypatch):
    pytest.importorskip("blackjax")
    monkeypatch.chdir(tmp_path)
    names = run_page(DOCS / "quickstart.md", 7)
    row, signal = names["row"], names["signal"]
    assert row["converged"]
    for name, true in (("freq", signal.fkdot[0]), ("alpha", signal.alpha), ("delta", signal.delta)):
        assert abs(row[name].value - float(true)) < 5 * row[f"{name}_error"].value
    assert (tmp_path / "spectrum.png").stat().st_size > 10000

    run_page(DOCS / "posteriors.md", 1, names)
    assert float(names["samples"].fkdot[:, 0].std()) == pytest.approx(row["freq_error"].value, rel=0.3)


@pytest.mark.ci
def test_limits_run():
    names = run_page(DOCS / "limits.md", 8)
    setups = names["setups"]
    assert len(setups) == 6 and names["best"]["seconds"].value < 100 < setups["seconds"].value.max()
    assert len(names["coarse"]) == 6 and names["first"]["threshold"] < names["first"]["refined_threshold"]
    assert names["coarse"]["depth"].max() > setups["depth"].max()
    assert names["depth"] == pytest.approx(79.23, abs=0.2)
    assert names["strains"]["pulsar"] < names["lossy"] < 1.2 * names["strains"]["pulsar"]
    assert names["brief"].h0 > names["limit"].h0
    limit = names["limit"]
    formula = jfstat.sensitivity(names["data"], limit.threshold, names["pulsar"])
    assert abs(limit.h0 - formula) < 4 * limit.h0_error
    data, strengths = names["data"], names["strengths"]
    powers = [jfstat.predict_twoF(data, names["point"], replace(names["amplitude"], h0=h0)) - 4 for h0 in strengths]
    expected = ncx2(4, np.maximum(powers, 1e-9)).sf(25.0)
    assert np.all(
        np.abs(np.asarray(names["detected"]) - expected) < 4 * np.sqrt(expected * (1 - expected) / 1000) + 1e-3
    )


def test_the_tables_of_scorpius_x1_are_the_committed_results():
    text = (DOCS / "searching.md").read_text()
    kept = json.loads((DOCS.parent / "examples" / "scorpius_x1.json").read_text())
    for band in ("0.05 Hz", "1 Hz"):
        fast, slow = (kept[part][band]["s_template_and_segment"] for part in ("speed", "core"))
        assert f"| {band} | {fast:.2g} s | {slow:.2g} s | {slow / fast:.0f} |" in text
    for row in kept["efficiency"]["rows"][1:]:
        found, expected = row["detected"], row["predicted"]
        ends = " | ".join(f"{found[name]} | {expected[name]:.1f}" for name in ("exact", "interpolated"))
        assert f"| {row['depth']:.0f} | {row['trials']} | {ends} |" in text
    for row in kept["setups"]["in_365_d"]:
        assert f"| {row['days']:g} d | {row['mismatch']} | {row['up_to_Hz']:.0f} Hz" in text
    for row in json.loads((DOCS.parent / "examples" / "orbit_segments_coverage.json").read_text())["banks"]:
        assert row["given"]["fraction_above"] == row["phase"]["fraction_above"] == 0
        assert f"| {row['case']} | {row['mismatch']} | {row['templates']} |" in text


@pytest.mark.ci
def test_inference_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = run_page(DOCS / "inference.md", 9)
    found, truth = names["found"], names["amplitude"]
    low, high = found.h0_interval(0.99)
    assert low < truth.h0 < high
    # of a flat prior instead of a wide one
    assert float(names["limits"].table["h0_limit"][0]) == pytest.approx(float(found.h0_limit(0.95)), rel=0.05)
    assert 5 < float(names["evidence"]) < float(found.log_bstat)
    np.testing.assert_allclose(names["energy"].factor, 1, atol=0.1)  # the floor was right
    assert "ellipticity_limit" in capsys.readouterr().out


@pytest.mark.ci
def test_polarisations_run(capsys):
    names = run_page(DOCS / "polarisations.md", 3)
    assert float(names["odds"][0]) < -10
    assert names["table"]["twoF_of_tensor"][0] > 50
    assert float(names["mixed"]) < float(names["table"]["log_bstat_of_tensor"][0]) + 1
    assert float(names["star"]) > 20
    assert names["x"].shape == (48,)
    assert "scalar-tensor" in capsys.readouterr().out


def test_the_table_of_the_b_statistic_is_the_committed_result():
    result = json.loads((DOCS.parent / "examples" / "bstat_roc.json").read_text())
    page = (DOCS / "inference.md").read_text()
    for row in result["rows"]:
        if row["false_alarm"] in (1e-2, 1e-4):
            power = f"1e-{2 if row['false_alarm'] == 1e-2 else 4}"
            cells = (
                f"| {row['rho2']:.0f} | {power} | {row['twoF']:.3f} | {row['bstat']:.3f} | {100 * row['gain']:.1f} % |"
            )
            assert cells in page


def test_the_table_of_samplers_is_the_committed_result():
    page = (DOCS / "posteriors.md").read_text()
    for name, part in committed("examples/samplers.json")["models"].items():
        assert f"{part['quadrature']['evidence']:.3f}" in page
        for sampler, row in part["samplers"].items():
            again = f"{row['first_seconds']:.0f} | {row['again_seconds']:.0f}"
            if "evidence" in row:
                evidence = f"{row['evidence']:.3f} +- {row['error']:.3f}"
                if (name, sampler) != ("all", "tempered SMC"):  # too low, as the page says
                    assert abs(row["difference"]) < max(0.05, 3 * row["error"])
            else:
                evidence = "-"
            cells = f"| {name} | {sampler} | {evidence} | {max(map(abs, row['shifts'])):.3f} | {again} |"
            assert cells in page


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with what the guides read: SFT files in data/."""
    folder = tmp_path_factory.mktemp("guides")
    source = jfstat.Doppler(2.1, 0.47, [100.1, -1e-10], START)
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], START, 43200, fmin=98.9, fmax=101.7, signals=[(source, jfstat.Amplitude(4e-25, 0.3))]
    )
    jfstat.write_sfts(sfts, folder / "data")
    return folder


@pytest.mark.ci
def test_data_and_what_continues_it_run(files, monkeypatch):
    monkeypatch.chdir(files)
    names = run_page(DOCS / "data.md", 6)
    assert names["segments"].n_segments == 10
    assert float(names["seen"].tspan) == 864000
    assert list(names["made"].series[0].gps - START) == [0, 3200, 5000]  # the second starts where the gap ends
    assert np.isfinite(float(jfstat.twoF(names["data"], names["point"])))

    point = names["point"]
    fkdot = np.stack([np.array(point.fkdot), np.array(point.fkdot) - [0, 1e-10]])
    names["points"] = jfstat.Doppler(np.full(2, point.alpha), np.full(2, point.delta), fkdot, point.reftime)
    run_page(DOCS / "speed.md", 1, names)
    np.testing.assert_allclose(names["values"][0], jfstat.twoF_band(names["data"], point), rtol=1e-5, atol=1e-4)

    # from a template off the source to the peak
    source = names["point"]
    names["point"] = jfstat.whiten(names["data"], source).point(jnp.array([0.4, 0.3, -0.2, 0.2]))
    run_page(DOCS / "refining.md", 1, names)
    assert float(jfstat.twoF(names["data"], names["peak"])) > float(jfstat.twoF(names["data"], source)) - 0.02
    (row,) = jfstat.refine(names["data"], names["peak"])
    errors = np.sqrt(np.diag(names["covariance"]))
    for name, error in zip(names["coordinates"].names, errors, strict=True):
        assert 0.3 < error / row[f"{name}_error"].value < 1.5

    run_page(DOCS / "guides.md", 1, names)
    assert len(names["found"]) == 1000
    assert Path("search.checkpoint").exists()


def committed(name):
    return json.loads((DOCS.parent / name).read_text())


def table(page, first):
    """Cells of a page's table whose first column has the given heading, without the headings."""
    lines = (DOCS / page).read_text().split(f"\n| {first} |")[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]


def test_recovered_power_is_as_committed():
    rows = committed("examples/accuracy_against_lalsuite.json")["rows"]
    methods = ("jfstat twoF", "jfstat twoF_band", "LAL Resamp", "LAL Demod")
    expected = [
        [f"{row['frequency']:.0f}", *(f"{row[m]['median']:.5f} ({row[m]['worst']:.5f})" for m in methods)]
        for row in rows
    ]
    assert table("accuracy.md", "f / Hz") == expected


def test_speeds_are_as_committed():
    gpu, cpu = (
        table("speed.md", "data")[:7],
        (DOCS / "speed.md").read_text().split("| LALSuite's time over jfstat's")[1],
    )
    names = ("1d", "10d", "10d-narrow", "10d-wide", "100d", "100d-two", "10d-spindown")
    for column, file in ((1, "benchmark_h200"), (2, "benchmark_h200_before")):
        rows = committed(f"docs/{file}.json")["rows"]
        taus = {row["setting"]["name"]: f"{row['runs'][0]['tau']:.1e}" for row in rows}
        assert [row[column] for row in gpu] == [taus.get(name, "not yet measured") for name in names]
    for row in committed("docs/benchmark_cpu.json")["rows"]:
        one, two = row["runs"]
        cells = f"| {row['lal_over_jfstat']:.1f} | {one['tau'] / two['tau']:.2f} |"
        assert f"| {row['setting']['days']} d, 0.606 Hz, H1 {cells}" in cpu


def test_refined_injections_are_as_committed():
    isolated, binary = (committed(f"examples/refine_{name}.json")["summary"] for name in ("injections", "binaries"))
    for (_, found, gain, theory), summary in zip(
        table("refining.md", "start"), (isolated["near"], isolated["far"], binary["half"]), strict=True
    ):
        share, _, n = found.partition(" % of ")
        assert float(share) == pytest.approx(100 * summary["found"], abs=0.06)
        assert n == str(isolated["injections"] if theory == "4" else binary["injections"])
        assert float(gain) == pytest.approx(summary["mean_gain"], abs=0.0051)
    pulls = [x["standard_deviation"] for x in isolated["pulls"].values()]
    said = re.search(
        r"deviations of (.*?) \(freq\), (.*?) \(f1dot\), (.*?) \(alpha\) and (.*?) \(delta",
        (DOCS / "refining.md").read_text(),
    )
    np.testing.assert_allclose([float(x) for x in said.groups()], pulls, atol=0.0051)


def test_the_papers_fractional_difference_is_as_committed():
    found = committed("examples/paper/fractional_difference.json")
    assert found["rms_fraction"] == pytest.approx(9.1e-6, rel=0.01)
    assert found["largest_fraction"] == pytest.approx(1.8e-4, rel=0.02)
    assert f"| 9.1e-6, 1.8e-4 in {found['bins']} of the bins (" in (DOCS / "paper.md").read_text()
