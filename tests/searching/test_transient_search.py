"""Searches for transient signals at all templates and frequencies of a band."""

import dataclasses
from functools import partial

import astropy.units as u
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from astropy.table import QTable, vstack
from searches import search

import jfstat
from jfstat.followup import transientfit
from jfstat.statistic.transientband import Tiles, Weights

DAY, START = 86400, 1167458304
POINT = jfstat.Doppler(alpha=4.3, delta=0.9, fkdot=[1801.3, 2e-9], reftime=START)
WINDOW = jfstat.TransientWindow("rectangular", START + 21600, 36000.0)
T0, TAU = START + 3600.0 * np.arange(-1, 20), 3600.0 * np.arange(4, 15)


@pytest.fixture(scope="module")
def data():
    """A day with gaps, of two detectors with different noise, high frequency, and a signal of ten hours."""
    times = {
        "H1": np.r_[START + 1800 * np.arange(20), START + 46800 + 1800 * np.arange(22)],
        "V1": START + 900 + 1800 * np.arange(45),
    }
    signal = (POINT, jfstat.Amplitude(h0=4e-24, cosi=-0.2, psi=0.3, phi0=1.0), WINDOW)
    sfts = jfstat.simulate_sfts(
        ["H1", "V1"], START, DAY, fmin=1800.7, fmax=1801.9, sqrt_sx=[1e-23, 2e-23], signals=[signal], timestamps=times
    )
    return jfstat.prepare(sfts, fmin=1801.298, fmax=1801.302, guard=0.3)


@pytest.fixture(scope="module")
def bank():
    fkdot = np.array([[0, 0.0], [0, 2e-9], [0, 4e-9]])
    return jfstat.Doppler(alpha=np.full(3, 4.3), delta=np.full(3, 0.9), fkdot=fkdot, reftime=START)


def values_of(data, transient, bayes=False):
    """Values at the template of the signal, at all frequencies."""
    statistic = jfstat.Transient(transient, ranking="BtSG" if bayes else "F")
    ready = statistic.ready(data)
    every = jnp.asarray([[0], [data.layout.n_frequencies - 1]], jnp.int32)
    points = jax.tree.map(lambda x: x[None], POINT)
    found = jax.jit(lambda ready, points: statistic.values(ready, points, every, False))(ready, points)
    return np.asarray(found[0]), ready


def map_at(data, freq, shape, t0, tau, end=None):
    """The map at a frequency from prepared data, window by window, each sample with its weight."""
    point = dataclasses.replace(POINT, fkdot=POINT.fkdot.at[0].set(freq))
    start, scale = (x.ravel() for x in np.meshgrid(t0, tau, indexing="ij"))
    return np.asarray(two_f_of_windows(data, point, shape, start, scale, end))


@partial(jax.jit, static_argnames=("shape", "end"))
def two_f_of_windows(data, point, shape, start, scale, end):
    """One program for the maps at all frequencies."""
    return jax.lax.map(
        lambda w: jfstat.transient_twoF(data, point, jfstat.TransientWindow(shape, w[0], w[1], end=end)),
        (start, scale),
    )


def loudest_and_others(data, found):
    """The loudest frequency, both ends of the band, and some at random."""
    n = data.layout.n_frequencies
    return [int(np.argmax(found)), 0, n - 1, *np.random.default_rng(3).integers(0, n, 3)]


@pytest.mark.ci
def test_rectangular_windows_are_exact(data):
    """Beside 2F of each window with a weight for every sample, and the mean of exp(F) over them."""
    t0, tau = T0[::3], TAU[::4]
    wanted = jfstat.TransientRange("rectangular", t0, tau)
    found, ready = values_of(data, wanted)
    assert isinstance(ready.windows, Tiles)
    bayes, _ = values_of(data, wanted, True)
    freq = np.asarray(data.frequencies)
    assert abs(freq[np.argmax(found)] - 1801.3) < 3 / DAY
    for number in loudest_and_others(data, found):
        twoF = map_at(data, freq[number], "rectangular", t0, tau)
        # what differs is float32, and how windows share the samples at their ends
        np.testing.assert_allclose(found[number], twoF.max(), rtol=5e-4, atol=0.05)
        mean = jax.scipy.special.logsumexp(0.5 * twoF) - np.log(twoF.size)
        np.testing.assert_allclose(bayes[number], 2 * mean, rtol=5e-4, atol=0.05)


@pytest.mark.ci
def test_exponential_windows_are_those_of_the_atoms(data):
    t0, tau = T0[::3], TAU[::4]
    found, ready = values_of(data, jfstat.TransientRange("exponential", t0, tau, duration=600))
    assert isinstance(ready.windows, Weights)
    for number in loudest_and_others(data, found):
        point = dataclasses.replace(POINT, fkdot=POINT.fkdot.at[0].set(data.frequencies[number]))
        own = jfstat.transient_map(jfstat.atoms(data, point, duration=600), "exponential", t0, tau)
        np.testing.assert_allclose(found[number], own.max_twoF, rtol=1e-3, atol=0.05)


@pytest.mark.ci
def test_windows_as_weights_and_as_tiles_agree(data):
    """A user's function that is 1 takes the other way through the code, by weights of the same slices."""
    t0, tau = T0[1:-5:2], TAU[:4]
    by_tiles, tiles = values_of(data, jfstat.TransientRange("rectangular", t0, tau))
    span = float(data.observation.tspan)
    own = jfstat.TransientRange(_one, t0, tau, duration=span / round(span / 900))
    by_weights, weights = values_of(data, own)
    assert isinstance(tiles.windows, Tiles)
    assert isinstance(weights.windows, Weights)
    np.testing.assert_allclose(by_weights, by_tiles, rtol=2e-3, atol=2e-2)


def _one(x):
    return jnp.ones_like(x)


@pytest.mark.slow
def test_windows_without_steps_in_common(data):
    """Start times at random: as exact, whatever the edges."""
    start = np.sort(np.random.default_rng(5).uniform(START, START + 5e4, 9))
    found, ready = values_of(data, jfstat.TransientRange("rectangular", start, TAU[:3] + 77.7))
    assert isinstance(ready.windows, Tiles)
    for number in loudest_and_others(data, found):
        twoF = map_at(data, data.frequencies[number], "rectangular", start, TAU[:3] + 77.7)
        np.testing.assert_allclose(found[number], twoF.max(), rtol=5e-4, atol=0.05)


@pytest.mark.ci
def test_search_finds_the_signal_and_its_window(data, bank):
    found = jfstat.search(data, bank, jfstat.Transient(jfstat.TransientRange("rect", T0, TAU)), top=20, progress=False)
    best = found[0]
    assert int(best["template"]) == 1
    assert abs(best["freq"].value - 1801.3) < 1 / DAY
    assert abs(best["t0"].value - float(WINDOW.t0)) <= 3600
    assert abs(best["tau"].value - float(WINDOW.tau)) <= 7200
    assert best["max_twoF"] > best["twoF"] + 10
    assert np.all(np.diff(found["max_twoF"]) <= 0)
    np.testing.assert_allclose(found["max_twoF_band"], found["max_twoF"], rtol=0.02)
    meta = found.meta
    assert meta["transient"]["n_windows"] == T0.size * TAU.size
    assert meta["n_twoF"] == 3 * len(data.frequencies) == sum(meta["twoF_histogram"])
    # the columns are those of the targeted table at the same points
    table = jfstat.fstat_table(data, found, transient=jfstat.TransientRange("rect", T0, TAU), progress=False)
    for name in ("max_twoF", "t0", "tau", "log10BtSG", "t0_MP", "tau_MP", "twoF", "twoF_H1", "log10BSGL", "h0"):
        assert found[name].unit == table[name].unit
        np.testing.assert_allclose(
            np.asarray(found[name]), np.asarray(table[name]), rtol=1e-6, atol=1e-5 * (name == "log10BSGL"), err_msg=name
        )


@pytest.mark.slow
def test_ranking_by_the_bayes_factor(data, bank):
    wanted = jfstat.TransientRange("rect", T0, TAU, rho_max=2.0)
    found = jfstat.search(data, bank, jfstat.Transient(wanted, ranking="BtSG"), top=None, threshold=2.0, progress=False)
    assert len(found)
    assert np.all(found["log10BtSG_band"] >= 2.0)
    assert np.all(np.diff(found["log10BtSG"]) <= 0)
    np.testing.assert_allclose(found["log10BtSG_band"], found["log10BtSG"], atol=0.1)
    assert found.meta["threshold"] == pytest.approx(2.0)
    assert found.meta["false_alarm"] is None


@pytest.mark.ci
def test_divided_and_interrupted_searches_give_the_same_table(data, bank, tmp_path):
    how = dict(top=7, statistic=jfstat.Transient(jfstat.TransientRange("rect", T0, TAU)), batch_size=1, progress=False)
    whole = search(data, bank, **how)
    units = [search(data, bank, unit=(i, 2), **how) for i in (1, 2)]
    merged = jfstat.merge(units)
    path = tmp_path / "state"
    first = search(data, bank, checkpoint=path, **how)
    again = search(data, bank, checkpoint=path, **how)
    for other in (merged, first, again):
        assert other.colnames == whole.colnames
        for name in whole.colnames:
            np.testing.assert_array_equal(np.asarray(other[name]), np.asarray(whole[name]), err_msg=name)
    other = jfstat.Transient(jfstat.TransientRange("rect", T0, TAU[1:]))
    with pytest.raises(ValueError, match="statistic"):
        search(data, bank, checkpoint=path, **(how | {"statistic": other}))


@pytest.mark.ci
def test_refine_fits_the_window(data, bank, monkeypatch):
    found = jfstat.search(data, bank, jfstat.Transient(jfstat.TransientRange("rect", T0, TAU)), top=1, progress=False)
    better = jfstat.refine(data, found, progress=False)
    row = better[0]
    for name, truth in (("t0", WINDOW.t0), ("tau", WINDOW.tau), ("freq", 1801.3), ("f1dot", 2e-9), ("h0", 4e-24)):
        value, error = (float(getattr(row[x], "value", row[x])) for x in (name, f"{name}_error"))
        assert abs(value - float(truth)) < 5 * error, name
    assert row["twoF"] > found["max_twoF"][0] - 1
    assert better["tau_error"].unit == "s"
    assert better.meta["transient"]["window"] == "rectangular"
    assert "max_twoF_band" not in better.colnames
    # all columns are of the row's own window, those of the start of the candidate's
    for name, table in (("twoF", better), ("start_twoF", found)):
        point = dataclasses.replace(
            POINT, fkdot=jnp.asarray([table["freq"][0].value, table["f1dot"][0].value]), reftime=table.meta["reftime"]
        )
        window = jfstat.TransientWindow("rectangular", table["t0"][0].value, table["tau"][0].value)
        np.testing.assert_allclose(row[name], jfstat.transient_twoF(data, point, window), rtol=2e-5, err_msg=name)
    assert "window" not in row["message"]
    with monkeypatch.context() as patch:
        patch.setattr(transientfit, "SETTLED", 0.0)
        restless = jfstat.refine(data, found, progress=False)
    assert restless["message"][0].endswith("; the window still moved after 6 turns")
    assert restless["twoF"][0] >= row["twoF"]
    # a second time nothing moves, and the windows that the search tried still count once
    again = jfstat.refine(data, better, progress=False)
    assert better.meta["n_twoF"] == found.meta["n_twoF"] * T0.size * TAU.size == again.meta["n_twoF"]
    assert again["twoF"][0] >= row["twoF"] - 1e-3
    for name in ("t0", "tau"):
        assert abs(again[name][0] - row[name]) < 0.1 * row[f"{name}_error"], name
    assert again["noise_chance"][0] <= 1.01 * row["noise_chance"]
    # bad rows say why, and do not keep others from being refined; windows may be in other units
    several = vstack([found, found, found, found, found])
    several["tau"] = several["tau"].to("h")
    several["t0"][1], several["tau"][2], several["freq"][4] = np.nan * u.s, -1 * u.h, np.nan * u.Hz
    several["t0"][3] += 20 * DAY * u.s
    each = jfstat.refine(data, several, progress=False)
    for name in better.colnames:
        np.testing.assert_array_equal(np.asarray(each[name][:1]), np.asarray(better[name]), err_msg=name)
    assert [x.removeprefix("not refined: ") for x in each["message"][1:]] == [
        "t0 is not a number", "tau must be positive", "the window holds no data", "freq is not a number"
    ]  # fmt: skip
    assert np.all(np.isnan(each["twoF"][1:])) and np.all(np.isnan(each["start_twoF"][1:]))
    np.testing.assert_array_equal(each["t0"][1:], several["t0"][1:])
    empty = jfstat.refine(data, found[:0], progress=False)
    assert empty.colnames == better.colnames and len(empty) == 0
    # as a persistent signal, if the table does not say what it is
    del found.meta["transient"]
    assert "t0_error" not in jfstat.refine(data, found, progress=False).colnames
    with pytest.raises(ValueError, match="lacks the column 't0'"):
        jfstat.refine(data, found["freq", "f1dot", "alpha", "delta"], transient="rect")


@pytest.mark.slow
def test_windows_are_fitted_at_templates_with_a_phase_model():
    def glitch(t, p):
        return p["df"] * jnp.maximum(t - 90000.0, 0.0)

    model = jfstat.PhaseModel(glitch, {"df": 2e-6})
    window = jfstat.TransientWindow("rectangular", START + 30000.0, 120000.0)
    truth = jfstat.Doppler(1.0, 0.3, [100.05, -1e-9], START, model=model)
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], START, 2 * DAY, 98.7, 101.5, 1800, 4e-24, seed=1,
        signals=[(truth, jfstat.Amplitude(4e-25, 0.3, 0.2, 1.0), window)],
    )  # fmt: skip
    data = jfstat.prepare(sfts, 100.0, 100.1, sqrt_sx=4e-24, filters=False)
    values = {"freq": 100.05 + 2e-7, "f1dot": -1e-9, "alpha": 1.0, "delta": 0.3, "model.df": 1.5e-6}
    start = QTable({name: [x] for name, x in (values | {"t0": START + 31000.0, "tau": 118000.0}).items()})
    start.meta["reftime"] = START
    row = jfstat.refine(
        data, start, fit=jfstat.Fit(("freq", "model.df")), model=model, transient="rectangular", progress=False
    )[0]
    for name, true in (("freq", 100.05), ("model.df", 2e-6), ("t0", START + 30000.0), ("tau", 120000.0)):
        value, error = (float(getattr(row[x], "value", row[x])) for x in (name, f"{name}_error"))
        assert abs(value - true) < 5 * error, name
    assert row["twoF"] > float(jfstat.transient_twoF(data, truth, window)) - 0.5


@pytest.mark.ci
@pytest.mark.parametrize("shape", ["rectangular", "exponential"])
def test_windowed_data_are_those_of_the_window(data, shape):
    window = jfstat.TransientWindow(shape, START + 20000.0, 17000.0)
    own = jfstat.windowed(data, window)
    truth = float(jfstat.transient_twoF(data, POINT, window))
    np.testing.assert_allclose(jfstat.twoF(own, POINT), truth, rtol=2e-5)
    found = np.asarray(jfstat.twoF_band(own, POINT))
    nearest = round((1801.3 - float(data.fmin)) / float(data.dfreq))
    at = dataclasses.replace(POINT, fkdot=POINT.fkdot.at[0].set(data.frequencies[nearest]))
    np.testing.assert_allclose(found[nearest], jfstat.transient_twoF(data, at, window), rtol=2e-3)
    with pytest.raises(ValueError, match="holds no data"):
        jfstat.windowed(data, jfstat.TransientWindow(shape, START + 20 * DAY, 3600.0))


@pytest.mark.ci
def test_lines_are_vetoed_and_signals_are_not(data, bank):
    """A line in one detector: a constant frequency there, which is that of a template at some time."""
    found = jfstat.search(data, bank, jfstat.Transient(jfstat.TransientRange("rect", T0, TAU)), top=1, progress=False)
    signal = jfstat.line_veto(data, found)
    assert signal["line_veto"][0] == "" and signal["dm_off_twoF"][0] < signal["max_twoF"][0]
    t = float(data.band.start) + float(data.band.dt) * np.arange(data.series.shape[-1])
    moving = float(data.observation.middle)
    source = data.observation.source(POINT)
    first = jax.tree.map(lambda x: x[0], data.observation.trajectory)
    rate = jax.grad(lambda x: source.heterodyned_cycles(first, x[None], data.band.heterodyne)[0])(moving)
    level = 3 * float(np.std(np.asarray(data.series[0])))
    line = level * np.exp(2j * np.pi * float(rate) * t)
    there = np.abs(np.asarray(data.series[0])) > 0
    loud = dataclasses.replace(data, series=data.series.at[0].add(np.where(there, line, 0).astype(np.complex64)))
    table = jfstat.line_veto(loud, jfstat.fstat_table(loud, found, progress=False))
    assert "H1" in table["line_veto"][0] and "DM-off" in table["line_veto"][0]


def test_bad_arguments(data, bank):
    wanted = jfstat.TransientRange("rect", T0, TAU)
    with pytest.raises(TypeError, match="windows must be"):
        jfstat.Transient("rect")
    with pytest.raises(ValueError, match="'BtSG' is for transients"):
        jfstat.search(data, bank, keep=jfstat.Keep(ranking="BtSG"))
    with pytest.raises(ValueError, match="Transient and cluster"):
        jfstat.search(data, bank, jfstat.Transient(wanted), keep=jfstat.Keep(cluster=1.0))
    with pytest.raises(ValueError, match="ranking must be"):
        jfstat.Transient(wanted, ranking="BSGL")
    with pytest.raises(ValueError, match="no window within the data"):
        jfstat.search(data, bank, jfstat.Transient(jfstat.TransientRange("rect", T0 + 10 * DAY, TAU)))
