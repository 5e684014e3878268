"""How long a user waits at first calls: of refine, the demo, the quickstart and each public function, nothing cached.

    python examples/waiting.py --output examples/waiting.json

Each row is a program of its own in an empty home folder, a few times in turns; medians of seconds by the clock and of
seconds of processors. ``--only`` names rows. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from jfstat.atomic import written_to

PREPARED = """
import time, json, jax
jax.config.update("jax_enable_x64", True)
import jfstat
START = 1167458304
point = jfstat.Doppler(1.5, 0.2, [50.0123, -1e-9], reftime=START)
signals = [(point, jfstat.Amplitude(1e-24, 0.3, 0.2, 1.0))]
def prepared(days, band=0.04, **more):
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, days * 86400, 48.9, 51.2, sqrt_sx=4e-24, signals=signals, seed=1)
    return jfstat.prepare(sfts, 49.99, 49.99 + band, START, **more)
parts = {}
def timed(name, call):
    began = time.perf_counter(), time.process_time()
    result = jax.block_until_ready(call())
    parts[name] = time.perf_counter() - began[0], time.process_time() - began[1]
    return result
def both(name, call):
    timed(name, call)
    return timed(f"{name}, again", call)
"""
REFINE = """
fit = jfstat.Fit(["freq", "f1dot", "alpha", "delta"])
def refined(name, data):
    found = jfstat.search(data, jfstat.Doppler(1.501, 0.201, [50, -1e-9], START), top=1, progress=False)
    timed(name, lambda: jfstat.refine(data, found, fit=fit, progress=False))
data = prepared(2)
refined("first", data)
refined("again", data)
refined("data of another length", prepared(2.75))
"""
FOLLOW_UP = """
sfts = jfstat.simulate_sfts(["H1", "L1"], START, 10 * 86400, 48.9, 51.2, sqrt_sx=4e-24, signals=signals, seed=1)
segments = jfstat.prepare(sfts, 49.99, 50.03, START, segments=20, fdots=[(-3e-9, 1e-9)])
bank = jfstat.template_bank((1.46, 1.54), (0.16, 0.24), (-2e-9, 0.0), mismatch=0.3, data=segments)
found = jfstat.search(segments, bank, top=512, progress=False)
timed("8 candidates, first", lambda: jfstat.follow_up(sfts, found[:8], progress=False))
timed("8 candidates, again", lambda: jfstat.follow_up(sfts, found[:8], progress=False))
if MANY:
    for n in (64, 256, 512):
        timed(f"{n} candidates, first", lambda: jfstat.follow_up(sfts, found[:n], progress=False))
"""
FUNCTIONS = """
data = timed("prepare", lambda: prepared(2))
bank = timed("template_bank", lambda: jfstat.template_bank((1.45, 1.55), (0.15, 0.25), mismatch=0.3, data=data))
timed("twoF", lambda: jfstat.twoF(data, point))
timed("grad", lambda: jax.grad(jfstat.twoF, argnums=1)(data, point))
timed("fstat", lambda: jfstat.fstat(data, point))
timed("twoF_band", lambda: jfstat.twoF_band(data, point))
timed("predict_twoF", lambda: jfstat.predict_twoF(data, point, signals[0][1]))
timed("estimate_amplitude", lambda: jfstat.estimate_amplitude(data, point))
found = timed("search", lambda: jfstat.search(data, bank, top=3, progress=False))
near = timed("narrow", lambda: jfstat.narrow(data, point))
timed("twoF of narrow data", lambda: jfstat.twoF(near, point))
timed("grad of narrow data", lambda: jax.grad(jfstat.twoF, argnums=1)(near, point))
timed("metric", lambda: jfstat.metric(data, point))
timed("mismatch", lambda: jfstat.mismatch(data, point, jfstat.Doppler(1.501, 0.2, [50.0123, -1e-9], START)))
coordinates = timed("whiten", lambda: jfstat.whiten(data, point))
timed("atoms", lambda: jfstat.atoms(data, point))
atoms = jfstat.atoms(data, point)
timed("transient_map", lambda: jfstat.transient_map(atoms, "rect", [START], [86400]))
timed("resample", lambda: jfstat.resample(data, point))
timed("log_posterior", lambda: jfstat.log_posterior(near, coordinates, jax.numpy.zeros(4)))
timed("refine", lambda: jfstat.refine(data, found[:1], progress=False))
parts_of = timed("prepare segments", lambda: prepared(2, segments=4))
timed("mean_twoF", lambda: jfstat.mean_twoF(parts_of, point))
timed("search segments", lambda: jfstat.search(parts_of, bank, top=3, progress=False))
table = timed("twoF_by_segment", lambda: jfstat.twoF_by_segment(parts_of, point))
timed("viterbi", lambda: jfstat.viterbi(table, 1))
prior = jfstat.AmplitudePrior(h0=jfstat.HalfNormal(1e-23))
signal = jfstat.model(near, point, {"freq": jfstat.Uniform(50.01229, 50.01231)}, prior)
with open("a.par", "w") as file:
    file.write("RAJ 05:43:46.5\\nDECJ 11:27:33\\nF0 25.00615 1 1e-9\\nF1 -5e-10\\n")
    file.write("PEPOCH 57756.25\\nUNITS TDB\\nPX 1\\n")
pulsar = jfstat.read_par("a.par")
sfts = jfstat.simulate_sfts(["H1", "L1"], START, 172800, 48.9, 51.2, sqrt_sx=4e-24, signals=signals, seed=1)
both("log_likelihood", lambda: jfstat.log_likelihood(near, point, signals[0][1]))
energy = both("noise_energy", lambda: jfstat.noise_energy(data))
both("log_likelihood with noise_energy", lambda: jfstat.log_likelihood(near, point, signals[0][1], energy=energy))
both("log_bstat", lambda: jfstat.log_bstat(near, point, prior))
both("amplitude_posterior", lambda: jfstat.amplitude_posterior(near, point, prior))
both("pulsar_posteriors", lambda: jfstat.pulsar_posteriors(sfts, pulsar, prior, progress=False).posteriors)
both("timing_errors", lambda: jfstat.timing_errors(pulsar))
with open("b.par", "w") as file:
    file.write(open("a.par").read().replace("1 1e-9", "1 1e-6"))
unsure = jfstat.read_par("b.par")
both("pulsar_posteriors with errors", lambda: jfstat.pulsar_posteriors(sfts, unsure, prior, progress=False).posteriors)
scale = jfstat.LogUniform(1e-26, 1e-23)
both("polarisation_fstat", lambda: jfstat.polarisation_fstat(near, point, "vector"))
both("log_polarisation_bstat", lambda: jfstat.log_polarisation_bstat(near, point, scale))
both("polarisation_table", lambda: jfstat.polarisation_table(near, point, scale))
lower = jfstat.simulate_sfts(["H1", "L1"], START, 172800, 23.9, 26.1, sqrt_sx=4e-24, seed=1)
half = jfstat.Doppler(1.5, 0.2, [25.00615, -5e-10], START)
below = jfstat.narrow(jfstat.prepare(lower, 25.0, 25.01, sqrt_sx=4e-24), half)
flat = jfstat.HalfNormal(1e-23)
dual = jfstat.DualHarmonicPrior(flat, flat)
both("dual_harmonic_posterior", lambda: jfstat.dual_harmonic_posterior(below, half, near, point, dual))
limits = jfstat.pulsar_posteriors(sfts, pulsar, prior, progress=False)
both("ellipticity_likelihoods", lambda: jfstat.ellipticity_likelihoods(limits))
stars = jfstat.ellipticity_likelihoods(limits)
both("log_likelihood of a distribution", lambda: stars.log_likelihood(jfstat.Exponential(1e-7)))
density = jax.jit(jax.value_and_grad(signal.log_density_normal))
both("value and gradient of a model", lambda: density(jax.numpy.zeros(1)))
"""


def program(code: str, cache: bool) -> list[str]:
    """A program that prints what its calls took."""
    kept = "jax.config.update('jax_compilation_cache_dir', __import__('os').environ['XDG_CACHE_HOME'])\n"
    kept += "jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.0)\n"
    begin = PREPARED.replace("import jfstat\n", f"import jfstat\n{kept if cache else ''}", 1)
    return [sys.executable, "-c", f"{begin}{code}\nprint(json.dumps(parts))"]


def quickstart() -> str:
    """The Python of docs/quickstart.md, timed as a whole."""
    page = (Path(__file__).parents[1] / "docs" / "quickstart.md").read_text()
    return "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))


def run(command: list[str], home: Path, platform: str) -> dict[str, Any]:
    """Seconds of a program, by the clock and of processors, and what it says of its parts."""
    unset = ("JAX", "XLA", "PYTHONDONTWRITEBYTECODE")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(unset)}
    environment |= {"HOME": str(home), "XDG_CACHE_HOME": str(home), "JAX_PLATFORMS": platform, "MPLBACKEND": "agg"}
    began = time.perf_counter()
    with open(home / "said", "w+") as said, open(home / "errors", "w+") as errors:
        process = subprocess.Popen(command, env=environment, stdout=said, stderr=errors, cwd=home)
        _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if status:
        raise SystemExit(f"failed: {(home / 'errors').read_text()[-2000:]}")
    last = ["", *(home / "said").read_text().splitlines()][-1]
    parts = json.loads(last) if last.startswith("{") else {}
    return {"whole": (seconds, used.ru_utime + used.ru_stime)} | parts


def rows(many: bool) -> dict[str, tuple[list[str], bool]]:
    """Programs by name, and whether their disk cache is filled before they are timed; `many` candidates take long."""
    return {
        "refine": (program(REFINE, False), False),
        "refine, disk cache filled": (program(REFINE, True), True),
        "follow_up, 20 segments to all of 10 d": (program(f"MANY = {many}\n{FOLLOW_UP}", False), False),
        "follow_up, disk cache filled": (program(f"MANY = {many}\n{FOLLOW_UP}", True), True),
        "jfstat demo": ([sys.executable, "-m", "jfstat", "demo", "--outdir=demo"], False),
        "quickstart": ([sys.executable, "-c", quickstart()], False),
        "first calls": (program(FUNCTIONS, False), False),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=[*rows(False)], default=[*rows(False)])
    parser.add_argument("--many", action="store_true", help="follow up 64, 256 and 512 candidates too")
    parser.add_argument("--platform", default="cpu", help="of JAX: cpu, or cuda")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in arguments.only}
    with tempfile.TemporaryDirectory() as scratch:
        for k in range(arguments.rounds):
            for i, name in enumerate(found):
                command, filled = rows(arguments.many)[name]
                home = Path(scratch) / (f"filled{i}" if filled else f"home{k}_{i}")
                if not home.exists():
                    home.mkdir()
                    if filled:
                        filling = run(command, home, arguments.platform)
                        print(name, "while it is filled", filling, file=sys.stderr, flush=True)
                found[name].append(run(command, home, arguments.platform))
                print(name, found[name][-1], file=sys.stderr, flush=True)
    table = {
        name: {
            part: dict(zip(("s", "cpu_s"), np.median([r[part] for r in runs], axis=0).round(2).tolist(), strict=True))
            for part in runs[0]
        }
        for name, runs in found.items()
    }
    text = json.dumps({"command": " ".join(sys.argv), "cores": os.cpu_count(), "rows": table}, indent=1)
    print(text)
    if arguments.output:
        written_to(arguments.output, (text + "\n").encode())


if __name__ == "__main__":
    main()
