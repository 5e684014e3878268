"""The line-robust statistic against LALSuite's, and its limits."""

import jax
import numpy as np
import pytest

import jfstat
from jfstat.candidates.linerobust import bsgl_column, log10_bsgl
from jfstat.statistic.linerobust import log10_odds_transient

LINES_ONLY = jfstat.LinePrior(-np.inf)


def values(k, n_detectors, seed=0):
    """Values of 2F from noise to loud lines and signals."""
    rng = np.random.default_rng(seed)
    each = rng.chisquare(4, (k, n_detectors)) * 10 ** rng.uniform(0, 2, (k, n_detectors))
    return rng.uniform(0.5, 1.2, k) * each.sum(axis=1), each


@pytest.mark.parametrize("n_detectors", [2, 3, 4])
@pytest.mark.parametrize("fstar0", [-np.inf, 0.0, 20.0, 500.0])
@pytest.mark.parametrize("odds", ["default", "given", "one is 0"])
def test_is_that_of_lalsuite(n_detectors, fstar0, odds):
    lalpulsar = pytest.importorskip("lalpulsar")
    lal = pytest.importorskip("lal")
    olgx = {
        "default": np.full(n_detectors, 1 / n_detectors),
        "given": np.geomspace(0.01, 5, n_detectors),
        "one is 0": np.arange(n_detectors) / 2,
    }[odds]
    total, each = values(40, n_detectors)
    padded = np.zeros(10, np.float32)  # PULSAR_MAX_DETECTORS
    padded[:n_detectors] = olgx
    scale = -lal.REAL4_MAX if fstar0 == -np.inf else fstar0
    setup = lalpulsar.CreateBSGLSetup(n_detectors, scale, padded, True, 1)
    theirs = []
    for one, row in zip(total, each, strict=True):
        padded[:n_detectors] = row
        theirs.append(lalpulsar.ComputeBSGL(one, padded, setup))
    ours = log10_bsgl(total, each, jfstat.LinePrior(fstar0, None if odds == "default" else olgx))
    assert ours.shape == (40,) and ours.dtype == np.float64
    # theirs is a difference of float32 numbers as large as F
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * max(1, total.max() / 100))
    np.testing.assert_allclose(log10_bsgl(total[0], each[0], jfstat.LinePrior(fstar0, olgx)), ours[0], rtol=1e-12)


def test_limits():
    """A signal in both detectors beats a line of the same 2F in one; below the transition, B is F but for constants."""
    assert log10_bsgl(200.0, [100.0, 100.0], LINES_ONLY) > 20 > 1 > log10_bsgl(200.0, [200.0, 4.0], LINES_ONLY)
    total, each = values(20, 2)
    quiet = log10_bsgl(total, each, jfstat.LinePrior(1e6))
    np.testing.assert_allclose(quiet, (0.5 * total - 1e6 + np.log(2)) / np.log(10), rtol=1e-12)
    loud = log10_bsgl([3000.0, np.nan], [[1500.0, 4.0], [1.0, 2.0]], LINES_ONLY)
    np.testing.assert_allclose(loud, [(750 + np.log(4)) / np.log(10), np.nan])
    assert log10_bsgl(np.empty(0), np.empty((0, 2)), LINES_ONLY).shape == (0,)


def test_lines_in_one_segment_count_only_if_the_scale_is_above_noise():
    """With F*0 = 0 the sum over segments always exceeds one segment: BSGLtL is BSGL plus 0 to log10(2)."""
    rng, odds = np.random.default_rng(1), (0.5, 0.5)
    each = 0.5 * rng.chisquare(4, (50, 6, 2))
    each[10:30, 3, 0] += rng.uniform(20, 200, 20)  # a line in one segment of the first detector
    total = 2 * rng.uniform(0.5, 1.2, 50) * each.sum(axis=(1, 2))
    differences = {}
    with jax.enable_x64(True):
        for scale in (0.0, 25.0):
            steady = log10_bsgl(total, 2 * each.sum(axis=1), jfstat.LinePrior(scale))
            own = [float(log10_odds_transient(x, 2 * y, scale, odds)) for x, y in zip(total, each, strict=True)]
            differences[scale] = np.array(own) - steady
    assert differences[0.0].min() > -1e-6 and differences[0.0].max() < np.log10(2) + 1e-6
    assert differences[25.0][10:30].max() < -0.5  # the line is recognised


def test_a_single_detector_has_no_column():
    total, each = values(5, 2)
    column = bsgl_column(total, each, LINES_ONLY)
    np.testing.assert_array_equal(column.pop("log10BSGL"), log10_bsgl(total, each, LINES_ONLY))
    assert column == {} == bsgl_column(total, each[:, :1], LINES_ONLY)


@pytest.mark.parametrize(
    ("twoF", "each", "prior", "match"),
    [
        (np.ones(3), np.ones((3, 1)), (), "two or more"),
        (np.ones(3), np.ones((2, 2)), (), "shape"),
        (1.0, 2.0, (), "shape"),
        (np.ones(3), np.ones((3, 2)), (np.nan,), "fstar0"),
        (np.ones(3), np.ones((3, 2)), (0.0, [1.0]), "olgx"),
        (np.ones(3), np.ones((3, 2)), (0.0, [1.0, -1.0]), "olgx"),
        (np.ones(3), np.ones((3, 2)), (-np.inf, [0.0, 0.0]), "olgx"),
    ],
)
def test_bad_arguments(twoF, each, prior, match):
    with pytest.raises(ValueError, match=match):
        log10_bsgl(twoF, each, jfstat.LinePrior(*prior))
