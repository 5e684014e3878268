"""The search: it finds what was injected, keeps exactly the loudest, and describes itself."""

import re
import sys
import threading

import jax
import numpy as np
import pytest
from astropy import units as u
from hypothesis import given, settings
from hypothesis import strategies as st
from searches import division
from searches import search as options_search

import jfstat
from jfstat.banks.template_bank import template_bank
from jfstat.engines.reduction import largest
from jfstat.plots import plot_noise
from jfstat.searching import result
from jfstat.searching.driver import devices
from jfstat.searching.search import search
from jfstat.searching.session import progress

START = 1167458304
AMPLITUDES = ["h0", "cosi", "psi", "phi0", "h0_error", "cosi_error", "psi_error", "phi0_error"]
KEPT = ["twoF_H1", "twoF_L1", "log10BSGL", *AMPLITUDES, "template"]
POINT = jfstat.Doppler(1.1, 0.4, [50.0123, -2e-10], reftime=START)
AMPLITUDE = jfstat.Amplitude(1.2e-24, 0.3, 0.2, 1.0)


@pytest.fixture(scope="module")
def data():
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 43200, 49.0, 51.1, sqrt_sx=4e-24, signals=[(POINT, AMPLITUDE)])
    return jfstat.prepare(sfts, 50.0, 50.03, reftime=START)


@pytest.fixture(scope="module")
def bank(data):
    return template_bank((0.1, 2.1, 0.5), [-0.2, 0.4], f1dot=[-3.4e-9, -1.8e-9, -2e-10, 1.4e-9], data=data)


@pytest.fixture(scope="module")
def everything(data, bank):
    """2F of all templates and frequencies, without `search`."""
    return np.asarray(jax.jit(jax.vmap(jfstat.twoF_band, (None, 0)))(data, bank))


def loudest(everything, top, threshold=-np.inf):
    flat = everything.reshape(-1)
    order = np.argsort(-flat, kind="stable")
    order = order[flat[order] >= threshold][:top]
    return order // everything.shape[1], order % everything.shape[1], flat[order]


def test_an_injected_signal_is_the_loudest_candidate(data, bank):
    best = search(data, bank, top=5, progress=False)[0]
    assert best["alpha"].value == pytest.approx(1.1)
    assert best["delta"] == 0.4 * u.rad
    assert best["f1dot"].value == -2e-10
    assert abs(best["freq"] - 50.0123 * u.Hz) <= 0.5 / (2 * data.tspan) * u.Hz
    expected = float(jfstat.predict_twoF(data, POINT, AMPLITUDE))
    assert expected > 60
    assert best["twoF"] == pytest.approx(expected, abs=3 * np.sqrt(8 + 4 * (expected - 4)))


@pytest.mark.parametrize("batch_size", [None, 7])
def test_the_kept_are_exactly_the_loudest_however_batches_are_cut(data, bank, everything, batch_size):
    found = search(
        data,
        bank,
        top=50,
        progress=False,
        details=jfstat.Details(per_detector=False),
        run=jfstat.Run(batch_size=batch_size),
    )
    template, frequency, twoF = loudest(everything, 50)
    np.testing.assert_allclose(found["twoF"], twoF, rtol=1e-4)
    # neighbours in rank may swap where batches of another size round otherwise
    rows = set(zip(found["alpha"].value, found["delta"].value, found["f1dot"].value, found["freq"].value, strict=True))
    wanted = set(
        zip(
            np.asarray(bank.alpha)[template],
            np.asarray(bank.delta)[template],
            np.asarray(bank.fkdot)[template, 1],
            data.frequencies[frequency],
            strict=True,
        )
    )
    assert len(rows & wanted) >= 49
    assert np.all(np.diff(found["twoF"]) <= 0)


def test_top_and_threshold_together(data, bank, everything):
    flat = np.sort(everything.reshape(-1))[::-1]
    threshold = float((flat[19] + flat[20]) / 2)
    assert (
        len(search(data, bank, threshold=threshold, progress=False, details=jfstat.Details(per_detector=False))) == 20
    )
    few = search(data, bank, top=7, threshold=threshold, progress=False, details=jfstat.Details(per_detector=False))
    np.testing.assert_allclose(few["twoF"], flat[:7], rtol=1e-4)
    # more than there are: everything comes back, padding of batches does not
    few = template_bank(1.1, [0.2, 0.4, 0.6], data=data)
    found = search(
        data, few, top=10**7, progress=False, details=jfstat.Details(per_detector=False), run=jfstat.Run(batch_size=7)
    )
    assert len(found) == 3 * len(data.frequencies)


def test_none_above_threshold_is_an_empty_table_with_all_columns(data, bank):
    found = search(data, bank, threshold=1e6, progress=False)
    assert len(found) == 0
    assert found.colnames == ["freq", "f1dot", "alpha", "delta", "twoF", *KEPT]
    assert found["freq"].unit == u.Hz


@pytest.mark.compiled
def test_the_loudest_of_all_subbands_is_the_first_candidate(data, bank):
    found = search(data, bank, top=3, progress=False)
    assert max(found.meta["loudest_per_subband"]["twoF"]) == found["twoF"][0]


@pytest.mark.ci
def test_columns_units_and_meta(data, bank):
    found = search(data, bank, top=3, progress=False)
    assert found.colnames == ["freq", "f1dot", "alpha", "delta", "twoF", *KEPT]
    assert [found[n].unit for n in ("freq", "f1dot", "alpha", "delta")] == [u.Hz, u.Hz / u.s, u.rad, u.rad]
    np.testing.assert_allclose(found.meta.pop("sqrt_sx"), 4e-24, rtol=0.03)
    tallies = {name: found.meta.pop(name) for name in ("twoF_edges", "twoF_histogram", "loudest_per_subband")}
    assert sum(tallies["twoF_histogram"]) == 40 * len(data.frequencies)
    assert max(tallies["loudest_per_subband"]["twoF"]) == pytest.approx(found["twoF"][0], rel=1e-6)
    assert 0 <= found.meta.pop("false_alarm") < 1e-6
    assert found.meta == {
        "fmin": data.frequencies[0],
        "fmax": data.frequencies[-1],
        "dfreq": pytest.approx(1 / 86400),
        "tsft": 1800,
        "n_sfts": [24, 24],
        "parameters": ["freq", "f1dot", "alpha", "delta"],
        "bounds": {},
        "ranking": "F",
        "bsgl_threshold": None,
        "top": 3,
        "threshold": None,
        "cluster": None,
        "Fstar0": 0.0,
        "oLGX": None,
        "version": jfstat.__version__,
        "reftime": START,
        "detectors": ["H1", "L1"],
        "ephemeris": "DE405",
        "start": START,
        "tspan": pytest.approx(43200),
        "n_templates": 40,
        "n_twoF": 40 * len(data.frequencies),
        "statistic": "TwoF",
        "engine": "xla",
        "processor": found.meta["processor"],
        "batch_size": found.meta["batch_size"],
        "device_bytes": division(data, bank).device_bytes,
    }


def test_rows_are_what_the_statistic_gives_there(data, bank):
    for row in search(data, bank, top=3, progress=False):
        point = jfstat.Doppler(row["alpha"], row["delta"], [row["freq"], row["f1dot"]], reftime=START)
        single = jfstat.fstat(data, point)
        assert row["twoF"] == pytest.approx(float(single.twoF), rel=1e-3)
        np.testing.assert_allclose([row["twoF_H1"], row["twoF_L1"]], single.twoF_per_detector, rtol=1e-6)


@pytest.mark.ci
def test_candidates_refer_to_the_reference_time_of_the_bank(data):
    later = START + 20000
    bank = template_bank(1.1, 0.4, f1dot=-2e-10, reftime=later, data=data)
    found = search(data, bank, top=1, progress=False, details=jfstat.Details(per_detector=False))
    assert found.meta["reftime"] == later
    assert found["freq"][0].value == pytest.approx(50.0123 - 2e-10 * 20000, abs=0.5 / (2 * data.tspan))


@pytest.mark.slow
def test_one_template_and_one_detector_will_do():
    sfts = jfstat.simulate_sfts("L1", START, 18000, 49.9, 50.2, sqrt_sx=1e-24)
    data = jfstat.prepare(sfts, 50.0, 50.02, sqrt_sx=1e-24)
    found = search(data, jfstat.Doppler(1.0, 0.5, [50.01]), top=4, progress=False)
    assert found.colnames == ["freq", "alpha", "delta", "twoF", "twoF_L1", *AMPLITUDES, "template"]
    np.testing.assert_array_equal(found["twoF"], found["twoF_L1"])
    values = np.asarray(jfstat.twoF_band(data, jfstat.Doppler(1.0, 0.5, [50.01])))
    np.testing.assert_allclose(found["twoF"], np.sort(values)[:-5:-1], rtol=1e-4)
    np.testing.assert_allclose(found["freq"].value, data.frequencies[np.argsort(values)[:-5:-1]])


@pytest.mark.ci
def test_a_binary_is_found_with_its_orbit():
    orbit = jfstat.Orbit(0.5, 40000.0, START + 3000, 0.1, 0.3)
    point = jfstat.Doppler(1.1, 0.4, [50.0123], reftime=START, orbit=orbit)
    sfts = jfstat.simulate_sfts(
        "H1", START, 43200, 49.7, 50.4, sqrt_sx=4e-24, tsft=600, signals=[(point, jfstat.Amplitude(1e-24, 0.5))]
    )
    ranges = {"asini": [0.4, 0.5, 0.6], "period": 40000.0, "tp": START + 3000, "ecc": 0.1, "argp": 0.3}
    bank = template_bank(1.1, 0.4, orbit=ranges)
    data = jfstat.prepare(sfts, 50.0, 50.03, reftime=START, orbit=bank.orbit)
    found = search(data, bank, top=2, progress=False, details=jfstat.Details(amplitudes=False))
    assert found.colnames == [
        "freq",
        "f1dot",
        "alpha",
        "delta",
        "asini",
        "period",
        "tp",
        "ecc",
        "argp",
        "twoF",
        "twoF_H1",
        "template",
    ]
    assert found["asini"][0] == 0.5 * u.s
    assert abs(found["freq"][0].value - 50.0123) <= 0.5 / (2 * data.tspan)


def test_a_template_that_does_not_fit_is_refused_before_the_search(data):
    orbit = jfstat.Orbit(np.array([0.001, 5.0]), 7200.0, START)
    bank = jfstat.Doppler(1.0, 0.5, [50.01], orbit=orbit)
    with pytest.raises(ValueError, match="orbit's Doppler shift"):
        search(data, bank, progress=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": 1}, "data must be FstatData"),
        ({"bank": 1}, "bank must be a jfstat.Doppler"),
        ({"top": None}, "top and threshold are both None"),
        ({"unit": (0, 4)}, "unit must be"),
        ({"unit": (5, 4)}, "unit must be"),
        ({"unit": 3}, "unit must be"),
        ({"cluster": -1.0}, "cluster must be a positive number"),
        ({"mesh": 2}, "mesh must be a jax.sharding.Mesh"),
        ({"checkpoint": 7}, "checkpoint must be the name of a file"),
        ({"bank": jfstat.Doppler(np.empty(0), np.empty(0), np.empty((0, 1)))}, "bank holds no templates"),
        ({"top": 0}, "top must be a whole number"),
        ({"top": 1.5}, "top must be a whole number"),
        ({"threshold": np.nan}, "threshold must be a finite number"),
        ({"batch_size": 0}, "batch_size must be a whole number"),
    ],
)
def test_mistakes_are_named(data, bank, change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        options_search(**({"data": data, "bank": bank, "progress": False} | change))


def test_progress_is_a_bar_on_terminals_and_lines_in_logs(data, monkeypatch, capsys):
    bank = template_bank(1.1, [0.2, 0.4, 0.6], data=data)
    monkeypatch.setitem(sys.modules, "ipykernel", None)  # somebody watches
    search(data, bank, top=1, details=jfstat.Details(per_detector=False), run=jfstat.Run(batch_size=1))
    assert "3/3" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    monkeypatch.setattr(progress, "FIRST_LINE", 10.0)
    search(data, bank, top=1, details=jfstat.Details(per_detector=False), run=jfstat.Run(batch_size=1))
    assert capsys.readouterr().err == ""  # short work needs no lines
    monkeypatch.setattr(progress, "FIRST_LINE", 0.0)
    search(data, bank, top=1, details=jfstat.Details(per_detector=False), run=jfstat.Run(batch_size=1))
    lines = capsys.readouterr().err.splitlines()
    assert 1 <= len(lines) <= 3
    assert re.fullmatch(r"search: [123] of 3 templates \(\d+ %\), \d+ s left, \S+ 2F/s, loudest [\d.]+", lines[0])
    search(data, bank, top=1, progress=False, details=jfstat.Details(per_detector=False), run=jfstat.Run(batch_size=1))
    assert capsys.readouterr().err == ""


def test_a_search_traces_its_own_program_before_those_of_the_candidates(data, bank, monkeypatch):
    """XLA then compiles it while Python traces the others; also after an error no thread waits for ever."""
    order, own = [], devices.loudest_program

    def program(*arguments, **more):
        order.append("search")
        return own(*arguments, **more)

    def threads():
        return [thread for thread in threading.enumerate() if thread.name == "jfstat-details"]

    monkeypatch.setattr(devices, "loudest_program", program)
    monkeypatch.setattr(result, "compile_together", lambda *_: order.append("candidates"))
    monkeypatch.setattr(result, "_COMPILED", set())
    search(data, bank, top=5, progress=False)
    assert order == ["search", "candidates"] and not threads()
    search(data, bank, top=5, progress=False)
    assert order.count("candidates") == 1  # what is compiled stays so
    begun = list(order)

    def broken(*_, **__):
        raise RuntimeError("broken")

    monkeypatch.setattr(result, "_COMPILED", set())
    monkeypatch.setattr("jfstat.searching.statistics.band.band_division", broken)
    with pytest.raises(RuntimeError, match="broken"):
        search(data, bank, top=5, progress=False)
    for thread in threads():
        thread.join(60)
    assert not threads() and order == begun  # after an error nothing more begins


@pytest.mark.ci
def test_a_band_of_one_frequency_and_where_its_noise_is():
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 43200, 49.0, 51.1, sqrt_sx=[4e-24, 8e-24])
    one = jfstat.prepare(sfts, 50.0123, 50.0123, guard=0.5)
    np.testing.assert_allclose(one.frequencies, [50.0123], rtol=0, atol=1e-12)
    found = search(one, template_bank(1.1, 0.4, data=one), top=5, progress=False)
    assert len(found) == 1 and found["freq"][0] == 50.0123 * u.Hz
    assert found["twoF"][0] == pytest.approx(float(jfstat.twoF(one, jfstat.Doppler(1.1, 0.4, [50.0123]))), rel=1e-5)
    np.testing.assert_allclose(found.meta["sqrt_sx"], [4e-24, 8e-24], rtol=0.03)
    floors = one.observation.sqrt_sx
    np.testing.assert_allclose(floors[:, :24], np.repeat([[4e-24], [8e-24]], 24, axis=1), rtol=0.3)
    assert np.isnan(floors[:, 24:]).all()
    given = jfstat.observation(["H1", "L1"], START, 43200, sqrt_sx=[4e-24, 8e-24])
    np.testing.assert_allclose(given.mean_sqrt_sx, [4e-24, 8e-24], rtol=1e-12)
    ax = plot_noise(pytest.importorskip("matplotlib.figure").Figure().add_subplot(), one.observation)
    assert [line.get_label() for line in ax.get_lines()] == ["H1", "L1"]


@pytest.mark.ci
def test_candidates_outside_the_ranges_are_marked(data):
    bank = template_bank((0.9, 1.3), (0.2, 0.6), (-3e-10, -1e-10), data=data, mismatch=0.1)
    f1dot = np.asarray(bank.fkdot)[:, 1]
    assert np.any((f1dot < -3e-10) | (f1dot > -1e-10)), "the lattice extends beyond its range"
    bounds = {"f1dot": (-3e-10, -1e-10), "alpha": (7.3, 7.5)}  # up to 2 pi
    found = search(data, bank, top=40, progress=False, keep=jfstat.Keep(bounds=bounds))
    f1dot = found["f1dot"].value
    np.testing.assert_array_equal(found["outside"], (f1dot < -3e-10) | (f1dot > -1e-10))
    assert found.meta["bounds"] == {"f1dot": [-3e-10, -1e-10], "alpha": [7.3, 7.5]}
    strict = template_bank((0.9, 1.3), (0.2, 0.6), (-3e-10, -1e-10), data=data, mismatch=0.1, strict=True)
    spins = np.asarray(strict.fkdot)[:, 1]
    assert len(spins) == np.sum((np.asarray(bank.fkdot)[:, 1] >= -3e-10) & (np.asarray(bank.fkdot)[:, 1] <= -1e-10)) > 0
    with pytest.raises(ValueError, match="bounds has 'colour', which is no parameter"):
        search(data, bank, progress=False, keep=jfstat.Keep(bounds={"colour": (0, 1)}))
    with pytest.raises(TypeError, match="bounds must be a mapping"):
        search(data, bank, progress=False, keep=jfstat.Keep(bounds=[0, 1]))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([1, 63, 64, 65, 500, 2000]), st.integers(1, 40), st.integers(2, 1000), st.integers(0, 99))
def test_largest_is_top_k_even_with_many_equal_values(n, keep, levels, seed):
    # few levels make ties, of which the first must win
    values = np.random.default_rng(seed).integers(0, levels, n).astype(np.float32)
    keep = min(keep, n)
    top, places = largest(values, keep)
    order = np.argsort(-values, kind="stable")[:keep]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(top, values[order])
