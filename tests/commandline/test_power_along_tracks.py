"""`jfstat track-power` finds what `search` with `TrackPower` finds, and says what is wrong with its options."""

from __future__ import annotations

import numpy as np
import pytest

import jfstat
from jfstat.commandline import main

START, DAY, SQRT_SX = 1_167_458_304, 86400, 1e-23
BAND = ["--Freq=100", "--FreqBand=0.05", "--Alpha=2.1", "--Delta=0.4"]


@pytest.fixture(scope="module")
def sfts():
    signal = jfstat.Doppler(2.1, 0.4, [100.02, -2e-8], START), jfstat.Amplitude(SQRT_SX / 8, 0.5, 0.3, 1.0)
    return jfstat.simulate_sfts(["H1", "L1"], START, 2 * DAY, 99.8, 100.3, sqrt_sx=SQRT_SX, signals=[signal], seed=4)


@pytest.fixture
def data(sfts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    jfstat.write_sfts(sfts, "sfts")
    return ["--DataFiles=sfts/*.sft", f"--assumeSqrtSX={SQRT_SX}"]


@pytest.mark.ci
def test_the_table_is_that_of_the_library(sfts, data, capsys):
    lattice = ["--f1dot=-5e-8", "--f1dotBand=5e-8", "--metricMismatch=0.3"]
    own = ["--bins=2", "--dFreq=0.00027777777777777778", "--criticalRatioThreshold=6", "--outputFstat=a.ecsv"]
    assert main(["track-power", *data, *BAND, *lattice, *own]) == 0
    said = capsys.readouterr().out
    assert "values of power" in said and "critical_ratio" in said and "2F" not in said
    table = jfstat.read_candidates("a.ecsv")
    normalised = jfstat.normalise(sfts, 100.0, 100.05, dfreq=1 / 3600, bins=2, sqrt_sx=SQRT_SX)
    bank = jfstat.template_bank(2.1, 0.4, (-5e-8, 0.0), data=normalised, mismatch=0.3, freq=(100.0, 100.05))
    keep = jfstat.Keep(bounds={"f1dot": (-5e-8, 0.0)})
    expected = jfstat.search(normalised, bank, jfstat.TrackPower(), None, 6.0, keep=keep, progress=False)
    assert len(table) == len(expected) > 0
    for name in ("freq", "f1dot", "critical_ratio", "critical_ratio_L1", "outside", "template"):
        values = (np.asarray(getattr(x[name], "value", x[name])) for x in (table, expected))
        np.testing.assert_allclose(*values, rtol=1e-9, err_msg=name)
    assert table.meta["noise"] == "given" and abs(table["freq"][0].value - 100.02) < 1 / 1800


@pytest.mark.ci
def test_units_and_costs(data, capsys):
    flat = ["--f1dot=-5e-8", "--f1dotBand=4e-8", "--df1dot=1e-8"]
    assert main(["track-power", *data, *BAND, *flat, "--countTemplates"]) == 0
    assert "5 template(s)" in (said := capsys.readouterr().out) and "would take" in said
    for i in (1, 2):
        assert main(["track-power", *data, *BAND, *flat, f"--unit={i}/2", f"--outputFstat={i}.ecsv"]) == 0
    assert main(["merge", "1.ecsv", "2.ecsv", "--outputFstat=both.ecsv"]) == 0
    assert main(["track-power", *data, *BAND, *flat, "--outputFstat=whole.ecsv"]) == 0
    both, whole = jfstat.read_candidates("both.ecsv"), jfstat.read_candidates("whole.ecsv")
    np.testing.assert_array_equal(both["critical_ratio"], whole["critical_ratio"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--bins=3"], "--bins must be 1 or an even number"),
        (["--dFreq=1e-4"], "--dFreq must be the width of a bin"),
        (["--outputFstat=a.txt"], "--outputFstat must end with .ecsv or .hdf5"),
        (["--vetoLines"], "--vetoLines needs --linefiles"),
        (["--NumCandidatesToKeep=0"], "keeps all at or above --criticalRatioThreshold"),
        (["--Freq=300"], "300"),
    ],
)
def test_wrong_options_are_named(data, capsys, words, message):
    assert main(["track-power", *data, *[x for x in BAND if x.partition("=")[0] != words[0].partition("=")[0]], *words])
    said = capsys.readouterr()
    assert message in said.err and said.err.count("\n") == 1
