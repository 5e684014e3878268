"""Damages the bytes of files at random, and says what comes of reading the strain in them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

import jfstat


def damaged(rng: np.random.Generator, good: bytes, busy: int) -> bytes:
    """Bytes that were changed, cut out, put in or left off; half of the changes are in the first `busy` ones."""
    data = bytearray(good)
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        place = int(rng.integers(min(busy, len(data)) if rng.random() < 0.5 else len(data)))
        length = int(rng.choice([1, 2, 8, 100]))
        kind = rng.integers(20)
        if kind < 8:
            data[place] ^= 1 << int(rng.integers(8))
        elif kind < 14:
            data[place] = int(rng.choice([0, 1, 127, 255, rng.integers(256)]))
        elif kind < 16:
            data[place : place + length] = rng.bytes(len(data[place : place + length]))
        elif kind == 16:
            del data[place : place + length]
        elif kind == 17:
            data[place:place] = rng.bytes(length)
        elif kind == 18:
            other = int(rng.integers(len(data)))
            data[place : place + length] = data[other : other + length]
        else:
            del data[place:]
        if not data:
            break
    return bytes(data)


def reading(path: Path) -> dict[str, object] | str:
    """All that is read of a file of strain, or the one sentence that says why it cannot be used."""
    try:
        strain = jfstat.find_strain(path)
        (file,) = strain.files
        every = {"detector": file.detector, "channel": file.channel, "start": file.start, "rate": file.rate}
        return every | {"good": file.good_seconds(None), "strain": file.read(0, file.n)}
    except (ValueError, OSError) as error:
        text = str(error)
        assert str(path) in text or "paths" in text, text
        assert "\n" not in text and text.endswith(".") and type(error) in (ValueError, OSError), repr(error)
        return text


def differing(a: dict[str, object], b: dict[str, object]) -> list[str]:
    """Names of what differs between two readings."""
    return [key for key in a if not np.array_equal(a[key], b[key], equal_nan=key == "strain")]  # type: ignore[arg-type]


def tried(
    good: bytes, path: Path, n: int, change: Callable[[np.random.Generator, bytes], bytes]
) -> tuple[int, int, list[tuple[int, list[str]]]]:
    """Try n changes of a file with seeds 0 to n - 1.

    Returns the numbers of sentences and of readings that agree, and seed and names of what was silently changed.
    """
    path.write_bytes(good)
    expected = reading(path)
    assert not isinstance(expected, str), expected
    sentences, same, changed = 0, 0, []
    for seed in range(n):
        path.write_bytes(change(np.random.default_rng(seed), good))
        found = reading(path)
        if isinstance(found, str):
            sentences += 1
        elif names := differing(expected, found):
            changed.append((seed, names))
        else:
            same += 1
    return sentences, same, changed
