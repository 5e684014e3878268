"""Divide SFTs by their noise floor, with the motions of their detectors: what power along tracks needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.noise import Noise, NoiseFloor, noise_weights
from jfstat.data.observation import Observation, reference_time, unweighted, weighted
from jfstat.data.targets import chunks
from jfstat.geometry.ephemeris import EphemerisLike
from jfstat.geometry.frequencies import Motion, motion_of
from jfstat.maths.arrays import on_device
from jfstat.sfts.container import SFTs


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class NormalisedSFTs:
    """SFTs divided by their noise floor, and the motions of their detectors: D detectors with S SFTs of n_bins.

    Attributes
    ----------
    bins : (n_bins, D, S) complex64 or float32
        Bins whose mean power in noise is 1, or this power. Tracks move slowly from bin to bin, so that the values along
        them lie close together in memory.
    first_bin : () int64
        Number of the first bin, from a frequency of zero on.
    motion : Motion
        Of the detectors in the middle of the SFTs, with times of shape (D, S).
    observation : Observation
        Its weight is zero where a detector has fewer SFTs.
    """

    bins: jax.Array
    first_bin: jax.Array
    motion: Motion
    observation: Observation


@jax.jit
def _motions(observation: Observation) -> Motion:
    axes: Any = 0, 1, 1, 0, 0, 1  # components of vectors stay in front of the detectors
    return jax.vmap(motion_of, out_axes=Motion(*axes))(
        observation.trajectory, observation.start + 0.5 * observation.tsft
    )


def normalised(sfts: SFTs, noise: Noise, ephemeris: EphemerisLike, power: bool) -> NormalisedSFTs:
    """Divide SFTs by their noise floor; `power` asks for the power of the bins instead of their amplitudes.

    Each SFT is weighted by the mean of its floor over all bins, as in `observation`.

    Raises
    ------
    ValueError
        If the noise floor cannot be estimated.
    """
    floors = noise.floors(sfts.detectors)
    if sfts.n_bins < noise.least_bins and None in floors:
        raise ValueError(
            f"the noise floor needs {noise.least_bins} bins and the SFTs hold {sfts.n_bins}: give SFTs of a wider "
            "band, or sqrt_sx."
        )
    band = slice(0, sfts.n_bins)
    each = [NoiseFloor(s, sfts.tsft, floor, band, band, noise) for s, floor in zip(sfts, floors, strict=True)]
    seen = unweighted(sfts, reference_time(None, sfts.start), ephemeris)
    bins = np.zeros((sfts.n_bins, *seen.start.shape), np.float32 if power else np.complex64)
    mean = [np.empty(len(s)) for s in sfts]
    for k, floor in enumerate(each):
        for rows in chunks(len(floor.series)):  # transposed together: values of a bin are neighbours
            own: Any = floor.series.data[rows].copy()
            for i, sft in enumerate(own):
                psd = floor.psd(rows.start + i)
                mean[k][rows.start + i] = floor.band_mean(psd)
                sft *= np.sqrt(2 / (sfts.tsft * floor.whitened_power * psd)).astype(np.float32)
            bins[:, k, rows] = (own.real**2 + own.imag**2 if power else own).T
    seen = weighted(seen, *noise_weights(mean))
    return NormalisedSFTs(jnp.asarray(bins), on_device(np.int64(sfts.first_bin)), _motions(seen), seen)
