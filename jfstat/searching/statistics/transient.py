"""Search for transient signals by the largest 2F or the Bayes factor of all windows at each template and frequency."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.candidates.details import Details, detail_columns, kept_columns
from jfstat.candidates.falsealarm import false_alarm
from jfstat.candidates.tables import Meta
from jfstat.candidates.transienttable import transient_meta, transient_values
from jfstat.data.bandseries import Layout
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import FLOAT32, Device, default_device, device_of, free_bytes
from jfstat.data.observation import refuse_windowed
from jfstat.engines.engine import COMPLEX, first_without_spin_down, nodes_per_template
from jfstat.engines.xla import NODE_BYTES
from jfstat.lines.doppler import LineBands
from jfstat.searching.division import Division
from jfstat.searching.options import Keep
from jfstat.searching.reduce.toplist import Peaks
from jfstat.searching.statistic import Task
from jfstat.searching.statistics.band import XlaStatistic, check_whole, where_counted
from jfstat.signal.parameters import TRANSIENT_COLUMNS
from jfstat.signal.templates import Doppler
from jfstat.signal.values import columns as parameter_values
from jfstat.statistic.bins import counted_bins
from jfstat.statistic.resample import Resampled, resampled, spun_down
from jfstat.statistic.transientband import Kind, TransientBand, band_values, transient_band
from jfstat.statistic.transients import TransientRange, check_within, log10_bayes
from jfstat.validation import shown

CPU_BYTES = 8 << 20
"""Memory for the sums over slices at the frequencies computed at a time on a CPU, bytes: the size of common caches."""
MOST_BYTES, SHARE = 4 << 30, 0.2
"""Largest memory for the sums over slices on an accelerator, bytes, and largest fraction of its free memory."""
RANKINGS = ("F", "BtSG")


@dataclass(frozen=True, eq=False)
class Transient(XlaStatistic):
    """Largest 2F of all windows of a transient signal at each template and frequency, or log10 B_tS/G.

    See Prix, Giampanis & Messenger 2011, Phys. Rev. D 84, 023007. The sums over the slices of time between starts and
    ends of windows come from one short transform of the resampled series for each slice. Rectangular windows with equal
    steps in t0 and tau are differences of two such sums; other windows weight slices of about the range's `duration`,
    at a cost that grows with the number of slices. Templates are computed one after the other, and frequencies in
    groups whose sums over slices fit into the memory. The columns are

    - ``max_twoF_band`` or ``log10BtSG_band``, the values of the search, to which `threshold` applies;
    - ``max_twoF``, ``t0``, ``tau``, ``log10BtSG``, ``t0_MP`` and ``tau_MP``, as from `fstat_table`, computed from the
      candidate's own atoms. The table is sorted by ``max_twoF`` or ``log10BtSG``;
    - ``twoF``, ``twoF_H1``, ..., ``log10BSGL`` and amplitudes, of a persistent signal in all data.

    The search cuts slices at the exact time and atoms at whole samples of the prepared series: the two differ by about
    a sample over the length of a window. ``twoF_histogram`` and ``loudest_per_subband`` describe ``max_twoF_band``, or
    2 ln of the mean of exp(F) over the windows. ``false_alarm`` is for as many independent values as there are windows,
    templates and frequencies: an upper bound, far above the truth because windows overlap (see `transient_null`); None
    for ``"BtSG"``. Meta also has ``transient``.

    Parameters
    ----------
    windows : TransientRange
    ranking : "F" or "BtSG"
        Whether to look for the largest 2F of the windows or for the largest log10 B_tS/G.

    Raises
    ------
    TypeError
        If `windows` is no range of windows.
    ValueError
        If `ranking` is neither "F" nor "BtSG".

    Examples
    --------
    >>> windows = jfstat.TransientRange("rectangular", t0=[1167458304.0], tau=[43200.0, 86400.0])
    >>> jfstat.Transient(windows, ranking="BtSG").ranking
    'BtSG'
    """

    cannot: ClassVar[str] = "search for transients"

    windows: TransientRange
    ranking: str = "F"
    _key: Hashable = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        if not isinstance(self.windows, TransientRange):
            raise TypeError(f"windows must be a jfstat.TransientRange, not {shown(self.windows)}.")
        if not isinstance(self.ranking, str) or self.ranking not in RANKINGS:
            raise ValueError(f"ranking must be one of {', '.join(map(repr, RANKINGS))}, not {shown(self.ranking)}.")
        own = self.windows
        times = (tuple(np.asarray(x).tolist()) for x in (own.t0, own.tau))
        key = (own.shape, own.end, *times, own.duration, own.rho_max, self.ranking)
        object.__setattr__(self, "_key", key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Transient) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def bayes(self) -> bool:
        """Whether candidates are ranked by the Bayes factor of all windows rather than by the largest 2F."""
        return self.ranking == "BtSG"

    def check(self, data: FstatData, stack: Doppler, keep: Keep, details: Details) -> None:
        """Raise a ValueError if no window holds any data, and for options that transients do not have."""
        check_whole(data, self.name)
        refuse_windowed(data.observation)
        for name, value in {"cluster": keep.cluster, "bsgl_threshold": keep.bsgl_threshold}.items():
            if value is not None:
                raise ValueError(f"{self.name} and {name} do not go together: leave one out.")
        if keep.ranking != "F":
            raise ValueError(f"ranking {keep.ranking!r} of Keep does not go with {self.name}, which has its own.")
        check_within(self.name, data.observation.ends, self.windows.t0, self.windows.tau, self.windows.end)

    def threshold(self, value: float | None) -> float | None:
        """Return a threshold on 2F unchanged, and on log10 B_tS/G as 2 ln of the mean of exp(F)."""
        if value is None or not self.bayes:
            return value
        return float(2 * np.log(10.0) * (value - log10_bayes(0.0, self.windows.rho_max)))

    def as_column(self, values: np.ndarray) -> np.ndarray:
        """Return 2F unchanged, and 2 ln of the mean of exp(F) as log10 B_tS/G."""
        return np.asarray(log10_bayes(0.5 * values, self.windows.rho_max)) if self.bayes else values

    def template_bytes(self, layout: Layout, n_detectors: int, orbit: bool) -> int:
        """Return the device memory per template, bytes: each detector's interpolated series, the sums with copies, all
        values."""
        n_samples = layout.n_blocks * layout.block
        nodes = nodes_per_template(layout, n_detectors, orbit)
        return n_samples * (8 * n_detectors + 8 * COMPLEX) + nodes * NODE_BYTES + 6 * FLOAT32 * layout.n_frequencies

    def filter_bytes(self, layout: Layout, n_detectors: int) -> int:
        """Return the memory of the sums over slices at the frequencies that are computed at a time."""
        return _most_bytes(default_device())

    def ready(self, data: FstatData) -> TransientBand:
        """Return the data with the windows, which the methods below take."""
        return transient_band(data, self.windows, _most_bytes(device_of(data)))

    def bins(
        self, data: TransientBand, points: Doppler, n_valid: Any, first_bin: Any, bands: LineBands | None
    ) -> jax.Array:
        """Return the bins that count for each template; see `Reduction.bins`."""
        return counted_bins(data.data, points, n_valid, first_bin, bands)

    def values(self, data: TransientBand, points: Doppler, bins: jax.Array, same_source: bool) -> jax.Array:
        """Return values at the frequencies of the band, (B, n_frequencies) float32; -inf where none counts."""
        kind = Kind(self.windows.shape, self.windows.end, self.bayes)
        one = resampled(data.data, first_without_spin_down(points)) if same_source else None

        def of(point: Doppler) -> jax.Array:
            series: Resampled = resampled(data.data, point) if one is None else spun_down(data.data, point, one)
            return band_values(data, point, jnp.stack([x.reshape(-1) for x in series]), kind)

        values = jax.lax.map(of, jax.tree.map(jnp.asarray, points))
        return where_counted(values, bins)

    def columns(self, task: Task, found: Doppler, peaks: Peaks, details: Details) -> dict[str, np.ndarray]:
        """Return parameters, what was found, and the map of each candidate from its own atoms."""
        columns = parameter_values(found)
        columns[self.loudness({"ranking": self.ranking})] = self.as_column(peaks.twoF.astype(np.float64))
        names = ("twoF", *TRANSIENT_COLUMNS)
        maps = np.full((len(found.alpha), len(names)), np.nan)
        for row, own in transient_values(task.data, found, self.windows):
            maps[row] = own
        own = dict(zip(names, maps.T.copy(), strict=True))
        columns |= {name: own[name] for name in (*TRANSIENT_COLUMNS, "twoF")}
        if details.wanted:
            kept = kept_columns(task.data, found, details.with_amplitudes)
            columns |= detail_columns(kept, task.data.detectors, columns["twoF"], details)
        return columns

    def compute(self, data: FstatData, found: Doppler) -> object:
        """Compute the maps of some candidates."""
        return list(transient_values(data, found, self.windows))

    def expected_in_noise(self, task: Task, n_values: float) -> float:
        """Return an upper bound on the mean number of values above the threshold in noise, as if windows were
        independent."""
        n_windows = self.windows.t0.size * self.windows.tau.size
        return min(super().expected_in_noise(task, n_values) * n_windows, n_values)

    def meta(self, task: Task, division: Division) -> Meta:
        """Return the range of windows, the ranking, and the threshold as the user gave it."""
        least = task.toplist.threshold
        own = None if least is None else float(self.as_column(np.array(least)))
        return {"transient": transient_meta(self.windows), "threshold": own, "ranking": self.ranking}

    @classmethod
    def loudness(cls, meta: Meta) -> str:
        """Return ``log10BtSG_band`` or ``max_twoF_band``, by the ranking."""
        return "log10BtSG_band" if meta["ranking"] == "BtSG" else "max_twoF_band"

    @classmethod
    def sorted_by(cls, meta: Meta) -> str:
        """Return the column computed from each candidate's own atoms."""
        return "log10BtSG" if meta["ranking"] == "BtSG" else "max_twoF"

    @classmethod
    def false_alarm(cls, columns: dict[str, np.ndarray], meta: Meta) -> float | None:
        """Return an upper bound on the false-alarm probability, as if windows were independent; None for log10
        B_tS/G."""
        if meta["ranking"] == "BtSG":
            return None
        number = meta["n_twoF"] * meta["transient"]["n_windows"]
        return float(false_alarm(columns[cls.loudness(meta)].max(), number))


def _most_bytes(device: Device) -> int:
    """Return the memory for the sums over slices at the frequencies that are computed at a time."""
    free = free_bytes(device)
    return CPU_BYTES if free is None else int(min(MOST_BYTES, SHARE * free))
