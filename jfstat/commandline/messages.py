"""Messages of the library's errors as a user of a shell needs them: with options where they name arguments."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from jfstat.commandline.spellings import ADVICE, ARGUMENTS, NO_WORDS

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments

OWN = r"-|(?:source|artefact) (?!on the command line: )"
"""How messages begin that a command made, in words of its options or of files."""
WORDS_OF_USERS = r"(?<!\w)(?:'[^']*'|\"[^\"]*\")|\{[^{}]*\}"
"""Values in quotes and sources in braces."""
VALUE = r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|[^\s,;:)]*[^\s,;:).]"
OWNER = r"(?:source on the command line|pulsar [^:]+|segment \d+): "
"""What the arguments belong to that a message is about."""
NUMBER = r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]*\w)"
NONE = r",? or None(?: for [^.,;:]*)?\b|\bNone or "
"""What is said of None, which in a shell is an option that is left out."""


def in_options(message: str, arguments: Arguments) -> str:
    """Return a message of the library with the options of a command where it names arguments.

    Options are named in place of the arguments at its beginning, of those with a value that the option has
    (``name=3``), and of those whose names are no words of a sentence. Where the command has no such option, the message
    stays.
    """
    if re.match(OWN, message):
        return message
    for said, instead in ADVICE.items():
        found = next((words for option, words in instead if not option or arguments.option(option) is not None), said)
        message = message.replace(said, found)
    return re.sub(NONE, "", renamed(message, ARGUMENTS, partial(_option, arguments)))


def renamed(message: str, names: Iterable[str], name_of: Callable[[str, str, bool], str | None]) -> str:
    """Return a message with other names of arguments.

    Parameters
    ----------
    message : str
    names : iterable of str
        Of the arguments.
    name_of : callable
        Of the argument, the text with its value, and whether this is nothing but the value; None if it has no other
        name.
    """
    either = f"(?:{'|'.join(map(re.escape, sorted(names, key=len, reverse=True)))})"
    first = re.match(rf"(?:{OWNER})?{either}(?:(?:, | and | or |, and |, or ){either})*(?!\w)", message)
    end = 0 if first is None else first.end()

    def instead(found: re.Match[str]) -> str:
        name, value = found["name"], found["value"]
        if name is None:
            return found[0]
        if value is not None:
            other = name_of(name, value, True)
            return found[0] if other is None else f"{other}={value}"
        if found.start() >= end and not found[0].endswith("=") and not _is_no_word(name):
            return found[0]
        other = name_of(name, message, False)
        if other is None:
            return found[0]
        alone = re.match(r" ['\"]", message[found.end() :]) is None or other.lstrip("-") == name
        return other if alone else f"{other}: {name}"

    argument = rf"(?<![\w./-])(?P<name>{either})(?![\w\[]|\.\w)(?:=(?P<value>{VALUE})?)?"
    return re.sub(f"{WORDS_OF_USERS}|{argument}", instead, message)


def _is_no_word(name: str) -> bool:
    """Return whether the name of an argument cannot be a word of a sentence."""
    return "_" in name or name in NO_WORDS or name[1:] != name[1:].lower()


def _option(arguments: Arguments, argument: str, shown: str, whole: bool) -> str | None:
    """Return the option that gives an argument, or a sum of them; None if the command has none.

    That is the one with the value that is shown, or else the first that was given, or else the first. Where the
    text is nothing but the value, it must have it: messages also state what was made of several options.
    """
    known = {text: found for text in ARGUMENTS[argument] if (found := _value(text, arguments)) is not None}
    if whole:
        known = {text: found for text, found in known.items() if is_shown(found[0], shown)}
    if not known:
        return None
    best = min(known, key=lambda text: (not is_shown(known[text][0], shown), not known[text][1]))
    return "+".join(f"--{option}" for option in best.split("+"))


def _value(text: str, arguments: Arguments) -> tuple[Any, bool] | None:
    """Return the value of an option, or the sum of several, and whether one was given; None if one is missing."""
    found = [arguments.option(name) for name in text.split("+")]
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return None
    values = [value for value, _ in known]
    total = values[0] if len(values) == 1 else None if None in values else sum(values)
    return total, any(given for _, given in known)


def is_shown(value: Any, text: str) -> bool:
    """Return whether a text shows a value: a number rounded to six digits, or a word."""
    numbers = [float(number) for number in re.findall(NUMBER, text)]
    for one in _leaves(value):
        if one is None:
            found = text == "None"
        elif isinstance(one, (int, float)):
            found = str(one) in text or any(_is_close(one, number) for number in numbers)
        else:
            found = str(one).lower() in text.lower()
        if found:
            return True
    return False


def _is_close(one: float, number: float) -> bool:
    """Return whether a number is another rounded to six digits; a whole number too large to tell is not."""
    try:
        return math.isclose(one, number, rel_tol=1e-5)
    except OverflowError:
        return False


def _leaves(value: Any) -> Iterator[Any]:
    """Yield a value, or those in a list."""
    if not isinstance(value, (list, tuple)):
        yield value
        return
    for one in value:
        yield from _leaves(one)
