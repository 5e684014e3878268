"""From the state of a search to a file and back, with what identifies the search, its data and its bank."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jfstat.atomic import replacing
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import device_of
from jfstat.searching.loudest import Method
from jfstat.searching.plan import SearchPlan, source_groups
from jfstat.searching.state import Peaks, State
from jfstat.templates import Doppler

PIECES = 8
"""Pieces of the data whose sums and powers tell one data set from another."""
SAME_DATA, SAME_BANK = 1e-3, 1e-9
"""How far sums over equal data and equal banks may differ, relatively: processors round otherwise."""


def identity(
    data: FstatData, stack: Doppler, top: int | None, threshold: float | None, unit: tuple[int, int] | None
) -> dict[str, Any]:
    """What makes a search the one that it is; JSON-able, for `differences`."""
    from jfstat import __version__

    series = np.asarray(data.series)
    pieces = [np.array_split(x, PIECES) for x in series]
    sums = [[x.sum(dtype=np.complex128) for x in detector] for detector in pieces]
    powers = [[np.vdot(x, x).real for x in detector] for detector in pieces]
    numbers = np.concatenate([np.real(sums).ravel(), np.imag(sums).ravel(), np.ravel(powers) ** 0.5])
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
        "data": [float(f"{x:.6g}") for x in numbers],
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
        if name in ("data", "bank"):
            if not _close(one, other, SAME_DATA if name == "data" else SAME_BANK):
                found.append({"data": "the data's samples", "bank": "the bank's templates"}[name])
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
    }
    try:
        with replacing(path) as file:
            np.savez(
                file,
                header=np.frombuffer(json.dumps(header).encode(), np.uint8),
                histogram=state.histogram,
                subbands=state.subbands,
                edges=state.edges,
                **state.peaks._asdict(),
            )
    except OSError as error:
        raise ValueError(
            f"checkpoint {str(path)!r} cannot be written ({error.strerror or error}): what it held is kept; "
            "make room or name another file."
        ) from error


def checkpoint_bytes(path: Path) -> bytes | None:
    """What the file holds; None if there is none.

    Raises
    ------
    ValueError
        If it cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
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
            state = State(header["done"], peaks, arrays["histogram"], arrays["subbands"], arrays["edges"])
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
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"checkpoint {str(path)!r} is no checkpoint of a search: name another file.") from error
    return state, plan, own


def check_checkpoint(path: str | os.PathLike) -> Path:
    """The path, after making sure that something can be written beside it.

    Raises
    ------
    ValueError
        If not.
    """
    from jfstat.searching.tables import check_writable

    try:
        path = Path(path)
    except TypeError:
        raise ValueError(f"checkpoint must be the name of a file, not {path!r}: leave it None for none.") from None
    try:
        check_writable(path)
    except ValueError as error:
        raise ValueError(str(error).replace("path", "checkpoint", 1)) from None
    return path


def _sums(stack: Doppler) -> list[float]:
    """Sums of each column of a bank, plain and weighted by the place, and of their sizes."""
    numbers = []
    for leaf in jax.tree.leaves((stack.alpha, stack.delta, stack.fkdot[:, 1:], stack.orbit)):
        columns = np.asarray(leaf, np.float64).reshape(len(stack.alpha), -1)
        place = np.linspace(0.5, 1.5, len(columns))
        for column in columns.T:
            numbers += [float(np.sum(column)), float(place @ column), float(np.sum(np.abs(column)))]
    return numbers


def _close(first: Any, second: list[float], tolerance: float) -> bool:
    one, other = np.asarray(first, np.float64), np.asarray(second)
    if one.shape != other.shape:
        return False
    if tolerance == SAME_BANK:  # each column has its own scale, the sum of its sizes
        scale = np.repeat(np.abs(other[2::3]), 3)
    else:
        scale = np.full(other.shape, np.sqrt(np.mean(other**2)) if other.size else 0.0)
    return bool(np.all(np.abs(one - other) <= tolerance * scale))
