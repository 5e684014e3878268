"""False alarms of the loudest window of a map, beside maps of noise that are drawn without them."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfstat

START = 1_150_000_000
T0, TAU = START + 3600 * np.arange(60), 3600.0 * (2 + np.arange(60))


def quiet(n_slices=240, n_detectors=2, seed=0, gap=slice(0)):
    """Atoms with the antenna matrices of random patterns, without power."""
    a, b = np.random.default_rng(seed).normal(size=(2, 3, n_detectors, n_slices))
    a[..., gap], b[..., gap] = 0, 0
    zeros, start = np.zeros((n_detectors, n_slices)), 1800.0 * np.arange(n_slices)
    arrays = zeros + 0j, zeros + 0j, (a * a).sum(0), (b * b).sum(0), (a * b).sum(0), start, start + 1800
    names = tuple("HLV"[:n_detectors])
    return jfstat.Atoms(*map(jnp.asarray, arrays), epoch=jnp.asarray(START), detectors=names)


def loudest_of_noise(atoms, windows, n, seed, bayes=False):
    """The loudest of each of n maps of noise, whose Fa and Fb are those of four series per slice and detector."""
    matrix = jnp.stack([jnp.stack([atoms.A, atoms.C], -1), jnp.stack([atoms.C, atoms.B], -1)], -2)
    values, vectors = jnp.linalg.eigh(matrix)
    root = (vectors * jnp.sqrt(jnp.maximum(values, 0.0))[..., None, :]).astype(complex)  # (D, K, 2, 2)

    def one(key):
        x = jax.random.normal(key, (2, *root.shape[:3]), jnp.float64) * np.sqrt(0.5)
        f = jnp.einsum("dkij,dkj->dki", root, jax.lax.complex(x[0], x[1]))
        own = replace(atoms, Fa=f[..., 0], Fb=f[..., 1], start=start, end=end, epoch=epoch)
        found = jfstat.transient_map(own, windows.shape, windows.t0, windows.tau)
        return found.log10_bayes_factor(windows.rho_max) if bayes else found.max_twoF

    start, end, epoch = atoms.start, atoms.end, atoms.epoch  # as they are, so that the grid is known
    return np.asarray(jax.jit(lambda keys: jax.lax.map(one, keys))(jax.random.split(jax.random.key(seed), n)))


def assert_calibrated(p, *levels):
    """As many probabilities below each level as there should be, to three standard deviations and a tenth."""
    for level in levels:
        assert abs(np.mean(p < level) / level - 1) < 3 / np.sqrt(level * len(p)) + 0.1, level


@pytest.mark.parametrize(
    "ranking", [pytest.param("twoF", marks=pytest.mark.slow), pytest.param("BtSG", marks=pytest.mark.ci)]
)
def test_false_alarms_are_those_of_noise(ranking):
    atoms = quiet(120)
    windows = jfstat.TransientRange("rectangular", T0[:30], TAU[:30], rho_max=3.0)
    null = jfstat.transient_null(atoms, windows, ranking=ranking)
    p = null.false_alarm(loudest_of_noise(atoms, windows, 4000, 1, ranking == "BtSG"))
    assert_calibrated(p, 0.9, 0.5, 0.1, 0.01)


@pytest.mark.slow
def test_exponential_windows_gaps_and_windows_without_data():
    """One detector, of whose data a third is missing: 2F is 4 where a window holds too little."""
    atoms = quiet(120, 1, gap=slice(30, 70))
    windows = jfstat.TransientRange("exponential", START + 3600 * np.arange(-8, 40, 2), 1800.0 * np.arange(1, 9))
    null = jfstat.transient_null(atoms, windows)
    assert_calibrated(null.false_alarm(loudest_of_noise(atoms, windows, 3000, 2)), 0.9, 0.5, 0.1, 0.01)


@pytest.mark.slow
@pytest.mark.parametrize("ranking", ["twoF", "BtSG"])
@pytest.mark.parametrize(("shape", "n"), [("rectangular", 100_000), ("exponential", 40_000)])
def test_false_alarms_to_one_in_a_thousand(shape, n, ranking):
    atoms = quiet(seed=1)
    windows = jfstat.TransientRange(shape, T0, TAU)
    null = jfstat.transient_null(atoms, windows, ranking=ranking)
    p = null.false_alarm(loudest_of_noise(atoms, windows, n, 3, ranking == "BtSG"))
    assert_calibrated(p, 0.9, 0.5, 0.1, 1e-2, 1e-3)


@pytest.mark.ci
def test_one_window_has_the_distribution_of_2F():
    """chi^2 with four degrees of freedom, to one in a thousand million."""
    null = jfstat.transient_null(quiet(48), jfstat.TransientRange("rectangular", [START], [86400.0]))
    x = np.array([5.0, 10.0, 20.0, 30.0, 45.0])
    np.testing.assert_allclose(null.false_alarm(x), np.exp(-x / 2) * (1 + x / 2), rtol=0.25)


@pytest.mark.ci
def test_seeds_thresholds_and_several_maps():
    atoms, windows = quiet(40), jfstat.TransientRange("rectangular", T0[:10], TAU[:10])
    null, again, other = (jfstat.transient_null(atoms, windows, seed=seed) for seed in (0, 0, 1))
    for name in ("value", "log_rate"):
        np.testing.assert_array_equal(getattr(null, name), getattr(again, name))
    for p in (0.5, 1e-3, 1e-8, 1e-30):
        x = null.threshold(p)
        assert null.false_alarm(x) == pytest.approx(p, rel=1e-6)
        assert p < 1e-9 or other.false_alarm(x) == pytest.approx(p, rel=0.3)
        assert null.threshold(p, 100) > x
        assert null.false_alarm(x, 100) == pytest.approx(-np.expm1(100 * np.log1p(-p)), rel=1e-6)
    x = np.linspace(0, 200, 400)
    p = null.false_alarm(x)
    assert p[0] == 1 and np.all(np.diff(p) <= 0) and np.isnan(null.false_alarm(np.nan))


@pytest.mark.ci
def test_arguments_are_checked():
    atoms, windows = quiet(20), jfstat.TransientRange("rectangular", T0[:4], TAU[:4])
    with pytest.raises(TypeError, match=r"windows must be a jfstat\.TransientRange, not 'rect': make one"):
        jfstat.transient_null(atoms, "rect")
    with pytest.raises(TypeError, match="atoms must be"):
        jfstat.transient_null(3, windows)
    with pytest.raises(ValueError, match="ranking must be 'twoF' or 'BtSG', not 'BSGL'"):
        jfstat.transient_null(atoms, windows, ranking="BSGL")
    with pytest.raises(ValueError, match="seed must be a whole number of at least 0, not -1"):
        jfstat.transient_null(atoms, windows, seed=-1)
    with pytest.raises(ValueError, match="the antenna matrix cannot be inverted in any of them"):
        jfstat.transient_null(atoms, jfstat.TransientRange("rectangular", T0 - 10**7, TAU))
    null = jfstat.transient_null(atoms, windows)
    with pytest.raises(ValueError, match="n_trials must be a whole number of at least 1, not 0"):
        null.false_alarm(20.0, 0)
    with pytest.raises(ValueError, match="false_alarm must be between 0 and 1, not 1"):
        null.threshold(1)
