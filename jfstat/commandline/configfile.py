"""Configuration files: options read from ``@file`` arguments, as LALSuite's programs do."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from jfstat.files import text_of

TRUE, FALSE = ("true", "yes", "1"), ("false", "no", "0")
"""Words for yes and no, in any case: values of options that take none on the command line, and of sources."""
QUOTES = "\"'"


class Option(NamedTuple):
    """An option as a file has it: its name, its value with quotation marks, and the number of the line."""

    name: str
    value: str
    line: int


def with_config_files(
    arguments: Sequence[str], actions: Iterable[argparse.Action], instead_of: Callable[[str], str]
) -> list[str]:
    """Arguments whose leading ``@file`` words are replaced by the options in these files.

    Options of later files and those that follow on the command line override those of the files, because argparse keeps
    the last value.

    Parameters
    ----------
    arguments : sequence of str
    actions : iterable of argparse.Action
        Those of the parser.
    instead_of : callable
        Says what to give instead of a word that is no option.

    Raises
    ------
    ValueError
        If a file cannot be read, or a line is no option of the parser, has a wrong value, or repeats an option.
    """
    own = {name[2:]: action for action in actions for name in action.option_strings if name.startswith("--")}
    words: list[str] = []
    for place, word in enumerate(arguments):
        if not word.startswith("@"):
            return words + list(arguments[place:])
        lines: dict[str, int] = {}
        for option in read_config(Path(word[1:]), own):
            where = f"configuration file {word[1:]!r}, line {option.line}: "
            action = own.get(option.name)
            if action is None:
                raise ValueError(f"{where}unknown option --{option.name}: {instead_of(option.name)}")
            if action.dest in lines and not isinstance(action.default, list):  # a list collects what is repeated
                raise ValueError(f"{where}{option.name} was given in line {lines[action.dest]}: leave one of them out.")
            lines[action.dest] = option.line
            try:
                words += _as_words(option, action)
            except ValueError as error:
                raise ValueError(f"{where}{error}") from None
    return words


def read_config(path: Path, known: Container[str] = ()) -> list[Option]:
    """Options in a configuration file, in its order.

    The format is that of LALSuite (``ConfigFile.c:XLALParseDataFile``): an option is ``name = value``, ``name: value``
    or ``name value``; ``;`` outside of braces separates several in a line; ``#`` and ``%`` start comments unless they
    are quoted; a backslash at the end of a line joins the next line to it. After a ``;`` there may also be a comment,
    which is text without ``=`` that begins neither with ``name:`` nor with a known option.

    Parameters
    ----------
    path : Path
    known : container of str
        Names of options.

    Raises
    ------
    ValueError
        If the file cannot be read, a line has no value, or a quotation mark is not closed.
    """
    try:
        text = text_of(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or (error if isinstance(error, OSError) else "it is not text")
        raise ValueError(f"configuration file {str(path)!r} cannot be read ({reason}): name a text file.") from None
    options = []
    for number, line in _joined(text.split("\n")):
        where = f"configuration file {str(path)!r}, line {number},"
        statements = [statement.strip() for statement in _statements(line, where)]
        for place, statement in enumerate(statements):
            found = re.fullmatch(r"(\w[\w-]*)(\s*[=:][\s=:]*|\s+)([^\s=:].*)", statement)
            assigns = bool(re.match(r"[^=]*=|\S*\s*:", statement)) or "".join(statement.split()[:1]) in known
            if place == 1 and assigns and not statements[0]:
                raise ValueError(f"{where} begins with ';' before an option: write # before what is left out.")
            if not statement or (place and not assigns):
                continue
            if found is None:
                raise ValueError(f"{where} has the line {statement[:60]!r}, which is no option: write name = value.")
            options.append(Option(found[1], found[3], number))
    return options


def _joined(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield number and text of lines, each joined with the next if a backslash ends it."""
    start, text = 1, ""
    for number, line in enumerate(lines, 1):
        if line.endswith("\\") and number < len(lines):
            text += line[:-1]
        else:
            yield start, text + line
            start, text = number + 1, ""


def _statements(line: str, where: str) -> list[str]:
    """Return the parts of a line, up to a comment, between semicolons that are neither quoted nor in braces."""
    quote, depth, parts = "", 0, [""]
    for letter in line:
        if not quote and letter in "#%":
            break
        if letter == ";" and not quote and not depth:
            parts.append("")
            continue
        if quote:
            quote = "" if letter == quote else quote
        elif letter in QUOTES:
            quote = letter
        else:
            depth = max(0, depth + (letter == "{") - (letter == "}"))
        parts[-1] += letter
    if quote:
        raise ValueError(f"{where} {line.strip()[:60]!r}, has a quotation mark that is not closed.")
    return parts


def _as_words(option: Option, action: argparse.Action) -> list[str]:
    """Return an option of a file as words of a command line, which its action takes."""
    name, value = option.name, option.value
    if action.nargs == 0:  # an option that takes no value
        if action.dest in ("help", "version"):
            raise ValueError(f"{name} is for the command line: leave it out.")
        if _unquoted(value).lower() not in (*TRUE, *FALSE):
            raise ValueError(f"{name} must be TRUE or FALSE, not {value!r}.")
        return [f"--{name}"] if _unquoted(value).lower() in TRUE else []
    if action.nargs is None:
        values = [_unquoted(value)]
    else:
        try:
            values = shlex.split(value)
        except ValueError:
            raise ValueError(f"{name} has the value {value!r}, whose quotation marks are not closed.") from None
        if any(word.startswith("-") for word in values):
            raise ValueError(f"{name} has the value {value!r}: begin no word of it with a hyphen.")
    if not values or not all(values):
        raise ValueError(f"{name} has no value: write one, or leave the line out.")
    for word in values:
        _check(word, name, action)
    return [f"--{name}={values[0]}"] if action.nargs is None else [f"--{name}", *values]


def _check(word: str, name: str, action: argparse.Action) -> None:
    """Require a word that an option takes."""
    try:
        value = action.type(word) if callable(action.type) else word
    except (argparse.ArgumentTypeError, ValueError, TypeError) as error:
        own = isinstance(error, argparse.ArgumentTypeError)
        raise ValueError(f"{name}: {error}" if own else f"{name} cannot be {word!r}: see --help.") from None
    if action.choices is not None and value not in action.choices:
        raise ValueError(f"{name} must be {' or '.join(map(str, action.choices))}, not {word!r}.")


def _unquoted(value: str) -> str:
    """Return a value without the quotation marks around it.

    Raises
    ------
    ValueError
        If there are quotation marks within the value.
    """
    if value[0] in QUOTES and value.find(value[0], 1) == len(value) - 1:
        return value[1:-1]
    if any(letter in value for letter in QUOTES):
        raise ValueError(f"{value!r} has quotation marks within it: write them around the whole value.")
    return value
