"""Clusters of candidates against the definition, candidate by candidate."""

import numpy as np
import pytest

from jfstat.candidates.clusters import clustered
from jfstat.maths.vectors import unit_vector

T = 20 * 86400.0


def flat(n_spins, tilt=0.0):
    """A metric like that of 20 days at 100 Hz: correlated, and hardly sensitive to one direction of the sky."""
    u = np.linspace(-1, 1, 400) + tilt
    angle = 2 * np.pi * u * T / 3.156e7
    orbit = 5e4 * np.array([np.cos(angle), 0.92 * np.sin(angle), 0.4 * np.sin(angle)])
    slopes = [2 * np.pi * (u * T / 2) ** (k + 1) / (k + 1) for k in range(n_spins + 1)]
    return np.cov(np.stack([*slopes, *orbit]), bias=True)


def candidates(k, n_spins, seed, spread=1.5):
    """Candidates around some centres, a few sizes of a ball wide."""
    rng = np.random.default_rng(seed)
    g = flat(n_spins)
    size = spread / np.sqrt(np.diagonal(g)[: n_spins + 1])
    centre = rng.integers(0, 6, k)
    columns = {"freq": 100.0 + 1e-3 * centre + size[0] * rng.normal(size=k)}
    columns |= {f"f{i}dot": size[i] * rng.normal(size=k) for i in range(1, n_spins + 1)}
    columns |= {"alpha": np.mod(0.02 * rng.normal(size=k) * (centre % 3), 2 * np.pi)}
    columns |= {"delta": 1.5 - 0.02 * np.abs(rng.normal(size=k)) * (centre % 3), "twoF": -np.arange(float(k))}
    return columns, g


def by_definition(columns, g, radius, orbit=()):
    """One at a time, in plain parameters."""
    names = [name for name in columns if name.startswith("f") and name != "f"]
    x = np.column_stack([*(columns[name] for name in names), unit_vector(columns["alpha"], columns["delta"])])
    orbits = np.stack([np.zeros(len(x)), *(columns[name] for name in orbit)], axis=-1)
    leader = np.full(len(x), -1)
    for i in range(len(x)):
        if leader[i] < 0:
            d = x - x[i]
            near = (np.einsum("ki,ij,kj->k", d, g, d) <= radius) & (orbits == orbits[i]).all(axis=1)
            leader[near & (leader < 0)] = i
    return leader


@pytest.mark.parametrize("n_spins", [0, 1, 2])
@pytest.mark.parametrize("radius", [0.1, 1.0, 10.0])
def test_are_those_of_the_definition(n_spins, radius):
    columns, g = candidates(800, n_spins, seed=n_spins)
    found = clustered(columns, g, radius)
    assert found.dtype == np.int64 and found.shape == (800,)
    np.testing.assert_array_equal(found, by_definition(columns, g, radius))
    assert 1 < len(np.unique(found)) < 800
    assert (found <= np.arange(800)).all() and (found[found] == found).all()


def test_orbits_cluster_apart():
    columns, g = candidates(500, 1, seed=5)
    rng = np.random.default_rng(0)
    columns |= {"asini": rng.choice([1.0, 1.5], 500), "period": rng.choice([4e4, 5e4], 500)}
    found = clustered(columns, g, 1.0)
    np.testing.assert_array_equal(found, by_definition(columns, g, 1.0, ("asini", "period")))
    assert (columns["asini"] == columns["asini"][found]).all() and (columns["period"] == columns["period"][found]).all()
    assert (clustered(columns, g, 1e12) < 100).all() and len(np.unique(clustered(columns, g, 1e12))) == 4


def test_a_metric_that_does_not_see_the_sky():
    columns, g = candidates(300, 1, seed=7)
    g[2:] = g[:, 2:] = 0.0
    np.testing.assert_array_equal(clustered(columns, g, 1.0), by_definition(columns, g, 1.0))


def test_right_ascension_has_no_seam_and_columns_no_matter_else():
    g = flat(0)
    columns = {"freq": np.full(2, 100.0), "alpha": np.array([1e-9, 2 * np.pi - 1e-9]), "delta": np.zeros(2)}
    np.testing.assert_array_equal(clustered(columns, g, 1.0), [0, 0])
    assert clustered({name: x[:1] for name, x in columns.items()}, g, 1.0).tolist() == [0]
    assert clustered({name: x[:0] for name, x in columns.items()} | {"asini": np.empty(0)}, g, 1.0).shape == (0,)


@pytest.mark.parametrize("spread", [0.05, 1e5])
def test_many_candidates(spread):
    """One cluster or as many as candidates: seconds, where the definition would take hours."""
    columns, g = candidates(100_000, 1, seed=9, spread=spread)
    found = clustered(columns, g, 1.0)
    assert (found[found] == found).all()


@pytest.mark.parametrize(
    ("change", "metric", "radius", "match"),
    [
        ({"freq": None}, flat(1), 1.0, "freq"),
        ({"f1dot": None}, flat(1), 1.0, "metric"),
        ({"alpha": np.zeros(3)}, flat(1), 1.0, "length"),
        ({}, flat(2), 1.0, "metric"),
        ({}, flat(1) * np.nan, 1.0, "metric"),
        ({}, flat(1), 0.0, "radius"),
        ({}, flat(1), np.nan, "radius"),
    ],
)
def test_bad_arguments(change, metric, radius, match):
    columns, _ = candidates(10, 1, seed=0)
    columns = {name: x for name, x in (columns | change).items() if x is not None}
    with pytest.raises(ValueError, match=match):
        clustered(columns, metric, radius)
