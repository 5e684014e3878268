"""`jfstat demo`: a signal is simulated, written to files, searched for and found, and drawn."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.banks.ranges import axis, natural_step
from jfstat.banks.template_bank import template_bank
from jfstat.candidates.files import write_candidates
from jfstat.candidates.tables import AnyTable
from jfstat.data.fstatdata import FstatData
from jfstat.data.prepare import prepare
from jfstat.geometry.doppler import EARTH_SPEED
from jfstat.searching.search import search
from jfstat.sfts.container import SFTs
from jfstat.sfts.reading import read_sfts
from jfstat.sfts.writing import write_sfts
from jfstat.simulate.simulate import simulate_sfts
from jfstat.statistic.fstat import AmplitudeEstimate, estimate_amplitude, predict_twoF, twoF, twoF_band
from jfstat.templates import Amplitude, Doppler

if TYPE_CHECKING:
    from jfstat.commandline.options import Subparsers

START, DAYS, TSFT, SQRT_SX = 1167458304, 2, 1800, 4e-24
GAPS = {"H1": ((0.45, 0.70), (1.55, 1.65)), "L1": ((0.20, 0.30), (1.00, 1.35))}
"""Days without data, from the start."""
F_LOW, F_HIGH = 100.0, 100.12
F0, F1DOT, ALPHA, DELTA = 100.0512345, -3.1e-11, 2.115, 0.473
AMPLITUDE = {"h0": 2.2e-25, "cosi": 0.35, "psi": 0.4, "phi0": 1.0}
ALPHA_RANGE, DELTA_RANGE, F1DOT_RANGE = (1.86, 2.34, 0.06), (0.18, 0.74, 0.08), (-1e-10, 0.0)
"""Steps in the sky with which two days of data at 100 Hz lose a few per cent of rho^2 half-way between templates."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "demo",
        help="simulate a signal in noise, search for it and show it",
        description="Simulate two days of H1 and L1 with gaps and a signal, write SFT files, read them back, search a "
        "patch of sky, spin-down and frequency, and compare what is found with what was injected. Takes about half a "
        "minute.",
    )
    parser.add_argument(
        "--outdir",
        type=Path,
        default=Path("jfstat-demo"),
        metavar="DIR",
        help="where to write SFT files, candidates and the picture (default jfstat-demo)",
    )
    parser.add_argument("--randSeed", type=int, default=0, metavar="N", help="seed of the noise, no unit (default 0)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Simulate, write, read, search, and print injected against found."""
    outdir, began = arguments.outdir, time.perf_counter()
    injected = Doppler(ALPHA, DELTA, [F0, F1DOT], reftime=START)
    amplitude = Amplitude(**AMPLITUDE)

    print(f"simulate {DAYS} days of H1 and L1 with gaps, noise of {SQRT_SX:g} /sqrt(Hz) and a signal")
    margin = 1.0 + EARTH_SPEED * F_HIGH
    sfts = simulate_sfts(
        ["H1", "L1"],
        fmin=F_LOW - margin,
        fmax=F_HIGH + margin,
        tsft=TSFT,
        sqrt_sx=SQRT_SX,
        signals=[(injected, amplitude)],
        timestamps=_timestamps(),
        seed=arguments.randSeed,
    )
    files = write_sfts(sfts, outdir / "sfts")
    print(f"wrote    {', '.join(path.name for path in files)}")
    sfts = read_sfts([str(path) for path in files])
    data = prepare(sfts, F_LOW, F_HIGH, reftime=START)
    print(f"read     {data}")
    bank = template_bank(ALPHA_RANGE, DELTA_RANGE, F1DOT_RANGE, data=data)
    found: Any = search(data, bank, top=1000, progress=True)
    print(f"searched {found.meta['n_templates']} templates: {found.meta['n_twoF']:.3g} values of 2F")

    best = Doppler(found["alpha"][0], found["delta"][0], [found["freq"][0], found["f1dot"][0]], reftime=START)
    expected = float(predict_twoF(data, injected, amplitude))
    print()
    _print_comparison(data, found, injected, amplitude, expected, estimate_amplitude(data, best))
    print()
    print(f"wrote    {write_candidates(found, outdir / 'candidates.ecsv')}: the loudest {len(found)}")
    picture = _draw(sfts, data, best, expected, outdir / "demo.png")
    if picture is None:
        print("no picture: matplotlib is not installed; pip install 'jfstat[plot]' gets it")
    else:
        print(f"wrote    {picture}")
    print(f"all in   {time.perf_counter() - began:.0f} s")


def _timestamps() -> dict[str, np.ndarray]:
    """Start times of the SFTs outside the gaps, GPS s, by detector."""
    times = START + TSFT * np.arange(DAYS * 86400 // TSFT)
    kept = {}
    for detector, gaps in GAPS.items():
        day = (times - START) / 86400
        kept[detector] = times[~np.any([(day > low) & (day < high) for low, high in gaps], axis=0)]
    return kept


def _print_comparison(
    data: FstatData,
    found: AnyTable,
    injected: Doppler,
    amplitude: Amplitude,
    expected: float,
    estimate: AmplitudeEstimate,
) -> None:
    """Print injected parameters and those found, with the grid's resolution or the errors of the estimate."""
    sky, tspan = max(ALPHA_RANGE[2] * np.cos(DELTA), DELTA_RANGE[2]), float(data.tspan)
    row = {name: found[name][0] for name in found.colnames}
    print(f"{'':8s}{'unit':8s}{'injected':>16s}{'found':>16s}{'difference':>14s}   grid")
    lines = [
        (
            "freq",
            "Hz",
            F0,
            row["freq"].value,
            ".7f",
            f"step {natural_step(0, tspan):.1e}; a step in the sky moves it by up to {EARTH_SPEED * F0 * sky:.1e}",
        ),
        ("f1dot", "Hz/s", F1DOT, row["f1dot"].value, ".3e", f"step {natural_step(1, tspan):.1e}"),
        ("alpha", "rad", ALPHA, row["alpha"].value, ".4f", f"step {ALPHA_RANGE[2]}"),
        ("delta", "rad", DELTA, row["delta"].value, ".4f", f"step {DELTA_RANGE[2]}"),
    ]
    for name, unit, true, value, digits, note in lines:
        print(f"{name:8s}{unit:8s}{true:16{digits}}{value:16{digits}}{value - true:+14.1e}   {note}")
    print()
    print(f"{'':8s}{'unit':8s}{'injected':>16s}{'found':>16s}{'difference':>14s}   one sigma")
    sigma = np.sqrt(8 + 4 * (expected - 4))
    print(
        f"{'2F':8s}{'1':8s}{expected:16.2f}{row['twoF']:16.2f}{row['twoF'] - expected:+14.1f}   {sigma:.1f}"
        "  (injected: expected 2F = 4 + rho^2)"
    )
    for name, unit, digits in (("h0", "strain", ".3e"), ("cosi", "1", ".3f")):
        true, value, error = (float(getattr(x, name)) for x in (amplitude, estimate.amplitude, estimate.errors))
        print(f"{name:8s}{unit:8s}{true:16{digits}}{value:16{digits}}{value - true:+14.1e}   {error:.1e}")


def _draw(sfts: SFTs, data: FstatData, best: Doppler, expected: float, path: Path) -> Path | None:
    """Draw 2F over the band, close to the peak and over the sky; None without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    from jfstat.plots import plot_band, plot_peak, plot_sky

    values, f = np.asarray(twoF_band(data, best)), data.frequencies
    peak = int(np.argmax(np.where(np.abs(f - float(best.fkdot[0])) < 1e-6, values, 0)))
    near = slice(max(0, peak - 12), peak + 13)
    fine = np.linspace(f[near][0], f[near][-1], 241)
    curve = jax.jit(
        jax.vmap(lambda d, x: twoF(d, Doppler(best.alpha, best.delta, [x, best.fkdot[1]], best.reftime)), (None, 0))
    )(data, fine)

    figure = Figure(figsize=(11, 7.5), layout="constrained")
    axes = figure.subplot_mosaic([["band", "band"], ["peak", "sky"]], height_ratios=[1, 1.25])
    figure.suptitle("jfstat demo: two days of H1 and L1, one signal in noise")
    plot_band(axes["band"], f, values, found=float(f[peak]), injected=F0, expected=expected)
    axes["band"].set_title("whole band, at the loudest template", fontsize="medium")
    plot_peak(axes["peak"], f[near], values[near], found=float(f[peak]), curve=(fine, curve))
    axes["peak"].set_title("the peak", fontsize="medium")
    alphas, deltas, sky = _sky_map(sfts, best)
    plot_sky(axes["sky"], alphas, deltas, sky, injected=(ALPHA, DELTA), found=(float(best.alpha), float(best.delta)))
    axes["sky"].set_title("the patch of sky, largest over frequency and spin-down", fontsize="medium")
    figure.savefig(path, dpi=130)
    return path


def _sky_map(sfts: SFTs, best: Doppler) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """2F over the searched sky at half the steps, its largest value over spin-down and a narrow band.

    Returns
    -------
    alphas : (n,) float64 ndarray
        rad.
    deltas : (m,) float64 ndarray
        rad.
    twoF : (n, m) float32 ndarray
    """
    alphas, deltas = (axis((low, high, step / 2), "sky", "rad") for low, high, step in (ALPHA_RANGE, DELTA_RANGE))
    # a band just wide enough for the frequency shifts of wrong positions costs a fraction of the whole band
    half = EARTH_SPEED * F0 * max(ALPHA_RANGE[1] - ALPHA_RANGE[0], DELTA_RANGE[1] - DELTA_RANGE[0]) / 2
    f = float(best.fkdot[0])
    data = prepare(sfts, f - half, f + half, reftime=best.reftime)
    bank = template_bank(list(alphas), list(deltas), F1DOT_RANGE, data=data)
    loudest = np.asarray(_loudest(data, bank))
    return alphas, deltas, loudest.reshape(len(alphas), len(deltas), -1).max(axis=2)


@jax.jit
def _loudest(data: FstatData, bank: Doppler) -> jax.Array:
    """Largest 2F over the band for each template of a stack, (n,) float32."""
    return jax.lax.map(lambda point: jnp.max(twoF_band(data, point)), bank, batch_size=32)
