"""How much of a loud candidate's 2F other templates show: its side lobes, and its neighbours."""

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
"""Number of times of each detector, beyond which a random part of the SFTs is enough."""
FEW_TIMES = 300
"""Number of times of each detector to fit the place of a signal."""
MOMENT = 60.0
"""Half of the time over which a velocity is taken, s."""
STORED = ("time", "weight", "position", "response", "velocity", "tsft", "epoch")
"""What a table's meta keeps of a sampling."""
CHUNK = 64
"""Templates compared at a time."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Sampling:
    """Times of an observation and where the detectors were, as much as leakage needs; small enough for a table's meta.

    Attributes
    ----------
    time : (D, K) float64
        Middles of SFTs, s since the epoch.
    weight : (D, K) float64
        Noise weights, zero where a detector has fewer SFTs.
    position : (D, K, 3) float64
        Of the detectors from the SSB, light-seconds.
    sidereal : (D, K) float64
        Greenwich mean sidereal time, rad.
    response : (D, 3, 3) float64
        Detector tensors.
    velocity : (3,) float64
        Of the detectors, mean over the data, over c.
    tsft : () float64
        s.
    epoch : () int64
        GPS s.
    partial : bool, static
        Whether these are a random part of the times, which shows 1/K of anything.
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
        """The middles of an observation's SFTs, or of a random part if there are many."""
        time, weight = observation.quadrature(1)
        n = time.shape[1]
        if n > MOST_TIMES:  # a regular part would take other frequencies for this one
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
        """A part of the times, enough to tell one place in a cluster from another."""
        n = self.time.shape[1]
        if n <= FEW_TIMES:
            return self
        chosen = np.sort(np.random.default_rng(1).choice(n, FEW_TIMES, replace=False))
        part = {name: getattr(self, name)[:, chosen] for name in ("time", "weight", "position", "sidereal")}
        return replace(self, **part, partial=True)

    @property
    def plain(self) -> Meta:
        """Numbers as text, base64 of float64, for the meta of a table: short, exact, and quick to read."""
        stored: Meta = {"shape": list(self.time.shape), "partial": self.partial}
        for name in STORED:
            values = np.asarray(getattr(self, name), "<f8")
            stored[name] = base64.b64encode(values.tobytes()).decode()
        return stored

    @classmethod
    def from_plain(cls, plain: Meta) -> Sampling:
        """From what `plain` gave."""
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
    """Fraction of rho^2 of signals that other templates show, (n, k) float64.

    As 1 - `mismatch`, at the middles of SFTs. Zero for frequencies further apart than half a bin of the SFTs.

    Parameters
    ----------
    sampling : Sampling
    reftime : number or GPSTime
        GPS time at which their frequencies hold, s.
    signals : Doppler
        A stack of n, NumPy leaves.
    others : Doppler
        A stack of k, NumPy leaves; with orbits if `signals` have them.
    amplitude : Amplitude, optional
        Of the signals; only its cosi and psi matter. None averages over amplitudes.
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
    # a random part of the times shows 1/n of anything
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
        # one time in each SFT cannot tell frequencies apart that differ by more
        near = jnp.abs(frequencies - frequency) < 0.5 / sampling.tsft
        return jnp.where(near, jnp.maximum(1 - lost - floor, 0.0), 0.0)

    return jax.lax.map(by_one, signals)


def _phase(sampling: Sampling, own: Source) -> jax.Array:
    """Phase at the detectors, (D, K) cycles, without relativistic delays, which templates share closely enough."""
    ssb = sampling.time + own.direction.along(sampling.position, sampling.time)
    emission = ssb - own.across_orbit(ssb)
    return own.frequency * (emission - own.middle) + own.spin_down_cycles(emission)
