"""Configuration files: options read from ``@file`` arguments, as LALSuite's programs do."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from jfstat.io.lal.config import read_config

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


def _as_words(name: str, value: str, action: argparse.Action | None, file: str) -> list[str]:
    """An option of a file as words of a command line."""
    if action is not None and action.nargs == 0:  # an option that takes no value
        if value.lower() not in (*TRUE, *FALSE):
            raise ValueError(f"configuration file {file!r}: {name} must be TRUE or FALSE, not {value!r}.")
        return [f"--{name}"] if value.lower() in TRUE else []
    if action is not None and action.nargs is not None:
        return [f"--{name}", *shlex.split(value)]
    return [f"--{name}={value}"]
