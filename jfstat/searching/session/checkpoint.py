"""Write and read checkpoints: files with the state of a search, and with what identifies it, its data and its bank."""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jfstat.atomic import check_writable, remove_leftovers, replacing
from jfstat.files import content_of, final_path
from jfstat.searching.division import Division
from jfstat.searching.driver.banddivision import source_groups
from jfstat.searching.reduce.state import State
from jfstat.searching.reduce.toplist import Peaks
from jfstat.searching.session.identity import Identity, differences
from jfstat.searching.session.lock import held
from jfstat.searching.session.processes import first_does, is_first
from jfstat.signal.templates import Doppler
from jfstat.validation import shown

CHECKSUM = b"jfstat checkpoint, sha256 "
"""First bytes of a checkpoint, before the checksum."""
BROKEN = (ValueError, KeyError, TypeError, AttributeError, IndexError, NotImplementedError, OSError)
BROKEN += (EOFError, zipfile.BadZipFile, zlib.error, struct.error)
"""Errors that reading a file may raise if it is damaged or no checkpoint."""


class Checkpoint(NamedTuple):
    """File that holds the state of a search.

    Attributes
    ----------
    path : Path
    identity : Identity
        Identity of the running search.
    together : bool
        Whether several processes search together: the first of them then reads and writes for all.
    """

    path: Path
    identity: Identity
    together: bool

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep other searches from using the file within the ``with`` block; see `lock.held`."""
        with ExitStack() as stack:
            first_does(lambda: stack.enter_context(held(written_path(self.path))), self.together)
            yield

    def resumed(self, stack: Doppler, batch_size: int | None, engine: str | None) -> tuple[State, Division] | None:
        """Return the state and division of the search that was stopped; None if there is no file.

        Raises
        ------
        OSError
            If the file cannot be read or replaced.
        ValueError
            If the file is of another search.
        """
        content = first_does(lambda: checkpoint_bytes(self.path), self.together)
        if content is None:
            return None
        state, division, theirs = read_checkpoint(content, self.path, stack)
        differing = differences(theirs, self.identity)
        if batch_size is not None and batch_size != division.batch_size:
            differing = ", ".join(
                filter(None, [differing, f"batch_size ({division.batch_size} there, {batch_size} here)"])
            )
        if engine not in (None, division.engine):
            differing = ", ".join(filter(None, [differing, f"engine ({division.engine} there, {engine} here)"]))
        if differing:
            raise of_another(self.path, "search", differing)
        return state, division

    def written(self, state: State, division: Division) -> OSError | None:
        """Replace the file; if several processes search together, only the first does so.

        An error is raised if the process searches alone, and returned if the process must tell others first.
        """
        try:
            if is_first() or not self.together:
                write_checkpoint(self.path, state, division, self.identity)
        except OSError as error:
            if not self.together:
                raise
            return error
        return None


def write_checkpoint(path: Path, state: State, division: Division, own: Identity) -> None:
    """Replace the file by the current state, or leave it as it was.

    Raises
    ------
    OSError
        If the file cannot be written, as on a full or read-only disk.
    """
    header = {
        "identity": own,
        "plan": {
            "engine": division.engine,
            "batch_size": division.batch_size,
            "same_source": division.same_source,
            # groups of one source follow from the bank; others are few
            "groups": None if division.same_source else division.groups,
            "bands": [list(band) for band in division.bands],
            "device_bytes": division.device_bytes,
            "n_coherent": division.n_coherent,
        },
        "done": state.done,
    }
    arrays = io.BytesIO()
    try:
        with replacing(path) as file:
            np.savez(
                arrays,
                header=np.frombuffer(json.dumps(header).encode(), np.uint8),
                histogram=state.histogram,
                subbands=np.array([(*ends, twoF) for ends, twoF in state.subbands.items()]).reshape(-1, 3),
                **state.peaks._asdict(),
            )
            file.write(with_checksum(arrays.getvalue()))
    except OSError as error:
        raise unwritable_checkpoint(path, error) from error


def of_another(path: Path, work: str, differing: str) -> ValueError:
    """Return the error for a checkpoint of another search, follow-up or background, given what differs."""
    return ValueError(f"checkpoint {str(path)!r} is of another {work}: what differs is {differing}; name another file.")


def unwritable_checkpoint(path: Path, error: OSError) -> OSError:
    """Return an error of the same type for a checkpoint that cannot be written, and keeps what it held."""
    return type(error)(
        f"checkpoint {str(path)!r} cannot be written ({error.strerror or error}): what it held is kept; "
        "make room or name another file."
    )


def unreadable_checkpoint(path: Path, error: OSError) -> OSError:
    """Return an error of the same type for a checkpoint that cannot be read."""
    return type(error)(f"checkpoint {str(path)!r} cannot be read ({error.strerror}): name another file.")


def with_checksum(content: bytes) -> bytes:
    """Return the content of a checkpoint's file: arrays, after a line with their checksum."""
    return CHECKSUM + hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def checked(content: bytes) -> bytes:
    """Return the arrays of a checkpoint's file; raise a ValueError unless their checksum is right.

    Only content exactly as a search wrote it is unpacked, so its sizes and numbers can be trusted.
    """
    arrays = content[len(CHECKSUM) + 2 * hashlib.sha256().digest_size + 1 :]
    if content != with_checksum(arrays):
        raise ValueError("the checksum is wrong")
    return arrays


def checkpoint_bytes(path: Path) -> bytes | None:
    """Return the content of the file, after checking that the file can be replaced; None if there is no file.

    Raises
    ------
    OSError
        If the file cannot be read, or nothing can be written at its path.
    """
    try:
        remove_leftovers(written_path(path))  # left by a process that was killed while it wrote
        return content_of(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable_checkpoint(path, error) from error


def written_path(path: Path) -> Path:
    """Return the path where the checkpoint is written, links followed, after checking that it is writable.

    Raises
    ------
    OSError
        If nothing can be written at the path.
    """
    try:
        check_writable(path)
    except (OSError, ValueError) as error:
        raise type(error)(str(error).replace("path", "checkpoint", 1)) from None
    return final_path(path)


def read_checkpoint(content: bytes, path: Path, stack: Doppler) -> tuple[State, Division, Identity]:
    """Return the state, division and identity of the search whose checkpoint has this content.

    Raises
    ------
    ValueError
        If the content is no checkpoint.
    """
    try:
        content = checked(content)
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            header = json.loads(arrays["header"].tobytes())
            peaks = Peaks(*(arrays[name] for name in Peaks._fields))
            subbands = {(int(begin), int(end)): float(twoF) for begin, end, twoF in arrays["subbands"]}
            state = State(header["done"], peaks, arrays["histogram"], subbands)
        stored, own = header["plan"], header["identity"]
        same_source = stored["same_source"]
        division = Division(
            engine=stored["engine"],
            batch_size=stored["batch_size"],
            groups=_groups(stored["groups"], stack),
            same_source=same_source,
            bands=[(first, width) for first, width in stored["bands"]],
            device_bytes=stored["device_bytes"],
            n_coherent=stored["n_coherent"],
        )
    except BROKEN as error:
        raise ValueError(f"checkpoint {str(path)!r} is no checkpoint of a search: name another file.") from error
    return state, division, own


def _groups(stored: list[list[int]] | None, stack: Doppler) -> list[tuple[int, int]]:
    """Return the ranges of the bank within which the batches of a division lie."""
    return source_groups(stack) if stored is None else [(start, stop) for start, stop in stored]


def checkpoint_path(path: str | os.PathLike) -> Path:
    """Return the path of a checkpoint; raise a TypeError if it is no path."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"checkpoint must be the name of a file, not {shown(path)}: leave it None for none.")
    if "\0" in os.fspath(path):
        raise ValueError(f"checkpoint must be the name of a file, not {shown(path)}: no name holds a null.")
    return Path(path)
