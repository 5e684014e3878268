"""The 64-bit checksum of SFT files, in NumPy.

The checksum (LIGO-T040164; LALSuite: ``SFTReferenceLibrary.c:crc64``) is a cyclic redundancy check: reflected,
polynomial ``x^64 + x^4 + x^3 + x + 1``, register preset to all ones, no final inversion. If the register starts at
zero, the result is linear over GF(2) in the message. So a message is cut into lanes that are processed together and
joined at the end.
"""

from __future__ import annotations

from functools import cache

import numpy as np

POLYNOMIAL = 0xD800000000000000
ALL_ONES = 0xFFFFFFFFFFFFFFFF
# Registers processed together: enough to hide NumPy's overhead, few enough for a core's cache.
_LANES = 16384


def crc64(data: bytes | bytearray | memoryview | np.ndarray, crc: int = ALL_ONES) -> int:
    """Compute the checksum of one message.

    Parameters
    ----------
    data : bytes-like or (n,) uint8 ndarray
        The message; contiguous.
    crc : int
        Register to start from: the checksum of the preceding bytes, or all ones.

    Returns
    -------
    int
        The register after the message.
    """
    message = np.frombuffer(data, np.uint8)
    return int(crc64_rows(message[np.newaxis], crc)[0])


def crc64_rows(rows: np.ndarray, crc: int = ALL_ONES) -> np.ndarray:
    """Compute the checksums of many equally long messages.

    Parameters
    ----------
    rows : (n, n_bytes) uint8 ndarray
        One message per row; rows must be contiguous, but may have gaps between them.
    crc : int
        Register to start every row from.

    Returns
    -------
    (n,) uint64 ndarray
        The register after each row.
    """
    n_rows, n_bytes = rows.shape
    register = np.full(n_rows, crc, np.uint64)
    head = n_bytes % 8
    for column in range(head):
        # one byte at a time, as in the definition, until whole words are left
        register = (register >> np.uint64(8)) ^ _byte_table()[(register ^ rows[:, column]) & np.uint64(0xFF)]
    if n_bytes < 8:
        return register
    words = rows[:, head:].view("<u8")
    lanes = 1 << (min(max(_LANES // max(n_rows, 1), 64), words.shape[1]).bit_length() - 1)
    block = max(_LANES // lanes, 1)
    for start in range(0, n_rows, block):
        part = slice(start, start + block)
        register[part] = _checksum_of_words(words[part], register[part], lanes)
    return register


def _checksum_of_words(words: np.ndarray, register: np.ndarray, lanes: int) -> np.ndarray:
    """Return registers (n,) after messages (n, n_words) of uint64.

    Messages are processed in `lanes` lanes, a power of two, at most n_words.
    """
    first = words.shape[1] % lanes
    state = np.zeros((len(words), lanes), np.uint64)
    # leading zeros leave a register of zeros unchanged, so an incomplete first column fills the last lanes
    state[:, lanes - first :] = words[:, :first]
    if first:
        state[:, lanes - first] ^= register
    for column in range(first, words.shape[1], lanes):
        state = _advance(state, lanes)
        state ^= words[:, column : column + lanes]
        if column == 0:
            state[:, 0] ^= register
    while lanes > 1:
        lanes //= 2
        state = _advance(state[:, :lanes], lanes) ^ state[:, lanes:]
    return _advance(state, 1)[:, 0]


def _advance(registers: np.ndarray, n_words: int) -> np.ndarray:
    """Return registers, uint64 of any shape, after `n_words` (a power of two) more words of zeros."""
    tables = _advance_tables(n_words)
    octets = np.ascontiguousarray(registers, "<u8").view(np.uint8).reshape(*registers.shape, 8)
    # np.take needs half the time of indexing
    result = np.take(tables[0], octets[..., 0])
    for i in range(1, 8):
        result ^= np.take(tables[i], octets[..., i])
    return result


@cache
def _byte_table() -> np.ndarray:
    """Return the register after one byte of zeros, for each value of a register of one byte: (256,) uint64."""
    table = np.arange(256, dtype=np.uint64)
    for _ in range(8):
        table = (table >> np.uint64(1)) ^ np.where(table & np.uint64(1), np.uint64(POLYNOMIAL), np.uint64(0))
    return table


@cache
def _advance_tables(n_words: int) -> np.ndarray:
    """Return registers after `n_words` words of zeros, by value b of byte i of a register: (8, 256) uint64.

    All other bytes of the register are zeros.
    """
    if n_words > 1:
        return _advance(_advance_tables(n_words // 2), n_words // 2)
    tables = np.arange(256, dtype=np.uint64) << (np.uint64(8) * np.arange(8, dtype=np.uint64)[:, np.newaxis])
    for _ in range(8):
        tables = (tables >> np.uint64(8)) ^ _byte_table()[tables & np.uint64(0xFF)]
    return tables
