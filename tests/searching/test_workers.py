"""Work in other threads: results in order, on the device that the caller has set, and compiled once."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from compilations import counted_compilations

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


def test_everything_is_compiled_once_and_done_on_a_device_that_is_not_the_first():
    done = subprocess.run(
        [sys.executable, "-c", ON_THE_SECOND_DEVICE],
        env={
            **os.environ,
            "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2",
            "PYTHONPATH": os.pathsep.join(
                [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
        },
        capture_output=True,
        text=True,
        check=False,
    )
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
