"""Functions of jfstat's objects, exported by `jax.export`: the same numbers in another process, and derivatives."""

import pickle
import subprocess
import sys

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import jfstat
from jfstat.exporting import CLASSES

pytest.importorskip("flatbuffers")
START = 1167458304


def quadratic(t, p):
    """Phase of a model, in a module that can be imported."""
    return 0.5 * p["df"] * t**2


@pytest.fixture(scope="module")
def point():
    return jfstat.Doppler(2.1, 0.47, [100.01, -1e-10], START)


@pytest.fixture(scope="module")
def data(point):
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], START, 21600, fmin=99.7, fmax=100.3, sqrt_sx=4e-24,
        signals=[(point, jfstat.Amplitude(4e-25, 0.3, 0.4, 1.0))],
    )  # fmt: skip
    jfstat.enable_export()
    return jfstat.prepare(sfts, fmin=100.0, fmax=100.02, guard=0.2, sqrt_sx=4e-24)


def again(function, *arguments, vjp_order=0):
    exported = jax.export.export(jax.jit(function))(*arguments)
    return jax.export.deserialize(exported.serialize(vjp_order=vjp_order))


def same(x, y):
    assert jax.tree.structure(x) == jax.tree.structure(y)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(np.asarray(a), np.asarray(b)), x, y)


def is_pytree(cls):
    try:
        empty = object.__new__(cls)
        return jax.tree.leaves(empty) != [empty]
    except (AttributeError, TypeError):  # it has no fields, which JAX looked for
        return True


def test_every_public_pytree_can_be_exported():
    public = [getattr(jfstat, name) for name in jfstat.__all__]
    trees = {x for x in public if isinstance(x, type) and not issubclass(x, BaseException) and is_pytree(x)}
    assert {jfstat.FstatData, jfstat.TransientWindow} < trees
    assert trees <= set(CLASSES)
    jfstat.enable_export()
    jfstat.enable_export()  # which does nothing more


@pytest.mark.ci
def test_objects_come_back_as_they_were(data, point):
    parts = jfstat.atoms(data, point)
    orbit = jfstat.Orbit(1.4, 68000.0, START, 0.1, 0.2)
    objects = (
        point, jfstat.Doppler(2.1, 0.47, [100.0], orbit=orbit), jfstat.Amplitude(1e-24, 0.3), point.reftime, parts,
        jfstat.narrow(data, point), jfstat.whiten(data, point), jfstat.fstat(data, point),
        jfstat.estimate_amplitude(data, point), jfstat.TransientWindow("exponential", START, 3600.0),
        jfstat.transient_map(parts, "rectangular", [START], [7200.0, 9000.0]),
        jfstat.viterbi(np.zeros((2, 5))), jfstat.forward_backward(np.zeros((2, 5))),
    )  # fmt: skip
    for x in objects:
        same(again(lambda x: x, x).call(x), x)


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["all data", "narrow data"])
def test_values_and_gradients(data, point, kind):
    off = jfstat.whiten(data, point).point(jnp.array([0.3, 0.2, -0.1, 0.2]))
    if kind == "narrow data":
        data = jfstat.narrow(data, point)
    read = again(jfstat.twoF, data, point, vjp_order=1)
    same(read.call(data, off), jax.jit(jfstat.twoF)(data, off))
    mine, theirs = (jax.grad(f, argnums=1)(data, off) for f in (read.call, jfstat.twoF))
    for x, y in zip(jax.tree.leaves(mine), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)


def test_functions_are_found_by_their_names(data, point, monkeypatch):
    def moved(function):
        return jfstat.Doppler(2.1, 0.47, [100.01, -1e-10], START, model=jfstat.PhaseModel(function, {"df": 1e-12}))

    mine = moved(quadratic)
    exported = jax.export.export(jax.jit(jfstat.twoF))(data, mine).serialize()
    same(jax.export.deserialize(exported).call(data, mine), jax.jit(jfstat.twoF)(data, mine))
    with pytest.raises(ValueError, match=r"function of a PhaseModel.*top of a module"):
        again(jfstat.twoF, data, moved(lambda t, p: p["df"] * t))
    window = jfstat.TransientWindow(lambda x: x, START, 3600.0, end=2.0)
    with pytest.raises(ValueError, match=r"function of a TransientWindow.*top of a module"):
        again(lambda x: x, window)
    monkeypatch.delitem(sys.modules, __name__)
    with pytest.raises(ValueError, match="import its module first"):
        jax.export.deserialize(exported)


@pytest.mark.ci
def test_another_process_computes_the_same(data, point, tmp_path):
    """The process has no function of jfstat, only its classes."""
    (tmp_path / "twoF").write_bytes(jax.export.export(jax.jit(jfstat.fstat))(data, point).serialize())
    (tmp_path / "arguments").write_bytes(pickle.dumps((data, point)))
    program = (
        "import pickle, sys; from pathlib import Path; import jax, jax.export; "
        "jax.config.update('jax_enable_x64', True); import jfstat; jfstat.enable_export(); folder = Path(sys.argv[1]); "
        "read = jax.export.deserialize((folder / 'twoF').read_bytes()); "
        "found = read.call(*pickle.loads((folder / 'arguments').read_bytes())); "
        "(folder / 'found').write_bytes(pickle.dumps(found))"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path], check=True, capture_output=True)
    same(pickle.loads((tmp_path / "found").read_bytes()), jax.jit(jfstat.fstat)(data, point))


@pytest.mark.ci
def test_sizes_for_traced_data_and_resampled_series_can_be_exported(data, point):
    slices, sizes = jfstat.atom_sizes(data, point, 3600), jfstat.narrow_sizes(data, point)
    cut = again(lambda data, point, sizes: jfstat.atoms(data, point, sizes=sizes).Fa, data, point, slices)
    same(cut.call(data, point, slices), jax.jit(jfstat.atoms)(data, point, sizes=slices).Fa)
    near = again(lambda data, point, sizes: jfstat.narrow(data, point, sizes=sizes), data, point, sizes)
    same(near.call(data, point, sizes).samples, jax.jit(jfstat.narrow)(data, point, sizes=sizes).samples)
    same(again(jfstat.resample, data, point).call(data, point), jfstat.resample(data, point))
