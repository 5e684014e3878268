"""What all functions that users call have in common: `public`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import jax
import jax.core
import numpy as np

from jfstat.validation import float64_of, require_x64, shown

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Kind = Callable[[Any, str], None]
"""Raises a TypeError or ValueError that names the argument, if a value is not of a kind."""

LONGEST_PATH = 4096
"""Most letters of a path, as Linux has it."""


def _path(x: Any, name: str) -> None:
    if not isinstance(x, (str, os.PathLike)):
        raise TypeError(f"{name} must be the name of a file or folder, not {shown(x)}: give a string or a path.")
    if "\0" in os.fspath(x) or len(os.fspath(x)) > LONGEST_PATH:
        raise ValueError(f"{name} must be the name of a file or folder, not {shown(x)}: no file can have it.")


def _paths(x: Any, name: str) -> None:
    if isinstance(x, (str, os.PathLike)):
        return _path(x, name)
    if not isinstance(x, Iterable) or isinstance(x, (bytes, dict)):
        raise TypeError(f"{name} must be the name of a file, or a sequence of names, not {shown(x)}.")
    for one in _listed(x, name):
        _path(one, name)


def _text(x: Any, name: str) -> None:
    if not isinstance(x, str):
        raise TypeError(f"{name} must be a string, not {shown(x)}.")


def _names(x: Any, name: str) -> None:
    if isinstance(x, str):
        return
    if not isinstance(x, Iterable) or not all(isinstance(one, str) for one in _listed(x, name)):
        raise TypeError(f"{name} must be a name or a sequence of names, not {shown(x)}.")


def _listed(x: Iterable[Any], name: str) -> list[Any]:
    if isinstance(x, Iterator):  # what it yields must be left to the function
        return []
    try:
        return list(x)
    except Exception as error:  # whatever a foreign object raises
        raise TypeError(f"{name} must be a sequence, not {shown(x)}.") from error


def _flag(x: Any, name: str) -> None:
    if not isinstance(x, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, not {shown(x)}.")


def _numbers(x: Any, name: str) -> None:
    float64_of(x, name)


def _vector(x: Any, name: str) -> None:
    shape = np.shape(x) if isinstance(x, jax.core.Tracer) else float64_of(x, name).shape
    if len(shape) != 1:
        raise ValueError(f"{name} must be a sequence of numbers, not of shape {shape}.")


def _number(x: Any, name: str) -> None:
    if np.ndim(x) if isinstance(x, jax.core.Tracer) else float64_of(x, name).ndim:
        raise ValueError(f"{name} must be one number, not {shown(x)}.")


def _table(x: Any, name: str) -> None:
    if not hasattr(x, "colnames"):
        raise TypeError(f"{name} must be a table, such as jfstat.search returns, not {shown(x)}.")


def _time(x: Any, name: str) -> None:
    if isinstance(x, str) or hasattr(x, "gps") or hasattr(x, "gpsSeconds") or hasattr(x, "nanoseconds"):
        return
    _number(x, name)


def _sequence(x: Any, name: str) -> None:
    if not isinstance(x, Iterable) or isinstance(x, (str, bytes)):
        raise TypeError(f"{name} must be a sequence, not {shown(x)}.")
    _listed(x, name)


def _pulsars(x: Any, name: str) -> None:
    if not hasattr(x, "doppler"):  # a single Pulsar
        _sequence(x, name)


def _detectors(x: Any, name: str) -> None:
    if isinstance(x, str) or hasattr(x, "prefix"):
        return
    _sequence(x, name)
    if not all(isinstance(one, str) or hasattr(one, "prefix") for one in _listed(x, name)):
        raise ValueError(f"{name} must be prefixes such as 'H1', or Detectors, not {shown(x)}.")


def _ephemeris(x: Any, name: str) -> None:
    if isinstance(x, (str, os.PathLike)) or hasattr(x, "earth"):
        return
    if not isinstance(x, (list, tuple)) or not all(isinstance(one, (str, os.PathLike)) for one in x):
        raise ValueError(f"{name} must be a name such as 'DE405', two files or an Ephemeris, not {shown(x)}.")


KINDS: dict[str, Kind] = {
    "path": _path,
    "directory": _path,
    "paths": _paths,
    "read_lines.path": _paths,
    "comment": _text,
    "description": _text,
    "window": _text,
    "clean.window": lambda x, name: None,
    "transient_map.window": lambda x, name: None,
    "transient_twoF.window": lambda x, name: None,
    "windowed.window": lambda x, name: None,
    "ranking": _text,
    "engine": _text,
    "over_sfts": _text,
    "over_detectors": _text,
    "over_bins": _text,
    "read_lines.detector": _text,
    "parameters": _names,
    "PhaseModel.__init__.parameters": lambda x, name: None,
    "bounded": _names,
    "table": _table,
    "write_loudest.found": _table,
    "flag_lines.found": _table,
    "line_veto.found": _table,
    "merge": _flag,
    "filters": _flag,
    "check_crc": _flag,
    "progress": _flag,
    "per_detector": _flag,
    "amplitudes": _flag,
    "veto_lines": _flag,
    "phase_only": _flag,
    "strict": _flag,
    "fstar0": _number,
    "harmonic": _number,
    "threshold": _number,
    "bsgl_threshold": _number,
    "cluster": _number,
    "guard": _number,
    "veto": _number,
    "false_alarm": _number,
    "olgx": _vector,
    "max_block": _number,
    "atoms.duration": _number,
    "read_atoms.duration": _number,
    "read_atoms.detectors": _detectors,
    "dfreq": _number,
    "reach": _number,
    "extra_width": _number,
    "width": _number,
    "overlap": _number,
    "start": _time,
    "end": _time,
    "reftime": _time,
    "Doppler.__init__.reftime": lambda x, name: None,
    "pulsars": _pulsars,
    "ephemeris": _ephemeris,
    "join_sfts.sfts": _sequence,
    "name_band": _flag,
    "channel": _text,
    "sfts_from_frames.paths": _paths,
    "sfts_from_strain.timestamps": _sequence,
    "x": _vector,
}
"""The kind of each argument, by its name or the function's and its name. Others are checked where they are used."""
PLAIN = (TypeError, ValueError, OSError, FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)
PLAIN += (PermissionError, BlockingIOError)
"""Errors whose messages are put on one line."""


def plain_errors(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A function or method whose errors about arguments are what users can read.

    It raises a TypeError or ValueError for an argument that is not of the kind that its name stands for in all of
    jfstat, see `KINDS`. Messages are one line, even if they quote values whose own texts have several.
    """
    signature = inspect.signature(function)
    own = {name: KINDS.get(f"{function.__qualname__}.{name}", KINDS.get(name)) for name in signature.parameters}
    kinds = {name: (kind, signature.parameters[name].default) for name, kind in own.items() if kind is not None}

    def check(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            given = signature.bind(*args, **kwargs).arguments if kinds else {}
        except TypeError:  # arguments that it does not have or lacks: the call itself says so
            return
        for name, value in given.items():
            kind, default = kinds.get(name, (None, None))
            if kind is not None and value is not default:
                kind(value, name)

    @wraps(function)
    def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        check(args, kwargs)
        try:
            return function(*args, **kwargs)
        except PLAIN as error:
            text = str(error)
            if type(error) not in PLAIN or "\n" not in text:
                raise
            raise type(error)(" ".join(text.split())) from error

    return checked


def public(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A function or method for users, with `plain_errors`, which raises a ValueError unless JAX computes in 64 bits.

    That may be turned off after data and templates were made, and results would be wrong without a word.
    """
    inner = plain_errors(function)

    @wraps(function)
    def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        require_x64()
        return inner(*args, **kwargs)

    return checked
