"""Search with the power of SFTs along the tracks of templates in time and frequency."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jfstat.candidates.details import Details
from jfstat.candidates.falsealarm import in_trials
from jfstat.candidates.tables import Meta
from jfstat.compileroptions import SAME_BITS, jit_with
from jfstat.data.memory import FLOAT32, data_bytes, device_of, free_bytes
from jfstat.data.normalised import NormalisedSFTs
from jfstat.engines.choice import xla_only
from jfstat.engines.engine import Loudest
from jfstat.engines.reduction import histogram_of_means, loudest_means
from jfstat.geometry.barycenter import MAX_DELAY
from jfstat.geometry.doppler import at_detector, doppler_speed, largest_doppler_speed
from jfstat.geometry.source import spin_drift
from jfstat.lines.doppler import LineBands
from jfstat.maths.exponentials import exponentials_tail
from jfstat.maths.ladder import padded_size
from jfstat.searching.bank import check_all_possible
from jfstat.searching.division import Division
from jfstat.searching.driver.cost import seconds_a_batch
from jfstat.searching.driver.mesh import gathered
from jfstat.searching.driver.part import Part
from jfstat.searching.options import Keep, Run
from jfstat.searching.reduce.tally import subband_edges
from jfstat.searching.reduce.toplist import Peaks
from jfstat.searching.statistic import Parts, Statistic, Task
from jfstat.searching.statistics.band import seconds_of_candidates
from jfstat.searching.trackpower import kepler_steps, sums_of
from jfstat.signal.templates import Doppler
from jfstat.signal.values import columns as parameter_values
from jfstat.statistic.bins import counted_within, counts
from jfstat.statistic.trackband import Blocks, critical_ratios
from jfstat.statistic.trackpower import sky_position

SPREAD = math.sqrt(8.0)
"""Standard deviation of 2F in noise: the histogram counts critical ratios in this unit, about 4."""
CPU_VALUES, GPU_VALUES = 1 << 30, 1 << 38
"""Values of SFTs that are added up in a batch, on a CPU and on a GPU: some tenths of a second."""
LARGEST_BATCH, SHARE = 1 << 14, 0.25
"""Largest number of templates of a batch, and fraction of a device's free memory that it may take."""
TOGETHER = 1 << 27
"""Values of SFTs that a GPU adds up at the same time, and that any device does for one template."""
LEAST_BLOCK = 64
"""Frequencies of a block that are added up together at least."""
NODES = 33
"""Times at which the drift of a template's frequency is computed for a bound on it."""
AT_ONCE = 1 << 12
"""Most candidates whose probabilities are computed by one call of the compiled program."""


@dataclass(frozen=True)
class TrackReduction:
    """Critical ratios of a batch of templates, reduced to the loudest; an `engines.engine.Reduction`.

    Attributes
    ----------
    blocks : Blocks
    steps : int
        See `kepler_in_steps`.
    together : int or None
        Templates computed at the same time; None for one after the other.
    """

    blocks: Blocks
    steps: int
    together: int | None

    def ready(self, data: NormalisedSFTs) -> NormalisedSFTs:
        """Return the data as they are."""
        return data

    def bins(
        self, data: NormalisedSFTs, points: Doppler, n_valid: Any, first_bin: Any, bands: LineBands | None
    ) -> jax.Array:
        """Return the bins that count for each template: all but those that lines affect; see `Reduction.bins`."""
        first = jnp.zeros(points.alpha.shape, jnp.int32)
        last = jnp.full(points.alpha.shape, data.layout.n_frequencies - 1, jnp.int32)
        return counted_within(first, last, data, points, n_valid, first_bin, bands)

    def reduced(self, data: NormalisedSFTs, points: Doppler, bins: jax.Array, keep: int, same_source: bool) -> Loudest:
        """Return the largest critical ratios of a batch of templates, and tallies of all; see `Reduction.reduced`."""
        ratios = jax.lax.map(
            lambda point: critical_ratios(data, point, self.blocks, self.steps),
            jax.tree.map(jnp.asarray, points),
            batch_size=self.together,
        )
        number = jnp.arange(ratios.shape[1], dtype=jnp.int32)
        ratios = jnp.where(counts(number, *bins[:, :, None]), ratios, np.float32(-np.inf))
        found = loudest_means(data.layout, ratios, 1, keep)
        return found._replace(histogram=histogram_of_means(4 + np.float32(SPREAD) * ratios, 1))


@dataclass(frozen=True)
class TrackPower(Statistic):
    """Power of SFTs along the tracks of templates, the statistic of `search` for data from `normalise`.

    No phase is followed from one SFT to the next, so that templates may lie far apart: the statistic is for signals of
    which little is known, such as those of binaries anywhere in the sky, and its candidates are followed up with 2F.
    `track_power` describes the power and its weights. The columns are

    - ``critical_ratio``, the excess of the power over its mean in noise, in standard deviations, by which the table is
      sorted and to which `threshold` applies; ``power`` and its ``deviation`` in noise; all computed again in double
      precision for each candidate;
    - ``false_alarm``, the probability that noise has as much power at one template, exact for Gaussian noise of known
      floor to a per cent: powers of SFTs are exponentially distributed, so that loud values are more frequent than
      for a normal distribution. ``false_alarm`` in meta is for all templates, as if they were independent, an upper
      bound;
    - with `Details`, ``critical_ratio_H1``, ... of each detector alone. There are no amplitudes.

    Known lines, of `Keep`, affect templates within half the bins that give the power at a frequency.

    Frequencies of a template cost little, because their tracks are nearly parallel: banks should be made of everything
    but the frequency. ``twoF_histogram`` counts critical ratios between ``twoF_edges``, and ``loudest_per_subband`` and
    ``n_twoF`` are of critical ratios too.

    Examples
    --------
    >>> data = jfstat.normalise(sfts, 100.0, 100.02)
    >>> found = jfstat.search(data, point, jfstat.TrackPower(), top=2, progress=False)
    >>> found.colnames[4:]
    ['critical_ratio', 'power', 'deviation', 'false_alarm', 'critical_ratio_H1', 'critical_ratio_L1', 'template']
    """

    takes: ClassVar[type] = NormalisedSFTs
    computed: ClassVar[str] = "power"
    quantity: ClassVar[str] = "critical ratio"
    loudest: ClassVar[str] = "largest critical ratio"
    columns_in_parts: ClassVar[bool] = False

    def check(self, data: NormalisedSFTs, stack: Doppler, keep: Keep, details: Details) -> None:
        """Raise a ValueError for options that power along tracks does not have."""
        if not data.layout.n_frequencies:
            raise ValueError(
                "data have no band to search, since the SFTs hold too few bins: give SFTs of a wider band."
            )
        for name, given in {
            "bsgl_threshold": keep.bsgl_threshold is not None,
            "cluster": keep.cluster is not None,
            "amplitudes": bool(details.amplitudes),
            "line_prior": details.line_prior is not None,
        }.items():
            if given:
                raise ValueError(f"{name} does not go with {self.name}, which has no such values: leave it out.")
        if keep.ranking != "F":
            raise ValueError(
                f"ranking {keep.ranking!r} does not go with {self.name}, whose table is sorted by critical_ratio."
            )

    def line_margin(self, data: NormalisedSFTs) -> float:
        """Return half the width of the bins that give the power at a frequency, Hz."""
        return 0.5 * data.layout.bins / float(data.observation.tsft)

    def identity(self, data: NormalisedSFTs) -> dict[str, Any]:
        """Return the number of bins, which the amplitudes of the bins do not tell."""
        return {"bins": data.layout.bins}

    def check_bank(self, data: NormalisedSFTs, stack: Doppler) -> None:
        """Raise a ValueError for the first template that is impossible, or whose tracks could leave the SFTs' band."""
        check_all_possible(stack, "bank", ("freq",))
        low, high = (np.asarray(x) for x in _reach(data, stack))
        held = data.edges
        outside = np.flatnonzero(~((low >= held[0]) & (high <= held[1])))  # so that NaN is outside
        if len(outside):
            first = outside[0]
            raise ValueError(
                f"bank has {len(outside)} of {len(stack.alpha)} templates whose tracks may leave the SFTs' band, in "
                f"which they may go from {held[0]:.10g} to {held[1]:.10g} Hz: those of number {first} reach from "
                f"{low[first]:.10g} to {high[first]:.10g} Hz. Give fmin and fmax to jfstat.normalise, or SFTs of a "
                "wider band."
            )

    def margin(self, segments: Any, bank: Doppler, fmax: float) -> float:
        """Return how far orbits move signals, Hz; see `Statistic.margin`."""
        return 0.0 if bank.orbit is None else largest_doppler_speed(bank.orbit) * fmax

    def reduction(self, task: Task, engine: str | None) -> tuple[str, TrackReduction]:
        """Return XLA's name, and the reduction for the orbits of the bank; see `Statistic.reduction`."""
        name = xla_only(engine, "add up power along tracks").name
        data, stack = task.data, task.stack
        n_sfts = data.motion.time.size
        blocks = Blocks.of(data.layout, largest_doppler_speed(stack.orbit), max(LEAST_BLOCK, TOGETHER // n_sfts))
        together = None
        if device_of(data).platform != "cpu":
            together = max(1, TOGETHER // (n_sfts * blocks.size))
        return name, TrackReduction(blocks, kepler_steps(stack), together)

    def division(self, task: Task, run: Run) -> Division:
        """Return batches of the bank; the band is not divided. See `Statistic.division`."""
        name, reduction = self.reduction(task, run.engine)
        return _division(task, name, reduction, run.batch_size)

    def agreed_division(self, task: Task, own: Division) -> Division:
        """Return the division with the smallest batches of all processes."""
        size = int(gathered([own.batch_size]).min())
        return own if size == own.batch_size else _division(task, *self.reduction(task, own.engine), size)

    def parts(self, task: Task, division: Division, jobs: range, mesh: Mesh | None) -> Parts:
        """Yield the whole band; see `Statistic.parts`."""
        batches = division.batches[jobs.start : jobs.stop]
        if len(batches):
            yield partial(self._part, task, division), batches

    def _part(self, task: Task, division: Division) -> Part:
        """Return the whole band with its data."""
        _, reduction = self.reduction(task, division.engine)
        edges = subband_edges(task.data.layout).tolist()
        return Part(task.data, task.stack, task.toplist, division, 0, 0, edges, reduction)

    def seconds(self, task: Task, division: Division) -> float:
        """Return how long all batches take, s, measured on the first few."""
        return seconds_a_batch(partial(self._part, task, division), division.batches) * division.n_jobs

    def candidate_seconds(self, task: Task, n_values: float) -> float:
        """Return how long the columns take, s, for as many candidates as noise gives in a number of values."""
        threshold = task.toplist.threshold
        in_noise = n_values if threshold is None else 0.5 * math.erfc(threshold / math.sqrt(2)) * n_values
        return seconds_of_candidates(task, partial(_columns, task.data), in_noise)

    def columns(self, task: Task, found: Doppler, peaks: Peaks, details: Details) -> dict[str, np.ndarray]:
        """Return parameters, critical ratio, power and probability in noise, and critical ratios of detectors."""
        columns = parameter_values(found) | _columns(task.data, found)
        return columns if details.per_detector else {x: y for x, y in columns.items() if x not in _each(task.data)}

    def histogram_edges(self, n_segments: int | None) -> np.ndarray:
        """Return the lower edges of the histogram's bins, as wide for critical ratios as for 2F in noise."""
        return (super().histogram_edges(None) - 4) / SPREAD

    def meta(self, task: Task, division: Division) -> Meta:
        """Return the number of bins that give the power at a frequency."""
        return {"bins": task.data.layout.bins}

    @classmethod
    def loudness(cls, meta: Meta) -> str:
        """Return ``critical_ratio``."""
        return "critical_ratio"

    @classmethod
    def false_alarm(cls, columns: dict[str, np.ndarray], meta: Meta) -> float | None:
        """Return the probability that any of as many independent values in noise is as improbable."""
        return float(in_trials(columns["false_alarm"].min(), meta["n_twoF"]))


def _division(task: Task, engine: str, reduction: TrackReduction, batch_size: int | None) -> Division:
    """Return a division into batches that take little time and memory."""
    data, n = task.data, len(task.stack.alpha)
    free = free_bytes(device_of(data))
    each = 4 * FLOAT32 * data.layout.n_frequencies
    values = data.motion.time.size * data.layout.n_frequencies
    most = (CPU_VALUES if free is None else GPU_VALUES) // values
    if free is not None:
        most = min(most, int(SHARE * free / each))
    most = max(1, min(most, LARGEST_BATCH, (2**31 - 1) // data.layout.n_frequencies))
    size = int(batch_size or min(most, padded_size(n, 1)))
    value = 2 * data.values.dtype.itemsize
    at_once = (reduction.together or 1) * data.motion.time.size * (reduction.blocks.size + 64) * value
    needed = 2 * data_bytes(data) + size * each + at_once  # the candidates' columns take a copy
    return Division(engine, size, [(0, n)], False, [(0, data.layout.n_frequencies)], needed)


@jax.jit
def _reach(data: NormalisedSFTs, stack: Doppler) -> tuple[jax.Array, jax.Array]:
    """Return bounds on the lowest and highest frequency of each template's tracks in the band, Hz, (n,) each."""
    seen, fmax = data.observation, data.fmin + (data.layout.n_frequencies - 1) * data.dfreq

    def of(point: Doppler) -> tuple[jax.Array, jax.Array]:
        delay = MAX_DELAY + (0.0 if point.orbit is None else point.orbit.asini * (1 + point.orbit.ecc))
        time = seen.middle - seen.reference(point) + (0.5 * seen.tspan + delay) * jnp.linspace(-1.0, 1.0, NODES)
        drift = spin_drift(point.fkdot, time)
        if point.model is not None:
            drift = drift + point.model.frequency(time)
        # a parabola through three values rises above them by an eighth of their second difference
        between = jnp.max(jnp.abs(jnp.diff(drift, 2))) / 8
        low, high = data.fmin + jnp.min(drift) - between, fmax + jnp.max(drift) + between
        return at_detector(low, high, doppler_speed(point.orbit))

    return jax.vmap(of)(stack)


def _each(data: NormalisedSFTs) -> list[str]:
    """Return the names of the columns of single detectors."""
    return [f"critical_ratio_{name}" for name in data.detectors]


def _columns(data: NormalisedSFTs, found: Doppler) -> dict[str, np.ndarray]:
    """Return all columns of some candidates besides their parameters."""
    each = sums_of(data, found)
    whole = each.of_all
    columns = {
        "critical_ratio": (whole.mean - 1) / whole.deviation,
        "power": whole.mean,
        "deviation": whole.deviation,
        "false_alarm": _tails(data, found, whole.power) if len(found.alpha) else whole.power,
    }
    alone = (each.mean - 1) / each.deviation
    return columns | {name: alone[:, i] for i, name in enumerate(_each(data))}


def _tails(data: NormalisedSFTs, found: Doppler, power: np.ndarray) -> np.ndarray:
    """Return the probability that noise has as large a weighted sum of powers at each template, (k,) float64."""
    k, size = len(power), padded_size(min(len(power), AT_ONCE), 1)
    together = None if device_of(data).platform == "cpu" else max(1, TOGETHER // (16 * data.motion.time.size))
    bare, tails = replace(data, values=jnp.zeros((0, 0, 0))), []
    for low in range(0, k, size):
        rows = np.minimum(np.arange(low, low + size), k - 1)
        tails.append(_tails_of(bare, jax.tree.map(lambda x, rows=rows: x[rows], found), power[rows], together))
    return np.concatenate(tails)[:k]


@jit_with(SAME_BITS, kept=True, static_argnames="together")
def _tails_of(data: NormalisedSFTs, points: Doppler, power: jax.Array, together: int | None) -> jax.Array:
    def tail(each: tuple[Doppler, jax.Array]) -> jax.Array:
        point, total = each
        return exponentials_tail(sky_position(data, point).weight.reshape(-1), total)

    return jax.lax.map(tail, (points, power), batch_size=together)
