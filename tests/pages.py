"""Runs the Python that is printed on pages of the documentation."""

import re
from pathlib import Path

import jax


def run_page(page: Path, n_blocks: int) -> dict:
    """What the names of a page's blocks of Python stand for after all of them, run from top to bottom."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    assert len(blocks) == n_blocks
    names: dict = {}
    with jax.numpy_dtype_promotion("standard"):
        for block in blocks:
            exec(compile(block, str(page), "exec"), names)
    return names
