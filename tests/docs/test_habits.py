"""The version is the same wherever it stands."""

import re
from pathlib import Path

import jfstat

ROOT = Path(__file__).parents[2]


def test_the_citation_has_the_version():
    assert re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.M)[1] == jfstat.__version__
