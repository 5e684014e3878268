"""Banks for young remnants: exact tracks are near templates, knots follow them, a remnant is found and refined."""

import jax.numpy as jnp
import numpy as np
import pytest
from test_orbit_banks import gaps, least_losses, rows

import jfstat
from jfstat.signal.values import with_fields

START, DAY, SKY = 1167458304, 86400.0, (2.1, 0.47)
BIRTH = START - 1000
FREQ = 300.0


def braked(t, p):
    """The phase of a source with a braking index, less that of its first frequency."""
    m, x = p["n"] - 1, -p["slope"] / p["freq"] * t
    return -(p["freq"] ** 2) / p["slope"] * jnp.expm1((m - 1) / m * jnp.log1p(m * x)) / (m - 1) - p["freq"] * t


def remnants(freq, slope, n):
    model = jfstat.PhaseModel(braked, {"freq": freq, "slope": slope, "n": n})
    shape = np.shape(freq)
    return jfstat.Doppler(np.full(shape, SKY[0]), SKY[1], np.asarray(freq)[..., None], BIRTH, model=model)


POINT = jfstat.Doppler(*SKY, [FREQ], BIRTH)


@pytest.mark.parametrize(
    ("days", "f1dot", "index", "first", "pieces"),
    [
        (1, (-1.001e-5, -1e-5), (3.0, 5.0), FREQ, 1),
        pytest.param(0.5, (-1.000001e-3, -1e-3), (4.999, 5.001), FREQ, None, marks=pytest.mark.ci),
        pytest.param(0.5, (-1.0000001e-3, -1e-3), (4.999, 5.001), FREQ - 1, None, marks=pytest.mark.ci),
    ],
)
def test_no_remnant_loses_more_than_the_mismatch(days, f1dot, index, first, pieces):
    observation, m, n = gaps(days), 0.2, 25
    bank = jfstat.remnant_bank(observation, POINT, f1dot, index, m, band=(first, FREQ))
    if pieces is not None:
        assert bank.model.parameters["knots"].shape[-1] == pieces + 1
    rng = np.random.default_rng(2)
    freqs = np.full(n, first)  # a search compares them with templates at their own frequency
    signals = remnants(freqs, rng.uniform(*f1dot, n), rng.uniform(*index, n))
    k, bank = len(bank), with_fields(bank, fkdot=np.full((len(bank), 1), first))
    lost = least_losses(observation, rows(signals, np.repeat(np.arange(n), k)), rows(bank, np.tile(np.arange(k), n)))
    assert 10 < k < 2000
    assert np.max(np.min(np.asarray(lost).reshape(n, k), axis=1)) < m


def test_knots_are_the_fewest_that_follow_the_tracks():
    seen = gaps(1)
    fast = (-1.001e-3, -1e-3), (4.9, 5.1)
    bank = jfstat.remnant_bank(seen, POINT, (-1.0000001e-3, -1e-3), (4.999, 5.001), 0.2)
    knots = np.asarray(bank.model.parameters["knots"])[0]
    assert len(knots) > 4 and knots[0] == 0 and knots[-1] > DAY
    assert np.all(np.diff(knots, 2) > 0)  # denser at first, where the frequency falls fastest
    fewer = np.interp(np.linspace(0, 1, len(knots) - 2), np.linspace(0, 1, len(knots)), knots)
    with pytest.raises(ValueError, match="knots are too far apart: with them the model loses"):
        jfstat.remnant_bank(seen, POINT, *fast, 0.2, knots=fewer)


def test_data_have_a_band_and_observations_one_frequency():
    sfts = jfstat.simulate_sfts(["H1"], START, DAY, 298.0, 301.0, sqrt_sx=1e-23)
    data = jfstat.prepare(sfts, 299.9, FREQ, reftime=BIRTH, fdots=[(-1.001e-5, 0.0)], filters=False)
    given = (POINT, (-1.001e-5, -1e-5), (3.0, 5.0), 0.2)
    banks = [jfstat.remnant_bank(data, *given, band=band) for band in (None, (299.9, FREQ), (FREQ, FREQ))]
    assert len(banks[0]) == len(banks[1]) >= len(banks[2])
    drifts = [np.asarray(bank.model.parameters["drift"]) for bank in banks[:2]]
    np.testing.assert_array_equal(*drifts)


@pytest.mark.parametrize(
    ("alpha", "delta", "asini"), [(5.0, -0.384, None), pytest.param(2.1, 0.47, 2000.0, marks=pytest.mark.ci)]
)
def test_data_lie_between_the_knots_whatever_the_delays(alpha, delta, asini):
    """The light of the first sky arrives at the SSB 492 s before it does at the Earth; the orbit is wider still."""
    times = START + 60 * np.arange(60)
    seen = jfstat.observation(["H1", "L1"], timestamps={"H1": times, "L1": times}, tsft=60)
    orbit = None if asini is None else jfstat.Orbit(asini, 3e5, START - 7.5e4)
    point = jfstat.Doppler(alpha, delta, [FREQ], orbit=orbit)
    m, f1dot, index, n = 0.1, (-3.00001e-3, -3e-3), (4.99, 5.01), 10
    bank = jfstat.remnant_bank(seen, point, f1dot, index, m)
    rng = np.random.default_rng(2)
    model = jfstat.PhaseModel(
        braked, {"freq": np.full(n, FREQ), "slope": rng.uniform(*f1dot, n), "n": rng.uniform(*index, n)}
    )
    orbits = None if orbit is None else jfstat.Orbit(*(np.full(n, float(x)) for x in (asini, 3e5, START - 7.5e4)))
    signals = jfstat.Doppler(np.full(n, alpha), delta, np.full((n, 1), FREQ), bank[0].reftime, orbits, model=model)
    k = len(bank)
    lost = least_losses(seen, rows(signals, np.repeat(np.arange(n), k)), rows(bank, np.tile(np.arange(k), n)))
    assert np.max(np.min(np.asarray(lost).reshape(n, k), axis=1)) < m


def test_one_braking_index():
    bank = jfstat.remnant_bank(gaps(1), POINT, (-1.0001e-5, -1e-5), (3.0, 3.0), 0.2)
    assert 1 < len(bank) < 60


@pytest.mark.ci
def test_changing_indices_take_more_templates():
    seen, f1dot, knots = gaps(1), (-1.0001e-5, -1e-5), [0.0, 30000.0, 60000.0, 88500.0]
    sizes = [
        len(jfstat.remnant_bank(seen, POINT, f1dot, (3.0, 5.0), 0.2, change=change, knots=knots))
        for change in (0.0, 0.2, 2.0)
    ]
    assert sizes[0] < sizes[1] < sizes[2]


@pytest.fixture(scope="module")
def search_for_a_remnant():
    """Data with a signal, the signal, a bank and what a search by it finds."""
    true, slope, n = 300.3702, -1.0123e-5, 4.1
    signal = remnants(true, slope, n)
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"],
        START,
        DAY,
        297.0,
        302.0,
        sqrt_sx=1e-23,
        signals=[(signal, jfstat.Amplitude(9e-25, 0.2, 0.3, 1.0))],
    )
    data = jfstat.prepare(sfts, 300.32, 300.42, reftime=BIRTH, fdots=[(-1.014e-5, 0.0)])
    point = jfstat.Doppler(*SKY, [300.42], BIRTH)
    bank = jfstat.remnant_bank(data, point, (-1.013e-5, -1.012e-5), (3.0, 5.0), 0.2, band=(300.32, 300.42))
    return (true, slope, n), data, signal, bank, jfstat.search(data, bank, top=1, progress=False)


@pytest.mark.ci
def test_a_remnant_is_found(search_for_a_remnant):
    (true, *_), data, signal, _, found = search_for_a_remnant
    assert found["twoF"][0] > 0.75 * float(jfstat.twoF(data, signal)) > 60
    assert float(getattr(found["freq"][0], "value", found["freq"][0])) == pytest.approx(true, abs=1e-3)


@pytest.mark.slow
def test_a_remnant_is_refined(search_for_a_remnant):
    (true, slope, n), data, _, bank, found = search_for_a_remnant
    row = jfstat.refine(data, found, model=bank[0].model, fit=jfstat.Fit(["freq", *bank.varied]), progress=False)[0]
    knots = np.asarray(bank.model.parameters["knots"])[0]
    freq, f1dot, _ = jfstat.braking_evolution(true, slope, n, knots)
    expected = {"freq": true, "model.drift[1]": freq[1] - true, "model.f1dot[0]": slope, "model.f1dot[1]": f1dot[1]}
    assert set(expected) == {"freq", *bank.varied}
    for name, value in expected.items():
        error = float(getattr(row[f"{name}_error"], "value", row[f"{name}_error"]))
        assert abs(float(getattr(row[name], "value", row[name])) - float(value)) < 4 * error, name
    assert row["converged"] and row["twoF"] > found["twoF"][0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(f1dot=(0.0, 1e-5)), "f1dot must be at most 0"),
        (dict(f1dot=(0.0, 0.0)), "f1dot must reach below 0"),
        (dict(f1dot=-1e-5), "f1dot must be .low, high."),
        (dict(braking_index=(5.0, 3.0)), "braking_index must have low <= high"),
        (dict(braking_index=(-1.0, 3.0)), "braking_index must be .low, high. within 1 and 20"),
        (dict(band=(100.0, 400.0)), "band must lie above 0 and at most at the point's frequency"),
        (dict(point=jfstat.Doppler(*SKY, [FREQ, -1e-5], START)), "point must have a frequency alone"),
        (dict(point=jfstat.Doppler(*SKY, [FREQ], START + 5e4)), "the time of the first knot, and the data begin at"),
        (dict(knots=[10.0, 90000.0]), "the first of them 0"),
        (dict(knots=[0.0, 40000.0]), "knots must reach the end of the data"),
        (dict(change=0.1, knots=np.linspace(0, 88500.0, 10)), "change must be 0 for 9 pieces"),
        (dict(change=-0.1), "change must be within 0 and 20"),
        (dict(change=float("nan")), "change must be within 0 and 20"),
        (dict(band=(310.0, 290.0)), "band must have low <= high"),
        (dict(knots=[0.0, 6e4, float("inf")]), "knots must be"),
        (dict(mismatch=2.0), "mismatch"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message):
    given = dict(point=POINT, f1dot=(-1.001e-5, -1e-5), braking_index=(3.0, 5.0), mismatch=0.2) | arguments
    with pytest.raises(ValueError, match=message) as error:
        jfstat.remnant_bank(gaps(1), **given)
    assert "\n" not in str(error.value)


def test_a_change_with_one_piece_is_refused():
    with pytest.raises(ValueError, match="change has no effect on one piece"):
        jfstat.remnant_bank(gaps(1), POINT, (-1.001e-5, -1e-5), (3.0, 5.0), 0.2, change=0.1)
