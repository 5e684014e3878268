"""The checkpoint of a search: a file with its state, and with what identifies the search, its data and its bank."""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import zipfile
import zlib
from dataclasses import astuple
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jfstat.atomic import replacing
from jfstat.candidates.files import check_writable
from jfstat.data.memory import device_of
from jfstat.searching.driver.plan import SearchPlan, source_groups
from jfstat.searching.driver.work import Identity, Work
from jfstat.searching.reduce.keep import Peaks
from jfstat.searching.reduce.state import State
from jfstat.searching.session.processes import first_does, is_first
from jfstat.templates import Doppler

PIECES = 8
"""Number of pieces of the data whose sums distinguish one data set from another."""
BROKEN = (ValueError, KeyError, TypeError, AttributeError, IndexError, NotImplementedError, OSError)
BROKEN += (EOFError, zipfile.BadZipFile, zlib.error, struct.error)
"""What reading a file that is damaged or no checkpoint may raise."""
SAME_DATA, SAME_BANK = 1e-5, 1e-9
"""Relative difference up to which sums over data and over banks count as equal: processors round differently."""


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

    def resumed(self, stack: Doppler, batch_size: int | None, backend: str | None) -> tuple[State, SearchPlan] | None:
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
        if backend not in (None, plan.backend):
            differing = ", ".join(filter(None, [differing, f"backend ({plan.backend} there, {backend} here)"]))
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


def identity(work: Work) -> Identity:
    """What distinguishes a search from others, for `differences`."""
    from jfstat.version import __version__

    data, stack = work.data, work.stack
    # with random signs, anything added to the data, such as a signal, changes the sums by the root of its power
    series = np.asarray(data.series)
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
        "start": int(data.observation.epoch),
        "tspan": float(data.tspan),
        "fmin": float(data.band.fmin),
        "dfreq": float(data.dfreq),
        "n_frequencies": data.layout.n_frequencies,
        "ephemeris": data.ephemeris,
        "reftime": [float(work.reftime.seconds), float(work.reftime.nanoseconds)],
        "times": hashlib.sha256(times.tobytes()).hexdigest()[:16],
        "data": [float(f"{x:.8g}") for x in numbers],
        "n_templates": len(stack.alpha),
        "bank": _sums(stack),
        "model": None if stack.model is None else getattr(stack.model.function, "__qualname__", "unnamed"),
        "top": work.keep.top,
        "threshold": work.keep.threshold,
        "lines": None if work.keep.lines is None else [*astuple(work.keep.lines)[:2], *work.keep.lines.odds],
        "vetoed": None if work.keep.bands is None else _digest(*work.keep.bands),
        "unit": work.unit,
    }


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
            scale = np.sqrt(np.mean(np.square(other)))
            if not _close(one, other, SAME_DATA * scale):
                found.append("the data's samples")
        elif name == "bank":
            # the scale of each column is the sum of its absolute values
            if not _close(one, other, SAME_BANK * np.repeat(np.abs(other[2::3]), 3)):
                found.append("the bank's templates")
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
            "backend": plan.backend,
            "batch_size": plan.batch_size,
            "same_source": plan.same_source,
            "bands": [list(band) for band in plan.bands],
            "device_bytes": plan.device_bytes,
        },
        "done": state.done,
    }
    try:
        with replacing(path) as file:
            np.savez(
                file,
                header=np.frombuffer(json.dumps(header).encode(), np.uint8),
                histogram=state.histogram,
                subbands=np.array([(*ends, twoF) for ends, twoF in state.subbands.items()]).reshape(-1, 3),
                **state.peaks._asdict(),
            )
    except OSError as error:
        raise type(error)(
            f"checkpoint {str(path)!r} cannot be written ({error.strerror or error}): what it held is kept; "
            "make room or name another file."
        ) from error


def checkpoint_bytes(path: Path) -> bytes | None:
    """Content of the file, after checking that it can be replaced; None if there is no file.

    Raises
    ------
    OSError
        If it cannot be read, or nothing can be written there.
    """
    try:
        check_writable(path)
    except (OSError, ValueError) as error:
        raise type(error)(str(error).replace("path", "checkpoint", 1)) from None
    try:
        for leftover in path.parent.glob(f".{path.name}.*.part"):  # of a process killed while it wrote
            leftover.unlink(missing_ok=True)
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise type(error)(f"checkpoint {str(path)!r} cannot be read ({error.strerror}): name another file.") from error


def read_checkpoint(content: bytes, path: Path, stack: Doppler) -> tuple[State, SearchPlan, Identity]:
    """State, plan and identity of the search whose checkpoint has this content.

    Raises
    ------
    ValueError
        If it is no checkpoint.
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            header = json.loads(arrays["header"].tobytes())
            peaks = Peaks(*(arrays[name] for name in Peaks._fields))
            subbands = {(int(begin), int(end)): float(twoF) for begin, end, twoF in arrays["subbands"]}
            state = State(header["done"], peaks, arrays["histogram"], subbands)
        stored, own = header["plan"], header["identity"]
        same_source = stored["same_source"]
        plan = SearchPlan(
            backend=stored["backend"],
            batch_size=stored["batch_size"],
            groups=source_groups(stack) if same_source else [(0, len(stack.alpha))],
            same_source=same_source,
            bands=[(first, width) for first, width in stored["bands"]],
            device_bytes=stored["device_bytes"],
        )
    except BROKEN as error:
        raise ValueError(f"checkpoint {str(path)!r} is no checkpoint of a search: name another file.") from error
    return state, plan, own


def checkpoint_path(path: str | os.PathLike) -> Path:
    """The path of a checkpoint; raises a TypeError if it is no path."""
    try:
        return Path(path)
    except TypeError:
        raise TypeError(f"checkpoint must be the name of a file, not {path!r}: leave it None for none.") from None


def _sums(stack: Doppler) -> list[float]:
    """For each column of a bank its sum, its sum weighted by the row, and the sum of its absolute values."""
    numbers = []
    for leaf in jax.tree.leaves((stack.alpha, stack.delta, stack.fkdot[:, 1:], stack.motion, stack.orbit, stack.model)):
        columns = np.asarray(leaf, np.float64).reshape(len(stack.alpha), -1)
        place = np.linspace(0.5, 1.5, len(columns))
        for column in columns.T:
            numbers += [float(np.sum(column)), float(place @ column), float(np.sum(np.abs(column)))]
    return numbers


def _close(first: Any, second: list[float], tolerance: Any) -> bool:
    one, other = np.asarray(first, np.float64), np.asarray(second)
    return one.shape == other.shape and bool(np.all(np.abs(one - other) <= tolerance))
