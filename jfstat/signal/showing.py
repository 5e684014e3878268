"""Show templates, amplitudes and times: single ones with all their digits, stacks by the ranges of their values."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np

from jfstat.display import Facts, all_known, brief, exact, is_known, memory, rounded, value_range, with_unit
from jfstat.signal.parameters import MOTION_FIELDS, SKY, is_of_model, spin_name, unit
from jfstat.signal.reading import all_parameters, value

SLACK = 1e-12
"""Relative tolerance for rounding, by which templates may lie beyond a range."""
MOST_OF_MODEL = 12
"""Largest number of a phase model's parameters that are shown."""


def doppler_facts(point: Any) -> Facts:
    """Return the facts of a `Doppler`: values as its constructor takes them, or the ranges of a stack by parameter."""
    if not all_known(point) or not is_known(point.alpha, point.fkdot):
        return Facts("Doppler", [(name, brief(getattr(point, name))) for name in _present(point)])
    if np.ndim(point.alpha):
        return _stack_facts(point)
    spins = ", ".join(with_unit(exact(x), unit(spin_name(k))) for k, x in enumerate(np.asarray(point.fkdot)))
    shown = {name: brief(getattr(point, name), unit(name)) for name in _present(point)} | {"fkdot": f"[{spins}]"}
    if point.reftime is not None:
        shown["reftime"] = time_text(point.reftime)
    if point.motion is not None:
        shown["motion"] = brief(point.motion, unit(MOTION_FIELDS[0]))
    return Facts("Doppler", list(shown.items()))


def _present(point: Any) -> list[str]:
    """Return the fields of a template that are not None."""
    names = (*SKY, "fkdot", "reftime", "orbit", "motion", "model")
    return [name for name in names if getattr(point, name) is not None]


def _stack_facts(points: Any) -> Facts:
    every = all_parameters(points)
    ranges = {name: np.asarray(value(points, name)) for name in every if not is_of_model(name)}
    beyond = beyond_asked(points)
    asked = {
        name: with_unit(f", asked for {rounded(low)} to {rounded(high)}", unit(name)) for name, (low, high) in beyond
    }
    rows = [(name, text + asked.get(name, "")) for name, text in _ranges(ranges)]
    if points.reftime is not None:
        rows.append(("reftime", time_text(points.reftime)))
    if points.model is not None:
        rows.append(("model", str(getattr(points.model.function, "__name__", points.model.function))))
        varied = (name for name in every if is_of_model(name) and np.ptp(value(points, name)) > 0)
        own = {name: value(points, name) for name in islice(varied, MOST_OF_MODEL)}
        rows += [(name, text + asked.get(name, "")) for name, text in _ranges(own)]
    if points.varied is not None:
        rows.append(("varied", ", ".join(points.varied) or "nothing but the frequency"))
    return Facts(f"Doppler: {_count(points.alpha)} templates", [*rows, ("memory", memory(points))], many=True)


def beyond_asked(points: Any) -> list[tuple[str, tuple[float, float]]]:
    """Return the ranges that a stack was asked to cover and beyond which some of its templates lie, by name."""
    found = []
    for name, (low, high) in (points.asked or {}).items():
        x = np.asarray(value(points, name))
        if name == "alpha":  # as near to the middle of the range as whole turns allow
            middle = 0.5 * (low + high)
            x = middle + np.mod(x - middle + np.pi, 2 * np.pi) - np.pi
        slack = SLACK * max(high - low, abs(low), abs(high))
        if x.size and (x.min() < low - slack or x.max() > high + slack):
            found.append((name, (low, high)))
    return found


def scalars_facts(x: Any, names: tuple[str, ...], what: str) -> Facts:
    """Return the facts of an object whose fields are numbers, or arrays of the shape of a stack of `what`."""
    title, values = type(x).__name__, {name: getattr(x, name) for name in names}
    if not is_known(*values.values()) or not np.ndim(values[names[0]]):
        return Facts(title, [(name, brief(value, unit(name))) for name, value in values.items()])
    return Facts(f"{title}: {_count(values[names[0]])} {what}", _ranges(values), many=True)


def time_text(time: Any) -> str:
    """Return a `GPSTime`, or the range of several, with all digits."""
    if not is_known(time.seconds, time.nanoseconds):
        return brief(time.seconds)
    seconds, nanoseconds = np.ravel(time.seconds), np.ravel(time.nanoseconds)
    if not seconds.size:
        return "none"
    order = np.lexsort((nanoseconds, seconds))
    first, last = (decimal(seconds[i], nanoseconds[i]) for i in (order[0], order[-1]))
    return f"GPS {first}" if first == last else f"GPS {first} to {last}"


def decimal(seconds: Any, nanoseconds: Any) -> str:
    """Return a time of whole seconds and nanoseconds as a decimal number with all its digits."""
    if not np.isfinite(seconds) or not np.isfinite(nanoseconds):
        return exact(seconds)
    whole, rest = int(seconds), int(nanoseconds)
    if whole < 0 and rest:  # nanoseconds count upwards
        whole, rest = whole + 1, 10**9 - rest
        return f"-{abs(whole)}.{rest:09d}".rstrip("0")
    return f"{whole}.{rest:09d}".rstrip("0") if rest else str(whole)


def _ranges(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, value_range(x, unit(name))) for name, x in values.items()]


def _count(x: Any) -> str:
    shape = np.shape(x)
    return str(shape[0]) if len(shape) == 1 else f"{' x '.join(map(str, shape))}"
