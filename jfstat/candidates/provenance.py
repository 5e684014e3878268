"""Record in a table's meta where the table comes from: which data, version and templates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from jfstat.validation import is_number, is_whole, shown
from jfstat.version import __version__

if TYPE_CHECKING:
    from jfstat.data.observation import Observation
    from jfstat.signal.times import GPSTime, TimeLike


SAME_FLOOR = 0.05
"""Largest relative difference of noise floors of the same data: of one table a signal may have been subtracted, or a
slightly different band prepared."""


@dataclass(frozen=True)
class Provenance:
    """Origin of a table: entries of its meta; entries that are None are not written.

    Parameters
    ----------
    version : str
        Version of jfstat.
    reftime : int or float
        GPS time at which frequencies and their derivatives hold, s.
    detectors : tuple of str
    ephemeris : str
        Name of the ephemeris.
    start, tspan : float
        GPS time of the first SFT, and the time from its start to the end of the last SFT, s.
    parameters : tuple of str
        Names of the parameters that the search or the fit varied; with ranges of no more than one template too.
    tsft : float
        Length of the SFTs, s.
    sqrt_sx : tuple of (float or None)
        Noise floor of each detector, 1/sqrt(Hz).
    n_sfts : tuple of int
        Number of SFTs of each detector.
    n_segments : int
        Number of segments, if the data have any.
    segment_tspan : float
        Length of the longest segment, s.
    """

    version: str | None = None
    reftime: TimeLike | None = None
    detectors: tuple[str, ...] | None = None
    ephemeris: str | None = None
    start: float | None = None
    tspan: float | None = None
    parameters: tuple[str, ...] | None = None
    tsft: float | None = None
    sqrt_sx: tuple[float | None, ...] | None = None
    n_sfts: tuple[int, ...] | None = None
    n_segments: int | None = None
    segment_tspan: float | None = None

    @classmethod
    def from_observation(
        cls, observation: Observation, reftime: GPSTime, parameters: Iterable[str], of_sfts: bool = True
    ) -> Provenance:
        """Return the origin of a table that was computed from data.

        Parameters
        ----------
        observation : Observation
            Observation of the data; may have a leading axis of segments.
        reftime : GPSTime
            Reference time of the table's templates.
        parameters : iterable of str
            Names of the parameters that were varied.
        of_sfts : bool
            Whether to say what the SFTs were: `tsft`, `sqrt_sx` and `n_sfts`.
        """
        n_segments, (start, end) = observation.n_segments, observation.ends
        longest = float(np.asarray(observation.tspan).max())
        return cls(
            version=__version__,
            reftime=reftime.plain,
            detectors=tuple(observation.detectors),
            ephemeris=observation.ephemeris,
            start=int(np.asarray(observation.epoch).min()),
            tspan=longest if n_segments is None else end - start,
            parameters=tuple(parameters),
            tsft=float(np.asarray(observation.tsft).max()) if of_sfts else None,
            sqrt_sx=tuple(observation.mean_sqrt_sx) if of_sfts else None,
            n_sfts=tuple(observation.n_sfts) if of_sfts else None,
            n_segments=n_segments,
            segment_tspan=None if n_segments is None else longest,
        )

    @classmethod
    def of(cls, table: object, *needed: str, name: str = "table") -> Provenance:
        """Read the origin of a table from its meta; for templates, which have no meta, nothing is known.

        Parameters
        ----------
        table : Table, QTable, PlainTable or Doppler
        needed : str
            Entries that the meta must have.
        name : str
            Name of the table in errors.

        Raises
        ------
        ValueError
            If an entry is missing or of the wrong kind.
        """
        meta = getattr(table, "meta", None) or {}
        given = {key: meta[key] for key in KINDS if meta.get(key) is not None}
        for key in needed:
            if key not in given:
                raise ValueError(f"{name} lacks {key!r} in its meta, {KINDS[key][1]}: give a table as jfstat made it.")
        for key, x in given.items():
            holds, what = KINDS[key]
            if not holds(x):
                raise ValueError(f"{name} has {key} = {shown(x)} in its meta, not {what}: correct or remove it.")
        entries: dict[str, Any] = {key: tuple(x) if _is_list(x) else x for key, x in given.items()}
        return cls(**entries)

    @property
    def meta(self) -> dict[str, Any]:
        """Entries as plain values and lists of them, by name."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {key: list(x) if isinstance(x, tuple) else x for key, x in given.items() if x is not None}


def other_floors(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether the metas of two tables have noise floors that differ by more than `SAME_FLOOR`."""
    floors = [np.array(meta.get("sqrt_sx") or [np.nan], np.float64) for meta in (one, other)]
    return bool(np.any(np.abs(floors[0] / floors[1] - 1) > SAME_FLOOR))


def reftime_of(table: object, default: Any = None) -> Any:
    """Return the time at which the frequencies of a table hold, or a default if it does not say.

    Raises
    ------
    ValueError
        If each row has its own, in a column ``reftime``.
    """
    if "reftime" in getattr(table, "colnames", ()):
        raise ValueError(
            "the table has a column 'reftime', a time for each row: take its rows one at a time, by "
            "jfstat.Doppler.from_row."
        )
    reftime = Provenance.of(table).reftime
    return default if reftime is None else reftime


def joint_ephemeris(names: Sequence[str]) -> str:
    """Return the name of the ephemeris of all rows of a table, or "by row" if there are several."""
    return names[0] if len(set(names)) == 1 else "by row"


def _is_list(x: Any) -> bool:
    return np.iterable(x) and not isinstance(x, (str, bytes, dict))


def _are_names(x: Any) -> bool:
    return _is_list(x) and all(isinstance(name, str) for name in x)


def _is_word(x: object) -> bool:
    return isinstance(x, str)


KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "version": (lambda x: _is_word(x) or is_number(x), "a version"),
    "reftime": (lambda x: True, "a GPS time"),  # of many kinds: `gps_time` checks it
    "detectors": (_are_names, "a list of names"),
    "ephemeris": (_is_word, "a name"),
    "start": (is_number, "a GPS time in s"),
    "tspan": (is_number, "a time in s"),
    "parameters": (_are_names, "a list of names"),
    "tsft": (is_number, "a time in s"),
    "sqrt_sx": (_is_list, "a list of noise floors"),
    "n_sfts": (_is_list, "a list of numbers"),
    "n_segments": (is_whole, "a number of segments"),
    "segment_tspan": (is_number, "a time in s"),
}
"""Condition that each entry must fulfil, and its description in words."""
