"""The interpolating search over segments: its sums, its losses, and tables that do not depend on the division."""

import os
import socket
import subprocess
import sys
from dataclasses import replace
from functools import partial
from itertools import pairwise

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from searches import search, task_of

import jfstat
from jfstat.banks import nearest
from jfstat.banks.coherent import IsolatedGroup
from jfstat.data.bandseries import Layout
from jfstat.engines import coherentbands, cpusums, xlasums
from jfstat.engines.coherentbands import BITS, HALF_PIECE, CoherentBands, Lookup
from jfstat.engines.reduction import BINS, WIDTH
from jfstat.searching.driver import devices, interpolation
from jfstat.searching.driver.interpolation import group_of
from jfstat.searching.driver.nearest import located
from jfstat.searching.reduce.toplist import Toplist

START = 1_167_458_304
DAY = 86400
SIGNAL = (jfstat.Doppler(1.05, 0.35, [100.02, -4e-10], START), jfstat.Amplitude(1.5e-25, 0.3, 0.2, 1.0))


@pytest.fixture(scope="module")
def segments():
    times = cases.random_timestamps(np.random.default_rng(4), ("H1", "L1"), START, 3, 0.9)
    sfts = jfstat.simulate_sfts(list(times), timestamps=times, fmin=98.9, fmax=101.1, signals=[SIGNAL], seed=1)
    edges = [(START + i * DAY / 2, START + (i + 1) * DAY / 2) for i in range(6)]
    spins = [(-5e-9, 3e-9)]  # of the segments' own lattices, which reach beyond the bank
    return jfstat.prepare(sfts, 100.0, 100.03, START, sqrt_sx=4e-24, segments=edges, guard=0.5, fdots=spins)


@pytest.fixture(scope="module")
def bank(segments):
    return jfstat.template_bank(alpha=(0.9, 1.2), delta=(0.2, 0.5), f1dot=(-2e-9, 0), mismatch=0.3, data=segments)


@pytest.fixture(scope="module")
def found(segments, bank):
    return jfstat.search(segments, bank, jfstat.Interpolated(0.2), top=30, progress=False)


def isolated(alpha, delta, spins):
    """Return a group of templates at a frequency that does not matter."""
    fkdot = np.column_stack([np.full(len(alpha), 100.0), spins])
    return IsolatedGroup(jax.tree.map(np.asarray, jfstat.Doppler(alpha, delta, fkdot)))


def rows_of(points):
    """Return the templates of a stack."""
    points = jax.tree.map(np.asarray, points)
    return [jax.tree.map(lambda x, i=i: x[i], points) for i in range(len(points.alpha))]


def sums_by_hand(segments, bank, mismatch):
    """Means of 2F at the nearest templates of every segment, at the nearest frequency; -inf beyond the band."""
    f, dfreq, group = segments.frequencies, segments.dfreq, group_of(bank, 0, len(bank.alpha))
    total = np.zeros((len(group), len(f)))
    for i in range(segments.n_segments):
        near, own = group.nearest(segments.observation.segment(i), bank.reftime.common, f[-1], mismatch), segments[i]
        # one by one: a program for all of them would be another in each segment, which have other numbers of templates
        bands = [np.asarray(jfstat.twoF_band(own, point)) for point in rows_of(near.templates)]
        for j, row in enumerate(near.index):
            bins = np.arange(len(f)) + np.rint((near.shift[0, j] + near.shift[1, j] * f / f[-1]) / dfreq).astype(int)
            inside = (bins >= 0) & (bins < len(f))
            total[j] += np.where(inside, bands[row][np.clip(bins, 0, len(f) - 1)], -np.inf)
    return total / segments.n_segments


@pytest.mark.ci
def test_sums_are_those_by_hand(segments, bank, found):
    means = sums_by_hand(segments, bank, 0.2)
    counted = means > -np.inf
    fmax, reftime = segments.frequencies[-1], bank.reftime.common
    group = group_of(bank, 0, len(bank.alpha))
    coherent = [group.nearest(own, reftime, fmax, 0.2).templates for own in segments.observation.segments]
    assert found.meta["n_coherent"] == sum(len(x.alpha) for x in coherent) * len(segments.frequencies)
    assert found.meta["n_twoF"] == pytest.approx(np.sum(counted), rel=2e-4)  # shifts are rounded by pieces
    loud = np.sort(means[counted])[::-1][:30]
    # pieces of the band and single bins may round to other bins
    assert np.mean(np.abs(np.sort(found["mean_twoF_interpolated"])[::-1] - loud) < 1e-3) > 0.8
    edges = np.append(found.meta["twoF_edges"], np.inf)
    edges[0] = -100
    counts = np.histogram(means[counted], edges)[0]
    assert np.sum(np.abs(counts - found.meta["twoF_histogram"])) < 0.02 * np.sum(counts)


@pytest.mark.ci
def test_candidates_are_computed_exactly(segments, bank, found):
    every = jfstat.search(segments, bank, top=30, progress=False)
    assert found["template"][0] in every["template"][:5]
    assert np.all(np.diff(found["mean_twoF"]) <= 0)
    assert found.meta["coherent_mismatch"] == 0.2
    for i in (0, 11):
        row = [float(found[name][i].value) for name in ("alpha", "delta", "freq", "f1dot")]
        point = jfstat.Doppler(row[0], row[1], row[2:], START)
        exact = jfstat.semicoherent_fstat(segments, point)
        assert float(found["mean_twoF"][i]) == pytest.approx(float(exact.mean_twoF), rel=3e-7)
        assert float(found["log10BSGL"][i]) == pytest.approx(float(exact.log10BSGL()), rel=3e-7)
        assert np.asarray(bank.alpha)[found["template"][i]] == row[0]
    bare = jfstat.search(
        segments, bank, jfstat.Interpolated(0.2), top=3, progress=False, details=jfstat.Details(per_detector=False)
    )
    assert "mean_twoF" in bare.colnames and "log10BSGL" not in bare.colnames


def assert_same(one, other):
    assert one.colnames == other.colnames
    for name in one.colnames:
        np.testing.assert_array_equal(np.asarray(one[name]), np.asarray(other[name]), err_msg=name)
    for key in ("n_twoF", "twoF_histogram", "loudest_per_subband", "false_alarm", "reftime", "coherent_mismatch"):
        assert one.meta[key] == other.meta[key], key


@pytest.mark.ci
def test_tables_do_not_depend_on_the_division(segments, bank, monkeypatch, tmp_path):
    """Memory for a few segments' templates only, so that the bank is searched in many parts."""
    monkeypatch.setattr(interpolation, "CPU_BYTES", 30 * 6 * 4 * segments.layout.n_frequencies)
    options = dict(top=30, progress=False, statistic=jfstat.Interpolated(0.2), batch_size=32)
    work = task_of(segments, bank, jfstat.Interpolated(0.2), Toplist(1, None))
    parts = interpolation.bank_parts(work, 0.2, interpolation.CPU_BYTES)
    assert len(parts) > 2 and parts[0][0] == 0 and parts[-1][1] == len(bank.alpha)
    assert all(a[1] == b[0] for a, b in pairwise(parts))
    whole = search(segments, bank, **options)
    units = [search(segments, bank, **options, unit=(i, 3)) for i in (1, 2, 3)]
    assert_same(jfstat.merge(units), whole)
    mesh = jax.make_mesh((len(jax.devices()),), ("x",))
    assert_same(search(segments, bank, **options, mesh=mesh), whole)
    path = tmp_path / "checkpoint"
    assert_same(search(segments, bank, **options, checkpoint=path), whole)
    monkeypatch.setattr(interpolation, "CPU_BYTES", 10**9)  # the plan is that of the checkpoint
    assert_same(search(segments, bank, **options, checkpoint=path), whole)
    with pytest.raises(ValueError, match="what differs is statistic"):
        search(segments, bank, **(options | {"statistic": jfstat.Interpolated(0.1)}), checkpoint=path)


@pytest.mark.ci
def test_on_other_devices_sums_are_the_same(segments, bank):
    """The program for GPUs, run on the CPU."""
    work = task_of(segments, bank, jfstat.Interpolated(0.2), Toplist(1, None))
    part = interpolation.bank_part(work, 0.2, 0, 48)
    lookup = jax.tree.map(jnp.asarray, part.lookup)
    bins = part.bands.counted_bins(lookup, 40, 0)
    groups = coherentbands.grouped(
        lookup.rows, part.bands.shifts(lookup), bins, coherentbands.GROUP
    )  # the last is half
    one = jax.jit(cpusums.sums_in_pieces)(part.bands, groups)
    other = jax.jit(xlasums._batches)(part.bands, groups)
    np.testing.assert_allclose(one[0], other[0], rtol=1e-6)
    np.testing.assert_allclose(one[1].reshape(-1), other[1].reshape(-1), rtol=1e-6)
    assert np.sum(np.abs(np.asarray(one[2]) - np.asarray(other[2]))) <= 4


@pytest.mark.parametrize("scale", [0.3, 1.0, 6.0])
@pytest.mark.parametrize(("n", "size"), [(5, 5), (40, 20), (96, 32)])
def test_all_means_are_counted_in_their_bins(scale, n, size):
    """However loud, and however many templates a group has: as by NumPy, with bins that do not count left out."""
    rng = np.random.default_rng(n)
    layout, padding, piece = replace(Layout(*[0] * 10), n_frequencies=300), 64, 128
    values = (scale * rng.chisquare(4, (30, 384 + 2 * padding))).astype(np.float32)
    values[:, :padding] = values[:, padding + 300 :] = -np.inf
    bands = CoherentBands(jnp.asarray(values), layout, padding, piece)
    rows, shifts = rng.integers(0, 30, (n, 3)), rng.integers(-20, 20, (n, 3))
    groups = coherentbands.grouped(
        jnp.asarray(rows, jnp.int32),
        jnp.tile(jnp.asarray(shifts, jnp.int32)[..., None], 3),
        jnp.stack([jnp.full(n, 7, jnp.int32), jnp.full(n, 280, jnp.int32)]),
        size,
    )
    found = jax.jit(cpusums.sums_in_pieces)(bands, groups)
    column = padding + np.arange(300) + shifts[..., None]
    total = values[rows[..., None], column].astype(np.float32)
    means = (total[:, 0] + total[:, 1] + total[:, 2]) * np.float32(1 / 3)
    own = means[:, 7:281]
    spread = 4 + (own[own > -np.inf] - 4) * np.sqrt(3)
    expected = np.bincount(np.clip(spread / WIDTH, 0, BINS - 1).astype(int), minlength=BINS)
    assert np.sum(np.abs(np.asarray(found.histogram) - expected)) <= 2  # at the edges of bins
    assert int(np.sum(found.histogram)) == np.sum(own > -np.inf)
    np.testing.assert_allclose(np.asarray(found.peaks).reshape(-1)[7:281], own.max(axis=0), rtol=1e-6)


@pytest.mark.parametrize(
    ("centre", "size", "f", "f1dot", "days"),
    [((2.0, -0.6), 0.5, 50.0, 1e-9, 1.0), ((5.0, 1.2), 0.04, 400.0, 1e-10, 3.0), ((0.3, 0.1), 0.0, 1500.0, 1e-9, 2.0)],
)
def test_nearest_templates_lose_no_more_than_asked(centre, size, f, f1dot, days):
    """Of any templates, not only of a lattice, far from the reference time."""
    rng = np.random.default_rng(8)
    segment = jfstat.observation(["H1", "L1"], START, days * DAY, sqrt_sx=1e-23, reftime=START)
    reftime = jfstat.Doppler(0, 0, [1.0], START - 30 * DAY).reftime.common
    n = 50
    alpha, delta = centre[0] + size * rng.uniform(-1, 1, n), centre[1] + 0.5 * size * rng.uniform(-1, 1, n)
    spins = rng.uniform(-f1dot, 0, (n, 1))
    near = isolated(alpha, delta, spins).nearest(segment, reftime, f, 0.2)
    own = near.templates
    assert len(own.alpha) <= n and len(np.unique(near.index)) == len(own.alpha)

    @jax.jit
    @jax.vmap
    def loss(signal, template):
        here, there = (jfstat.Doppler(x[0], x[1], x[2:], reftime) for x in (signal, template))
        return jfstat.mismatch(segment, here, there)

    i = near.index
    here = np.column_stack([alpha, delta, np.full(n, f), spins])
    there = np.column_stack([own.alpha[i], own.delta[i], f + near.shift.sum(axis=0), own.fkdot[i, 1:]])
    lost = np.asarray(loss(here, there))
    assert np.max(lost) < 0.2 and np.mean(lost) > 0.02


def test_bad_arguments_are_refused(segments, bank):
    with pytest.raises(ValueError, match="between 0 and 1, not 2"):
        jfstat.search(segments, bank, jfstat.Interpolated(2))
    with pytest.raises(ValueError, match="Interpolated is for data with segments"):
        jfstat.search(segments[0], bank, jfstat.Interpolated(0.1))
    moving = jfstat.Doppler([1.0], [0.3], [[100.0, 0.0]], START, motion=[[1e-15, 0.0]])
    with pytest.raises(ValueError, match="Interpolated is for sources at rest"):
        jfstat.search(segments, moving, jfstat.Interpolated(0.1))


def test_shifts_are_those_of_floats():
    """Whole numbers stand for them: a bin off in a few cases where the float is half a bin."""
    rng = np.random.default_rng(3)
    layout = Layout(*[0] * 10)
    for n, piece in ((173, 64), (10**6, 32768)):
        base, per_bin = rng.uniform(-1e4, 1e4, (40, 5)), rng.uniform(-1e-5, 1e-5, (40, 5))
        lookup = Lookup.empty(40, 5)
        lookup.base[:], lookup.step[:] = np.rint(base * 2**BITS), np.rint(per_bin * HALF_PIECE * 2**BITS)
        bands = CoherentBands(jnp.zeros(0), replace(layout, n_frequencies=n), 0, piece)
        found = np.asarray(bands.shifts(jax.tree.map(jnp.asarray, lookup)))
        exact = base[..., None] + per_bin[..., None] * (np.arange(bands.n_pieces) + 0.5) * piece
        assert found.shape == exact.shape
        assert np.max(np.abs(found - exact)) < 0.501


def test_distinct_points_by_a_table_and_by_sorting():
    rng = np.random.default_rng(4)
    for spread in (2, 1000, 2**31 - 1):
        integers = rng.integers(-spread, spread, (3, 500)).astype(np.int32)
        integers[:, 250:] = integers[:, :250]
        points, index = nearest._distinct(integers)
        expected, inverse = np.unique(integers, axis=1, return_inverse=True)
        np.testing.assert_array_equal(points, expected.T)
        np.testing.assert_array_equal(index, inverse.reshape(-1))


def on_accelerator(monkeypatch):
    """From here on nearest points are computed as on a GPU."""
    monkeypatch.setattr(IsolatedGroup, "on_cpu", False)


@pytest.mark.parametrize(("size", "f1dot"), [(0.2, 1e-9), (0.0, 1e-9), (0.0, 0.0)])
def test_nearest_points_on_a_device_are_those_on_the_host(monkeypatch, size, f1dot):
    """Of several positions or one, or of one template alone; a device's arrays are filled up."""
    rng = np.random.default_rng(7)
    segment = jfstat.observation(["H1"], START, DAY, sqrt_sx=1e-23, reftime=START)
    reftime = jfstat.Doppler(0, 0, [1.0], START).reftime.common
    n = 3000
    alpha, delta = 1 + size * rng.uniform(size=n), 0.3 + size * rng.uniform(size=n)
    some = alpha, delta, rng.uniform(-f1dot, 0, (n, 1))
    host = isolated(*some).nearest(segment, reftime, 100.0, 0.2)
    on_accelerator(monkeypatch)
    device = isolated(*some).nearest(segment, reftime, 100.0, 0.2)
    assert isinstance(device.shift, jax.Array) and isinstance(host.shift, np.ndarray)
    jax.tree.map(np.testing.assert_array_equal, host.templates, device.templates)
    np.testing.assert_array_equal(host.index, device.index[:n])
    np.testing.assert_allclose(host.shift, device.shift[:, :n], rtol=1e-12, atol=1e-15)
    assert np.all(device.index[n:] == device.index[n - 1])


def test_points_too_many_to_number_are_found_on_the_host():
    integers = np.random.default_rng(8).integers(-(2**31), 2**31 - 1, (3, 400)).astype(np.int32)
    for own in (integers, integers[:, :1], integers % 7):
        points, index = nearest._distinct_on_device(jnp.asarray(own))
        expected, places = nearest._distinct(own)
        np.testing.assert_array_equal(points, expected)
        np.testing.assert_array_equal(index, places)


@pytest.mark.ci
@pytest.mark.parametrize("batch_size", [3, 40])
def test_of_equal_values_those_of_the_first_templates_are_kept(segments, bank, found, batch_size):
    """Templates that are there several times have equal values: whatever the division, the same are in the table."""
    rows = np.repeat(np.arange(len(bank.alpha)), 5)
    again = jax.tree.map(lambda x: np.asarray(x)[rows], bank)
    options = dict(top=17, statistic=jfstat.Interpolated(0.2), progress=False)
    one, other = (search(segments, again, **options, batch_size=size) for size in (None, batch_size))
    assert_same(one, other)
    values = np.asarray(one["mean_twoF_interpolated"])
    # the last values are those of the first of five equal templates
    last = np.asarray(one["template"])[values == values.min()]
    assert np.array_equal(np.sort(last) % 5, np.arange(len(last)) % 5)


@pytest.mark.ci
def test_search_with_nearest_points_on_a_device(segments, bank, found, monkeypatch):
    """The table is the same, divided into several parts and batches too."""
    on_accelerator(monkeypatch)
    options = dict(top=30, statistic=jfstat.Interpolated(0.2), progress=False)
    assert_same(search(segments, bank, **options, batch_size=7), found)


def test_many_templates_are_looked_up_in_pieces(monkeypatch):
    rng = np.random.default_rng(5)
    segment = jfstat.observation(["H1"], START, DAY, sqrt_sx=1e-23, reftime=START)
    reftime = jfstat.Doppler(0, 0, [1.0], START).reftime.common
    n = 300
    some = rng.uniform(1.0, 1.2, n), rng.uniform(0.2, 0.4, n), rng.uniform(-1e-9, 0, (n, 1))
    whole = isolated(*some).nearest(segment, reftime, 100.0, 0.2)
    monkeypatch.setattr(nearest, "PIECE", 64)
    monkeypatch.setattr(nearest, "LEAST_PIECE", 64)
    group = isolated(*some)
    assert [x.shape for x in group.pieces] == [(4, 64)] * 5
    divided = group.nearest(segment, reftime, 100.0, 0.2)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-18), whole, divided)


def test_wide_banks_are_divided_where_the_sky_jumps(segments):
    """Two places on the sky, of which the second has fewer templates: a part is never of both."""
    rng = np.random.default_rng(6)
    alpha = np.append(rng.uniform(0.5, 0.6, 26), rng.uniform(3.0, 3.1, 14))
    fkdot = np.column_stack([np.full(40, 100.0), np.zeros(40)])
    points = jfstat.Doppler(alpha, np.full(40, 0.3), fkdot, START)
    work = task_of(segments, points, jfstat.Interpolated(0.2), Toplist(1, None))
    parts = interpolation.bank_parts(work, 0.2, 10**9)
    assert [(part.start, part.stop) for part in parts] == [(0, 26), (26, 40)]


def test_values_fit_into_the_room_that_was_planned(segments, bank):
    work = task_of(segments, bank, jfstat.Interpolated(0.2), Toplist(1, None))
    for room in (3 * 10**6, 10**7):
        parts = interpolation.bank_parts(work, 0.2, room)
        largest = max(parts, key=lambda part: sum(part.n_coherent))
        assert interpolation.bank_part(work, 0.2, largest.start, largest.stop).bands.values.nbytes <= room


@pytest.mark.ci
def test_points_that_the_plan_looked_up_are_used_once(segments, bank, monkeypatch):
    """The sums take what the plan has kept, and look up the rest again."""
    options = dict(top=30, progress=False, statistic=jfstat.Interpolated(0.2), batch_size=32)
    looked_up = []

    def counted(data, group, *rest):
        looked_up.append(len(group))
        return located(data, group, *rest)

    monkeypatch.setattr(interpolation, "located", counted)
    n = len(bank.alpha)
    search(segments, bank, **options)
    assert sum(looked_up) == n > 64
    looked_up.clear()
    monkeypatch.setattr(interpolation, "LOOKUP_BYTES", 64 * interpolation.PAIR_BYTES * segments.n_segments)
    search(segments, bank, **options)  # in parts of 64 templates, of which the first is kept
    assert sum(looked_up) == 2 * n - 64


def test_a_backend_that_cannot_be_used_is_refused_before_anything_else(segments, bank, tmp_path):
    path = tmp_path / "checkpoint"
    with pytest.raises(ValueError, match="'cuda' cannot sum on cpu: it needs an NVIDIA GPU"):
        jfstat.search(
            segments, bank, jfstat.Interpolated(0.2), checkpoint=path, progress=False, run=jfstat.Run(engine="cuda")
        )
    assert not path.exists()
    work = task_of(segments, bank, jfstat.Interpolated(0.2), Toplist(1, None))
    plan = interpolation.interpolation_division(work, 0.2, None, None)._replace(engine="cuda")  # of another checkpoint
    with pytest.raises(ValueError, match="'cuda' cannot sum on cpu"):
        work.statistic._part(work, plan, 0, 8, None)


def test_batches_of_a_part_can_be_joined_before_anything_else(segments, bank):
    """As several processes do, which found the loudest value at each frequency only: template numbers overflowed."""
    keep = Toplist(200, None)
    work = task_of(segments, jax.tree.map(lambda x: x[:8], bank), jfstat.Interpolated(0.2), keep)
    plan = interpolation.interpolation_division(work, 0.2, None, 4)
    part = work.statistic._part(work, plan, 0, 8, None)
    states = [state for state, _ in devices.run(devices.made_ready(part, plan.batches), plan.batches, lambda: 0)]
    assert len(states) == 2
    every = np.sort(np.concatenate([state.peaks.twoF for state in states]))[::-1]
    joined = states[0].joined(states[1], keep).peaks
    np.testing.assert_array_equal(joined.twoF, every[:200])
    assert joined.template.dtype == np.int64 and set(joined.template) == set(range(8))


SCRIPT = """
import sys
import jax
jax.config.update("jax_enable_x64", True)
out, pattern, address, number = sys.argv[1:5]
if address:
    jax.distributed.initialize(address, 2, int(number))
import numpy as np
import jfstat
from jax.sharding import Mesh
from jfstat.searching.driver import interpolation
from jfstat.searching.bank import stacked_bank
from jfstat.searching.reduce.toplist import Toplist
START = 1167458304
edges = [(START + 21600 * i, START + 21600 * (i + 1)) for i in range(4)]
data = jfstat.prepare(jfstat.read_sfts(pattern), 50.0, 50.02, START, 4e-24, segments=edges, guard=0.4)
bank = jfstat.template_bank(alpha=(0.9, 1.3), delta=(0.1, 0.4), f1dot=(-1e-8, 0), mismatch=0.3, data=data)
mesh = Mesh(np.array(jax.devices()), ("x",)) if address else None
interpolation.CPU_BYTES = 10**5 if number == "1" else 10**9  # memories differ, the plan must not
work = task_of(data, bank, jfstat.Interpolated(0.2), Toplist(1, None))
assert (len(interpolation.bank_parts(work, 0.2, interpolation.CPU_BYTES)) > 1) == (number == "1")
run = jfstat.Run(mesh=mesh, batch_size=2)
found = jfstat.search(data, bank, jfstat.Interpolated(0.2), top=20, progress=False, run=run)
jfstat.write_candidates(found, out)
"""


@pytest.mark.slow
def test_processes_of_different_memories_agree(tmp_path):
    sfts = jfstat.simulate_sfts(["H1"], START, 86400, 49.4, 50.6, 1800, 4e-24, seed=2)
    pattern = ";".join(map(str, jfstat.write_sfts(sfts, tmp_path)))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_COMPILATION_CACHE": "false", "NPROC": "2"}
    jobs = [("plain", "", "1"), ("first", address, "0"), ("second", address, "1")]  # in parts as for the least memory
    running = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(tmp_path / f"{name}.ecsv"), pattern, *given],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, *given in jobs
    ]
    for process in running:
        _, error = process.communicate(timeout=500)
        assert process.returncode == 0, error
    tables = [jfstat.read_candidates(tmp_path / f"{name}.ecsv") for name, *_ in jobs]
    for table in tables[1:]:
        assert_same(table, tables[0])
    assert (tmp_path / "first.ecsv").read_text() == (tmp_path / "second.ecsv").read_text()
