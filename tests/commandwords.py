"""Command lines for tests: a change replaces an option that stands in a common line, which the program would refuse."""

import re


def changed(words, changes):
    """Words with changes appended, without the options before that the changes give too."""
    given = {name for word in map(str, changes) if (name := _option(word))}
    kept, dropping = [], False
    for word in map(str, words):
        if _option(word):
            dropping = _option(word) in given
        if not dropping:
            kept.append(word)
    return [*kept, *map(str, changes)]


def _option(word):
    """Name of the option that a word gives; None for a value."""
    found = re.match(r"--?[A-Za-z][\w-]*", word)
    return found[0] if found else None
