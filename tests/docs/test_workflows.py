"""The eleven workflows of examples/workflows.py, on files that LALSuite wrote, beside its programs."""

import importlib.util
import sys
from pathlib import Path

import pytest

pytest.importorskip("lalpulsar")
spec = importlib.util.spec_from_file_location("workflows", Path(__file__).parents[2] / "examples" / "workflows.py")
workflows = importlib.util.module_from_spec(spec)
sys.modules["workflows"] = workflows
spec.loader.exec_module(workflows)


@pytest.mark.slow
@pytest.mark.parametrize("name", workflows.WORKFLOWS)
def test_each_finds_what_lalsuite_finds(name, tmp_path):
    found = workflows.WORKFLOWS[name](tmp_path)
    # the noise that two methods see differs by what LALSuite cuts off, some per cent
    slack = 0.06 * found["lalsuite"] + 4
    assert found["jfstat"] > found["lalsuite"] - slack
    if name not in ("weak", "directed", "binary"):  # these need not have the same templates
        assert found["jfstat"] < found["lalsuite"] + slack
