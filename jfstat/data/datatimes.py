"""Compare the times of data with those for which sizes were chosen beforehand."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.bandseries import STATIC
from jfstat.data.fstatdata import FstatData
from jfstat.maths.arrays import any_traced


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Times:
    """Times of prepared data: all on which sizes of slices and blocks depend. With segments, of each.

    Attributes
    ----------
    epoch : () int64
    start, dt : () float64
        Of the band series.
    sfts : (D, S) float64
        Starts of the SFTs.
    n_samples : int, static
        Length of the band series.
    """

    epoch: jax.Array
    start: jax.Array
    dt: jax.Array
    sfts: jax.Array
    n_samples: int = field(metadata=STATIC)

    @classmethod
    def of(cls, data: FstatData) -> Times:
        """Return the times of data."""
        observation, band = data.observation, data.band
        return cls(observation.epoch, band.start, band.dt, observation.start, data.series.shape[-1])

    def suit(self, data: FstatData) -> jax.Array:
        """Return whether data have these times, () bool."""
        own, other = jax.tree.leaves(self), jax.tree.leaves(Times.of(data))
        return jnp.stack([jnp.all(jnp.asarray(a) == jnp.asarray(b)) for a, b in zip(own, other, strict=True)]).all()

    def check(self, data: FstatData) -> None:
        """Raise a ValueError if data have other sizes or, for concrete values, other times."""
        other = Times.of(data)
        same = self.n_samples == other.n_samples and all(
            np.shape(getattr(self, f.name)) == np.shape(getattr(other, f.name)) for f in fields(self)
        )
        if same and not any_traced((self, other)):
            with jax.ensure_compile_time_eval():
                same = bool(self.suit(data))
        if not same:
            raise ValueError("sizes were made for data with other times or frequencies: make them for these data.")
