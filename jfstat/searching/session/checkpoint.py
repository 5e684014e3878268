"""From the state of a search to a file and back, with what identifies the search, its data and its bank."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jfstat.atomic import replacing
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import device_of
from jfstat.searching.driver.plan import SearchPlan, source_groups
from jfstat.searching.reduce.state import Peaks, State, Subbands
from jfstat.statistic.backends.loudest import Method
from jfstat.templates import Doppler

PIECES = 8
"""Pieces of the data whose sums tell one data set from another."""
BROKEN = (ValueError, KeyError, TypeError, AttributeError, IndexError, NotImplementedError, OSError)
BROKEN += (EOFError, zipfile.BadZipFile, zlib.error, struct.error)
"""What reading of a file that is none, or damaged, may raise."""
SAME_DATA, SAME_BANK = 1e-5, 1e-9
"""How far sums over equal data and equal banks may differ, relatively: processors round otherwise."""


def identity(
    data: FstatData, stack: Doppler, top: int | None, threshold: float | None, unit: tuple[int, int] | None
) -> dict[str, Any]:
    """What makes a search the one that it is; JSON-able, for `differences`."""
    from jfstat import __version__

    # random signs: what is added to the data, a signal as well, then changes the sums by its root of power
    series = np.asarray(data.series)
    signs = 2 * np.random.default_rng(0).integers(0, 2, series.shape[1], np.int8) - 1
    sums = [[x.sum(dtype=np.complex128) for x in np.array_split(detector * signs, PIECES)] for detector in series]
    numbers = np.stack([np.real(sums), np.imag(sums)]).ravel()
    times = np.stack([data.coverage.start, np.asarray(data.coverage.weight) > 0])
    return {
        "jfstat": __version__,
        "jax": jax.__version__,
        "platform": device_of(data).platform,
        "detectors": list(data.detectors),
        "start": data.epoch,
        "tspan": float(data.tspan),
        "fmin": float(data.band.fmin),
        "n_frequencies": data.layout.n_frequencies,
        "ephemeris": data.ephemeris,
        "reftime": data.reftime if stack.reftime is None else stack.reftime,
        "times": hashlib.sha256(times.tobytes()).hexdigest()[:16],
        "data": [float(f"{x:.8g}") for x in numbers],
        "n_templates": len(stack.alpha),
        "bank": _sums(stack),
        "top": top,
        "threshold": threshold,
        "unit": None if unit is None else list(unit),
    }


def differences(first: dict[str, Any], second: dict[str, Any], ignore: tuple[str, ...] = ()) -> str:
    """What differs between two identities, in words; "" if nothing does."""
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
            # each column has its own scale, the sum of its sizes
            if not _close(one, other, SAME_BANK * np.repeat(np.abs(other[2::3]), 3)):
                found.append("the bank's templates")
        elif name == "times":
            if one != other:
                found.append("the times of the SFTs")
        elif one != other:
            found.append(f"{name} ({one} there, {other} here)")
    return ", ".join(found)


def write_checkpoint(path: Path, state: State, plan: SearchPlan, own: dict[str, Any]) -> None:
    """Replace the file by the present state, or leave it whole.

    Raises
    ------
    ValueError
        If it cannot be written: a full or read-only disk.
    """
    header = {
        "identity": own,
        "plan": {
            "method": plan.method.value,
            "batch_size": plan.batch_size,
            "same_source": plan.same_source,
            "bands": [list(band) for band in plan.bands],
            "device_bytes": plan.device_bytes,
        },
        "done": state.done,
        "n_subbands": [len(part.twoF) for part in state.subbands],
    }
    try:
        with replacing(path) as file:
            np.savez(
                file,
                header=np.frombuffer(json.dumps(header).encode(), np.uint8),
                histogram=state.histogram,
                edges=np.concatenate([part.edges for part in state.subbands]),
                subbands=np.concatenate([part.twoF for part in state.subbands]),
                **state.peaks._asdict(),
            )
    except OSError as error:
        raise ValueError(
            f"checkpoint {str(path)!r} cannot be written ({error.strerror or error}): what it held is kept; "
            "make room or name another file."
        ) from error


def checkpoint_bytes(path: Path) -> bytes | None:
    """What the file holds, after making sure that it can be replaced; None if there is none.

    Raises
    ------
    ValueError
        If it cannot be read, or nothing can be written there.
    """
    from jfstat.candidates.tables import check_writable

    try:
        check_writable(path)
        for leftover in path.parent.glob(f".{path.name}.*.part"):  # of a process killed while it wrote
            leftover.unlink(missing_ok=True)
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(str(error).replace("path", "checkpoint", 1)) from None
    except OSError as error:
        raise ValueError(f"checkpoint {str(path)!r} cannot be read ({error.strerror}): name another file.") from error


def read_checkpoint(content: bytes, path: Path, stack: Doppler) -> tuple[State, SearchPlan, dict[str, Any]]:
    """State, plan and identity of the search that a file's content belongs to.

    Raises
    ------
    ValueError
        If it is no checkpoint.
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            header = json.loads(arrays["header"].tobytes())
            peaks = Peaks(*(arrays[name] for name in Peaks._fields))
            subbands = _split(header["n_subbands"], arrays["edges"], arrays["subbands"])
            state = State(header["done"], peaks, arrays["histogram"], subbands)
        stored, own = header["plan"], header["identity"]
        same_source = stored["same_source"]
        plan = SearchPlan(
            method=Method(stored["method"]),
            batch_size=stored["batch_size"],
            groups=source_groups(stack) if same_source else [(0, len(stack.alpha))],
            same_source=same_source,
            bands=[(first, width) for first, width in stored["bands"]],
            device_bytes=stored["device_bytes"],
        )
    except BROKEN as error:
        raise ValueError(f"checkpoint {str(path)!r} is no checkpoint of a search: name another file.") from error
    return state, plan, own


def checkpoint_path(path: Any) -> Path:
    """The path of a checkpoint; a ValueError if it is none."""
    try:
        return Path(path)
    except TypeError:
        raise ValueError(f"checkpoint must be the name of a file, not {path!r}: leave it None for none.") from None


def _sums(stack: Doppler) -> list[float]:
    """Sums of each column of a bank, plain and weighted by the place, and of their sizes."""
    numbers = []
    for leaf in jax.tree.leaves((stack.alpha, stack.delta, stack.fkdot[:, 1:], stack.orbit)):
        columns = np.asarray(leaf, np.float64).reshape(len(stack.alpha), -1)
        place = np.linspace(0.5, 1.5, len(columns))
        for column in columns.T:
            numbers += [float(np.sum(column)), float(place @ column), float(np.sum(np.abs(column)))]
    return numbers


def _close(first: Any, second: list[float], tolerance: Any) -> bool:
    one, other = np.asarray(first, np.float64), np.asarray(second)
    return one.shape == other.shape and bool(np.all(np.abs(one - other) <= tolerance))


def _split(counts: list[int], edges: np.ndarray, twoF: np.ndarray) -> tuple[Subbands, ...]:
    """Of each part of the band, from all parts' arrays one behind the other."""
    n_edges = [n + 1 if n else 0 for n in counts]
    if sum(n_edges) != len(edges) or sum(counts) != len(twoF):
        raise ValueError("the sub-bands' arrays do not fit")
    parts = zip(np.split(edges, np.cumsum(n_edges)[:-1]), np.split(twoF, np.cumsum(counts)[:-1]), strict=True)
    return tuple(Subbands(*part) for part in parts)
