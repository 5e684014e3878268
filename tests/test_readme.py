"""The README's Python runs as printed, and its tables are the committed results of the programs that it names."""

import json
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfstat

README = Path(__file__).parents[1] / "README.md"


def test_the_readmes_example_runs(tmp_path, monkeypatch):
    block, cut, reuse, lattice, pulsars, loop = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    source = jfstat.Doppler(alpha=2.1, delta=0.47, fkdot=[100.1, -1e-10], reftime=1167458304)
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], 1167458304, 43200, fmin=98.9, fmax=101.7, signals=[(source, jfstat.Amplitude(4e-25, 0.3))]
    )
    jfstat.write_sfts(sfts, tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(compile(block, str(README), "exec"), names)
    assert abs(names["found"]["freq"][0].to_value("Hz") - 100.1) < 2e-3
    assert names["found"]["twoF"][0] > 50
    assert np.isfinite(float(jfstat.twoF(names["data"], names["point"])))

    exec(compile(cut, str(README), "exec"), names)
    assert names["segments"].n_segments == 10
    assert float(names["seen"].tspan) == 864000

    point = names["point"]
    fkdot = np.stack([np.array(point.fkdot), np.array(point.fkdot) - [0, 1e-10]])
    names["points"] = jfstat.Doppler(np.full(2, point.alpha), np.full(2, point.delta), fkdot, point.reftime)
    exec(compile(reuse, str(README), "exec"), names)
    np.testing.assert_allclose(names["values"][0], jfstat.twoF_band(names["data"], point), rtol=1e-5, atol=1e-4)

    exec(compile(lattice, str(README), "exec"), names)
    assert len(names["found"]) == 1000
    assert (tmp_path / "search.checkpoint").exists()

    (tmp_path / "pulsars").mkdir()
    (tmp_path / "pulsars" / "a.par").write_text(
        "PSRJ J0801+2655\nRAJ 08:01:17.0\nDECJ 26:55:44\nF0 50.05\nF1 -5D-11\nPEPOCH 57756.25\nEPHEM DE405\n"
    )
    jfstat.write_sfts(sfts, tmp_path / "sfts")
    exec(compile(pulsars, str(README), "exec"), names)
    assert list(names["found"]["name"]) == ["J0801+2655"]
    assert names["found"]["twoF"][0] > 50

    # from a template off the source to the peak that refine finds; optax mixes precisions as users do
    coordinates = jfstat.whiten(names["data"], source)
    names["point"] = coordinates.point(jnp.array([0.4, 0.3, -0.2, 0.2]))
    with jax.numpy_dtype_promotion("standard"):
        exec(compile(loop, str(README), "exec"), names)
    assert float(jfstat.twoF(names["data"], names["peak"])) > float(jfstat.twoF(names["data"], source)) - 0.02


def committed(name):
    return json.loads((README.parent / name).read_text())


def table(first):
    """Cells of the README's table whose first column has the given heading, without the headings."""
    lines = README.read_text().split(f"\n| {first} |")[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]


def test_recovered_power_is_as_committed():
    rows = committed("examples/accuracy_against_lalsuite.json")["rows"]
    methods = ("jfstat twoF", "jfstat twoF_band", "LAL Resamp", "LAL Demod")
    expected = [
        [f"{row['frequency']:.0f}", *(f"{row[m]['median']:.5f} ({row[m]['worst']:.5f})" for m in methods)]
        for row in rows
    ]
    assert table("f / Hz") == expected


def test_speeds_are_as_committed():
    gpu, cpu = table("data")[:7], README.read_text().split("| LALSuite's time over jfstat's")[1]
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
        table("start"), (isolated["near"], isolated["far"], binary["half"]), strict=True
    ):
        share, _, n = found.partition(" % of ")
        assert float(share) == pytest.approx(100 * summary["found"], abs=0.06)
        assert n == str(isolated["injections"] if theory == "4" else binary["injections"])
        assert float(gain) == pytest.approx(summary["mean_gain"], abs=0.0051)
    pulls = [x["standard_deviation"] for x in isolated["pulls"].values()]
    said = re.search(
        r"deviations of (.*?) \(freq\), (.*?) \(f1dot\), (.*?) \(alpha\) and (.*?) \(delta", README.read_text()
    )
    np.testing.assert_allclose([float(x) for x in said.groups()], pulls, atol=0.0051)
