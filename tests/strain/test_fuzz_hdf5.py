"""Damaged HDF5 files: none crashes, hangs or gives a raw error, and what can be noticed is.

HDF5 files of GWOSC have no checksums. The strain is compressed by gzip, whose checksum tells. The masks, the names of
bits and the detector are stored once and as they are: damage to these bytes changes them, which no reader can tell, and
is left out here. All the rest is stated twice (times, lengths) or says where and what the values are, and a damage
there must not change what is read.
"""

import h5py
import numpy as np
import pytest
from strain_damage import damaged, tried
from strain_files import write_gwosc

import jfstat.strain.hdf5

START, RATE, SECONDS = 1_256_655_616, 64, 64
N = 2500
STORED_ONCE = (
    *("meta/Detector", "quality/simple/DQmask", "quality/injections/Injmask"),
    *("quality/simple/DQShortnames", "quality/injections/InjShortnames"),
)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A file as GWOSC's, and the bytes of values that it states once, as (first, end)."""
    rng = np.random.default_rng(1)
    mask = np.full(SECONDS, 127, np.uint32)
    mask[10:13] = 126
    x = rng.standard_normal(RATE * SECONDS) * 1e-21
    path = write_gwosc(tmp_path_factory.mktemp("hdf5") / "good.hdf5", "H1", START, x, RATE, mask, chunk=512)
    with h5py.File(path) as file:
        places = [file[name].id for name in STORED_ONCE]
        once = [(place.get_offset(), place.get_offset() + place.get_storage_size()) for place in places]
    return path.read_bytes(), once


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, 1])
def test_damaged_files_are_sentences(part, good, tmp_path, monkeypatch):
    monkeypatch.setattr(jfstat.strain.hdf5, "SECONDS", 2)  # of computing, after which HDF5 is taken to be in a loop
    data, once = good

    def change(rng, data):
        own = np.random.default_rng((part, int(rng.integers(2**60))))
        found = bytearray(damaged(own, data, 12000))
        if len(found) == len(data):
            for first, end in once:
                found[first:end] = data[first:end]
        return bytes(found)

    sentences, same, changed = tried(data, tmp_path / "a.hdf5", N, change)
    assert changed == []
    assert sentences > 0.2 * N
    assert sentences + same == N
