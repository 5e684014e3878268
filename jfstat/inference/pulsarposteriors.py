"""Compute posteriors of the amplitudes of known pulsars' signals, and limits, in one call: `pulsar_posteriors`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jfstat import kinds
from jfstat.data.noise import Noise, NoiseLike
from jfstat.display import Displayed, Facts
from jfstat.geometry.ephemeris import EphemerisLike
from jfstat.inference.amplitudeposterior import AmplitudePosterior
from jfstat.inference.amplitudeprior import AmplitudePrior
from jfstat.inference.dualharmonic import DualHarmonicPrior
from jfstat.inference.dualposterior import DualHarmonicPosterior
from jfstat.inference.neutronstars import ellipticity, spin_down_limit
from jfstat.inference.overtiming import pulsar_likelihood
from jfstat.inference.pulsarlikelihoods import common, measured
from jfstat.inference.pulsarsignals import SIGNALS, PulsarLikelihood, PulsarSignal, posterior_of
from jfstat.public import host
from jfstat.pulsars.pulsar import LARGE_PHASE_ERROR, Pulsar
from jfstat.searching.knownpulsars import PulsarBand, check_pulsars, pulsar_search, warn_of_ephemerides
from jfstat.searching.session.progress import progress_bar
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
        A row for each pulsar.
    posteriors : tuple of AmplitudePosterior or DualHarmonicPosterior
        Posteriors with their samples, in the order of the rows. Where errors of the timing solution are integrated
        over, these are samples at 64 templates, and some are there several times.
    priors : tuple of AmplitudePrior or DualHarmonicPrior
        Their priors.
    likelihoods : tuple of PulsarLikelihood
        What the data say of each row's signal, at one harmonic or at two: see `ellipticity_likelihoods`.
    """

    table: QTable
    posteriors: tuple[AmplitudePosterior, ...] | tuple[DualHarmonicPosterior, ...]
    priors: tuple[AmplitudePrior, ...] | tuple[DualHarmonicPrior, ...]
    likelihoods: tuple[PulsarLikelihood, ...]

    def _facts(self) -> Facts:
        names = ", ".join(str(row["name"]) for row in self.table[:6]) + (", ..." if len(self.table) > 6 else "")
        return Facts(f"PulsarPosteriors of {len(self.table)} pulsars", [("names", names)])


@host(pulsars=kinds.pulsars, ephemeris=kinds.ephemeris, progress=kinds.flag)
def pulsar_posteriors(
    sfts: SFTs | SFTFiles | str | os.PathLike | Sequence[str | os.PathLike],
    pulsars: Pulsar | Iterable[Pulsar],
    prior: AmplitudePrior | DualHarmonicPrior | Mapping[str, AmplitudePrior | DualHarmonicPrior] | None = None,
    *,
    credibility: float = 0.95,
    sqrt_sx: NoiseLike | None = None,
    ephemeris: EphemerisLike | None = None,
    guard: FrequencyLike = 1.0,
    progress: bool = True,
) -> PulsarPosteriors:
    """Compute the posteriors of the amplitudes of known pulsars' signals, and limits of their ellipticities.

    Each SFT is reduced to what it holds of each signal, as by `search_pulsars`, and the posterior of each pulsar is
    computed as by `amplitude_posterior`, whose documentation gives the sources. The phase is that of the timing
    solution at twice the rotation frequency. Errors in the .par file, as read by `timing_errors`, are integrated over
    where they lower the logarithm of the likelihood by more than 0.01 on average. With a `DualHarmonicPrior` the signal
    is that at the rotation frequency and at twice it, as for `dual_harmonic_posterior`.

    Parameters
    ----------
    sfts : SFTs, SFTFiles, or a pattern of files as for `read_sfts`
        Files are read in parts as needed; `find_sfts` selects SFTs in files.
    pulsars : Pulsar or several
        Pulsars from `read_par` and `read_pulsars`. SFTs before and after a glitch are added up, with the phase that the
        solution has in each: its ``GLPH`` counts, and an error of it is integrated over; one of half a cycle leaves the
        phase free. SFTs that may hold the glitch itself are left out.
    prior : AmplitudePrior, DualHarmonicPrior, or mapping of names of pulsars to either, optional
        Its kind chooses between signals at one and at two harmonics. By default one harmonic, isotropic orientations
        and an improper uniform prior of h0, from 0 to infinity; so have pulsars that a mapping does not name, of h0 or
        of C21 and C22.
    credibility : float
        Probability of limits and intervals.
    sqrt_sx : float, sequence, mapping or Noise, optional
        Noise floor in 1/sqrt(Hz), one for all detectors or one for each, or how it is estimated. By default the running
        median of 1001 bins, or of as many as the SFTs hold, but of at least 101; ``jfstat.Noise()`` gives the 101 bins
        of `search_pulsars`.
    ephemeris, guard, progress
        See `search_pulsars`.

    Returns
    -------
    PulsarPosteriors
        Its table has the columns of `search_pulsars`, for twice the rotation frequency and one row for each pulsar,
        whose ``freq`` and spin-downs are those before a glitch during the data, and: ``timing_mismatch``, the fraction
        of rho^2 that the errors of the .par file lose on average at the template of the file, where 2F and its
        amplitudes are those of the file; ``log_bstat``; ``h0_limit``, ``h0_low`` and ``h0_high``; ``distance`` (kpc),
        from the solution's positive ``PX``, or else its ``DIST``; ``ellipticity_limit``; ``h0_spin_down``, the
        spin-down limit, of the spin-down without the part that proper motion feigns (Shklovskii 1970; the Galaxy's
        acceleration is not taken out); and ``spin_down_ratio``, ``h0_limit`` over it. The last three assume a moment of
        inertia of 1e38 kg m^2, and are NaN without a positive parallax or distance; the last two also for a star that
        spins up. With the default prior ``log_bstat`` is known up to a constant only: noise alone gives some 1 to 4.
        For two harmonics h0 is 2 C22, ``twoF_21`` is 2F at the rotation frequency, and there are ``c21_limit``,
        ``c21_low`` and ``c21_high``, and the same of ``c22``; the ellipticity is then that of the m = 2 part alone.

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
        If the SFTs' band does not hold the signals of some pulsars, which are left out. If ``phase_error`` of some
        pulsars exceeds 0.03 cycles: their signals are lost in part, so that limits of h0 are too low. Or if the errors
        of a timing solution cannot be integrated over: because templates are out of reach, so that the solution is
        taken as exact, or because few draws of them count.

    Notes
    -----
    The running median of 1001 bins of half-hour SFTs is as wide as half a hertz, and knows the floor of an SFT to some
    5 %; of 101 bins to 14 %, so that limits of h0 from a day scatter by some per cent. Lines do not matter, but where
    the floor itself bends within half a hertz, as beside the lines of the mains, ``sqrt_sx=jfstat.Noise()`` follows it.
    Amplitudes of strong signals are right to 0.1 % with the default; ``jfstat.Noise(median_bins=1001, off_source=10)``
    also keeps a very loud signal out of its own floor. SFTs are assumed to have rectangular windows; with a window w,
    the h0 found is the true one times mean(w)/rms(w).
    """
    known = check_pulsars(pulsars)
    signal, priors = _signal_and_priors(prior, known)
    level = probability(credibility, "credibility", "give one such as 0.95")
    bands = [PulsarBand(harmonic=harmonic) for harmonic in signal.harmonics]
    search = pulsar_search(sfts, known, bands[0], sqrt_sx, ephemeris, guard, None, progress)
    if sqrt_sx is None:
        search = replace(search, noise=Noise.steady(search.parts.last_bin + 1 - search.parts.first_bin))
    searches = [replace(search, band=band) for band in bands]
    warn_of_ephemerides(known, ephemeris)
    found = common([measured(search) for search in searches])
    used, posteriors, likelihoods = [], [], []
    with progress_bar(len(found[-1].pulsars), progress, "posteriors", "pulsars") as advance:
        for place, pulsar in enumerate(found[-1].pulsars):
            key = jax.random.fold_in(jax.random.key(0), place)
            used.append(priors.get(pulsar.stretch.pulsar.name) or signal.prior())
            likelihoods.append(pulsar_likelihood([one.pulsars[place] for one in found], place))
            posteriors.append(jax.tree.map(np.asarray, posterior_of(signal, likelihoods[-1], used[-1], key)))
            advance(1)
    table: Any = found[-1].table
    _warn_of_phases(table)
    table["timing_mismatch"] = [x.mismatch for x in found[-1].pulsars]
    table["log_bstat"] = [float(x.log_bstat) for x in posteriors]
    signal.add_columns(table, posteriors, [np.array([x.row[0] for x in one.pulsars]) for one in found], level)
    _add_ellipticities(table, [x.stretch.pulsar for x in found[-1].pulsars])
    table.meta |= dict(noise=search.noise.words, credibility=level)
    return PulsarPosteriors(table, tuple(posteriors), tuple(used), tuple(likelihoods))


def _signal_and_priors(prior: object, known: list[Pulsar]) -> tuple[PulsarSignal, dict[str, Any]]:
    """Return the kind of signal, and the priors of pulsars that have one, by their names."""
    names = [pulsar.name for pulsar in known]
    if prior is None:
        return SIGNALS[AmplitudePrior], {}
    if type(prior) in SIGNALS:
        return SIGNALS[type(prior)], dict.fromkeys(names, prior)
    if not isinstance(prior, Mapping) or not all(type(x) in SIGNALS for x in prior.values()):
        kinds_of_priors = " or a ".join(f"jfstat.{kind.__name__}" for kind in SIGNALS)
        raise TypeError(f"prior must be a {kinds_of_priors}, or a mapping of names to such, not {shown(prior)}.")
    strange = [name for name in prior if name not in names]
    if strange:
        raise ValueError(f"prior names {strange[0]}, which is none of the pulsars: {', '.join(names[:8])}.")
    used = {type(x) for x in prior.values()}
    if len(used) > 1:
        raise ValueError("prior has priors of one harmonic and of two: compute these pulsars in calls of their own.")
    return SIGNALS[used.pop() if used else AmplitudePrior], dict(prior)


def _warn_of_phases(table: Any) -> None:
    """Warn of pulsars whose templates leave so much out of their timing solutions that signals are lost in part."""
    errors = np.asarray(table["phase_error"].to_value("cycle"))
    large = np.flatnonzero(~(errors <= LARGE_PHASE_ERROR))
    if len(large):
        names = ", ".join(f"{table['name'][i]} ({errors[i]:.2g})" for i in large)
        warnings.warn(
            f"limits of h0 may be too low: templates leave out parts of timing solutions, whose phases are wrong by up "
            f"to so many cycles: {names}. Analyse shorter stretches of the data, from jfstat.find_sfts(start=, end=).",
            stacklevel=5,
        )


def _add_ellipticities(table: Any, pulsars: Sequence[Pulsar]) -> None:
    """Add columns with distances, limits of ellipticities and spin-down limits."""
    parallax = np.array([max(x.parallax, 0.0) for x in pulsars])  # negative ones are measured, too
    near = parallax > 0
    distance = ASTRONOMICAL_UNIT / (1e3 * PARSEC * np.where(near, parallax, 1.0))
    freq = np.asarray(table["freq"].to_value("Hz"))
    # a star that moves across the sky seems to slow down (Shklovskii 1970): this part does not count
    across = np.array([sum(v * v for v in x.motion) for x in pulsars]) * distance * 1e3 * PARSEC / SPEED_OF_LIGHT
    f1dot = np.asarray(table["f1dot"].to_value("Hz/s")) + freq * across
    spin_down = np.where(near, np.asarray(spin_down_limit(freq, f1dot, distance)), np.nan)
    limit = np.asarray(table["h0_limit"])
    import astropy.units as u

    table["distance"] = np.where(near, distance, np.nan) * u.kpc
    table["ellipticity_limit"] = np.where(near, np.asarray(ellipticity(limit, freq, distance)), np.nan)
    table["h0_spin_down"] = spin_down
    table["spin_down_ratio"] = limit / spin_down
