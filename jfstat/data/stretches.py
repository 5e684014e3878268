"""Leave stretches of time out of prepared data, without preparing again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from jfstat.data.checks import check_data
from jfstat.data.fstatdata import FstatData
from jfstat.data.newseries import with_series
from jfstat.data.observation import weighted
from jfstat.maths.arrays import any_traced
from jfstat.public import public
from jfstat.signal.times import TimeLike
from jfstat.validation import gps_seconds, shown

StretchesLike = Sequence[tuple[TimeLike, TimeLike]] | Mapping[str, Sequence[tuple[TimeLike, TimeLike]]]
"""Starts and ends, GPS s: for all detectors, or for each by its name."""


@public
def leave_out(data: FstatData, stretches: StretchesLike) -> FstatData:
    """Return prepared data without bad stretches of time: SFTs that overlap with a stretch no longer count.

    The samples and noise weights of these SFTs become zero, so that 2F, antenna matrix, predictions and metric describe
    the remaining data. Noise floors and frequencies stay as they were, and so does the time span. 2F is not exactly
    what data prepared without these SFTs give: the low-pass has mixed samples within some ten of an edge.

    Parameters
    ----------
    data : FstatData
        Not changed; without segments.
    stretches : sequence of (start, end), or mapping
        GPS s: for all detectors, or for some by their names.

    Returns
    -------
    FstatData

    Raises
    ------
    TypeError
        If `data` is of another kind.
    ValueError
        If `stretches` are no pairs of times in order, name a detector that the data do not have, or leave nothing; or
        if `data` have segments or are traced.

    Examples
    --------
    >>> rest = jfstat.leave_out(data, [(start + 7200, start + 10800)])
    >>> float(jfstat.twoF(rest, point)) < float(jfstat.twoF(data, point))
    True
    """
    if isinstance(data, FstatData) and data.n_segments is not None:
        raise ValueError(
            f"data has {data.n_segments} segments, of which one is wanted: give data[i], or leave SFTs out before "
            "jfstat.prepare."
        )
    check_data(data)
    if any_traced(data.observation, data.band):
        raise ValueError("data must not be traced: which SFTs are left out follows from their times.")
    observation = data.observation
    each = _each_detector(data.detectors, stretches)
    epoch, tsft = int(observation.epoch), float(observation.tsft)
    t = float(data.band.start) + float(data.band.dt) * np.arange(data.series.shape[-1])
    weights, kept = [], []
    for start, weight, pairs in zip(np.asarray(observation.start), np.asarray(observation.weight), each, strict=True):
        bad = np.zeros(len(start), bool)
        for low, high in pairs:
            bad |= (start + tsft > low - epoch) & (start < high - epoch)
        weights.append(np.where(bad, 0.0, weight))
        there = weight > 0
        # a sample belongs to the SFT nearest to it, as the low-pass rings into gaps
        own = start[there]
        owner = np.searchsorted(0.5 * (own[1:] + own[:-1] + tsft), t, side="right")
        kept.append(~bad[there][owner] if len(own) else np.ones(len(t), bool))
    if not any(np.any(weight > 0) for weight in weights):
        raise ValueError("stretches leave no SFT: give shorter ones.")
    inverse = None if observation.sinv_tsft is None else float(observation.sinv_tsft) / tsft
    masks = jnp.asarray(np.stack(kept))
    return replace(
        with_series(data, jnp.where(masks, data.series, 0)), observation=weighted(observation, weights, inverse)
    )


def _each_detector(detectors: Sequence[str], stretches: Any) -> list[list[tuple[float, float]]]:
    """Return starts and ends of the stretches of each detector, GPS s."""
    if isinstance(stretches, Mapping):
        unknown = [name for name in stretches if name not in detectors]
        if unknown:
            raise ValueError(
                f"stretches name {shown(unknown[0])}, but the data are of {', '.join(detectors)}: correct the name."
            )
        return [_pairs(stretches.get(name, ())) for name in detectors]
    return [_pairs(stretches)] * len(detectors)


def _pairs(stretches: Any) -> list[tuple[float, float]]:
    if not isinstance(stretches, Iterable) or isinstance(stretches, (str, bytes)):
        raise TypeError(f"stretches must be pairs (start, end), not {shown(stretches)}.")
    try:
        pairs = [(gps_seconds(low, "stretches"), gps_seconds(high, "stretches")) for low, high in stretches]
    except Exception:  # whatever a foreign object raises
        raise ValueError(f"stretches must be pairs (start, end) in GPS s, not {shown(stretches)}.") from None
    if any(low >= high for low, high in pairs):
        raise ValueError(f"stretches must be pairs with start < end, not {shown(pairs)}.")
    return pairs
