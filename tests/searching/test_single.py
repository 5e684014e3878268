"""`jfstat search` at one template, straight from the SFTs, beside the search of a prepared series."""

import os
import subprocess
import sys

import numpy as np
import pytest

import jfstat
from jfstat.commandline import main

START = 1167458304
POINT = ["--Alpha=1.1", "--Delta=0.3", "--Freq=50.2", "--f1dot=-1e-10", "--assumeSqrtSX=4e-24"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """SFT files of two detectors with a signal."""
    folder = tmp_path_factory.mktemp("single")
    point = jfstat.Doppler(1.1, 0.3, [50.2, -1e-10], START)
    signals = [(point, jfstat.Amplitude(1e-25, 0.3, 0.2, 1.0))]
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], start=START, duration=2 * 86400, fmin=49.0, fmax=51.4, sqrt_sx=4e-24, signals=signals, seed=2
    )
    jfstat.write_sfts(sfts, folder)
    return f"{folder}/*.sft"


def table(files, folder, *words):
    """The table that the program writes."""
    path = folder / "found.ecsv"
    assert main(["search", f"--DataFiles={files}", f"--outputFstat={path}", *words]) == 0
    return jfstat.read_candidates(path)


WIDE = "--batchSize=1"
"""Goes with a prepared series only."""


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--orbitasini=1.44", "--orbitPeriod=68023.7", f"--orbitTp={START}", "--cluster=1", "--RankingStatistic=BSGL"),
        pytest.param(("--noDetails", f"--refTime={START + 1000}"), marks=pytest.mark.ci),
        pytest.param(("--IFOs=L1", "--f2dot=1e-18"), marks=pytest.mark.ci),
    ],
)
def test_one_template_has_the_table_of_a_band(files, tmp_path, capsys, words):
    one = table(files, tmp_path, *POINT, *words)
    said = capsys.readouterr().out.splitlines()
    wide = table(files, tmp_path, *POINT, *words, WIDE)
    beside = capsys.readouterr().out.splitlines()
    assert one.meta["engine"] == "narrow"
    assert wide.meta["engine"] == "xla"
    assert one.colnames == wide.colnames
    assert set(one.meta) == set(wide.meta)
    for name in ("freq", "alpha", "delta", "template"):
        np.testing.assert_array_equal(one[name], wide[name])
    for name in one.colnames:
        assert one[name].unit == wide[name].unit if hasattr(wide[name], "unit") else True
    scale = np.sqrt(wide["twoF"][0] + 4)
    assert one["twoF"][0] == pytest.approx(wide["twoF"][0], abs=0.03 * scale)
    assert one.meta["sqrt_sx"] == pytest.approx(wide.meta["sqrt_sx"], rel=1e-12)
    # the same messages but for values, after what the data are
    after = [[line.split()[:1] for line in own] for own in (said, beside)]
    assert all(["noise"] in own for own in after)
    assert after[0][after[0].index(["noise"]) :] == after[1][after[1].index(["noise"]) :]


@pytest.mark.ci
def test_it_starts_with_few_programs_and_without_heavy_packages(files):
    """Each program takes tens of milliseconds to trace and load, and astropy and SciPy half a second to import."""
    words = ["search", f"--DataFiles={files}", *POINT[:-1]]
    program = (
        f"import sys; from jfstat.commandline import main; assert main({words!r}) == 0; "
        "print(*(name for name in ('astropy', 'scipy', 'optax') if name in sys.modules))"
    )
    environment = os.environ | {"JAX_LOG_COMPILES": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""
    assert 1 <= done.stderr.count("Finished XLA compilation of ") <= 4


def test_thresholds_may_leave_nothing(files, tmp_path, capsys):
    assert len(table(files, tmp_path, *POINT, "--TwoFthreshold=1e6")) == 0
    assert "no candidate with 2F >= 1e+06" in capsys.readouterr().out
    assert len(table(files, tmp_path, *POINT, "--BSGLthreshold=1e6")) == 0
    assert len(table(files, tmp_path, *POINT, "--BSGLthreshold=-1e6")) == 1


def test_the_loudest_file_is_of_the_same_template(files, tmp_path):
    path = tmp_path / "loudest.txt"
    found = table(files, tmp_path, *POINT, f"--outputLoudest={path}")
    values = dict(
        line.rstrip(";").split(" = ") for line in path.read_text().splitlines() if line.endswith(";") and " = " in line
    )
    values = {name.strip(): value for name, value in values.items()}
    assert float(values["twoF"]) == pytest.approx(found["twoF"][0], rel=1e-6)
    assert float(values["h0"]) == pytest.approx(found["h0"][0], rel=1e-6)


def test_known_lines_are_named(files, tmp_path):
    lines = tmp_path / "L1lines.txt"
    lines.write_text("50.2,0,0,1,1,0.01,0.01,hum\n40,0,0,1,1,0,0,far\n")
    found = table(files, tmp_path, *POINT, f"--linefiles=L1:{lines}")
    beside = table(files, tmp_path, *POINT, f"--linefiles=L1:{lines}", WIDE)
    assert list(found["line"]) == list(beside["line"])
    assert "hum" in found["line"][0]
    assert found.meta["lines"] == beside.meta["lines"]


def test_what_needs_a_series_is_told_as_before(files, tmp_path, capsys):
    assert main(["search", f"--DataFiles={files}", "--Alpha=1", "--Delta=0", "--Freq=80"]) == 1
    assert "--DataFiles cover 49" in capsys.readouterr().err
    assert main(["search", f"--DataFiles={files}", "--Alpha=1", "--Delta=0", "--Freq=49.0001"]) == 1
    assert "with its Doppler shifts" in capsys.readouterr().err
    assert main(["search", f"--DataFiles={files}", *POINT, "--guard=-1"]) == 1
    assert "guard" in capsys.readouterr().err
    found = table(files, tmp_path, *POINT, "--FreqBand=1e-5")
    assert found.meta["engine"] == "xla"


@pytest.mark.ci
def test_an_estimated_floor_does_not_depend_on_what_is_read(tmp_path):
    """It is the running median about the signal, as `prepare` has it, wherever the bins that are read begin."""
    point = jfstat.Doppler(1.2, -0.4, [100.0003, -1e-9], START)
    signals = [(point, jfstat.Amplitude(1.8e-25, 0.4))]
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], START, 2 * 86400, fmin=98.0, fmax=102.0, sqrt_sx=4e-24, signals=signals, seed=4
    )
    jfstat.write_sfts(sfts, tmp_path)
    expected = float(jfstat.twoF(jfstat.prepare(sfts, 100.0, 100.001), point))
    assert expected > 40
    found = []
    for guard in (1.0, 0.95, 0.9, 0.7):
        options = ["--Alpha=1.2", "--Delta=-0.4", "--Freq=100.0003", "--f1dot=-1e-9", f"--refTime={START}"]
        table = tmp_path / f"{guard}.ecsv"
        assert (
            main(["search", f"--DataFiles={tmp_path}/*.sft", *options, f"--guard={guard}", f"--outputFstat={table}"])
            == 0
        )
        found.append(jfstat.read_candidates(table)["twoF"][0])
    np.testing.assert_allclose(found, expected, rtol=0.03)
    assert np.ptp(found) < 0.005 * expected
