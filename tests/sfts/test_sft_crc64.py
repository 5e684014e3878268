"""The fast checksum against its definition, bit by bit."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jfstat.sfts.crc64 import ALL_ONES, POLYNOMIAL, crc64, crc64_rows


def crc64_by_bits(data, crc=ALL_ONES):
    """The definition: one bit of the message after the other, least significant first."""
    for byte in bytes(data):
        for bit in range(8):
            carry = (crc ^ (byte >> bit)) & 1
            crc = (crc >> 1) ^ (POLYNOMIAL if carry else 0)
    return crc


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.integers(0, ALL_ONES))
def test_crc64_is_the_definition(data, start):
    assert crc64(data) == crc64_by_bits(data)
    assert crc64(data, start) == crc64_by_bits(data, start)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=2000), st.integers(0, 2000))
def test_crc64_continues_over_pieces(data, cut):
    assert crc64(data[cut:], crc64(data[:cut])) == crc64(data)


@pytest.mark.parametrize("n_bytes", [0, 1, 7, 8, 9, 56, 511, 512, 513, 520, 4099])
@pytest.mark.parametrize("n_rows", [0, 1, 3, 600])
def test_rows_are_checked_one_by_one(n_rows, n_bytes):
    rows = np.random.default_rng(n_bytes).integers(0, 256, (n_rows, n_bytes), dtype=np.uint8)
    crcs = crc64_rows(rows)
    assert crcs.shape == (n_rows,)
    assert crcs.dtype == np.uint64
    for i in {0, n_rows // 2, n_rows - 1} if n_rows else ():
        assert crcs[i] == crc64_by_bits(rows[i])


def test_long_message_uses_many_lanes():
    data = np.random.default_rng(1).integers(0, 256, 300_005, dtype=np.uint8)
    assert crc64(data) == crc64_by_bits(data)


def test_rows_may_be_spaced():
    wide = np.random.default_rng(2).integers(0, 256, (5, 100), dtype=np.uint8)
    np.testing.assert_array_equal(crc64_rows(wide[:, 3:91]), crc64_rows(wide[:, 3:91].copy()))


def test_known_value_of_a_lalsuite_file():
    # the first SFT of SFT-good in LALSuite's tests: header with the checksum set to zero, comment, data
    header = struct.pack("<diidiiQ2sHi", 2.0, 12345, 6789, 60.0, 1000, 4, 0, b"H1", 0, 8)
    data = np.array([1, 2 - 1j, 3 - 2j, 4 - 3j], "<c8").tobytes()
    assert crc64(header + b"test1\0\0\0" + data) == 5970545375871006845
