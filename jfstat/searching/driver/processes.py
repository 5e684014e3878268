"""Compute the batches of a part on a mesh that spans the devices of several processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import reduce
from threading import Thread
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jfstat.compileroptions import LONG_VECTORS, jit_with
from jfstat.data.fstatdata import FstatData
from jfstat.data.workers import ensure_started
from jfstat.engines.coherentbands import CoherentBands, Lookup
from jfstat.engines.engine import Loudest, Reduction
from jfstat.lines.doppler import LineBands
from jfstat.searching.driver.part import Part, Step
from jfstat.searching.reduce.loudest import loudest_within
from jfstat.signal.templates import Doppler

STEPS_UNDER_WAY = 2
"""Number of steps under way on a mesh, so that devices work while the host processes results."""


def made_ready(part: Part, mesh: Mesh, later: Thread | None = None) -> Part:
    """Return one part for all devices of a mesh; its programs are compiled by the first of the batches."""
    reduction: Any = part.reduction
    part = part._replace(data=_replicated(reduction.ready(part.data), mesh))
    ensure_started(later)
    return part


def run(part: Part, batches: np.ndarray, mesh: Mesh, stop: Callable[[], int]) -> Iterator[Step]:
    """Compute batches in order, one on each device at each step, and yield what was found; devices wait for each other.

    Results are gathered on all devices, so that every process has all of them.
    """
    n = mesh.devices.size
    split = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
    bands = _replicated(part.toplist.bands, mesh)

    def begin(jobs: np.ndarray, keep: int) -> tuple[Loudest, jax.Array]:
        padded = np.concatenate([jobs, np.tile(jobs[-1:] * [1, 0], (n - len(jobs), 1))])
        points = [part.points(int(start), int(n_valid)) for start, n_valid in padded]
        points = jax.tree.map(lambda *x: _divided(np.concatenate(x), split), *points)
        n_valid = _divided(padded[:, 1].astype(np.int32), split)
        asked = _divided(np.full(n, stop(), np.int32), split)
        first = np.int32(part.first_new - part.first)
        return _step(
            part.data, points, n_valid, asked, first, bands, mesh, keep, part.reduction, part.division.same_source
        )

    def finish(jobs: np.ndarray, result: tuple[Loudest, jax.Array]) -> Step:
        found, asked = jax.tree.map(np.asarray, result)
        keep = part.first_asked()
        while any(part.toplist.overflows(twoF, keep, part.n_values) for twoF in found.twoF):
            keep = min(4 * keep, part.n_values)
            found = jax.tree.map(np.asarray, begin(jobs, keep)[0])
        states = [part.state(int(start), jax.tree.map(lambda x, i=i: x[i], found)) for i, (start, _) in enumerate(jobs)]
        return reduce(lambda first, second: first.joined(second, part.toplist), states), int(asked)

    waiting: deque[tuple[np.ndarray, tuple[Loudest, jax.Array]]] = deque()
    for place in range(0, len(batches), n):
        jobs = batches[place : place + n]
        waiting.append((jobs, begin(jobs, part.first_asked())))
        if len(waiting) >= STEPS_UNDER_WAY:
            yield finish(*waiting.popleft())
    while waiting:
        yield finish(*waiting.popleft())


@jit_with(LONG_VECTORS, static_argnames=("mesh", "keep", "reduction", "same_source"))
def _step(
    data: FstatData | CoherentBands,
    points: Doppler | Lookup,
    n_valid: jax.Array,
    stop: jax.Array,
    first_bin: jax.Array,
    bands: LineBands | None,
    mesh: Mesh,
    keep: int,
    reduction: Reduction,
    same_source: bool,
) -> tuple[Loudest, jax.Array]:
    """Compute a batch on each device.

    Return what each device found, with devices as the leading axis, and the largest stop request, on all devices.
    """
    axes = mesh.axis_names

    def batch(
        data: FstatData | CoherentBands,
        points: Doppler | Lookup,
        n_valid: jax.Array,
        stop: jax.Array,
        first_bin: jax.Array,
        bands: LineBands | None,
    ) -> tuple[Loudest, jax.Array]:
        found = loudest_within(data, points, n_valid[0], keep, reduction, same_source, first_bin, bands)
        return jax.tree.map(lambda x: jax.lax.all_gather(x, axes), found), jax.lax.pmax(stop[0], axes)

    one, each = PartitionSpec(), PartitionSpec(axes)
    # gathered values are equal on all devices, which JAX's check of replication does not see
    mapped = jax.shard_map(
        batch, mesh=mesh, in_specs=(one, each, each, each, one, one), out_specs=(one, one), check_vma=False
    )
    return mapped(data, points, n_valid, stop, first_bin, bands)


def _replicated(tree: Any, mesh: Mesh) -> Any:
    """Return arrays of every process replicated on all devices of a mesh, copied from device to device."""
    sharding = NamedSharding(mesh, PartitionSpec())

    def everywhere(x: Any) -> jax.Array:
        own = [jax.device_put(x, device) for device in sharding.addressable_devices]
        return jax.make_array_from_single_device_arrays(np.shape(x), sharding, own)

    return jax.tree.map(everywhere, tree)


def _divided(x: np.ndarray, sharding: NamedSharding) -> jax.Array:
    """Return an array, of which every process has all values, divided among the devices of a mesh."""
    return jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])
