"""Search for signals whose frequency wanders, by the best path through the segments of each template."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.candidates.details import Details
from jfstat.candidates.semicoherent import semicoherent_columns
from jfstat.candidates.tables import Meta
from jfstat.compileroptions import SAME_BITS, jit_with
from jfstat.data.bandseries import Layout
from jfstat.data.checks import check_amplitude
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import FLOAT32, device_of
from jfstat.data.workers import in_order, workers_for
from jfstat.engines.engine import BandReduction, Loudest
from jfstat.engines.reduction import histogram_of_means, largest, largest_of_sections_in_order
from jfstat.engines.xla import Xla, two_f_in_order, values_in_order
from jfstat.maths.arrays import any_traced
from jfstat.searching.division import Division
from jfstat.searching.options import Keep
from jfstat.searching.reduce.toplist import Peaks
from jfstat.searching.session.progress import progress_bar
from jfstat.searching.statistic import Task
from jfstat.searching.statistics.band import XlaStatistic, check_segments
from jfstat.searching.statistics.mean import exact_columns
from jfstat.signal.templates import Amplitude, Doppler
from jfstat.signal.values import columns as parameter_values
from jfstat.statistic.bins import counts
from jfstat.statistic.fstat import noise_level
from jfstat.tracking.emission import emission, known_amplitude
from jfstat.tracking.null import ALL_TABLES, null_of_paths
from jfstat.tracking.subbands import best_of_each, ending_within, subband_bins
from jfstat.tracking.transitions import FLOOR, NONE, check_reach, model_of, plain_transitions
from jfstat.tracking.viterbi import ViterbiPath, viterbi
from jfstat.validation import is_number, shown


@dataclass(frozen=True)
class BestPath(XlaStatistic):
    """Log-likelihood of the best path through the segments of each template, by the Viterbi algorithm.

    This statistic is for signals whose frequency wanders, in data with segments (Suvorova et al. 2016, Phys. Rev. D 93,
    123009). There is at most one candidate for each template, its best path, or one for each `subband` of each
    template. The columns are

    - ``freq`` and ``freq_start``, the path's last and first frequency, Hz, at the reference time; `track` with the
      template gives the frequencies in all segments;
    - ``log_likelihood`` of the path, by which the table is sorted and to which `threshold` applies: the sum of 2F/2
      along the path, or of the log-likelihoods of a known `amplitude`, and of the log-probabilities of its transitions;
    - ``score``, the Viterbi score, of the paths that end in the sub-band if there are any; see `ViterbiPath`;
    - ``false_alarm``, the probability that the best path of one template, or of one sub-band, is as likely in Gaussian
      noise, as from `viterbi_null` at the sky position of the bank's first template; with a known `amplitude` it
      depends on the position and is NaN at others; ``false_alarm`` in meta is for all templates and sub-bands, as if
      they were at that position;
    - ``mean_twoF``, ``mean_twoF_H1``, ..., ``log10BSGL`` and amplitudes along the path, by exact sums.

    ``twoF_histogram`` counts the log-likelihoods of the best paths that end at each frequency, times two and divided by
    the number of segments; ``loudest_per_subband`` holds the log-likelihoods themselves. With a known `amplitude`, the
    log-probability of the likeliest jumps is subtracted from the histogram's values and 4 is added, so that noise falls
    into the same bins if the amplitude is weak. ``n_twoF`` counts pairs of template and last frequency; meta also has
    ``transitions``, ``amplitude``, h0, cosi and psi or None, ``subband``, Hz or None, and ``n_subbands``.

    Parameters
    ----------
    transitions : int or array_like
        Log-probabilities of jumps from -w to w bins from one segment to the next, or w for equal probabilities; see
        `viterbi`.
    amplitude : Amplitude, optional
        Use the log-likelihood of a signal with this h0, cosi and psi in place of 2F/2; see `log_likelihood_by_segment`.
    subband : float, optional
        Width of sub-bands, Hz, rounded to the spacing of frequencies and counted from the lowest frequency of the data.
        For each template the best path that ends in each sub-band is a candidate; `top` counts those of all templates
        and sub-bands. It may begin in another sub-band, so those within all jumps of a loud path, w (K - 1) bins for
        jumps by up to w bins and K segments, end with it. ``false_alarm`` counts paths that begin
        elsewhere: it is an upper bound in a last sub-band that is narrower, and at the ends of the data's band.

    Raises
    ------
    TypeError, ValueError
        If an argument is of another kind, is traced or makes no sense.

    Examples
    --------
    >>> statistic = jfstat.BestPath([-1.5, -0.5, -1.5])
    >>> statistic.transitions
    (-1.5, -0.5, -1.5)
    """

    cannot: ClassVar[str] = "find paths"
    quantity: ClassVar[str] = "log-likelihood"
    loudest: ClassVar[str] = "best path of all templates"
    columns_in_parts: ClassVar[bool] = False

    transitions: tuple[float, ...]
    amplitude: tuple[float, float, float] | Amplitude | None = None
    subband: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "transitions", plain_transitions(self.transitions))
        own = self.amplitude
        if own is not None:
            known: Any = Amplitude(*own) if isinstance(own, tuple) and len(own) == 3 else own
            check_amplitude(known)
            fields = known.h0, known.cosi, known.psi
            if any_traced(fields):
                raise ValueError("amplitude must not be traced: call search outside of transformations.")
            object.__setattr__(self, "amplitude", tuple(map(float, fields)))
        if self.subband is not None:
            wrong = isinstance(self.subband, bool) or not is_number(self.subband)
            if wrong or not 0 < self.subband < np.inf:
                raise ValueError(f"subband must be a positive number of Hz or None, not {shown(self.subband)}.")
            object.__setattr__(self, "subband", float(self.subband))

    @property
    def known(self) -> Amplitude | None:
        """The known amplitude, if any."""
        return Amplitude(*self.amplitude) if isinstance(self.amplitude, tuple) else None

    def check(self, data: FstatData, stack: Doppler, keep: Keep, details: Details) -> None:
        """Raise a ValueError for data without segments or narrower than a jump, and for options that paths do not
        have."""
        check_segments(data, keep, self.name)
        check_reach(self.transitions, data.layout.n_frequencies)
        for name, value in {"cluster": keep.cluster, "lines": keep.lines}.items():
            if value is not None:
                raise ValueError(f"{name} does not go with {self.name}, whose frequencies wander: leave it out.")
        if keep.ranking != "F":
            raise ValueError(
                f"ranking {keep.ranking!r} does not go with {self.name}, whose table is sorted by log_likelihood."
            )

    def _subband_bins(self, data: FstatData) -> int:
        """Return the number of frequencies in each of which one path of a template may end: a sub-band's, or all."""
        n = data.layout.n_frequencies
        return n if self.subband is None else subband_bins(self.subband, float(data.dfreq), n)

    def reduction(self, task: Task, engine: str | None) -> tuple[str, BandReduction]:
        """Return XLA's name and this statistic, with the number of frequencies of a sub-band."""
        name, own = super().reduction(task, engine)
        if self.subband is None:
            return name, own
        return name, _BestPaths(self.transitions, self.amplitude, self.subband, self._subband_bins(task.data))

    def template_bytes(self, layout: Layout, n_detectors: int, orbit: bool) -> int:
        """Return the device memory per template, bytes: one segment's transforms, and the paths' log-likelihoods with
        copies."""
        return Xla().template_bytes(layout, n_detectors, orbit) + 6 * FLOAT32 * layout.n_frequencies

    def reduced(self, data: FstatData, points: Doppler, bins: jax.Array, keep: int, same_source: bool) -> Loudest:
        """Return the best path of each template of a batch, the loudest first; see `Reduction.reduced`.

        The histogram counts ``4 + (2 x/K - 4) sqrt(K)``, with x the log-likelihood of the best path that ends at a
        frequency and K the number of segments, as for the mean of 2F over segments; see `loudest_means`. With a known
        amplitude it counts ``4 + 2 (x - p)/sqrt(K)``, with p the log-probability of the likeliest jumps: in noise x is
        about p where the amplitude is weak.
        """
        values = self.values(data, points, bins, same_source)
        n_segments = data.series.shape[0]
        number, frequency, each = best_of_each(values, self._bins_together(values.shape[1]))
        best, chosen = largest(each, min(keep, len(each)))
        # padded, so that fewer values than asked for are recognised as all
        best = jnp.pad(best, (0, keep - len(best)), constant_values=-jnp.inf)
        chosen = jnp.pad(chosen.astype(jnp.int32), (0, keep - len(chosen)))
        likeliest = (n_segments - 1) * max(self.transitions)
        shift = 0.0 if self.amplitude is None else 4 - 2 * likeliest / n_segments
        means = values * np.float32(2 / n_segments) + np.float32(shift)
        return Loudest(
            best,
            number[chosen],
            frequency[chosen],
            histogram_of_means(means, n_segments),
            largest_of_sections_in_order(data.layout, values),
        )

    def _bins_together(self, n_frequencies: int) -> int:
        """Return of how many neighbouring frequencies one path of a template is kept; traceable."""
        return n_frequencies

    def values(self, data: FstatData, points: Doppler, bins: jax.Array, same_source: bool) -> jax.Array:
        """Return the log-likelihood of the best path that ends at each frequency, (B, n_frequencies) float32.

        Values are -inf where no path can end. One segment after the other is transformed, so that results do not depend
        on the batch. Paths are not stored: `track` finds the path of a template that is kept.
        """
        model = model_of(self.transitions, None, 1, jnp.float32)  # type: ignore[arg-type]
        number = jnp.arange(data.layout.n_frequencies, dtype=jnp.int32)
        counted = counts(number, *bins[:, :, None])

        def step(carry: tuple[jax.Array, jax.Array], own: FstatData) -> tuple[tuple[jax.Array, jax.Array], None]:
            delta, first = carry
            emission = jnp.where(counted, self._emission(own, points, same_source), FLOOR)
            before = jnp.where(first, 0.0, jax.vmap(model.largest_predecessors)(delta[:, None])[:, 0])
            return (emission + before, jnp.zeros_like(first)), None

        shape = (points.alpha.shape[0], data.layout.n_frequencies)
        (delta, _), _ = jax.lax.scan(step, (jnp.zeros(shape, jnp.float32), jnp.ones((), bool)), data)
        return jnp.where(delta > NONE, delta, -jnp.inf)

    def _emission(self, data: FstatData, points: Doppler, same_source: bool) -> jax.Array:
        """Return the log-likelihood of a segment at the frequencies of the band, (B, n_frequencies) float32."""
        if self.known is None:
            return 0.5 * two_f_in_order(data, points, same_source)
        value = partial(known_amplitude, noise_level(data.observation), self.known.canonical)
        return values_in_order(value, data, points, same_source)

    def columns(self, task: Task, found: Doppler, peaks: Peaks, details: Details) -> dict[str, np.ndarray]:
        """Return the parameters and values of each path; the frequencies of `found` are the paths' last ones."""
        data, k, paths = task.data, len(found.alpha), self._paths(task.data, found)
        path = np.array([np.asarray(own.path) for own in paths], np.int64).reshape(k, data.n_segments or 0)
        frequencies = float(data.fmin) + path * float(data.dfreq)
        likelihood = peaks.twoF.astype(np.float64)
        return parameter_values(found) | {
            "log_likelihood": likelihood,
            "score": np.array([float(own.score) for own in paths]),
            "false_alarm": self._false_alarms(task, found, likelihood),
            "freq_start": frequencies[:, 0],
            **exact_columns(data, found, details, frequencies),
        }

    def compute(self, data: FstatData, found: Doppler) -> object:
        """Compute the paths and all details of some candidates."""
        return self._paths(data, found), semicoherent_columns(data, found, True)

    def expected_in_noise(self, task: Task, n_values: float) -> float:
        """Return the number of templates and sub-bands: there is at most one candidate for each."""
        return min(n_values, len(task.stack.alpha) * self._n_subbands(task.data))

    def _n_subbands(self, data: FstatData) -> int:
        return -(-data.layout.n_frequencies // self._subband_bins(data))

    def _paths(self, data: FstatData, found: Doppler) -> list[ViterbiPath]:
        """Return the best path of each candidate; a CPU's cores share them."""
        rows = [jax.tree.map(lambda x, i=i: jnp.asarray(x[i]), found) for i in range(len(found.alpha))]
        return list(in_order(partial(self._path, data), rows, min(len(rows), workers_for(device_of(data))) or 1))

    def _path(self, data: FstatData, point: Doppler) -> ViterbiPath:
        """Return the best path of a template."""
        place = jnp.round((point.fkdot[0] - data.fmin) / data.dfreq).astype(jnp.int32)
        return _compiled_path(data, point, jnp.asarray(self.transitions), self.known, place, self._subband_bins(data))

    def _false_alarms(self, task: Task, found: Doppler, likelihood: np.ndarray) -> np.ndarray:
        """Return, for each candidate, the probability that the best path of a template in noise is as likely.

        The distribution at the first template of the bank is used for all, so that nothing depends on the search's
        division.
        """
        if not len(likelihood):
            return np.empty(0)
        first = jax.tree.map(lambda x: jnp.asarray(x[0]), task.stack)
        n = self._subband_bins(task.data)
        with progress_bar(ALL_TABLES, task.progress, "false alarms", "simulated tables") as advance:
            null = null_of_paths(
                task.data,
                first,
                self.transitions,
                n,
                self.known,
                advance=advance,
                within=self._n_subbands(task.data) == 1,
            )
        rate = np.asarray(null.false_alarm(likelihood))
        if self.known is None:
            return rate
        # how loud noise is depends on rho^2 of the known signal, and so on the sky position
        same = (found.alpha == task.stack.alpha[0]) & (found.delta == task.stack.delta[0])
        return np.where(same, rate, np.nan)

    def meta(self, task: Task, division: Division) -> Meta:
        """Return the transitions, h0, cosi and psi of the known signal, and the sub-bands' width, as rounded."""
        own = self.amplitude
        amplitude = dict(zip(("h0", "cosi", "psi"), own, strict=True)) if isinstance(own, tuple) else None
        meta: Meta = {"transitions": list(self.transitions), "amplitude": amplitude, "subband": None, "n_subbands": 1}
        if self.subband is not None:
            meta["subband"] = self._subband_bins(task.data) * float(task.data.dfreq)
            meta["n_subbands"] = self._n_subbands(task.data)
        return meta

    @classmethod
    def loudness(cls, meta: Meta) -> str:
        """Return ``log_likelihood``."""
        return "log_likelihood"

    @classmethod
    def false_alarm(cls, columns: dict[str, np.ndarray], meta: Meta) -> float | None:
        """Return the probability for the best path of all templates and sub-bands; the column is for a single one."""
        rate = np.fmin.reduce(columns["false_alarm"])  # NaN where not known
        n = meta["n_templates"] * meta.get("n_subbands", 1)
        return float(-np.expm1(n * np.log1p(-min(rate, 1 - 1e-15))))


@dataclass(frozen=True)
class _BestPaths(BestPath):
    """The best path that ends in each sub-band of a number of frequencies."""

    n: int = 0

    def _bins_together(self, n_frequencies: int) -> int:
        """Return the number of frequencies of a sub-band."""
        return self.n


@jit_with(SAME_BITS, kept=True, static_argnames="bins")
def _compiled_path(
    data: FstatData,
    point: Doppler,
    transitions: jax.Array,
    amplitude: Amplitude | None,
    place: jax.Array,
    bins: int,
) -> ViterbiPath:
    table = emission(data, point, amplitude)
    first = place // bins * bins
    return viterbi(ending_within(0.5 * table if amplitude is None else table, first, first + bins), transitions)
