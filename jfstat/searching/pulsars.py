"""Search for the signals of known pulsars, at their templates or in a band around each: `search_pulsars`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from jfstat import kinds
from jfstat.data.noise import NoiseLike
from jfstat.geometry.ephemeris import EphemerisLike
from jfstat.public import host
from jfstat.pulsars.pulsar import Pulsar
from jfstat.searching.knownpulsars import PulsarBand, check_pulsars, pulsar_search, warn_of_ephemerides
from jfstat.searching.pulsarbands import banded
from jfstat.searching.targeted import targeted
from jfstat.sfts.container import SFTs
from jfstat.sfts.reading import SFTFiles
from jfstat.statistic.linerobust import LinePrior
from jfstat.validation import FrequencyLike, shown

if TYPE_CHECKING:
    from astropy.table import QTable


@host(pulsars=kinds.pulsars, ephemeris=kinds.ephemeris, progress=kinds.flag)
def search_pulsars(
    sfts: SFTs | SFTFiles | str | os.PathLike | Sequence[str | os.PathLike],
    pulsars: Pulsar | Iterable[Pulsar],
    band: PulsarBand | None = None,
    *,
    sqrt_sx: NoiseLike | None = None,
    ephemeris: EphemerisLike | None = None,
    guard: FrequencyLike = 1.0,
    line_prior: LinePrior | None = None,
    progress: bool = True,
) -> QTable:
    """Compute 2F and the amplitudes of known pulsars' signals, or search a band around each.

    Without a band the data are not prepared: each SFT is reduced to what it holds of each signal, in one pass for all
    pulsars whose bands overlap, so that years of SFTs take seconds and little memory. A band is for signals that differ
    a little from the pulsar's rotation.

    Parameters
    ----------
    sfts : SFTs, SFTFiles, or a pattern of files as for `read_sfts`
        SFTs to search. Files are read in parts as needed; `find_sfts` selects SFTs in files.
    pulsars : Pulsar or several
        Pulsars from `read_par` and `read_pulsars`. Without a band, a pulsar with a glitch during the data gets a row
        for the SFTs before the glitch and another for the SFTs after it; with a band it is refused: choose times by
        `find_sfts`.
    band : PulsarBand, optional
        Band to search around each pulsar; by default its own template alone, at twice the rotation frequency.
    sqrt_sx : float, sequence, mapping or Noise, optional
        Noise floor; see `prepare`. None estimates it from each SFT by the running median of 101 bins, a
        ``Noise(off_source=)`` from bins beside each signal, as needed for signals that are loud in each SFT, such as
        hardware injections. ``Noise(median_bins=1001)`` is steadier where the floor is smooth over 0.5 Hz; without a
        band the number is odd.
    ephemeris : str or two paths, optional
        See `load_ephemeris`. By default the ephemeris of each timing solution (``EPHEM``), or DE405 where it is not
        installed.
    guard : float or Quantity
        Width of the SFTs to use on each side of a signal, Hz; less if the SFTs have less.
    line_prior : LinePrior, optional
        For ``log10BSGL``.
    progress : bool
        Whether to show the rate and the time left.

    Returns
    -------
    QTable
        A row for each pulsar, or ``band.top`` rows. Columns: ``name``; the parameters of the template at
        ``meta["reftime"]``, with zeros for the orbit of isolated pulsars in a table with binaries, and the proper
        motion ``pmra``, ``pmdec`` (rad/s) if there is one; ``twoF`` and ``twoF_H1``, ... as from `fstat`; with several
        detectors ``log10BSGL``; ``h0``, ``cosi``, ``psi``, ``phi0`` and their errors from `estimate_amplitude`;
        ``false_alarm``, the probability in Gaussian noise of this 2F as the loudest of the pulsar's band; ``n_twoF``,
        the number of values of 2F in that band; ``phase_error``, the largest error of the template's phase in cycles
        (`Pulsar.phase_error`); ``start`` and ``end`` of the SFTs (GPS s); ``ephemeris``.

    Raises
    ------
    OSError
        If a file cannot be read.
    TypeError
        If an argument is of another kind.
    ValueError
        If there are no pulsars, an argument is out of range, the SFTs hold no pulsar's signal, or a pulsar cannot be
        searched, for example because its orbit is too fast; the message names it.

    Warns
    -----
    UserWarning
        If the SFTs' band does not hold the signals of some pulsars, which are left out.
    """
    known = check_pulsars(pulsars)
    around = PulsarBand() if band is None else band
    if not isinstance(around, PulsarBand):
        raise TypeError(f"band must be a jfstat.PulsarBand or None, not {shown(around)}.")
    search = pulsar_search(sfts, known, around, sqrt_sx, ephemeris, guard, line_prior, progress)
    warn_of_ephemerides(known, ephemeris)
    return banded(search) if around.wide else targeted(search)
