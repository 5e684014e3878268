"""Under jax.jit functions work, or say in one sentence that they cannot be traced."""

import os
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import make
from wrong_kinds import sound_calls

import jfstat


@pytest.fixture(scope="module")
def case():
    return make(100.0, seed=4, days=0.25, duty=1.0, half_band=0.01)


def test_functions_of_the_host_say_so(case):
    bank = jfstat.Doppler(np.ones(2), 0.3, [case.doppler.fkdot[0]], case.data.reftime)
    said = r"works on the host and cannot be traced, as {} is: call it outside of jax.jit.*{}"
    for function, arguments, names, instead in (
        (jfstat.search, (case.data, bank), "data and bank", "or jax.vmap jfstat.twoF_band there"),
        (jfstat.refine, (case.data, case.doppler), "data and found", "or maximise jfstat.twoF of narrow data there"),
        (jfstat.template_bank, (1.0, 0.3), "alpha and delta", ""),
        (jfstat.sensitivity_depth, (case.data, 1e-24), "data and h0", ""),
    ):
        with pytest.raises(ValueError, match=rf"^{function.__name__} {said.format(names, instead)}"):
            jax.jit(function)(*arguments)
    with pytest.raises(ValueError, match="follow_up works on the host"):
        jax.eval_shape(lambda sqrt_sx: jfstat.follow_up(None, None, sqrt_sx=sqrt_sx), 4e-24)
    with pytest.raises(ValueError, match="prepare works on the host and cannot be traced, as fmin is"):
        jax.vmap(lambda fmin: jfstat.prepare(None, fmin, 101.0))(np.array([99.0, 100.0]))
    with pytest.raises(ValueError, match="location must be known and cannot be traced"):
        jax.grad(lambda x: jfstat.Detector("Z1", [x, 0.0, 0.0], np.eye(3)[:2]))(6.35e6)


@pytest.mark.ci
def test_every_call_with_traced_arguments_works_or_says_what_cannot_be_traced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    calls, count, wrong = sound_calls(tmp_path), 0, []
    for name, (function, arguments) in calls.items():
        numbers = {key: value for key, value in arguments.items() if traceable(value)}
        for chosen in ({key: value} for key, value in numbers.items()):
            found = problem(function, arguments, chosen)
            count += 1
            wrong += [f"{name}({', '.join(chosen)}): {found}"] if found else []
    assert count > 150
    assert os.listdir(tmp_path)
    assert not wrong, "\n".join(wrong)


def traceable(x):
    try:
        leaves = jax.tree.leaves(x)
    except TypeError:
        return False
    return bool(leaves) and all(isinstance(leaf, float) or is_of_numbers(leaf) for leaf in leaves)


def is_of_numbers(x):
    """Whether an array holds numbers, or keys of random numbers."""
    if not isinstance(x, (jax.Array, np.ndarray)):
        return False
    return any(jnp.issubdtype(x.dtype, kind) for kind in (np.number, jax.dtypes.prng_key))


def problem(function, arguments, chosen):
    """What is wrong with how a call ends; None if it works, or its error is a good one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            jax.eval_shape(lambda traced: [function(**arguments | traced), 0][1], chosen)
    except (TypeError, ValueError) as error:
        text = str(error)
        if type(error).__module__ != "builtins" or "\n" in text or not any(name in text for name in chosen):
            return repr(error)
    except Exception as error:
        return repr(error)
    return None
