"""The path of the loudest candidate of `jfstat track`, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jfstat.candidates.tables import in_units
from jfstat.tracking.track import track

if TYPE_CHECKING:
    from astropy.table import QTable

    from jfstat.tracking.backend import Tracks


def loudest_track(data: Any, found: Any, tracks: Tracks) -> QTable:
    """A row for each segment: its middle, the path's frequency at the reference time and there, and 2F.

    Parameters
    ----------
    data : FstatData
        With segments.
    found : QTable
        From the search for these paths.
    tracks : Tracks
    """
    own = track(data, found[0], np.asarray(tracks.transitions), amplitude=tracks.known)
    columns = {
        "gps": own.gps,
        "freq": own.frequencies,
        "freq_at_gps": own.instantaneous,
        "twoF": own.twoF,
    }
    keys = ("version", "reftime", "detectors", "ephemeris", "transitions", "amplitude", "segment_tspan", "dfreq")
    meta = {key: found.meta[key] for key in keys if key in found.meta}
    return in_units({name: np.asarray(x, np.float64) for name, x in columns.items()}, meta)
