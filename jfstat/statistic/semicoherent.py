"""Compute semi-coherent statistics: sums and means of 2F over segments, line-robust statistics, and amplitudes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jfstat.data.checks import check_point, check_segments
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.data.protocol import HasFaFb
from jfstat.display import Displayed
from jfstat.public import public
from jfstat.signal.templates import Doppler, template
from jfstat.statistic.amplitude import parameter_covariance, parameters_from_vector, standard_errors
from jfstat.statistic.combine import antenna_matrix
from jfstat.statistic.fstat import fstat_from, fstat_of, noise_level, twoF_of
from jfstat.statistic.linerobust import LinePrior, checked_prior, log10_odds_transient

ITERATIONS = 200
"""Number of steps of expectation maximisation: even where half of the information is missing in each, 1e-12 of the way
is left after 40.
"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class SemicoherentFstat(Displayed):
    """2F of K segments and D detectors at one template; made by `semicoherent_fstat`.

    Attributes
    ----------
    twoF : (K,) float64
        2F of each segment, all detectors together (``coh2F`` in LALSuite's Weave).
    twoF_per_detector : (K, D) float64
        2F of each segment and detector, in the order of `detectors`; 4, the mean of noise, where a detector has no
        data (``coh2F_det``).
    has_data : (K, D) bool
        Whether a detector has data in a segment. Only these values count in sums and means over segments of single
        detectors.
    detectors : tuple of str, static
    """

    twoF: jax.Array
    twoF_per_detector: jax.Array
    has_data: jax.Array
    detectors: tuple[str, ...] = field(metadata=dict(static=True))

    @property
    def sum_twoF(self) -> jax.Array:
        """Sum over segments of 2F, () float64; chi-squared with 4 K degrees of freedom in Gaussian noise."""
        return jnp.sum(self.twoF)

    @property
    def mean_twoF(self) -> jax.Array:
        """Mean over segments of 2F, () float64."""
        return jnp.mean(self.twoF)

    @property
    def sum_twoF_per_detector(self) -> jax.Array:
        """Sum of 2F over the segments in which a detector has data, (D,) float64."""
        return jnp.sum(jnp.where(self.has_data, self.twoF_per_detector, 0.0), axis=0)

    @property
    def mean_twoF_per_detector(self) -> jax.Array:
        """Mean of 2F over the segments in which a detector has data, (D,) float64; 4 for one without any."""
        n = jnp.sum(self.has_data, axis=0, dtype=float)
        return jnp.where(n > 0, self.sum_twoF_per_detector / jnp.maximum(n, 1), 4.0)

    @property
    def max_twoF(self) -> jax.Array:
        """Largest 2F of a segment, () float64."""
        return jnp.max(self.twoF)

    @property
    def max_twoF_per_detector(self) -> jax.Array:
        """Largest 2F of a segment for each detector, (D,) float64."""
        return jnp.max(self.twoF_per_detector, axis=0)

    def number_count(self, threshold: float) -> jax.Array:
        """Return the number of segments whose 2F exceeds a threshold, () int (``ncount`` in Weave)."""
        return jnp.sum(self.twoF > threshold)

    def number_count_per_detector(self, threshold: float) -> jax.Array:
        """Return the number of segments whose 2F exceeds a threshold for each detector, (D,) int."""
        return jnp.sum((self.twoF_per_detector > threshold) & self.has_data, axis=0)

    def log10BSGL(self, line_prior: LinePrior | None = None) -> jax.Array:
        """Compute log10 of the odds of a signal against Gaussian noise or a line in one detector.

        Formula as for `jfstat.candidates.linerobust.log10_bsgl`, with sums over segments for 2F (Keitel et al. 2014,
        Phys. Rev. D 89, 064023, equation 55; LALSuite: XLALComputeBSGL).

        Parameters
        ----------
        line_prior : LinePrior, optional
            With the transition scale of the sum, K times the scale of a segment, as Weave's ``--lrs-Fstar0sc``.

        Returns
        -------
        () float64

        Raises
        ------
        ValueError
            If there is only one detector, or the prior odds are of another number of detectors.
        """
        return checked_prior(line_prior).log10_odds(self.sum_twoF, list(self.sum_twoF_per_detector))

    def log10BSGLtL(self, line_prior: LinePrior | None = None, *, leading_term: bool = False) -> jax.Array:
        """Compute log10 of the odds of a signal against Gaussian noise, a line, or a line in one segment only.

        Keitel 2016 (Phys. Rev. D 93, 084024), equation 23. Half of the prior odds are for persistent, half for
        transient lines.

        Parameters
        ----------
        line_prior : LinePrior, optional
            See `log10BSGL`.
        leading_term : bool
            Approximate the logarithm of the sum over all alternatives by its largest term, as XLALComputeBSGLtL in
            LALSuite and Weave do.

        Returns
        -------
        () float64

        Raises
        ------
        ValueError
            See `log10BSGL`.
        """
        prior = checked_prior(line_prior)
        odds, scale = prior.odds(len(self.detectors)), prior.fstar0
        each = jnp.where(self.has_data, self.twoF_per_detector, -jnp.inf)
        return log10_odds_transient(self.sum_twoF, each, scale, odds, leading_term)


@public(point=template)
def sum_twoF(segments: FstatData | NarrowData, point: Doppler) -> jax.Array:
    """Compute the sum over segments of 2F at one template, () float64; see `mean_twoF`.

    Examples
    --------
    >>> round(float(jfstat.sum_twoF(segments, point) / jfstat.mean_twoF(segments, point)), 6)
    3.0
    """
    check_segments(segments)
    check_point(segments, point)
    return jnp.sum(_twoF_each(segments.for_one_template, point))


@public(point=template)
def mean_twoF(segments: FstatData | NarrowData, point: Doppler) -> jax.Array:
    """Compute the mean over segments of 2F at one template, the semi-coherent F-statistic, by direct sums.

    The amplitudes are maximised over in each segment separately, as in LALSuite's Weave (``mean2F``). In Gaussian noise
    K times the mean over K segments is chi-squared with 4 K degrees of freedom.

    Pure; works under jit, vmap and grad, and is differentiable in every field of `point`. Segments are computed one
    after the other, and again for gradients, so that memory is needed for one segment only.

    Parameters
    ----------
    segments : FstatData or NarrowData
        Data prepared with ``segments=``, or a stack of narrow data, one for each segment.
    point : Doppler or Row
        One template, scalar fields; ``vmap(mean_twoF, (None, 0))`` takes stacks.

    Returns
    -------
    () float64
        NaN for traced templates that do not fit the data of every segment.

    Raises
    ------
    TypeError
        If `segments` or `point` is of another kind.
    ValueError
        If the data have no segments, shapes are wrong or, for concrete values, the template does not fit a segment.

    See Also
    --------
    semicoherent_fstat : for 2F of each segment and detector.

    Examples
    --------
    >>> round(float(jfstat.mean_twoF(segments, point)))
    31
    """
    check_segments(segments)
    check_point(segments, point)
    return jnp.mean(_twoF_each(segments.for_one_template, point))


@public(point=template)
def semicoherent_fstat(segments: FstatData | NarrowData, point: Doppler) -> SemicoherentFstat:
    """Compute 2F of each segment and detector at one template, for sums, counts and line-robust statistics.

    See `mean_twoF` for arguments and errors.

    Returns
    -------
    SemicoherentFstat

    Examples
    --------
    >>> jfstat.semicoherent_fstat(segments, point).twoF.shape
    (3,)
    """
    check_segments(segments)
    check_point(segments, point)
    return semicoherent_fstat_of(segments.for_one_template, point)


@jax.jit
def _twoF_each(segments: HasFaFb, point: Doppler) -> jax.Array:
    """Compute 2F of each segment, (K,) float64."""
    return jax.lax.map(jax.checkpoint(lambda data: twoF_of(data, point)), segments)


@jax.jit
def semicoherent_fstat_of(segments: HasFaFb, point: Doppler) -> SemicoherentFstat:
    """Compute `semicoherent_fstat` without any checks, for use inside larger programs."""

    def one(data: HasFaFb) -> tuple[jax.Array, jax.Array]:
        own = fstat_of(data, point)
        return own.twoF, own.twoF_per_detector

    return _fstat_of(segments, *jax.lax.map(jax.checkpoint(one), segments))


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class SemicoherentAmplitude(Displayed):
    """Amplitude parameters of a signal that all segments share; made by `semicoherent_amplitude`.

    Attributes
    ----------
    h0, cosi, psi : () float64
        psi in [-pi/4, pi/4] rad.
    h0_error, cosi_error, psi_error : () float64
        One-sigma errors of the parameters, which may exceed their range.
    covariance : (3, 3) float64
        Covariance of h0, cosi and psi.
    """

    h0: jax.Array
    cosi: jax.Array
    psi: jax.Array
    h0_error: jax.Array
    cosi_error: jax.Array
    psi_error: jax.Array
    covariance: jax.Array


@public(point=template)
def semicoherent_amplitude(segments: FstatData | NarrowData, point: Doppler) -> SemicoherentAmplitude:
    """Estimate the most likely h0, cosi and psi of a signal whose initial phase is unknown in each segment.

    A template of a semi-coherent search need not keep the signal's phase from one segment to the next, so the segments
    share h0, cosi and psi but not phi0. phi0 is marginalised in each segment with a uniform prior. (Maximising over it
    in each segment would add noise to the signal, and h0 would be too large however many segments there are.)

    Parameters
    ----------
    segments : FstatData or NarrowData
        Data with segments, see `mean_twoF`.
    point : Doppler or Row
        One template.

    Returns
    -------
    SemicoherentAmplitude
        Errors are from the curvature of the likelihood. They diverge towards |cosi| = 1, as in `estimate_amplitude`.
        Of weak signals cosi and psi scatter by more: by a quarter to a half for cosi = 0.3 and a sum of 2F of 78 over 8
        segments, where h0 scatters by its error.

    Raises
    ------
    TypeError, ValueError
        See `mean_twoF`.

    Notes
    -----
    With c = (A1 - i A3, A2 - i A4), of which h0, cosi and psi fix all but the phase, y = sqrt(2 Sinv_Tsft) (Fa, Fb) and
    the antenna matrix M of a segment, ln L = Re(exp(-i phi0) c^H y) - Sinv_Tsft c^H M c / 2. Averaged over phi0 this is
    ln I0(|c^H y|) - Sinv_Tsft c^H M c / 2. The sum over segments is climbed by expectation maximisation:
    c <- (sum Sinv_Tsft M)^-1 sum y R(|c^H y|) exp(-i arg c^H y), R = I1/I0, from the c that is best for weak signals.
    """
    check_segments(segments)
    check_point(segments, point)
    return semicoherent_amplitude_of(segments.for_one_template, point)


@jax.jit
def semicoherent_amplitude_of(segments: HasFaFb, point: Doppler) -> SemicoherentAmplitude:
    """Estimate `semicoherent_amplitude` without any checks, for use inside larger programs."""

    _, y, total = semicoherent_terms(segments, point)
    return amplitude_from(y, total)


def semicoherent_terms(segments: HasFaFb, point: Doppler) -> tuple[SemicoherentFstat, jax.Array, jax.Array]:
    """Compute 2F of each segment, and y and the sum of the matrices for `amplitude_from`, from the same Fa and Fb."""
    own = jax.lax.map(jax.checkpoint(lambda data: segment_terms(data, point)), segments)
    return _fstat_of(segments, own.twoF, own.twoF_per_detector), own.y, jnp.sum(own.matrix, axis=0)


def _fstat_of(segments: HasFaFb, twoF: jax.Array, each: jax.Array) -> SemicoherentFstat:
    """Return the statistic of segments from their values of 2F, (K,) and (K, D)."""
    observed = jnp.any(segments.observation.moments != 0, axis=(-2, -1))
    return SemicoherentFstat(twoF, each, observed, segments.detectors)


class SegmentTerms(NamedTuple):
    """Contribution of a segment to the semi-coherent statistics and amplitudes.

    Attributes
    ----------
    twoF : () float64
    twoF_per_detector : (D,) float64
    y : (2,) complex128
        See `amplitude_from`.
    matrix : (2, 2) float64
        Sinv_Tsft times the antenna-pattern matrix.
    """

    twoF: jax.Array
    twoF_per_detector: jax.Array
    y: jax.Array
    matrix: jax.Array


def segment_terms(data: HasFaFb, point: Doppler) -> SegmentTerms:
    """Compute the contribution of one segment to the semi-coherent statistics and amplitudes."""
    own = fstat_from(antenna_matrix(data.observation, point), *data.fa_fb(point))
    level = noise_level(data.observation, own.twoF - 4)
    y = jnp.sqrt(2 * level).astype(own.Fa.dtype) * jnp.stack([own.Fa, own.Fb])
    matrix = level * jnp.stack([jnp.stack([own.A, own.C]), jnp.stack([own.C, own.B])])
    return SegmentTerms(own.twoF, own.twoF_per_detector, y, matrix)


def amplitude_from(y: jax.Array, total: jax.Array) -> SemicoherentAmplitude:
    """Estimate the amplitudes from y, (K, 2) complex128, and the sum of Sinv_Tsft M, (2, 2) float64.

    See the notes of `semicoherent_amplitude`.
    """
    lower = jnp.linalg.cholesky(total)
    # in white coordinates the matrix of the likelihood is the identity
    white = jax.scipy.linalg.solve_triangular(lower.astype(y.dtype), y.T, lower=True).T
    scatter = jnp.einsum("ki,kj->ij", white, jnp.conj(white))
    start = jnp.linalg.eigh(scatter)[1][:, -1]
    start = start * jnp.linalg.norm(white @ jnp.conj(start)).astype(start.dtype)

    def climbed(_: int, c: jax.Array) -> jax.Array:
        overlap = white @ jnp.conj(c)  # c^H y of each segment
        size = jnp.sqrt(jnp.abs(overlap) ** 2 + _TINY)
        weight = jax.scipy.special.i1e(size) / jax.scipy.special.i0e(size) / size
        return (weight.astype(white.dtype) * jnp.conj(overlap)) @ white

    c = jax.lax.fori_loop(0, ITERATIONS, climbed, start)
    vector = jax.scipy.linalg.solve_triangular(lower.T.astype(c.dtype), c, lower=False)
    vector = jnp.concatenate([vector.real, -vector.imag])
    back = jax.scipy.linalg.block_diag(lower.T, lower.T)
    information = back.T @ _curvature(white, c) @ back
    estimate = parameters_from_vector(vector)
    covariance = parameter_covariance(estimate, information, 3)
    return SemicoherentAmplitude(
        estimate.h0, estimate.cosi, estimate.psi, *standard_errors(estimate, covariance), covariance=covariance
    )


def _curvature(white: jax.Array, c: jax.Array) -> jax.Array:
    """Return minus the Hessian of sum_k ln I0(|c^H y_k|) - c^H c / 2 in (Re c, -Im c), (4, 4) float64.

    With R = I1/I0, the second derivative of ln I0(s) is 1 - R/s - R^2 along a change of s, and R/s across.

    Parameters
    ----------
    white : (K, 2) complex128
        y of each segment, in the coordinates in which the matrix of the likelihood is the identity.
    c : (2,) complex128
    """
    re, im = (jnp.concatenate(pair, axis=1) for pair in ((white.real, -white.imag), (white.imag, white.real)))
    overlap = white @ jnp.conj(c)
    size = jnp.sqrt(jnp.abs(overlap) ** 2 + _TINY)
    ratio = jax.scipy.special.i1e(size) / jax.scipy.special.i0e(size)
    across = ratio / size
    along = 1 - across - ratio**2
    slope = (overlap.real[:, None] * re + overlap.imag[:, None] * im) / size[:, None]
    summed = lambda weight, x: jnp.einsum("k,ki,kj->ij", weight, x, x)  # noqa: E731
    return jnp.eye(4) - summed(along - across, slope) - summed(across, re) - summed(across, im)


_TINY = 1e-30
"""Number added to |c^H y|^2, so that nothing is divided by 0 where a segment has no data."""
