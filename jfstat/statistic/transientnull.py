"""Compute thresholds and false-alarm probabilities of a map's loudest window in noise, by simulation.

Atoms of Gaussian noise are drawn with the antenna matrices of given ones. Some of the maps hold a signal in a random
window; `statistic.null` weights each by its likelihood ratio. Amplitudes are Gaussian, with s times the inverse of the
window's antenna matrix as covariance: then the likelihood ratio of a window is (1 + s)^-2 exp(F s/(1 + s)), and the
likelihood ratio of a map is its mean over the windows.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.public import host
from jfstat.signal.transientwindow import TransientWindow, end_of
from jfstat.statistic.atoms import Atoms, check_atoms
from jfstat.statistic.null import NullDistribution
from jfstat.statistic.transients import (
    LINEAR,
    TransientRange,
    Windows,
    compiled_map,
    log10_bayes,
    window_sums,
)
from jfstat.validation import whole

MAPS = 1024
"""Number of simulated maps of each strength."""
STRENGTHS = (0.0, 1.0, 3.0, 6.0, 11.0)
"""Strengths s, the mean square of a signal over the mean square of noise: 2F of its window has mean 4 (1 + s)."""
LEAST, DEGREE = 1e-12, 5
"""Probability down to which maps are used, and degree of the polynomial through them, see `smooth_tail`."""
ROUNDING = 1e-9
"""Fraction of the largest antenna matrix of a window below which a window holds no data."""
RANKINGS = {"twoF": "max_twoF", "BtSG": "log10BtSG"}
"""Column of a map's loudness for each ranking of `TransientRange` searches."""


@host(windows=kinds.instance(TransientRange), ranking=kinds.one_of(*RANKINGS))
def transient_null(atoms: Atoms, windows: TransientRange, *, ranking: str = "twoF", seed: int = 0) -> NullDistribution:
    """Return the distribution in Gaussian noise of the loudest of many overlapping windows, from simulated maps.

    Windows overlap, and their correlations depend on gaps, noise weights and antenna patterns. Atoms are therefore
    simulated with the antenna matrices of given ones, and mapped over the windows: some thousand maps, a second or less
    for 60 x 60 rectangular windows, and 1 min for 500 x 500 exponential ones, on a CPU.

    Parameters
    ----------
    atoms : Atoms
        At a template; Fa and Fb are not used. The distribution holds for templates near this sky position.
    windows : TransientRange
        The windows; `duration` is not used, since the atoms define the slices.
    ranking : str
        ``"twoF"`` for the largest 2F, ``"BtSG"`` for log10 B_tS/G.
    seed : int
        Seed of the random numbers; the same seed gives the same distribution.

    Returns
    -------
    NullDistribution
        Probabilities from 0.9 to 1e-5 are right to some 10 per cent; further down, to a factor that grows.

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        If `ranking` or `seed` makes no sense, or 2F is known in none of the windows.

    Examples
    --------
    >>> windows = jfstat.TransientRange('rectangular', start + 3600 * np.arange(18), 3600.0 * np.arange(4, 7))
    >>> null = jfstat.transient_null(jfstat.atoms(data, point), windows)
    >>> bool(15 < null.threshold(0.01) < 25)
    True
    """
    check_atoms(atoms)
    random = np.random.default_rng(whole(seed, "seed"))
    quiet = replace(atoms, **{name: jnp.sum(getattr(atoms, name), axis=0, keepdims=True) for name in "ABC"})
    quiet = replace(quiet, Fa=jnp.zeros_like(quiet.A, jnp.complex128), Fb=jnp.zeros_like(quiet.A, jnp.complex128))
    places = Windows(windows.t0, windows.tau, windows.shape, windows.end).on(atoms.start, atoms.end, atoms.epoch)
    known = np.asarray(_known(quiet, places))
    if not known.any():
        raise ValueError("windows must hold more data: the antenna matrix cannot be inverted in any of them.")
    # there are the more independent windows the shorter they are, in start and in length
    prior = known / np.asarray(windows.tau) ** 2
    prior /= prior.sum()
    strength = np.tile(STRENGTHS, MAPS)
    drawn = random.choice(prior.size, strength.size, p=prior.ravel())
    key = jax.random.key(int(random.integers(2**31)))
    bayes = ranking == "BtSG"
    arguments = jnp.asarray(np.log(np.where(prior > 0, prior, 1e-300))), jnp.asarray(known)
    values, ratios = _simulated(quiet, places, *arguments, jnp.asarray(strength), jnp.asarray(drawn), key, bayes)
    found = np.asarray(values)
    if bayes:
        found = np.asarray(log10_bayes(found, windows.rho_max))
    return NullDistribution.of_mixture(RANKINGS[ranking], found, np.asarray(ratios), degree=DEGREE, least=LEAST)


@jax.jit
def _known(quiet: Atoms, windows: Windows) -> jax.Array:
    """Return whether windows hold enough data for 2F to be defined, (n, m) bool."""
    # 2F of no power is 4 where the antenna matrix is degenerate, and 0 elsewhere
    invertible = compiled_map(quiet, windows).twoF < 2
    rows = jnp.concatenate([jnp.zeros((LINEAR, quiet.start.shape[0])), quiet.A, quiet.B, quiet.C])
    since = windows.t0 - quiet.epoch.astype(jnp.float64)
    A, B, _ = window_sums(quiet, rows, since, windows.tau, windows.shape, windows.end, windows.grid)[LINEAR:]
    # differences of sums are not quite zero in gaps
    return invertible & (ROUNDING * jnp.max(A + B) < A + B)


@partial(jax.jit, static_argnames="bayes")
def _simulated(
    quiet: Atoms,
    windows: Windows,
    log_prior: jax.Array,
    known: jax.Array,
    strength: jax.Array,
    drawn: jax.Array,
    key: jax.Array,
    bayes: bool,
) -> tuple[jax.Array, jax.Array]:
    """Return the loudness of simulated maps, and their log-probabilities with signals less those in noise.

    Parameters
    ----------
    quiet : Atoms
        Atoms of one detector, whose Fa and Fb are not used.
    windows : Windows
    log_prior : (n, m) float64
        Logarithms of the probabilities of windows of signals.
    known : (n, m) bool
        Where 2F is known.
    strength, drawn : (N,) float64, int
        s and the number of the window of each map's signal.
    key : random key
    bayes : bool
        Whether the logarithm of the mean of exp(F) is wanted, or the largest 2F.

    Returns
    -------
    value : (N,) float64
    ratio : (N, S) float64
        Log-probabilities for signals of each of the `STRENGTHS`, less those in noise.
    """
    n_tau = windows.tau.shape[0]
    A, B, C = quiet.A[0], quiet.B[0], quiet.C[0]
    s = np.array(STRENGTHS)
    t = s / (1 + s)

    def normal(key: jax.Array, n: int) -> tuple[jax.Array, jax.Array]:
        """Return two independent complex series of variance 1."""
        x = jax.random.normal(key, (4, n), jnp.float64) * np.sqrt(0.5)
        return jax.lax.complex(x[0], x[1]), jax.lax.complex(x[2], x[3])

    def complexes(*arrays: jax.Array) -> list[jax.Array]:
        return [x.astype(jnp.complex128) for x in arrays]

    def one(job: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        strength, window, own = job
        first, second = jax.random.split(own)
        root, cross, rest = complexes(*_factor(A, B, C))
        u, v = normal(first, A.shape[0])
        fa, fb = root * u, cross * u + rest * v
        place = window // n_tau, window % n_tau
        end = end_of(windows.shape, windows.end)
        signal = TransientWindow(windows.shape, windows.t0[place[0]], windows.tau[place[1]], end=end)
        weight = signal.mean(quiet.start, quiet.end, quiet.epoch)
        # amplitudes with the inverse of the window's antenna matrix as covariance
        root, cross, rest = complexes(*_factor(*(x @ weight**2 for x in (A, B, C))))
        u, v = (x[0] for x in normal(second, 1))
        b = v / rest
        a = (u - cross * b) / root
        size = jnp.sqrt(strength) * weight
        for_a, shared, for_b = complexes(size * A, size * C, size * B)
        fa, fb = fa + for_a * a + shared * b, fb + shared * a + for_b * b
        map_ = compiled_map(replace(quiet, Fa=fa[None], Fb=fb[None]), windows).twoF
        half = 0.5 * map_
        total = jax.scipy.special.logsumexp
        value = total(half) - np.log(half.size) if bayes else jnp.max(map_)
        ratio = [total(jnp.where(known, log_prior + x * half, -jnp.inf)) + 2 * np.log1p(-x) for x in t]
        return value, jnp.stack(ratio)

    return jax.lax.map(one, (strength, drawn, jax.random.split(key, strength.shape[0])))


def _factor(A: jax.Array, B: jax.Array, C: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the Cholesky factor of antenna matrices: diagonal and element below; zero where there are no data."""
    root = jnp.sqrt(A)
    cross = jnp.where(root > 0, C / jnp.where(root > 0, root, 1.0), 0.0)
    return root, cross, jnp.sqrt(jnp.maximum(B - cross**2, 0.0))
