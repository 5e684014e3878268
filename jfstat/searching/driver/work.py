"""What a search is asked to compute: data, templates, which values to keep, and which share of the work."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

from jfstat.data.checks import check_template
from jfstat.data.fit import beyond_band
from jfstat.data.fstatdata import FstatData
from jfstat.engines.transients import Transients
from jfstat.maths.arrays import on_device
from jfstat.searching.driver.nearest import Located
from jfstat.searching.reduce.keep import Keep
from jfstat.signal.parameters import physical
from jfstat.signal.templates import Doppler, check_possible
from jfstat.signal.times import GPSTime
from jfstat.statistic.transients import TransientRange, log10_bayes
from jfstat.tracking.engine import Tracks
from jfstat.validation import is_whole

Identity: TypeAlias = dict[str, Any]
"""What distinguishes a search from others, by name, as JSON can hold it; see `session.checkpoint.identity`."""


@dataclass(frozen=True)
class Share:
    """Unit i of the n units into which a search is divided, 1 <= i <= n.

    Raises
    ------
    ValueError
        If i and n are not whole numbers with 1 <= i <= n.
    """

    i: int
    n: int

    def __post_init__(self) -> None:
        if not (is_whole(self.i) and is_whole(self.n) and 1 <= self.i <= self.n):
            raise _bad_unit((self.i, self.n))
        object.__setattr__(self, "i", int(self.i))
        object.__setattr__(self, "n", int(self.n))

    @classmethod
    def of(cls, unit: object) -> Share:
        """The share that a user's pair (i, n) names."""
        if not (isinstance(unit, tuple) and len(unit) == 2):
            raise _bad_unit(unit)
        return cls(*unit)

    def range(self, n_jobs: int) -> tuple[int, int]:
        """First job of the share and the one after its last, of `n_jobs` in all."""
        return n_jobs * (self.i - 1) // self.n, n_jobs * self.i // self.n


def _bad_unit(unit: object) -> ValueError:
    return ValueError(f"unit must be (i, n) with 1 <= i <= n, not {unit!r}: (3, 64) is the third of 64.")


class TransientSearch(NamedTuple):
    """What a search for transient signals looks for.

    Attributes
    ----------
    windows : TransientRange
    bayes : bool
        Whether by the Bayes factor B_tS/G of all windows, or by the largest 2F.
    """

    windows: TransientRange
    bayes: bool

    @property
    def engine(self) -> Transients:
        """What computes it."""
        return Transients.of(self.windows, self.bayes)

    def loudness(self, twoF: np.ndarray) -> np.ndarray:
        """What candidates are sorted by, from the values of `Kind`: these, or log10 B_tS/G."""
        return np.asarray(log10_bayes(0.5 * twoF, self.windows.rho_max)) if self.bayes else twoF

    def threshold(self, value: float | None) -> float | None:
        """Of the values of `Kind`, from that of what candidates are sorted by."""
        if value is None or not self.bayes:
            return value
        return float(2 * np.log(10.0) * (value - log10_bayes(0.0, self.windows.rho_max)))


class Work(NamedTuple):
    """What a search is asked to compute.

    Attributes
    ----------
    data : FstatData
    stack : Doppler
        The bank, NumPy leaves of one leading axis.
    keep : Keep
    share : Share or None
        None for all the work, undivided. The only unit of one, (1, 1), is a unit too, whose table `merge` takes.
    coherent_mismatch : float or None
        Of an interpolating search over segments: the mismatch of the segments' own lattices.
    track : Tracks or None
        Of a search for the best path through segments.
    transient : TransientSearch or None
        Of a search for transient signals.
    located : dict or None
        What the plan of an interpolating search has looked up of parts of the bank, by their first template and the one
        after the last, until the sums need it. None if nothing is kept, as when only a plan is wanted.
    """

    data: FstatData
    stack: Doppler
    keep: Keep
    share: Share | None
    coherent_mismatch: float | None = None
    track: Tracks | None = None
    transient: TransientSearch | None = None
    located: dict[tuple[int, int], Located] | None = None

    @property
    def reftime(self) -> GPSTime:
        """GPS time at which the templates hold."""
        reftime = self.stack.reftime
        return self.data.observation.reftime.common if reftime is None else reftime.common

    def jobs(self, n_jobs: int) -> tuple[int, int]:
        """First job to do and the one after the last, of `n_jobs` in the whole search."""
        return (0, n_jobs) if self.share is None else self.share.range(n_jobs)

    @property
    def unit(self) -> list[int] | None:
        """The share as in tables and checkpoints."""
        return None if self.share is None else [self.share.i, self.share.n]


def stacked_bank(bank: object) -> Doppler:
    """The bank as NumPy arrays with exactly one leading axis, on the host, where it is divided into batches.

    Raises
    ------
    TypeError
        If it is no Doppler.
    ValueError
        If it holds no templates, or its templates have different reference times.
    """
    if not isinstance(bank, Doppler):
        raise TypeError(
            f"bank must be a jfstat.Doppler, one or a stack, not {type(bank).__name__}: see jfstat.template_bank."
        )
    if np.size(bank.alpha) == 0:
        raise ValueError("bank holds no templates: give at least one.")
    if bank.reftime is not None:
        _ = bank.reftime.common  # a table has one reference time
    return jax.tree.map(
        lambda x: np.asarray(x).reshape(-1, *np.shape(x)[np.ndim(bank.alpha) :]), bank
    )  # a Doppler's leaves have the same batch axes


def check_all_fit(data: FstatData, stack: Doppler) -> None:
    """Raise a ValueError for the first template of a stack that is impossible or does not fit the data."""
    # transformations of JAX make stacks without the constructor's checks
    impossible = np.flatnonzero(~np.asarray(physical(stack, ("freq",))))
    if len(impossible):
        try:
            check_possible(jax.tree.map(lambda x: on_device(x[impossible[0]]), stack))
        except ValueError as error:
            raise ValueError(
                f"bank holds {len(impossible)} impossible template(s), the first in row {impossible[0]}: {error}"
            ) from None
    bare = replace(data, filters=())
    parts = [bare] if data.n_segments is None else [bare[i] for i in range(data.n_segments)]
    for part in parts:
        fits = np.asarray(beyond_band(part, stack)) <= 0  # not for NaN
        first = int(np.argmin(fits))
        point = jax.tree.map(lambda x, first=first: on_device(x[first]), stack)
        check_template("bank", point)
        if not fits[first]:
            part.check(point, band=True)
