"""Compute details of candidates: 2F of each detector, the line-robust statistic, and amplitude estimates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.candidates.linerobust import bsgl_column
from jfstat.candidates.rows import at_once, computed_rows
from jfstat.compileroptions import NO_EMITTERS, SAME_BITS, jit_with
from jfstat.data.blockspectra import BlockSpectra, spectra_or_data, spectra_programs
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import device_of
from jfstat.data.observation import Observation
from jfstat.data.workers import in_order, result_of_shape, workers_for
from jfstat.signal.parameters import AMPLITUDE_COLUMNS
from jfstat.signal.templates import Doppler
from jfstat.statistic.combine import antenna_matrix
from jfstat.statistic.fstat import fstat_from, values_from
from jfstat.statistic.linerobust import LinePrior
from jfstat.validation import shown

SAMPLE_BYTES, ORBIT_SAMPLE_BYTES = 64, 400
"""Largest memory that a direct sum for a candidate takes per sample of the data, bytes, without and with an orbit."""
ROWS = 32
"""Largest number of candidates in one call of the compiled program; a call alone takes about 0.1 ms."""
MOST_BYTES = 1 << 30
"""Memory for candidates computed at a time, bytes, unless a single one needs more."""


@dataclass(frozen=True)
class Details:
    """Options for what is computed for each candidate that a search keeps, besides the statistic.

    Parameters
    ----------
    per_detector : bool
        Add 2F of each detector and, with several detectors, the line-robust statistic ``log10BSGL`` (see
        `linerobust.log10_bsgl`), by a sum over all data for each candidate, equal to `fstat`'s to 1e-7.
    amplitudes : bool, optional
        Add estimates of the amplitude parameters and their errors, at no further cost with `per_detector`; by default
        the value of `per_detector`.
    line_prior : LinePrior, optional
        Prior of lines for ``log10BSGL``; ``LinePrior()`` by default.

    Raises
    ------
    TypeError
        If a value is of another kind.

    Examples
    --------
    >>> details = jfstat.Details(line_prior=jfstat.LinePrior(fstar0=10.0))
    >>> details.with_amplitudes
    True
    """

    per_detector: bool = True
    amplitudes: bool | None = None
    line_prior: LinePrior | None = None

    def __post_init__(self) -> None:
        for name in ("per_detector", "amplitudes"):
            value = getattr(self, name)
            if not isinstance(value, (bool, np.bool_)) and not (name == "amplitudes" and value is None):
                raise TypeError(f"{name} must be True or False, not {shown(value)}.")
        if not isinstance(self.line_prior, LinePrior) and self.line_prior is not None:
            raise TypeError(f"line_prior must be a jfstat.LinePrior or None, not {shown(self.line_prior)}.")

    @property
    def with_amplitudes(self) -> bool:
        """Whether amplitudes are estimated."""
        return bool(self.per_detector if self.amplitudes is None else self.amplitudes)

    @property
    def prior(self) -> LinePrior:
        """The prior of lines."""
        return LinePrior() if self.line_prior is None else self.line_prior

    @property
    def wanted(self) -> bool:
        """Whether anything is to be computed for each candidate."""
        return self.per_detector or self.with_amplitudes

    def check(self, n_detectors: int, cut: bool) -> None:
        """Raise a ValueError if a prior of lines does not fit a number of detectors, or has no effect on a search that
        cuts by ``log10BSGL`` or not."""
        robust = self.per_detector and n_detectors > 1
        if robust:
            self.prior.odds(n_detectors)
        elif self.line_prior is not None and not cut:
            missing = "per_detector=True" if n_detectors > 1 else "several detectors"
            raise ValueError(f"line_prior has no effect: log10BSGL needs {missing}, so leave it out of Details.")


def detail_columns(
    kept: Mapping[str, np.ndarray], detectors: Sequence[str], twoF: np.ndarray, details: Details
) -> dict[str, np.ndarray]:
    """Return columns of details for a table of candidates, each (k,) float64.

    Parameters
    ----------
    kept : mapping of str to (k,) float64 ndarray
        Columns as from `kept_columns`; amplitudes only if they are wanted.
    detectors : sequence of str
    twoF : (k,) float64 ndarray
        2F of all detectors.
    details : Details
    """
    kept = {name: x for name, x in kept.items() if name != "twoF"}
    names = [f"twoF_{name}" for name in detectors]
    each = {name: kept.pop(name) for name in names}
    if len(names) == 1:  # with one detector its 2F is the total 2F
        each = {names[0]: twoF.copy()}
    if not details.per_detector:
        return kept
    each |= bsgl_column(twoF, np.stack(list(each.values()), axis=-1), details.prior)
    return each | kept


def kept_columns(data: FstatData, found: Doppler, amplitudes: bool) -> dict[str, np.ndarray]:
    """Compute 2F of each detector and, if wanted, amplitudes, by a sum over all data for each candidate.

    A candidate's values do not depend, to the last bit, on the other candidates in the table or on its row, so that the
    parts of a divided search add up to the undivided search's table: one compiled program computes one candidate after
    the other, on one thread. A CPU's cores share the candidates, as far as `MOST_BYTES` of memory allow.

    Parameters
    ----------
    data : FstatData
    found : Doppler
        Stack of k candidates, NumPy leaves (k, ...); k may be 0.
    amplitudes : bool
        Whether to estimate amplitudes too.

    Returns
    -------
    dict of str to (k,) float64 ndarray
        ``twoF`` of all detectors and ``twoF_H1``, ... for each, even a single one: 2F from `fstat`, NaN for a candidate
        that does not fit the data. With `amplitudes`, ``h0``, ``cosi``, ``psi``, ``phi0`` (rad, at the candidates'
        reference time) and their errors ``h0_error``, ..., from `estimate_amplitude`.
    """
    names = ["twoF", *(f"twoF_{name}" for name in data.detectors)]
    if amplitudes:
        names += AMPLITUDE_COLUMNS
    k = len(found.alpha)
    own, observation = spectra_or_data(data, found) if k else data, data.observation.without_times
    workers = workers_for(device_of(data))
    if not isinstance(own, BlockSpectra):
        each = (SAMPLE_BYTES if found.orbit is None else ORBIT_SAMPLE_BYTES) * data.series.size
        workers = min(workers, max(1, MOST_BYTES // each))
    size = min(ROWS, max(1, -(-k // workers)))

    def some(first: int) -> np.ndarray:
        rows = np.minimum(np.arange(first, first + ROWS), k - 1)
        n = min(size, k - first)
        points = jax.tree.map(lambda x: x[rows], found)
        fa_fb = _fa_fb(own, points, n, at_once(own))
        return np.asarray(_values.quickly(observation, points, fa_fb, amplitudes))[:n]

    values = np.concatenate([np.empty((0, len(names))), *in_order(some, range(0, k, size), workers)])
    return {name: values[:, i].copy() for i, name in enumerate(names)}


def column_programs(data: FstatData, templates: Doppler, amplitudes: bool) -> Iterator[jax.stages.Lowered]:
    """Yield the programs that `kept_columns` runs for candidates among the templates of a stack.

    Each program is traced when it is asked for; the one that takes longest for new detectors comes first.
    """
    rows = jax.tree.map(lambda x: jax.ShapeDtypeStruct((ROWS, *x.shape[1:]), x.dtype), templates)
    fa = fb = result_of_shape((ROWS, len(data.detectors)), np.complex128, data.series)
    yield _values.quickly.lower(data.observation.without_times, rows, (fa, fb), amplitudes)
    own, programs = spectra_programs(data, templates)
    yield from programs
    yield _fa_fb.lower(own, rows, ROWS, at_once(own))


@jit_with(SAME_BITS | NO_EMITTERS, kept=True, static_argnames="together")
def _fa_fb(data: FstatData | BlockSpectra, points: Doppler, n: int, together: bool) -> tuple[jax.Array, jax.Array]:
    """Return Fa and Fb of each detector for the first n of some candidates, (`ROWS`, D) complex128; those of the first
    for the others.

    Templates that do not fit the data have NaN, as in `twoF`.
    """

    def of_row(row: jax.Array | int) -> tuple[jax.Array, jax.Array]:
        return data.fa_fb(jax.tree.map(lambda x: x[row], points), many=True)

    return computed_rows(of_row, n, ROWS, together)


@jit_with(SAME_BITS, kept=True, static_argnames="amplitudes")
def _values(
    observation: Observation, points: Doppler, fa_fb: tuple[jax.Array, jax.Array], amplitudes: bool
) -> jax.Array:
    """Return the columns' values of candidates, given their Fa and Fb, (`ROWS`, n_columns) float64.

    This is a separate program because data of all lengths share it; see `Observation.without_times`. Compiled
    quickly it runs as fast.
    """

    def of_row(point: Doppler, fa: jax.Array, fb: jax.Array) -> jax.Array:
        if amplitudes:
            return values_from(observation, point, fa, fb)
        own = fstat_from(antenna_matrix(observation, point), fa, fb)
        return jnp.concatenate([own.twoF[None], own.twoF_per_detector])

    return jax.vmap(of_row)(points, *fa_fb)
