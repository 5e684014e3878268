"""`jfstat search` at one template: its narrow data straight from the SFTs, without a wide series."""

from __future__ import annotations

import argparse

import jax
import numpy as np

from jfstat.commandline.banks import Templates
from jfstat.commandline.inputs import detectors_to_read
from jfstat.commandline.options import ephemeris, noise
from jfstat.data.narrowdata import NarrowData
from jfstat.data.narrowsfts import narrow_sfts
from jfstat.data.observation import reference_time, unweighted
from jfstat.data.plan import Search, guard_loss
from jfstat.data.targets import MovesTooFast
from jfstat.searching.driver.work import stacked_bank
from jfstat.sfts.reading import SFTFiles, find_sfts
from jfstat.signal.times import TimeLike
from jfstat.signal.values import with_fields

WIDE_SERIES = (
    *(
        "dFreq",
        "RngMedWindow",
        "vetoLines",
        "countTemplates",
        "checkpoint",
        "unit",
        "batchSize",
        "engine",
    ),
    *("devices", "distributed", "coordinator", "numProcesses", "processId"),
)
"""Options that go with a search of a series."""


def template_data(
    arguments: argparse.Namespace, given: list[str], templates: Templates, reftime: TimeLike | None
) -> tuple[NarrowData, str] | None:
    """Narrow data around the only template that the options ask for, and a line that describes them.

    None if they ask for more or other things, or the files hold less than a wide series needs, which then says why.

    Parameters
    ----------
    arguments : Namespace
        Of `jfstat search`.
    given : list of str
        Names of the options that differ from their defaults.
    templates : Templates
    reftime : optional
        Reference time, GPS s.

    Raises
    ------
    OSError, ValueError
        If the files cannot be read, or an argument is out of range.
    """
    freq, guard = arguments.Freq, arguments.guard
    if arguments.FreqBand or not templates.single or not guard >= 0 or any(name in WIDE_SERIES for name in given):
        return None
    try:
        parts = find_sfts(
            arguments.DataFiles,
            detectors_to_read(arguments),
            arguments.minStartTime,
            arguments.maxStartTime,
            check_crc=True,
        )
    except ValueError:  # files may have a band in common around the template alone
        return None
    times = parts.times
    reference = reference_time(reftime, times.start)
    since = float(reference.since(times.start))
    band = Search(freq, freq, guard, templates.extremes, templates.fdots, None).pass_band(
        -since, times.end - times.start - since
    )
    room = _room(parts, band)
    if room < 0:
        return None
    floor = noise(arguments)
    floor.floors(times.detectors)
    observation = unweighted(times, reference, ephemeris(arguments))
    stack = stacked_bank(templates.bank(observation))
    point = jax.tree.map(lambda x: x[0], stack)
    point = with_fields(point, fkdot=np.array([freq, *point.fkdot[1:]]))
    try:
        data = narrow_sfts(parts, [point], observation, floor, guard)[0]
    except MovesTooFast:
        return None
    found = min(guard, room)
    span = f"GPS {times.start} to {times.start + float(np.asarray(observation.tspan)):.0f}"
    return data, (
        f"NarrowData({', '.join(data.detectors)}; {span}; {freq:.6f} Hz; {observation.ephemeris}; reftime "
        f"{data.reftime}; guard {found:.3g} Hz, expected loss of rho^2 {guard_loss(found, times.tsft):.1e})"
    )


def _room(parts: SFTFiles, band: tuple[float, float]) -> float:
    """How far the SFTs extend beyond a band on the smaller side, Hz; negative if they do not hold it."""
    tsft = parts.times.tsft
    return min(band[0] - parts.first_bin / tsft, parts.last_bin / tsft - band[1])
