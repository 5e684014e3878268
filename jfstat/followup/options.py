"""Define the options of a follow-up: what is fitted and within which region, and the stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jfstat.candidates.bounds import checked_bounds
from jfstat.followup.method import checked_max_steps
from jfstat.followup.neighbourhood import MISMATCH, Neighbourhood
from jfstat.lines.doppler import checked_lines
from jfstat.signal.times import gps_time
from jfstat.validation import is_number, shown

if TYPE_CHECKING:
    from astropy.table import QTable

    from jfstat.signal.times import TimeLike
    from jfstat.validation import NumberLike

VETO, FALSE_ALARM = 1e-3, 1e-3
"""Default rates at which a stage rejects signals, and at which the last one keeps noise."""


@dataclass(frozen=True, eq=False)
class Fit:
    """Options for what `refine` and `follow_up` fit to candidates, and how far around them they look for the highest
    peak.

    Parameters
    ----------
    parameters : sequence of str, optional
        Columns to refine. Other parameters are fixed, and the errors are for these fixed values. By default all
        parameters that the search varied, which tables of `search` and text files of ComputeFstatistic_v2 record,
        except ``ecc``, ``argp`` and the parameters of a phase model (``model.df``, ...; see `PhaseModel`): a known sky
        position that the search held stays held. If the candidates do not say, all columns except these, and except
        second and higher derivatives of the frequency that are zero in all rows. ``meta["parameters"]`` of the result
        lists the fitted ones.
    bounds : mapping of str to (low, high), optional
        Limits of parameters, in Hz, Hz/s, ..., rad, s, or as Quantities, the same for all candidates. Limits of
        ``alpha`` apply to the value in the candidate's row, without adding multiples of 2 pi. With bounds on a
        frequency or on the sky, coordinates are not adapted to curved peaks (`whiten`), and long peaks may be missed.
    mismatch : float
        Size of the neighbourhood that is covered: templates up to this mismatch from the candidate by the metric, for
        the best frequency within `bins`. The default, 1, covers signals of which the candidate has lost up to
        three quarters of rho^2. The cost grows with mismatch^(q/2) for q parameters besides the frequency. With 0 only
        the frequency is tried.
    bins : float, optional
        Largest offset of the mean frequency at the detectors, in bins of 1/T. At a wrong sky position a signal is
        highest some bins off: by default as many bins are covered as the covered positions can cause, 4 to 32. Give
        more for uncertain starts, where the sky position is wrong by more than the metric allows: frequencies are
        cheap, but a louder signal within the range takes the place of a weaker one.
    max_steps : int, optional
        Largest number of steps of each climb, by default 60 of Newton's method and 500 of an optimiser. A climb that
        needs more ends at its highest point, not converged. Changing the limit does not recompile.
    reftime : float, str, Time or GPSTime, optional
        GPS time at which the candidates' frequencies hold, if they do not say; by default the data's reference time.
    lines : QTable, optional
        Known lines, from `read_lines`, for a column ``line`` that names the lines that the refined candidate crosses;
        by default the search's lines, if the candidates' table has them.

    Raises
    ------
    TypeError, ValueError
        If a value is of another kind or out of range.

    Examples
    --------
    >>> jfstat.Fit(["freq", "f1dot"], bounds={"f1dot": (-1e-9, 0.0)}).mismatch
    1.0
    """

    parameters: Sequence[str] | None = None
    bounds: Mapping[str, tuple[NumberLike, NumberLike]] | None = None
    mismatch: float = MISMATCH
    bins: float | None = None
    max_steps: int | None = None
    reftime: TimeLike | None = None
    lines: QTable | None = None

    def __post_init__(self) -> None:
        names = self.parameters
        if names is not None and not isinstance(names, str):
            try:
                given = list(names)
            except Exception:  # whatever a foreign object raises
                given = [None]
            if not all(isinstance(name, str) for name in given):
                raise TypeError(f"parameters must be a name or a sequence of names, not {shown(names)}.")
            object.__setattr__(self, "parameters", tuple(given))
        checked_bounds(self.bounds)
        Neighbourhood.checked(self.mismatch, self.bins)
        checked_max_steps(self.max_steps)
        if self.reftime is not None:
            gps_time(self.reftime, "reftime")
        if self.lines is not None:
            checked_lines(self.lines)

    @property
    def neighbourhood(self) -> Neighbourhood:
        """Region that is covered around each candidate."""
        return Neighbourhood.checked(self.mismatch, self.bins)


def checked_fit(fit: object) -> Fit:
    """Return the argument `fit` of a function, by default ``Fit()``.

    Raises
    ------
    TypeError
        If `fit` is something else.
    """
    if fit is None:
        return Fit()
    if not isinstance(fit, Fit):
        raise TypeError(f"fit must be a jfstat.Fit or None, not {shown(fit)}.")
    return fit


@dataclass(frozen=True, eq=False)
class Stages:
    """Options for the stages of a follow-up, and which candidates pass them.

    Parameters
    ----------
    numbers : sequence of int, optional
        Decreasing numbers of segments, such as ``(50, 10, 1)``, of equal length over the span of the data; if the
        search had other segments, such as a list with gaps, the first stage has not the same. Where a number divides
        the one before, segments are joined. By default from `follow_up_stages` at the first candidate, starting with
        the number of segments of its search, those without SFTs included.
    veto : float
        Probability, 0 to 1, with which each stage after the first rejects a signal, because its 2F has grown too
        little. With 0 none is rejected on the way.
    false_alarm : float
        Largest ``noise_chance`` of candidates that pass the last stage; with 1 all do.

    Raises
    ------
    ValueError
        If a rate is no probability.

    Examples
    --------
    >>> jfstat.Stages((50, 10, 1), veto=0)
    Stages(numbers=(50, 10, 1), veto=0.0, false_alarm=0.001)
    """

    numbers: Sequence[int] | None = None
    veto: float = VETO
    false_alarm: float = FALSE_ALARM

    def __post_init__(self) -> None:
        for name in ("veto", "false_alarm"):
            rate = getattr(self, name)
            if not (is_number(rate) and 0 <= rate <= 1):
                raise ValueError(f"{name} must be a probability from 0 to 1, not {shown(rate)}.")
            object.__setattr__(self, name, float(rate))

    @classmethod
    def of(cls, stages: Sequence[int] | Stages | None) -> Stages:
        """Return the options that the argument `stages` of `follow_up` stands for."""
        return stages if isinstance(stages, Stages) else cls(stages)
