"""Reading of SFT files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jfstat import kinds
from jfstat.geometry.detector import Detector
from jfstat.geometry.detectors import DETECTORS, DetectorLike
from jfstat.geometry.doppler import drift_range, largest_doppler_speed
from jfstat.public import host, public
from jfstat.sfts.blocks import read_batches
from jfstat.sfts.container import SFTs, SFTSeries, warn_of_repeated_noise
from jfstat.sfts.headers import scan_file, start_ns
from jfstat.sfts.layout import Layout, arrange, check_tsft
from jfstat.sfts.patterns import Pattern, find_files
from jfstat.sfts.selection import band_limits, require_present, sites_of, time_range
from jfstat.sfts.windows import window_name
from jfstat.signal.templates import Orbit
from jfstat.signal.times import TimeLike, gps_time
from jfstat.validation import FrequencyLike, float64_of, frequency, guard_band, is_whole, shown

MOST_BINS = 10**7
"""More bins beyond a band are taken for a mistake."""


@host(start=kinds.time, end=kinds.time, check_crc=kinds.flag)
def read_sfts(
    pattern: Pattern,
    detectors: DetectorLike | Iterable[DetectorLike] | None = None,
    start: TimeLike | None = None,
    end: TimeLike | None = None,
    fmin: FrequencyLike | None = None,
    fmax: FrequencyLike | None = None,
    *,
    check_crc: bool = True,
) -> SFTs:
    """Read SFT files: versions 2 and 3, either byte order, one or many SFTs each.

    The files may be given in any order, and the band may be spread over several of them (narrow-band SFTs): bands of
    one detector and time are joined, and bins that two of them share must agree.

    Parameters
    ----------
    pattern : str, path or sequence of these
        A file; a directory, for the ``*.sft`` in it; a glob; several of these joined by ``;``; or ``list:<file>``, a
        file with one path per line.
    detectors : str, Detector or iterable of these, optional
        Prefixes, such as ``"H1"``, of the detectors to keep; by default all. SFTs with the prefix of a given Detector
        are taken as data of that detector, even if jfstat knows another one by this prefix: files hold nothing but the
        prefix.
    start, end : float or astropy.time.Time, optional
        Keep the SFTs that start in [start, end), GPS s, as ``SFTcatalog.c:XLALSFTdataFind`` does.
    fmin, fmax : float or astropy.units.Quantity, optional
        Keep the bins that cover [fmin, fmax), Hz, as ``SFTfileIO.c:XLALLoadSFTs`` does: from fmin rounded down to a bin
        to the last bin below fmax. By default the band of the files.
    check_crc : bool
        By default all bytes of all files are read and verified, even if few are kept. If False, only headers, comments
        and the bins to keep are read.

    Returns
    -------
    SFTs
        Detectors in alphabetical order, SFTs in time order.

    Raises
    ------
    FileNotFoundError
        If a pattern matches no file, or a list names a file that does not exist.
    OSError
        If a file cannot be opened.
    ValueError
        If an argument makes no sense or selects nothing; if a file is not a valid SFT file by LALSuite's standards; if
        the SFTs have different Tsft or, for one detector, different windows, an SFT twice or SFTs that overlap in time;
        if part of the band is missing at some time or, without fmin or fmax, bands differ.

    Examples
    --------
    >>> files = jfstat.write_sfts(sfts, 'data')
    >>> jfstat.read_sfts('data/*.sft', detectors='H1')
    SFTs of H1
      SFTs    24 of H1, 1800 s each
      span    GPS 1167458304 to 1167501504, 0.5 d
      band    99.6 to 100.3994444 Hz, 1440 bins
      memory  276 kB
    """
    files, others, layout, sites = _laid_out(pattern, detectors, start, end, fmin, fmax)
    return _loaded(files, layout, others, check_crc, sites)


def band_of(
    pattern: Pattern,
    detectors: DetectorLike | Iterable[DetectorLike] | None = None,
    start: TimeLike | None = None,
    end: TimeLike | None = None,
    fmin: FrequencyLike | None = None,
    fmax: FrequencyLike | None = None,
) -> tuple[float, int, int]:
    """Return the length of SFTs in s, and first and last bin that `read_sfts` would return; only headers are read.

    Raises
    ------
    FileNotFoundError, OSError, ValueError
        See `read_sfts`, as far as headers tell.
    """
    _, _, layout, _ = _laid_out(pattern, detectors, start, end, fmin, fmax)
    return float(layout.table["tsft"][0]), layout.first_bin, layout.last_bin


def _laid_out(
    pattern: Pattern,
    detectors: DetectorLike | Iterable[DetectorLike] | None,
    start: TimeLike | None,
    end: TimeLike | None,
    fmin: FrequencyLike | None,
    fmax: FrequencyLike | None,
) -> tuple[list[Path], np.ndarray, Layout, dict[str, Detector]]:
    """Return the files, the headers of unwanted SFTs in them, the layout of the others, and the detectors."""
    sites = sites_of(detectors)
    limits = time_range(start, end)
    low, high = band_limits(fmin, fmax)
    files, table, chosen = _scanned(pattern, sites, limits)
    return files, table[~chosen], arrange(files, table[chosen], low, high), sites


def _scanned(
    pattern: Pattern,
    sites: dict[str, Detector],
    limits: tuple[int | None, int | None],
    known: Iterable[str] = (),
) -> tuple[list[Path], np.ndarray, np.ndarray]:
    """The files, the headers of all SFTs in them, and which of these are wanted, (n,) bool.

    Files may hold SFTs of the wanted detectors, of those that jfstat knows, and of the prefixes `known`.
    """
    files = find_files(pattern)
    own = [*known, *(name for name, site in sites.items() if DETECTORS.get(name) != site)]
    table = np.concatenate([scan_file(path, i, own) for i, path in enumerate(files)])
    return files, table, _choose(table, list(sites) or None, *limits)


@dataclass(frozen=True, eq=False)
class SFTFiles:
    """SFTs in files, of which parts are read as they are needed; made by `jfstat.find_sfts`.

    Attributes
    ----------
    files : list of Path
    layout : Layout
        Layout of all bins that all times have.
    times : SFTs
        Times of the SFTs, one for each detector and time, without bins.
    check_crc : bool
        Whether to check the files' checksums as they are read.
    others : ndarray of `headers.TABLE`
        Headers of the SFTs in these files that were not asked for.
    """

    files: list[Path]
    layout: Layout
    times: SFTs
    check_crc: bool
    others: np.ndarray

    @property
    def band(self) -> tuple[float, float]:
        """Lowest frequency, and end of the last bin, that all times have, Hz."""
        return self.first_bin / self.times.tsft, (self.last_bin + 1) / self.times.tsft

    @property
    def first_bin(self) -> int:
        return self.layout.first_bin

    @property
    def last_bin(self) -> int:
        """Last bin that all times have."""
        return self.layout.last_bin

    def read(self, detector: str, rows: slice, first_bin: int, last_bin: int) -> np.ndarray:
        """Read bins of some SFTs of a detector, by their rows in `times`: (n_rows, n_bins) complex64."""
        names = self.times.detectors
        before = sum(len(self.times[name]) for name in names[: names.index(detector)])
        # rows of the layout are in the order of detectors and times
        low, high = np.searchsorted(self.layout.row, [before + rows.start, before + rows.stop])
        table, tsft = self.layout.table, self.times.tsft
        layout = arrange(self.files, table[low:high], first_bin / tsft, (last_bin + 1) / tsft)
        return _read(self.files, layout, table[:0], self.check_crc)

    @host(orbit=kinds.instance(Orbit, or_none=True), fdots=kinds.sequence, reftime=kinds.time)
    def read_band(
        self,
        fmin: FrequencyLike,
        fmax: FrequencyLike,
        guard: FrequencyLike = 1.0,
        *,
        orbit: Orbit | None = None,
        fdots: Sequence[tuple[float, float]] | None = None,
        reftime: TimeLike | None = None,
        noise_bins: int = 0,
        known: SFTs | None = None,
    ) -> SFTs:
        """Read the part of the band that `prepare` needs for these arguments, as far as the files have it.

        Parameters
        ----------
        fmin, fmax, guard, orbit, fdots, reftime
            As for `prepare`.
        noise_bins : int
            How many bins beyond the band the noise floor depends on, as ``Noise().reach`` says.
        known : SFTs, optional
            What was read before of these files, for a band that may be a little narrower: it is returned if at most a
            bin of the guard is missing on either side, because reading takes longer than a bin is worth.

        Returns
        -------
        SFTs

        Raises
        ------
        OSError
            If a file cannot be read.
        ValueError
            If the files do not contain the band, or are damaged.
        """
        low, high, width = frequency(fmin, "fmin"), frequency(fmax, "fmax"), guard_band(guard)
        if not is_whole(noise_bins) or not 0 <= noise_bins <= MOST_BINS:
            raise ValueError(f"noise_bins must be a whole number from 0 to {MOST_BINS}, not {shown(noise_bins)}.")
        spins = np.zeros((0, 2)) if fdots is None or not len(fdots) else float64_of(fdots, "fdots")
        if spins.ndim != 2 or spins.shape[1] != 2 or not np.all(np.isfinite(spins)):
            raise ValueError(f"fdots must be ranges [(low, high), ...] of f1dot, f2dot, ..., not {shown(fdots)}.")
        times, (first, last) = self.times, self.band
        if low < first or high > last:
            raise ValueError(
                f"the files cover {first:.10g} to {last:.10g} Hz, not all of fmin={low:.10g} to fmax={high:.10g} "
                "Hz: choose other frequencies or name other files."
            )
        since = 0.0 if reftime is None else -float(gps_time(reftime, "reftime").since(times.start))
        ranges = None if fdots is None else [(float(x), float(y)) for x, y in spins]
        drift = drift_range(ranges, since, since + times.end - times.start)
        beyond = max(width, (noise_bins + 1.5) / times.tsft, 0.0)
        reach = largest_doppler_speed(orbit) * high + beyond + 4 / times.tsft
        first, last = max(low + drift[0] - reach, first), min(high + drift[1] + reach, last)
        if known is not None:
            width, f = 1 / known.tsft, known.frequencies
            if f[0] - width <= first and last <= f[-1] + 2 * width:
                return known
        layout = arrange(self.files, self.layout.table, first, last)
        sites = {own.detector: own.site for own in times}
        return _loaded(self.files, layout, self.others, self.check_crc, sites)


@public(detectors=kinds.detectors, start=kinds.time, end=kinds.time, check_crc=kinds.flag)
def find_sfts(
    pattern: Pattern,
    detectors: DetectorLike | Iterable[DetectorLike] | None = None,
    start: TimeLike | None = None,
    end: TimeLike | None = None,
    check_crc: bool = False,
    *,
    own: Iterable[Detector] = (),
) -> SFTFiles:
    """Find SFTs by the headers of their files, to read parts of them later.

    Years of SFTs, of which `search_pulsars` needs little, then take little memory.

    Parameters
    ----------
    pattern, detectors, start, end
        Which files, and which SFTs in them; see `read_sfts`.
    check_crc : bool
        Whether to check the files' checksums as they are read. As in LALSuite's searches, they are not by default.
    own : iterable of Detector
        Detectors of one's own that SFTs may be of, whatever `detectors` are asked for.

    Returns
    -------
    SFTFiles

    Raises
    ------
    FileNotFoundError, OSError, ValueError
        As `read_sfts`, as far as headers tell.

    Examples
    --------
    >>> files = jfstat.write_sfts(sfts, 'data')
    >>> jfstat.find_sfts('data/*.sft', detectors='H1').times.detectors
    ('H1',)
    """
    sites = sites_of(detectors)
    mine = {site.prefix: site for site in own}
    wanted = {name: mine.get(name, site) for name, site in sites.items()}
    files, table, chosen = _scanned(pattern, wanted, time_range(start, end), mine)
    table, others = table[chosen], table[~chosen]
    check_tsft(files, table)  # bins of one number lie at one frequency
    order = np.lexsort([table["n_bins"], table["first_bin"], start_ns(table), table["detector"]])
    table = table[order]
    new = np.append(True, (table["detector"][1:] != table["detector"][:-1]) | (np.diff(start_ns(table)) != 0))
    lows = table["first_bin"][new]
    highs = np.maximum.reduceat(table["first_bin"] + table["n_bins"] - 1, np.flatnonzero(new))
    first_bin, last_bin = int(lows.max()), int(highs.min())
    if first_bin > last_bin:
        raise ValueError("the SFTs have no band in common: name files of one band.")
    tsft = float(table["tsft"][0])
    layout = arrange(files, table, first_bin / tsft, (last_bin + 1) / tsft)
    times = _as_sfts(layout, np.empty((len(layout.heads), 0), np.complex64), mine | wanted)
    return SFTFiles(files, layout, times, check_crc, others)


def _choose(table: np.ndarray, wanted: list[str] | None, since: int | None, until: int | None) -> np.ndarray:
    """Return which SFTs have the wanted detectors and times, (n_sfts,) bool."""
    times = start_ns(table)
    chosen = np.ones(len(table), bool)
    if since is not None:
        chosen &= times >= since
    if until is not None:
        chosen &= times < until
    if not np.any(chosen):
        raise ValueError(
            f"no SFT starts between start and end: the SFTs start at GPS {times.min() // 10**9} to "
            f"{times.max() // 10**9}; choose times among these."
        )
    present = [name.decode() for name in np.unique(table["detector"][chosen])]
    if wanted is None:
        return chosen
    require_present(wanted, present, "SFTs")
    return chosen & np.isin(table["detector"], np.array(wanted, "S2"))


def _loaded(
    files: list[Path], layout: Layout, others: np.ndarray, check_crc: bool, sites: Mapping[str, Detector]
) -> SFTs:
    """Return the SFTs of a layout; those in `others` are only verified, if checksums are."""
    sfts = _as_sfts(layout, _read(files, layout, others if check_crc else others[:0], check_crc), sites)
    warn_of_repeated_noise(sfts)
    return sfts


def _read(files: list[Path], layout: Layout, others: np.ndarray, check_crc: bool) -> np.ndarray:
    """Read the bins of a layout, (n_rows, n_bins) complex64; the SFTs in `others` are only verified."""
    data = np.empty((len(layout.heads), layout.last_bin - layout.first_bin + 1), np.complex64)
    table = np.concatenate([layout.table, others])
    for sfts, start, values in read_batches(files, table, layout.first_bin, layout.last_bin, check_crc=check_crc):
        kept = sfts < len(layout.table)
        sfts, values = sfts[kept], values[kept]
        column = start - layout.first_bin
        columns = slice(column, column + values.shape[1])
        shared = np.clip(layout.fresh[sfts] - start, 0, values.shape[1])
        for k in np.flatnonzero(shared):
            sft = layout.table[sfts[k]]
            if not np.array_equal(data[layout.row[sfts[k]], columns][: shared[k]], values[k, : shared[k]]):
                raise ValueError(
                    f"SFT file {str(files[sft['file']])!r}: at GPS {sft['gps']} it differs from another file in "
                    "bins that both have; leave one of the files out."
                )
        data[layout.row[sfts], columns] = values
    return data


def _as_sfts(layout: Layout, data: np.ndarray, sites: Mapping[str, Detector]) -> SFTs:
    rows = layout.table[layout.heads]
    names, starts = np.unique(rows["detector"], return_index=True)
    series = []
    for name, start, stop in zip(names, starts, [*starts[1:], len(rows)], strict=True):
        part = rows[start:stop]
        window = window_name(int(part["window"][0]))
        site = sites.get(name.decode()) or DETECTORS[name.decode()]
        series.append(SFTSeries.of(site, part["gps"].copy(), part["gps_ns"].copy(), data[start:stop], window))
    return SFTs(tuple(series), float(rows["tsft"][0]), layout.first_bin)
