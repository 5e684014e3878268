"""Histograms and sub-bands' maxima of batches, by all backends, against 2F of every template and bin."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfstat
from jfstat.data.fstatdata import Layout
from jfstat.searching.reduce.loudest import loudest
from jfstat.searching.reduce.tally import HISTOGRAM_EDGES, section_starts, subband_edges, subband_maxima
from jfstat.statistic.backends.library import Library
from jfstat.statistic.backends.reduction import histogram_of, largest_of_sections
from jfstat.statistic.backends.triton import chain, passes
from jfstat.statistic.backends.triton.backend import Triton
from jfstat.statistic.spectrum import bin_numbers
from jfstat.transforms import section_count, sections_per_digit, triton_radices

START = 1167458304
BACKENDS = [Library(), Triton(interpret=True)]
two_f = jax.jit(jax.vmap(jfstat.twoF_band, (None, 0)))


@pytest.fixture(scope="module")
def data():
    times = {"H1": START + 1800 * np.arange(2), "L1": START + 1800 * np.arange(2)}
    sfts = jfstat.simulate_sfts(["H1", "L1"], fmin=98.6, fmax=101.4, timestamps=times, seed=3)
    return jfstat.prepare(sfts, 99.9, 100.1, sqrt_sx=4e-24)


def bank(n, same_source=False, orbit=None):
    rng = np.random.default_rng(5)
    alpha, delta = rng.uniform(0, 2 * np.pi, n), np.arcsin(rng.uniform(-1, 1, n))
    if same_source:
        alpha[:], delta[:] = alpha[0], delta[0]
    return jfstat.Doppler(alpha, delta, np.stack([np.full(n, 100.0), rng.uniform(-1e-8, 0, n)], 1), START, orbit)


def expected(values, counts, layout):
    """Histogram and maxima of the sub-bands, of the values that count."""
    place = np.clip(np.floor(values[counts] / 2), 0, len(HISTOGRAM_EDGES) - 1).astype(int)
    own = np.where(counts, values, -np.inf).max(axis=0)
    tops = [own[a:b].max() for a, b in zip(subband_edges(layout)[:-1], subband_edges(layout)[1:], strict=True)]
    return np.bincount(place, minlength=len(HISTOGRAM_EDGES)), np.array(tops)


def assert_tallies(found, values, counts, layout):
    histogram, tops = expected(values, counts, layout)
    # rounding moves values across an edge
    near = np.sum(np.abs(values[counts] - 2 * np.round(values[counts] / 2)) < 3e-5 * np.maximum(values[counts], 1))
    assert np.abs(np.asarray(found.histogram) - histogram).sum() <= 2 * near
    assert found.histogram.sum() == counts.sum()
    np.testing.assert_allclose(subband_maxima(layout, found.sections), tops, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_tallies_are_of_all_that_count(data, backend, monkeypatch):
    monkeypatch.setattr(passes, "THREADS", 16)  # several programs for each part of a stripe
    orbit = jfstat.Orbit(np.full(4, 0.15), np.full(4, 7200.0), np.full(4, START + 0.0))
    points = bank(4, orbit=orbit)
    nowhere = dataclasses.replace(
        data, observation=dataclasses.replace(data.observation, moments=jnp.zeros_like(data.observation.moments))
    )  # A = B = C = 0: 2F is 4
    template, number = np.indices((4, data.layout.n_frequencies))
    for case, n_valid, first_bin in ((data, 4, 0), (data, 3, 517), (nowhere, 3, 517)):
        values = np.asarray(two_f(case, points))
        assert np.isnan(values).any()  # beyond the band
        counts = (values > 0) & (template < n_valid) & (number >= first_bin)
        found = loudest(case, points, n_valid, 20, backend, first_bin=first_bin)
        assert_tallies(found, values, counts, data.layout)
        assert np.isneginf(subband_maxima(data.layout, found.sections)).any() == (first_bin > 0)
        np.testing.assert_allclose(found.twoF, np.sort(values[counts])[::-1][:20], rtol=1e-5)
        assert (np.asarray(found.frequency) >= first_bin).all()


@pytest.mark.parametrize("backend", [Library(), pytest.param(Triton(interpret=True), marks=pytest.mark.slow)])
@pytest.mark.parametrize("same_source", [False, True])
def test_tallies_of_isolated_sources(data, backend, same_source):
    points = bank(3, same_source)
    values = np.asarray(two_f(data, points))
    assert_tallies(loudest(data, points, 3, 20, backend, same_source), values, values > 0, data.layout)


def layouts():
    """Lengths with even and odd last radices and digits before, without radices, and odd ones."""
    for n_fft in (1920, 57600, 46080, 86400, 9 * 16 * 9, 9 * 18 * 15, 9**3, 15**3, 2**5 * 7, 625):
        for n_frequencies in (int(1.5 * n_fft), int(1.9 * n_fft), 100):
            yield n_fft, n_frequencies


@pytest.mark.parametrize(("n_fft", "n_frequencies"), list(layouts()))
def test_subbands_cut_the_band(n_fft, n_frequencies):
    layout = Layout(n_fft, n_frequencies, *[1] * 8)
    edges = subband_edges(layout)
    assert edges[0] == 0
    assert edges[-1] == n_frequencies
    assert (np.diff(edges) > 0).all()
    assert len(edges) - 1 <= 48
    # whatever is in the band and nothing else, from the entries of both parities
    number = np.asarray(bin_numbers(layout, np.arange(2)[:, None], np.arange(n_fft)))
    values = np.where((number >= 0) & (number < n_frequencies), number, -np.inf).astype(np.float32)
    sections = np.asarray(largest_of_sections(layout, values[None]))
    np.testing.assert_array_equal(subband_maxima(layout, sections), edges[1:] - 1)
    count = section_count(n_fft)
    assert len(sections) == len(section_starts(layout)) == count + count % 2


@pytest.mark.parametrize("n_fft", [n for n in dict(layouts()) if triton_radices(n)])
def test_kernels_sections_are_those_of_the_library(n_fft):
    """From the maxima of each digit and stripe, as the last kernel leaves them; entries hold their bins' numbers."""
    radices = triton_radices(n_fft)
    radix, digits, rows = radices[-1], radices[-2], n_fft // radices[-1]
    layout = Layout(n_fft, int(1.9 * n_fft), *[1] * 8)
    number = np.asarray(bin_numbers(layout, np.arange(2)[:, None], np.arange(n_fft)))
    values = np.where((number >= 0) & (number < layout.n_frequencies), number, -1).astype(np.float32)
    entry = np.asarray(passes.entry_of(jnp.arange(rows, dtype=jnp.int32), radices))[:, None] + np.arange(radix) * rows
    of_rows, positive = values[:, entry].max(axis=0), entry < (n_fft + 1) // 2  # (rows, radix)
    if radix % 2:
        middle = radix // 2
        ends = [np.where(own[:, middle], of_rows[:, middle], -1)[:, None] for own in (positive, ~positive)]
        of_rows = np.concatenate([of_rows[:, :middle], *ends, of_rows[:, middle + 1 :]], axis=1)
    together = digits // sections_per_digit(radices)
    stripes = of_rows.reshape(rows // together, together, -1).max(axis=1)
    found = chain.largest_of_sections(jnp.asarray(stripes), radices, rows)
    expected = largest_of_sections(layout, np.where(values < 0, -np.inf, values)[None])
    np.testing.assert_array_equal(found, expected)


def test_histogram_counts_negative_and_large_values():
    values = np.array([[-1e-6, 0, 1.99], [2, 59, 1e9], [np.inf, -np.inf, 57.9]], np.float32)
    counts = np.zeros(len(HISTOGRAM_EDGES), int)
    counts[[0, 1, 28, 29]] = 3, 1, 1, 3
    np.testing.assert_array_equal(histogram_of(values), counts)
