"""Detection efficiency of one template over h0, simulated on the device, against the non-central chi-squared law.

    python examples/efficiency_curve.py --output examples/efficiency_curve.json

Data of H1 and L1 with gaps are prepared once. One compiled program then draws realisations of the noise, compresses
each around the template, adds the signal with every h0 and random phi0 and psi, and computes 2F. The fraction of
realisations above a threshold is compared with the probability of the non-central chi-squared distribution with 4
degrees of freedom, averaged over the drawn psi, in units of the fraction's standard error.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from scipy import stats  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import written_to  # noqa: E402

START, SQRT_SX, THRESHOLD = 1167458304, 4e-24, 40.0


def prepared(days: float, seed: int = 0) -> jfstat.FstatData:
    """Data with a duty factor of 75 %."""
    rng = np.random.default_rng(seed)
    slots = START + 1800 * np.arange(int(48 * days))
    times = {name: np.sort(rng.choice(slots, int(0.75 * len(slots)), replace=False)) for name in ("H1", "L1")}
    sfts = jfstat.simulate_sfts(["H1", "L1"], timestamps=times, fmin=99.4, fmax=100.6, sqrt_sx=SQRT_SX, seed=seed)
    return jfstat.prepare(sfts, 99.999, 100.001, sqrt_sx=SQRT_SX, guard=0.5, filters=False)


@partial(jax.jit, static_argnames="at_once")
def simulate(
    keys: jax.Array,
    strengths: jax.Array,
    data: jfstat.FstatData,
    point: jfstat.Doppler,
    sizes: jfstat.NarrowSizes,
    at_once: int,
) -> tuple[jax.Array, jax.Array]:
    """Return 2F and rho^2 for each realisation of noise, phi0 and psi, and each h0: (n, m) float64 each."""

    def realisation(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        for_noise, for_signal = jax.random.split(key)
        psi, phi0 = jax.random.uniform(for_signal, (2,), jnp.float64) * jnp.array([jnp.pi / 2, 2 * jnp.pi])
        near = jfstat.narrow(jfstat.noise_like(for_noise, data), point, sizes=sizes)

        def with_signal(h0: jax.Array) -> tuple[jax.Array, jax.Array]:
            amplitude = jfstat.Amplitude(h0, jnp.asarray(0.4), psi, phi0)
            two_f = jfstat.twoF(jfstat.add_signal(near, point, amplitude), point)
            return two_f, jfstat.predict_twoF(data, point, amplitude) - 4

        return jax.vmap(with_signal)(strengths)

    return jax.lax.map(realisation, keys, batch_size=at_once)


def main(arguments: list[str] | None = None) -> dict:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=float, default=4.0, help="time span of the data")
    parser.add_argument("--realisations", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=50, help="realisations that are computed at once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="JSON file for the curve")
    options = parser.parse_args(arguments)

    data = prepared(options.days)
    point = jfstat.Doppler(1.3, -0.4, [100.0, -1e-10], START)
    sizes = jfstat.narrow_sizes(data, point)
    unit = float(jfstat.predict_twoF(data, point, jfstat.Amplitude(1e-25, 0.4))) - 4
    strengths = jnp.asarray(1e-25 * np.sqrt(THRESHOLD / unit) * np.linspace(0.0, 2.0, 9))
    keys = jax.random.split(jax.random.key(options.seed), options.realisations)
    seconds = []
    for _ in range(2):  # the first call compiles
        begun = time.perf_counter()
        values, rho2 = jax.block_until_ready(simulate(keys, strengths, data, point, sizes, options.at_once))
        seconds.append(round(time.perf_counter() - begun, 2))
    found = np.mean(np.asarray(values) > THRESHOLD, axis=0)
    expected = np.mean(stats.ncx2(4, np.asarray(rho2) + 1e-12).sf(THRESHOLD), axis=0)
    error = np.sqrt(np.maximum(expected * (1 - expected), 1 / options.realisations**2) / options.realisations)
    every = stats.ncx2(4, np.asarray(rho2) + 1e-12).cdf(np.asarray(values))
    result = {
        "command": "python examples/efficiency_curve.py --output examples/efficiency_curve.json",
        "device": jax.devices()[0].device_kind,
        "days": options.days,
        "samples": data.series.shape[-1],
        "realisations": options.realisations,
        "threshold": THRESHOLD,
        "seconds": {"first call": seconds[0], "again": seconds[1]},
        "curve": [
            dict(h0=float(h), detected=float(p), expected=round(float(q), 5), pull=round(float((p - q) / e), 2))
            for h, p, q, e in zip(strengths, found, expected, error, strict=True)
        ],
        "kolmogorov_smirnov": [round(float(stats.kstest(x, "uniform").pvalue), 4) for x in every.T],
    }
    for row in result["curve"]:
        print("h0 {h0:.2e}: detected {detected:.3f}, expected {expected:.3f}, pull {pull:+.2f}".format(**row))
    print(f"{options.realisations} realisations in {seconds[1]} s, {seconds[0]} s with compilation")
    if options.output:
        written_to(options.output, (json.dumps(result, indent=1) + "\n").encode())
    return result


if __name__ == "__main__":
    main()
