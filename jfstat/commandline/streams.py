"""Standard output and error that may fail without ending the work: a closed pipe, a full disk, another encoding."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


class Lenient:
    """A stream that forgets what it cannot write, and remembers why.

    Attributes
    ----------
    failure : OSError or None
        What went wrong first. A reader that has ended, such as head, is no failure.
    """

    def __init__(self, stream: Any):
        self.lost = stream is None  # closed by the caller
        self.stream: Any = io.StringIO() if stream is None else stream
        self.failure: OSError | None = None
        with suppress(AttributeError, OSError, ValueError):
            self.stream.reconfigure(errors="backslashreplace")  # letters that the locale's encoding lacks

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write, as far as the stream still can."""
        self._attempt("write", text)
        return len(text)

    def flush(self) -> None:
        """Flush, as far as the stream still can."""
        self._attempt("flush")

    def _attempt(self, method: str, *arguments: str) -> None:
        if self.lost:
            return
        try:
            getattr(self.stream, method)(*arguments)
        except OSError as error:
            self.lost = True
            self.failure = None if isinstance(error, BrokenPipeError) or error.errno == errno.EINVAL else error
            self._discard()

    def _discard(self) -> None:
        """Let what is still buffered go nowhere, or the interpreter would fail once more when it ends."""
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
            os.close(nowhere)


@contextmanager
def lenient_streams() -> Iterator[Lenient]:
    """Within the ``with`` block, what is printed to stdout and stderr may be lost, but no error is raised.

    Yields
    ------
    Lenient
        Standard output.
    """
    usual = sys.stdout, sys.stderr
    output, errors = Lenient(sys.stdout), Lenient(sys.stderr)
    sys.stdout, sys.stderr = output, errors  # type: ignore[assignment]
    try:
        yield output
    finally:
        output.flush()
        errors.flush()
        sys.stdout, sys.stderr = usual
