"""Searches on three devices of this process, a program of test_devices.py: XLA must be told of them before it starts.

XLA_FLAGS=--xla_force_host_platform_device_count=3 python several_devices.py FUNCTION
"""

import sys
import threading
import time

import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from astropy import units as u  # noqa: E402
from astropy.table import QTable  # noqa: E402
from jax.sharding import Mesh  # noqa: E402
from kernel_cases import START, bank, engines_by_name, noise  # noqa: E402
from searches import search  # noqa: E402

import jfstat  # noqa: E402
from jfstat.data.memory import device_of  # noqa: E402
from jfstat.engines.cuda.engine import Cuda  # noqa: E402
from jfstat.searching.driver import banddivision, devices  # noqa: E402
from jfstat.searching.statistics import band, interpolated  # noqa: E402

MESH = Mesh(np.array(jax.devices()), ("templates",))


class Watch:
    """Stands for `devices.loudest`, and notes on which device each batch is computed; some may take longer."""

    def __init__(self, delays=()):
        self.own, self.delays, self.used = devices.loudest, delays, []

    def __enter__(self):
        devices.loudest = self
        return self

    def __exit__(self, *_):
        devices.loudest = self.own

    def __call__(self, data, *rest):
        i = MESH.devices.tolist().index(device_of(data))
        self.used.append(i)
        if self.delays:
            time.sleep(self.delays[i])
        return self.own(data, *rest)

    def count(self):
        return [self.used.count(i) for i in range(MESH.size)]


def same(data, points, mesh=MESH, **options):
    """The same table on a mesh as on one device; counts of batches on each device."""
    options = {"top": 30, "batch_size": 2, "progress": False, **options}
    alone = search(data, points, **options)
    with Watch() as watch:
        together = search(data, points, mesh=mesh, **options)
    assert together.colnames == alone.colnames
    for name in alone.colnames:
        np.testing.assert_array_equal(np.asarray(together[name]), np.asarray(alone[name]), err_msg=name)
    assert together.meta == alone.meta
    return watch.count()


def all_of_them():
    """Batches are computed on every device, on that which is free first; on no more devices than there are batches."""
    data, points = noise(["H1", "L1"], 12, 0.05), bank(24)
    count = same(data, points)
    assert sum(count) == 12 and min(count) > 0, count
    with Watch([1.0, 0.02, 0.02]) as watch:
        search(data, points, top=30, batch_size=2, mesh=MESH, progress=False)
    count = watch.count()
    assert sum(count) == 12 and 0 < count[0] < 3 and min(count) > 0, count
    few = jax.tree.map(lambda x: x[:4], points)
    count = same(data, few)
    assert sum(count) == 2 and count[2] == 0, count
    with jax.set_mesh(MESH):
        same(data, few)


def out_of_memory():
    """Where one of the devices has no memory for the batches, all take half as many templates at a time."""
    data, points = noise(["H1"], 12, 0.05), bank(24)
    expected = jfstat.search(data, points, top=5, progress=False, run=jfstat.Run(batch_size=4))
    sizes = []

    def little(*given):
        own, stack = given[:2]
        sizes.append(len(stack.alpha))
        if device_of(own) == jax.devices()[1] and sizes[-1] > 4:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")
        return usual(*given)

    usual, devices.loudest = devices.loudest, little
    planned = band.band_division
    band.band_division = lambda *given: planned(*given)._replace(batch_size=8)
    found = jfstat.search(data, points, top=5, progress=False, run=jfstat.Run(mesh=MESH))
    assert set(sizes) == {8, 4}, sizes
    for name in found.colnames:
        np.testing.assert_array_equal(np.asarray(found[name]), np.asarray(expected[name]), err_msg=name)

    # a copy of the data that does not fit is not for smaller batches to mend
    put = jax.device_put

    def no_room(x, place=None):
        if getattr(place, "device_set", None) == {jax.devices()[1]}:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")
        return put(x, place)

    jax.device_put, sizes[:] = no_room, []
    with pytest.raises(ValueError, match=r"mesh holds .*1.*, whose free memory does not suffice for a copy"):
        jfstat.search(data, points, top=5, progress=False, run=jfstat.Run(mesh=MESH))
    assert sizes == []
    jax.device_put = put

    # an error in one batch ends the search, and all threads
    def broken(*given):
        if device_of(given[0]) == jax.devices()[1]:
            raise OSError("broken")
        return usual(*given)

    devices.loudest = broken
    with pytest.raises(OSError, match="broken"):
        jfstat.search(data, points, top=5, progress=False, run=jfstat.Run(mesh=MESH, batch_size=4))
    assert [thread.name for thread in threading.enumerate()] == ["MainThread"]


def every_kind():
    """Segments, interpolating, tracks, data elsewhere, lines, transients, kernels and a band in parts.

    On two of the devices: each compiles all programs for itself, and `all_of_them` is of three.
    """
    first = Mesh(MESH.devices[:2], ("templates",))

    def on_both(*given, **options):
        used = same(*given, mesh=first, **options)
        assert min(used[:2]) > 0 and used[2] == 0, used
        return sum(used)

    times = START + 1800 * np.arange(96)
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], fmin=98.9, fmax=101.1, timestamps=dict(H1=times, L1=times), sqrt_sx=4e-24, seed=2
    )
    segments = jfstat.prepare(sfts, 100.0, 100.02, START, sqrt_sx=4e-24, segments=4, guard=0.5, fdots=[(-1e-8, 1e-9)])
    lattice = jfstat.template_bank((0.9, 1.2), (0.2, 0.5), f1dot=(-2e-9, 0), mismatch=0.3, data=segments)
    lattice = jax.tree.map(lambda x: x[:24], lattice)
    on_both(segments, lattice)
    on_both(segments, lattice, statistic=jfstat.Interpolated(0.2))
    # where nearest points stay on the device, as on GPUs
    bank_part = interpolated.bank_part

    def on_device(*given):
        own = bank_part(*given)
        return own._replace(lookup=jax.device_put(own.lookup))

    interpolated.bank_part = on_device
    on_both(segments, lattice, statistic=jfstat.Interpolated(0.2))
    on_both(segments, lattice, statistic=jfstat.BestPath(1), top=4)
    data, points = noise(["H1", "L1"], 12, 0.05), bank(12)
    # data that are bound to another device, and lines whose bands are on the first
    lines = QTable({"detector": ["L1"], "freq": [100.02] * u.Hz, "fmin": [100.019] * u.Hz, "fmax": [100.021] * u.Hz})
    lines["name"] = ["mains"]
    bound = jax.device_put(data, jax.devices()[2])
    for elsewhere in (bound, jax.device_get(data)):
        assert on_both(elsewhere, points) == 6
    on_both(bound, points, lines=lines, veto_lines=True)
    windows = jfstat.TransientRange("rectangular", START + 3600 * np.arange(5), 7200.0 * np.arange(1, 3))
    on_both(data, points, statistic=jfstat.Transient(windows))
    engines_by_name(setattr, Cuda(emulate=True))
    on_both(data, points, engine="cuda")
    banddivision.parts_needed = lambda *_: 3
    assert on_both(data, points, engine="xla") == 18


if __name__ == "__main__":
    assert MESH.size == 3
    globals()[sys.argv[1]]()
