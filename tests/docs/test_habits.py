"""The version is the same wherever it stands, and the guard of the benchmark notices."""

import importlib.util
import json
import re
from pathlib import Path

import jfstat

ROOT = Path(__file__).parents[2]


def test_the_citation_has_the_version():
    assert re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.M)[1] == jfstat.__version__


def test_the_guard_compares_with_what_was_measured(tmp_path):
    spec = importlib.util.spec_from_file_location("check_benchmark", ROOT / ".ci" / "check_benchmark.py")
    guard = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(guard)
    before = guard.ratios(guard.COMMITTED)
    assert set(before) == {"1d", "5d", "10d"} and min(before.values()) > 5
    rows = json.loads(guard.COMMITTED.read_text())["rows"]
    rows[0]["lal_over_jfstat"] *= 0.4
    (tmp_path / "times.json").write_text(json.dumps({"rows": rows[:2]}))
    (said,) = guard.slower(guard.ratios(tmp_path / "times.json"), before)
    assert said.startswith("1d: LALSuite takes 3.2 times")
