"""The structures of frame files (.gwf), with their checksums verified.

The format is that of LIGO-T970130 from version 6 on. A file is a row of structures, each with its length, class and
instance; in version 8 a checksum ends each. LALSuite's library for frames is not used because damaged files crash it,
it believes files whose checksums are wrong, and it does not exist on Windows.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

MAGIC = b"IGWD\0"
"""First bytes of a frame file."""
HEADER = 40
"""Length of the header, in bytes."""
CONSTANTS = "BBBBBHIQfd", (2, 4, 8, 4, 8, 0x1234, 0x12345678, 0x123456789ABCDEF, 3.1415927410125732, 3.141592653589793)
"""What the header states of numbers: their sizes, and some of them, from which readers learn the order of bytes."""
VERSIONS = (6, 7, 8)
"""Versions of the format that are read."""
CHECKED = 8
"""First version with a checksum in each structure; written since 2010."""
CRC = 1
"""Kind of checksum of a structure that has one: that of POSIX's cksum."""
MOST_DIMENSIONS = 8
"""Most dimensions that a vector may have; samples over time have one."""
REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
"""Bytes with their bits in the opposite order."""


class FrameError(Exception):
    """What is wrong with a frame file, as a part of a sentence."""


@dataclass(frozen=True)
class Vector:
    """Samples in a frame file (structure FrVect).

    Attributes
    ----------
    place, length : int
        First byte of the structure in the file, and its number of bytes.
    order : str
        Order of its bytes, ``"<"`` or ``">"``.
    check : int or None
        Kind of the checksum that ends the structure; None in versions of the format that have none.
    compression, kind : int
        Codes of the compression and of the type of samples.
    n, n_bytes : int
        Numbers of samples, and of the bytes that store them.
    begin : int
        First of these bytes in the file.
    shape : tuple of int
    spacing, offset : float
        Spacing of samples and time of the first one, s.
    units : str
        Unit of samples, or names of bits.
    """

    place: int
    length: int
    order: str
    check: int | None
    compression: int
    kind: int
    n: int
    n_bytes: int
    begin: int
    shape: tuple[int, ...]
    spacing: float
    offset: float
    units: str


@dataclass(frozen=True)
class Channel:
    """A channel in a frame (structures FrProcData, FrSimData and FrAdcData).

    Attributes
    ----------
    kind : str
        Name of the structure.
    vector : int
        Instance of its vector.
    offset : float
        Time of the vector after the start of the frame, s.
    shift : float
        Frequency by which the samples are heterodyned, Hz.
    valid : bool
        False if the detector's electronics call the samples invalid.
    scale : (float, float)
        What a count, and zero counts, are in `Vector.units`.
    """

    kind: str
    vector: int
    offset: float
    shift: float
    valid: bool = True
    scale: tuple[float, float] = (1.0, 0.0)


@dataclass(eq=False)
class Frame:
    """A frame: a stretch of time with samples of channels (structure FrameH and what follows it).

    Attributes
    ----------
    start, nanoseconds : int
        GPS time.
    seconds : float
        Length, s.
    channels : dict of str to Channel
    vectors : dict of int to Vector
        Vectors by their instances.
    """

    start: int
    nanoseconds: int
    seconds: float
    channels: dict[str, Channel] = field(default_factory=dict)
    vectors: dict[int, Vector] = field(default_factory=dict)


class Checksum:
    """The checksum of POSIX's cksum, of bytes that come in pieces."""

    def __init__(self, piece: bytes = b""):
        self.n, self._crc = 0, 0xFFFFFFFF
        self.add(piece)

    def add(self, piece: bytes) -> None:
        # zlib has the same polynomial, with the bits of each byte and of the result in the opposite order
        self._crc = zlib.crc32(piece.translate(REVERSED), self._crc)
        self.n += len(piece)

    @property
    def value(self) -> int:
        """The checksum so far; the number of bytes is a part of it."""
        length = self.n.to_bytes((self.n.bit_length() + 7) // 8, "little")
        crc = zlib.crc32(length.translate(REVERSED), self._crc)
        return int.from_bytes(crc.to_bytes(4, "little").translate(REVERSED), "big")


class _Fields:
    """The fields of a structure, read one after the other up to its end."""

    def __init__(self, file: BinaryIO, left: int, order: str):
        self.file, self.left, self.order = file, left, order

    def numbers(self, codes: str) -> tuple[Any, ...]:
        """Read numbers by their codes, see `struct`."""
        return struct.unpack(self.order + codes, self._bytes(struct.calcsize(self.order + codes)))

    def text(self) -> str:
        return self._bytes(*self.numbers("H")).split(b"\0")[0].decode("latin-1")

    def skip(self, n: int) -> None:
        self._leave(n)
        self.file.seek(n, io.SEEK_CUR)

    def _bytes(self, n: int) -> bytes:
        self._leave(n)
        found = self.file.read(n)
        if len(found) < n:
            raise FrameError("it is cut")
        return found

    def _leave(self, n: int) -> None:
        self.left -= n
        if self.left < 0:
            raise FrameError("it is damaged: a structure ends within a field")


@dataclass(frozen=True)
class _Structure:
    """A structure of a file: its name, place and fields."""

    name: str
    instance: int
    place: int
    length: int
    check: int | None
    fields: _Fields


def frames_of(file: BinaryIO, size: int) -> tuple[Frame, ...]:
    """Return the frames of a file of `size` bytes, without their samples.

    The checksum of each structure is verified, but for vectors: theirs are when samples are read.

    Raises
    ------
    FrameError
        If the file is damaged, or of another kind.
    """
    names = {1: "FrSH", 2: "FrSE"}
    frames: list[Frame] = []
    frame = None
    for this in _structures(file, size, names):
        if this.name == "FrSH":
            name, code = this.fields.text(), *this.fields.numbers("H")
            if names.setdefault(code, name) != name:
                raise FrameError(f"it is damaged: {name} and {names[code]} are the same in its dictionary")
        elif this.name == "FrEndOfFile":
            n_frames, n_bytes = this.fields.numbers("IQ")
            if frame is not None or n_frames != len(frames) or n_bytes != size:
                raise FrameError(f"it is damaged: of its {n_frames} frames and {n_bytes} bytes some are missing")
            return tuple(frames)
        elif this.name == "FrameH":
            if frame is not None:
                raise FrameError("it is damaged: a frame has no end")
            frame = _frame(this.fields)
        elif this.name == "FrEndOfFrame" and frame is not None:
            frames.append(frame)
            frame = None
        elif this.name == "FrVect" and frame is not None:
            _enter(frame.vectors, this.instance, _vector(this))
        elif this.name in CHANNELS and frame is not None:
            _enter(frame.channels, *CHANNELS[this.name](this.fields))
    raise FrameError("its end is missing")


def _header(header: bytes) -> tuple[str, int]:
    """Return the byte order and the version of a file that begins with these bytes."""
    if not header.startswith(MAGIC):
        raise FrameError("it is not a frame file")
    codes, constants = CONSTANTS
    order = next((order for order in "<>" if struct.pack(order + codes, *constants) == header[7:38]), None)
    if len(header) < HEADER or order is None:
        raise FrameError("its header is damaged")
    if header[5] not in VERSIONS:
        raise FrameError(f"it is of version {header[5]} of the format, and only {VERSIONS} are read")
    return order, header[5]


def _structures(file: BinaryIO, size: int, names: dict[int, str]) -> Iterator[_Structure]:
    """Yield the structures of a file; `names` of their classes may be added in between."""
    order, version = _header(file.read(HEADER))
    place, begin = HEADER, struct.Struct(order + ("QBBI" if version >= CHECKED else "QHI"))
    while place < size:
        file.seek(place)
        if place + begin.size > size:
            break
        length, *check, code, instance = begin.unpack(file.read(begin.size))
        name = names.get(code)
        if name is None or not begin.size + 4 * len(check) <= length <= size - place:
            raise FrameError(f"it is cut or damaged at byte {place}")
        fields = _Fields(file, length - begin.size - 4 * len(check), order)
        if name != "FrVect":
            file.seek(place)
            whole = file.read(length)
            # what ends the last structure is the checksum of the whole file, with its own before
            stop = length - (8 if name == "FrEndOfFile" else 4)
            if check:
                require_checksum(name, place, check[0], order, Checksum(whole[:stop]), whole[stop : stop + 4])
            fields.file = io.BytesIO(whole[begin.size :])
        yield _Structure(name, instance, place, length, check[0] if check else None, fields)
        place += length


def require_checksum(name: str, place: int, check: int, order: str, found: Checksum, stated: bytes) -> None:
    """Raise a FrameError unless the checksum of a structure is the stated one, or there is none."""
    if check not in (0, CRC) or struct.unpack(order + "I", stated) != (found.value if check else 0,):
        raise FrameError(f"it is damaged: {name} at byte {place} has another checksum than it states")


def _enter(table: dict, key: Any, value: Any) -> None:
    """Add an entry to a table that must not have it yet."""
    if table.setdefault(key, value) is not value:
        raise FrameError(f"it is damaged: a frame has {key!r} twice")


def _frame(fields: _Fields) -> Frame:
    fields.text()
    *_, start, nanoseconds, _, length = fields.numbers("iIIIIHd")
    return Frame(start, nanoseconds, length)


def _vector(this: _Structure) -> Vector:
    fields = this.fields
    fields.text()
    compression, kind, n, n_bytes = fields.numbers("HHQQ")
    begin = fields.file.tell()
    fields.skip(n_bytes)
    (dimensions,) = fields.numbers("I")
    if not 1 <= dimensions <= MOST_DIMENSIONS:
        raise FrameError(f"it is damaged: FrVect at byte {this.place} has {dimensions} dimensions")
    shape, spacing, offset = (fields.numbers(f"{dimensions}{code}") for code in "Qdd")
    for _ in range(dimensions):
        fields.text()
    units = fields.text()
    fields.numbers("HI")
    if fields.left:
        raise FrameError(f"it is damaged: FrVect at byte {this.place} is longer than its fields")
    own = this.place, this.length, fields.order, this.check
    return Vector(*own, compression, kind, n, n_bytes, begin, shape, spacing[0], offset[0], units)


def _processed(fields: _Fields) -> tuple[str, Channel]:
    name = fields.text()
    fields.text()
    _, _, offset, _, shift, *_, n = fields.numbers("HHdddfddH")
    fields.skip(8 * n)
    for _ in range(n):
        fields.text()
    return name, Channel("FrProcData", fields.numbers("HI")[1], offset, shift)


def _simulated(fields: _Fields) -> tuple[str, Channel]:
    name = fields.text()
    fields.text()
    _, offset, shift, _ = fields.numbers("dddf")
    return name, Channel("FrSimData", fields.numbers("HI")[1], offset, shift)


def _recorded(fields: _Fields) -> tuple[str, Channel]:
    name = fields.text()
    fields.text()
    *_, bias, slope = fields.numbers("IIIff")
    fields.text()
    _, offset, shift, _, invalid = fields.numbers("dddfH")
    return name, Channel("FrAdcData", fields.numbers("HI")[1], offset, shift, not invalid, (slope, bias))


CHANNELS: dict[str, Callable[[_Fields], tuple[str, Channel]]] = {
    "FrProcData": _processed,
    "FrSimData": _simulated,
    "FrAdcData": _recorded,
}
"""Structures of channels: calibrated or processed, simulated, and recorded by the detector's electronics."""
