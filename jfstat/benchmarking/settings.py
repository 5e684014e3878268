"""Name the settings that the benchmark times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Setting:
    """Data and kind of templates of one measurement.

    Attributes
    ----------
    name : str
    days : float
        Length of the data, d.
    bandwidth : float
        Searched band, Hz.
    frequency : float
        Lower edge of the band, Hz.
    detectors : tuple of str
        Prefixes.
    one_position : bool
        Whether the templates of a batch share their sky position and differ in f1dot only.
    """

    name: str
    days: float
    bandwidth: float = 0.606
    frequency: float = 100.0
    detectors: tuple[str, ...] = ("H1",)
    one_position: bool = False

    def __post_init__(self):
        for what, value, unit in (("days", self.days, "d"), ("bandwidth", self.bandwidth, "Hz"),
                                  ("frequency", self.frequency, "Hz")):  # fmt: skip
            if not (value > 0 and np.isfinite(value)):
                raise ValueError(f"--{what} must be positive, not {value:g}: give it in {unit}.")


ROWS = {
    row.name: row
    for row in (
        Setting("1d", 1),
        Setting("5d", 5),
        Setting("10d", 10),
        Setting("10d-narrow", 10, bandwidth=0.1),
        Setting("10d-wide", 10, bandwidth=5.0),
        Setting("100d", 100),
        Setting("100d-two", 100, bandwidth=1.0, frequency=437.0, detectors=("H1", "L1")),
        Setting("10d-spindown", 10, one_position=True),
    )
}
"""Settings by name; lengths and bandwidths follow the paper and its pilot search."""
CPU_ROWS = ("1d", "5d", "10d")
"""Settings timed on a CPU by default."""
