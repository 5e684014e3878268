"""The path of a wandering signal through segments, at one template."""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.checks import check_amplitude
from jfstat.data.fstatdata import FstatData
from jfstat.display import Displayed
from jfstat.public import public
from jfstat.signal.columns import one_row
from jfstat.signal.templates import Amplitude, Doppler, template_of_row
from jfstat.tracking.emission import check_band_of_segments, emission
from jfstat.tracking.subbands import ending_within, subband_bins
from jfstat.tracking.transitions import TransitionsLike, check_reach, refuse_scores
from jfstat.tracking.viterbi import ViterbiPath, viterbi

if TYPE_CHECKING:
    from astropy.table import Row


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class Track(Displayed):
    """The best path through K segments at one template; see the function `track`.

    Attributes
    ----------
    gps : (K,) float64
        Middle of each segment, GPS s.
    frequencies : (K,) float64
        Frequencies along the path, Hz, at the template's reference time.
    instantaneous : (K,) float64
        Frequencies in the source's frame at the middle of each segment, Hz: `frequencies` plus the template's
        spin-down.
    twoF : (K,) float32
        2F of each segment along the path.
    log_likelihood : () float32
        Log-likelihood of the path: sum over segments of 2F/2, or of the log-likelihood of a known amplitude, and of the
        logarithms of the transitions' probabilities. `viterbi_null` gives its false-alarm probability.
    score : () float64
        Viterbi score; see `ViterbiPath`.
    path : (K,) int32
        Indices into ``segments.frequencies``.
    final : (n_frequencies,) float32
        Log-likelihood of the best path that ends at each frequency.
    """

    gps: jax.Array
    frequencies: jax.Array
    instantaneous: jax.Array
    twoF: jax.Array
    log_likelihood: jax.Array
    score: jax.Array
    path: jax.Array
    final: jax.Array

    @property
    def mean_twoF(self) -> jax.Array:
        """Mean over segments of 2F along the path, () float32."""
        return jnp.mean(self.twoF)


@public
def track(
    segments: FstatData,
    point: Doppler | Row,
    transitions: TransitionsLike | None = None,
    *,
    amplitude: Amplitude | None = None,
) -> Track:
    """Find the path of a signal whose frequency wanders from segment to segment, at one template.

    The template has one sky position, spin-down and orbit. The function is pure and works under jit and vmap:
    ``jax.vmap(jfstat.track, (None, 0))(segments, points)``.

    Parameters
    ----------
    segments : FstatData
        Data with a leading axis of K segments, each so short that the signal's frequency stays within a bin.
    point : Doppler or Row
        One template with scalar fields; ``fkdot[0]`` is ignored. The path describes the difference from the template's
        spin-down. Or a row of the table from ``search(segments, bank, BestPath(transitions))``, whose path is found,
        with the search's transitions and amplitude, in the row's sub-band if the search had any.
    transitions : int or array_like, optional
        Log-probabilities of jumps of -w, ..., w bins from one segment to the next, or w for equal probabilities; see
        `viterbi`, but no other scores. By default those of the row's search, or 1. Bins are as wide as the spacing of
        ``segments.frequencies``, by default half the inverse of a segment's length.
    amplitude : Amplitude, optional
        Use the log-likelihood of a signal with this h0, cosi and psi in place of 2F/2; see
        `log_likelihood_by_segment`.

    Returns
    -------
    Track

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        If `segments` has no segments, shapes are wrong, the template does not fit the data, `transitions` are no
        log-probabilities or wider than the band, or a row's sub-band is not in their band.

    Examples
    --------
    >>> jfstat.track(segments, point, transitions=1).frequencies.shape
    (3,)
    """
    own: Any = point
    meta: Any = {}
    if hasattr(point, "colnames"):
        own, meta = template_of_row(one_row(point, "point"), "point"), point.meta  # type: ignore[union-attr]
        known = meta.get("amplitude")
        amplitude = Amplitude(**known) if amplitude is None and known else amplitude
    check_band_of_segments(segments, own)
    n_frequencies = segments.layout.n_frequencies
    usual = min(1, n_frequencies - 1)
    jumps: Any = meta.get("transitions", usual) if transitions is None else transitions
    check_reach(jumps, n_frequencies)
    refuse_scores(jumps)
    if amplitude is not None:
        check_amplitude(amplitude)
    twoF = emission(segments, own, None)
    table = 0.5 * twoF if amplitude is None else emission(segments, own, amplitude)
    table = jnp.where(jnp.isnan(table), -jnp.inf, table)  # frequencies that the orbit moves out of the band
    if meta.get("subband") is not None:
        table = ending_within(table, *_subband_of_row(segments, float(own.fkdot[0]), meta))
    return _track(segments, own, twoF, viterbi(table, jumps))


def _subband_of_row(segments: FstatData, freq: float, meta: Any) -> tuple[int, int]:
    """Return the first frequency of the data that is in the sub-band of a row, and the end."""
    n = subband_bins(meta["subband"], meta["dfreq"], round((meta["fmax"] - meta["fmin"]) / meta["dfreq"]) + 1)
    first = round((freq - meta["fmin"]) / meta["dfreq"]) // n * n
    low, high = (meta["fmin"] + (x - 0.5) * meta["dfreq"] for x in (first, first + n))
    known, dfreq = np.asarray(segments.frequencies), float(segments.dfreq)
    if not known[0] - 0.5 * dfreq <= freq <= known[-1] + 0.5 * dfreq:
        raise ValueError(
            f"point's path ends at {freq} Hz, outside of the band of segments: give the data of the search."
        )
    start, stop = np.searchsorted(known, (low, high))
    return int(start), int(stop)


@jax.jit
def _track(segments: FstatData, point: Doppler, twoF: jax.Array, best: ViterbiPath) -> Track:
    observed, band = segments.observation, segments.band
    middle = observed.middle - jax.vmap(lambda own: own.reference(point))(observed)
    frequencies = jnp.max(band.fmin) + best.path.astype(jnp.float64) * jnp.max(band.dfreq)
    drift = sum(
        (point.fkdot[k] * middle**k / factorial(k) for k in range(1, point.fkdot.shape[0])), jnp.zeros_like(middle)
    )
    return Track(
        gps=observed.epoch.astype(jnp.float64) + observed.middle,
        frequencies=frequencies,
        instantaneous=frequencies + drift,
        twoF=jnp.take_along_axis(twoF, best.path[:, None], axis=1)[:, 0],
        log_likelihood=best.log_likelihood,
        score=best.score,
        path=best.path,
        final=best.final,
    )
