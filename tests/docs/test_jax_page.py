"""The page on jfstat in other JAX programs runs as printed; networks beside it stay in float32."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfstat

PAGE = Path(__file__).parents[2] / "docs" / "jax.md"


@pytest.fixture(scope="module")
def blocks():
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.S | re.M)


@pytest.fixture(scope="module")
def names(blocks):
    """What the page begins with."""
    begun: dict = {}
    exec(compile(blocks[0], PAGE.name, "exec"), begun)
    return begun


def run(blocks, names, word):
    """Names after the block that has a word."""
    (block,) = [block for block in blocks if word in block]
    own = dict(names)
    exec(compile(block, PAGE.name, "exec"), own)
    return own


@pytest.mark.ci
def test_training_data_are_drawn_from_the_prior(blocks, names):
    own = run(blocks, names, "def pair")
    parameters, seen = np.asarray(own["parameters"]), np.asarray(own["seen"])
    assert parameters.dtype == seen.dtype == np.float32
    assert parameters.shape == (256, 5) and seen.shape == (256, 2 * 1280)
    assert np.isfinite(seen).all()
    assert np.abs(parameters[:, :4]).max() < 0.5 < 4 < parameters[:, 4].max() < 5
    # strong signals are louder, in noise that is new each time
    power = np.sum(seen**2, axis=1)
    weak = parameters[:, 4] < 2.5
    assert power[~weak].mean() > 1.2 * power[weak].mean() > 0
    assert len(np.unique(power)) == 256


@pytest.mark.ci
def test_a_network_stays_in_float32(blocks, names):
    with jax.numpy_dtype_promotion("standard"):  # optax mixes dtypes
        own = run(blocks, names, "import optax")
        jaxpr = str(jax.make_jaxpr(own["step"])(own["network"], own["state"]))
    assert own["x"].dtype == jnp.float64
    assert jfstat.fstat(own["near"], own["coordinates"].point(own["x"][0])).twoF.dtype == jnp.float64
    trained = (own["network"], own["state"][0].mu, own["state"][0].nu, own["inputs"])
    assert {leaf.dtype for leaf in jax.tree.leaves(trained)} == {jnp.dtype("float32")}
    assert own["value"].dtype == jnp.float32
    assert "f64[256" not in jaxpr  # what the network computes with
    assert own["losses"][-1] < 0.5 * own["losses"][0]


@pytest.mark.ci
def test_exported_functions(blocks, names):
    pytest.importorskip("flatbuffers")
    own = run(blocks, names, "jax.export")
    expected = jax.grad(jfstat.twoF, argnums=1)(own["near"], own["point"])
    assert float(own["slope"].alpha) == pytest.approx(float(expected.alpha), rel=1e-6)


@pytest.mark.slow
def test_a_phase_that_diffrax_solves(blocks, names):
    pytest.importorskip("diffrax")
    with jax.numpy_dtype_promotion("standard"):  # diffrax mixes dtypes
        compare_with_spin_down(run(blocks, names, "import diffrax"))


def compare_with_spin_down(own):
    # to first order it is f1dot, of which the signal in the data has -1e-10
    assert float(own["braked"]) == pytest.approx(float(jfstat.twoF(own["data"], own["point"])), rel=1e-4)
    slope = jax.grad(jfstat.twoF, argnums=1)(own["data"], own["star"]).model.parameters["k"]
    f1dot = jax.grad(jfstat.twoF, argnums=1)(own["data"], own["point"]).fkdot[1]
    assert float(slope) == pytest.approx(-float(f1dot), rel=1e-3)


@pytest.mark.ci
def test_an_optimiser_of_optimistix(blocks, names):
    pytest.importorskip("optimistix")
    own = run(blocks, names, "import optimistix")
    gained = float(jfstat.twoF(own["near"], own["best"])) - float(jfstat.twoF(own["near"], own["point"]))
    assert 0 <= gained < 20
