"""`jfstat track-power`: SFT files searched for power along the tracks of templates, with no phase followed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jfstat
from jfstat.commandline.background import Background, add_background, background_of
from jfstat.commandline.band import Source, add_band, planned, positive_band, reference_of, say_noise
from jfstat.commandline.banks import spin_ranges, templates_of
from jfstat.commandline.spellings import (
    EPHEMERIS,
    NOISE,
    add,
    check_veto,
    data_files,
    ephemeris,
    frequency_step,
    kept,
    known_lines,
    noise,
)
from jfstat.commandline.words import count, number
from jfstat.commandline.work import TABLES, Division, add_work, check_outputs, division_of, write_all

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments, Work

MARGIN_BINS = 4
"""Bins of SFTs that are read beyond the tracks on either side, besides those that give the power."""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "track-power",
        help="search SFT files for power along tracks, for signals of unknown binaries",
        description="Search SFT files for signals of which too little is known to follow their phase, such as those of "
        "unknown binaries: the power of each SFT in the bin that a template's frequency passes, summed over all SFTs "
        "with their noise floors and antenna patterns. Lattices are laid by the metric of these tracks. Candidates go "
        "on to jfstat follow-up. Options are named as those of jfstat search.",
    )
    _, bank = add_band(
        parser,
        (*NOISE, *EPHEMERIS),
        help="spacing of the frequencies, Hz: a bin's width 1/Tsft, the default, divided by a whole number",
    )
    bank.add_argument(
        "--bins",
        type=count,
        metavar="N",
        default=1,
        help="bins that give the power at a frequency: 1, the nearest, keeps 77 %% of a signal's power on average; 2, "
        "4 or more, an even number up to 16, keep 90 %%, 95 %% and more (default 1)",
    )
    out = parser.add_argument_group("output")
    add(out, "outputFstat", help="candidates: .ecsv or .hdf5")
    add(
        out,
        "NumCandidatesToKeep",
        help="keep at most this many, the loudest (default 1000, or all above --criticalRatioThreshold; 0: all above "
        "it)",
    )
    out.add_argument(
        "--criticalRatioThreshold",
        type=number,
        metavar="R",
        help="keep only templates whose power exceeds its mean in noise by at least this many standard deviations",
    )
    add(out, "linefiles", "vetoLines")
    add(out, "noDetails", help="leave out the critical ratio of each detector alone")
    add_background(parser.add_argument_group("the background, measured"))
    add_work(parser.add_argument_group("the work and its division"), engines=False)
    parser.set_defaults(plan=plan)


class Tracks(Source):
    """What is to be normalised; `how` are the other keywords of `jfstat.normalise`."""

    def normalised(self) -> tuple[jfstat.NormalisedSFTs, jfstat.Doppler]:
        """Return the data and the bank."""
        templates, guard = self.templates, (MARGIN_BINS + self.how["bins"]) / self.files.times.tsft
        sfts = self.read(self.low, self.high, guard, templates.extremes, templates.fdots)
        data = self._of(sfts)
        bank = templates.bank(data, self.reftime)
        if templates.mismatch is None:
            return data, bank
        # a lattice extends beyond its ranges
        wider = self.read(self.low, self.high, guard, bank.orbit, spin_ranges(bank), sfts)
        return data if wider is sfts else self._of(wider), bank

    def _of(self, sfts: jfstat.SFTs) -> jfstat.NormalisedSFTs:
        """Return the normalised SFTs."""
        return jfstat.normalise(sfts, self.low, self.high, **self.how)


def plan(arguments: Arguments) -> Work:
    """Return the search that the options ask for."""
    if arguments.outputFstat is not None and not arguments.outputFstat.endswith(TABLES):
        raise ValueError("--outputFstat must end with .ecsv or .hdf5: the text format is for 2F.")
    check_veto(arguments)
    chosen = kept(arguments, "criticalRatioThreshold")
    division = division_of(arguments)
    low, high = positive_band(arguments)
    templates = templates_of(arguments)
    how: dict[str, Any] = dict(dfreq=frequency_step(arguments), bins=arguments.bins, sqrt_sx=noise(arguments))
    how["ephemeris"] = ephemeris(arguments) or "DE405"
    tracks = Tracks(data_files(arguments), low, high, templates, reference_of(arguments, templates), how)
    lines, bounds = known_lines(arguments.linefiles), templates.bounds or None
    keep = jfstat.Keep(lines=lines, veto_lines=arguments.vetoLines, bounds=bounds)
    measured = background_of(arguments)
    check_outputs((arguments.outputFstat, arguments.outputBackground), division.together)
    wanted: Any = dict(keep=keep, details=jfstat.Details(not arguments.noDetails), run=division.run)
    return partial(_run, division, tracks, chosen, wanted, arguments.outputFstat, measured)


def _run(
    division: Division,
    tracks: Tracks,
    chosen: tuple[int | None, float | None],
    wanted: dict[str, Any],
    path: str | None,
    measured: Background | None,
) -> None:
    """Normalise and search; write the table and print the loudest candidate."""
    data, bank = tracks.normalised()
    say_noise(division, data, data.observation)
    if measured is not None:
        measured.check_room(data, bank)
    plan = jfstat.plan_search(data, bank, jfstat.TrackPower(), *chosen, division.checkpoint, **wanted)
    done = planned(division, plan, None)
    if done is None or not division.is_first:
        return
    found, seconds = done
    if measured is not None:
        found = measured.judged(division, found, (data, bank, plan.statistic), wanted["keep"])
    found.meta["noise"] = tracks.how["sqrt_sx"].words
    said = write_all((path, partial(jfstat.write_candidates, found), f"{len(found)} candidates"))
    print(f"{found.meta['n_twoF']} values of power for {found.meta['n_templates']} template(s) in {seconds:.1f} s")
    print("\n".join([jfstat.summary(found), *said]))
