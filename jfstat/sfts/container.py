"""SFTs in memory: start times and complex bins of each detector, in one common band."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from jfstat import kinds
from jfstat.display import Displayed, Facts, bytes_text
from jfstat.geometry.detector import Detector
from jfstat.geometry.detectors import DETECTORS, get_detector
from jfstat.public import host
from jfstat.signal.times import TimeLike
from jfstat.validation import detector_names, gps_seconds, is_whole

COMPARED = 16
"""Number of bins by which SFTs of the same noise are known."""
CLOSE = 1e-6
"""Largest overlap of two SFTs that is taken for rounding of their times, s."""


@dataclass(frozen=True, eq=False)
class SFTSeries:
    """The SFTs of one detector, in time order.

    Attributes
    ----------
    detector : str
        Two-character prefix, such as ``"H1"``.
    gps : (n_sfts,) int64 ndarray
        Start times, whole GPS seconds.
    gps_ns : (n_sfts,) int64 ndarray
        Nanoseconds to add to `gps`, 0 to 999999999.
    data : (n_sfts, n_bins) complex64 ndarray
        ``dt * DFT`` of the strain, in strain/Hz (LIGO-T040164).
    window : str
        ``"rectangular"``, ``"hann"``, ``"tukey:<beta>"`` or ``"unknown"``.
    own_site : Detector or None
        The detector, if it is not the one that jfstat knows by this prefix; see `site`.
    """

    detector: str
    gps: np.ndarray
    gps_ns: np.ndarray
    data: np.ndarray
    window: str = "rectangular"
    own_site: Detector | None = None

    @classmethod
    def of(
        cls, site: Detector, gps: np.ndarray, gps_ns: np.ndarray, data: np.ndarray, window: str = "rectangular"
    ) -> SFTSeries:
        """Make the SFTs of a detector that may be the user's own."""
        return cls(site.prefix, gps, gps_ns, data, window, None if DETECTORS.get(site.prefix) == site else site)

    @property
    def site(self) -> Detector:
        """The detector's position and arms.

        Raises
        ------
        ValueError
            If jfstat knows no detector by this prefix, and none was given.
        """
        return get_detector(self.detector) if self.own_site is None else self.own_site

    def __len__(self) -> int:
        return len(self.gps)

    def __getitem__(self, rows: slice) -> SFTSeries:
        """Return some of the SFTs, sharing their bins."""
        return replace(self, gps=self.gps[rows], gps_ns=self.gps_ns[rows], data=self.data[rows])

    def between(self, start: float, end: float) -> SFTSeries:
        """Return the SFTs that start in [start, end), GPS s to within 1e-6 s, sharing their bins."""
        times = self.gps + 1e-9 * self.gps_ns
        return self[slice(*np.searchsorted(times, [start - 1e-6, end - 1e-6]))]

    def since(self, epoch: int) -> np.ndarray:
        """Return start times in s since a GPS second, (n_sfts,) float64; whole seconds are subtracted as integers."""
        return (self.gps - epoch) + 1e-9 * self.gps_ns


@dataclass(frozen=True, repr=False, eq=False)
class SFTs(Displayed):
    """Short Fourier transforms of one or more detectors over one common band.

    Attributes
    ----------
    series : tuple of SFTSeries
        One entry for each detector, in alphabetical order.
    tsft : float
        Length of an SFT in s.
    first_bin : int
        Index of the first bin; bin k lies at frequency ``k / tsft``.
    """

    series: tuple[SFTSeries, ...]
    tsft: float
    first_bin: int

    @property
    def detectors(self) -> tuple[str, ...]:
        return tuple(s.detector for s in self.series)

    @property
    def n_bins(self) -> int:
        return self.series[0].data.shape[1]

    @property
    def frequencies(self) -> np.ndarray:
        """Frequencies of the bins, (n_bins,) float64, Hz."""
        return (self.first_bin + np.arange(self.n_bins)) / self.tsft

    @property
    def nbytes(self) -> int:
        """Memory of the bins, bytes."""
        return sum(own.data.nbytes for own in self.series)

    @property
    def start(self) -> int:
        """GPS second in which the earliest SFT starts."""
        return int(min(s.gps[0] for s in self.series if len(s)))

    @property
    def end(self) -> float:
        """GPS time at which the latest SFT ends."""
        return float(max(s.gps[-1] + 1e-9 * s.gps_ns[-1] for s in self.series if len(s))) + self.tsft

    def __getitem__(self, detector: str) -> SFTSeries:
        for s in self.series:
            if s.detector == detector:
                return s
        raise KeyError(f"no SFTs of detector {detector!r}; there are {', '.join(self.detectors)}")

    def __iter__(self) -> Iterator[SFTSeries]:
        return iter(self.series)

    def __len__(self) -> int:
        """Return the number of SFTs of all detectors together."""
        return sum(len(s) for s in self.series)

    def select(
        self, start: TimeLike | None = None, end: TimeLike | None = None, detectors: str | Sequence[str] | None = None
    ) -> SFTs:
        """Return the SFTs of some detectors that start in [start, end); their bins are shared, not copied.

        Parameters
        ----------
        start, end : float or Time, optional
            GPS times, s.
        detectors : str or sequence of str, optional
            All by default. Detectors without SFTs in the interval are left out.

        Raises
        ------
        ValueError
            If a detector is unknown or no SFT is left.
        """
        names = self.detectors if detectors is None else detector_names(detectors)
        unknown = [name for name in names if name not in self.detectors]
        if unknown:
            raise ValueError(
                f"detectors has {unknown[0]!r}, but the SFTs are of {', '.join(self.detectors)}: name one."
            )
        low = -np.inf if start is None else gps_seconds(start, "start")
        high = np.inf if end is None else gps_seconds(end, "end")
        chosen = tuple(part for s in self.series if s.detector in names and len(part := s.between(low, high)))
        if not chosen:
            raise ValueError(f"no SFT of {', '.join(names)} starts in [{low}, {high}): give another start and end.")
        return SFTs(chosen, self.tsft, self.first_bin)

    def joined(self, *others: SFTs) -> SFTs:
        """Join these SFTs with others, which have the same length and band but other times or detectors.

        Raises
        ------
        TypeError
            If anything but SFTs is given.
        ValueError
            If lengths, bands or windows differ, or SFTs of one detector overlap.
        """
        parts = (self, *others)
        for i, part in enumerate(parts):
            check_sfts(part, f"sfts[{i}]")
            if (part.tsft, part.first_bin, part.n_bins) != (self.tsft, self.first_bin, self.n_bins):
                raise ValueError(
                    f"sfts[{i}] has other lengths or another band than sfts[0]: read all with the same fmin and fmax."
                )
        names = sorted({name for part in parts for name in part.detectors})
        series = tuple(_joined([s for part in parts for s in part if s.detector == name], self.tsft) for name in names)
        joined = SFTs(series, self.tsft, self.first_bin)
        warn_of_repeated_noise(joined)
        return joined

    def _facts(self) -> Facts:
        counts = ", ".join(f"{len(own)} of {own.detector}" for own in self.series)
        low, high = self.frequencies[[0, -1]]
        rows = [
            ("SFTs", f"{counts}, {self.tsft:g} s each"),
            ("span", f"GPS {self.start} to {self.end:.0f}, {(self.end - self.start) / 86400:.3g} d"),
            ("band", f"{low:.10g} to {high:.10g} Hz, {self.n_bins} bins"),
            ("memory", bytes_text(self.nbytes)),
        ]
        return Facts(f"SFTs of {', '.join(self.detectors)}", rows, many=True)


def refuse_bad_sfts(detector: str, gps: np.ndarray, bad: np.ndarray, what: str) -> None:
    """Raise a ValueError that says what the first bad SFT of a detector has, if any is bad: (n_sfts,) bool."""
    if np.any(bad):
        raise ValueError(f"the SFT of {detector} at GPS {gps[np.argmax(bad)]} has {what}.")


def warn_of_repeated_noise(sfts: SFTs) -> None:
    """Warn of SFTs of one detector that hold the same bins: noise that was simulated with one seed adds up like a
    signal."""
    for series in sfts:
        bins: np.ndarray = series.data[:, :COMPARED]
        rows = np.flatnonzero(np.all(bins != 0, axis=1) & np.all(np.isfinite(bins), axis=1))
        if bins.shape[1] < COMPARED or not len(rows):
            continue
        order = np.argsort(bins[rows, 0], kind="stable")
        values = bins[rows[order]]
        again = np.flatnonzero(np.all(values[1:] == values[:-1], axis=1))
        # all are alike in a line without noise
        if len(again) and len(again) < len(rows) - 1:
            earliest = again[np.argmin(order[again])]
            first, second = (series.gps[rows[order[earliest + k]]] for k in (0, 1))
            warnings.warn(
                f"the SFTs of {series.detector} at GPS {first} and {second} hold the same bins: if they were "
                "simulated, give each stretch of time its own seed.",
                stacklevel=6,  # the line that reads or joins them
            )


@host(sfts=kinds.sequence)
def join_sfts(sfts: Sequence[SFTs]) -> SFTs:
    """Join several sets of SFTs, which have the same length and band but other times or detectors.

    Parameters
    ----------
    sfts : sequence of SFTs

    Returns
    -------
    SFTs
        Joined SFTs, in time order for each detector.

    Raises
    ------
    TypeError
        If anything but SFTs is given.
    ValueError
        If `sfts` is empty, lengths, bands or windows differ, or SFTs of one detector overlap.

    Warns
    -----
    UserWarning
        If SFTs of one detector hold the same bins, as noise does that was simulated with one seed.

    Examples
    --------
    >>> both = jfstat.join_sfts([sfts.select(end=start + 7200), sfts.select(start=start + 7200)])
    >>> both.detectors
    ('H1', 'L1')
    """
    parts = list(sfts)
    if not parts:
        raise ValueError("sfts is empty: give at least one SFTs.")
    return SFTs.joined(*parts)


def _joined(parts: list[SFTSeries], tsft: float) -> SFTSeries:
    """Join several series of the same detector into one, in time order."""
    windows = sorted({part.window for part in parts})
    if len(windows) > 1:
        raise ValueError(
            f"sfts of {parts[0].detector} have the windows {' and '.join(windows)}: join those of one kind."
        )
    if any(part.own_site != parts[0].own_site for part in parts):
        raise ValueError(f"sfts of {parts[0].detector} are of detectors at different sites: give them other prefixes.")
    gps, gps_ns = (np.concatenate([getattr(part, name) for part in parts]) for name in ("gps", "gps_ns"))
    order = np.lexsort((gps_ns, gps))
    gps, gps_ns = gps[order], gps_ns[order]
    close = np.flatnonzero(np.diff(gps) + 1e-9 * np.diff(gps_ns) < tsft - CLOSE)
    if len(close):
        raise ValueError(f"sfts of {parts[0].detector} overlap at GPS {gps[close[0] + 1]}: leave out one of them.")
    return replace(parts[0], gps=gps, gps_ns=gps_ns, data=np.concatenate([part.data for part in parts])[order])


def check_sfts(sfts: object, name: str = "sfts") -> None:
    """Raise an error unless `sfts` are SFTs of different detectors, in order, that do not overlap.

    SFTs made in memory have passed no reader's checks. The values of the bins are checked where they are used.

    Raises
    ------
    TypeError
        If `sfts` is of another kind.
    ValueError
        If there are no SFTs, a detector occurs twice, arrays do not fit together, times are not in order, or a number
        makes no sense.
    """
    if not isinstance(sfts, SFTs):
        raise TypeError(f"{name} must be SFTs from read_sfts or simulate_sfts, not {type(sfts).__name__}.")
    if not isinstance(sfts.series, tuple) or not all(isinstance(series, SFTSeries) for series in sfts.series):
        raise TypeError(f"{name}.series must be a tuple of SFTSeries: make it so.")
    tsft = sfts.tsft
    if not (isinstance(tsft, (int, float, np.number)) and 0 < tsft < np.inf):
        raise ValueError(f"{name}.tsft must be positive and finite, not {tsft!r}: give the length of an SFT in s.")
    if not is_whole(sfts.first_bin) or sfts.first_bin < 0:
        raise ValueError(f"{name}.first_bin must be a whole number of at least 0, not {sfts.first_bin!r}.")
    names = [series.detector for series in sfts.series]
    twice = next((x for x in names if names.count(x) > 1), None)
    if twice is not None:
        raise ValueError(f"{name} hold the detector {twice} twice: join them, or leave one out.")
    for series in sfts.series:
        _check_series(series, float(tsft), name)
    if len({series.data.shape[1] for series in sfts.series}) > 1:
        raise ValueError(f"{name} have different numbers of bins for different detectors: read all with one band.")
    if not sum(map(len, sfts.series)):
        raise ValueError(f"{name} hold no SFT: give at least one.")


def _check_series(series: SFTSeries, tsft: float, name: str) -> None:
    """Raise a ValueError unless the arrays of one detector fit together and its times are in order."""
    own = f"{name} of {series.detector}"
    data, gps, gps_ns = series.data, series.gps, series.gps_ns
    if not (isinstance(data, np.ndarray) and data.ndim == 2 and data.dtype.kind == "c" and data.shape[1]):
        raise ValueError(f"{own} must have data of shape (n_sfts, n_bins), complex: make them so.")
    for what, times in (("gps", gps), ("gps_ns", gps_ns)):
        if not (isinstance(times, np.ndarray) and times.shape == data.shape[:1] and times.dtype.kind in "iu"):
            raise ValueError(f"{own} must have {what} of shape (n_sfts,), whole numbers: make them so.")
    if np.any((gps_ns < 0) | (gps_ns >= 10**9)):
        raise ValueError(f"{own} must have gps_ns of 0 to 999999999: carry the rest to gps.")
    step = np.diff(gps.astype(np.int64)) + 1e-9 * np.diff(gps_ns.astype(np.int64))
    if np.any(step < tsft - CLOSE):
        row = int(np.argmax(step < tsft - CLOSE)) + 1
        what = "overlaps with" if step[row - 1] > 0 else "is not after"
        raise ValueError(
            f"{own} are not in order: the one at GPS {gps[row]} {what} the one before, of {tsft:g} s; sort them, and "
            "leave out what is there twice."
        )
