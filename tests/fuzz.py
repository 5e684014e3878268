"""Damage files as transfer, editors and people do: by bytes, by lines, and by the words and numbers in them.

    from fuzz import mutate
    damaged = mutate(np.random.default_rng([seed, trial]), content)

Fixed seeds give the same damage on every machine. `mutate` always returns other content than it was given. `accepted`
reads many damaged files; what it yields is for a test to judge.
"""

import re
import warnings

import numpy as np
import pytest

TRIALS = pytest.mark.parametrize("trials", [150, pytest.param(5000, marks=pytest.mark.slow)])
"""Numbers of damaged files: few in the fast tests."""
BOMS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe\0\0": "utf-32-le", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}

NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eEdD][-+]?\d+)?")
WORD = re.compile(rb"[^\s,;=:]+")
WORDS = [
    b"",
    b"nan",
    b"inf",
    b"-inf",
    b"-",
    b"*",
    b"#",
    b"%",
    b"0",
    b"-1",
    b"1e400",
    b"1e-400",
    b"9" * 400,
    b"0x10",
    b"1_0",
]
WORDS += [b"1.5.2", b"1D3", b'"', b"'", b'a"b', b"a b", b"1,5", "é".encode(), "é".encode("latin-1"), b"TRUE", b"None"]
SEPARATORS = [b",", b";", b"\t", b" ", b"  ", b"|", b", "]
ENCODINGS = ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"]


def mutate(rng: np.random.Generator, data: bytes) -> bytes:
    """Return content with one to three kinds of damage, drawn at random."""
    while True:
        damaged = data
        for _ in range(1 + rng.choice(3, p=[0.7, 0.2, 0.1])):
            damaged = KINDS[rng.integers(len(KINDS))](rng, damaged)
        if damaged != data:
            return damaged


def accepted(read, content, path, trials, seed=0):
    """Damage a file, read it, and yield the damaged text, what was read, and the warnings.

    Files that are refused are not yielded: the error must be a ValueError or OSError of one sentence that names the
    file. Any other error fails the test, with the number of the trial.
    """
    refused = 0
    for trial in range(trials):
        damaged = mutate(np.random.default_rng([seed, trial]), content)
        path.write_bytes(damaged)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                found = read(path)
            except (ValueError, OSError) as error:
                text = str(error)
                assert type(error) is not UnicodeDecodeError and "\n" not in text, (trial, text)
                assert path.name in text and len(text) < 1500, (trial, text)
                refused += 1
                continue
            except Exception as error:
                raise AssertionError(f"trial {trial}: {damaged[:2000]!r}") from error
        yield trial, text_of(damaged), found, [str(warning.message) for warning in said]
    assert 0.1 * trials < refused < trials, refused


def text_of(content: bytes) -> str:
    """Return content as text in the encoding that its byte-order mark names."""
    mark = next((mark for mark in BOMS if content.startswith(mark)), b"")
    return content[len(mark) :].decode(BOMS.get(mark, "utf-8")).replace("\r\n", "\n").replace("\r", "\n")


def _place(rng, data):
    return int(rng.integers(len(data) + 1))


def _flip_bit(rng, data):
    if not data:
        return b"\0"
    place = int(rng.integers(len(data)))
    return data[:place] + bytes([data[place] ^ (1 << int(rng.integers(8)))]) + data[place + 1 :]


def _replace_bytes(rng, data):
    place, length = _place(rng, data), int(rng.integers(1, 9))
    return data[:place] + rng.bytes(length) + data[place + length :]


def _insert_bytes(rng, data):
    place = _place(rng, data)
    return data[:place] + rng.bytes(int(rng.integers(1, 9))) + data[place:]


def _delete_bytes(rng, data):
    place = _place(rng, data)
    return data[:place] + data[place + int(rng.integers(1, 17)) :]


def _truncate(rng, data):
    return data[: _place(rng, data)]


def _zero_bytes(rng, data):
    """A block that a disk did not write."""
    place, length = _place(rng, data), int(rng.integers(1, 513))
    return data[:place] + bytes(len(data[place : place + length])) + data[place + length :]


def _repeat_bytes(rng, data):
    place, length = _place(rng, data), int(rng.integers(1, 65))
    return data[: place + length] + data[place:]


def _lines(change):
    """Make damage of content of damage of one line: `change` returns the lines that take its place."""

    def changed(rng, data):
        lines = data.splitlines(keepends=True)
        if not lines:
            return data + b"\n"
        place = int(rng.integers(len(lines)))
        return b"".join([*lines[:place], *change(rng, lines[place]), *lines[place + 1 :]])

    return changed


def _swap_lines(rng, data):
    lines = data.splitlines(keepends=True)
    if len(lines) < 2:
        return data
    i, j = rng.choice(len(lines), 2, replace=False)
    lines[i], lines[j] = lines[j], lines[i]
    return b"".join(lines)


def _matches(pattern, change):
    """Make damage of content of a change of one match of a pattern, such as a number, drawn at random."""

    def changed(rng, data):
        found = list(pattern.finditer(data))
        if not found:
            return data
        match = found[int(rng.integers(len(found)))]
        return data[: match.start()] + change(rng, match[0]) + data[match.end() :]

    return changed


def _digit(rng, number):
    places = [place for place in range(len(number)) if number[place : place + 1].isdigit()]
    place = places[int(rng.integers(len(places)))]
    return number[:place] + b"%d" % rng.integers(10) + number[place + 1 :]


def _sign(rng, number):
    return number[1:] if number[:1] == b"-" else b"-" + number.lstrip(b"+")


def _exponent(rng, number):
    return re.split(rb"[eEdD]", number)[0] + rng.choice([b"e", b"E", b"D"]) + b"%d" % rng.integers(-400, 400)


def _point(rng, number):
    """A decimal point is lost, moved, doubled or replaced by a comma."""
    digits = number.replace(b".", b"")
    place = int(rng.integers(len(digits) + 1))
    return digits[:place] + rng.choice([b"", b".", b"..", b","]) + digits[place:]


def _another_word(rng, word):
    return WORDS[int(rng.integers(len(WORDS)))]


def _letter_case(rng, word):
    return word.swapcase()


def _move_word(rng, line):
    """Two words of a line change places."""
    found = list(WORD.finditer(line))
    if len(found) < 2:
        return [line]
    i, j = sorted(int(x) for x in rng.choice(len(found), 2, replace=False))
    a, b = found[i], found[j]
    return [line[: a.start()] + b[0] + line[a.end() : b.start()] + a[0] + line[b.end() :]]


def _other_separator(rng, line):
    """One separator of a line becomes another, is doubled or lost."""
    found = list(re.finditer(rb"[,;\t |]+", line.rstrip(b"\r\n")))
    if not found:
        return [line]
    match = found[int(rng.integers(len(found)))]
    another = [b"", match[0] * 2, *SEPARATORS][int(rng.integers(len(SEPARATORS) + 2))]
    return [line[: match.start()] + another + line[match.end() :]]


def _other_separators(rng, data):
    """All separators of one kind become those of another."""
    old, new = (SEPARATORS[int(i)] for i in rng.choice(len(SEPARATORS), 2, replace=False))
    return data.replace(old, new)


def _other_line_ends(rng, data):
    return data.replace(b"\n", [b"\r\n", b"\r", b"\n\n", b" \n", b"\\\n", b""][int(rng.integers(6))])


def _other_encoding(rng, data):
    return data.decode("latin-1").encode(ENCODINGS[int(rng.integers(len(ENCODINGS)))])


def _another_line(rng, line):
    return [
        line,
        [b"\n", b"# a comment\n", b"%% a comment\n", b"free text\n", b"1 2 3\n", b"0\n"][int(rng.integers(6))],
    ]


BYTES = [_flip_bit, _replace_bytes, _insert_bytes, _delete_bytes, _truncate, _zero_bytes, _repeat_bytes]
LINES = [_lines(lambda rng, line: []), _lines(lambda rng, line: [line, line]), _swap_lines, _lines(_another_line)]
LINES += [_lines(_move_word), _lines(_other_separator), _other_separators, _other_line_ends, _other_encoding]
LINES += [_lines(lambda rng, line: [line.rstrip(b"\r\n")])]  # joined with the next
NUMBERS = [_matches(NUMBER, change) for change in (_digit, _sign, _exponent, _point, _another_word)]
TEXT = [*LINES, *NUMBERS, _matches(WORD, _another_word), _matches(WORD, _letter_case)]
KINDS = [*BYTES, *TEXT]
