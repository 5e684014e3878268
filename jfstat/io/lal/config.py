"""Read configuration files of LALSuite's programs, with one option a line."""

from __future__ import annotations

import re
from pathlib import Path

from jfstat.files import text_of


def read_config(path: Path) -> list[tuple[str, str]]:
    """Return the names and values of the options in a configuration file, in its order.

    The format is LALSuite's (``ConfigFile.c:XLALParseDataFile``): a line is ``name = value``, ``name: value`` or
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
    """Return a line up to the first comment sign that is not between quotation marks."""
    quote = ""
    for place, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "#%;":
            return line[:place]
    return line
