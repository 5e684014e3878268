"""Integrate likelihoods over an unknown factor of the noise floor, with what data say of it: `noise_energy`."""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.band import taper
from jfstat.data.bandseries import STATIC
from jfstat.data.checks import check_data
from jfstat.data.eachsegment import each_segment
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.data.sftmask import half_widths
from jfstat.display import Displayed, Facts, is_known
from jfstat.public import public

LEAST_SQUARE = 1e-3
"""Square of a window below which windowed data do not count."""
TRANSITION_POWER = float(np.mean(taper((np.arange(1000) + 0.5) / 1000, 0.0, 1.0) ** 2))
"""Mean of the squared response of the low-pass over its transition."""
LEAST_LEFT = 1e-6
"""Least fraction of the energy that a signal may leave; with noise the fraction is never so small."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class NoiseEnergy(Displayed):
    """The energy of whitened data, which says by what factor their noise floor is wrong; made by `noise_energy`.

    A pytree. D detectors; arrays of data with segments are (K, D).

    Attributes
    ----------
    energy : (D,) float64
        Sum of |x|^2 over independent complex samples x of the whitened band, signals included. Their mean is 1 in noise
        of the assumed floor.
    samples : (D,) float64
        Number of these samples: the bandwidth times the length of all SFTs that count. 0 for a detector without data.
    detectors : tuple of str, static
    """

    energy: jax.Array
    samples: jax.Array
    detectors: tuple[str, ...] = field(metadata=STATIC)

    @property
    def factor(self) -> jax.Array:
        """Estimated noise power over the assumed one, (D,) float64, NaN without data.

        Its relative error is 1/sqrt(samples), and it is larger by the power of signals and lines in the band.
        """
        return jnp.where(self.samples > 0, self.energy / self.samples, jnp.nan)

    def marginalised(self, log_likelihood: jax.Array) -> jax.Array:
        """Return log-likelihood ratios with an unknown factor of the noise power, (K, D), from those with a known one.

        Parameters
        ----------
        log_likelihood : (K, D) float64
            Gaussian ones, with the assumed floor; K is 1 without segments.
        """
        samples = self.samples.reshape(log_likelihood.shape)
        energy = self.energy.reshape(log_likelihood.shape)
        energy = jnp.where((samples > 0) & (energy > 0), energy, 1.0)
        # of data without noise a signal would leave nothing, or less by rounding
        return -samples * jnp.log1p(-jnp.minimum(log_likelihood / energy, 1 - LEAST_LEFT))

    def check(self, data: FstatData | NarrowData) -> None:
        """Raise a ValueError unless the energy may be that of the data: of the same detectors and segments."""
        if self.detectors != data.detectors:
            raise ValueError(
                f"energy is of {', '.join(self.detectors)}, and data of {', '.join(data.detectors)}: make it by "
                "jfstat.noise_energy of the same data."
            )
        wanted = (*data.observation.shape, len(data.detectors))
        if np.shape(self.energy) != wanted:
            raise ValueError(
                f"energy has shape {np.shape(self.energy)}, but {wanted} is wanted for these detectors and segments: "
                "make it by jfstat.noise_energy of the same data."
            )

    def _facts(self) -> Facts:
        if not is_known(self.energy, self.samples):
            return Facts("NoiseEnergy", [("detectors", ", ".join(self.detectors))])
        each = [np.reshape(np.asarray(x), (-1, len(self.detectors))).sum(axis=0) for x in (self.energy, self.samples)]
        rows = [
            (name, f"{n:.0f} samples, " + (f"noise power {e / n:.4g} of the assumed" if n else "no data"))
            for name, e, n in zip(self.detectors, *each, strict=True)
        ]
        return Facts("NoiseEnergy", rows, many=True)


@public
def noise_energy(data: FstatData) -> NoiseEnergy:
    """Measure the energy of whitened data, with which `log_likelihood` integrates over an unknown noise floor.

    The floor that `prepare` was given, or estimated, is then wrong by one unknown factor for each detector and, with
    segments, in each of them. All that the low-pass of `prepare` lets through is used, some hundredths of a hertz at
    least, so noise and its floor must be alike there: a narrow band if one floor was given for all frequencies, and no
    lines beside it. A signal is part of the energy, as it should be. Pure; works under jit and vmap.

    Parameters
    ----------
    data : FstatData
        From `prepare`, with segments or not; from `leave_out` or `windowed` too, of which only what has some weight
        counts. Make it of these data also for narrow data, which do not hold the noise beside their template.

    Returns
    -------
    NoiseEnergy

    Raises
    ------
    TypeError
        If `data` are no FstatData.
    ValueError
        If they are a stack.

    Examples
    --------
    >>> energy = jfstat.noise_energy(data)
    >>> bool(jnp.all(abs(energy.factor - 1) < 0.1))  # the floor was known
    True
    >>> near = jfstat.narrow(data, point)
    >>> bool(jfstat.log_likelihood(near, point, amplitude, energy=energy) > 25)
    True
    """
    check_data(data, or_segments=True)
    return _noise_energy(data.for_one_template)


@jax.jit
def _noise_energy(data: FstatData) -> NoiseEnergy:
    energy, samples = each_segment(_energy_and_samples, data)
    if data.n_segments is None:
        energy, samples = energy[0], samples[0]
    return NoiseEnergy(energy, samples, data.detectors)


def _energy_and_samples(data: FstatData) -> tuple[jax.Array, jax.Array]:
    """Return the energy and the number of samples of each detector in one segment, (D,) float64 each.

    The series has the spectral density of noise weight over Tsft. What the low-pass spreads beyond the SFTs belongs to
    the nearest one, so that gaps lose no energy; between neighbours of different weights the exchange nearly cancels.
    """
    observation, band = data.observation, data.band
    half_pass, half_stop = half_widths(band)
    bandwidth = 2 * (half_pass + TRANSITION_POWER * (half_stop - half_pass))
    time = band.start + band.dt * jnp.arange(data.series.shape[-1], dtype=jnp.float64)

    window = observation.window

    def one(detector: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        series, start, weight = detector
        nearest = jnp.searchsorted(0.5 * (start[1:] + start[:-1] + observation.tsft), time)
        # the last SFT is repeated, with weight zero, where other detectors have more
        own = weight[jnp.searchsorted(start, start[nearest])]
        inverse = jnp.where(own > 0, 1 / jnp.where(own > 0, own, 1.0), 0.0)
        power = series.real.astype(jnp.float64) ** 2 + series.imag.astype(jnp.float64) ** 2
        held = jnp.sum(weight > 0, dtype=jnp.float64) * observation.tsft
        if window is not None:  # the samples are divided by the window again, where it is not too small
            square = window.mean_power(time, band.dt)
            inverse = jnp.where(square > LEAST_SQUARE, inverse / jnp.maximum(square, LEAST_SQUARE), 0.0)
            inside = (time >= start[nearest]) & (time <= start[nearest] + observation.tsft)
            held = jnp.sum(inside & (inverse > 0), dtype=jnp.float64) * band.dt
        return observation.tsft * band.dt * jnp.sum(power * inverse), bandwidth * held

    weights = observation.weight if window is None else window.weight
    return jax.lax.map(one, (data.series, observation.start, jnp.asarray(weights)))
