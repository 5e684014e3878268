"""Files and checkpoints damaged by a seeded fuzzer: none is taken for another, breaks its reader or hangs it."""

import signal

import numpy as np
import pytest
from searches import search

import jfstat
from jfstat.searching.bank import stacked_bank
from jfstat.searching.session.checkpoint import read_checkpoint

START = 1_167_458_304
SECONDS = 20
"""A file that takes longer counts as hung."""


class Hung(BaseException):
    pass


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A sound file of each kind: its bytes, what reads it, and a test that what was read is the same."""
    folder = tmp_path_factory.mktemp("whole")
    sfts = jfstat.simulate_sfts("H1", START, 4 * 1800, 98.9, 101.1, seed=1)
    few = jfstat.simulate_sfts("H1", START, 4 * 1800, 100.0, 100.02, seed=1)
    (sft,) = jfstat.write_sfts(few, folder)
    data = jfstat.prepare(sfts, 100.0, 100.0001)
    bank = jfstat.Doppler(np.array([1.0, 1.1]), np.full(2, 0.3), np.full((2, 1), 100.0), START)
    path, options = folder / "checkpoint", dict(top=5, per_detector=False, progress=False)
    found = search(data, bank, checkpoint=path, **options)
    state, plan, own = read_checkpoint(path.read_bytes(), path, stacked_bank(bank))
    tables = {suffix: jfstat.write_candidates(found, folder / f"found{suffix}") for suffix in (".ecsv", ".hdf5")}

    def same_table(table):
        return table.colnames == found.colnames and all(np.array_equal(table[x], found[x]) for x in table.colnames)

    def same_sfts(read):
        # by the format, a file cut between two SFTs is one of fewer SFTs
        own, rows = few["H1"], np.searchsorted(few["H1"].gps, read["H1"].gps)
        return np.array_equal(read["H1"].data, own.data[rows]) and np.array_equal(read["H1"].gps, own.gps[rows])

    def same_state(read):
        new, other, theirs = read
        same = all(np.array_equal(x, y) for x, y in zip(new.peaks, state.peaks, strict=True))
        same &= np.array_equal(new.histogram, state.histogram) and new.subbands == state.subbands
        return same and new.done == state.done and other == plan and theirs == own

    def read_state(name):
        return read_checkpoint(name.read_bytes(), name, stacked_bank(bank))

    return {
        ".sft": (sft.read_bytes(), jfstat.read_sfts, same_sfts),
        ".checkpoint": (path.read_bytes(), read_state, same_state),
        **{x: (file.read_bytes(), jfstat.read_candidates, same_table) for x, file in tables.items()},
    }


def damaged(content, rng):
    """The content with one or several damages of a random kind."""
    data = np.frombuffer(content, np.uint8).copy()
    for _ in range(int(rng.choice([1, 1, 1, 2, 5]))):
        place = int(rng.integers(max(len(data), 1)))
        length = int(rng.choice([1, 4, 8, 64, 512]))
        match int(rng.integers(8)):
            case 0 if len(data):
                data[place] ^= 1 << int(rng.integers(8))
            case 1:
                data[place : place + length] = rng.integers(0, 256, len(data[place : place + length]))
            case 2:
                data[place : place + length] = rng.choice([0, 255, 48, 10])
            case 3:
                data = data[:place]
            case 4:
                data = np.delete(data, slice(place, place + length))
            case 5:
                data = np.insert(data, place, rng.integers(0, 256, length))
            case 6:
                data = np.insert(data, place, data[place : place + length])
            case 7:
                data = np.concatenate([data, data[:length]])
    return data.tobytes()


def fuzzed(whole, tmp_path, suffix, n, seed):
    """Read n damaged files; the number that was refused."""
    content, read, same = whole[suffix]
    path, rng, refused = tmp_path / f"file{suffix}", np.random.default_rng(seed), 0

    def interrupt(*_):
        raise Hung

    usual = signal.signal(signal.SIGALRM, interrupt)
    try:
        for number in range(n):
            broken = damaged(content, rng)
            path.write_bytes(broken)
            signal.alarm(SECONDS)
            try:
                taken = read(path)
            except (ValueError, OSError) as error:
                refused += 1
                assert type(error).__module__ == "builtins", (number, error)
                assert "\n" not in str(error) and str(path) in str(error), (number, error)
            else:
                assert same(taken), f"{suffix} {number} of seed {seed} was taken for a sound file and is another"
            finally:
                signal.alarm(0)
    finally:
        signal.signal(signal.SIGALRM, usual)
    return refused


@pytest.mark.parametrize("suffix", [".sft", ".checkpoint", ".ecsv", ".hdf5"])
def test_some_damaged_files(whole, tmp_path, suffix):
    assert fuzzed(whole, tmp_path, suffix, 400, 1) > 300


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "n"), [(".sft", 40_000), (".checkpoint", 40_000), (".ecsv", 10_000), (".hdf5", 10_000)]
)
def test_a_hundred_thousand_damaged_files(whole, tmp_path, suffix, n):
    assert fuzzed(whole, tmp_path, suffix, n, 2) > 0.8 * n


def test_a_checkpoint_that_unpacks_to_gigabytes_is_refused(whole, tmp_path):
    """Compressed zeros would take all memory; nothing is unpacked before the checksum is looked at."""
    path = tmp_path / "bomb.checkpoint"
    np.savez_compressed(path.with_suffix(".npz"), histogram=np.zeros(5_000_000))
    path.write_bytes(path.with_suffix(".npz").read_bytes())
    bank = stacked_bank(jfstat.Doppler(1.0, 0.3, [100.0]))
    with pytest.raises(ValueError, match="is no checkpoint of a search"):
        read_checkpoint(path.read_bytes(), path, bank)
