"""Keep finished shares of candidates in a file, from which a follow-up that was stopped continues.

The file begins with what identifies the follow-up, and each finished share adds a record, so that nothing is written
twice. A record is its length, a checksum and its content. What a process wrote when it was killed lacks a part; the
next one cuts it off.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jfstat.atomic import remove_leftovers, replacing
from jfstat.candidates.bounds import checked_bounds
from jfstat.candidates.lineflags import lines_from_meta
from jfstat.candidates.provenance import Provenance, reftime_of
from jfstat.candidates.tables import in_units, parameter_columns
from jfstat.data.memory import default_device
from jfstat.files import opened
from jfstat.followup.candidates import NEEDED, SearchedWith
from jfstat.followup.stages import checked_stages
from jfstat.geometry.barycenter import MAX_DELAY
from jfstat.geometry.ephemeris import read_ephemeris
from jfstat.searching.session.checkpoint import of_another, unreadable_checkpoint, unwritable_checkpoint, written_path
from jfstat.searching.session.identity import Identity, differences, digest
from jfstat.searching.session.lock import held
from jfstat.signal.times import gps_time
from jfstat.version import __version__

if TYPE_CHECKING:
    from astropy.table import QTable

    from jfstat.candidates.tables import AnyTable
    from jfstat.data.noise import Noise
    from jfstat.followup.options import Fit, Stages
    from jfstat.followup.rungs import Ladder
    from jfstat.geometry.ephemeris import EphemerisLike
    from jfstat.sfts.container import SFTs

BEGINNING = b"jfstat follow-up 1\n"
"""First bytes of the file, with the version of its format."""
LENGTH = struct.Struct("<Q")
MOST_AT_ONCE = 1 << 30
"""Largest number of bytes that are read in one call: systems limit it."""


class Finished:
    """Finished shares of candidates in a file, which is made when the first share is added; see `finished_in`."""

    def __init__(self, path: Path, beginning: bytes, places: dict[str, int], end: int) -> None:
        self._path, self._beginning, self._places, self._end = path, beginning, places, end

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def table(self, key: str) -> QTable:
        """Return the table of a finished share.

        Raises
        ------
        OSError
            If the file cannot be read any more.
        """
        with opened(self._path) as file:
            file.seek(self._places[key])
            content = _record(file)
        if not content:
            raise OSError(f"checkpoint {str(self._path)!r} was changed while it was in use: name another file.")
        return _table_of(content)

    def add(self, key: str, table: QTable) -> None:
        """Add the table of a share.

        Raises
        ------
        OSError
            If the file cannot be written, as on a full disk; it keeps the shares that it had.
        """
        record = _packed(_content_of(table, key))
        try:
            if self._end == 0:
                with replacing(self._path) as file:
                    file.write(self._beginning + record)
                self._end = len(self._beginning)
            else:
                with open(self._path, "r+b") as file:
                    file.seek(self._end)
                    file.truncate()
                    file.write(record)
                    file.flush()
                    os.fsync(file.fileno())
        except OSError as error:
            raise unwritable_checkpoint(self._path, error) from error
        self._places[key], self._end = self._end, self._end + len(record)


@contextmanager
def finished_in(path: Path, own: Identity) -> Iterator[Finished]:
    """Read the checkpoint of a follow-up, if there is one, and keep others from using it within the ``with`` block.

    Raises
    ------
    OSError
        If the file cannot be read, or nothing can be written there.
    ValueError
        If it is no checkpoint of a follow-up, damaged, of another one, or in use.
    """
    target = written_path(path)
    with held(target):
        theirs, places, end = _known(target)
        if theirs is not None and (differing := differences(theirs, own)):
            raise of_another(path, "follow-up", differing)
        yield Finished(target, BEGINNING + _packed(_text(own)), places, end)


def _known(path: Path) -> tuple[Identity | None, dict[str, int], int]:
    """Return the identity in a file, None if there is none yet, where each share's record begins, and where the last
    one ends."""
    try:
        remove_leftovers(path)  # left by a process that was killed while it wrote the first record
        with opened(path) as file:
            return _scanned(file, path)
    except FileNotFoundError:
        return None, {}, 0
    except OSError as error:
        raise unreadable_checkpoint(path, error) from error


def _scanned(file: FileIO, path: Path) -> tuple[Identity | None, dict[str, int], int]:
    """Return what `_known` does for an open file: damaged records are left out, and one that lacks its end is cut
    off."""
    if not BEGINNING.startswith(_bytes(file, len(BEGINNING))):
        raise ValueError(f"checkpoint {str(path)!r} is no checkpoint of a follow-up: name another file.")
    content = _record(file)
    if content is None:  # an empty file
        return None, {}, 0
    if not content:
        raise ValueError(f"checkpoint {str(path)!r} is damaged at its beginning: name another file.")
    theirs, places, end = json.loads(content), {}, file.tell()
    while (content := _record(file)) is not None:
        if content:
            places[_arrays(content)[0]["key"]] = end
        end = file.tell()
    return theirs, places, end


def _text(value: Any) -> bytes:
    """Return a value as JSON, with NumPy's numbers as Python's."""

    def plain(x: object) -> object:
        return x.tolist() if isinstance(x, np.generic | np.ndarray) else str(x)

    return json.dumps(value, default=plain).encode()


def _packed(content: bytes) -> bytes:
    """Return a record."""
    return LENGTH.pack(len(content)) + hashlib.sha256(content).digest() + content


def _record(file: FileIO) -> bytes | None:
    """Return the content of the record at the file's position; none if its checksum is wrong, None if it is not
    whole."""
    length, checksum = _bytes(file, LENGTH.size), _bytes(file, hashlib.sha256().digest_size)
    left = os.fstat(file.fileno()).st_size - file.tell()
    if len(length) < LENGTH.size or LENGTH.unpack(length)[0] > left:
        return None
    content = _bytes(file, LENGTH.unpack(length)[0])
    return content if hashlib.sha256(content).digest() == checksum else b""


def _bytes(file: FileIO, n: int) -> bytes:
    """Return the next n bytes of a file, or those that are left."""
    parts = []
    while n > 0 and (part := file.read(min(n, MOST_AT_ONCE))):
        parts.append(part)
        n -= len(part)
    return b"".join(parts)


def _content_of(table: Any, key: str) -> bytes:
    """Return a table as the content of a record."""
    names = table.colnames
    header = {"key": key, "columns": names, "meta": dict(table.meta)}
    values = [getattr(table[name], "value", table[name]) for name in names]
    arrays: dict[str, Any] = {f"column{i}": np.asarray(x) for i, x in enumerate(values)}
    file = io.BytesIO()
    np.savez(file, header=np.frombuffer(_text(header), np.uint8), **arrays)
    return file.getvalue()


def _arrays(content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header and the arrays of a share's record; arrays are read only as they are used."""
    arrays: Any = np.load(io.BytesIO(content), allow_pickle=False)
    return json.loads(arrays["header"].tobytes()), arrays


def _table_of(content: bytes) -> QTable:
    """Return the table in a record."""
    header, arrays = _arrays(content)
    return in_units({name: arrays[f"column{i}"] for i, name in enumerate(header["columns"])}, header["meta"])


def identity(
    sfts: SFTs, found: AnyTable, stages: Stages, fit: Fit, noise: Noise, ephemeris: EphemerisLike, guard: float
) -> Identity:
    """Return the properties that distinguish a follow-up from others, for `differences`.

    `sfts` may be without bins: shares are told apart by their samples, too (`share_keys`).
    """
    known = read_ephemeris(ephemeris, sfts.start - MAX_DELAY, sfts.end + MAX_DELAY)
    searched, origin = SearchedWith.of(found, sfts.detectors), Provenance.of(found)
    reftime, given = reftime_of(found, fit.reftime), parameter_columns(found, "found", NEEDED)
    lines = lines_from_meta(found.meta) if fit.lines is None else fit.lines
    return {
        "jfstat": __version__,
        "jax": jax.__version__,
        "platform": default_device().platform,
        "detectors": list(sfts.detectors),
        "sites": digest(*(np.array(repr(s.site)) for s in sfts)),
        "times": digest(*(x for s in sfts for x in (s.gps, s.gps_ns))),
        "tsft": float(sfts.tsft),
        "bins": [int(sfts.first_bin), int(sfts.n_bins)],
        "samples": digest(*(s.data for s in sfts)),
        "ephemeris": known.name,
        "positions": digest(*(x for body in (known.earth, known.sun) for x in body if isinstance(x, np.ndarray))),
        "candidates": digest(np.array(list(given)), *given.values()),
        "search": repr((searched, origin.n_segments, origin.segment_tspan, found.meta.get("statistic"))),
        "reftime": None if reftime is None else str(gps_time(reftime, "reftime")),
        "stages": None if stages.numbers is None else list(checked_stages(stages.numbers, len(sfts))),
        "veto": stages.veto,
        "false_alarm": stages.false_alarm,
        "parameters": None if fit.parameters is None else list(fit.parameters),
        "bounds": repr(checked_bounds(fit.bounds)),
        "mismatch": fit.neighbourhood.mismatch,
        "max_steps": None if fit.max_steps is None else int(fit.max_steps),
        "fit_bins": fit.neighbourhood.bins,
        "known_lines": None if lines is None else digest(*(np.asarray(lines[name]) for name in lines.colnames)),
        "sqrt_sx": list(noise.floors(sfts.detectors)),
        "median_bins": noise.median_bins,
        "off_source": noise.off_source,
        "guard": float(guard),
    }


def share_keys(own: Ladder, shares: Sequence[np.ndarray]) -> list[str]:
    """Return a text for each share of candidates that tells it from others, by its rows, their templates, the SFTs, the
    stages and the parameters."""
    common = digest(*(x for s in own.sfts for x in (s.gps, s.data)), np.array(own.numbers), np.array(own.free.names))
    templates = [own.given[name] for name in sorted(own.given)]
    return [digest(np.array(common), share, *(x[share] for x in templates)) for share in shares]
