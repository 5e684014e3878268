"""What `narrow` returns: the data around one template, compressed to some hundred samples, as a pytree."""

from __future__ import annotations

from dataclasses import dataclass

import jax

from jfstat.data.fstatdata import static
from jfstat.geometry.nearby import Sites
from jfstat.templates import Doppler


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class NarrowData:
    """The data as templates close to one, the centre, see them; made by `jfstat.narrow`.

    A pytree that stands in for FstatData in `twoF`, `fstat`, `estimate_amplitude` and `predict_twoF`, with the same
    results in its reach. D detectors, B blocks of time that hold data, K Chebyshev nodes a block. Those of the same
    data and the same shape may be stacked, for vmap.

    Attributes
    ----------
    samples : (D, 5, B, K) complex128
        The centre's phase taken off the data, times each of the five sidereal harmonics, and summed such that
        ``sum(samples * g(time))`` is the integral over the data for any g that is a polynomial over each block.
    sites : Sites
        Of the nodes, (D, B, K).
    centre : Doppler
        The template that they were made around.
    response : (D, 3, 3) float64
        Detector tensors.
    moments : (D, 5, 5) float64
        As in FstatData.
    sinv_tsft, middle : () float64
        As in FstatData and its band.
    reach : () float64
        How far a template's frequency in the detector's frame may differ from the centre's at any time, Hz.
    detectors, epoch, reftime, ephemeris : static
        As in FstatData.
    """

    samples: jax.Array
    sites: Sites
    centre: Doppler
    response: jax.Array
    moments: jax.Array
    sinv_tsft: jax.Array
    middle: jax.Array
    reach: jax.Array
    detectors: tuple[str, ...] = static()
    epoch: int = static()
    reftime: int = static()
    ephemeris: str = static()

    def __repr__(self) -> str:
        _, _, blocks, nodes = self.samples.shape[-4:]
        return f"NarrowData({', '.join(self.detectors)}; {blocks} blocks of {nodes} nodes around {self.centre})"
