"""Define the tallies of a search: the histogram of 2F, and the sub-bands whose maxima are reported.

Sub-bands are made of the sections of the spectrum whose maxima every engine gives. Where the sections lie depends on
the data alone, so that tables of different engines have the same sub-bands.
"""

from __future__ import annotations

import numpy as np

from jfstat.data.protocol import Sizes
from jfstat.engines.reduction import BINS, WIDTH, section_starts
from jfstat.maths.arrays import LEAST
from jfstat.transforms import section_count

HISTOGRAM_EDGES = WIDTH * np.arange(BINS)
"""Lower edges of the histogram's bins of 2F. The last bin has no upper end; values rounded below 0 are in the first."""
SLIVER = 0.5
"""Smallest fraction of a section that is a sub-band of its own at an edge of the band; less joins the neighbour."""


def subband_edges(layout: Sizes) -> np.ndarray:
    """Return the edges of the sub-bands: sub-band s holds the bins edges[s] to edges[s + 1] - 1.

    Returns
    -------
    (S + 1,) int64
        Increasing, from 0 to ``layout.n_frequencies``.
    """
    end = layout.n_frequencies
    edges = np.unique(np.clip([0, *section_starts(layout), end], 0, end))
    least = SLIVER * 2 * layout.n_fft / section_count(layout.n_fft)
    inner = edges[1:-1]
    return np.array([0, *inner[(inner >= least) & (end - inner >= least)], end], np.int64)


def subband_maxima(layout: Sizes, sections: np.ndarray) -> np.ndarray:
    """Return the largest 2F of each sub-band, given the largest 2F of each section.

    Parameters
    ----------
    layout : Sizes
    sections : (P,) float32
        Largest 2F of each section; see `engine.Loudest`.

    Returns
    -------
    (S,) float32
        `arrays.LEAST` where no bin counts.
    """
    edges = subband_edges(layout)
    # sections beyond the band hold no bin that counts: where they are added does not matter
    own = np.clip(np.searchsorted(edges, section_starts(layout), side="right") - 1, 0, len(edges) - 2)
    tops = np.full(len(edges) - 1, LEAST, np.float32)
    np.maximum.at(tops, own, sections)
    return tops
