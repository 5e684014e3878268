"""Histograms and sub-bands' maxima of batches, by all engines, against 2F of every template and bin."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfstat
from jfstat.data.fstatdata import Layout
from jfstat.engines.cuda.engine import Cuda
from jfstat.engines.reduction import histogram_of, largest_of_sections
from jfstat.engines.xla import Xla
from jfstat.maths.arrays import LEAST
from jfstat.searching.reduce.loudest import loudest
from jfstat.searching.reduce.tally import HISTOGRAM_EDGES, section_starts, subband_edges, subband_maxima
from jfstat.statistic.spectrum import bin_numbers
from jfstat.transforms import section_count

START = 1167458304
KERNELS = Cuda(emulate=True)
ENGINES = [Xla(), KERNELS]
two_f = jax.jit(jax.vmap(jfstat.twoF_band, (None, 0)))


@pytest.fixture(scope="module")
def data():
    times = {"H1": START + 1800 * np.arange(2), "L1": START + 1800 * np.arange(2)}
    sfts = jfstat.simulate_sfts(["H1", "L1"], fmin=98.3, fmax=101.7, timestamps=times, seed=3)
    data = jfstat.prepare(sfts, 99.5, 100.5, sqrt_sx=4e-24)
    assert KERNELS.usable(data.layout, jax.devices()[0])
    return data


def bank(n, same_source=False, orbit=None):
    rng = np.random.default_rng(5)
    alpha, delta = rng.uniform(0, 2 * np.pi, n), np.arcsin(rng.uniform(-1, 1, n))
    if same_source:
        alpha[:], delta[:] = alpha[0], delta[0]
    return jfstat.Doppler(alpha, delta, np.stack([np.full(n, 100.0), rng.uniform(-1e-8, 0, n)], 1), START, orbit)


TOLERANCE = dict(rtol=2e-5, atol=2e-4)
"""Of 2F, as for the compiled kernels (test_gpu.py): the order of rounding differs."""


def expected(values, counts, layout):
    """Histogram and maxima of the sub-bands, of the values that count."""
    place = np.clip(np.floor(values[counts] / 2), 0, len(HISTOGRAM_EDGES) - 1).astype(int)
    own = np.where(counts, values, LEAST).max(axis=0)
    tops = [own[a:b].max() for a, b in zip(subband_edges(layout)[:-1], subband_edges(layout)[1:], strict=True)]
    return np.bincount(place, minlength=len(HISTOGRAM_EDGES)), np.array(tops)


def assert_tallies(found, values, counts, layout):
    histogram, tops = expected(values, counts, layout)
    # rounding moves values across an edge
    near = np.sum(np.abs(values[counts] - 2 * np.round(values[counts] / 2)) < 3e-5 * np.maximum(values[counts], 1))
    assert np.abs(np.asarray(found.histogram) - histogram).sum() <= 2 * near
    assert found.histogram.sum() == counts.sum()
    np.testing.assert_allclose(subband_maxima(layout, found.sections), tops, **TOLERANCE)


@pytest.mark.ci
@pytest.mark.parametrize("engine", ENGINES)
def test_tallies_are_of_all_that_count(data, engine):
    orbit = jfstat.Orbit(np.full(4, 0.15), np.full(4, 7200.0), np.full(4, START + 0.0))
    points = bank(4, orbit=orbit)
    nowhere = dataclasses.replace(
        data, observation=dataclasses.replace(data.observation, moments=jnp.zeros_like(data.observation.moments))
    )  # A = B = C = 0: 2F is 4
    template, number = np.indices((4, data.layout.n_frequencies))
    for case, n_valid, first_bin in ((data, 4, 0), (data, 3, 1517), (nowhere, 3, 1517)):
        values = np.asarray(two_f(case, points))
        assert np.isnan(values).any()  # beyond the band
        counts = (values > 0) & (template < n_valid) & (number >= first_bin)
        found = loudest(engine.ready(case), points, n_valid, 20, engine, first_bin=first_bin)
        assert_tallies(found, values, counts, data.layout)
        assert (subband_maxima(data.layout, found.sections) == np.float32(LEAST)).any() == (first_bin > 0)
        np.testing.assert_allclose(found.twoF, np.sort(values[counts])[::-1][:20], rtol=1e-5)
        assert (np.asarray(found.frequency) >= first_bin).all()


@pytest.mark.ci
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("same_source", [False, True])
def test_tallies_of_isolated_sources(data, engine, same_source):
    points = bank(3, same_source)
    values = np.asarray(two_f(data, points))
    assert_tallies(loudest(engine.ready(data), points, 3, 20, engine, same_source), values, values > 0, data.layout)


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


def test_histogram_counts_negative_and_large_values():
    values = np.array([[-1e-6, 0, 1.99], [2, 59, 1e9], [np.inf, -np.inf, 57.9]], np.float32)
    counts = np.zeros(len(HISTOGRAM_EDGES), int)
    counts[[0, 1, 28, 29]] = 3, 1, 1, 3
    np.testing.assert_array_equal(histogram_of(values), counts)
