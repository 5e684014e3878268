"""Let only one search at a time use a checkpoint."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None
"""Module of the system's file locks; None on Windows."""

HELD = (errno.EACCES, errno.EAGAIN)
"""Error numbers of a lock that another process holds; others mean that the file system has no locks."""


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Keep other searches from using the checkpoint `path` within the ``with`` block.

    A file beside the checkpoint is locked. The system lifts the lock when the process ends, however it ends; the file
    itself is removed. Where the system or the file system has no locks, nothing is checked.

    Raises
    ------
    OSError
        If the file to be locked cannot be made.
    ValueError
        If another search uses the checkpoint.
    """
    if fcntl is None:
        yield
        return
    name = path.with_name(f".{path.name}.lock")
    descriptor = _locked(name, path)
    try:
        os.truncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield
    finally:
        name.unlink(missing_ok=True)  # before the lock is lifted, or the file might be another search's
        os.close(descriptor)


def _locked(name: Path, path: Path) -> int:
    """Return a descriptor of the file with this name, locked."""
    while True:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in HELD:
                return descriptor
            owner = os.read(descriptor, 200).decode(errors="replace") or "another process"
            os.close(descriptor)
            raise ValueError(
                f"checkpoint {str(path)!r} is in use by another run ({owner}): wait for it, or name another file."
            ) from None
        try:
            if os.path.samestat(os.fstat(descriptor), os.stat(name)):
                return descriptor
        except FileNotFoundError:
            pass
        os.close(descriptor)  # the previous search removed the file: what is locked no longer has this name
