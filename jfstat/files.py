"""Opening of files that users name: only regular files are read, so that reading cannot wait for ever."""

from __future__ import annotations

import codecs
import errno
import hashlib
import os
import stat
from collections.abc import Iterable
from io import FileIO
from pathlib import Path

KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a directory",
}
"""Names of the kinds of files that are not regular."""
MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",  # before UTF-16's mark, with which it begins
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
"""Encodings of text by the byte-order mark with which it begins, as spreadsheets write it."""


def require_regular(mode: int) -> None:
    """Raise an OSError unless a mode, such as from ``os.stat``, is the mode of a regular file."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"it is {KINDS.get(stat.S_IFMT(mode), 'no regular file')}, not a regular file")


def opened(path: str | os.PathLike) -> FileIO:
    """Open a regular file for reading, unbuffered.

    Raises
    ------
    OSError
        If the file does not exist, cannot be opened, or is a named pipe, device or directory. The error does not
        contain the file's name, which callers add.
    ValueError
        If no file can have this name.
    """
    # a named pipe without a writer would make open wait
    file = FileIO(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)), "rb")
    try:
        require_regular(os.fstat(file.fileno()).st_mode)
    except OSError:
        file.close()
        raise
    return file


def stamp_of(file: FileIO) -> int:
    """Return a number that changes when a file is replaced or written to, as far as its file system tells."""
    known = os.fstat(file.fileno())
    facts = (known.st_dev, known.st_ino, known.st_size, known.st_mtime_ns, known.st_ctime_ns)
    return int.from_bytes(hashlib.blake2b(repr(facts).encode(), digest_size=8).digest())


def content_of(path: str | os.PathLike) -> bytes:
    """Return all bytes of a regular file; see `opened` for errors."""
    with opened(path) as file:
        return file.readall()


def text_of(path: str | os.PathLike) -> str:
    """Return the text of a regular file, with every kind of line break as ``\\n``; see `opened` for errors.

    Text is in UTF-8, unless it begins with the byte-order mark of another encoding.

    Raises
    ------
    UnicodeDecodeError
        If the file is not text.
    """
    content = content_of(path)
    mark = next((mark for mark in MARKS if content.startswith(mark)), b"")
    text = content[len(mark) :].decode(MARKS.get(mark, "utf-8"))
    if "\0" in text or (mark and not text):  # UTF-16 without a mark, a block that was never written, a mark alone
        raise UnicodeDecodeError("utf-8", content, 0, len(content), "null characters")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def unreadable(path: str | os.PathLike, error: OSError) -> OSError:
    """Return an error of the same type that names the file given as `path` and says what to do."""
    return type(error)(f"path {str(path)!r} cannot be read ({error.strerror or error}): name another file.")


def text_of_named(
    path: str | os.PathLike,
    otherwise: str,
    advice: str = "name another file.",
    name: str = "",
) -> str:
    """Return the text of a file that a user names, with errors that say what is wrong with it.

    Parameters
    ----------
    path : str or path
    otherwise : str
        Ends the sentence about a file that is not text.
    advice : str
        What to do if it cannot be read.
    name : str
        How errors call the file; by default ``path '...'``.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If the file is not text.
    """
    name = name or f"path {str(path)!r}"
    try:
        return text_of(path)
    except OSError as error:
        raise type(error)(f"{name} cannot be read ({error.strerror or error}): {advice}") from error
    except UnicodeDecodeError:
        raise ValueError(f"{name} {otherwise}") from None


def final_path(path: Path) -> Path:
    """Return where a file is to be written: the path itself or, for a link, its target.

    There need not be a file yet.

    Raises
    ------
    OSError
        If the path is something other than a regular file, or links lead in a circle.
    """
    target = Path(os.path.realpath(path))
    try:
        require_regular(os.stat(path).st_mode)
    except FileNotFoundError:
        if target.is_symlink():  # links in a circle, which realpath does not resolve
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
    return target


def overwritten(outputs: Iterable[str | os.PathLike], inputs: Iterable[str | os.PathLike]) -> Path | None:
    """Return the first file to be written that is one of the files that are read; None if there is none.

    Files are compared, not their names: one file has several by links, relative paths, and letters of either case where
    the file system does not distinguish these.
    """
    there = [(Path(path), known) for path in outputs if (known := _identity(path)) is not None]
    if not there:
        return None  # most outputs are new, and inputs are many
    read = {_identity(path) for path in inputs}
    return next((path for path, known in there if known in read), None)


def _identity(path: str | os.PathLike) -> tuple[int, int] | None:
    """Return what all names of a file have in common; None if there is no such file."""
    try:
        known = os.stat(path)
    except (OSError, ValueError):
        return None
    return known.st_dev, known.st_ino
