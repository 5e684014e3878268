"""Files that are replaced as a whole or not at all, even if the power fails."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path` when the block ends, or vanishes if the block raises.

    The content is on disk before the file gets its name, and the name is on disk when the block has ended: after a
    power cut, `path` holds either what it held before or all of the new content.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    """Write a directory's entries to disk, where the platform and the file system allow it."""
    if not hasattr(os, "O_DIRECTORY"):  # as on Windows, which cannot open directories
        return
    with suppress(OSError):  # some network file systems refuse
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
