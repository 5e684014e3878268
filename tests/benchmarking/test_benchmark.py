"""The benchmark: what it times is 2F, and it says so in a table and a file."""

import dataclasses
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import jfstat
from jfstat.benchmarking import inputs
from jfstat.benchmarking.clock import calls_per_time, seconds_per_call
from jfstat.benchmarking.inputs import F1DOT, default_batch, prepared, random_points
from jfstat.benchmarking.measure import checked
from jfstat.benchmarking.settings import ROWS, Setting
from jfstat.commandline import main
from jfstat.engines.xla import Xla

TINY = Setting("tiny", 0.05, 0.05)


@pytest.fixture(scope="module")
def data():
    return prepared(TINY, 0, "DE405")


@pytest.mark.ci
def test_maxima_of_templates_that_share_a_position_are_those_of_twoF_band(data):
    points = random_points(np.random.default_rng(1), data, 3, one_position=True)
    assert np.ptp(np.asarray(points.alpha)) == 0 and np.ptp(np.asarray(points.fkdot[:, 1])) > 0.01 * F1DOT
    singles = [jax.tree.map(lambda x, k=k: x[k], points) for k in range(3)]
    expected = [float(np.max(np.asarray(jfstat.twoF_band(data, point)))) for point in singles]
    maxima = np.asarray(jax.jit(Xla().maxima, static_argnums=2)(data, points, True))
    np.testing.assert_allclose(maxima, expected, rtol=2e-5)
    assert checked(TINY, data, points, maxima, 2)["timed"] == pytest.approx(expected[2], rel=2e-5)
    with pytest.raises(ValueError, match="its time means nothing"):
        checked(TINY, data, points, maxima * 1.001, 2)
    with pytest.raises(ValueError, match="not finite and positive"):
        checked(TINY, data, points, maxima * np.nan, 2)


@pytest.mark.ci
def test_command_writes_table_and_file(tmp_path):
    output = tmp_path / "times.json"
    options = ["--days=0.05", "--bandwidth=0.05", "--batch=2", "--repeats=3", f"--output={output}"]
    done = subprocess.run(
        [sys.executable, "-m", "jfstat", "benchmark", *options],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},  # compiles sooner
    )
    table = done.stdout.splitlines()
    heading = next(k for k, line in enumerate(table) if line.startswith("row"))
    assert table[heading].split()[1:3] == ["T/d", "band/Hz"]
    cells = dict(zip(table[heading].split(), table[heading + 1].split(), strict=True))
    assert "1/1 own: tau " in done.stderr
    values = json.loads(output.read_text())
    (row,) = values["rows"]
    (run,) = row["runs"]
    assert len(run["seconds"]) == 3 and min(run["seconds"]) > 0
    assert run["batch"] == 2 and run["cores"] >= 1 and run["platform"] == "cpu"
    assert float(cells["tau/s"]) == pytest.approx(run["tau"], rel=1e-2)
    assert run["tau"] == pytest.approx(np.median(run["seconds"]) / 2 / run["n_frequencies"])
    stages = ["geometry", "interpolation", "folding", "fft", "2F and maxima"]
    assert [stage["name"] for stage in run["stages"]] == stages
    last = next(line.split() for line in table if line.startswith("own  whole"))
    assert float(last[3]) == pytest.approx(run["tau"], rel=1e-2) and len(last) == 6
    assert all(stage["passes"] > 0 for stage in run["stages"])
    assert run["check"]["timed"] == pytest.approx(run["check"]["twoF_band"], rel=1e-4)
    assert run["copy_bandwidth"] > 1e7 and sum(run["memory"].values()) > 0
    assert values["versions"]["jax"] == jax.__version__


@pytest.mark.ci
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rows=1d,2d"], "'2d' is not one of 1d, 5d"),
        (["--rows="], "names none"),
        (["--days=-1"], "--days must be positive"),
        (["--bandwidth=0"], "--bandwidth must be positive"),
        (["--detectors=X9"], "X9"),
        (["--batch=0"], "whole number of at least 1"),
        (["--repeats=2.5"], "whole number of at least 1"),
        (["--seed=-1"], "not negative"),
        (["--path=short"], "invalid choice"),
        (["--ephemeris=DE1"], "unknown"),
        (["--ephemEarth=here"], "go together"),
        (["--output=/nowhere/x.json"], "cannot be written"),
        (["--days=0.05", "--bandwidth=0.05", "--frequency=0.5"], "--frequency must be"),
    ],
)
def test_errors_are_one_line(options, message, capsys):
    try:
        assert main(["benchmark", *options]) == 1
    finally:
        jax.config.update("jax_enable_compilation_cache", True)
    error = capsys.readouterr().err
    assert error.startswith("jfstat: error: ") and error.count("\n") == 1
    assert message in error


def test_times_are_per_call():
    calls = [(k,) for k in range(5)]
    seconds, results = seconds_per_call(lambda k: np.float64(k), calls)
    assert 0 <= seconds < 1 and results == [0, 1, 2, 3, 4]
    assert calls_per_time(10.0) == 1 and calls_per_time(1e-9) == 64


def test_batches_are_small_on_a_cpu_and_fill_other_devices(monkeypatch):
    data = prepared(TINY, 0, "DE405")
    assert default_batch(TINY, data, Xla()) == 256
    longer = dataclasses.replace(data, layout=dataclasses.replace(data.layout, n_fft=1 << 20))
    assert default_batch(ROWS["10d"], longer, Xla()) == 1
    assert default_batch(ROWS["10d-spindown"], longer, Xla()) == 8
    monkeypatch.setattr(inputs, "device_of", lambda data: SimpleNamespace(platform="gpu"))
    monkeypatch.setattr(inputs, "most_templates", lambda *arguments: 100)
    assert default_batch(ROWS["10d"], longer, Xla()) == 64
