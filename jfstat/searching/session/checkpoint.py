"""The checkpoint of a search: a file with its state, and with what identifies the search, its data and its bank."""

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
from dataclasses import astuple
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jfstat.atomic import remove_leftovers, replacing
from jfstat.candidates.files import check_writable
from jfstat.data.memory import device_of
from jfstat.files import content_of, final_path
from jfstat.searching.driver.plan import SearchPlan, source_groups
from jfstat.searching.driver.work import Identity, TransientSearch, Work
from jfstat.searching.reduce.keep import Peaks
from jfstat.searching.reduce.state import State
from jfstat.searching.session.banksums import bank_sums, column_sums, same_sums
from jfstat.searching.session.lock import held
from jfstat.searching.session.processes import first_does, is_first
from jfstat.signal.templates import Doppler
from jfstat.validation import shown

CHECKSUM = b"jfstat checkpoint, sha256 "
"""How a checkpoint begins."""
PIECES = 8
"""Number of pieces of the data whose sums distinguish one data set from another."""
BROKEN = (ValueError, KeyError, TypeError, AttributeError, IndexError, NotImplementedError, OSError)
BROKEN += (EOFError, zipfile.BadZipFile, zlib.error, struct.error)
"""What reading a file that is damaged or no checkpoint may raise."""
SAME_DATA = 1e-5
"""Relative difference up to which sums over data count as equal: processors round differently."""


class Checkpoint(NamedTuple):
    """The file that holds the state of a search.

    Attributes
    ----------
    path : Path
    identity : Identity
        Of the search that is running.
    together : bool
        Whether several processes search together: the first of them then reads and writes for all.
    """

    path: Path
    identity: Identity
    together: bool

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Within the ``with`` block, no other search may use the file; see `lock.held`."""
        with ExitStack() as stack:
            first_does(lambda: stack.enter_context(held(written_path(self.path))), self.together)
            yield

    def resumed(self, stack: Doppler, batch_size: int | None, engine: str | None) -> tuple[State, SearchPlan] | None:
        """State and plan of the search that was stopped; None if there is no file.

        Raises
        ------
        OSError
            If the file cannot be read or replaced.
        ValueError
            If it is of another search.
        """
        content = first_does(lambda: checkpoint_bytes(self.path), self.together)
        if content is None:
            return None
        state, plan, theirs = read_checkpoint(content, self.path, stack)
        differing = differences(theirs, self.identity)
        if batch_size is not None and batch_size != plan.batch_size:
            differing = ", ".join(filter(None, [differing, f"batch_size ({plan.batch_size} there, {batch_size} here)"]))
        if engine not in (None, plan.engine):
            differing = ", ".join(filter(None, [differing, f"engine ({plan.engine} there, {engine} here)"]))
        if differing:
            raise ValueError(
                f"checkpoint {str(self.path)!r} is of another search: what differs is {differing}; name another file."
            )
        return state, plan

    def written(self, state: State, plan: SearchPlan) -> OSError | None:
        """Replace the file, in the first process if several search together.

        An error is raised if the process searches alone, and returned if it must tell the others first.
        """
        try:
            if is_first() or not self.together:
                write_checkpoint(self.path, state, plan, self.identity)
        except OSError as error:
            if not self.together:
                raise
            return error
        return None


WORDS = {"times": "the times of the SFTs", "sites": "the sites of the detectors", "vetoed": "the vetoed lines"}
"""What differs, where numbers would say nothing."""
SUMS = {"bank": "the bank's templates", "orbits": "the tables of the ephemeris"}
"""The same, for what is told apart by `column_sums`."""


def identity(work: Work) -> Identity:
    """What distinguishes a search from others, for `differences`."""
    from jfstat.version import __version__

    data, stack = work.data, work.stack
    # with random signs, anything added to the data, such as a signal, changes the sums by the root of its power
    series = np.asarray(data.series).reshape(-1, data.series.shape[-1])
    signs = 2 * np.random.default_rng(0).integers(0, 2, series.shape[1], np.int8) - 1
    sums = [[x.sum(dtype=np.complex128) for x in np.array_split(detector * signs, PIECES)] for detector in series]
    numbers = np.stack([np.real(sums), np.imag(sums)]).ravel()
    times = np.stack([data.observation.start, np.asarray(data.observation.weight) > 0])
    return {
        "jfstat": __version__,
        "jax": jax.__version__,
        "platform": device_of(data).platform,
        "detectors": list(data.detectors),
        "sites": hashlib.sha256(np.round(data.observation.response, 9).tobytes()).hexdigest()[:16],
        "start": int(np.min(data.observation.epoch)),
        "segments": data.n_segments,
        "coherent_mismatch": work.coherent_mismatch,
        "track": None if work.track is None else [*work.track.transitions, *(work.track.amplitude or ())],
        "transient": None if work.transient is None else _transient(work.transient),
        "tspan": float(data.tspan),
        "fmin": float(data.fmin),
        "dfreq": float(data.dfreq),
        "n_frequencies": data.layout.n_frequencies,
        "ephemeris": data.ephemeris,
        # files of other content may have the same name
        "orbits": column_sums(data.observation.trajectory.positions.reshape(-1, 6).T),
        "reftime": [float(work.reftime.seconds), float(work.reftime.nanoseconds)],
        "times": hashlib.sha256(times.tobytes()).hexdigest()[:16],
        "data": [float(f"{x:.8g}") for x in numbers],
        "n_templates": len(stack.alpha),
        "bank": bank_sums(stack),
        "model": None if stack.model is None else getattr(stack.model.function, "__qualname__", "unnamed"),
        "top": work.keep.top,
        "threshold": work.keep.threshold,
        "lines": None if work.keep.lines is None else [*astuple(work.keep.lines)[:2], *work.keep.lines.odds],
        "vetoed": None if work.keep.bands is None else _digest(*work.keep.bands),
        "unit": work.unit,
    }


def _transient(searched: TransientSearch) -> list[Any]:
    """What distinguishes a search for transient signals from others."""
    own = searched.windows
    shape = own.shape if isinstance(own.shape, str) else getattr(own.shape, "__qualname__", "unnamed")
    return [shape, own.end, own.duration, own.rho_max, searched.bayes, _digest(own.t0, own.tau)]


def _digest(*arrays: Any) -> str:
    """A short text that differs if any of some arrays does."""
    return hashlib.sha256(b"".join(np.asarray(x).tobytes() for x in arrays)).hexdigest()[:16]


def differences(first: Identity, second: Identity, ignore: tuple[str, ...] = ()) -> str:
    """What differs between two identities, in words; "" if they agree."""
    found = []
    for name in second:
        if name in ignore:
            continue
        one, other = first.get(name), second[name]
        if name == "data":
            if not _close(one, other):
                found.append("the data's samples")
        elif name in SUMS:
            if not same_sums(one, other):
                found.append(SUMS[name])
        elif name in WORDS:
            if one != other:
                found.append(WORDS[name])
        elif one != other:
            found.append(f"{name} ({one} there, {other} here)")
    return ", ".join(found)


def write_checkpoint(path: Path, state: State, plan: SearchPlan, own: Identity) -> None:
    """Replace the file by the current state, or leave it as it was.

    Raises
    ------
    OSError
        If it cannot be written, as on a full or read-only disk.
    """
    header = {
        "identity": own,
        "plan": {
            "engine": plan.engine,
            "batch_size": plan.batch_size,
            "same_source": plan.same_source,
            # those of an interpolating search depend on the memory; others follow from the bank
            "groups": None if own.get("coherent_mismatch") is None else plan.groups,
            "bands": [list(band) for band in plan.bands],
            "device_bytes": plan.device_bytes,
            "n_coherent": plan.n_coherent,
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
        raise type(error)(
            f"checkpoint {str(path)!r} cannot be written ({error.strerror or error}): what it held is kept; "
            "make room or name another file."
        ) from error


def with_checksum(content: bytes) -> bytes:
    """The content of a checkpoint's file: arrays, after a line with their checksum."""
    return CHECKSUM + hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def checked(content: bytes) -> bytes:
    """The arrays of a checkpoint's file; a ValueError unless their checksum is right.

    Nothing that is not just what a search wrote is unpacked: its sizes and numbers are those of the search.
    """
    arrays = content[len(CHECKSUM) + 2 * hashlib.sha256().digest_size + 1 :]
    if content != with_checksum(arrays):
        raise ValueError("the checksum is wrong")
    return arrays


def checkpoint_bytes(path: Path) -> bytes | None:
    """Content of the file, after checking that it can be replaced; None if there is no file.

    Raises
    ------
    OSError
        If it cannot be read, or nothing can be written there.
    """
    try:
        remove_leftovers(written_path(path))  # of a process killed while it wrote
        return content_of(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise type(error)(f"checkpoint {str(path)!r} cannot be read ({error.strerror}): name another file.") from error


def written_path(path: Path) -> Path:
    """Where the checkpoint is written, after checking that it can be; links are followed.

    Raises
    ------
    OSError
        If nothing can be written there.
    """
    try:
        check_writable(path)
    except (OSError, ValueError) as error:
        raise type(error)(str(error).replace("path", "checkpoint", 1)) from None
    return final_path(path)


def read_checkpoint(content: bytes, path: Path, stack: Doppler) -> tuple[State, SearchPlan, Identity]:
    """State, plan and identity of the search whose checkpoint has this content.

    Raises
    ------
    ValueError
        If it is no checkpoint.
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
        plan = SearchPlan(
            engine=stored["engine"],
            batch_size=stored["batch_size"],
            groups=_groups(stored["groups"], stack, same_source),
            same_source=same_source,
            bands=[(first, width) for first, width in stored["bands"]],
            device_bytes=stored["device_bytes"],
            n_coherent=stored["n_coherent"],
        )
    except BROKEN as error:
        raise ValueError(f"checkpoint {str(path)!r} is no checkpoint of a search: name another file.") from error
    return state, plan, own


def _groups(stored: list[list[int]] | None, stack: Doppler, same_source: bool) -> list[tuple[int, int]]:
    """The ranges of the bank within which the batches of a plan lie."""
    if stored is not None:
        return [(start, stop) for start, stop in stored]
    return source_groups(stack) if same_source else [(0, len(stack.alpha))]


def checkpoint_path(path: str | os.PathLike) -> Path:
    """The path of a checkpoint; raises a TypeError if it is no path."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"checkpoint must be the name of a file, not {shown(path)}: leave it None for none.")
    if "\0" in os.fspath(path):
        raise ValueError(f"checkpoint must be the name of a file, not {shown(path)}: no name holds a null.")
    return Path(path)


def _close(first: Any, second: Any) -> bool:
    """Whether sums over data are the same but for rounding, relative to their root mean square."""
    try:
        one, other = np.asarray(first, np.float64), np.asarray(second, np.float64)
    except (TypeError, ValueError, OverflowError):  # no numbers, in a file that is not ours
        return False
    return one.shape == other.shape and bool(np.all(np.abs(one - other) <= SAME_DATA * np.sqrt(np.mean(other**2))))
