"""Atomic writing of files: a file is replaced as a whole or not at all, even if the power fails."""

from __future__ import annotations

import glob
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from jfstat.files import final_path

RANDOM_BYTES = 4
"""Number of random bytes in temporary names."""


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write that replaces `path` when the block ends, or vanishes if the block raises.

    Links are followed. Devices, named pipes and directories are refused by an OSError.

    The content is on disk before the file gets its name, and the name is on disk when the block has ended: after a
    power cut, `path` holds either what it held before or all of the new content.
    """
    with replaced_by(path) as temporary, open(temporary, "xb") as file:
        yield file


@contextmanager
def replaced_by(path: Path) -> Iterator[Path]:
    """Yield the name of a file to write for libraries that open files themselves; otherwise as `replacing`."""
    path = final_path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(RANDOM_BYTES)}.part")
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def written_to(path: Path, content: bytes) -> Path:
    """The path, of which the file now has this content; an OSError of one sentence if it cannot be written."""
    try:
        with replacing(path) as file:
            file.write(content)
    except OSError as error:
        raise type(error)(
            f"path {str(path)!r} cannot be written ({error.strerror or error}): choose another."
        ) from error
    return path


def check_writable(path: str | os.PathLike) -> None:
    """Raise an OSError of one sentence unless a file can be written to a path, before the work that leads to it."""
    try:
        with tempfile.TemporaryFile(dir=final_path(Path(path)).parent):
            pass
    except OSError as error:
        raise type(error)(
            f"path {str(path)!r} cannot be written ({error.strerror or error}): choose another."
        ) from error


def check_directory(path: str | os.PathLike) -> None:
    """Raise an OSError of one sentence unless files can be written to a directory, which need not exist yet."""
    try:
        existing = Path(path).absolute()
        while not os.path.lexists(existing) and existing != existing.parent:
            existing = existing.parent
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise type(error)(
            f"directory {str(path)!r} cannot be written to ({error.strerror or error}): choose another."
        ) from error


def made_directory(path: str | os.PathLike, name: str) -> Path:
    """Make a directory unless it exists, and return it; an OSError of one sentence on the argument `name` if not."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise type(error)(
            f"{name} {str(path)!r} cannot be made ({error.strerror or error}): choose another."
        ) from error
    return Path(path)


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files of processes that were killed while they wrote to `path`, and no other file.

    No process may be writing to `path` at the same time.
    """
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 2 * RANDOM_BYTES}.part"):
        leftover.unlink(missing_ok=True)


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
