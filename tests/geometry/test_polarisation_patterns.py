"""Antenna patterns of all polarisations: direct contraction of tensors, LALSuite, and the patterns a and b."""

import jax.numpy as jnp
import numpy as np
import polarised
import pytest

import jfstat
from jfstat.geometry.antenna import harmonics, pattern_coefficients
from jfstat.geometry.detectors import get_detectors
from jfstat.geometry.polarisations import POLARISATIONS, harmonics_of_tensors, wave_tensors

NAMES = tuple(name for own in POLARISATIONS.values() for name in own)
DETECTORS = ("H1", "L1", "V1", "K1", "G1")


def places(rng, n):
    return zip(
        rng.uniform(0, 2 * np.pi, n), np.arcsin(rng.uniform(-1, 1, n)), rng.uniform(0, 2 * np.pi, n), strict=True
    )


def patterns(response, alpha, delta, sidereal):
    """Values of all patterns of detectors, (D, m, n)."""
    waves = wave_tensors(jnp.float64(alpha), jnp.float64(delta), NAMES)
    return np.asarray(harmonics_of_tensors(jnp.asarray(response), waves)) @ np.asarray(harmonics(sidereal)).T


def test_patterns_are_contractions_of_tensors():
    rng = np.random.default_rng(1)
    response = rng.normal(size=(3, 3, 3))  # any symmetric tensors, with a trace
    response = response + np.swapaxes(response, 1, 2)
    sidereal = rng.uniform(0, 2 * np.pi, 20)
    for alpha, delta, _ in [*places(rng, 20), (1.0, np.pi / 2, 0.0), (0.0, -np.pi / 2, 0.0)]:
        ours = patterns(response, alpha, delta, jnp.asarray(sidereal))
        for d, own in enumerate(response):
            for p, name in enumerate(NAMES):
                truth = polarised.pattern(name, own, sidereal, alpha, delta)
                np.testing.assert_allclose(ours[d, p], truth, atol=2e-14)


def test_tensor_patterns_are_a_and_b():
    rng = np.random.default_rng(2)
    response = np.stack([site.response for site in get_detectors(DETECTORS, "detectors")])
    for alpha, delta, _ in places(rng, 20):
        waves = wave_tensors(jnp.float64(alpha), jnp.float64(delta), ("plus", "cross"))
        ours = harmonics_of_tensors(jnp.asarray(response), waves)
        a, b = pattern_coefficients(jnp.asarray(response), jnp.float64(alpha), jnp.float64(delta))
        np.testing.assert_allclose(ours[:, 0], a, atol=3e-8)  # a and b leave out the trace, 1e-8 in LALSuite's tensors
        np.testing.assert_allclose(ours[:, 1], b, atol=1e-15)


def test_longitudinal_waves_look_like_breathing_ones():
    rng = np.random.default_rng(3)
    for site in get_detectors(DETECTORS, "detectors"):
        for alpha, delta, sidereal in places(rng, 5):
            values = [
                polarised.pattern(x, site.response, sidereal, alpha, delta) for x in ("breathing", "longitudinal")
            ]
            assert abs(sum(values)) < 5e-8


def test_lalsuite_has_the_same_patterns_and_signs():
    lal = pytest.importorskip("lal")
    rng = np.random.default_rng(4)
    for prefix in DETECTORS:
        detector = lal.cached_detector_by_prefix[prefix]
        for alpha, delta, sidereal in places(rng, 20):
            plus, cross, breathing, _, x, y = lal.ComputeDetAMResponseExtraModes(
                detector.response, alpha, delta, 0.0, sidereal
            )
            gps = 1_167_458_304 + 86164 * sidereal
            public = jfstat.antenna_patterns(
                prefix, jfstat.Doppler(alpha, delta, [60.0]), [gps], "scalar-vector-tensor"
            )
            turned = lal.GreenwichMeanSiderealTime(lal.LIGOTimeGPS(gps))
            theirs = lal.ComputeDetAMResponseExtraModes(detector.response, alpha, delta, 0.0, turned)
            np.testing.assert_allclose(
                public[0, :, 0], np.array(theirs)[[0, 1, 4, 5, 2]], atol=2e-6
            )  # by another formula of time
            ours = patterns(detector.response[None].astype(float), alpha, delta, jnp.asarray([sidereal]))
            np.testing.assert_allclose(ours[0, :, 0], [plus, cross, x, y, breathing], atol=1e-7)


def test_messages():
    point = jfstat.Doppler(1.0, 0.3, [60.0])
    for times in (1e9, [[1e9]], [np.nan]):
        with pytest.raises(ValueError, match="times must be a row of finite GPS times"):
            jfstat.antenna_patterns("H1", point, times)
    with pytest.raises(ValueError, match="point is a stack"):
        jfstat.antenna_patterns("H1", jfstat.Doppler([1.0, 2.0], [0.3, 0.4], [[60.0]] * 2), [1e9])
