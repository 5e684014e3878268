"""Runs the Python that is printed on pages of the documentation."""

import re
from pathlib import Path

import jax


def run_page(page: Path, n_blocks: int, names: dict | None = None, *, last: int | None = None) -> dict:
    """What the names of a page's blocks of Python stand for after all of them, run from top to bottom.

    `names` are those of a page that this one continues; they are updated. Only blocks before number `last` are run, if
    it is given.
    """
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    assert len(blocks) == n_blocks
    names = {} if names is None else names
    with jax.numpy_dtype_promotion("standard"):
        for block in blocks[:last]:
            exec(compile(block, str(page), "exec"), names)
    return names
