"""Configuration files: options read from ``@file`` arguments, as LALSuite's programs do."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from jfstat.files import text_of

TRUE, FALSE = ("true", "yes", "1"), ("false", "no", "0")
"""Values of options that take none on the command line, in any case."""


def with_config_files(arguments: Sequence[str], actions: Iterable[argparse.Action]) -> list[str]:
    """Arguments whose leading ``@file`` words are replaced by the options in these files.

    Options that follow on the command line override those of the files, because argparse keeps the last value.

    Parameters
    ----------
    arguments : sequence of str
    actions : iterable of argparse.Action
        Those of the parser: they say which options take no value.

    Raises
    ------
    ValueError
        If a file cannot be read or has a line that is no option.
    """
    own = {option.lstrip("-"): action for action in actions for option in action.option_strings}
    words: list[str] = []
    for place, word in enumerate(arguments):
        if not word.startswith("@"):
            return words + list(arguments[place:])
        for name, value in read_config(Path(word[1:])):
            words += _as_words(name, value, own.get(name), word[1:])
    return words


def read_config(path: Path) -> list[tuple[str, str]]:
    """Names and values of the options in a configuration file, in its order.

    The format is that of LALSuite (``ConfigFile.c:XLALParseDataFile``): a line is ``name = value``, ``name: value`` or
    ``name value``; ``#``, ``%`` and ``;`` start comments unless they are quoted; a backslash at the end of a line joins
    the next line to it; quotation marks around a value are removed.

    Raises
    ------
    ValueError
        If the file cannot be read or has a line without a value.
    """
    try:
        text = text_of(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ValueError(f"configuration file {str(path)!r} cannot be read ({reason}): name a text file.") from None
    options = []
    for raw in re.sub(r"\\\r?\n", "", text).splitlines():
        line = _without_comment(raw).strip()
        if not line:
            continue
        found = re.fullmatch(r"(\w+)\s*(?:[=:]|\s)\s*(\S.*)", line)
        if found is None:
            raise ValueError(
                f"configuration file {str(path)!r} has the line {line!r}, which is no option: write name = value."
            )
        value = found[2].strip()
        if value[0] in "\"'":
            if len(value) < 2 or value[-1] != value[0]:
                raise ValueError(f"configuration file {str(path)!r}: {line!r} has a quotation mark that is not closed.")
            value = value[1:-1]
        options.append((found[1], value))
    return options


def _without_comment(line: str) -> str:
    """A line up to the first comment sign that is not between quotation marks."""
    quote = ""
    for place, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "#%;":
            return line[:place]
    return line


def _as_words(name: str, value: str, action: argparse.Action | None, file: str) -> list[str]:
    """An option of a file as words of a command line."""
    if action is not None and action.nargs == 0:  # an option that takes no value
        if value.lower() not in (*TRUE, *FALSE):
            raise ValueError(f"configuration file {file!r}: {name} must be TRUE or FALSE, not {value!r}.")
        return [f"--{name}"] if value.lower() in TRUE else []
    if action is not None and action.nargs is not None:
        return [f"--{name}", *shlex.split(value)]
    return [f"--{name}={value}"]
