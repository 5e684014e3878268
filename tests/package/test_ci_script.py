"""What only `.ci/run` runs is run there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "run"
COMPILED = re.compile(r"^@pytest\.mark\.compiled\n((?:.+\n)*?)def (test_\w+)", re.MULTILINE)


@pytest.mark.skipif(not SCRIPT.exists(), reason="distributions have no .ci")
def test_every_test_that_needs_programs_as_users_have_them_is_named():
    """Those marked `compiled` are skipped by the other runs."""
    found = [
        (f"{path.relative_to(ROOT)}::{name}", others)
        for path in (ROOT / "tests").rglob("test_*.py")
        for others, name in COMPILED.findall(path.read_text())
    ]
    text = SCRIPT.read_text()
    whole = {f"tests/{x}.py" for x in re.search(r"numbers=\((.*)\)", text)[1].split()}
    named = {line.strip() for line in text.splitlines()}
    assert len(found) >= 5
    for name, others in found:
        assert name in named or name.partition("::")[0] in whole
        assert not re.search(r"mark\.(ci|slow)\b", others), f"{name} is left out by its other mark"
