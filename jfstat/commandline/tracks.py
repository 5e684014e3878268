"""What `jfstat track` looks for, and the path of its loudest candidate as a table."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np

from jfstat.candidates.tables import in_units
from jfstat.signal.templates import Amplitude
from jfstat.tracking.engine import Tracks
from jfstat.tracking.track import track

if TYPE_CHECKING:
    from astropy.table import QTable


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
    own = track(data, found[0], np.asarray(tracks.transitions))
    columns = {
        "gps": own.gps,
        "freq": own.frequencies,
        "freq_at_gps": own.instantaneous,
        "twoF": own.twoF,
    }
    keys = ("version", "reftime", "detectors", "ephemeris", "transitions", "amplitude", "segment_tspan", "dfreq")
    meta = {key: found.meta[key] for key in keys if key in found.meta}
    return in_units({name: np.asarray(x, np.float64) for name, x in columns.items()}, meta)


def tracks_of(arguments: argparse.Namespace) -> Tracks | None:
    """The paths that the options ask for; None if none. It computes with JAX.

    Raises
    ------
    ValueError
        If an amplitude is incomplete or impossible.
    """
    if arguments.jumps is None:
        return None
    h0, cosi, psi = arguments.h0, arguments.cosi, arguments.psi
    if h0 is None and cosi is None and psi is None:
        return Tracks.of(arguments.jumps, None)
    if h0 is None or cosi is None:
        raise ValueError(f"--{'h0' if h0 is None else 'cosi'} is missing: a known amplitude has --h0 and --cosi.")
    return Tracks.of(arguments.jumps, Amplitude(h0, cosi, psi or 0.0))
