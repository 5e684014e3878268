"""Stacks of templates are indexed, counted and iterated like arrays with their leading axes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfstat
from jfstat.signal.values import with_fields


def wave(t, p):
    return p["a"] * t + jnp.sum(p["c"]) * t**2


def stack(shape, seed=0):
    """A stack with every kind of field."""
    rng = np.random.default_rng(seed)
    model = jfstat.PhaseModel(wave, {"a": rng.normal(size=shape), "c": rng.normal(size=(*shape, 3))})
    return jfstat.Doppler(
        rng.uniform(0, 6, shape),
        rng.uniform(-1, 1, shape),
        rng.uniform(1, 100, (*shape, 2)),
        1_000_000_000 + rng.integers(0, 1000, shape) + 0.25,
        jfstat.Orbit(rng.uniform(0, 2, shape), 5e4, rng.uniform(1e9, 1.1e9, shape), 0.1),
        motion=rng.normal(size=(*shape, 2)) * 1e-15,
        model=model,
    )


def leaves(tree):
    return [np.asarray(x) for x in jax.tree.leaves(tree)]


INDICES = [
    3, -1, slice(2, 5), slice(None, None, -2), [0, 4, 4], np.array([], int), np.arange(6) % 2 == 0, ..., (), None,
    (1, ...), (..., 2), np.int64(2), jnp.asarray(1), (None, 2),
]  # fmt: skip


CASES = [(shape, index) for shape in ((6,), (6, 4)) for index in INDICES] + [((6, 4), (slice(1, 3), 0))]


@pytest.mark.parametrize(("shape", "index"), CASES, ids=str)
def test_the_leading_axes_are_indexed_and_no_others(shape, index):
    points = stack(shape)
    part = points[index]
    index = np.asarray(index) if isinstance(index, jax.Array) else index
    wanted = np.asarray(points.alpha)[index].shape
    assert part.alpha.shape == wanted == part.reftime.seconds.shape == part.orbit.tp.shape
    assert part.fkdot.shape == (*wanted, 2) == part.motion.shape
    assert part.model.parameters["a"].shape == wanted and part.model.parameters["c"].shape == (*wanted, 3)
    assert part.model.function is wave
    own = index if isinstance(index, tuple) else (index,)
    for x, y in zip(leaves(points), leaves(part), strict=True):
        others = x.shape[len(shape) :]
        assert y.shape == (*wanted, *others)
        for place in np.ndindex(others):  # each column by itself has the stack's axes only
            np.testing.assert_array_equal(x[(..., *place)][own], y[(..., *place)])
    assert all(isinstance(x, jax.Array) for x in jax.tree.leaves(part))


def test_a_mask_of_jax_and_numpy_leaves():
    points = stack((6,))
    mask = points.fkdot[:, 0] > 50
    assert len(points[mask]) == int(mask.sum())
    host = jax.tree.map(np.asarray, points)
    assert isinstance(host[2].alpha, np.ndarray) and host[2].alpha == host.alpha[2]


def test_iteration_ends():
    points = stack((5,))
    each = list(points)
    assert len(each) == len(points) == 5
    assert [float(x.alpha) for x in each] == points.alpha.tolist()
    assert list(jfstat.Doppler(np.empty(0), np.empty(0), np.empty((0, 1)))) == []
    assert [x.fkdot.shape for x in stack((2, 3))] == [(3, 2)] * 2
    orbit, amplitude = points.orbit, jfstat.Amplitude([1e-24, 2e-24], 0.1)
    assert len(orbit[1:]) == 4 and [float(x.h0) for x in amplitude] == [1e-24, 2e-24]
    first, *rest = amplitude
    assert len(rest) == 1 and first.psi.shape == ()


@pytest.mark.parametrize("index", [6, -7, [0, 6], (0, 0), "alpha", 1.0, np.ones(5, bool), (..., 0, 0)], ids=str)
def test_index_errors(index):
    with pytest.raises(IndexError) as error:
        stack((6,))[index]
    assert "\n" not in str(error.value)


def test_a_single_template():
    point = stack(())
    for refused, kind in (
        (lambda: len(point), TypeError),
        (lambda: iter(point), TypeError),
        (lambda: list(point), TypeError),
        (lambda: point[0], IndexError),
        (lambda: point[:], IndexError),
    ):
        with pytest.raises(kind, match="single Doppler"):
            refused()
    assert point[()].alpha == point[...].alpha == point.alpha
    assert point[None].fkdot.shape == (1, 2) and len(point[None]) == 1
    assert bool(point) and bool(jfstat.Amplitude([], 0.1))


def test_parts_of_a_bank_keep_what_it_varied():
    bank = with_fields(jfstat.Doppler([1.0, 1.1, 1.2], 0.3, [100.0]), varied=("alpha",))
    assert bank[:2].varied == bank[[0]].varied == ("alpha",)
    assert bank[0].varied is None and next(iter(bank)).varied is None


def test_transformations_see_the_same_tree():
    points = stack((4,))
    again = jax.tree.map(lambda x: x, points)
    assert jax.tree.structure(again) == jax.tree.structure(points)
    by_map = jax.vmap(lambda p: p.fkdot[0] + p.orbit.asini)(points)
    np.testing.assert_array_equal(by_map, [p.fkdot[0] + p.orbit.asini for p in points])
    # a traced index, and a traced stack
    np.testing.assert_array_equal(jax.jit(lambda p, i: p[i].fkdot)(points, 2), points.fkdot[2])
    np.testing.assert_array_equal(jax.jit(lambda p: p[1:3].motion)(points), points.motion[1:3])
    assert len(jax.eval_shape(lambda p: p[::2], points)) == 2
    total = jax.jit(lambda p: sum(x.alpha for x in p))(points)
    np.testing.assert_allclose(total, points.alpha.sum())
    slope = jax.grad(lambda p: p[1].alpha)(points[:, None][:, 0])
    np.testing.assert_array_equal(slope.alpha, [0, 1, 0, 0])


def test_parts_keep_their_digits_where_64_bits_are_off():
    """Whoever works in ``with jax.enable_x64(True)`` may index outside of it."""
    points = stack((6,))
    with jax.enable_x64(False):
        parts = [points[2], points[jnp.asarray([2, 2])][1], list(points)[2], points[np.arange(6) == 2][0]]
    for part in parts:
        assert all(x.dtype == y.dtype for x, y in zip(jax.tree.leaves(part), jax.tree.leaves(points), strict=True))
        for x, y in zip(leaves(part), leaves(points[2]), strict=True):
            np.testing.assert_array_equal(x, y)
