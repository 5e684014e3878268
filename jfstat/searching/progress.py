"""A progress bar for long work, if tqdm is there to draw it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def progress_bar(total: int, show: bool, what: str, unit: str) -> Iterator[Callable[[int], Any]]:
    """A function to be told how many of `total` were done."""
    tqdm = None
    if show:
        with suppress(ImportError):
            from tqdm.auto import tqdm
    if tqdm is None:
        yield lambda n: None
    else:
        with tqdm(total=total, desc=what, unit=f" {unit}") as bar:
            yield bar.update
