"""Plots of search results and data on matplotlib axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from numpy.typing import ArrayLike

    from jfstat.candidates.tables import AnyTable
    from jfstat.data.observation import Observation
    from jfstat.data.psd import Spectrogram
    from jfstat.statistic.atoms import Atoms
    from jfstat.statistic.transients import TransientMap
    from jfstat.tracking.track import Track

BLUE, ORANGE, GREY, GREEN = "#1f4e79", "#d95f02", "0.55", "#1b7837"
SQRT_S, TWO_F = "$\\sqrt{S}$ (1/$\\sqrt{\\mathrm{Hz}}$)", "$2\\mathcal{F}$"
_LABELS = {"twoF": TWO_F, "mean_twoF": f"mean {TWO_F}"}
_MARKS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "injected": (
        dict(marker="o", mfc="none", mec="white", ms=13, mew=3.2, alpha=0.9),
        dict(marker="o", mfc="none", mec=ORANGE, ms=13, mew=1.6),
    ),
    "found": (dict(marker="+", color="white", ms=13, mew=4.0), dict(marker="+", color="k", ms=11, mew=1.6)),
    "refined": (dict(marker="x", color="white", ms=10, mew=4.0), dict(marker="x", color=BLUE, ms=8, mew=2.0)),
}
"""Marks on the sky: what is drawn behind, to set them off, and before."""
RADIUS_95 = np.sqrt(-2 * np.log(0.05))
"""Radius of the circle that holds 95 % of a normal distribution in two dimensions with unit variance."""


def plot_noise(ax: Axes, observation: Observation) -> Axes:
    """Draw the noise floor of each SFT over time.

    Parameters
    ----------
    ax : Axes
    observation : Observation
        Observation of the data, ``data.observation``.

    Returns
    -------
    Axes
    """
    for name, start, floor in zip(
        observation.detectors, np.asarray(observation.start), observation.sqrt_sx, strict=True
    ):
        ax.plot(start / 86400, floor, ".", ms=3, label=name)
    ax.set_xlabel(f"days since GPS {int(observation.epoch)}")
    ax.set_ylabel(SQRT_S)
    ax.set_yscale("log")
    ax.legend()
    return ax


def plot_psd(ax: Axes, table: AnyTable) -> Axes:
    """Draw the amplitude spectral densities of each detector and of all detectors together.

    Parameters
    ----------
    ax : Axes
    table : QTable
        Table from `jfstat.psd`.

    Returns
    -------
    Axes
    """
    names = table.meta["detectors"]
    for name in names:
        ax.plot(*_thinned(_plain(table["freq"]), _plain(table[f"sqrt_sx_{name}"])), lw=0.7, label=name)
    if len(names) > 1:
        together = _plain(table["sqrt_sx"])
        ax.plot(
            *_thinned(_plain(table["freq"]), together),
            color="k",
            lw=0.7,
            label=f"together ({table.meta['over_detectors']})",
        )
    ax.set_yscale("log")
    ax.set_xlabel("frequency (Hz)")
    ax.set_ylabel(SQRT_S)
    _plain_numbers(ax)
    ax.legend(loc="best", fontsize="small")
    return ax


def plot_spectrogram(ax: Axes, spectrogram: Spectrogram) -> Axes:
    """Draw the noise floor of one detector over time and frequency; gaps stay white.

    Parameters
    ----------
    ax : Axes
    spectrogram : Spectrogram
        One of the spectrograms from `jfstat.spectrogram`.

    Returns
    -------
    Axes
    """
    from matplotlib.colors import LogNorm

    start, tsft, f = spectrogram.gps[0], spectrogram.tsft, spectrogram.frequencies
    # a row for each SFT, and one without values for each gap
    gaps = np.flatnonzero(np.diff(spectrogram.gps) > 1.5 * tsft)
    starts = np.insert(spectrogram.gps - start, gaps + 1, spectrogram.gps[gaps] - start + tsft)
    rows = np.insert(np.sqrt(spectrogram.psd), gaps + 1, np.nan, axis=0)
    edges = np.append(starts, starts[-1] + tsft) / 86400
    step = 1 / tsft
    mesh = ax.pcolormesh(edges, np.append(f, f[-1] + step) - 0.5 * step, rows.T, norm=LogNorm(), rasterized=True)
    ax.set_xlabel(f"days since GPS {start:.0f}")
    ax.set_ylabel("frequency (Hz)")
    ax.ticklabel_format(axis="y", useOffset=False)
    ax.set_title(spectrogram.detector)
    _colour_bar(ax, mesh, SQRT_S)
    return ax


def plot_cumulative(ax: Axes, atoms: Atoms, *, per_detector: bool = True) -> Axes:
    """Draw 2F of the data up to each time, with the growth expected of a persistent signal.

    The curve of a persistent signal follows the expected growth apart from noise; curves that level off or jump come
    from something else. The expected growth is `Atoms.expected_twoF`: it accounts for the data's gaps, noise and
    antenna patterns, and ends at the final 2F.

    Parameters
    ----------
    ax : Axes
    atoms : Atoms
        Result of `jfstat.atoms`.
    per_detector : bool
        Whether to draw each detector separately too.

    Returns
    -------
    Axes
    """
    days = np.asarray(atoms.end - atoms.start[0]) / 86400
    ax.plot(days, np.asarray(atoms.cumulative_twoF), color="k", lw=1.4, label="all detectors")
    ax.plot(days, np.asarray(atoms.expected_twoF), color="k", lw=1.0, ls="--", label="expected")
    if per_detector and len(atoms.detectors) > 1:
        each = np.asarray(atoms.cumulative_twoF_per_detector)
        expected = np.asarray(atoms.expected_twoF_per_detector)
        for name, own, growth in zip(atoms.detectors, each, expected, strict=True):
            (line,) = ax.plot(days, own, lw=1.0, label=name)
            ax.plot(days, growth, lw=0.8, ls="--", color=line.get_color())
    ax.set_xlim(0, days[-1])
    ax.set_ylim(bottom=0)
    ax.set_xlabel(f"days since GPS {float(atoms.gps[0]):.0f}")
    ax.set_ylabel("cumulative $2\\mathcal{F}$")
    ax.legend(loc="upper left", frameon=False, fontsize="small")
    return ax


def plot_track(ax: Axes, track: Track, *, twoF: ArrayLike | None = None, frequencies: ArrayLike | None = None) -> Axes:
    """Draw the path of a wandering signal, over 2F of each segment and frequency if that is given.

    Parameters
    ----------
    ax : Axes
    track : Track
        Result of `jfstat.track`.
    twoF : (K, N) array_like, optional
        Result of `jfstat.twoF_by_segment` at the same template. Frequencies far from the path are not drawn.
    frequencies : (N,) array_like, optional
        ``segments.frequencies``, with `twoF`.

    Returns
    -------
    Axes
    """
    gps, path = np.asarray(track.gps), np.asarray(track.frequencies)
    days = (gps - gps[0]) / 86400
    if twoF is not None and frequencies is not None:
        f, values = np.asarray(frequencies), np.asarray(twoF)
        step = f[1] - f[0] if len(f) > 1 else 1.0
        margin = max(1.5 * np.ptp(path), 20 * step)
        near = (f > path.min() - margin) & (f < path.max() + margin)
        middles = 0.5 * (days[1:] + days[:-1])
        ends = (1.5 * days[0] - 0.5 * days[1], 1.5 * days[-1] - 0.5 * days[-2]) if len(days) > 1 else (-0.5, 0.5)
        edges = np.concatenate([ends[:1], middles, ends[1:]])
        own = f[near]
        mesh = ax.pcolormesh(
            edges, np.append(own, own[-1] + step) - 0.5 * step, values[:, near].T, cmap="Greys", rasterized=True
        )
        _colour_bar(ax, mesh, TWO_F)
    ax.plot(days, path, "o-", color=ORANGE, ms=4, lw=1.2, mfc="none", label="best path")
    ax.set_xlabel(f"days since GPS {gps[0]:.0f}")
    ax.set_ylabel("frequency (Hz)")
    ax.ticklabel_format(axis="y", useOffset=False)
    ax.legend(loc="best", fontsize="small")
    return ax


def plot_band(
    ax: Axes,
    frequencies: ArrayLike,
    twoF: ArrayLike,
    *,
    found: float | None = None,
    injected: float | None = None,
    expected: float | None = None,
) -> Axes:
    """Draw 2F over frequency.

    Parameters
    ----------
    ax : Axes
    frequencies : (n,) array
        Hz.
    twoF : (n,) array
        Values of 2F at the frequencies, such as from `twoF_band`.
    found : float, optional
        Frequency of a candidate to mark with a circle, Hz.
    injected : float, optional
        Frequency of a signal to mark with a line, Hz.
    expected : float, optional
        Expected 2F of the signal.

    Returns
    -------
    Axes
    """
    frequencies, twoF = np.asarray(frequencies), np.asarray(twoF)
    # a line through 1e5 noise peaks takes long to draw; the extremes of runs of bins look the same
    ax.plot(*_thinned(frequencies, twoF), color=BLUE, lw=0.7)
    if found is not None:
        height = float(twoF[np.argmin(np.abs(frequencies - found))])
        ax.plot(found, height, "o", mfc="none", mec="k", ms=9, label=f"found: {found:.6f} Hz, {height:.1f}")
    if injected is not None:
        ax.axvline(injected, color=ORANGE, lw=1.0, ls="--", zorder=0, label=f"injected: {injected:.6f} Hz")
    if expected is not None:
        ax.axhline(expected, color=GREY, lw=0.9, ls=":", zorder=0, label=f"expected 2F: {expected:.1f}")
    ax.set_xlim(frequencies[0], frequencies[-1])
    ax.set_ylim(0, 1.35 * max(float(twoF.max()), expected or 0.0))
    ax.set_xlabel("frequency in the SSB (Hz)")
    ax.set_ylabel(TWO_F)
    _plain_numbers(ax)
    if not (found is None and injected is None and expected is None):
        ax.legend(loc="upper right", frameon=False, fontsize="small")
    return ax


def plot_peak(
    ax: Axes, frequencies: ArrayLike, twoF: ArrayLike, *, found: float, curve: tuple[ArrayLike, ArrayLike] | None = None
) -> Axes:
    """Draw 2F close to a peak, over the offset from its frequency.

    Parameters
    ----------
    ax : Axes
    frequencies : (n,) array
        Bins around the peak, Hz.
    twoF : (n,) array
    found : float
        Frequency that offsets refer to, Hz.
    curve : pair of (m,) arrays, optional
        Frequencies in Hz and 2F of a finer curve to draw through the bins.

    Returns
    -------
    Axes
    """
    micro = 1e6
    if curve is not None:
        ax.plot(micro * (np.asarray(curve[0]) - found), curve[1], color=GREY, lw=1.0, label="direct sum")
    offsets = micro * (np.asarray(frequencies) - found)
    ax.plot(offsets, twoF, "o", color=BLUE, ms=4, label="searched bins")
    ax.set_xlim(offsets[0], offsets[-1])
    ax.set_ylim(bottom=0)
    ax.set_xlabel(f"frequency $-$ {found:.6f} Hz (µHz)")
    ax.set_ylabel(TWO_F)
    ax.legend(loc="upper right", frameon=False, fontsize="small")
    return ax


def plot_sky(
    ax: Axes,
    alpha: ArrayLike,
    delta: ArrayLike,
    twoF: ArrayLike,
    *,
    marks: Mapping[str, tuple[float, float]] | None = None,
    covariance: ArrayLike | None = None,
    label: str = TWO_F,
) -> Axes:
    """Draw 2F over a rectangular patch of sky, right ascension growing to the left as on the sky.

    Parameters
    ----------
    ax : Axes
    alpha : (n,) array
        Right ascensions, rad, evenly spaced.
    delta : (m,) array
        Declinations, rad, evenly spaced.
    twoF : (n, m) array
    marks : mapping of str to (alpha, delta), optional
        Positions to mark, rad, by ``"injected"``, ``"found"`` and ``"refined"``.
    covariance : (2, 2) array, optional
        Covariance of the refined alpha and delta, rad^2, for an ellipse that holds 95 % of the probability.
    label : str
        Label of the colour bar.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If a mark has another name.
    """
    marks = marks or {}
    for name in marks:
        if name not in _MARKS:
            raise ValueError(f"marks has {name!r}, which is not one of {', '.join(_MARKS)}.")
    mesh = ax.pcolormesh(alpha, delta, np.asarray(twoF).T, cmap="magma", shading="nearest", rasterized=True)
    for name, (behind, before) in _MARKS.items():
        if name in marks:
            with_ellipse = name == "refined" and covariance is not None
            ax.plot(*marks[name], ls="", **behind)
            ax.plot(*marks[name], ls="", **before, label=name + (", 95 %" if with_ellipse else ""))
    if "refined" in marks and covariance is not None:
        root = np.linalg.cholesky(RADIUS_95**2 * np.asarray(covariance))
        ellipse = np.asarray(marks["refined"]) + _circle() @ root.T
        ax.plot(*ellipse.T, color="white", lw=3.2)
        ax.plot(*ellipse.T, color=BLUE, lw=1.6)
    ax.set_xlim(*_ends(alpha))
    ax.set_ylim(*_ends(delta))
    ax.invert_xaxis()
    ax.set_xlabel("right ascension (rad)")
    ax.set_ylabel("declination (rad)")
    _colour_bar(ax, mesh, label)
    if marks:
        ax.legend(loc="lower left", fontsize="small", facecolor="white", framealpha=0.9)
    return ax


def plot_search(ax: Axes, table: AnyTable, *, x: str = "freq", y: str | None = None) -> Axes:
    """Draw the candidates of a search: 2F over a parameter, or over two by colour, as a sky map.

    Parameters
    ----------
    ax : Axes
    table : QTable
        Table from `jfstat.search`, `jfstat.fstat_table` or `jfstat.read_candidates`.
    x, y : str
        Columns of the axes, in the columns' units. Without y the vertical axis is 2F; ``x="alpha", y="delta"`` gives a
        map of the sky.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If the table lacks a column.
    """
    statistic = _statistic(table)
    for name in (x, y):
        if name is not None and name not in table.colnames:
            raise ValueError(f"the table has no column {name!r}: choose from {', '.join(table.colnames)}.")
    values, order = _plain(table[statistic]), np.argsort(_plain(table[statistic]))  # the loudest on top
    if y is None:
        ax.plot(_plain(table[x]), values, ".", color=BLUE, ms=4)
        ax.set_ylabel(_LABELS[statistic])
    else:
        points = ax.scatter(_plain(table[x])[order], _plain(table[y])[order], c=values[order], s=12, cmap="viridis")
        ax.set_ylabel(_label(table, y))
        if x == "alpha":
            ax.invert_xaxis()  # east to the left, as on the sky
        _colour_bar(ax, points, _LABELS[statistic])
    ax.set_xlabel(_label(table, x))
    _plain_numbers(ax)
    return ax


def plot_limits(ax: Axes, table: AnyTable, *, psd: AnyTable | None = None) -> Axes:
    """Draw upper limits of known pulsars over frequency, with the spin-down limits and the detectors' sensitivity.

    Parameters
    ----------
    ax : Axes
    table : QTable
        ``table`` of `jfstat.pulsar_posteriors`.
    psd : QTable, optional
        Table from `jfstat.psd` of the same SFTs, for the limit that is expected on average where there is no signal,
        10.8 sqrt(S/T) with a credibility of 95 % (Dupuis & Woan 2005, Phys. Rev. D 72, 102002).

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If the table has no limits.
    """
    if "h0_limit" not in table.colnames:
        raise ValueError("the table has no column h0_limit: give the table of jfstat.pulsar_posteriors.")
    freq, limit, spin_down = (_plain(table[name]) for name in ("freq", "h0_limit", "h0_spin_down"))
    if psd is not None:
        seconds = float(np.mean(table.meta["n_sfts"])) * float(table.meta["tsft"])
        x, y = _thinned(_plain(psd["freq"]), _plain(psd["sqrt_sx"]))
        ax.plot(x, 10.8 * y / np.sqrt(seconds), color=GREY, lw=0.7, label="expected limit")
    ax.plot(freq, limit, "*", color=BLUE, ms=9, label=f"limit, {100 * float(table.meta['credibility']):g} %")
    known = np.isfinite(spin_down)
    if np.any(known):
        ax.plot(freq[known], spin_down[known], "v", mfc="none", mec=ORANGE, ms=7, label="spin-down limit")
        beaten = known & (limit < spin_down)
        ax.vlines(freq[beaten], limit[beaten], spin_down[beaten], color=ORANGE, lw=0.8)
    ax.set_yscale("log")
    ax.set_xlabel("frequency (Hz)")
    ax.set_ylabel("strain amplitude $h_0$")
    _plain_numbers(ax)
    ax.legend(frameon=False, fontsize="small")
    return ax


def plot_loudest(ax: Axes, table: AnyTable) -> Axes:
    """Draw the loudest 2F of each sub-band of a search, with its threshold if it had one.

    Parameters
    ----------
    ax : Axes
    table : QTable
        Table from `jfstat.search`, with its meta. The maxima of sub-bands include all computed values, kept or not.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If the table's meta has no sub-bands.
    """
    loudest = table.meta.get("loudest_per_subband")
    if not loudest:
        raise ValueError("the table's meta has no loudest_per_subband: give the table of jfstat.search.")
    start, end, value = (np.asarray(loudest[name]) for name in ("start", "stop", "twoF"))
    ax.hlines(value, start, end, color=BLUE, lw=2.0, label="loudest of the sub-band")
    if table.meta.get("threshold") is not None:
        ax.axhline(float(table.meta["threshold"]), color=GREY, ls=":", label="threshold")
    ax.set_xlim(start.min(), end.max())
    ax.set_ylim(0, 1.25 * float(value.max()))
    ax.set_xlabel("frequency (Hz)")
    ax.set_ylabel("loudest " + _LABELS[_statistic(table)])
    _plain_numbers(ax)
    ax.legend(frameon=False, fontsize="small", loc="upper right")
    return ax


def plot_background(
    ax: Axes, background: AnyTable, found: AnyTable | None = None, *, false_alarm: float = 0.01
) -> Axes:
    """Draw the loudest value of each sub-band at each position of a background, with thresholds, and candidates.

    Parameters
    ----------
    ax : Axes
    background : QTable
        Table from `jfstat.background`.
    found : QTable, optional
        Candidates of the search whose background it is.
    false_alarm : float
        Probability that noise exceeds the threshold of any sub-band. Infinite thresholds are not drawn.

    Returns
    -------
    Axes
    """
    from jfstat.searching.empirical import empirical_thresholds  # searches and all that they import

    thresholds: Any = empirical_thresholds(background, false_alarm)
    column, low, high = thresholds.meta["column"], _plain(thresholds["fmin"]), _plain(thresholds["fmax"])
    middle = 0.5 * (_plain(background["fmin"]) + _plain(background["fmax"]))
    ax.plot(middle, _plain(background[column]), ".", color=GREY, ms=3, label="loudest at other positions")
    finite = np.isfinite(_plain(thresholds["threshold"]))
    label = f"threshold, false alarm {100 * false_alarm:g} %"
    ax.hlines(_plain(thresholds["threshold"])[finite], low[finite], high[finite], color=BLUE, lw=1.6, label=label)
    if found is not None:
        ax.plot(_plain(found["freq"]), _plain(found[column]), "+", color=ORANGE, ms=7, label="candidates")
    ax.set_xlim(low.min(), high.max())
    ax.set_xlabel("frequency (Hz)")
    ax.set_ylabel(f"loudest {_LABELS.get(column, column)}")
    _plain_numbers(ax)
    ax.legend(frameon=False, fontsize="small", loc="upper left")
    return ax


def plot_transient_map(ax: Axes, result: TransientMap, *, injected: tuple[float, float] | None = None) -> Axes:
    """Draw 2F over the start times and time scales of transient signals.

    Parameters
    ----------
    ax : Axes
    result : TransientMap
        Result of `jfstat.transient_map`.
    injected : (t0, tau), optional
        Start time, GPS s, and time scale, s, to mark.

    Returns
    -------
    Axes
    """
    t0, tau, twoF = (np.asarray(x) for x in (result.t0, result.tau, result.twoF))
    days = (t0 - t0[0]) / 86400
    mesh = ax.pcolormesh(days, tau / 86400, twoF.T, cmap="magma", shading="nearest", rasterized=True)
    i, j = np.unravel_index(np.nanargmax(twoF), twoF.shape)
    ax.plot(days[i], tau[j] / 86400, "+", color="white", ms=13, mew=2.0, label=f"largest: {twoF[i, j]:.1f}")
    if injected is not None:
        ax.plot(
            (injected[0] - t0[0]) / 86400, injected[1] / 86400, "o", mfc="none", mec=ORANGE, ms=12, label="injected"
        )
    ax.set_xlabel(f"start, days since GPS {t0[0]:.0f}")
    ax.set_ylabel("time scale (d)")
    _colour_bar(ax, mesh, TWO_F)
    ax.legend(loc="upper right", fontsize="small", facecolor="white", framealpha=0.9)
    return ax


def plot_coverage(ax: Axes, observation: Observation) -> Axes:
    """Draw when each detector has data: a bar for each SFT, darker the more it weighs.

    Parameters
    ----------
    ax : Axes
    observation : Observation
        Observation from `jfstat.observation`, or of data, ``data.observation``; without segments.

    Returns
    -------
    Axes
    """
    start, weight = np.asarray(observation.start), np.asarray(observation.weight)
    length = float(np.max(np.asarray(observation.tsft))) / 86400
    most = float(weight.max())
    for k in range(len(observation.detectors)):
        there = weight[k] > 0
        bars = [(float(x), length) for x in start[k][there] / 86400]
        shades = 0.25 + 0.75 * weight[k][there] / most
        ax.broken_barh(bars, (k - 0.35, 0.7), facecolors=[(0.12, 0.31, 0.47, float(a)) for a in shades])
    ax.set_yticks(range(len(observation.detectors)), list(observation.detectors))
    ax.set_xlabel(f"days since GPS {int(observation.epoch)}")
    return ax


def plot_corner(
    axes: ArrayLike, samples: Mapping[str, ArrayLike], *, injected: Mapping[str, float] | None = None, bins: int = 40
) -> ArrayLike:
    """Draw the distributions of posterior samples: of each parameter, and of each pair of parameters.

    Parameters
    ----------
    axes : (p, p) array of Axes
        Axes, such as from ``figure.subplots(p, p)``.
    samples : mapping of str to (n,) array
        Samples of p parameters by name, which are the labels; a name like "freq (Hz)" may have the unit in it.
    injected : mapping of str to float, optional
        Values to mark with lines, for any of the names.
    bins : int
        Number of bins of the histograms.

    Returns
    -------
    (p, p) array of Axes

    Raises
    ------
    ValueError
        If there are not p x p axes for p parameters.
    """
    names, grid = list(samples), np.atleast_2d(np.asarray(axes))
    if grid.shape != (len(names), len(names)):
        raise ValueError(f"axes have the shape {grid.shape}, but {len(names)} parameters need figure.subplots(p, p).")
    values = {name: np.asarray(_plain(samples[name])) for name in names}
    centres = {name: float(np.median(x)) for name, x in values.items()}
    # offsets in powers of ten, since axes have no room for numbers like 100.051219
    scales = {name: 10.0 ** np.floor(np.log10(np.std(x) or 1.0)) for name, x in values.items()}
    offsets = {name: (x - centres[name]) / scales[name] for name, x in values.items()}
    known = {name: (x - centres[name]) / scales[name] for name, x in (injected or {}).items()}
    labels = {name: f"{name}\n$-$ {centres[name]:.9g}, / {scales[name]:.0e}" for name in names}
    for i, row in enumerate(names):
        for j, column in enumerate(names):
            ax: Any = grid[i, j]
            if j > i:
                ax.set_visible(False)
                continue
            x = offsets[column]
            if i == j:
                ax.hist(x, bins=bins, color=BLUE, histtype="stepfilled", alpha=0.8)
                ax.set_yticks([])
            else:
                ax.hist2d(x, offsets[row], bins=bins, cmap="Blues", rasterized=True)
                if row in known:
                    ax.axhline(known[row], color=ORANGE, lw=1.2)
            if column in known:
                ax.axvline(known[column], color=ORANGE, lw=1.2)
            if i == len(names) - 1:
                ax.set_xlabel(labels[column], fontsize="small")
            if j == 0 and i > 0:
                ax.set_ylabel(labels[row], fontsize="small")
            ax.tick_params(labelsize="x-small")
    return grid


def plot_ladder(ax: Axes, table: AnyTable, *, expected: float | None = None) -> Axes:
    """Draw how 2F of candidates grows from stage to stage: a signal keeps its rho^2, and noise loses it.

    rho^2 is estimated by the sum of 2F over segments minus 4 for each segment. Candidates that passed all their stages
    are coloured, with bars for the range expected of a signal given the previous stage.

    Parameters
    ----------
    ax : Axes
    table : QTable
        Table from `jfstat.follow_up`.
    expected : float, optional
        rho^2 of a known signal, to mark with a line.

    Returns
    -------
    Axes
    """
    candidate, stage, n = (_plain(table[name]) for name in ("candidate", "stage", "n_segments"))
    height = n * (_plain(table["mean_twoF"]) - 4)
    low, high = (n * (_plain(table[name]) - 4) for name in ("expected_low", "expected_high"))
    passed = _plain(table["passed"]).astype(bool)
    numbers = {int(k): int(n[stage == k][0]) for k in np.unique(stage)}
    coloured = 0
    for i in np.unique(candidate):
        own = np.flatnonzero(candidate == i)
        own = own[np.argsort(stage[own])]
        if passed[own].all() and len(own) == len(numbers):
            line = ax.plot(stage[own], height[own], "o-", color=f"C{coloured}", zorder=3, label=f"candidate {i}")[0]
            later = own[1:]
            middle, half = 0.5 * (low + high)[later], 0.5 * (high - low)[later]
            shift = stage[later] + 0.03 * (coloured + 1)
            ax.errorbar(shift, middle, half, fmt="none", ecolor=line.get_color(), alpha=0.6, capsize=4)
            coloured += 1
        else:
            first = ax.get_legend_handles_labels()[1].count("rejected") == 0
            ax.plot(stage[own], height[own], ".-", color=GREY, lw=0.8, label="rejected" if first else None)
    if expected is not None:
        ax.axhline(expected, color=ORANGE, ls="--", lw=1.0, zorder=0, label=f"signal's $\\rho^2$: {expected:.0f}")
    ax.set_xticks(list(numbers), [str(number) for number in numbers.values()])
    ax.set_xlabel("segments")
    ax.set_ylabel("sum of $2\\mathcal{F}$ minus 4 a segment")
    ax.legend(frameon=False, fontsize="small")
    return ax


def _colour_bar(ax: Axes, mesh: ScalarMappable, label: str) -> None:
    """Draw the colour bar of a mesh or of points beside the axes."""
    figure = ax.get_figure()
    if figure is not None:
        figure.colorbar(mesh, ax=ax, label=label, pad=0.02)


def _plain_numbers(ax: Axes) -> None:
    """Write frequencies in full along the x axis, few enough that their many digits do not overlap."""
    ax.locator_params(axis="x", nbins=4)
    ax.ticklabel_format(axis="x", useOffset=False)


def _statistic(table: AnyTable) -> str:
    """Return the name of the column of 2F, or of its mean over segments."""
    for name in _LABELS:
        if name in table.colnames:
            return name
    raise ValueError("the table has neither a column twoF nor mean_twoF: give one of jfstat.search.")


def _label(table: AnyTable, name: str) -> str:
    """Return a column's name and unit."""
    unit = getattr(table[name], "unit", None)
    return f"{name} ({unit})" if unit is not None and str(unit) else name


def _circle(points: int = 200) -> np.ndarray:
    """Return points of the unit circle, (points, 2)."""
    angle = np.linspace(0, 2 * np.pi, points)
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def _ends(x: ArrayLike) -> tuple[float, float]:
    """Return the edges of evenly spaced cells with centres x."""
    x = np.sort(np.asarray(x))
    half = 0.5 * (x[1] - x[0]) if len(x) > 1 else 0.5
    return float(x[0] - half), float(x[-1] + half)


def _plain(column: ArrayLike) -> np.ndarray:
    """Return a column without its unit."""
    return np.asarray(getattr(column, "value", column))


def _thinned(x: np.ndarray, y: np.ndarray, pixels: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and the largest value of each of some thousand runs of samples."""
    run = len(y) // pixels
    if run < 3:
        return x, y
    n = len(y) // run
    rows = y[: n * run].reshape(n, run)
    picks = np.sort(np.stack([rows.argmin(axis=1), rows.argmax(axis=1)], axis=1), axis=1) + run * np.arange(n)[:, None]
    picks = np.append(picks.reshape(-1), np.arange(n * run, len(y)))
    return x[picks], y[picks]
