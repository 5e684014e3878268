"""Save prepared data and banks of templates in a file, and load them, exact to the bit.

The file is a NumPy ``.npz``: a zip archive with an array of each leaf of the pytree, not compressed, and
``header.json``, which says what the arrays are of: the version of the format, the tree of classes and their static
fields, and the type and shape of each array. Nothing in it is a program or a pickled object. The archive's checksums
tell a damaged file.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import fields
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, TypeAlias

import jax
import numpy as np

from jfstat import kinds
from jfstat.atomic import replacing
from jfstat.data.bandseries import Band, Layout
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.data.noise import NO_BIAS
from jfstat.data.observation import Observation
from jfstat.data.windowtimes import WindowTimes
from jfstat.files import opened, unreadable
from jfstat.geometry.nearby import Sites
from jfstat.geometry.trajectory import Trajectory
from jfstat.maths.arrays import is_traced
from jfstat.public import public
from jfstat.signal.phasemodel import PhaseModel
from jfstat.signal.templates import Amplitude, Doppler, Orbit
from jfstat.signal.times import GPSTime
from jfstat.validation import shown
from jfstat.version import __version__

Saved: TypeAlias = FstatData | NarrowData | Observation | Doppler | Orbit | Amplitude
"""What `save` takes."""
WHOLE = {kind.__name__: kind for kind in (FstatData, NarrowData, Observation, Doppler, Orbit, Amplitude)}
PARTS = {kind.__name__: kind for kind in (Trajectory, GPSTime, Band, Layout, Sites, WindowTimes)}
"""Classes of what a file holds by themselves, and of their parts."""
FORMAT, FORMAT_NAME = 3, "jfstat data"
"""Version of the format, one more after any change of the fields of these classes or of their meaning; and its name.

Format 1 has no `Observation.signal_response`, which is then that of given floors, and format 2 no `Observation.window`.
"""
HEADER = "header.json"
CHUNK = 1 << 24
"""Bytes that are read at a time."""
ALIGNED = 64
"""Alignment of arrays in memory, bytes, with which JAX takes them on a CPU without a copy."""
LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""Time of the archive's members, so that equal data make equal files."""

Node: TypeAlias = Any
"""Part of a tree as JSON: null, or an object with "class" and "fields", with "tuple", "array", "ranges" or "value"."""
Arrays: TypeAlias = dict[str, np.ndarray]
"""Arrays by the names of the fields that lead to them, joined by dots."""


@public(path=kinds.path)
def save(data: Saved, path: str | os.PathLike) -> Path:
    """Save prepared data, an observation or templates in a file, from which `load` makes the same again.

    The file appears as a whole or not at all, and replaces one of the same name. It takes the memory of the data, which
    their display tells; saving takes hardly any memory beside.

    Parameters
    ----------
    data : FstatData, NarrowData, Observation, Doppler, Orbit or Amplitude
        One, or a stack; data may have segments. Detectors of one's own are saved with all that is needed.
    path : str or path
        Name of the file, by custom with the suffix ``.npz``.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    TypeError
        If `data` is of another kind.
    ValueError
        If `data` has a phase model, whose function no file can hold, or is traced or distributed over several devices.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> jfstat.save(data, 'band.npz').name
    'band.npz'
    >>> again = jfstat.load('band.npz')
    >>> bool(jfstat.twoF(again, point) == jfstat.twoF(data, point))
    True
    """
    if not isinstance(data, tuple(WHOLE.values())):
        raise TypeError(
            f"data must be one of {', '.join(WHOLE)}, not {shown(data)}: write_sfts writes SFTs, and write_candidates "
            "tables."
        )
    arrays: Arrays = {}
    header = {
        "format": FORMAT_NAME,
        "version": FORMAT,
        "jfstat": __version__,
        "tree": _described(data, "", arrays),
        "arrays": {name: [x.dtype.str, list(x.shape)] for name, x in arrays.items()},
    }
    try:
        with replacing(Path(path)) as file, zipfile.ZipFile(file, "w") as archive:
            archive.writestr(zipfile.ZipInfo(HEADER, LONG_AGO), json.dumps(header, indent=1))
            for name, x in arrays.items():
                with archive.open(zipfile.ZipInfo(f"{name}.npy", LONG_AGO), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, x, (1, 0), allow_pickle=False)
    except OSError as error:
        raise type(error)(
            f"path {str(path)!r} cannot be written ({error.strerror or error}): choose another."
        ) from error
    return Path(path)


@public(path=kinds.path)
def load(path: str | os.PathLike) -> Any:
    """Load what `save` has saved, with the same bits, on JAX's default device.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    FstatData, NarrowData, Observation, Doppler, Orbit or Amplitude
        What was saved, with JAX arrays. A bank keeps ``varied`` and ``asked``.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If the file is damaged, of another kind, or of a newer version of jfstat.

    Examples
    --------
    >>> path = jfstat.save(point, 'point.npz')
    >>> jfstat.load(path).fkdot.tolist() == point.fkdot.tolist()
    True
    """
    try:
        raw = opened(path)
    except OSError as error:
        raise unreadable(path, error) from error
    with raw:
        try:
            archive = zipfile.ZipFile(BufferedReader(raw))
            header = _header(archive)
        except Exception as error:  # of the archive or of JSON
            raise _damaged(path) from error
        if header["version"] > FORMAT:
            raise ValueError(
                f"path {str(path)!r} is of jfstat {shown(header.get('jfstat'))}, in a newer format than this version "
                "can read: update jfstat."
            )
        try:
            tree, size = header["tree"], os.fstat(raw.fileno()).st_size
            listed = {name: _layout(dtype, shape, size) for name, (dtype, shape) in header["arrays"].items()}
            if tree["class"] not in WHOLE:
                raise ValueError("the file holds a part")
            _built(tree, dict.fromkeys(listed))  # finds what is missing before the large arrays are read
        except Exception as error:  # of JSON that is not as `save` wrote it
            raise _damaged(path) from error
        arrays = {}
        for name, (dtype, shape) in listed.items():
            try:
                with archive.open(f"{name}.npy") as member:
                    own = _read(member, dtype, shape)
            except Exception as error:  # of the archive or of NumPy's format
                raise _damaged(path) from error
            arrays[name] = jax.device_put(own)
            del own
        return _built(tree, arrays)


def _described(x: Any, name: str, arrays: Arrays) -> Node:
    """Return part of a tree as JSON, and add its arrays on the host, without copies if possible.

    Raises
    ------
    TypeError, ValueError
        If a part cannot be saved.
    """
    kind = (WHOLE | PARTS).get(type(x).__name__)
    if x is None:
        return None
    if kind is not None and kind is type(x):
        own = {}
        for field in fields(kind):
            value = getattr(x, field.name)
            static = field.metadata.get("static") or not field.init
            place = f"{name}.{field.name}" if name else field.name
            own[field.name] = _plain(value) if static else _described(value, place, arrays)
        return {"class": kind.__name__, "fields": own}
    if isinstance(x, tuple):
        return {"tuple": [_described(part, f"{name}.{i}", arrays) for i, part in enumerate(x)]}
    if isinstance(x, PhaseModel):
        function = getattr(x.function, "__name__", shown(x.function))
        raise ValueError(
            f"data has the phase model {function!r}, a function, which no file can hold: save it without its model, "
            "and give the model again."
        )
    arrays[name] = _on_host(x, name)
    return {"array": name}


def _plain(x: Any) -> Node:
    """Return a static field as JSON: names, whole numbers and tuples of them, or ranges by name."""
    if isinstance(x, Mapping):
        return {"ranges": {name: [float(low), float(high)] for name, (low, high) in x.items()}}
    if isinstance(x, tuple):
        return {"tuple": [_plain(part) for part in x]}
    if x is None or isinstance(x, str):
        return None if x is None else {"value": x}
    return {"value": int(x)}


def _on_host(x: Any, name: str) -> np.ndarray:
    """Return an array as a NumPy array in C order.

    Raises
    ------
    TypeError
        If it is no array of numbers.
    ValueError
        If it is traced, deleted, or on several devices.
    """
    if is_traced(x):
        raise ValueError("data are traced, so their values are not known: save them outside of jit, vmap and grad.")
    if isinstance(x, jax.Array):
        if x.is_deleted():
            raise ValueError(f"data hold no {name} any more, since it was donated or deleted: make them again.")
        if not (x.is_fully_addressable and x.is_fully_replicated):
            raise ValueError(
                "data are distributed over several devices: bring them to one, by jax.device_put(data, "
                "jax.devices()[0])."
            )
    elif not isinstance(x, (np.ndarray, np.number, float, int)):
        raise TypeError(f"data hold {shown(x)} as {name}, not an array: save data as they were made.")
    own = np.asarray(x, order="C")
    if own.dtype.kind not in "fciub":
        raise TypeError(f"data hold {own.dtype} as {name}, not numbers: save data as they were made.")
    return own


def _header(archive: zipfile.ZipFile) -> dict[str, Any]:
    """Return the header of a file; raise an error of any kind if it is no header of `save`."""
    header = json.loads(archive.read(HEADER))
    if header["format"] != FORMAT_NAME or type(header["version"]) is not int or header["version"] < 1:
        raise ValueError("the format is another")
    return header


def _layout(dtype: str, shape: list[int], most: int) -> tuple[np.dtype, tuple[int, ...]]:
    """Return type and shape of an array from the header, which must fit in `most` bytes."""
    own = np.dtype(dtype)
    if own.kind not in "fciub" or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError("an array is of another kind")
    if own.itemsize * int(np.prod(np.array(shape, object))) > most:  # whole numbers of any size
        raise ValueError("an array is larger than the file")
    return own, tuple(shape)


def _read(member: IO[bytes], dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Return the array of a member of the archive, aligned so that JAX need not copy it."""
    if np.lib.format.read_magic(member) != (1, 0):
        raise ValueError("the array is of another format")
    if np.lib.format.read_array_header_1_0(member) != (shape, False, dtype):
        raise ValueError("the array contradicts the header")
    n = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    room = np.empty(n + ALIGNED, np.uint8)
    start = -room.ctypes.data % ALIGNED
    content = room[start : start + n]
    for first in range(0, n, CHUNK):
        part = member.read(min(CHUNK, n - first))
        content[first : first + len(part)] = np.frombuffer(part, np.uint8)
        if len(part) < min(CHUNK, n - first):
            raise ValueError("the array is cut off")
    if member.read(1):  # at the end the archive's checksum is compared
        raise ValueError("the array is too long")
    return content.view(dtype).reshape(shape)


def _built(node: Node, arrays: Mapping[str, Any]) -> Any:
    """Return part of a tree from JSON and the arrays; raise an error of any kind if it is not as `_described` says."""
    if node is None:
        return None
    ((what, content),) = ((key, value) for key, value in node.items() if key != "fields")
    if what == "array":
        return arrays[content]
    if what == "tuple":
        return tuple(_built(part, arrays) for part in content)
    if what == "ranges":
        return {name: (float(low), float(high)) for name, (low, high) in content.items()}
    if what == "value":
        if type(content) not in (str, int):
            raise ValueError("a static field is of another kind")
        return content
    kind, given = (WHOLE | PARTS)[content], node["fields"]
    own = object.__new__(kind)  # without checks: the values are those of a sound object
    parts = {name: _built(part, arrays) for name, part in given.items()}
    if kind is Observation and "signal_response" not in parts:  # of format 1
        parts["signal_response"] = jax.numpy.tile(jax.numpy.array(NO_BIAS), (*np.shape(parts["epoch"]), 1))
    if kind is Observation:  # of formats 1 and 2
        parts.setdefault("window", None)
    if what != "class" or set(parts) != {field.name for field in fields(kind)}:
        raise ValueError("the fields are others")
    for name, part in parts.items():
        object.__setattr__(own, name, part)
    return own


def _damaged(path: str | os.PathLike) -> ValueError:
    return ValueError(
        f"path {str(path)!r} is no whole file of jfstat.save: it is damaged or cut off, or of another kind; save the "
        "data again, or name another."
    )
