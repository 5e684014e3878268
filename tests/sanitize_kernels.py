"""All kernels of small searches without XLA's GPU runtime, so that NVIDIA's compute-sanitizer sees these kernels alone.

    PYTHONPATH=. compute-sanitizer --tool memcheck python tests/sanitize_kernels.py
    PYTHONPATH=. compute-sanitizer --tool racecheck python tests/sanitize_kernels.py 0 1 9 sums

Needs a GPU, compute-sanitizer and cupy, which allocates the arrays. JAX runs on the CPU. Each case is a transform of
other factors, and `sums` are those of an interpolating search; arguments choose some. The largest values are compared
with `twoF_band`, and sums with those of the library: what ran is known to be right.
"""

import os
import sys
from types import SimpleNamespace

os.environ["JAX_PLATFORMS"] = "cpu"

import cupy  # pyright: ignore[reportMissingImports]
import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from kernel_cases import ORBIT, START, bank, noise  # noqa: E402
from searches import task_of  # noqa: E402

import jfstat  # noqa: E402
from jfstat import transforms  # noqa: E402
from jfstat.data import sizes  # noqa: E402
from jfstat.engines.cuda import kernels, launch  # noqa: E402
from jfstat.engines.cuda.cubins import cubin  # noqa: E402
from jfstat.engines.cuda.driver import Kernel  # noqa: E402
from jfstat.engines.cuda.engine import Cuda  # noqa: E402
from jfstat.engines.cuda.sums import CudaSums  # noqa: E402
from jfstat.engines.xlasums import Interpolated  # noqa: E402
from jfstat.searching.driver.interpolation import bank_part  # noqa: E402
from jfstat.searching.reduce.loudest import loudest_within  # noqa: E402
from jfstat.searching.reduce.toplist import Toplist  # noqa: E402

CASES = [
    ((64, 1, 64), ["H1"], 8, None),
    ((96, 1, 256), ["H1", "L1"], 8, ORBIT),
    ((80, 1, 400), ["H1"], 12, None),
    ((64, 1, 1728), ["H1", "L1", "V1"], 48, None),
    ((225, 1, 256), ["H1", "L1"], 24, None),
    ((72, 1, 8192), ["H1"], 120, None),
    ((64, 1, 7680), ["H1"], 120, None),
    ((144, 1, 288), ["H1", "L1"], 24, None),
    ((108, 1, 864), ["H1"], 48, None),
    ((64, 72, 256), ["H1"], 120, None),
    ((64, 150, 256), ["H1", "L1"], 200, None),
    ((64, 216, 256), ["H1"], 200, None),
    ((64, 300, 256), ["H1"], 200, None),
]
"""Factors, detectors, hours of data, orbit."""
KEEP, TEMPLATES = 200, 2
LOADED: dict[launch.Program, Kernel] = {}


def call(program, results, aliases=None):
    """What `launch.call` returns, for arrays of the host."""
    if program not in LOADED:
        code = cubin(program.source, program.constants, f"sm_{cupy.cuda.Device().compute_capability}")
        LOADED[program] = Kernel(code, program.name, program.threads, program.shared)
    several = isinstance(results, tuple)
    source = {output: argument for argument, output in (aliases or {}).items()}

    def run(*given):
        arguments = [cupy.array(np.array(x)) for x in given]
        outputs = [
            arguments[source[k]] if k in source else cupy.empty(x.shape, x.dtype)
            for k, x in enumerate(results if several else (results,))
        ]
        arrays = [SimpleNamespace(shape=x.shape, address=x.data.ptr) for x in (*arguments, *outputs)]
        LOADED[program].launch(None, program.grid(program, [x.shape for x in arrays]), [x.address for x in arrays])
        cupy.cuda.Device().synchronize()
        found = tuple(jnp.asarray(cupy.asnumpy(x)) for x in outputs)
        return found if several else found[0]

    return run


def sums_over_segments():
    """Sums for pieces of the band of all lengths, for the most templates of a group and a few, as the library's.

    The last two cases are of templates so near each other that they share sums of neighbouring segments.
    """
    cases = ((0.001, 5, 4, 0.2), (0.004, 40, 4, 0.2), (0.05, 64, 4, 0.2), (0.05, 256, 8, 1e-3), (0.2, 300, 7, 1e-3))
    for width, n, n_segments, extent in cases:
        sfts = jfstat.simulate_sfts(["H1"], START, 86400, 98.9, 101.1 + width, 1800, 4e-24, seed=n)
        edges = [(START + i * 86400 // n_segments, START + (i + 1) * 86400 // n_segments) for i in range(n_segments)]
        data = jfstat.prepare(sfts, 100.0, 100.0 + width, START, 4e-24, segments=edges, guard=0.5)
        rng = np.random.default_rng(n)
        fkdot = np.column_stack([np.full(n, 100.0), rng.uniform(-5e-8 * extent, 0, n)])
        points = jfstat.Doppler(rng.uniform(1.0, 1.0 + extent, n), rng.uniform(0.2, 0.2 + extent, n), fkdot, START)
        work = task_of(data, points, jfstat.Interpolated(0.2), Toplist(KEEP, None))
        part = bank_part(work, 0.2, 0, n)
        lookup = jax.tree.map(jnp.asarray, part.lookup)
        bins = part.bands.counted_bins(lookup, n - 1, 3)
        expected = Interpolated().reduced(part.bands, lookup, bins, KEEP)
        LOADED.clear()
        with jax.disable_jit():  # the kernels' arguments are then arrays
            found = CudaSums().reduced(part.bands, lookup, bins, KEEP)
        names = {program.name for program in LOADED}
        assert names == ({"shared_sums", "ranks", "staged"} if extent < 0.1 else {"sums"})
        for name in ("twoF", "template", "frequency", "sections"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
        assert np.sum(np.abs(np.asarray(found.histogram) - np.asarray(expected.histogram))) <= 2  # at edges of bins
        print(f"sums of {n} templates in pieces of {part.bands.piece}: equal", flush=True)


def main(chosen):
    """Run some cases and print what they found."""
    launch.call = call
    launch.compile_together = lambda programs: None
    chosen = chosen or [*map(str, range(len(CASES))), "sums"]
    if "sums" in chosen:
        sums_over_segments()
    for k in [int(x) for x in chosen if x != "sums"]:
        factors, detectors, hours, orbit = CASES[k]
        length = int(np.prod(factors))
        transforms._cuda_cost = lambda own, factors=factors: own != factors
        sizes.transform_length = lambda n, length=length: length
        for cached in (transforms.cuda_factors, kernels.plan):
            cached.cache_clear()
        band = 0.85 * length / (3600 * hours) - (0.04 if orbit is None else 0.2)
        data, engine = noise(detectors, hours, band, orbit, length), Cuda()
        ready = engine.ready(data)
        for same_source in (False, True):
            points = bank(TEMPLATES, same_source, orbit, k)
            found = loudest_within(ready, points, TEMPLATES, KEEP, engine, same_source, 0)
            expected = np.sort(np.asarray(jax.vmap(jfstat.twoF_band, (None, 0))(data, points)).ravel())[::-1]
            difference = np.max(np.abs(np.asarray(found.twoF)[:KEEP] - expected[:KEEP]))
            sources = "one position" if same_source else "several positions"
            print(f"{factors} {'+'.join(detectors)} {sources}{' orbit' if orbit else ''}: {difference:.1e}", flush=True)
            assert difference < 1e-3 and int(np.sum(found.histogram)) == len(expected)


if __name__ == "__main__":
    main(sys.argv[1:])
