"""A progress bar for long work, drawn by tqdm if it is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def progress_bar(total: int, show: bool, what: str, unit: str, done: int = 0) -> Iterator[Callable[..., None]]:
    """A function to call with how many more items are done, and with a note to show beside the rate and time left.

    Parameters
    ----------
    total : int
        Number of items.
    show : bool
        Whether to draw anything.
    what, unit : str
        Name of the work, and of an item.
    done : int
        Number of items that an earlier run has done, which do not count in the rate.
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
