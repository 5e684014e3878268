"""Compute posteriors of the amplitudes of known pulsars' signals, and limits, in one call: `pulsar_posteriors`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jfstat import kinds
from jfstat.data.noise import NoiseLike
from jfstat.display import Displayed, Facts
from jfstat.geometry.ephemeris import EphemerisLike
from jfstat.inference.amplitudeposterior import AmplitudePosterior, amplitude_posterior
from jfstat.inference.amplitudeprior import AmplitudePrior
from jfstat.inference.neutronstars import ellipticity, spin_down_limit
from jfstat.public import host
from jfstat.pulsars.pulsar import Pulsar
from jfstat.searching.knownpulsars import PulsarBand, check_pulsars, pulsar_search, warn_of_ephemerides
from jfstat.searching.targeted import narrowed, row_of, stretches_of, table_of
from jfstat.sfts.container import SFTs
from jfstat.sfts.reading import SFTFiles
from jfstat.signal.constants import ASTRONOMICAL_UNIT, PARSEC, SPEED_OF_LIGHT
from jfstat.validation import FrequencyLike, probability, shown

if TYPE_CHECKING:
    from astropy.table import QTable


@dataclass(frozen=True, repr=False, eq=False)
class PulsarPosteriors(Displayed):
    """Posteriors of the amplitudes of known pulsars; made by `pulsar_posteriors`.

    Attributes
    ----------
    table : QTable
        A row for each pulsar, and for each side of a glitch during the data.
    posteriors : tuple of AmplitudePosterior
        Posteriors with their samples, in the order of the rows.
    """

    table: QTable
    posteriors: tuple[AmplitudePosterior, ...]

    def _facts(self) -> Facts:
        names = ", ".join(str(row["name"]) for row in self.table[:6]) + (", ..." if len(self.table) > 6 else "")
        return Facts(f"PulsarPosteriors of {len(self.table)} pulsars", [("names", names)])


@host(pulsars=kinds.pulsars, ephemeris=kinds.ephemeris, progress=kinds.flag)
def pulsar_posteriors(
    sfts: SFTs | SFTFiles | str | os.PathLike | Sequence[str | os.PathLike],
    pulsars: Pulsar | Iterable[Pulsar],
    prior: AmplitudePrior | Mapping[str, AmplitudePrior] | None = None,
    *,
    credibility: float = 0.95,
    sqrt_sx: NoiseLike | None = None,
    ephemeris: EphemerisLike | None = None,
    guard: FrequencyLike = 1.0,
    progress: bool = True,
) -> PulsarPosteriors:
    """Compute the posteriors of h0, cosi, psi and phi0 of known pulsars, and limits of their ellipticities.

    Each SFT is reduced to what it holds of each signal, as by `search_pulsars`, and the posterior of each pulsar is
    computed as by `amplitude_posterior`, whose documentation gives the sources. The phase is taken as known: it is
    that of the timing solution at twice the rotation frequency.

    Parameters
    ----------
    sfts : SFTs, SFTFiles, or a pattern of files as for `read_sfts`
        Files are read in parts as needed; `find_sfts` selects SFTs in files.
    pulsars : Pulsar or several
        Pulsars from `read_par` and `read_pulsars`. A pulsar with a glitch during the data gets a row for the SFTs
        before the glitch and another for those after it, each with a posterior of its own; they are not combined.
    prior : AmplitudePrior, or mapping of names of pulsars to AmplitudePriors, optional
        By default isotropic orientations and a flat distribution of h0 without end; also for pulsars that the mapping
        does not name.
    credibility : float
        Probability of limits and intervals.
    sqrt_sx, ephemeris, guard, progress
        See `search_pulsars`.

    Returns
    -------
    PulsarPosteriors
        Its table has the columns of `search_pulsars` and: ``log_bstat``; ``h0_limit``, ``h0_low`` and ``h0_high``;
        ``distance`` (kpc), from the solution's ``PX`` or, in catalogues, ``DIST``; ``ellipticity_limit``;
        ``h0_spin_down``, the spin-down limit, of the spin-down without the part that proper motion feigns (Shklovskii
        1970; the Galaxy's acceleration is not taken out); and ``spin_down_ratio``, ``h0_limit`` over it. The last three
        assume a moment of inertia of 1e38 kg m^2, and are NaN without a positive parallax or distance; the last two
        also for a star that spins up. With the default prior ``log_bstat`` is known up to a constant only: noise alone
        gives some 1 to 4.

    Raises
    ------
    OSError
        If a file cannot be read.
    TypeError
        If an argument is of another kind.
    ValueError
        As for `search_pulsars`, and if `credibility` is out of range or `prior` names a pulsar that is
        not there.

    Warns
    -----
    UserWarning
        If the SFTs' band does not hold the signals of some pulsars, which are left out.

    Notes
    -----
    With the default floor, estimated from each SFT by the running median, strong signals raise their own floor; give
    ``sqrt_sx=jfstat.Noise(off_source=...)`` for those. SFTs are assumed to have rectangular windows; with a window w,
    h0 is too small by mean(w)/rms(w).
    """
    known = check_pulsars(pulsars)
    priors = _priors(prior, known)
    level = probability(credibility, "credibility", "give one such as 0.95")
    search = pulsar_search(sfts, known, PulsarBand(), sqrt_sx, ephemeris, guard, None, progress)
    warn_of_ephemerides(known, ephemeris)
    stretches = stretches_of(search)
    rows, found = {}, {}
    for x, data in narrowed(stretches, search):
        rows[x.place] = row_of(data, search)
        key = jax.random.fold_in(jax.random.key(0), x.place)
        own = amplitude_posterior(data, data.centre, priors.get(x.pulsar.name), key=key)
        found[x.place] = jax.tree.map(np.asarray, own)
    posteriors = tuple(found[x.place] for x in stretches)
    table = table_of(stretches, rows, search)
    _add_limits(table, posteriors, [x.pulsar for x in stretches], level)
    return PulsarPosteriors(table, posteriors)


def _priors(
    prior: AmplitudePrior | Mapping[str, AmplitudePrior] | None, known: list[Pulsar]
) -> dict[str, AmplitudePrior]:
    """Return the priors of pulsars that have one, by their names."""
    names = [pulsar.name for pulsar in known]
    if prior is None:
        return {}
    if isinstance(prior, AmplitudePrior):
        return dict.fromkeys(names, prior)
    if not isinstance(prior, Mapping) or not all(isinstance(x, AmplitudePrior) for x in prior.values()):
        raise TypeError(f"prior must be a jfstat.AmplitudePrior, or a mapping of names to such, not {shown(prior)}.")
    strange = [name for name in prior if name not in names]
    if strange:
        raise ValueError(f"prior names {strange[0]}, which is none of the pulsars: {', '.join(names[:8])}.")
    return dict(prior)


def _add_limits(
    table: Any, posteriors: Sequence[AmplitudePosterior], pulsars: Sequence[Pulsar], credibility: float
) -> None:
    """Add the columns of the posteriors to the table of `search_pulsars`."""
    table["log_bstat"] = [float(x.log_bstat) for x in posteriors]
    limit = np.array([float(x.h0_limit(credibility)) for x in posteriors])
    low, high = np.array([np.asarray(x.h0_interval(credibility)) for x in posteriors]).T
    parallax = np.array([max(x.parallax, 0.0) for x in pulsars])  # negative ones are measured, too
    near = parallax > 0
    distance = ASTRONOMICAL_UNIT / (1e3 * PARSEC * np.where(near, parallax, 1.0))
    freq = np.asarray(table["freq"].to_value("Hz"))
    # a star that moves across the sky seems to slow down (Shklovskii 1970): this part does not count
    across = np.array([sum(v * v for v in x.motion) for x in pulsars]) * distance * 1e3 * PARSEC / SPEED_OF_LIGHT
    f1dot = np.asarray(table["f1dot"].to_value("Hz/s")) + freq * across
    spin_down = np.where(near, np.asarray(spin_down_limit(freq, f1dot, distance)), np.nan)
    table["h0_limit"], table["h0_low"], table["h0_high"] = limit, low, high
    import astropy.units as u

    table["distance"] = np.where(near, distance, np.nan) * u.kpc
    table["ellipticity_limit"] = np.where(near, np.asarray(ellipticity(limit, freq, distance)), np.nan)
    table["h0_spin_down"] = spin_down
    table["spin_down_ratio"] = limit / spin_down
    table.meta["credibility"] = credibility
