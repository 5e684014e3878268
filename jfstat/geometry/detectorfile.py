"""Reader of Bilby's detector files: lines ``key = value``, whose numbers may be sums and products."""

from __future__ import annotations

import ast
import operator
import os
from pathlib import Path

from jfstat.files import text_of_named

KEYS = ("latitude", "longitude", "elevation", "xarm_azimuth", "yarm_azimuth")
"""Keys that a file must have."""
TILTS = ("xarm_tilt", "yarm_tilt")
"""Optional keys, with the default 0."""
LIMITS = {"latitude": 90, "longitude": 360, "elevation": 1e5, "xarm_azimuth": 360, "yarm_azimuth": 360}
LIMITS |= dict.fromkeys(TILTS, 2)
"""Largest magnitude of each number: degrees, m, and rad for tilts."""
WORDS = ("name", "prefix", "shape")
WITHOUT_EFFECT = ("power_spectral_density", "length", "minimum_frequency", "maximum_frequency", "duration")
"""Keys of Bilby's files that say nothing of where a detector is and how it is directed."""
OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def read_ifo(path: str | os.PathLike) -> tuple[dict[str, str], dict[str, float]]:
    """Read the words and the numbers in a detector file: ``name`` and optionally ``prefix``; `KEYS` and `TILTS`.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If a line is malformed or missing, or the detector is a triangle of three.
    """
    file = Path(path)
    text = text_of_named(
        file, "is not a text file: give lines such as latitude = 46.5.", "give the file of a detector.", str(file)
    )
    words: dict[str, str] = {"name": file.stem}
    numbers: dict[str, float] = {key: 0.0 for key in TILTS}
    seen: set[str] = set()
    for line in text.split("\n"):
        key, equals, word = (part.strip() for part in line.partition("#")[0].partition("="))
        if not key and not equals:
            continue
        if not equals or not key:
            raise ValueError(f"{file} has the line {line.strip()!r}, which is not key = value: correct it.")
        if key not in (*KEYS, *TILTS, *WORDS, *WITHOUT_EFFECT):
            raise ValueError(f"{file} has the line {line.strip()!r}, whose key is not known: correct or remove it.")
        if key in seen:
            raise ValueError(f"{file} has the line {line.strip()!r} and another with {key}: leave one out.")
        seen.add(key)
        try:
            if key in WORDS:
                words[key] = str(ast.literal_eval(word))
            elif key not in WITHOUT_EFFECT:
                numbers[key] = float(_number(ast.parse(word, mode="eval").body))
                if not abs(numbers[key]) <= LIMITS[key]:
                    raise ValueError
        except (ValueError, SyntaxError, ArithmeticError, RecursionError, MemoryError):
            raise ValueError(
                f"{file} has the line {line.strip()[:60]!r}, which is not {key} = a possible value: correct it."
            ) from None
    missing = [key for key in KEYS if key not in numbers]
    if missing:
        raise ValueError(f"{file} has no line {missing[0]} = ...: a detector needs {', '.join(KEYS)}.")
    if words.pop("shape", "L").lower() == "triangle":
        raise ValueError(f"{file} is a triangle of three detectors: write a file for each of them.")
    return words, numbers


def _number(node: ast.AST) -> float:
    """Return the value of an arithmetic expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        return -_number(node.operand) if isinstance(node.op, ast.USub) else _number(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        return OPERATIONS[type(node.op)](_number(node.left), _number(node.right))
    raise ValueError("not a number")
