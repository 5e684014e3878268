"""Define every column of tables in one place: unit, digits, whether it goes stale, and what it holds.

A new column is described by one more line of `COLUMNS`; docs/columns.md is written from here by ``python
docs/columns.py``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from jfstat.signal.parameters import unit as parameter_unit

FULL, STATISTIC, AMPLITUDE = ".16g", ".4f", ".6g"
"""Formats in which values are printed: with all digits, for 2F and similar statistics, and for estimated amplitudes."""
PLACEHOLDERS = {"<k>": "[1-9][0-9]?", "<detector>": ".+", "<name>": ".+", "<field>": r"\b(?!_).*"}
PLACEHOLDERS |= {"<polarisation>": "(plus|cross|x|y|breathing)"}
"""Regular expressions for the parts of a family's name that differ from column to column."""


@dataclass(frozen=True)
class Column:
    """A column of tables, or a family of columns such as 2F of each detector.

    Parameters
    ----------
    name : str
        Name in tables; the name of a family contains one of `PLACEHOLDERS`.
    about : str
        Description of the values, in a sentence.
    unit : str
        Unit in astropy's spelling, "" for none.
    digits : str
        Format in which values are printed.
    stale : bool
        Whether the values depend on template and data, and are out of date as soon as either changes.
    double : bool
        Whether the values need more than the 7 digits of float32: a phase has 1e9 cycles, and GPS times 1e9 s.
    """

    name: str
    about: str
    unit: str = ""
    digits: str = FULL
    stale: bool = True
    double: bool = False

    @property
    def is_family(self) -> bool:
        """Whether the name stands for several columns."""
        return "<" in self.name

    def matches(self, name: str) -> bool:
        """Return whether a column of a given name is this column or belongs to this family."""
        if not self.is_family:
            return name == self.name
        pattern = re.sub("<[a-z]+>", lambda found: PLACEHOLDERS[found[0]], self.name.replace(".", r"\."))
        return re.fullmatch(pattern, name) is not None

    def text(self, value: float) -> str:
        """Return a value as it is printed, with its unit; for a Quantity its number is printed."""
        return f"{float(getattr(value, 'value', value)):{self.digits}} {self.unit}".rstrip()


def _parameter(name: str, about: str, digits: str = FULL, stale: bool = False, double: bool = False) -> Column:
    """Return the column of a signal's parameter, in the parameter's unit."""
    return Column(name, about, parameter_unit(name), digits, stale, double)


COLUMNS = {
    "Templates": (
        _parameter("freq", "Frequency in the solar-system barycentre at `meta['reftime']`.", double=True),
        Column("f<k>dot", "k-th time derivative of the frequency at `meta['reftime']`.", "Hz / s<k>", stale=False),
        _parameter("alpha", "Right ascension (ICRS)."),
        _parameter("delta", "Declination (ICRS)."),
        _parameter("pmra", "Proper motion in right ascension, times cos(delta)."),
        _parameter("pmdec", "Proper motion in declination."),
        _parameter("asini", "Projected semi-major axis of the orbit in light-seconds; 0 for isolated sources."),
        _parameter("period", "Orbital period.", double=True),
        _parameter("tp", "GPS time of periapsis in the solar-system barycentre.", double=True),
        _parameter("ecc", "Orbital eccentricity."),
        _parameter("argp", "Argument of periapsis."),
        Column("<name>_error", "Standard deviation of a parameter, in its unit; NaN where unknown.", digits=AMPLITUDE),
        Column("model<field>", "A parameter of the user's `PhaseModel`, such as `model.df`.", stale=False),
        Column("name", "Name of the source.", stale=False),
        Column("template", "Index of the template in the bank.", stale=False),
        Column("search", "Index of the search that the row is from, in tables of `join_searches`.", stale=False),
    ),
    "Statistics, of all tables": (
        Column("twoF", "2F, the F-statistic of all detectors together.", digits=STATISTIC),
        Column("twoF_<detector>", "2F of one detector alone.", digits=STATISTIC),
        Column("twoF<detector>", "2F of one detector alone in files of PyFstat.", digits=STATISTIC),
        Column("mean_twoF", "Mean of 2F over segments.", digits=STATISTIC),
        Column("mean_twoF_interpolated", "Mean of 2F read from coarse lattices of templates.", digits=STATISTIC),
        Column("mean_twoF_<detector>", "Mean of one detector's 2F over segments with its data.", digits=STATISTIC),
        Column("log10BSGL", "log10 of the odds of a signal against noise or a line in one detector.", digits=STATISTIC),
        Column("log10BSGLtL", "The same odds, also against a line in a single segment.", digits=STATISTIC),
        _parameter(
            "h0",
            "Maximum-likelihood estimate of the strain amplitude, in tables of `pulsar_posteriors` too.",
            AMPLITUDE,
            stale=True,
        ),
        _parameter("cosi", "Estimated cosine of the inclination.", AMPLITUDE, stale=True),
        _parameter("psi", "Estimated polarisation angle.", AMPLITUDE, stale=True),
        _parameter("phi0", "Estimated initial phase at `meta['reftime']`.", AMPLITUDE, stale=True),
        Column("critical_ratio", "Excess of power along a track, in standard deviations of noise.", digits=STATISTIC),
        Column("critical_ratio_<detector>", "Critical ratio of one detector alone.", digits=STATISTIC),
        Column("power", "Normalised power of SFTs along a track; 1 on average in noise.", digits=AMPLITUDE),
        Column("deviation", "Standard deviation of `power` in noise.", digits=AMPLITUDE),
        Column("false_alarm", "Probability that Gaussian noise is as loud in the row's own trials: see what makes it."),
        Column("n_twoF", "Number of values of 2F from which the row was chosen."),
    ),
    "`pulsar_posteriors`": (
        Column(
            "timing_mismatch",
            "Fraction of rho^2 that errors of the timing solution lose on average at its template; 0 without errors.",
            stale=False,
        ),
        Column("log_bstat", "Natural logarithm of the Bayes factor of a signal; up to a constant if h0 has no prior."),
        Column("h0_limit", "Upper limit of h0 with the credibility `meta['credibility']`.", digits=AMPLITUDE),
        Column(
            "h0_low",
            "Lower end of the equal-tailed interval of h0; above 0 in noise too.",
            digits=AMPLITUDE,
        ),
        Column("h0_high", "Upper end of this interval.", digits=AMPLITUDE),
        Column("twoF_21", "2F at the rotation frequency, for signals with two harmonics.", digits=STATISTIC),
        Column("c21_limit", "Upper limit of C21, the amplitude at the rotation frequency.", digits=AMPLITUDE),
        Column("c21_low", "Lower end of the equal-tailed interval of C21.", digits=AMPLITUDE),
        Column("c21_high", "Upper end of this interval.", digits=AMPLITUDE),
        Column("c22_limit", "Upper limit of C22, half of h0, beside C21.", digits=AMPLITUDE),
        Column("c22_low", "Lower end of the equal-tailed interval of C22.", digits=AMPLITUDE),
        Column("c22_high", "Upper end of this interval.", digits=AMPLITUDE),
        Column("distance", "Distance by which strains become ellipticities; NaN if unknown.", "kpc", stale=False),
        Column("ellipticity_limit", "Upper limit of the ellipticity; NaN without a distance.", digits=AMPLITUDE),
        Column(
            "h0_spin_down",
            "Spin-down limit of h0, without the part of proper motion; or NaN.",
            digits=AMPLITUDE,
        ),
        Column("spin_down_ratio", "Upper limit of h0 over the spin-down limit.", digits=AMPLITUDE),
    ),
    "`polarisation_table`": (
        Column("twoF_of_tensor", "Maximised statistic of plus and cross: 2F.", digits=STATISTIC),
        Column("twoF_of_vector", "Maximised statistic of the vector polarisations x and y.", digits=STATISTIC),
        Column("twoF_of_scalar", "Maximised statistic of the scalar polarisation.", digits=STATISTIC),
        Column("log_bstat_of_tensor", "Natural logarithm of the Bayes factor of a tensor signal against noise."),
        Column("log_bstat_of_vector", "Natural logarithm of the Bayes factor of a vector signal against noise."),
        Column("log_bstat_of_scalar", "Natural logarithm of the Bayes factor of a scalar signal against noise."),
        Column("h_<polarisation>", "Size of the amplitude of plus, cross, x, y or breathing.", digits=AMPLITUDE),
        Column("phase_<polarisation>", "Its phase at `meta['reftime']`.", "rad", digits=AMPLITUDE),
    ),
    "`search`": (
        Column("n_members", "Number of candidates in the cluster that the row leads.", stale=False),
        Column("outside", "Whether a parameter lies outside the range that was asked for.", stale=False),
        Column("line", "Known lines that the candidate crosses."),
    ),
    "`search` for transient signals, `fstat_table(transient=)`": (
        Column("max_twoF", "Largest 2F of all windows.", digits=STATISTIC),
        Column("max_twoF_band", "Largest 2F of all windows at the frequencies of the band.", digits=STATISTIC),
        _parameter("t0", "GPS time at which the window of largest 2F begins.", stale=True, double=True),
        _parameter("tau", "Time scale of the window of largest 2F.", stale=True),
        Column("log10BtSG", "log10 of the odds of a transient signal against Gaussian noise."),
        Column("log10BtSG_band", "The odds `log10BtSG` at the frequencies of the band."),
        Column("t0_MP", "Start time with the largest marginal posterior.", "s"),
        Column("tau_MP", "Time scale with the largest marginal posterior.", "s"),
    ),
    "`search` for paths, `track`": (
        Column("log_likelihood", "Log-likelihood of the best path with its transitions.", digits=STATISTIC),
        Column("score", "Viterbi score of the best path.", digits=STATISTIC),
        Column("freq_start", "Frequency of the path in the first segment at `meta['reftime']`.", "Hz"),
        Column("gps", "GPS time of the middle of a segment.", "s", stale=False),
        Column("freq_at_gps", "Frequency of the path in the source's frame at `gps`.", "Hz", stale=False),
    ),
    "`background`, `empirical_false_alarm`, `empirical_thresholds`": (
        Column("position", "Number of the position at which the background was measured.", stale=False),
        Column("rotation", "Angle by which the bank was turned about `meta['axis']`.", "rad", stale=False),
        Column("fmin", "Lower end of a sub-band.", "Hz", stale=False, double=True),
        Column("fmax", "Upper end of a sub-band.", "Hz", stale=False, double=True),
        Column(
            "threshold",
            "Value that noise exceeds in a search with the probability `meta['false_alarm']`.",
            digits=STATISTIC,
        ),
        Column(
            "threshold_error", "Standard deviation of the threshold that belongs to this probability.", digits=STATISTIC
        ),
        Column(
            "empirical_false_alarm",
            "Probability that noise anywhere in the search is as loud, by the measured background.",
            digits=".3g",
        ),
        Column("empirical_false_alarm_low", "Lower end of its 90 % interval.", digits=".3g"),
        Column("empirical_false_alarm_high", "Upper end of its 90 % interval.", digits=".3g"),
        Column("background", "How: a Gumbel distribution of `common` or `own` scale, or the `rank` among the maxima."),
    ),
    "`refine`": (
        Column("start_twoF", "2F at the candidate.", digits=STATISTIC),
        Column("start_mean_twoF", "Mean of 2F over segments at the candidate.", digits=STATISTIC),
        Column("start_mismatch", "Fraction of a signal's rho^2 at the peak that the candidate loses.", stale=False),
        Column(
            "noise_chance",
            "Upper bound on the probability that Gaussian noise reaches this 2F in any template and frequency of the "
            "search and of the refinement; in tables of `follow_up` it counts all stages so far.",
            stale=False,
        ),
        Column("peak_probability", "Probability that a signal lies on this peak of those seen.", stale=False),
        Column("moved", "Distance from the start in whitened coordinates.", stale=False),
        Column("steps", "Number of gradients and Hessians, or steps of an optimiser.", stale=False),
        Column("converged", "Whether a climb ended at a maximum.", stale=False),
        Column("message", "A sentence on how the candidate ended.", stale=False),
        Column("covariance", "Covariance of `meta['parameters']`, in the units of their columns.", stale=False),
        Column("n_merged", "Number of candidates that ended on this peak.", stale=False),
    ),
    "`follow_up`": (
        Column("candidate", "Row of the candidate in the table that was followed up.", stale=False),
        Column("stage", "Number of the stage, from 0."),
        Column("n_segments", "Number of segments that hold data."),
        Column("expected_mean_twoF", "Mean of 2F of a signal, as expected by the stage before.", digits=STATISTIC),
        Column("expected_low", "Mean of 2F below which a signal falls with the probability `meta['veto']`."),
        Column("expected_high", "Mean of 2F above which a signal rises with the probability `meta['veto']`."),
        Column("signal_chance", "Probability that 2F of a signal grows as little as this."),
        Column("passed", "Whether the candidate passed the stage."),
    ),
    "`line_veto`": (
        Column("dm_off_twoF", "Largest 2F without Doppler modulation.", digits=STATISTIC),
        Column("line_veto", "Detectors louder alone than all together, and `DM-off`; empty for signals."),
    ),
    "`hardware_injections`, `check_hardware_injections`": (
        Column(
            "reftime", "GPS time in the solar-system barycentre at which the row holds.", "s", stale=False, double=True
        ),
        Column("expected_twoF", "2F that the injected signal has on average, 4 + rho^2.", digits=STATISTIC),
        Column("expected_twoF_error", "Standard deviation of 2F of the injected signal.", digits=STATISTIC),
        Column("h0_injected", "Amplitude h0 that was injected.", digits=AMPLITUDE, stale=False),
        Column("h0_<detector>", "Amplitude in one detector, with the injected orientation.", digits=AMPLITUDE),
        Column("phase_difference", "Phase that was found, less the injected one.", "rad", AMPLITUDE),
        Column("phase_difference_error", "Standard deviation of `phase_difference` in noise.", "rad", AMPLITUDE),
        Column("phase_difference_<detector>", "The same difference in one detector alone.", "rad", AMPLITUDE),
        Column("pull_twoF", "2F less the expected one, in standard deviations.", digits=STATISTIC),
        Column("pull_h0", "h0 less the injected one, in standard deviations.", digits=STATISTIC),
        Column("pull_phase", "`phase_difference` in standard deviations.", digits=STATISTIC),
        Column("agrees", "Whether amplitude and phase are the injected ones, within `meta['tolerance']` and noise."),
    ),
    "`search_pulsars`, also with a `PulsarBand`": (
        Column("phase_error", "Phase of the timing solution that the template leaves out, at most.", "cycle"),
        Column("start", "GPS time at which the row's data begin.", "s"),
        Column("end", "GPS time at which the row's data end.", "s"),
        Column("ephemeris", "Name of the ephemeris that was used for the row."),
    ),
}
"""All columns, grouped by what makes them; the first family that matches a name counts."""
ALL = tuple(column for group in COLUMNS.values() for column in group)
SINGLE = {column.name: column for column in ALL if not column.is_family}
FAMILIES = tuple(column for column in ALL if column.is_family)


def known_column(name: str) -> Column | None:
    """Return the schema's entry for a column, or its family's under the column's own name; None for a user's own
    column."""
    if name in SINGLE:
        return SINGLE[name]
    family = next((line for line in FAMILIES if line.matches(name)), None)
    # f<k>dot and <name>_error have units of their own
    return None if family is None else replace(family, name=name, unit=parameter_unit(name) or family.unit)


def column_of(name: str) -> Column:
    """Return the description of a column; a user's own has no unit, is printed in full, and never goes stale."""
    return known_column(name) or Column(name, "A column of the user's own.", stale=False)
