"""A band of SFT files prepared for a bank of templates, and searched by a plan that says what it costs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jfstat
from jfstat.commandline.banks import TEMPLATES, Templates, spin_ranges, templates_of
from jfstat.commandline.spellings import (
    DATA,
    PREPARATION,
    SEGMENTS,
    OptionGroup,
    add,
    band_edges,
    data_files,
    frequency_step,
    preparation,
    read_band,
    segments,
)

if TYPE_CHECKING:
    import argparse

    from jfstat.commandline.arguments import Arguments
    from jfstat.commandline.work import Division


@dataclass(frozen=True, eq=False)
class Source:
    """Files, a band and templates.

    Attributes
    ----------
    files : jfstat.SFTFiles
    low, high : float
        Hz.
    templates : Templates
    reftime : time or None
    how : dict
        Keywords of what makes data of the SFTs, sqrt_sx and ephemeris among them.
    """

    files: jfstat.SFTFiles
    low: float
    high: float
    templates: Templates
    reftime: Any
    how: dict[str, Any]

    def read(self, low: float, high: float, guard: float, orbit: Any, fdots: Any, known: Any = None) -> jfstat.SFTs:
        """Read the SFTs of a band, unless those at hand suffice."""
        around: Any = dict(orbit=orbit, fdots=fdots, reftime=self.reftime, known=known)
        return read_band(self.files, low, high, guard, noise_bins=self.how["sqrt_sx"].reach, **around)


@dataclass(frozen=True, eq=False)
class Band(Source):
    """What is to be prepared; `how` are other keywords of `jfstat.prepare`: sqrt_sx, ephemeris, guard.

    Attributes
    ----------
    segments : as for `jfstat.prepare`
    dfreq : float or None
    """

    segments: Any
    dfreq: float | None

    def prepared(self, statistic: Any = None) -> tuple[jfstat.FstatData, jfstat.Doppler]:
        """Return the data and the bank, for a statistic that may need more of the band."""
        low, high, templates = self.low, self.high, self.templates
        bank, orbit, fdots = None, templates.extremes, templates.fdots
        sfts = self.read(low, high, self.how["guard"], orbit, fdots)
        if templates.mismatch is not None:
            # the lattice first: it extends beyond its ranges by up to a cell, and the band must be prepared for that
            times: Any = {name: self.how[name] for name in ("sqrt_sx", "ephemeris")}
            times |= dict(reftime=self.reftime, fmin=low, fmax=high)
            seen = (
                jfstat.observation(sfts, **times)
                if self.segments is None
                else jfstat.segment_observations(sfts, self.segments, **times)
            )
            bank = templates.bank(seen)
            orbit, fdots = bank.orbit, spin_ranges(bank)
            margin = 0.0 if statistic is None else statistic.margin(seen, bank, high)
            low, high = low - margin, high + margin
            if orbit is not None or margin:
                sfts = self.read(low, high, self.how["guard"], orbit, fdots, sfts)
        more: Any = dict(orbit=orbit, fdots=fdots, dfreq=self.dfreq, segments=self.segments)
        data = jfstat.prepare(sfts, low, high, self.reftime, **self.how, **more)
        return data, templates.bank(data) if bank is None else bank


def add_band(
    parser: argparse.ArgumentParser, others: Sequence[str] = (*PREPARATION, *SEGMENTS), **step: Any
) -> tuple[OptionGroup, OptionGroup]:
    """Add the options of data, with some for their preparation, of band and templates; the two groups are returned.

    `step` changes the option ``--dFreq``, as `add` does.
    """
    data = parser.add_argument_group("data")
    add(data, "DataFiles", required=True)
    add(data, *DATA[1:], *others)
    bank = parser.add_argument_group("templates: each parameter from its value to value + band, which may be negative")
    add(bank, "Freq", required=True)
    add(bank, "FreqBand")
    add(bank, "dFreq", **step)
    add(bank, "refTime", *TEMPLATES)
    return data, bank


def band_of(arguments: Arguments) -> Band:
    """Return what the options of `add_band` ask for; only headers are read.

    Raises
    ------
    OSError, ValueError
        If a file cannot be read, or options are out of range or contradict each other.
    """
    low, high = positive_band(arguments)
    parts, templates = segments(arguments), templates_of(arguments)
    how, reftime = preparation(arguments), reference_of(arguments, templates)
    return Band(data_files(arguments), low, high, templates, reftime, how, parts, frequency_step(arguments))


def reference_of(arguments: Arguments, templates: Templates) -> Any:
    """Return the reference time of the templates, by their table or ``--refTime``; None for the data's."""
    own = None if templates.table is None else templates.table.reftime
    return arguments.refTime if own is None else own.common


def positive_band(arguments: Arguments) -> tuple[float, float]:
    """Return the lowest and highest frequency that ``--Freq`` and ``--FreqBand`` ask for, Hz."""
    low, high = band_edges(arguments.Freq, arguments.FreqBand)
    if not low > 0:
        raise ValueError(f"--Freq must be positive, and the band too, not {low:g}: give frequencies in Hz.")
    return low, high


def say_noise(division: Division, text: object, observed: Any) -> None:
    """Describe the data and their noise floors."""
    division.say(text)
    floors = zip(observed.detectors, observed.mean_sqrt_sx, strict=True)
    division.say("noise floor " + ", ".join(f"{name} {floor:.3g}" for name, floor in floors) + " /sqrt(Hz)")


def planned(division: Division, plan: jfstat.SearchPlan, n_segments: int | None) -> tuple[Any, float] | None:
    """Say what a search costs, and run it unless that is all that is asked for; the table, and how many s it took."""
    if plan.lines is not None:
        division.say(f"{len(plan.lines)} known line(s) in the band and its Doppler shifts")
    if plan.n_coherent is not None:
        ratio = plan.n_templates * (n_segments or 1) / plan.n_coherent
        division.say(
            f"{plan.n_coherent} template(s) of the segments; the bank has {ratio:.1f} times as many as a segment"
        )
    parts = "" if plan.n_parts == 1 else f", the band in {plan.n_parts} parts"
    division.say(f"{plan.n_templates} template(s), {plan.n_values:.3e} values of {plan.statistic.computed}")
    division.say(f"needs {plan.device_bytes / 1e9:.2f} GB of memory, {plan.batch_size} template(s) at a time{parts}")
    if division.count_only:
        import jax

        seconds = plan.seconds()
        kind = jax.devices()[0].device_kind
        division.say(f"would take {seconds:.3g} s ({seconds / 3600:.3g} h) on one {kind} device")
        return None
    began = time.perf_counter()
    return plan.run(), time.perf_counter() - began
