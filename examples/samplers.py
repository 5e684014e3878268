"""Evidence and posteriors of a signal model by six samplers, beside sums over a grid.

    pip install "blackjax>=1.7" numpyro flowMC bilby dynesty
    python examples/samplers.py --output examples/samplers.json --plot samplers.png

Three days of H1 and L1 with a signal, narrow data. Two models of `jfstat.model`: `phase` has the parameters freq and
f1dot, with the orientation known, and h0 and phi0 integrated over; `all` has h0, cosi, psi and phi0 as parameters too,
with isotropic orientations. The evidence of either is a mean of exp(log_bstat) over a grid of freq and f1dot, which
resolves the peak, so that of `all` needs none of its own likelihoods. Nested slice sampling and tempered SMC (BlackJAX)
and dynesty (Bilby) give evidences too: their mean over several seeds is compared, with the scatter of the seeds. Means
and standard deviations of freq and f1dot are compared of all samplers. SMC of `all` mixes too slowly with its default
of 4 steps. The programs are compiled in the first run of each. Most of an hour on two busy cores.
"""

from __future__ import annotations

import argparse
import json
import logging
import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import jax

jax.config.update("jax_enable_x64", True)

import blackjax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from blackjax.mcmc import random_walk  # noqa: E402
from blackjax.ns import utils  # noqa: E402
from blackjax.ns.base import NSInfo  # noqa: E402
from blackjax.smc import extend_params, resampling  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import written_to  # noqa: E402

START, SECONDS = 1_167_458_304, 3 * 86400
POINT = jfstat.Doppler(2.1, 0.47, [100.01, -1e-10], START + SECONDS // 2)
SIGNAL = jfstat.Amplitude(h0=1.2e-25, cosi=0.3, psi=0.4, phi0=1.0)
DOPPLERS = ("freq", "f1dot")
PACKAGES = ("jax", "blackjax", "numpyro", "flowMC", "bilby", "dynesty")
WARM_UP, DRAWS = 500, 3000
BLOCK = 20
"""Steps that the nested sampler makes at a time."""


class Found(NamedTuple):
    """What one run of a sampler gave.

    Attributes
    ----------
    x : (n, p) float64
        Parameters.
    weights : (n,) float64
        Of each, with a sum of 1.
    evidence, error : float or None
        Logarithm of the evidence, and the error that the run itself estimates, if any.
    """

    x: np.ndarray
    weights: np.ndarray
    evidence: float | None = None
    error: float | None = None


Run = Callable[[int], Found]
"""A run of a sampler, for a seed."""


def models() -> dict[str, jfstat.Model]:
    """The two models, of the same data."""
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], START, SECONDS, fmin=98.9, fmax=101.1, sqrt_sx=4e-24, signals=[(POINT, SIGNAL)], seed=1
    )
    near = jfstat.narrow(jfstat.prepare(sfts, fmin=100.0, fmax=100.02, sqrt_sx=4e-24), POINT)
    freq, f1dot = (float(x) for x in POINT.fkdot)
    priors = {
        "freq": jfstat.Uniform(freq - 2 / SECONDS, freq + 2 / SECONDS),
        "f1dot": jfstat.Uniform(f1dot - 10 / SECONDS**2, f1dot + 10 / SECONDS**2),
    }
    h0 = jfstat.HalfNormal(3e-25)
    known = jfstat.AmplitudePrior(h0=h0, cosi=float(SIGNAL.cosi), psi=float(SIGNAL.psi))
    return {
        "phase": jfstat.model(near, POINT, priors, known),
        "all": jfstat.model(near, POINT, priors, jfstat.AmplitudePrior(h0=h0), marginalised=False),
    }


def quadrature(model: jfstat.Model, n: int) -> Found:
    """The mean over the midpoints of n by n cells, of equal prior probability, of freq and f1dot."""
    own = jfstat.model(model.data, model.centre, model.priors, model.amplitude)
    middles = (np.arange(n) + 0.5) / n
    u = jnp.asarray(np.stack(np.meshgrid(middles, middles, indexing="ij"), axis=-1).reshape(-1, 2))
    x = jax.vmap(own.prior_transform)(u)
    values = np.asarray(jax.jit(lambda x: jax.lax.map(own.log_likelihood, x, batch_size=64))(x))
    shares = np.exp(values - np.max(values))
    return Found(np.asarray(x), shares / np.sum(shares), float(np.log(np.mean(shares)) + np.max(values)))


def nested(model: jfstat.Model, live: int) -> Run:
    """BlackJAX's nested slice sampler, in the unit cube."""
    p = len(model.names)
    sampler = blackjax.nss(
        lambda u: jnp.where(jnp.all((u > 0) & (u < 1)), 0.0, -jnp.inf),
        lambda u: model.log_likelihood(model.prior_transform(u)),
        num_delete=live // 10,
        num_inner_steps=3 * p,
    )
    init = jax.jit(sampler.init)

    @jax.jit
    def block(key: jax.Array, state):
        """Make several steps, so that runs have few different numbers of points, for each of which is compiled."""
        return jax.lax.scan(lambda state, key: sampler.step(key, state), state, jax.random.split(key, BLOCK))

    def run(seed: int) -> Found:
        key, first, last = jax.random.split(jax.random.key(seed), 3)
        state, dead = init(jax.random.uniform(first, (live, p), jnp.float64)), []
        while not dead or float(state.integrator.logZ_live - state.integrator.logZ) > -5:
            key, own = jax.random.split(key)
            state, info = block(own, state)
            dead.append(jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[2:]), info.particles))
        particles = jax.tree.map(lambda *x: np.concatenate(x), *dead, state.particles)
        draws = utils.log_weights(last, NSInfo(jax.tree.map(jnp.asarray, particles), None), 200)  # of the volumes
        weights = np.asarray(draws)
        evidence = np.logaddexp.reduce(weights, axis=0)
        mean = np.exp(weights - evidence).mean(axis=1)
        x = np.asarray(jax.vmap(model.prior_transform)(particles.position))
        return Found(x, mean, float(evidence.mean()), float(evidence.std()))

    return run


def tempered(model: jfstat.Model, particles: int, steps: int) -> Run:
    """BlackJAX's adaptive tempered SMC, where the prior is normal; random walks are as wide as the particles."""
    p = len(model.names)
    walk = random_walk.build_additive_step()

    def tuned(particles: jax.Array) -> dict[str, jax.Array]:
        spread = jnp.cov(particles, rowvar=False) * 2.38**2 / p
        return extend_params({"spread": jnp.linalg.cholesky(spread)})

    sampler = blackjax.inner_kernel_tuning(
        smc_algorithm=blackjax.adaptive_tempered_smc,
        logprior_fn=lambda z: jnp.sum(jax.scipy.stats.norm.logpdf(z)),
        loglikelihood_fn=lambda z: model.log_likelihood(model.from_normal(z)),
        mcmc_step_fn=lambda key, state, density, spread: walk(key, state, density, random_walk.normal(spread)),
        mcmc_init_fn=random_walk.init,
        resampling_fn=resampling.systematic,
        mcmc_parameter_update_fn=lambda key, state, info: tuned(state.particles),
        initial_parameter_value=tuned(jax.random.normal(jax.random.key(0), (particles, p), jnp.float64)),
        target_ess=0.9,
        num_mcmc_steps=steps * p,
    )
    step = jax.jit(sampler.step)

    def run(seed: int) -> Found:
        key, first = jax.random.split(jax.random.key(seed))
        state, evidence = sampler.init(jax.random.normal(first, (particles, p), jnp.float64)), 0.0
        while state.sampler_state.tempering_param < 1:
            key, own = jax.random.split(key)
            state, info = step(own, state)
            evidence += float(info.log_likelihood_increment)
        x = jax.vmap(model.from_normal)(state.sampler_state.particles)
        return Found(np.asarray(x), np.asarray(state.sampler_state.weights), evidence)

    return run


def nuts(model: jfstat.Model) -> Run:
    """BlackJAX's NUTS with its window adaptation, from the middle of the prior."""

    @jax.jit
    def chain(key: jax.Array) -> jax.Array:
        warming, running = jax.random.split(key)
        warmup = blackjax.window_adaptation(blackjax.nuts, model.log_density_normal, initial_step_size=0.05)
        (state, tuned), _ = warmup.run(warming, jnp.zeros(len(model.names)), WARM_UP)
        kernel = blackjax.nuts(model.log_density_normal, **tuned)

        def step(state, key):
            state, _ = kernel.step(key, state)
            return state, model.from_normal(state.position)

        return jax.lax.scan(step, state, jax.random.split(running, DRAWS))[1]

    return lambda seed: equal(chain(jax.random.key(seed)))


def with_numpyro(model: jfstat.Model) -> Run:
    """NumPyro's NUTS, from the middle of the prior."""
    import numpyro
    from numpyro import distributions

    p = len(model.names)

    def density() -> None:
        z = numpyro.sample("z", distributions.Normal(0.0, 1.0).expand([p]).to_event(1))
        numpyro.factor("signal", model.log_likelihood(model.from_normal(z)))

    start = numpyro.infer.init_to_value(values={"z": jnp.zeros(p)})
    kernel = numpyro.infer.NUTS(density, init_strategy=start, step_size=0.05)
    sampler = numpyro.infer.MCMC(kernel, num_warmup=WARM_UP, num_samples=DRAWS, progress_bar=False)

    def run(seed: int) -> Found:
        sampler.run(jax.random.key(seed))
        return equal(jax.vmap(model.from_normal)(sampler.get_samples()["z"]))

    return run


def with_flowmc(model: jfstat.Model) -> Run:
    """flowMC: MALA and a normalising flow, 20 chains that start around the middle of the prior."""
    from flowMC.resource_strategy_bundle.RQSpline_MALA import RQSpline_MALA_Bundle
    from flowMC.Sampler import Sampler

    p, chains = len(model.names), 20

    def run(seed: int) -> Found:
        first, second, third = jax.random.split(jax.random.key(seed), 3)
        bundle = RQSpline_MALA_Bundle(
            first,
            chains,
            p,
            lambda z, data: model.log_density_normal(z),
            n_local_steps=50,
            n_global_steps=20,
            n_training_loops=4,
            n_production_loops=3,
            n_epochs=5,
            mala_step_size=0.03,
            rq_spline_n_layers=2,
        )
        # without an interval of 0 it writes checkpoints, and changes JAX's cache of compiled programs
        sampler = Sampler(
            n_dim=p, n_chains=chains, rng_key=second, resource_strategy_bundles=bundle, checkpoint_interval=0
        )
        sampler.sample(0.05 * jax.random.normal(third, (chains, p), jnp.float64), {})
        z = jnp.asarray(sampler.resources["positions_production"].data).reshape(-1, p)
        return equal(jax.vmap(model.from_normal)(z[jnp.all(jnp.isfinite(z), axis=1)]))

    return run


def with_bilby(model: jfstat.Model, live: int) -> Run:
    """Bilby with dynesty, by rejection within ellipsoids."""
    import bilby

    bilby.core.utils.logger.setLevel(logging.WARNING)
    likelihood, priors = jfstat.to_bilby(model)

    def run(seed: int) -> Found:
        with tempfile.TemporaryDirectory() as folder:
            result = bilby.run_sampler(
                likelihood,
                priors,
                sampler="dynesty",
                nlive=live,
                sample="unif",
                seed=seed + 1,
                outdir=folder,
                check_point=False,
                check_point_plot=False,
                print_method="interval-600",
            )
        found = equal(result.posterior[list(model.names)].to_numpy())
        return found._replace(evidence=float(result.log_evidence), error=float(result.log_evidence_err))

    return run


def equal(x: jax.Array | np.ndarray) -> Found:
    """Samples of equal weights."""
    return Found(np.asarray(x), np.full(len(x), 1 / len(x)))


def moments(found: Found) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of freq and f1dot."""
    x = found.x[:, : len(DOPPLERS)]
    mean = found.weights @ x
    return mean, np.sqrt(found.weights @ (x - mean) ** 2)


def compared(runs: list[Found], seconds: list[float], expected: Found) -> dict:
    """One sampler beside the quadrature, whose evidence and moments are `expected`."""
    mean, std = moments(expected)
    own = [moments(run) for run in runs]
    row = {
        "runs": len(runs),
        "shifts": np.mean([(m - mean) / std for m, _ in own], axis=0).tolist(),
        "ratios": np.mean([s / std for _, s in own], axis=0).tolist(),
        "first_seconds": seconds[0],
        "again_seconds": float(np.median(seconds[1:])) if len(runs) > 1 else None,
    }
    if runs[0].evidence is not None:
        values = np.array([run.evidence for run in runs])
        row |= {
            "evidences": values.tolist(),
            "own_errors": [run.error for run in runs],
            "evidence": float(np.mean(values)),
            "scatter": float(np.std(values, ddof=1)),
            "error": float(np.std(values, ddof=1) / np.sqrt(len(values))),
            "difference": float(np.mean(values)) - float(expected.evidence or 0.0),
        }
    return row


def plot(result: dict, path: Path) -> None:
    """Evidence of each run less that of the quadrature."""
    from matplotlib.figure import Figure

    rows = [
        (model, name, row)
        for model, part in result["models"].items()
        for name, row in part["samplers"].items()
        if "evidence" in row
    ]
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    ax = figure.subplots()
    for i, (model, _, row) in enumerate(rows):
        expected = result["models"][model]["quadrature"]["evidence"]
        ax.plot(np.array(row["evidences"]) - expected, np.full(row["runs"], i), ".", color="0.6")
        ax.errorbar(row["difference"], i, xerr=row["error"], fmt="o", color="#1f4e79", capsize=3)
    ax.axvline(0, color="0.3", lw=0.8)
    ax.set_yticks(range(len(rows)), [f"{model}: {name}" for model, name, _ in rows])
    ax.set_xlabel("ln evidence, sampler less quadrature")
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--live", type=int, default=2000, help="live points; half of them with dynesty")
    parser.add_argument("--particles", type=int, default=6000, help="particles of SMC")
    parser.add_argument("--steps", type=int, default=4, help="of SMC's random walks for each parameter and temperature")
    parser.add_argument("--seeds", type=int, default=4, help="runs for each evidence; half as many of dynesty")
    parser.add_argument("--cells", type=int, default=120, help="cells of the grid in each direction")
    parser.add_argument("--models", nargs="*", default=["phase", "all"])
    parser.add_argument("--only", nargs="*", help="names of samplers to run instead of all")
    parser.add_argument("--output", type=Path, help="JSON file, whose rows of other samplers are kept")
    parser.add_argument("--plot", type=Path, help="PNG file")
    arguments = parser.parse_args()
    command = shlex.join(["python", *sys.argv])
    result: dict = {"models": {}}
    if arguments.output and arguments.output.exists():
        result = json.loads(arguments.output.read_text())
    result |= {"version": jfstat.__version__, "versions": {name: version(name) for name in PACKAGES}}
    for which, model in models().items():
        if which not in arguments.models:
            continue
        began = time.perf_counter()
        expected = quadrature(model, arguments.cells)
        mean, std = moments(expected)
        part = result["models"][which] = {
            "names": list(model.names),
            "quadrature": {
                "cells": arguments.cells,
                "evidence": expected.evidence,
                "with_half_the_cells": quadrature(model, arguments.cells // 2).evidence,
                "mean": mean.tolist(),
                "std": std.tolist(),
                "seconds": time.perf_counter() - began,
            },
            "samplers": result["models"].get(which, {}).get("samplers", {}),
        }
        print(which, json.dumps(part["quadrature"]), flush=True)
        samplers: dict[str, tuple[Callable[[], Run], int]] = {
            "nested slice sampling": (lambda: nested(model, arguments.live), arguments.seeds),  # noqa: B023
            "tempered SMC": (lambda: tempered(model, arguments.particles, arguments.steps), arguments.seeds),  # noqa: B023
            "NUTS": (lambda: nuts(model), 2),  # noqa: B023
            "NumPyro": (lambda: with_numpyro(model), 2),  # noqa: B023
            "flowMC": (lambda: with_flowmc(model), 2),  # noqa: B023
            "Bilby, dynesty": (lambda: with_bilby(model, arguments.live // 2), arguments.seeds // 2),  # noqa: B023
        }
        if which == "all":  # several modes, and walls in the angles: no task for a single chain
            samplers = {name: samplers[name] for name in list(samplers)[:2]}
        for name, (make, seeds) in samplers.items():
            if arguments.only and name not in arguments.only:
                continue
            runs, seconds, run = [], [], make()
            for seed in range(seeds):
                began = time.perf_counter()
                runs.append(run(seed))
                seconds.append(time.perf_counter() - began)
            part["samplers"][name] = {"command": command} | compared(runs, seconds, expected)
            print(which, name, json.dumps(part["samplers"][name]), flush=True)
            if arguments.output:
                written_to(arguments.output, (json.dumps(result, indent=1) + "\n").encode())
    if arguments.plot:
        plot(result, arguments.plot)


if __name__ == "__main__":
    main()
