"""Compute how much of a loud candidate's rho^2 other templates show: its side lobes and neighbours."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.candidates.tables import Meta
from jfstat.data.observation import Observation
from jfstat.geometry.rotation import sidereal_time
from jfstat.geometry.source import Source, source
from jfstat.metrics.mismatch import loss
from jfstat.signal.templates import Amplitude, Doppler
from jfstat.signal.times import TimeLike, gps_time

MOST_TIMES = 2000
"""Largest number of times of each detector; of more SFTs a random part is enough."""
FEW_TIMES = 300
"""Number of times of each detector with which the place of a signal is fitted."""
MOMENT = 60.0
"""Half of the time over which a velocity is taken, s."""
STORED = ("time", "weight", "position", "response", "velocity", "tsft", "epoch")
"""Fields of a sampling that a table's meta keeps."""
CHUNK = 64
"""Number of templates compared at a time."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Sampling:
    """Times of an observation with the detectors' positions, as needed for leakage; small enough for a table's meta.

    Attributes
    ----------
    time : (D, K) float64
        Middles of SFTs, s since the epoch.
    weight : (D, K) float64
        Noise weights, zero where a detector has fewer SFTs.
    position : (D, K, 3) float64
        Positions of the detectors relative to the SSB, light-seconds.
    sidereal : (D, K) float64
        Greenwich mean sidereal time, rad.
    response : (D, 3, 3) float64
        Detector tensors.
    velocity : (3,) float64
        Mean velocity of the detectors over the data, in units of c.
    tsft : () float64
        Length of the SFTs, s.
    epoch : () int64
        Epoch of the times, GPS s.
    partial : bool, static
        Whether these are a random part of the times, by which any template seems to show about 1/K of rho^2.
    """

    time: jax.Array
    weight: jax.Array
    position: jax.Array
    sidereal: jax.Array
    response: jax.Array
    velocity: jax.Array
    tsft: jax.Array
    epoch: jax.Array
    partial: bool = field(metadata=dict(static=True))

    @classmethod
    def of(cls, observation: Observation) -> Sampling:
        """Return the middles of an observation's SFTs, or of a random part of them if there are many."""
        time, weight = observation.quadrature(1)
        n = time.shape[1]
        if n > MOST_TIMES:  # a regular part would confuse different frequencies
            chosen = np.sort(np.random.default_rng(0).choice(n, MOST_TIMES, replace=False))
            time, weight = time[:, chosen], weight[:, chosen]
        at = jax.vmap(lambda trajectory, t: trajectory(t).position)
        trajectory, share = observation.trajectory, weight / jnp.sum(weight)
        steps = at(trajectory, time + MOMENT) - at(trajectory, time - MOMENT)
        velocity = jnp.einsum("dk,dkc->c", share, steps) / (2 * MOMENT)
        return cls._with_sidereal(
            {
                "time": time,
                "weight": weight,
                "position": at(trajectory, time),
                "response": observation.response,
                "velocity": velocity,
                "tsft": observation.tsft,
                "epoch": observation.epoch,
            },
            n > MOST_TIMES,
        )

    @property
    def few(self) -> Sampling:
        """Sampling of a part of the times, enough to distinguish places in a cluster."""
        n = self.time.shape[1]
        if n <= FEW_TIMES:
            return self
        chosen = np.sort(np.random.default_rng(1).choice(n, FEW_TIMES, replace=False))
        part = {name: getattr(self, name)[:, chosen] for name in ("time", "weight", "position", "sidereal")}
        return replace(self, **part, partial=True)

    @property
    def plain(self) -> Meta:
        """The numbers as text for the meta of a table, base64 of float64: short, exact, and quick to read."""
        stored: Meta = {"shape": list(self.time.shape), "partial": self.partial}
        for name in STORED:
            values = np.asarray(getattr(self, name), "<f8")
            stored[name] = base64.b64encode(values.tobytes()).decode()
        return stored

    @classmethod
    def from_plain(cls, plain: Meta) -> Sampling:
        """Return the sampling that `plain` wrote as text."""
        shape = tuple(plain["shape"])
        shapes = {
            "time": shape,
            "weight": shape,
            "position": (*shape, 3),
            "response": (shape[0], 3, 3),
            "velocity": (3,),
        }
        values = {
            name: np.frombuffer(base64.b64decode(plain[name]), "<f8").reshape(shapes.get(name, ())) for name in STORED
        }
        return cls._with_sidereal(values, plain["partial"])

    @classmethod
    def _with_sidereal(cls, values: Mapping[str, object], partial: bool) -> Sampling:
        own = {name: jnp.asarray(values[name], jnp.float64) for name in STORED}
        epoch = int(own.pop("epoch"))
        sidereal = jnp.asarray(sidereal_time(epoch, np.asarray(own["time"])))
        return cls(
            **own,
            sidereal=sidereal,
            epoch=jnp.asarray(epoch, jnp.int64),
            partial=bool(partial),
        )


def leaked(
    sampling: Sampling, reftime: TimeLike, signals: Doppler, others: Doppler, amplitude: Amplitude | None = None
) -> np.ndarray:
    """Return the fraction of the signals' rho^2 that other templates show, (n, k) float64.

    The fraction is 1 - `mismatch`, computed at the middles of SFTs, and zero for frequencies more than half an SFT bin
    apart.

    Parameters
    ----------
    sampling : Sampling
    reftime : number or GPSTime
        GPS time at which the frequencies hold, s.
    signals : Doppler
        Stack of n signals, NumPy leaves.
    others : Doppler
        Stack of k templates, NumPy leaves; with orbits if `signals` have them.
    amplitude : Amplitude, optional
        Amplitude of the signals, of which only cosi and psi matter. None averages over amplitudes.
    """
    k, reference = len(others.alpha), gps_time(reftime, "reftime").since(sampling.epoch)
    shown = [np.empty((len(signals.alpha), 0))]
    for start in range(0, k, CHUNK):
        rows = np.minimum(np.arange(start, start + CHUNK), k - 1)  # one size, one compiled program
        some = jax.tree.map(lambda x, rows=rows: x[rows], others)
        shown.append(np.asarray(_leaked(sampling, reference, signals, some, amplitude)))
    return np.concatenate(shown, axis=1)[:, :k]


@jax.jit
def _leaked(
    sampling: Sampling, reference: jax.Array, signals: Doppler, others: Doppler, amplitude: Amplitude | None
) -> jax.Array:
    middle = jnp.mean(sampling.time)
    # by a random part of the times any template seems to show 1/n
    n = jnp.sum(sampling.weight) ** 2 / jnp.sum(sampling.weight**2)
    floor = 1 / n if sampling.partial else 0.0

    def seen(point: Doppler) -> tuple[jax.Array, jax.Array, jax.Array]:
        own = source(point, sampling.epoch, reference, middle)
        patterns = jax.vmap(lambda response, s: jnp.stack(own.patterns(response, s)))
        frequency = (own.frequency + own.evolution[0]) * (1 + sampling.velocity @ own.direction.vector)
        return _phase(sampling, own), patterns(sampling.response, sampling.sidereal), frequency

    cycles, there, frequencies = jax.vmap(seen)(others)

    def by_one(signal: Doppler) -> jax.Array:
        own, here, frequency = seen(signal)
        lost = jax.vmap(lambda x, there: loss(x - own, sampling.weight, here, there, amplitude))(cycles, there)
        # one time in each SFT cannot distinguish frequencies that differ by more
        near = jnp.abs(frequencies - frequency) < 0.5 / sampling.tsft
        return jnp.where(near, jnp.maximum(1 - lost - floor, 0.0), 0.0)

    return jax.lax.map(by_one, signals)


def _phase(sampling: Sampling, own: Source) -> jax.Array:
    """Return the phase at the detectors, (D, K) cycles, without relativistic delays, which templates nearly share."""
    ssb = sampling.time + own.direction.along(sampling.position, sampling.time)
    emission = ssb - own.across_orbit(ssb)
    return own.frequency * (emission - own.middle) + own.spin_down_cycles(emission)
