"""Cut SFTs into the segments of a semi-coherent statistic."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.data.noise import Noise, NoiseLike
from jfstat.data.observation import Observation, Span, ephemeris_for, observation_of_sfts, reference_time
from jfstat.public import host
from jfstat.sfts.container import SFTs, check_sfts
from jfstat.signal.times import TimeLike
from jfstat.validation import DurationLike, gps_seconds, is_whole, positive_seconds, shown

if TYPE_CHECKING:
    from jfstat.geometry.ephemeris import EphemerisLike
    from jfstat.validation import FrequencyLike

SegmentsLike = DurationLike | Sequence[tuple[TimeLike, TimeLike]]
"""A number of segments (an int), their duration, or their starts and ends; see `jfstat.prepare`."""


def segments_of(sfts: SFTs, segments: SegmentsLike) -> list[SFTs]:
    """Return the SFTs of each segment, with all detectors, some of which may have no SFTs in it.

    Parameters
    ----------
    sfts : SFTs
    segments : int, float, Quantity or sequence of (start, end)
        See `jfstat.prepare`.

    Raises
    ------
    ValueError
        If `segments` is none of these, segments overlap, or one given by its ends has no SFT.

    Warns
    -----
    UserWarning
        If segments given by number or duration have no SFT and are left out.
    """
    edges, given = _edges(sfts, segments)
    parts = [_between(sfts, start, end) for start, end in edges]
    empty = [i for i, part in enumerate(parts) if len(part) == 0]
    if empty:
        listed = ", ".join(f"{i} (GPS {edges[i][0]:.0f} to {edges[i][1]:.0f})" for i in empty[:10])
        listed += ", ..." if len(empty) > 10 else ""
        if given or len(empty) == len(parts):
            raise ValueError(f"segments without SFTs: {listed}; leave them out.")
        warnings.warn(f"{len(empty)} of {len(parts)} segments hold no SFT and are left out: {listed}.", stacklevel=3)
    return [part for part in parts if len(part)]


def equal_spans(parts: list[SFTs]) -> list[Span]:
    """Return the spans of the segments, from the first SFT of each, all with the length of the longest."""
    spans = [Span.of(part) for part in parts]
    length = max(span.length for span in spans)
    return [Span(span.epoch, span.start, length) for span in spans]


@host(ephemeris=kinds.ephemeris)
def segment_observations(
    sfts: SFTs,
    segments: SegmentsLike,
    sqrt_sx: NoiseLike | None = None,
    reftime: TimeLike | None = None,
    ephemeris: EphemerisLike = "DE405",
    fmin: FrequencyLike | None = None,
    fmax: FrequencyLike | None = None,
) -> Observation:
    """Return the observation of each segment, with a leading axis of segments, before any data are prepared.

    Arguments and errors as for `jfstat.observation` and `segments_of`.
    """
    check_sfts(sfts)
    parts = segments_of(sfts, segments)
    spans, reference = equal_spans(parts), reference_time(reftime, sfts.start)
    tables, noise = ephemeris_for(ephemeris, spans), Noise.of(sqrt_sx)
    each = [
        observation_of_sfts(part, noise, reference, tables, fmin, fmax, span)
        for part, span in zip(parts, spans, strict=True)
    ]
    return jax.tree.map(lambda *x: jnp.stack(x), *each)


def _edges(sfts: SFTs, segments: SegmentsLike) -> tuple[list[tuple[float, float]], bool]:
    """Return start and end of each segment, GPS s, and whether the user gave them."""
    if is_whole(segments):
        if not 1 <= segments <= len(sfts):
            raise ValueError(
                f"segments must be a number from 1 to the {len(sfts)} SFTs, not {segments}: give a duration as a float."
            )
        cuts = np.linspace(sfts.start, sfts.end, int(segments) + 1)
    elif isinstance(segments, (float, np.floating)) or hasattr(segments, "to_value"):
        duration = positive_seconds(segments, "segments")
        if duration < sfts.tsft:
            raise ValueError(f"segments of {duration} s are shorter than an SFT of {sfts.tsft:g} s: give a longer one.")
        cuts = sfts.start + duration * np.arange(max(1, int(np.ceil((sfts.end - sfts.start) / duration - 1e-9))) + 1)
    else:
        return _pairs(segments), True
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)), False


def _pairs(segments: Any) -> list[tuple[float, float]]:
    try:
        edges = [(gps_seconds(start, "segments"), gps_seconds(end, "segments")) for start, end in segments]
    except (TypeError, ValueError) as error:
        if str(error).startswith("segments"):
            raise
        edges = []
    wrong = next((pair for pair in edges if pair[0] >= pair[1]), None)
    if wrong is not None or not edges:
        raise ValueError(
            "segments must be a number, a duration or pairs (start, end) with start < end, not "
            f"{shown(wrong or segments)}."
        )
    ordered = sorted(edges)
    if any(later[0] < earlier[1] for earlier, later in pairwise(ordered)):
        raise ValueError("segments overlap: give pairs (start, end) that do not.")
    return edges


def _between(sfts: SFTs, start: float, end: float) -> SFTs:
    """Return the SFTs of all detectors that start in [start, end)."""
    return SFTs(tuple(series.between(start, end) for series in sfts), sfts.tsft, sfts.first_bin)
