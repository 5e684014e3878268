"""docs/columns.md is what the schema says."""

import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_up_to_date():
    done = subprocess.run([sys.executable, DOCS / "columns.py", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
