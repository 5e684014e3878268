"""The benchmark: what it times is 2F, it says so in a table and a file, and it reads LALSuite's times."""

import dataclasses
import json
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import jfstat
from jfstat.benchmarking import inputs, lalsuite, report
from jfstat.benchmarking.clock import calls_per_time, seconds_per_call
from jfstat.benchmarking.inputs import F1DOT, default_batch, prepared, random_points
from jfstat.benchmarking.measure import Measurement, Request, StageTime, as_json, checked, from_json
from jfstat.benchmarking.settings import ROWS, Setting, scan
from jfstat.commandline import main
from jfstat.engines.xla import Xla

TINY = Setting("tiny", 0.05, 0.05)
LAL_TABLE = """%% cmdline: lalpulsar_ComputeFstatBenchmark
%%%% tauF_eff:       effective total time per F-stat call
%%  NCalls      NFbin Ndet   tauF_eff  tauF_core tauF_buffer          b |     NsampFFT0      NsampFFT
         1     104717    1   1.46e-07   5.39e-08    9.21e-08   1.00e+00          136416        262144
         1     104717    1   1.24e-07   4.72e-08    7.70e-08   1.00e+00          136128        262144
"""


@pytest.fixture(scope="module")
def data():
    return prepared(TINY, 0, "DE405")


def measurement(tau, lal_tau=None):
    stage = StageTime("all", 1.0, [1.0], tau, 8.0, 4.0)
    return Measurement("gpu", "a GPU", None, "xla", 4, 100, 90, 1, tau, [1.0], 2.0, {"temp": 10}, 1e12, [stage],
                       {"timed": 20.0, "twoF_band": 20.0}, lal_tau)  # fmt: skip


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
def test_command_writes_table_and_file(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # compiles sooner
    output = tmp_path / "times.json"
    assert main(["benchmark", "--days=0.05", "--bandwidth=0.05", "--batch=2", "--repeats=3", "--cores=1",
                 "--no-lalsuite", f"--output={output}"]) == 0  # fmt: skip
    captured = capsys.readouterr()
    table = captured.out.splitlines()
    heading = next(k for k, line in enumerate(table) if line.startswith("row"))
    assert table[heading].split()[1:3] == ["T/d", "band/Hz"]
    cells = dict(zip(table[heading].split(), table[heading + 1].split(), strict=True))
    assert captured.err.startswith("1/1 own: tau ")
    values = json.loads(output.read_text())
    (row,) = values["rows"]
    (run,) = row["runs"]
    assert len(run["seconds"]) == 3 and min(run["seconds"]) > 0
    assert run["batch"] == 2 and run["cores"] == 1 and run["platform"] == "cpu"
    assert float(cells["tau/s"]) == pytest.approx(run["tau"], rel=1e-2)
    assert run["tau"] == pytest.approx(np.median(run["seconds"]) / 2 / run["n_frequencies"])
    assert [stage["name"] for stage in run["stages"]] == [
        "geometry",
        "interpolation",
        "folding",
        "fft",
        "2F and maxima",
    ]
    assert all(stage["passes"] > 0 for stage in run["stages"])
    assert run["check"]["timed"] == pytest.approx(run["check"]["twoF_band"], rel=1e-4)
    assert run["copy_bandwidth"] > 1e7 and sum(run["memory"].values()) > 0
    assert "MALLOC_TRIM_THRESHOLD_" in run["environment"]
    assert values["versions"]["jax"] == jax.__version__
    assert row["lal_over_jfstat"] is None and "LAL" not in table[heading]


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
        (["--cores=100000"], "more than the"),
        (["--ephemeris=DE1"], "unknown"),
        (["--ephemEarth=here"], "go together"),
        (["--output=/nowhere/x.json"], "cannot be written"),
        (["--plot=times.txt"], "must end in"),
        (["--days=0.05", "--bandwidth=0.05", "--frequency=0.5", "--cores=1", "--no-lalsuite"], "--frequency must be"),
    ],
)
def test_errors_are_one_line(options, message, capsys):
    assert main(["benchmark", *options]) == 1
    error = capsys.readouterr().err
    assert error.startswith("jfstat: error: ") and error.count("\n") == 1
    assert message in error


def test_lalsuite_table_is_read():
    first, second = lalsuite.read_timing(LAL_TABLE)
    assert first["tauF_eff"] == 1.46e-7 and second["tauF_core"] == 4.72e-8 and second["NsampFFT"] == 262144
    for text in ("", "%% NCalls tauF_eff |\n 1\n", LAL_TABLE.splitlines()[0]):
        with pytest.raises(ValueError, match="no table"):
            lalsuite.read_timing(text)


def test_lalsuite_is_run_on_the_same_setting(data):
    program = lalsuite.find_program()
    if program is None:
        pytest.skip(f"{lalsuite.PROGRAM} is not installed")
    trials = lalsuite.trials(program, lalsuite.arguments(TINY, data, 0, "DE405"))
    assert len(trials) == lalsuite.TRIALS - 1
    for trial in trials:
        assert trial["NFbin"] == data.layout.n_frequencies and trial["Ndet"] == 1
        assert 1e-9 < trial["tauF_core"] < trial["tauF_eff"] < 1e-5
    with pytest.raises(ValueError, match="--no-lalsuite"):
        lalsuite.trials(program, ["--FstatMethod=Guess"])


def test_requests_and_measurements_survive_json():
    for request in (Request(ROWS["100d-two"], batch=3), Request(ROWS["1d"], ephemeris=["earth", "sun"])):
        assert from_json(json.loads(json.dumps(as_json(request)))) == request
    one = measurement(1e-9)
    assert Measurement.from_dict(json.loads(json.dumps(dataclasses.asdict(one)))) == one


def test_tables_and_picture(tmp_path):
    rows = [
        report.Row(setting, (measurement(1e-10 * k, 1e-7 if k % 2 else None),)) for k, setting in enumerate(scan(), 1)
    ]
    table = report.main_table(rows).splitlines()
    assert len({len(line) for line in table}) == 1 and "LAL/jfstat" in table[0]
    assert table[1].split()[-1] == "1e+03" and table[2].split()[-1] == "-"
    assert "whole" in report.stage_table(rows)
    days, bands = (report.longest_series(rows, name) for name in ("days", "bandwidth"))
    assert [row.setting.days for row in days] == [1, 2, 5, 10, 20, 50, 100]
    assert [row.setting.bandwidth for row in bands] == [0.1, 0.2, 0.5, 0.606, 1, 2, 5]
    assert report.memory_bound(rows[0]) == pytest.approx(4 * 16 * 100 / 1e12 / 90)
    assert report.draw(rows, tmp_path / "times.png") == tmp_path / "times.png"
    assert (tmp_path / "times.png").read_bytes().startswith(b"\x89PNG")


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
