"""The options of a command line, which know whether they were read: none can be silently ignored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Work: TypeAlias = Callable[[], None]
"""What is left to do once all options have been read."""


class Arguments:
    """The options of a command line, as attributes; it knows which of them were read.

    A command reads all the options that it makes use of before it begins its work. An option that was given and not
    read by then has no effect, which `seal` refuses; an option that is first read afterwards is a mistake in the
    program. So no option can be silently ignored.

    Parameters
    ----------
    values : mapping
        Values of all options, by name.
    given : mapping of str to str
        For each option of the command line, how it was spelled.
    """

    def __init__(self, values: Mapping[str, Any], given: Mapping[str, str]):
        self._values, self._given = dict(values), dict(given)
        self._read: set[str] = set()
        self._sealed = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._values:
            raise AttributeError(name)
        if self._sealed and name not in self._read:
            raise RuntimeError(f"the option {name} is first read after the work began")
        self._read.add(name)
        return self._values[name]

    def read(self, *names: str) -> dict[str, Any]:
        """Return the values of some options by name."""
        return {name: getattr(self, name) for name in names}

    @property
    def given(self) -> dict[str, Any]:
        """Values of the options that were given, by name, which does not count as reading them."""
        return {name: self._values[name] for name in self._given}

    def is_given(self, name: str) -> bool:
        """Return whether an option was given, which does not count as reading it."""
        return name in self._given

    def first_given(self, *names: str) -> str | None:
        """Return the first of some options that was given, as it is spelled."""
        return next((self._given[name] for name in names if name in self._given), None)

    def option(self, name: str) -> tuple[Any, bool] | None:
        """Return the value of an option, and whether it was given, which does not count as reading it.

        The name is as users write it, without its hyphens; None is returned if the command has no such option.
        """
        known = name.replace("-", "_")
        return (self._values[known], known in self._given) if known in self._values else None

    def seal(self) -> None:
        """Say that all options of any effect have been read.

        Raises
        ------
        ValueError
            If one was given that has none.
        """
        self._sealed = True
        unread = [spelled for name, spelled in self._given.items() if name not in self._read]
        if unread:
            raise ValueError(f"{unread[0]} has no effect beside the other options: leave it out.")
