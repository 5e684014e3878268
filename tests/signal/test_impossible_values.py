"""Values that no template can have: traced they give NaN, never the 4 of pure noise; in banks they are refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import make

import jfstat
from jfstat.candidates.details import kept_columns
from jfstat.engines.choice import engine_named
from jfstat.searching.bank import stacked_bank
from jfstat.searching.reduce.loudest import loudest
from jfstat.signal.values import with_fields

ORBIT = jfstat.Orbit(asini=1.2, period=40000.0, tp=1.1e9 + 0.25, ecc=0.3, argp=0.7)
SKY = [("alpha", np.nan), ("alpha", np.inf), ("delta", np.nan), ("delta", 2.0), ("delta", -np.inf), ("f1dot", np.nan)]
ORBITAL = [("asini", np.nan), ("asini", -1.0), ("period", -1.0), ("period", 0.0), ("tp", np.inf), ("ecc", 1.2)]
ORBITAL += [("ecc", -0.1), ("argp", np.nan), ("asini", 1e4)]


@pytest.fixture(scope="module")
def case():
    return make(100.0, seed=5, noise=True, orbit=ORBIT, reach=0.2, days=0.5)


@pytest.fixture(scope="module")
def near(case):
    return jfstat.narrow(case.data, case.doppler)


def changed(point, name, value):
    """The template with another value of a field, without its constructor's checks."""
    value = jnp.asarray(value, jnp.float64)
    if name in ("freq", "f1dot"):
        return with_fields(point, fkdot=point.fkdot.at[int(name != "freq")].set(value))
    if name in ("alpha", "delta"):
        return with_fields(point, **{name: value})
    return with_fields(point, orbit=with_fields(point.orbit, **{name: value}))


@jax.jit
def everything(data, near, point, amplitude):
    full, close = jfstat.fstat(data, point), jfstat.fstat(near, point)
    return {
        "twoF": jfstat.twoF(data, point),
        "twoF of narrow data": jfstat.twoF(near, point),
        "per detector": full.twoF_per_detector,
        "per detector of narrow data": close.twoF_per_detector,
        "Fa": full.Fa,
        "amplitude": jfstat.estimate_amplitude(data, point).amplitude.h0,
        "band": jfstat.twoF_band(data, point),
    }


@jax.jit
def gradients(data, near, point):
    return jax.grad(jfstat.twoF, argnums=1)(data, point), jax.grad(jfstat.twoF, argnums=1)(near, point)


@pytest.mark.ci
@pytest.mark.parametrize(("name", "value"), [*SKY, *ORBITAL, ("freq", np.nan)])
def test_traced_values_that_no_template_has_give_nan(case, near, name, value):
    point = changed(case.doppler, name, value)
    for what, found in everything(case.data, near, point, case.amplitude).items():
        if name == "freq" and what == "band":
            assert np.isfinite(found).any()  # which ignores the template's frequency
        else:
            assert np.isnan(found).all(), what
    if name in ("alpha", "delta"):
        assert np.isnan(jax.jit(jfstat.predict_twoF)(case.data, point, case.amplitude))
    assert not jax.jit(jfstat.covers)(near, point)
    for gradient in gradients(case.data, near, point):
        assert np.isnan(gradient.fkdot[0])
    columns = kept_columns(case.data, jax.tree.map(lambda x: np.asarray(x)[None], point), True)
    assert all(np.isnan(x).all() for x in columns.values())


def test_sound_values_give_numbers(case, near):
    for what, found in everything(case.data, near, case.doppler, case.amplitude).items():
        assert np.isfinite(found).any(), what


@pytest.mark.parametrize(("name", "value"), [("alpha", np.nan), ("delta", 2.0), ("period", -1.0)])
def test_concrete_values_made_without_the_constructor_are_refused(case, near, name, value):
    point = changed(case.doppler, name, value)
    for call in (
        lambda: jfstat.twoF(case.data, point),
        lambda: jfstat.fstat(near, point),
        lambda: jfstat.twoF_band(case.data, point),
        lambda: jfstat.narrow(case.data, point),
    ):
        with pytest.raises(ValueError, match=f"^{name} must be"):
            call()


def test_a_bank_with_impossible_templates_is_refused_with_their_rows(case):
    alpha = jnp.asarray(case.doppler.alpha) + 1e-3 * jnp.arange(7.0)
    alpha = alpha.at[jnp.array([3, 5])].set(jnp.nan)
    bank = jax.vmap(lambda x: with_fields(case.doppler, alpha=x))(alpha)
    with pytest.raises(ValueError, match=r"bank holds 2 impossible template.*first in row 3: alpha must be finite"):
        jfstat.search(case.data, bank, progress=False)


@pytest.mark.ci
def test_impossible_templates_do_not_spread_to_the_maxima_of_others(case):
    stack = stacked_bank(jax.tree.map(lambda x: jnp.stack([x] * 3), case.doppler))
    broken = with_fields(stack, alpha=stack.alpha * np.array([1.0, np.nan, 1.0]))
    engine = engine_named("xla", None)
    sound, found = (loudest(case.data, points, 3, 20, engine) for points in (stack, broken))
    assert np.isfinite(found.twoF).all() and found.twoF[0] == sound.twoF[0]
    assert set(np.asarray(found.template).tolist()) == {0, 2}
    assert int(found.histogram.sum()) * 3 == int(sound.histogram.sum()) * 2
    np.testing.assert_array_equal(found.sections, sound.sections)


@pytest.mark.parametrize("floor", [1e-170, 1e-310, 1e200, np.inf])
def test_noise_floors_whose_squares_are_no_numbers_are_refused(floor):
    sfts = jfstat.simulate_sfts("H1", 1_167_458_304, 3600, 98.5, 101.5)
    for call in (
        lambda: jfstat.prepare(sfts, 100.0, 100.1, sqrt_sx=floor),
        lambda: jfstat.observation(sfts, sqrt_sx={"H1": floor}),
        lambda: jfstat.simulate_sfts("H1", 1_167_458_304, 3600, 98.5, 101.5, sqrt_sx=floor),
    ):
        with pytest.raises(ValueError, match="sqrt_sx of H1 must be positive, within 1e-150 to 1e"):
            call()


@pytest.mark.ci
def test_narrow_under_jit_takes_a_traced_sky_position_or_says_what_it_cannot(case):
    isolated = make(100.0, seed=6, days=0.25)
    point = isolated.doppler

    def value(data, alpha):
        moved = with_fields(point, alpha=alpha)
        return jfstat.twoF(jfstat.narrow(data, moved), moved)

    alpha = jnp.asarray(point.alpha)
    found = jax.jit(lambda x: value(isolated.data, x))(alpha)
    np.testing.assert_allclose(found, jfstat.twoF(isolated.data, point), rtol=1e-5)
    with pytest.raises(ValueError, match="data, and point if it has an orbit, must not be traced"):
        jax.jit(value)(isolated.data, alpha)


def test_half_precision_is_refused():
    """It keeps three digits: 2F would be another template's, without a word."""
    for wrong in (np.float16(1.0), jnp.asarray(1.0, jnp.bfloat16), np.array([1.0, 2.0], np.float16)):
        with pytest.raises(ValueError, match=r"^alpha must be float64, not b?float16"):
            jfstat.Doppler(wrong, 0.3, [100.0])
