"""Define the decorators of all functions that users call, `public` and `host`.

They check kinds of arguments and shorten errors.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, overload

from jfstat.maths.arrays import any_traced
from jfstat.validation import require_x64

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Kind = Callable[[Any, str], object]
"""Function that raises a TypeError or ValueError naming the argument if a value is not of a kind; see jfstat.kinds.

It may return what the function is given in place of the value, such as the template of a row; None keeps the value.
"""

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


@overload
def host(function: Callable[Arguments, Result], /) -> Callable[Arguments, Result]: ...
@overload
def host(
    instead: str | None = None, /, **kinds: Kind
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]: ...
def host(function: Any = None, /, **kinds: Kind) -> Any:
    """Make a function one for users, as `public` does, that works on the host and refuses values that JAX traces.

    What to use within transformations may be said: ``@host("jax.vmap jfstat.twoF_band there", progress=kinds.flag)``.
    """
    if callable(function):
        return _checked(_untraced(function, None), kinds)
    return lambda called: _checked(_untraced(called, function), kinds)


def _untraced(function: Callable[Arguments, Result], instead: str | None) -> Callable[Arguments, Result]:
    """Return a function that first raises a ValueError for an argument that JAX traces."""
    names = list(inspect.signature(function).parameters)

    @wraps(function)
    def untraced(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        if any_traced(args, kwargs):
            given = dict(zip(names, args, strict=False)) | kwargs
            traced = " and ".join(name for name, value in given.items() if any_traced(value))
            raise ValueError(
                f"{function.__name__} works on the host and cannot be traced, as {traced} is: call it outside of "
                f"jax.jit, jax.vmap and jax.grad{f', or {instead}' if instead else ''}."
            )
        return function(*args, **kwargs)

    return untraced


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
            if value is default:
                continue
            replacement: Any = kind(value, name)
            if replacement is not None and place < len(args):
                args = (*args[:place], replacement, *args[place + 1 :])  # type: ignore[assignment]
            elif replacement is not None:
                kwargs[name] = replacement
        try:
            return function(*args, **kwargs)
        except PLAIN as error:
            text = str(error)
            if type(error) not in PLAIN or "\n" not in text:
                raise
            raise type(error)(" ".join(text.split())) from error

    return checked
