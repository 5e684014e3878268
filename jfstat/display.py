"""Show objects in a few lines of text, or as a small table in notebooks, whatever their arrays hold.

An object says what there is to see of it as `Facts`: values with units, ranges of stacks, sizes of arrays. Traced
values, and the placeholders that transformations of JAX put in the place of arrays, are shown as what they are.
"""

from __future__ import annotations

import dataclasses
from html import escape
from typing import Any, NamedTuple

import jax
import numpy as np

from jfstat.maths.arrays import is_traced

FEW = 6
"""Most numbers of an array that are shown one by one."""
WIDTH = 100
"""Most characters of a line of facts; more are shown on a line each."""
LONGEST = 60
"""Most characters of a value that is no number."""


class Facts(NamedTuple):
    """What there is to see of an object.

    Attributes
    ----------
    title : str
        Name of the class, and what the object is of.
    rows : list of (str, str)
        Names and values.
    many : bool
        Whether each row is shown on a line of its own, however short they are.
    """

    title: str
    rows: list[tuple[str, str]]
    many: bool = False


class Displayed:
    """Base of classes that are shown by their `Facts`; dataclasses among them need ``repr=False``."""

    def _facts(self) -> Facts:
        """Return what there is to see; by default the fields of a dataclass."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return Facts(type(self).__name__, [(f.name, brief(getattr(self, f.name))) for f in fields])

    def _known_facts(self) -> Facts:
        try:
            return self._facts()
        except Exception:  # of leaves that are no arrays, which a tree of any kind may hold
            return Facts(type(self).__name__, [])

    def __repr__(self) -> str:
        return as_text(self._known_facts())

    def _repr_html_(self) -> str:
        return as_html(self._known_facts())


def named_text(x: Any) -> str:
    """Return the text for a named tuple, which cannot be `Displayed`, by its fields."""
    return as_text(Facts(type(x).__name__, [(name, brief(getattr(x, name))) for name in x._fields]))


def as_text(facts: Facts) -> str:
    """Return facts on one line if they are short, otherwise on a line each."""
    if not facts.rows:
        return facts.title
    line = as_line(facts)
    if len(line) <= WIDTH and not facts.many:
        return line
    width = max(len(name) for name, _ in facts.rows)
    return "\n".join([facts.title, *(f"  {name:{width}}  {value}" for name, value in facts.rows)])


def as_line(facts: Facts) -> str:
    """Return facts on one line."""
    if not facts.rows:
        return facts.title
    if facts.many:
        return f"{facts.title}; {', '.join(f'{name} {value}' for name, value in facts.rows)}"
    return f"{facts.title}({', '.join(f'{name}={value}' for name, value in facts.rows)})"


def as_html(facts: Facts) -> str:
    """Return facts as a table in HTML."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in facts.rows
    )
    return f"<table><caption>{escape(facts.title)}</caption><tbody>{rows}</tbody></table>"


def is_known(*values: Any) -> bool:
    """Return whether all values are numbers or arrays of numbers that can be looked at: not traced, no placeholders."""
    return all(
        isinstance(x, (jax.Array, np.ndarray, np.number, int, float, complex)) and not is_traced(x) for x in values
    )


def all_known(tree: Any) -> bool:
    """Return whether all leaves of a pytree are known; see `is_known`."""
    return is_known(*jax.tree.leaves(tree))


def brief(x: Any, unit: str = "") -> str:
    """Return a value as one short line: numbers with all digits if they are few, otherwise their range and shape."""
    if x is None:
        return "None"
    if isinstance(x, Displayed):
        return as_line(x._known_facts())
    if not is_known(x):
        return _placeholder(x)
    array = np.asarray(x)
    if array.ndim == 0:
        return with_unit(exact(array), unit)
    if array.ndim == 1 and array.size <= FEW:
        return with_unit(f"[{', '.join(map(exact, array))}]", unit)
    shape = " x ".join(map(str, array.shape))
    if array.dtype.kind not in "fiu" or not array.size:
        return f"{shape} {array.dtype}"
    return f"{shape} values, {value_range(array, unit)}"


def exact(x: Any) -> str:
    """Return one number with as many digits as it takes to read the same number again."""
    value = np.asarray(x)[()]
    if value.dtype.kind == "f" and value.dtype.itemsize < 8:
        return str(value)  # with the digits that it has
    return repr(value.item())


def rounded(x: float) -> str:
    """Return a number with twelve digits, which GPS times in ranges need."""
    return f"{x:.12g}"


def value_range(x: Any, unit: str = "") -> str:
    """Return the range of an array's values, with twelve digits; NaN are counted."""
    values = np.asarray(x)
    good = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    nan = f", {values.size - good.size} NaN" if good.size < values.size else ""
    if not good.size:
        return "all NaN" if values.size else "none"
    low, high = good.min(), good.max()
    text = exact(low) if low == high else f"{rounded(low)} to {rounded(high)}"
    return with_unit(text, unit) + nan


def with_unit(text: str, unit: str) -> str:
    """Return a number with its unit, in astropy's spelling without spaces."""
    return f"{text} {unit.replace(' ', '')}" if unit else text


def bytes_text(n: float) -> str:
    """Return a number of bytes in a fitting unit."""
    for unit in ("B", "kB", "MB"):
        if n < 1000:
            return f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} GB"


def memory(tree: Any) -> str:
    """Return how much memory the arrays of a pytree take."""
    return bytes_text(sum(getattr(x, "nbytes", 0) for x in jax.tree.leaves(tree)))


def _placeholder(x: Any) -> str:
    """Return what stands in the place of an array: a tracer, a shape, an axis, or anything else."""
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if shape is not None and dtype is not None:
        kind = "traced " if is_traced(x) else ""
        return f"{kind}{dtype}[{','.join(map(str, shape))}]"
    text = " ".join(repr(x).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."
