"""Upper limits by injections into the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.data.checks import check_data
from jfstat.data.eachsegment import each_segment
from jfstat.data.fstatdata import FstatData
from jfstat.data.observation import Observation
from jfstat.display import Displayed
from jfstat.limits.analytic import checked_mismatch, checked_strains, checked_threshold
from jfstat.limits.population import MOST_SIGNALS, Population
from jfstat.public import host
from jfstat.signal.templates import Amplitude, Doppler
from jfstat.statistic.combine import AntennaMatrix, antenna_matrix, total_matrix, two_f, whitening
from jfstat.statistic.fstat import noise_level
from jfstat.validation import NumberLike, probability, whole

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

SAMPLES_AT_ONCE = 1 << 20
"""Number of samples of data over which the sums of several injections are computed together."""
NEVER = 1e300
"""Stands in programs for the infinite h0 of injections that are not detected, whatever their strength."""
FEWEST_BEYOND = 4
"""Number of injections that must lie on either side of the quantile, for it and its error to be known."""


@dataclass(frozen=True, repr=False, eq=False)
class UpperLimit(Displayed):
    """An upper limit and the injections behind it; see `jfstat.upper_limit`.

    Attributes
    ----------
    h0 : float
        Strain amplitude at which a fraction `confidence` of the injections exceeds `threshold`.
    h0_error : float
        One-sigma error of `h0`, from the finite number of injections.
    confidence : float
    threshold : float
        Threshold on 2F, or on its mean over segments.
    critical_h0 : (n,) float64 ndarray
        Least h0 from which on each injection exceeds the threshold; 0 where data and injection exceed it at any h0.
    points : Doppler
        Templates of the injections, a stack of n.
    amplitudes : Amplitude
        Amplitudes of the injections with h0 = 1, a stack of n.
    """

    h0: float
    h0_error: float
    confidence: float
    threshold: float
    critical_h0: np.ndarray
    points: Doppler
    amplitudes: Amplitude

    def detection_probability(self, h0: ArrayLike) -> np.ndarray:
        """Return the fraction of injections that exceed the threshold at one or several strain amplitudes."""
        return np.mean(self.critical_h0 <= checked_strains(h0)[..., None], axis=-1)


@host(population=kinds.instance(Population, or_none=True))
def upper_limit(
    data: FstatData,
    threshold: NumberLike,
    population: Population | None = None,
    *,
    confidence: NumberLike = 0.95,
    mismatch: ArrayLike = 0.0,
    injections: int = 1000,
    seed: int = 0,
) -> UpperLimit:
    """Compute the h0 at which signals injected into the data exceed a threshold with a given probability.

    Signals are drawn from a population and added to the data, which keep their noise, lines and gaps. Fa and Fb are
    linear in the data: with a signal they are the sum of Fa and Fb of the data, computed at the signal's template, and
    of Fa and Fb of the signal, which follow from its amplitudes and the antenna matrix. 2F is then a quadratic function
    of h0, so that one evaluation of the statistic per injection gives the exact h0 at which it is detected.

    Parameters
    ----------
    data : FstatData
        Prepared data, with or without segments.
    threshold : float
        Value of 2F, or of its mean over segments, above which an injection counts as detected: 2F of the search's
        loudest candidate for a loudest-event limit, or the threshold of its follow-up.
    population : Population, optional
        Distribution of the signals; by default isotropic positions and orientations, and uniform frequencies in the
        band of the data. If position and frequency (with its derivatives) are single numbers, see Notes.
    confidence : float
        Detection probability, between 0 and 1.
    mismatch : float or array_like
        Fraction of rho^2 that the search loses because its templates are discrete, or a sample of such fractions: the
        mean mismatch of its bank, plus 0.065 for frequencies spaced by 1/(2T). 0 is right only for a search at the
        signals' exact templates, such as a search for a known pulsar.
    injections : int
        Number of injections. At least 4 are needed on each side of the quantile, so 80 for a confidence of 0.95. The
        error of h0 falls with the square root of their number.
    seed : int

    Returns
    -------
    UpperLimit

    Raises
    ------
    TypeError
        If `data` or `population` is of another kind.
    ValueError
        If an argument is out of range, signals of the population do not fit the data, too many of them are not
        detected at any h0, or too many exceed the threshold in the data alone, because there is a signal or a line.

    Notes
    -----
    2F of an injection is computed at its own template, which a search matches only to within the spacing of its grid:
    the limit is too low unless `mismatch` accounts for the loss. Four effects are neglected: the gain from noise in
    the loudest of the neighbouring templates, the signal's effect on the estimate of the noise floor, the fraction
    ``data.expected_loss`` of rho^2 that the SFTs lose at the band's edges, and the window w of SFTs that are not
    rectangular: divide the limit by mean(w)/rms(w), 0.816 for Hann.

    If position, frequency and its derivatives are all single numbers, every injection is added to the same Fa and Fb of
    the noise. The limit is then conditional on this realisation of the noise: ``h0_error`` does not include its
    scatter, and `confidence` is a fraction of orientations and phases only. A range in frequency averages over the
    noise.

    Examples
    --------
    >>> limit = jfstat.upper_limit(data, threshold=90.0, injections=100)
    >>> 2e-25 < limit.h0 < 2e-24
    True
    """
    check_data(data, or_segments=True)
    least = checked_threshold(threshold)
    wanted = probability(confidence, "confidence", "give one such as 0.95")
    chosen = population or Population()
    n = whole(injections, "injections", 10, MOST_SIGNALS)
    frequencies = np.asarray(data.frequencies).reshape(-1)
    points, amplitudes = chosen.draw(n, seed, freq=(frequencies.min(), frequencies.max()))
    kept = np.sqrt(1 - checked_mismatch(mismatch, n, seed))
    check_enough(n, wanted)
    terms = [np.asarray(x) for x in _terms(data.for_one_template, points, amplitudes)]
    check_fit_of(np.all([np.isfinite(x) for x in terms], axis=0))
    noise, cross, signal = terms[0], kept * terms[1], kept**2 * terms[2]
    excess = noise - (data.n_segments or 1) * least
    check_quiet(excess > 0, wanted, least)  # at some h0 an injection may cancel what is there
    critical = _critical(excess, cross, signal)
    h0, error = quantile(critical, wanted)
    return UpperLimit(h0, error, wanted, least, critical, points, amplitudes)


def check_enough(n: int, wanted: float) -> None:
    """Raise a ValueError if a number of injections is too small for a confidence."""
    if round(n * min(wanted, 1 - wanted), 6) < FEWEST_BEYOND:
        fewest = int(np.ceil(round(FEWEST_BEYOND / min(wanted, 1 - wanted), 6)))
        raise ValueError(f"injections={n} are too few for confidence={wanted:g}: take {fewest} or more.")


def check_fit_of(fits: np.ndarray) -> None:
    """Raise a ValueError if any of the signals, (n,) bool, does not fit the data."""
    if not fits.all():
        raise ValueError(
            f"population: {int(np.sum(~fits))} of {len(fits)} signals do not fit the data: prepare a wider band, or "
            "give prepare the spin-downs and the orbit of the population."
        )


def check_quiet(loud: np.ndarray, wanted: float, threshold: float) -> None:
    """Raise a ValueError if the data exceed a threshold without a signal at too many templates, (n,) bool."""
    if np.sum(loud) > len(loud) * wanted - FEWEST_BEYOND:
        raise ValueError(
            f"threshold={threshold:g} is exceeded in the data without a signal at {int(np.sum(loud))} of {len(loud)} "
            "templates, so there is no limit at this confidence: a signal or a line is there, or the threshold is too "
            "low; raise it, or leave these frequencies out."
        )


def settled(
    critical: ArrayLike, loudest: ArrayLike, wanted: float, threshold: float
) -> tuple[np.ndarray, float, float]:
    """Return the critical h0 of n injections, infinite from `NEVER` on, and their quantile with its error.

    Parameters
    ----------
    critical, loudest : (n,) float64
        Critical h0, and value of the statistic in the data without a signal.
    wanted, threshold : float
        Confidence, and threshold on the statistic.
    """
    strains, values = np.asarray(critical), np.asarray(loudest)
    check_fit_of(np.isfinite(strains) & np.isfinite(values))
    check_quiet(values > threshold, wanted, threshold)
    strains = np.where(strains >= NEVER, np.inf, strains)
    return strains, *quantile(strains, wanted)


def signal_fa_fb(
    observation: Observation, point: Doppler, amplitude: Amplitude, matrix: AntennaMatrix
) -> tuple[jax.Array, jax.Array]:
    """Return Fa and Fb of a signal at its template, of which its phi0 is the phase at the reference time.

    The formula is x = sqrt(Sinv_Tsft/2) M A^mu, with x = (Re Fa, Re Fb, -Im Fa, -Im Fb) and phases at the reference
    time: the inverse of XLALEstimatePulsarAmplitudeParams, see `jfstat.statistic.amplitude.amplitude_vector`. Phases of
    Fa and Fb are at the data's mid-time.
    """
    A, B, C = matrix
    a1, a2, a3, a4 = jnp.sqrt(noise_level(observation) / 2) * amplitude.canonical
    angle = 2 * jnp.pi * observation.source(point).cycles_at_middle
    turn = jax.lax.complex(jnp.cos(angle), jnp.sin(angle))
    fa = jax.lax.complex(A * a1 + C * a2, -A * a3 - C * a4)
    fb = jax.lax.complex(C * a1 + B * a2, -C * a3 - B * a4)
    return turn * fa, turn * fb


def whitened(fa: jax.Array, fb: jax.Array, matrix: AntennaMatrix) -> jax.Array:
    """Return four numbers, (4,) float64, whose squares add up to 2F; zero where the antenna matrix is degenerate."""
    aa, ab, bb = whitening(matrix)
    first = [aa * x + ab * y for x, y in ((fa.real, fb.real), (fa.imag, fb.imag))]
    return jnp.stack([*first, bb * fb.real, bb * fb.imag])


@jax.jit
def _terms(data: FstatData, points: Doppler, amplitudes: Amplitude) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the coefficients of 2F as a polynomial in h0, summed over segments: (n,) float64 each.

    2F of data and signal is first + 2 h0 second + h0^2 third.
    """

    def one(injection: tuple[Doppler, Amplitude]) -> tuple[jax.Array, ...]:
        point, amplitude = injection

        def of_segment(own: FstatData) -> tuple[jax.Array, ...]:
            matrix = total_matrix(antenna_matrix(own.observation, point))
            fa, fb = (jnp.sum(x) for x in own.fa_fb(point))
            signal = signal_fa_fb(own.observation, point, amplitude, matrix)
            x, y = whitened(fa, fb, matrix), whitened(*signal, matrix)
            return two_f(fa, fb, matrix), x @ y, y @ y

        return tuple(jnp.sum(x) for x in each_segment(of_segment, data))

    return jax.lax.map(one, (points, amplitudes), batch_size=max(1, SAMPLES_AT_ONCE // data.series.shape[-1]))


def _critical(excess: np.ndarray, cross: np.ndarray, signal: np.ndarray) -> np.ndarray:
    """Return the least h0, 0 or more, above which ``excess + 2 h0 cross + h0^2 signal`` is positive."""
    discriminant = cross**2 - excess * signal
    with np.errstate(divide="ignore", invalid="ignore"):
        root = (-cross + np.sqrt(np.maximum(discriminant, 0.0))) / signal
    root = np.where(signal > 0, root, np.where(excess > 0, 0.0, np.inf))
    return np.where(discriminant < 0, 0.0, np.maximum(root, 0.0))


def quantile(values: np.ndarray, share: float) -> tuple[float, float]:
    """Return a quantile and its one-sigma error.

    The error is half the distance of the order statistics one binomial deviation away. A ValueError is raised if one of
    these is infinite.
    """
    spread = np.sqrt(share * (1 - share) / len(values))
    with np.errstate(invalid="ignore"):  # inf - inf between order statistics
        low, middle, high = np.quantile(values, np.clip([share - spread, share, share + spread], 0, 1))
    if not np.all(np.isfinite([low, middle, high])):
        raise ValueError(
            f"population: {np.sum(np.isinf(values))} of {len(values)} injections are not seen at any h0, so there is "
            "no limit at this confidence: check positions and times."
        )
    return float(middle), float(0.5 * (high - low))
