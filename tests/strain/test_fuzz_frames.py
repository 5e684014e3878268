"""Damaged frame files: none crashes, none gives a raw error, and no damage changes what is read without a word.

All structures that are read have checksums, so that any reading but the undamaged one is a failure.
"""

import struct

import numpy as np
import pytest
from strain_damage import damaged, tried
from strain_files import sealed, write_frame

START, RATE, SECONDS = 1_256_655_616, 64, 64
N = 2500


@pytest.fixture(scope="module", params=[1, 4], ids=["one frame", "four frames"])
def good(request, tmp_path_factory):
    rng = np.random.default_rng(1)
    masks = {f"H1__GWOSC-4KHZ_R1_{name}": np.full(SECONDS, 127, "u4") for name in ("DQMASK", "INJMASK")}
    masks["H1__GWOSC-4KHZ_R1_DQMASK"][10:13] = 126
    x = rng.standard_normal(RATE * SECONDS) * 1e-21
    path = tmp_path_factory.mktemp("frames") / "good.gwf"
    return write_frame(path, START, RATE, request.param, **{"H1__GWOSC-4KHZ_R1_STRAIN": x}, **masks).read_bytes()


def structures(data):
    """Places and lengths of the structures."""
    place = 40
    while place < len(data):
        (length,) = struct.unpack_from("<Q", data, place)
        yield place, length
        place += length


@pytest.mark.slow
def test_damaged_files_are_sentences(good, tmp_path):
    # half of the damage is to what the first structures say of the others
    sentences, same, changed = tried(good, tmp_path / "a.gwf", N, lambda rng, data: damaged(rng, data, 4000))
    assert changed == []
    assert sentences > 0.9 * N
    assert sentences + same == N


@pytest.mark.slow
def test_damage_within_structures_whose_checksums_are_right_is_no_crash(good, tmp_path):
    """What was written wrongly has right checksums: it may be read, as it is, or refused, in one sentence."""

    def change(rng, data):
        data, places = bytearray(data), list(structures(data))
        for _ in range(rng.choice([1, 2, 4])):
            place, length = places[rng.integers(len(places))]
            data[place + int(rng.integers(8 if rng.random() < 0.9 else 0, length))] = int(
                rng.choice([0, 1, 255, rng.integers(256)])
            )
        return sealed(bytes(data))

    sentences, same, changed = tried(good, tmp_path / "a.gwf", N, change)
    assert sentences + same + len(changed) == N
