"""Opening of files that users name: only regular files are read, so that reading cannot wait for ever."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
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


def text_of(path: str | os.PathLike, encoding: str = "utf-8") -> str:
    """Return the text of a regular file, with every kind of line break as ``\\n``; see `opened` for errors.

    Raises
    ------
    UnicodeDecodeError
        If the file is not text.
    """
    return content_of(path).decode(encoding).replace("\r\n", "\n").replace("\r", "\n")


def unreadable(path: str | os.PathLike, error: OSError) -> OSError:
    """Return an error of the same type that names the file given as `path` and says what to do."""
    return type(error)(f"path {str(path)!r} cannot be read ({error.strerror or error}): name another file.")


def text_of_named(
    path: str | os.PathLike,
    otherwise: str,
    advice: str = "name another file.",
    name: str = "",
    encoding: str = "utf-8",
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
    encoding : str

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If the file is not text.
    """
    name = name or f"path {str(path)!r}"
    try:
        return text_of(path, encoding)
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
