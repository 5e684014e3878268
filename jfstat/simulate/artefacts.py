"""What instruments add to noise, as objects that act on SFTs one after the other: `inject_artefacts`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jfstat import kinds
from jfstat.public import host
from jfstat.sfts.container import SFTs, SFTSeries, check_sfts
from jfstat.simulate.randomness import random_numbers
from jfstat.simulate.simulate import check_finite, single
from jfstat.validation import is_whole, shown

DAY = 86400.0
"""s."""


class Disturbance(ABC):
    """Interface of what `inject_artefacts` adds to SFTs, or changes in them.

    Attributes
    ----------
    detectors : tuple of str or None
        Prefixes of the detectors that have it; None for all.
    """

    detectors: Sequence[str] | None

    @abstractmethod
    def disturbed(self, data: np.ndarray, series: SFTSeries, sfts: SFTs) -> np.ndarray:
        """Return the bins of a detector with the disturbance.

        Parameters
        ----------
        data : (n_sfts, n_bins) complex128 ndarray
            Bins as they are so far.
        series : SFTSeries
            The detector's SFTs as they were given: their times and window.
        sfts : SFTs
        """

    def random(self, series: SFTSeries, first_bin: int = 0) -> np.random.Generator:
        """Return random numbers that follow from the field ``seed``, the detector and the start of its SFTs, and from
        their first bin where the numbers belong to bins."""
        return random_numbers([int(getattr(self, "seed", 0))], type(self).__name__, series, first_bin)


def set_fields(own: Disturbance, values: Mapping[str, Any], seed: Any = None) -> None:
    """Set fields of a frozen disturbance to checked values, and its detectors to a tuple.

    Raises
    ------
    TypeError, ValueError
        If the detectors are no names, or the seed, if there is one, no whole number.
    """
    if seed is not None and not (is_whole(seed) and seed >= 0):
        raise ValueError(f"seed must be a whole number, not negative, not {shown(seed)}.")
    if own.detectors is not None:
        kinds.names(own.detectors, "detectors")
        names = (own.detectors,) if isinstance(own.detectors, str) else tuple(own.detectors)
        values = {**values, "detectors": names}
    for name, value in values.items():
        object.__setattr__(own, name, value)


@host(sfts=kinds.instance(SFTs))
def inject_artefacts(sfts: SFTs, artefacts: Sequence[Disturbance]) -> SFTs:
    """Add artefacts of instruments to SFTs; the given SFTs are not changed.

    Parameters
    ----------
    sfts : SFTs
        Their windows are applied to the artefacts; an unknown window is taken as rectangular.
    artefacts : sequence of Disturbance
        `Artefact`, `WanderingLine`, `Glitches`, `BroadLine` and `FloorDrift`, in the order in which they are to act:
        a drift of the floor scales all that is there before it. `comb` makes a sequence of lines.

    Returns
    -------
    SFTs
        New SFTs with the artefacts.

    Raises
    ------
    TypeError
        If `artefacts` is no sequence of such objects.
    ValueError
        If the frequency of one leaves the SFTs' band, its window lies wholly before or after them, it is of a detector
        that the SFTs are not of, or it is too strong for complex64.

    Examples
    --------
    >>> drift = jfstat.FloorDrift(0.3, timescale=20000.0)
    >>> dirty = jfstat.inject_artefacts(sfts, [drift, jfstat.Artefact(100.0, 1e-23, detectors=['H1'])])
    """
    check_sfts(sfts)
    check_finite(sfts)
    kinds.sequence(artefacts, "artefacts")
    artefacts = list(artefacts)
    for one in artefacts:
        if not isinstance(one, Disturbance):
            raise TypeError(f"artefacts must hold objects such as jfstat.Artefact, not {shown(one)}: make such ones.")
        unknown = sorted(set(one.detectors or ()) - set(sfts.detectors))
        if unknown:
            raise ValueError(f"artefacts: detectors has {unknown[0]}, and the SFTs are of {', '.join(sfts.detectors)}.")
    series = []
    for own in sfts:
        data = np.asarray(own.data, np.complex128)
        for one in artefacts:
            if one.detectors is None or own.detector in one.detectors:
                data = one.disturbed(data, own, sfts)
        series.append(replace(own, data=single(data, "artefacts", "h0 or sqrt_sx")))
    return SFTs(tuple(series), sfts.tsft, sfts.first_bin)
