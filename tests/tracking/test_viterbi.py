"""Viterbi paths and the forward-backward algorithm against sums and maxima over all paths, and against soapcw."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfstat


def every_path(table, transitions, drift=None):
    """The best path and its value, the log-evidence and the posterior of a small table, by enumerating all paths."""
    table = table if table.ndim == 3 else table[..., None]
    n_segments, n, m = table.shape
    weights = np.asarray(transitions)
    weights = weights if weights.ndim == 2 else weights[:, None]
    w, v = weights.shape[0] // 2, weights.shape[1] // 2
    drift = [0] * m if drift is None else drift
    best, total = (-np.inf, None), -np.inf
    joint = np.full(table.shape, -np.inf)
    for path in itertools.product(itertools.product(range(n), range(m)), repeat=n_segments):
        value = table[0][path[0]]
        for k in range(1, n_segments):
            bins = path[k][0] - path[k - 1][0] - drift[path[k - 1][1]]
            f1dots = path[k][1] - path[k - 1][1]
            if abs(bins) > w or abs(f1dots) > v:
                break
            value = value + weights[bins + w, f1dots + v] + table[k][path[k]]
        else:
            best = max(best, (value, path))
            total = np.logaddexp(total, value)
            for k in range(n_segments):
                joint[k][path[k]] = np.logaddexp(joint[k][path[k]], value)
    return best, total - np.log(n * m), np.exp(joint - total)


RANDOM = np.random.default_rng(0)
PROBLEMS = {
    "a bin up, stay or down": ((5, 5), np.log([0.2, 0.5, 0.3]), None),
    "two bins": ((4, 6), np.log([0.1, 0.2, 0.4, 0.2, 0.1]), None),
    "stay only": ((4, 5), [0.0], None),
    "one segment": ((1, 4), np.zeros(3), None),
    "wider than the band": ((3, 4), np.log(np.arange(1, 12) / 66), None),
    "f1dot": ((3, 5, 3), -abs(RANDOM.normal(size=(3, 3))), [-1, 0, 2]),
    "f1dot that stays": ((4, 4, 2), -abs(RANDOM.normal(size=3)), [0, 1]),
}


@pytest.mark.ci
@pytest.mark.parametrize("name", PROBLEMS)
def test_all_paths(name):
    shape, transitions, drift = PROBLEMS[name]
    table = 3 * RANDOM.normal(size=shape)
    (value, path), evidence, posterior = every_path(table, transitions, drift)
    best = jfstat.viterbi(table, transitions, drift=drift)
    assert float(best.log_likelihood) == pytest.approx(value, rel=1e-12)
    assert float(jnp.max(best.final)) == float(best.log_likelihood)
    wanted = np.array(path) if len(shape) == 3 else np.array(path)[:, 0]
    np.testing.assert_array_equal(best.path, wanted)
    found = jfstat.forward_backward(table, transitions, drift=drift)
    assert float(found.log_evidence) == pytest.approx(evidence, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(found.posterior, posterior.reshape(shape), atol=1e-12)
    slope = jax.grad(lambda x: jfstat.forward_backward(x, transitions, drift=drift).log_evidence)(jnp.asarray(table))
    np.testing.assert_allclose(slope, found.posterior, atol=1e-12)


def test_gradients_against_finite_differences():
    table, transitions = jnp.asarray(RANDOM.normal(size=(6, 9))), jnp.log(jnp.asarray([0.2, 0.5, 0.3]))

    def evidence(table, transitions):
        return jfstat.forward_backward(table, transitions).log_evidence

    slopes = jax.grad(evidence, (0, 1))(table, transitions)
    step = 1e-5
    for number, x in enumerate((table, transitions)):
        for place in [(0,), (1,)] if number else [(0, 0), (3, 4), (5, 8)]:
            ends = [x.at[place].add(sign * step) for sign in (1, -1)]
            values = [evidence(end, transitions) if number == 0 else evidence(table, end) for end in ends]
            assert float(slopes[number][place]) == pytest.approx(float(values[0] - values[1]) / (2 * step), abs=1e-9)


@pytest.mark.ci
def test_what_cannot_be_and_derivatives_there():
    table = np.zeros((3, 6))
    table[:, 2], table[1, 0], table[1, 5], table[2, 5], table[2, 0] = -np.inf, -np.inf, 9.0, 1.0, 8.0
    table = jnp.asarray(table)
    best = jfstat.viterbi(table, 1)
    # (1, 0) counts as impossible, and the bins of 9 and 8 are too far apart
    np.testing.assert_array_equal(best.path[1:], [5, 5])
    assert float(best.final[2]) == -np.inf
    found = jfstat.forward_backward(table, 1)
    assert np.all(np.asarray(found.posterior)[:, 2] < 1e-30) and float(found.posterior[1, 0]) < 1e-30
    slope = jax.grad(lambda x: jfstat.forward_backward(x, 1).log_evidence)(table)
    assert np.isfinite(slope).all() and float(slope[0, 2]) == 0.0
    nowhere = jnp.full((3, 6), -jnp.inf).at[0].set(0.0)
    assert float(jfstat.viterbi(nowhere).log_likelihood) == -np.inf
    assert float(jfstat.forward_backward(nowhere).log_evidence) == -np.inf
    with pytest.raises(ValueError, match="no finite value"):
        jfstat.viterbi(np.full((2, 3), -np.inf))


@pytest.mark.parametrize("seed", range(4))
def test_tables_with_nan_are_refused_and_traced_nan_is_impossible(seed):
    random = np.random.default_rng(seed)
    table = random.normal(size=(4, 7, 3)[: 2 + seed % 2])
    place = tuple(random.integers(0, n) for n in table.shape)
    table[place] = 100.0
    for wrong in (np.nan, np.inf):
        bad = np.array(table)
        bad[place] = wrong
        for given in (bad, jnp.asarray(bad), bad.tolist()):
            for function in (jfstat.viterbi, jfstat.forward_backward):
                with pytest.raises(ValueError, match=rf"^log_likelihood is {wrong} at \[{place[0]}, {place[1]}.*-inf"):
                    function(given)
    bad[place] = np.nan
    best = jax.jit(lambda x: jfstat.viterbi(x, 1).path)(jnp.asarray(bad))
    bad[place] = -np.inf
    np.testing.assert_array_equal(best, jfstat.viterbi(bad, 1).path)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_many_tables_at_a_time_in_their_own_precision(kind):
    tables = jnp.asarray(RANDOM.normal(size=(4, 8, 30)), kind)
    every = jax.jit(jax.vmap(lambda x: jfstat.viterbi(x, 2)))(tables)
    assert every.log_likelihood.dtype == kind and every.final.shape == (4, 30)
    for i, table in enumerate(tables):
        one = jfstat.viterbi(table, 2)
        np.testing.assert_array_equal(every.path[i], one.path)
        assert float(every.score[i]) == pytest.approx(float(one.score), rel=1e-6)
    evidence = jax.vmap(lambda x: jfstat.forward_backward(x).log_evidence)(tables)
    assert evidence.dtype == kind
    exact = [jfstat.forward_backward(np.asarray(x, np.float64)).log_evidence for x in tables]
    np.testing.assert_allclose(evidence, exact, rtol=1e-5)  # float32


@pytest.mark.ci
def test_many_jumps_are_a_loop_with_the_same_result():
    table = RANDOM.normal(size=(6, 60))
    weights = -abs(RANDOM.normal(size=41))
    best = jfstat.viterbi(table, weights)
    value, previous = table[0], []
    for row in table[1:]:
        candidates = np.array(
            [[value[j] + weights[i - j + 20] if abs(i - j) <= 20 else -np.inf for j in range(60)] for i in range(60)]
        )
        previous.append(np.argmax(candidates, axis=1))
        value = row + np.max(candidates, axis=1)
    path = [int(np.argmax(value))]
    for back in previous[::-1]:
        path.append(int(back[path[-1]]))
    np.testing.assert_array_equal(best.path, path[::-1])
    np.testing.assert_allclose(best.final, value)
    slope = jax.grad(lambda x: jfstat.forward_backward(x, weights).log_evidence)(jnp.asarray(table))
    np.testing.assert_allclose(slope, jfstat.forward_backward(table, weights).posterior, atol=1e-12)


def test_the_score_is_that_of_the_paper():
    best = jfstat.viterbi(RANDOM.chisquare(4, (10, 500)))
    final = np.asarray(best.final)
    assert float(best.score) == pytest.approx((final.max() - final.mean()) / final.std(), rel=1e-12)


def test_soapcws_own_example():
    """Table, transitions, path and values from the tests of soapcw 0.2.4."""
    table = np.array([[1, 1, 1, 1, 1], [1, 2, 3, 4, 5], [5, 4, 3, 2, 1], [1, 5, 4, 3, 6], [7, 3, 6, 3, 5]])
    best = jfstat.viterbi(table, [0, 1, 0])
    np.testing.assert_array_equal(best.path, [1, 1, 1, 1, 0])
    np.testing.assert_array_equal(best.final, [22, 19, 21, 19, 22])
    assert float(best.log_likelihood) == 22


def test_soapcws_path():
    soap = pytest.importorskip("soapcw.soap")
    for transitions in ([0.0, 1.0, 0.0], np.log([0.1, 0.2, 0.4, 0.2, 0.1])):
        table = RANDOM.chisquare(4, (40, 300))
        theirs, ours = soap.single_detector(transitions, table), jfstat.viterbi(table, transitions)
        np.testing.assert_array_equal(ours.path, theirs.vit_track)
        np.testing.assert_allclose(ours.final, theirs.V[-1], rtol=1e-12)


def test_evidences_need_probabilities():
    """The best path needs differences alone."""
    table, scores = np.ones((4, 5)), [0.3, 0.5, 0.3]
    assert jfstat.viterbi(table, scores).path.shape == (4,)
    for call in (
        lambda: jfstat.forward_backward(table, scores),
        lambda: jfstat.BestPath(scores),
        lambda: jfstat.viterbi_null(4, 5, scores),
    ):
        with pytest.raises(ValueError, match="transitions must be log-probabilities, at most 0"):
            call()


@pytest.mark.parametrize(
    "wrong", [[0.25, 0.5, 0.25], jnp.asarray([0.2, 0.2, 0.2, 0.2, 0.2]), np.full((3, 3), 1 / 9), [0.0, 0.4, 0.6]]
)
def test_probabilities_are_refused_in_place_of_their_logarithms(wrong):
    table = np.ones((4, 5, 3) if np.ndim(wrong) == 2 else (4, 5))
    with pytest.raises(
        ValueError, match=r"^transitions must be log-probabilities or other scores.*give np\.log of them"
    ):
        jfstat.viterbi(table, wrong)
    logs = jnp.log(jnp.asarray(wrong))
    expected = jfstat.viterbi(table, logs).log_likelihood
    traced = jax.jit(lambda x: jfstat.viterbi(table, x).log_likelihood)(logs)
    constant = jax.jit(lambda x: jfstat.viterbi(x, np.asarray(logs)).log_likelihood)(table)
    assert float(expected) == float(traced) == float(constant) == pytest.approx(4 + 3 * float(logs.max()))


def test_many_small_probabilities_are_no_logarithms():
    with pytest.raises(ValueError, match="transitions must be log-probabilities, at most 0"):
        jfstat.forward_backward(np.ones((2, 5)), np.full(2001, 1 / 2001))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(log_likelihood=np.ones(3)), "axes of segments"),
        (dict(log_likelihood=np.ones((0, 3))), "axes of segments"),
        (dict(log_likelihood=jnp.ones((2, 3), complex)), "real numbers"),
        (dict(transitions=[0.0, 0.0]), "odd number of jumps"),
        (dict(transitions=-1), "from 0 to"),
        (dict(transitions=[-np.inf]), "log-probabilities"),
        (dict(transitions=np.zeros((3, 3))), "no f1dots"),
        (dict(drift=[1, 2]), "drift must be 1 whole"),
        (dict(drift=[0.5]), "drift must be 1 whole"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        jfstat.viterbi(**(dict(log_likelihood=np.ones((2, 3))) | arguments))
