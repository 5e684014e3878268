"""Work in other threads: results in order, on the device that the caller has set, and compiled once."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
from compilations import counted_compilations
from two_devices import run_on_two_devices

import jfstat
from jfstat.data.fit import check_fit
from jfstat.data.workers import in_background, in_order

START = 1_167_458_304


def test_results_come_in_order_on_the_callers_device():
    device = jax.devices()[0]

    def job(i):
        return i, jax.config.jax_default_device

    with jax.default_device(device):
        assert list(in_order(job, range(7), 3)) == [(i, device) for i in range(7)]
        assert in_background(lambda: job(7)).result(60) == (7, device)
    assert list(in_order(job, range(2), 2)) == [(0, None), (1, None)]


def test_threads_have_the_callers_settings():
    def job(_):
        return jax.config.jax_enable_x64, jax.config.jax_debug_nans, jnp.ones(()).dtype

    with jax.enable_x64(False), jax.debug_nans(True):
        within = job(0)
        assert within == (False, True, jnp.float32)
        assert list(in_order(job, range(2), 2)) == [within] * 2
        assert in_background(lambda: job(0)).result(60) == within
    assert list(in_order(job, range(2), 2)) == [job(0)] * 2 and job(0) == (True, False, jnp.float64)


IN_A_CONTEXT = """
import jax
import jfstat
with jax.enable_x64(True):
    point = jfstat.Doppler(1.0, 0.3, [50.005, -1e-10], 1167458304)
    signal = (point, jfstat.Amplitude(3e-24, 0.3))
    sfts = jfstat.simulate_sfts("H1", 1167458304, 43200, 49.0, 51.1, sqrt_sx=1e-23, seed=1, signals=[signal])
    data = jfstat.prepare(sfts, 50.0, 50.01, guard=0.5)
    bank = jfstat.template_bank(1.0, 0.3, f1dot=[-2e-10, 0.0], data=data)
    found = jfstat.search(data, bank, top=3, progress=False)
    better = jfstat.refine(data, found[:1], progress=False)
    assert better["twoF"][0] >= found["twoF"][0] > 50
    near = jfstat.narrow(data, point)
    assert abs(jfstat.twoF(near, point) / jfstat.twoF(data, point) - 1) < 1e-3
assert not jax.config.jax_enable_x64
"""
"""A program that never sets ``jax_enable_x64`` for the whole process."""


@pytest.mark.ci
def test_x64_in_a_context_alone():
    environment = {name: value for name, value in os.environ.items() if name != "JAX_ENABLE_X64"}
    done = subprocess.run([sys.executable, "-c", IN_A_CONTEXT], env=environment, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr


def test_an_error_is_raised_in_its_place():
    def job(i):
        if i == 2:
            raise RuntimeError("broken")
        return i

    results = in_order(job, range(5), 2)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(RuntimeError, match="broken"):
        next(results)
    with pytest.raises(RuntimeError, match="broken"):
        in_background(lambda: job(2)).result(60)


ON_THE_SECOND_DEVICE = """
import dataclasses
import jax
jax.config.update("jax_enable_x64", True)
import jfstat
from compilations import counted_compilations
from jfstat.data import band
from jfstat.searching.driver import memory
from jfstat.searching.statistics import band as bands
sfts = jfstat.simulate_sfts("H1", 1167458304, 43200, 49.0, 51.1, sqrt_sx=1e-23, seed=1)
device = jax.devices()[1]
with counted_compilations() as compiled, jax.default_device(device):
    data = jfstat.prepare(sfts, 50.0, 50.01, guard=0.5)
    bank = jfstat.template_bank((0.3, 0.5, 0.1), 0.4, f1dot=[0.0, -1e-9], data=data)
    found = jfstat.search(data, bank, top=3, progress=False, run=jfstat.Run(batch_size=2))
assert len(found) == 3 and data.series.devices() == {device}
print(compiled.count("jit(filtered_series)"), compiled.count("jit(loudest_within)"), compiled.count("jit(_fa_fb)"))
# searched in parts when it is no longer the default one: these are made on it too
memory.free_bytes = lambda device: 1_000_000
spectra, parts, spectrum, made = [], [], band._spectrum_on_device, bands.subband
band._fits = lambda series, room: True
band._spectrum_on_device = lambda *given: spectra.append(spectrum(*given)) or spectra[-1]
bands.subband = lambda *given: parts.append(made(*given)) or parts[-1]
for own in (data, jax.device_put(data, device)):
    parts.clear(), spectra.clear()
    again = jfstat.search(dataclasses.replace(own, filters=()), bank, top=3, progress=False)
    assert len(parts) > 1 and len(spectra) == len(parts)
    assert all(x.devices() == {device} for x in jax.tree.leaves((spectra, parts)))
    assert abs(again["twoF"] / found["twoF"] - 1).max() < 3e-4
"""


@pytest.mark.ci
def test_everything_is_compiled_once_and_done_on_a_device_that_is_not_the_first():
    done = run_on_two_devices(ON_THE_SECOND_DEVICE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "1", "1"]


def test_whether_templates_fit_is_told_by_one_program_for_all_lengths_and_detectors():
    point, outside = (jfstat.Doppler(1.0, 0.3, [f, -1e-10], START) for f in (50.005, 70.0))
    after_each = []
    with counted_compilations() as compiled:
        for detectors, hours in ((["H1"], 12), (["H1"], 30), (["H1", "L1"], 18)):
            sfts = jfstat.simulate_sfts(detectors, START, hours * 3600, 49.0, 51.1, sqrt_sx=1e-23, seed=1)
            data = jfstat.prepare(sfts, 50.0, 50.01, guard=0.5)
            data.check(point)
            check_fit(data, point, band=True)
            assert bool(data.fits(point)) and not bool(data.fits(outside))
            after_each.append(compiled.count("jit(_fit)"))
    assert after_each[0] > 0 and set(after_each) == {after_each[0]}
