"""What is told of kept candidates: the values of the public functions, and the same bits in whatever company."""

import jax
import numpy as np
import pytest
from cases import make

import jfstat
from jfstat.candidates.details import kept_columns

ORBIT = jfstat.Orbit(asini=1.2, period=40000.0, tp=1.2e9 + 0.25, ecc=0.3, argp=0.7)
CASES = {
    "two detectors": dict(days=1),
    "one detector": dict(days=0.7, detectors=("V1",)),
    "binary": dict(days=0.5, orbit=ORBIT, reach=0.05),
}
K = 37


@pytest.fixture(
    scope="module",
    params=["two detectors", *(pytest.param(k, marks=pytest.mark.slow) for k in ("one detector", "binary"))],
)
def case(request):
    return make(100.0, seed=len(request.param), half_band=0.02, noise=True, h0=2e-24, **CASES[request.param])


@pytest.fixture(scope="module")
def found(case):
    """Candidates of random parameters, the signal's own the last."""
    rng = np.random.default_rng(1)
    p = case.doppler

    def near(x, scale):
        return np.append(float(x) + scale * rng.uniform(-1, 1, K - 1), float(x))

    orbit = None
    if p.orbit is not None:
        orbit = jfstat.Orbit(near(1.2, 0.1), near(40000.0, 50.0), near(p.orbit.tp, 100.0), 0.3, near(0.7, 0.5))
    fkdot = np.stack([near(p.fkdot[0], 0.01), near(p.fkdot[1], 1e-9)], axis=-1)
    stack = jfstat.Doppler(near(p.alpha, 1.0), np.clip(near(p.delta, 0.5), -1.5, 1.5), fkdot, p.reftime, orbit)
    stack = jax.tree.map(np.array, stack)
    stack.delta[-1] = float(p.delta)
    return stack


def rows(found, index):
    return jax.tree.map(lambda x: x[index], found)


@pytest.fixture(scope="module")
def whole(case, found):
    return kept_columns(case.data, found, True)


def test_values_are_those_of_the_public_functions(case, found, whole):
    names = ["twoF", *(f"twoF_{name}" for name in case.data.detectors)]
    fields = ["h0", "cosi", "psi", "phi0"]
    assert list(whole) == [*names, *fields, *(f"{name}_error" for name in fields)]
    assert all(x.shape == (K,) and x.dtype == np.float64 for x in whole.values())
    for i in (0, K // 2, K - 1):
        one = rows(found, i)
        own = jfstat.fstat(case.data, one)
        each = [own.twoF, *np.asarray(own.twoF_per_detector)]
        np.testing.assert_allclose([whole[name][i] for name in names], each, rtol=1e-6)
        estimate = jfstat.estimate_amplitude(case.data, one)
        for name in fields:
            scale = 0.0 if name == "h0" else 1.0
            np.testing.assert_allclose(whole[name][i], getattr(estimate.amplitude, name), rtol=1e-5, atol=1e-5 * scale)
            np.testing.assert_allclose(whole[f"{name}_error"][i], getattr(estimate.errors, name), rtol=1e-5)
    assert abs(whole["h0"][-1] - float(case.amplitude.h0)) < 5 * whole["h0_error"][-1]
    without = kept_columns(case.data, found, False)
    assert list(without) == names
    for name in names:
        np.testing.assert_allclose(without[name], whole[name], rtol=1e-9)


@pytest.mark.parametrize("amplitudes", [True, False])
def test_same_bits_in_any_company(case, found, whole, amplitudes):
    whole = whole if amplitudes else kept_columns(case.data, found, False)
    mine = K - 1
    rng = np.random.default_rng(3)
    for index in ([mine], [mine, 0, 1], [0, mine], [5, mine, 7], rng.permutation(K), rng.permutation(K)[: K // 2]):
        part = kept_columns(case.data, rows(found, np.array(index)), amplitudes)
        for name, x in part.items():
            assert x.tobytes() == whole[name][index].tobytes(), name


def test_no_candidates_and_those_that_do_not_fit(case, found):
    empty = kept_columns(case.data, rows(found, slice(0)), True)
    assert all(x.shape == (0,) and x.dtype == np.float64 for x in empty.values())
    outside = rows(found, slice(2))
    outside.fkdot[1, 0] += 5.0
    columns = kept_columns(case.data, outside, False)
    assert all(np.isfinite(x[0]) and np.isnan(x[1]) for x in columns.values())
    outside.fkdot[1, 0] -= 5.0  # a slice is a view
