"""Sums of neighbouring segments that templates of an interpolating search share, and the kernels' part emulated."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfstat
from jfstat.engines.coherentbands import BITS, TOGETHER, CoherentBands, Lookup, grouped
from jfstat.engines.cuda import launch, sums
from jfstat.engines.reduction import BINS, WIDTH
from jfstat.engines.shared import STEP, shared_sums
from jfstat.engines.xlasums import XlaSums

START = 1167458304
N_ROWS, PADDING = 3, 256


@pytest.fixture(scope="module")
def layout():
    """Of a narrow band, 1500 bins or so."""
    sfts = jfstat.simulate_sfts("H1", START, 86400, 99, 101, 1800, 4e-24, seed=1)
    return jfstat.prepare(sfts, 99.99, 99.99 + 1500 / (2 * 86400), START, 4e-24, guard=0.3).layout


def drawn(layout, n, n_segments, spread, piece=512, seed=0):
    """Values of `N_ROWS` templates a segment, and n templates, those of each segment shifted by up to `spread` bins."""
    rng = np.random.default_rng(seed)
    n_pieces = -(-layout.n_frequencies // piece)
    values = rng.chisquare(4, (N_ROWS * n_segments, n_pieces * piece + 2 * PADDING)).astype(np.float32)
    values[:, :PADDING] = values[:, PADDING + layout.n_frequencies :] = -np.inf
    rows = rng.integers(0, N_ROWS, (n, n_segments)) + N_ROWS * np.arange(n_segments)
    base = rng.uniform(-spread, spread, (n, n_segments)) * 2**BITS
    step = rng.uniform(-0.2, 0.2, (n, n_segments)) * 2 ** (BITS - 4)
    bands = CoherentBands(jnp.asarray(values), layout, PADDING, piece)
    return bands, Lookup(rows.astype(np.int32), base.astype(np.int64), step.astype(np.int32))


def groups_of(bands, lookup, size=32):
    counted = bands.counted_bins(lookup, len(lookup.rows), 3)
    return grouped(jnp.asarray(lookup.rows), bands.shifts(lookup), counted, size)


def numbers(values, starts, width):
    """What the kernel of shared sums makes of all its rows."""
    place = starts[..., None] + jnp.arange(width, dtype=jnp.int64)
    parts = jnp.where(starts[..., None] < 0, 0, values.reshape(-1)[jnp.clip(place, 0, values.size - 1)])
    total = parts[..., 0, :]
    for i in range(1, TOGETHER):
        total = jnp.where(starts[..., i, None] < 0, total, total + parts[..., i, :])
    return total


def emulated(program, results, aliases=None):
    """A kernel's results by JAX, in place of `launch.call`."""

    def shared(values, starts, counts, given):
        made = numbers(values, starts, results.shape[-1])
        there = jnp.arange(results.shape[1], dtype=jnp.int32) < counts[:, None]
        return jnp.where(there[..., None], made, jnp.nan)  # what is not computed is not to be read

    def ranked(index, shift):
        size = index.shape[-1]
        ordered = jnp.sort(index, axis=-1)
        new = jnp.concatenate([jnp.ones_like(ordered[..., :1], bool), ordered[..., 1:] != ordered[..., :-1]], axis=-1)
        # those that are there again stand at the end, as what no template reads
        lists = jnp.sort(jnp.where(new, ordered, jnp.iinfo(jnp.int32).max), axis=-1)
        rank = jnp.sum(lists[..., None, :] < index[..., None], axis=-1, dtype=jnp.int32)
        count = jnp.sum(new, axis=-1, dtype=jnp.int32)
        lists = jnp.where(jnp.arange(size, dtype=jnp.int32) < count[..., None], lists, jnp.iinfo(jnp.int32).max)
        return lists, count, (rank * program["WIDTH"] + shift).astype(jnp.uint16)

    def staged(values, lists, count, place, counted, given, scales, histogram):
        n_pieces, n_groups, _ = results[0].shape
        room, width = values.shape[1:]
        staged_width = program["RUN"] + program["STEP"]
        rank, shift = place.astype(jnp.int32) // staged_width, place.astype(jnp.int32) % staged_width
        piece = jnp.arange(n_pieces, dtype=jnp.int64)[:, None, None, None]
        index = jnp.take_along_axis(lists, rank, axis=-1).astype(jnp.int64)
        offsets = (piece * room + index) * width + shift.astype(jnp.int64)  # (C, G, T, size)
        size = program["TEMPLATES"]
        offsets = offsets.reshape(*offsets.shape[:3], -1, size).swapaxes(2, 3)
        offsets = offsets.reshape(n_pieces, n_groups, *offsets.shape[3:])
        return added(values, offsets, counted.reshape(n_groups, size, 2), 1, scales, histogram)

    def summed(values, offsets, counted, given, scales, histogram):
        return added(values, offsets, counted, program["TOGETHER"], scales, histogram)

    def added(values, offsets, counted, together, scales, histogram):
        n_pieces, _, length = results[0].shape
        n_sums = offsets.shape[2]
        place = offsets[..., None] + jnp.arange(length, dtype=jnp.int64)
        parts = values.reshape(-1)[place]  # (C, G, K, size, piece)
        total = None
        for i in range(0, n_sums, together):
            own = parts[:, :, i]
            for j in range(i + 1, min(i + together, n_sums)):
                own = own + parts[:, :, j]
            total = own if total is None else total + own
        means = total * scales[0]
        number = (jnp.arange(n_pieces * length, dtype=jnp.int32)).reshape(n_pieces, 1, 1, length)
        real = (number >= counted[..., :1]) & (number <= counted[..., 1:]) & (means > -jnp.inf)
        bins = jnp.clip((4 + (means - 4) * scales[1]) * np.float32(1 / WIDTH), 0, BINS - 1).astype(jnp.int32)
        histogram = histogram.at[0, jnp.where(real, bins, BINS)].add(1, mode="drop")
        return jnp.max(jnp.where(real, means, -jnp.inf), axis=2), histogram

    return {"shared_sums": shared, "ranks": ranked, "staged": staged, "sums": summed}[program.name]


@pytest.mark.ci
@pytest.mark.parametrize(
    ("n", "n_segments", "spread", "memory"),
    [
        (256, 6, 2, 1 << 30),
        (300, 7, 3, 1 << 30),
        (640, 11, 1, 6_300_000),
        (256, 4, 200, 1 << 30),
        (64, 6, 2, 1 << 30),
        (33, 5, 1, 1 << 30),
    ],
)
def test_kernels_of_shared_sums_find_what_the_library_does(layout, monkeypatch, n, n_segments, spread, memory):
    """The same bits, whether templates share many sums, or there is no room for the sums they would share."""
    monkeypatch.setattr(launch, "call", emulated)
    monkeypatch.setattr("jfstat.engines.shared.MOST_BYTES", memory)
    monkeypatch.setattr("jfstat.engines.shared.ROOM", 1)
    bands, lookup = drawn(layout, n, n_segments, spread)
    groups = groups_of(bands, lookup, 32 if n > 33 else 17)
    found, expected = (jax.jit(own.sums)(bands, groups) for own in (sums.CudaSums(), XlaSums()))
    for name in ("tops", "peaks", "histogram"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    assert int(jnp.sum(found.histogram)) > 0.5 * n * layout.n_frequencies * (1 - spread / 300)


def test_templates_share_sums_of_equal_rows_and_shifts(layout):
    """There are as many sums as different ones, and not more than there is room for unless that is said."""
    bands, lookup = drawn(layout, 256, 6, 1.0)
    groups = groups_of(bands, lookup)
    shared = jax.jit(shared_sums)(bands, groups)
    shifts = np.asarray(groups.shifts).reshape(256, 2, TOGETHER, bands.n_pieces)
    rows = lookup.rows.reshape(256, 2, TOGETHER)
    for c in range(bands.n_pieces):
        own = shifts[..., c]
        keys = np.concatenate([rows, own - own[..., :1], own[..., :1] // STEP], axis=2)
        assert shared.count[c] == sum(len(np.unique(keys[:, t], axis=0)) for t in range(2))
    room = shared.starts.shape[1]
    assert not shared.complete and np.all(np.asarray(shared.count) > room)
    same = Lookup(*(np.tile(x[:16], (16, 1)) for x in lookup))
    shared = jax.jit(shared_sums)(bands, groups_of(bands, same))
    assert shared.complete and np.all(np.asarray(shared.count) <= 32)


def test_keys_that_64_bits_do_not_hold_are_told(layout):
    """Shifts over millions of bins: the sums are then made without sharing."""
    bands, lookup = drawn(layout, 64, 6, 1.0)
    groups = groups_of(bands, lookup)
    wide = groups._replace(shifts=groups.shifts * jnp.int32(1 << 20), rows=groups.rows * jnp.int32(1 << 20))
    assert not jax.jit(shared_sums)(bands, wide).complete
