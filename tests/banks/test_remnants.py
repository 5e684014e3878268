"""Banks for young remnants: exact tracks are near templates, knots follow them, a remnant is found and refined."""

import jax.numpy as jnp
import numpy as np
import pytest
from test_orbit_banks import gaps, least_losses, rows

import jfstat

START, DAY, SKY = 1167458304, 86400.0, (2.1, 0.47)
FREQ = 300.0


def braked(t, p):
    """The phase of a source with a braking index, less that of its first frequency."""
    m, x = p["n"] - 1, -p["slope"] / p["freq"] * t
    return -(p["freq"] ** 2) / p["slope"] * jnp.expm1((m - 1) / m * jnp.log1p(m * x)) / (m - 1) - p["freq"] * t


def remnants(freq, slope, n):
    model = jfstat.PhaseModel(braked, {"freq": freq, "slope": slope, "n": n})
    shape = np.shape(freq)
    return jfstat.Doppler(np.full(shape, SKY[0]), SKY[1], np.asarray(freq)[..., None], START, model=model)


POINT = jfstat.Doppler(*SKY, [FREQ], START)


@pytest.mark.parametrize(
    ("days", "f1dot", "index", "pieces"),
    [
        (1, (-1.001e-5, -1e-5), (3.0, 5.0), 1),
        pytest.param(0.5, (-1.00001e-3, -1e-3), (4.99, 5.01), None, marks=pytest.mark.ci),
    ],
)
def test_no_remnant_loses_more_than_the_mismatch(days, f1dot, index, pieces):
    observation, m, n = gaps(days), 0.2, 25
    bank = jfstat.remnant_bank(observation, POINT, f1dot, index, m)
    if pieces is not None:
        assert bank.model.parameters["knots"].shape[-1] == pieces + 1
    rng = np.random.default_rng(2)
    signals = remnants(np.full(n, FREQ), rng.uniform(*f1dot, n), rng.uniform(*index, n))
    k = len(bank)
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


def test_a_band_widens_the_range_of_braking_indices():
    seen, f1dot, m = gaps(1), (-1.0001e-5, -1e-5), 0.1
    for low in (None, 150.0):
        band = None if low is None else (low, FREQ)
        bank = jfstat.remnant_bank(seen, POINT, f1dot, (4.0, 5.0), m, band=band)
        second = (bank.model.parameters["f1dot"][:, 1] - bank.model.parameters["f1dot"][:, 0]) / 87000.0
        n = np.asarray(second * FREQ / 1e-10)
        assert n.min() == pytest.approx(4.0, abs=0.25) and n.max() == pytest.approx(5.0 * FREQ / (low or FREQ), abs=0.3)


def test_changing_indices_take_more_templates():
    seen, f1dot, knots = gaps(1), (-1.0001e-5, -1e-5), [0.0, 30000.0, 60000.0, 87000.0]
    sizes = [
        len(jfstat.remnant_bank(seen, POINT, f1dot, (3.0, 5.0), 0.2, change=change, knots=knots))
        for change in (0.0, 0.2, 2.0)
    ]
    assert sizes[0] < sizes[1] < sizes[2]


@pytest.mark.ci
def test_a_remnant_is_found_and_refined():
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
    data = jfstat.prepare(sfts, 300.32, 300.42, reftime=START, fdots=[(-1.014e-5, 0.0)])
    point = jfstat.Doppler(*SKY, [300.42], START)
    bank = jfstat.remnant_bank(data, point, (-1.013e-5, -1.012e-5), (3.0, 5.0), 0.2, band=(300.32, 300.42))
    found = jfstat.search(data, bank, top=1, progress=False)
    row = jfstat.refine(data, found, model=bank[0].model, fit=jfstat.Fit(["freq", *bank.varied]), progress=False)[0]
    knots = np.asarray(bank.model.parameters["knots"])[0]
    freq, f1dot, _ = jfstat.braking_evolution(true, slope, n, knots)
    expected = {"freq": true, "model.drift[1]": freq[1] - true, "model.f1dot[0]": slope, "model.f1dot[1]": f1dot[1]}
    assert set(expected) == {"freq", *bank.varied}
    for name, value in expected.items():
        error = float(getattr(row[f"{name}_error"], "value", row[f"{name}_error"]))
        assert abs(float(getattr(row[name], "value", row[name])) - float(value)) < 4 * error, name
    assert row["converged"] and row["twoF"] > found["twoF"][0] > 0.75 * float(jfstat.twoF(data, signal))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(f1dot=(0.0, 1e-5)), "f1dot must be at most 0"),
        (dict(f1dot=-1e-5), "f1dot must be .low, high."),
        (dict(braking_index=(5.0, 3.0)), "braking_index must have low <= high"),
        (dict(braking_index=(-1.0, 3.0)), "braking_index must be .low, high. within 0 and 20"),
        (dict(band=(100.0, 400.0)), "band must lie above 0 and at most at the point's frequency"),
        (dict(point=jfstat.Doppler(*SKY, [FREQ, -1e-5], START)), "point must have a frequency alone"),
        (dict(point=jfstat.Doppler(*SKY, [FREQ], START + 5e4)), "after the start of the data"),
        (dict(knots=[10.0, 90000.0]), "the first of them 0"),
        (dict(knots=[0.0, 40000.0]), "knots must reach the end of the data"),
        (dict(change=0.1, knots=np.linspace(0, 87000.0, 10)), "change must be 0 for 9 pieces"),
        (dict(change=-0.1), "change must be at least 0"),
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
