"""`jfstat demo`: a signal is simulated, written to files, searched for, found, refined and drawn."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import jfstat
from jfstat.commandline.spellings import add

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments, Work

START, DAYS, TSFT, SQRT_SX = 1167458304, 2, 1800, 4e-24
GAPS = {"H1": ((0.45, 0.70), (1.55, 1.65)), "L1": ((0.20, 0.30), (1.00, 1.35))}
"""Days without data, from the start."""
F_LOW, F_HIGH = 100.0, 100.12
F0, F1DOT, ALPHA, DELTA = 100.0512345, -3.1e-11, 2.115, 0.473
EARTH_SPEED = 1.03e-4
"""More than any detector's speed relative to the barycentre, in units of the speed of light."""
AMPLITUDE = {"h0": 2.2e-25, "cosi": 0.35, "psi": 0.4, "phi0": 1.0}
ALPHA_RANGE, DELTA_RANGE, F1DOT_RANGE = (1.86, 2.34, 0.06), (0.18, 0.74, 0.08), (-1e-10, 0.0)
"""Steps in the sky with which two days of data at 100 Hz lose a few per cent of rho^2 half-way between templates."""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "demo",
        help="simulate a signal in noise, search for it, refine it and show it",
        description="Simulate two days of H1 and L1 with gaps and a signal, write SFT files, read them back, search a "
        "patch of sky, spin-down and frequency, refine the loudest candidate, compare what was found and refined with "
        "what was injected, and draw it. Takes about a minute.",
    )
    parser.add_argument(
        "--outdir",
        type=Path,
        default=Path("jfstat-demo"),
        metavar="DIR",
        help="where to write SFT files, candidates and the picture (default jfstat-demo)",
    )
    add(parser, "randSeed")
    parser.set_defaults(plan=plan)


def plan(arguments: Arguments) -> Work:
    """Return the demonstration."""
    return partial(_run, arguments.outdir, arguments.randSeed)


def _run(outdir: Path, seed: int) -> None:
    """Simulate, write, read, search, refine, and print injected, found and refined side by side."""
    began = time.perf_counter()
    injected = jfstat.Doppler(ALPHA, DELTA, [F0, F1DOT], reftime=START)
    amplitude = jfstat.Amplitude(**AMPLITUDE)

    print(f"simulate {DAYS} days of H1 and L1 with gaps, noise of {SQRT_SX:g} /sqrt(Hz) and a signal")
    margin = 1.0 + EARTH_SPEED * F_HIGH
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"],
        fmin=F_LOW - margin,
        fmax=F_HIGH + margin,
        tsft=TSFT,
        sqrt_sx=SQRT_SX,
        signals=[(injected, amplitude)],
        timestamps=_timestamps(),
        seed=seed,
    )
    files = jfstat.write_sfts(sfts, outdir / "sfts")
    print(f"wrote    {', '.join(path.name for path in files)}")
    sfts = jfstat.read_sfts([str(path) for path in files])
    data = jfstat.prepare(sfts, F_LOW, F_HIGH, reftime=START)
    print(f"read     {data}")
    bank = jfstat.template_bank(ALPHA_RANGE, DELTA_RANGE, F1DOT_RANGE, data=data)
    found: Any = jfstat.search(data, bank, top=1000, progress=True)
    print(f"searched {found.meta['n_templates']} templates: {found.meta['n_twoF']:.3g} values of 2F")

    best = jfstat.Doppler(found["alpha"][0], found["delta"][0], [found["freq"][0], found["f1dot"][0]], reftime=START)
    began_refining = time.perf_counter()
    with ThreadPoolExecutor(1) as beside:  # both mostly compile, each on one core
        picture = beside.submit(_picture, sfts, data, best)
        refined: Any = jfstat.refine(data, found[:1], progress=False)
        spent = time.perf_counter() - began_refining
    print(f"refined  the loudest: {refined['message'][0]} ({spent:.0f} s, mostly compiling)")

    expected = float(jfstat.predict_twoF(data, injected, amplitude))
    print()
    _print_comparison(data, found, refined, amplitude, expected)
    print()
    print(f"wrote    {jfstat.write_candidates(found, outdir / 'candidates.ecsv')}: the loudest {len(found)}")
    print(f"wrote    {jfstat.write_candidates(refined, outdir / 'refined.ecsv')}")
    print(f"wrote    {_draw(data, best, picture.result(), refined, expected, outdir / 'demo.png')}")
    print(f"all in   {time.perf_counter() - began:.0f} s")


def _timestamps() -> dict[str, np.ndarray]:
    """Start times of the jfstat.SFTs outside the gaps, GPS s, by detector."""
    times = START + TSFT * np.arange(DAYS * 86400 // TSFT)
    kept = {}
    for detector, gaps in GAPS.items():
        day = (times - START) / 86400
        kept[detector] = times[~np.any([(day > low) & (day < high) for low, high in gaps], axis=0)]
    return kept


def _print_comparison(
    data: jfstat.FstatData, found: Any, refined: Any, amplitude: jfstat.Amplitude, expected: float
) -> None:
    """Print injected, found and refined parameters, with the grid's steps and the refined ones' errors."""
    tspan = float(data.tspan)
    print(
        f"{'':8s}{'unit':8s}{'injected':>15s}{'found':>15s}{'grid step':>11s}{'refined':>15s}{'error':>11s}{'pull':>7s}"
    )
    lines = [
        ("freq", "Hz", F0, ".7f", 0.5 / tspan),
        ("f1dot", "Hz/s", F1DOT, ".3e", 0.5 / tspan**2),
        ("alpha", "rad", ALPHA, ".4f", ALPHA_RANGE[2]),
        ("delta", "rad", DELTA, ".4f", DELTA_RANGE[2]),
        ("h0", "strain", float(amplitude.h0), ".3e", None),
        ("cosi", "1", float(amplitude.cosi), ".3f", None),
        ("psi", "rad", float(amplitude.psi), ".3f", None),
    ]
    for name, unit, true, digits, step in lines:
        before, after, error = (
            float(getattr(row, "value", row)) for row in (found[name][0], refined[name][0], refined[f"{name}_error"][0])
        )
        grid = "" if step is None else f"{step:.1e}"
        print(
            f"{name:8s}{unit:8s}{true:15{digits}}{before:15{digits}}{grid:>11s}{after:15{digits}}{error:11.1e}"
            f"{(after - true) / error:+7.1f}"
        )
    before, after = float(found["twoF"][0]), float(refined["twoF"][0])
    sigma = np.sqrt(8 + 4 * (expected - 4))
    pull = (after - expected) / sigma
    print(f"{'2F':8s}{'1':8s}{expected:15.2f}{before:15.2f}{'':11s}{after:15.2f}{sigma:11.1f}{pull:+7.1f}")
    print(
        "\n"
        "found    is the loudest template of the grid, refined the peak of 2F near it.\n"
        "pull     is (refined - injected) / error: some two thirds of pulls lie between -1 and 1.\n"
        "Frequency, spin-down and sky position compensate for each other. The error of the frequency is therefore\n"
        "some hundred grid steps, and the loudest template may be nearer to the signal by chance. The column\n"
        "covariance of refined.ecsv has the correlations.\n"
        "In the row 2F, injected is the expected value, 4 + rho^2, and error the scatter of 2F in noise. The peak is\n"
        "about 4 higher on average, because refining fits four Doppler parameters to the noise as well."
    )


class _Picture(NamedTuple):
    """What the picture shows of 2F at the loudest template and around it.

    Attributes
    ----------
    values : (n_frequencies,) float32
    near : slice
        The frequencies around the peak.
    fine, curve : (n,) float64, (n,) float32
        Frequencies within these, Hz, and 2F there.
    sky : tuple
        From `_sky_map`.
    """

    values: np.ndarray
    near: slice
    fine: np.ndarray
    curve: np.ndarray
    sky: tuple[np.ndarray, np.ndarray, np.ndarray]


def _picture(sfts: jfstat.SFTs, data: jfstat.FstatData, best: jfstat.Doppler) -> _Picture:
    """Compute what the picture shows, and import matplotlib, which takes as long."""
    import jax
    import matplotlib.figure  # noqa: F401

    values, f = np.asarray(jfstat.twoF_band(data, best)), data.frequencies
    peak = int(np.argmax(np.where(np.abs(f - float(best.fkdot[0])) < 1e-6, values, 0)))
    near = slice(max(0, peak - 12), peak + 13)
    fine = np.linspace(f[near][0], f[near][-1], 241)
    curve = jax.jit(
        jax.vmap(
            lambda d, x: jfstat.twoF(d, jfstat.Doppler(best.alpha, best.delta, [x, best.fkdot[1]], best.reftime)),
            (None, 0),
        )
    )(data, fine)
    return _Picture(values, near, fine, np.asarray(curve), _sky_map(sfts, best))


def _draw(
    data: jfstat.FstatData, best: jfstat.Doppler, picture: _Picture, refined: Any, expected: float, path: Path
) -> Path:
    """Draw 2F over the band, close to the peak and over the sky, with the refined position and its error ellipse."""
    from matplotlib.figure import Figure

    f, near = data.frequencies, picture.near
    found = float(best.fkdot[0])
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    axes = figure.subplot_mosaic([["band", "band"], ["peak", "sky"]], height_ratios=[1, 1.25])
    figure.suptitle("jfstat demo: two days of H1 and L1, one signal in noise, found and refined")
    jfstat.plots.plot_band(axes["band"], f, picture.values, found=found, injected=F0, expected=expected)
    axes["band"].set_title("whole band, at the loudest template", fontsize="medium")
    jfstat.plots.plot_peak(
        axes["peak"], f[near], picture.values[near], found=found, curve=(picture.fine, picture.curve)
    )
    axes["peak"].set_title("the peak", fontsize="medium")
    alphas, deltas, sky = picture.sky
    names = list(refined.meta["parameters"])
    at = np.ix_(*2 * [[names.index("alpha"), names.index("delta")]])
    position = float(refined["alpha"][0].value), float(refined["delta"][0].value)
    jfstat.plots.plot_sky(
        axes["sky"],
        alphas,
        deltas,
        sky,
        marks={"injected": (ALPHA, DELTA), "found": (float(best.alpha), float(best.delta)), "refined": position},
        covariance=np.asarray(refined["covariance"][0])[at],
    )
    axes["sky"].set_title("the patch of sky, largest over frequency and spin-down", fontsize="medium")
    figure.savefig(path, dpi=130)
    return path


def _sky_map(sfts: jfstat.SFTs, best: jfstat.Doppler) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """2F over the searched sky at half the steps, its largest value over spin-down and a narrow band.

    Returns
    -------
    alphas : (n,) float64 ndarray
        rad.
    deltas : (m,) float64 ndarray
        rad.
    twoF : (n, m) float32 ndarray
    """
    import jax

    finer = [(low, high, step / 2) for low, high, step in (ALPHA_RANGE, DELTA_RANGE)]
    sky = jfstat.template_bank(*finer)
    alphas, deltas = np.unique(sky.alpha), np.unique(sky.delta)
    # a band just wide enough for the frequency shifts of wrong positions costs a fraction of the whole band
    half = EARTH_SPEED * F0 * max(ALPHA_RANGE[1] - ALPHA_RANGE[0], DELTA_RANGE[1] - DELTA_RANGE[0]) / 2
    f = float(best.fkdot[0])
    data = jfstat.prepare(sfts, f - half, f + half, reftime=best.reftime)
    bank = jfstat.template_bank(list(alphas), list(deltas), F1DOT_RANGE, data=data)

    loudest = np.asarray(
        jax.jit(jax.vmap(lambda data, point: jfstat.twoF_band(data, point).max(), (None, 0)))(data, bank)
    )
    return alphas, deltas, loudest.reshape(len(alphas), len(deltas), -1).max(axis=2)
