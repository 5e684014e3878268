"""Samples of vectors in frame files: their checksums, and their decompression (LIGO-T970130, appendix B)."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import numpy as np

from jfstat.strain.gwf import Checksum, FrameError, Vector, require_checksum

KINDS = {1: "i2", 2: "f8", 3: "f4", 4: "i4", 5: "i8", 9: "u2", 10: "u4", 11: "u8"}
"""Types of real numbers by their codes."""
LITTLE = 256
"""What is added to the code of a compression if bytes are in little-endian order."""
RAW, GZIP, GZIP_OF_DIFFERENCES = 0, 1, 3
ZERO_SUPPRESSED = {5: (2, 4), 8: (4, 5), 10: (8, 6)}
"""Codes of zero-suppression of differences: bytes of a sample, and bits that state the number of bits in a block."""
LARGEST_RATIO = {RAW: 1, GZIP: 1032, GZIP_OF_DIFFERENCES: 1032}
"""Most bytes of samples that a stored byte can stand for; the larger ones are of deflate."""
LARGEST_BLOCK = 2 * 65535
"""Most samples of zero-suppressed blocks that a byte can stand for: two blocks of 65535 equal samples."""
MOST_SAMPLES = 1 << 30
"""Most samples of a channel in a frame: 4096 s have some 2^28 at most."""
PIECE = 1 << 18
"""Bytes that are read at a time."""


def require_samples(vector: Vector) -> np.dtype:
    """Return the type of the samples of a vector.

    Raises
    ------
    FrameError
        If it does not hold real numbers in one dimension, or cannot hold as many as it states.
    """
    kind = KINDS.get(vector.kind)
    if kind is None or vector.shape != (vector.n,):
        raise FrameError("it does not hold real numbers in one dimension")
    dtype, scheme = np.dtype(kind), vector.compression % LITTLE
    if (
        (scheme not in LARGEST_RATIO and ZERO_SUPPRESSED.get(scheme, (0,))[0] != dtype.itemsize)
        or (scheme == GZIP_OF_DIFFERENCES and dtype.kind == "f")
        or vector.compression >= 2 * LITTLE
    ):
        raise FrameError(f"its samples of {dtype} are compressed in a way, {vector.compression}, that is not known")
    if vector.n > MOST_SAMPLES:
        raise FrameError(f"it states {vector.n} samples, more than {MOST_SAMPLES}")
    if vector.n * dtype.itemsize > LARGEST_RATIO.get(scheme, LARGEST_BLOCK * dtype.itemsize) * (vector.n_bytes + 1):
        raise FrameError(f"it is damaged: its {vector.n_bytes} bytes are too few for {vector.n} samples")
    return dtype


def samples(file: BinaryIO, vector: Vector) -> np.ndarray:
    """Return the samples of a vector: (n,) of its own type.

    Raises
    ------
    FrameError
        If the vector is damaged, see also `require_samples`.
    """
    dtype = require_samples(vector)
    scheme, order = vector.compression % LITTLE, "<" if vector.compression >= LITTLE else ">"
    stored = _stored(file, vector)
    if scheme in ZERO_SUPPRESSED:
        # differences of words of bits, whatever these stand for
        if vector.n_bytes % dtype.itemsize:
            raise FrameError("it is damaged: it ends within a sample")
        words = _joined(stored, vector.n_bytes).view(f"{order}u{dtype.itemsize}")
        differences = _unsuppressed(words, vector.n, ZERO_SUPPRESSED[scheme][1])
        return np.cumsum(differences, dtype=np.uint64).astype(f"u{dtype.itemsize}").view(dtype)
    n_bytes = vector.n * dtype.itemsize
    raw = _joined(stored, n_bytes) if scheme == RAW else _inflated(stored, n_bytes)
    x = raw.view(dtype.newbyteorder(order)).astype(dtype, copy=False)
    return np.cumsum(x, dtype=dtype) if scheme == GZIP_OF_DIFFERENCES else x


def _stored(file: BinaryIO, vector: Vector) -> Iterator[bytes]:
    """Yield the stored bytes of a vector piece by piece, and then verify the checksum of its structure."""
    found = Checksum()
    file.seek(vector.place)
    found.add(file.read(vector.begin - vector.place))
    for left in range(vector.n_bytes, 0, -PIECE):
        piece = file.read(min(left, PIECE))
        found.add(piece)
        yield piece
    tail = file.read(vector.place + vector.length - vector.begin - vector.n_bytes)
    if vector.check is not None:
        found.add(tail[:-4])
        require_checksum("FrVect", vector.place, vector.check, vector.order, found, tail[-4:])


def _joined(pieces: Iterable[bytes], n_bytes: int) -> np.ndarray:
    """Return pieces as one array of n_bytes uint8."""
    whole = np.frombuffer(bytearray().join(pieces), np.uint8)
    if len(whole) != n_bytes:
        raise FrameError(f"it is damaged: it stores {len(whole)} bytes, not {n_bytes}")
    return whole


def _inflated(pieces: Iterable[bytes], n_bytes: int) -> np.ndarray:
    """Return n_bytes uint8 of which pieces are the deflated form."""
    whole, done, engine = np.empty(n_bytes, np.uint8), 0, zlib.decompressobj()
    try:
        for piece in pieces:
            # one byte more than there should be is enough to tell that there are too many
            part = engine.decompress(piece, n_bytes - done + 1)
            if len(part) > n_bytes - done or engine.unused_data:
                raise FrameError("it is damaged: it holds more samples than it states")
            whole[done : done + len(part)] = np.frombuffer(part, np.uint8)
            done += len(part)
    except zlib.error:
        raise FrameError("it is damaged: samples cannot be decompressed") from None
    if done < n_bytes or not engine.eof:
        raise FrameError("it is damaged: it holds fewer samples than it states")
    return whole


def _unsuppressed(words: np.ndarray, n: int, width: int) -> np.ndarray:
    """Return numbers from which leading zero bits were left out: (n,) uint64, modulo 2^64.

    The words are a row of bits, of which the lowest comes first: 16 bits state the number of numbers in a block; each
    block is `width` bits with the number of bits of a number, less 1, and the numbers, increased so that none is
    negative. A block of one bit is all zeros, and takes no more.
    """
    stream = words.astype(words.dtype.newbyteorder("<")).view(np.uint8)
    size = int(_bits(stream, 0, 16, 1)[0])
    if size == 0:
        raise FrameError("it is damaged: its blocks hold no samples")
    x, at = np.zeros(n, np.uint64), 16
    for first in range(0, n, size):
        bits = int(_bits(stream, at, width, 1)[0]) + 1
        at += width
        if bits > 1:
            block = x[first : first + size]
            block[:] = _bits(stream, at, bits, len(block)) - np.uint64((1 << bits - 1) - 1)
            at += bits * len(block)
    return x


def _bits(stream: np.ndarray, first: int, width: int, n: int) -> np.ndarray:
    """Return n numbers of `width` bits each from bit `first` of a row of bytes on: (n,) uint64."""
    stop = first + width * n
    if stop > 8 * len(stream):
        raise FrameError("it is damaged: it ends within a block of samples")
    bits = np.unpackbits(stream[first // 8 : -(-stop // 8)], bitorder="little")[first % 8 :][: width * n]
    return bits.reshape(n, width).astype(np.uint64) @ (np.uint64(1) << np.arange(width, dtype=np.uint64))
