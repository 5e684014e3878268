"""The parser of subcommands: errors of one line, configuration files, and which options were given."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from typing import Any, NoReturn

from jfstat.commandline.arguments import Arguments
from jfstat.commandline.configfile import with_config_files
from jfstat.commandline.spellings import REPLACEMENTS


class UsageError(ValueError):
    """A command line that argparse refuses.

    Attributes
    ----------
    command : str
        The subcommand followed by a space, or nothing.
    """

    def __init__(self, message: str, command: str):
        super().__init__(message)
        self.command = command


class _Noting(argparse.Namespace):
    """A namespace in which argparse leaves which options it met: it sets these once more, after the defaults.

    In the end it also sets each default that is a word once more, to the same word.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__ and not (isinstance(value, str) and value is self.__dict__[name]):
            self.__dict__.setdefault("_met", set()).add(name)
        super().__setattr__(name, value)


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises instead of exiting, and does not take abbreviated options."""

    def __init__(self, **kwargs: Any):
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", _Formatter)
        super().__init__(**kwargs)
        if self._command:
            self.epilog = self.epilog or (
                f"jfstat {self._command} @FILE reads options from a file, one 'name = value' a line, as LALSuite's "
                "programs do; options that follow override it."
            )

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"{self._command} " if self._command else "")

    @property
    def _command(self) -> str:
        """The subcommand; empty for the program itself."""
        return self.prog.partition(" ")[2]

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[argparse.Namespace, list[str]]:
        if not self._command:
            return super().parse_known_args(args, namespace)
        words = args
        if (twice := self._repeated(words)) is not None:
            self.error(f"{twice} is given twice: give it once.")
        try:
            args = with_config_files(words, self._actions, self._instead_of)
        except ValueError as error:
            self.error(str(error))
        values, unknown = super().parse_known_args(args, _Noting())
        if unknown and not unknown[0].startswith("-"):
            self.error(
                f"{unknown[0]!r} belongs to no option: give one value for each, all files together, and patterns of "
                "files in quotes, so that the shell does not expand them."
            )
        if unknown:  # argparse would leave them to the program, whose help does not list options
            self.error(f"unknown option {unknown[0].partition('=')[0]}: {self._instead_of(unknown[0])}")
        met = values.__dict__.pop("_met", set())
        spelled = {own.dest: (own.option_strings or [own.dest])[0] for own in reversed(self._actions)}
        values.given = {name: spelled[name] for name in sorted(met)}
        values.config = [word[1:] for word in words if word.startswith("@")]
        return values, []

    def _repeated(self, words: Sequence[str]) -> str | None:
        """Return the first option with a value that stands twice among the words of a command line, as it is spelled,
        unless it adds to what was given before."""
        seen: set[str] = set()
        for word in words:
            if word == "--":
                break
            name = word.partition("=")[0]
            action = self._option_string_actions.get(name if name.startswith("--") else word[:2])
            if action is None or action.nargs == 0 or isinstance(action, argparse._AppendAction):
                continue
            if action.dest in seen:
                return name if name.startswith("--") else word[:2]
            seen.add(action.dest)
        return None

    def arguments(self, words: list[str]) -> Arguments:
        """Parse a command line of the program."""
        values = vars(self.parse_args(words))
        return Arguments(values, values.pop("given"))

    def _instead_of(self, word: str) -> str:
        """Return what to give instead of a word that is no option."""
        name = word.partition("=")[0].lstrip("-")
        if name in REPLACEMENTS:
            return REPLACEMENTS[name]
        if (short := self._option_string_actions.get(f"-{name}")) is not None:
            return f"did you mean {max(short.option_strings, key=len)}?"
        known = {option.lower(): option for action in self._actions for option in action.option_strings}
        close = difflib.get_close_matches(f"--{name}".lower(), known, n=1, cutoff=0.75)
        return f"did you mean {known[close[0]]}?" if close else "it is none of this command's"


class _Formatter(argparse.HelpFormatter):
    def __init__(self, prog: str):
        super().__init__(prog, max_help_position=32, width=110)
