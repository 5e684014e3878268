"""Define `public`, the decorator of all functions that users call: it checks kinds of arguments and shortens errors."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, overload

from jfstat.validation import require_x64

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Kind = Callable[[Any, str], object]
"""Function that raises a TypeError or ValueError naming the argument if a value is not of a kind; see jfstat.kinds."""

PLAIN = (TypeError, ValueError, OSError, FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)
PLAIN += (PermissionError, BlockingIOError)
"""Errors whose messages are put on one line."""


@overload
def public(function: Callable[Arguments, Result], /) -> Callable[Arguments, Result]: ...
@overload
def public(**kinds: Kind) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]: ...
def public(function: Any = None, /, **kinds: Kind) -> Any:
    """Make a function one for users: ``@public``, or ``@public(path=kinds.path, progress=kinds.flag)``.

    The function then raises a ValueError unless JAX computes in 64 bits, since that may be turned off after data and
    templates were made, and results would be silently wrong. It raises a TypeError or ValueError for an argument that
    is not of the kind named here; defaults are not checked. Messages of errors are one line, even if the values that
    they quote print as several lines.

    Methods that run inside transformations of JAX, and constructors, do not need the decorator: they are called by
    functions that have it, or check their own fields.
    """
    return _checked(function, kinds) if function else lambda function: _checked(function, kinds)


def _checked(function: Callable[Arguments, Result], kinds: dict[str, Kind]) -> Callable[Arguments, Result]:
    parameters = inspect.signature(function).parameters
    checks = []
    for name, kind in kinds.items():  # a KeyError here is of a kind for an argument that does not exist
        own = parameters[name]
        place = sys.maxsize if own.kind is own.KEYWORD_ONLY else list(parameters).index(name)
        checks.append((name, place, own.default, kind))

    @wraps(function)
    def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        require_x64()
        for name, place, default, kind in checks:
            value = args[place] if place < len(args) else kwargs.get(name, default)
            if value is not default:
                kind(value, name)
        try:
            return function(*args, **kwargs)
        except PLAIN as error:
            text = str(error)
            if type(error) not in PLAIN or "\n" not in text:
                raise
            raise type(error)(" ".join(text.split())) from error

    return checked
