"""A progress bar for long work, if tqdm is there to draw it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def progress_bar(total: int, show: bool, what: str, unit: str, done: int = 0) -> Iterator[Callable[..., Any]]:
    """A function to be told how many of `total` were done, and a note to show beside the rate and the time left.

    `done` of them were done before, by a run that this one goes on with, and count for no rate.
    """
    tqdm = None
    if show:
        with suppress(ImportError):
            from tqdm.auto import tqdm
    if tqdm is None:
        yield lambda n, note="": None
    else:
        with tqdm(total=total, initial=done, desc=what, unit=f" {unit}") as bar:

            def advance(n: int, note: str = "") -> None:
                if note:
                    bar.set_postfix_str(note, refresh=False)
                bar.update(n)

            yield advance
