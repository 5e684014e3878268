"""The comparison with LALSuite in examples/benchmarks: it reads LALSuite's times, draws and checks what it wrote."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jfstat.benchmarking.inputs import prepared
from jfstat.benchmarking.settings import ROWS, Setting

BENCHMARKS = Path(__file__).parents[2] / "examples" / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import check  # noqa: E402
import lalsuite  # noqa: E402
import picture  # noqa: E402

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
    with pytest.raises(ValueError, match="Install LALSuite anew"):
        lalsuite.trials(program, ["--FstatMethod=Guess"])


@pytest.mark.slow
def test_both_programs_take_turns(tmp_path):
    if lalsuite.find_program() is None:
        pytest.skip(f"{lalsuite.PROGRAM} is not installed")
    output, plot = tmp_path / "times.json", tmp_path / "times.png"
    command = [sys.executable, BENCHMARKS / "beside_lalsuite.py", "--rows=1d", "--cores=1", "--repeats=3"]
    done = subprocess.run([*command, "--output", output, "--plot", plot], capture_output=True, text=True, check=True)
    assert "LAL/jfstat" in done.stdout
    (row,) = json.loads(output.read_text())["rows"]
    (run,) = row["runs"]
    assert run["cores"] == 1 and len(run["seconds"]) == 3 and len(run["lal_trials"]) == 3 * (lalsuite.TRIALS - 1)
    assert row["lal_over_jfstat"] == run["lal_tau"] / run["tau"]
    assert "MALLOC_TRIM_THRESHOLD_" in run["environment"]
    assert plot.read_bytes().startswith(b"\x89PNG")


def row(setting, lal_tau):
    stage = {"least_passes": 4.0}
    run = {"platform": "gpu", "device": "a GPU", "cores": None, "n_fft": 100, "n_frequencies": 90, "tau": 1e-10}
    run |= {"copy_bandwidth": 1e12, "stages": [stage], "lal_tau": lal_tau}
    return {"setting": setting, "runs": [run], "lal_over_jfstat": None if lal_tau is None else lal_tau / 1e-10}


@pytest.mark.parametrize("lal_tau", [None, 1e-7])
def test_the_picture_has_what_differs_in_one_property(tmp_path, lal_tau):
    base = {"frequency": 100.0, "detectors": ["H1"], "one_position": False}
    settings = [base | {"name": f"{days}d", "days": days, "bandwidth": 0.606} for days in (100, 1, 10)]
    settings += [base | {"name": f"{width}Hz", "days": 10, "bandwidth": width} for width in (5.0, 0.1)]
    rows = [row(setting, lal_tau) for setting in settings]
    days, bands = (picture.longest_series(rows, name) for name in ("days", "bandwidth"))
    assert [row["setting"]["days"] for row in days] == [1, 10, 100]
    assert [row["setting"]["bandwidth"] for row in bands] == [0.1, 0.606, 5.0]
    assert picture.memory_bound(rows[0]) == pytest.approx(4 * 16 * 100 / 1e12 / 90)
    assert picture.draw(rows, tmp_path / "times.png").read_bytes().startswith(b"\x89PNG")
    names = list(picture.published(settings[1], "days"))
    assert names == list(picture.TAU) and not picture.published(settings[1] | {"frequency": 50.0}, "days")


def test_committed_measurements_are_drawn(tmp_path):
    for name in ("benchmark_h200", "benchmark_cpu"):
        rows = json.loads((picture.DOCS / f"{name}.json").read_text())["rows"]
        picture.draw(rows, tmp_path / f"{name}.png")


def test_the_guard_compares_with_what_was_measured(tmp_path):
    before = check.ratios(check.COMMITTED)
    assert set(before) == {"1d", "5d", "10d"} and min(before.values()) > 5
    rows = json.loads(check.COMMITTED.read_text())["rows"]
    rows[0]["lal_over_jfstat"] *= 0.4
    (tmp_path / "times.json").write_text(json.dumps({"rows": rows[:2]}))
    (said,) = check.slower(check.ratios(tmp_path / "times.json"), before)
    assert said.startswith("1d: LALSuite takes 3.2 times")


def test_committed_settings_are_those_of_the_package():
    rows = json.loads(check.COMMITTED.read_text())["rows"]
    for own in (row["setting"] for row in rows):
        assert Setting(**own | {"detectors": tuple(own["detectors"])}) == ROWS[own["name"]]
