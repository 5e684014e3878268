"""The Python of docs/strain.md runs as printed, and its tables are the committed figures."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from pages import run_page

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "strain.md"


@pytest.mark.ci
def test_the_page_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "examples")
    names = run_page(PAGE, 4)
    signal = sys.modules["real_noise"].SIGNAL
    plain, gated = names["floors"]
    assert 4e-24 < gated < 0.9 * plain
    assert names["sfts"].detectors == ("H1", "L1")
    best = names["best"]
    assert abs(float(best["freq"].value) - float(np.asarray(signal.fkdot)[0])) < 1e-4  # 3 h: bins of 5e-5 Hz
    assert float(best["twoF"]) > 100


def committed(name):
    return json.loads((ROOT / "examples" / f"{name}.json").read_text())


def noise_rows():
    found = committed("real_noise")
    yield "| | SFTs | 2F of the signal | mean 2F of the noise | largest of the noise |"
    yield "|---|---|---|---|---|"
    for name in ("as it is", "gated"):
        row = found[name]["running median"]
        yield "| {} | {} | {:.0f} | {:.2f} | {:.0f} |".format(
            name,
            found[name]["SFTs"],
            row["2F of the signal"],
            row["mean 2F of the noise"],
            row["largest 2F of the noise"],
        )


def floor_rows():
    found = committed("noise_floors")
    names = list(found["mean of 2F in noise"])
    yield "| | " + " | ".join(names) + " |"
    yield "|---|" + "---|" * len(names)
    for row in found["2F over 2F with the known floor"]:
        cells = ["{mean:.3f} ± {standard deviation:.3f}".format(**row[name]) for name in names]
        yield f"| 2F = {row['2F']:g}, {row['days']:g} d | " + " | ".join(cells) + " |"
    cells = ["{mean:.3f} ± {error of the mean:.3f}".format(**found["mean of 2F in noise"][name]) for name in names]
    yield "| mean 2F of noise, and its error | " + " | ".join(cells) + " |"


def amplitude_rows():
    found = [row for row in committed("h0_bias")["ratios of amplitudes"] if row["floors"] == "all"]
    data = list(dict.fromkeys(row["data"] for row in found))
    yield "| | " + " | ".join(data) + " |"
    yield "|---|" + "---|" * len(data)
    for q in dict.fromkeys(row["q"] for row in found):
        for noise in dict.fromkeys(row["noise"] for row in found):
            own = [row for row in found if row["q"] == q and row["noise"] == noise]
            yield (
                f"| q = {q:g}, {noise} | "
                + " | ".join("{ratio:.4f} ({without:.4f})".format(**row) for row in own)
                + " |"
            )


def test_tables_are_as_committed():
    text = PAGE.read_text()
    for rows in (noise_rows(), floor_rows(), amplitude_rows()):
        assert "\n".join(rows) in text
    found = committed("h0_bias")
    assert found["injections"] >= 2000
    loud = [row for row in committed("h0_bias_loud")["ratios of amplitudes"] if row["floors"] == "all"]
    assert all(abs(row["ratio"] - 1) < (0.004 if row["q"] == 8 else 0.01) for row in loud)
    assert all(abs(row["ratio"] - 1) < 0.003 for row in found["ratios of amplitudes"])
    for row in committed("noise_floors")["2F over 2F with the known floor"]:
        best = row["1001 bins, off_source=10"]
        assert abs(best["mean"] - 1) < 0.005 + 2 * best["error of the mean"]
