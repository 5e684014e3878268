"""The pilot search of Dunn et al. (2022): the isolated pulsars of Omega Centauri, 100 days of H1 and L1, simulated.

    python examples/omega_centauri.py --small                   # the same on a laptop, in a minute
    python examples/omega_centauri.py simulate --outdir pilot   # SFT files of all eight bands
    python examples/omega_centauri.py search --outdir pilot     # on a GPU; stop it and call it again as you like
    python examples/omega_centauri.py report --outdir pilot     # table, JSON and picture

Table 2 of the paper: 1 Hz about the pulse frequency and twice it for each of PSR J1326-4728A, C, D, E, spin-downs as
there, 14' x 14' on the sky for those without a known position, mismatch 0.1, GPS 1167458304 and 100 days, duty factors
of 0.74 (H1) and 0.66 (L1). The noise is Gaussian and stationary with the floors of O2 at these frequencies, about,
which `prepare` is told; each band holds one random signal, loud enough to be found. Unlike the paper, which kept all
with 2F > 70, the loudest 1000 of each band are kept, and the loudest of each sub-band. ``search`` writes a checkpoint
after each batch, so that a band may be done in several calls.

With ``--small``: 4 days, 0.02 Hz, two bands, and a patch of some degrees, so that there are several sky positions.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from astropy.coordinates import SkyCoord  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import replacing  # noqa: E402
from jfstat.candidates.falsealarm import false_alarm  # noqa: E402

START, TSFT = 1167458304, 1800
DUTY = {"H1": 0.74, "L1": 0.66}
LOCKED = 10 * 3600.0
"""Mean length of an uninterrupted stretch of data, s."""
SQRT_SX = {"H1": 8e-24, "L1": 7e-24}
"""Noise floors of O2 between 100 and 500 Hz, about, 1/sqrt(Hz)."""
GUARD, MISMATCH = 1.0, 0.1
POINTING = SkyCoord("13h26m44s", "-47d29m40s")
PULSAR_A = SkyCoord("13h26m39.7s", "-47d30m11.64s")


class Band(NamedTuple):
    """A line of the paper's table 2: name, lowest frequency (Hz), range of f1dot (Hz/s), whether the sky is known."""

    name: str
    fmin: float
    f1dot: tuple[float, float]
    known: bool


BANDS = (
    Band("A1", 242.88, (-1.8e-15, -1.4e-15), True),
    Band("A2", 486.26, (-3.6e-15, -2.8e-15), True),
    Band("C1", 145.1, (-2.8e-14, 0.33e-14), False),
    Band("C2", 290.7, (-5.7e-14, 0.66e-14), False),
    Band("D1", 217.9, (-3.0e-14, 0.50e-14), False),
    Band("D2", 436.3, (-6.0e-14, 1.0e-14), False),
    Band("E1", 237.16, (-3.0e-14, 0.54e-14), False),
    Band("E2", 474.8, (-6.1e-14, 1.1e-14), False),
)


class Setting(NamedTuple):
    """Days of data, width of a band (Hz), side of the patch of sky (rad), range of expected 2F, names of the bands."""

    days: float
    width: float
    side: float
    expected: tuple[float, float]
    names: tuple[str, ...]


WHOLE = Setting(100, 1.0, float(np.deg2rad(14 / 60)), (70.0, 250.0), tuple(band.name for band in BANDS))
SMALL = Setting(4, 0.02, float(np.deg2rad(6)), (100.0, 200.0), ("A1", "C1"))


def timestamps(days: float, seed: int = 2017) -> dict[str, np.ndarray]:
    """Starts of SFTs in stretches of random lengths, GPS s, as many as the duty factors say."""
    n = round(days * 86400 / TSFT)
    times = {}
    for name, duty in DUTY.items():
        rng = np.random.default_rng([seed, *name.encode()])
        lengths = rng.exponential([LOCKED, LOCKED * (1 - duty) / duty], size=(n, 2)) / TSFT
        ends = np.cumsum(np.maximum(np.rint(lengths), 1).astype(int).reshape(-1))
        locked = np.searchsorted(ends, np.arange(n), side="right") % 2 == 0
        # exactly the duty factor, and both ends of the span
        surplus = int(locked.sum()) - round(duty * n)
        flip = rng.choice(np.flatnonzero(locked == (surplus > 0))[1:-1], abs(surplus), replace=False)
        locked[flip] = surplus < 0
        locked[[0, -1]] = True
        times[name] = START + TSFT * np.flatnonzero(locked)
    return times


def patch(setting: Setting) -> tuple[tuple[float, float], tuple[float, float]]:
    """Right ascensions and declinations of the searched box, rad."""
    delta, half = POINTING.dec.rad, 0.5 * setting.side
    wide = half / np.cos(delta)
    return (POINTING.ra.rad - wide, POINTING.ra.rad + wide), (delta - half, delta + half)


def injection(band: Band, setting: Setting) -> tuple[jfstat.Doppler, float, float]:
    """A random template within the band's ranges, an expected 2F and a seed for the rest."""
    rng = np.random.default_rng([1326, *band.name.encode()])
    f = rng.uniform(band.fmin + 0.1 * setting.width, band.fmin + 0.9 * setting.width)
    f1dot = rng.uniform(*band.f1dot)
    alpha, delta = PULSAR_A.ra.rad, PULSAR_A.dec.rad
    if not band.known:
        alphas, deltas = patch(setting)
        alpha, delta = rng.uniform(*alphas), rng.uniform(*deltas)
    point = jfstat.Doppler(alpha, delta, [f, f1dot], reftime=START)
    return point, float(rng.uniform(*setting.expected)), float(rng.uniform())


def amplitude_for(data: jfstat.FstatData, point: jfstat.Doppler, expected: float, u: float) -> jfstat.Amplitude:
    """Amplitude with a given expected 2F; inclination, polarisation and phase all follow from one random number u."""
    cosi = 2 * u - 1
    unit = jfstat.Amplitude(1e-26, cosi, 0.7 * u, 6 * u)
    rho2 = float(jfstat.predict_twoF(data, point, unit)) - 4
    return jfstat.Amplitude(1e-26 * np.sqrt((expected - 4) / rho2), cosi, 0.7 * u, 6 * u)


def simulate(band: Band, setting: Setting, outdir: Path) -> None:
    """Write the band's SFT files."""
    edge = GUARD + 1.2e-4 * band.fmin + 0.01
    options = dict(timestamps=timestamps(setting.days), tsft=TSFT, sqrt_sx=SQRT_SX)
    point, expected, u = injection(band, setting)
    f = float(point.fkdot[0])
    # the expected 2F follows from times and floors; any narrow data know them
    blank = jfstat.simulate_sfts(["H1", "L1"], fmin=f - 0.1, fmax=f + 0.1, seed=0, **options)
    amplitude = amplitude_for(
        jfstat.prepare(blank, f - 0.001, f + 0.001, START, SQRT_SX, guard=0.05, filters=False), point, expected, u
    )
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"],
        fmin=band.fmin - edge,
        fmax=band.fmin + setting.width + edge,
        signals=[(point, amplitude)],
        seed=[99, *band.name.encode()],  # pyright: ignore[reportArgumentType]
        **options,
    )
    folder = outdir / band.name
    folder.mkdir(parents=True, exist_ok=True)
    jfstat.write_sfts(sfts, folder)
    record = {
        "freq": f,
        "f1dot": float(point.fkdot[1]),
        "alpha": float(point.alpha),
        "delta": float(point.delta),
        "h0": float(amplitude.h0),
        "cosi": float(amplitude.cosi),
        "expected_twoF": expected,
    }
    write_json(outdir / f"{band.name}-injection.json", record)


def bank_for(band: Band, setting: Setting, data: jfstat.FstatData) -> jfstat.Doppler:
    """Templates of the band at the paper's mismatch."""
    if band.known:
        return jfstat.template_bank(PULSAR_A, f1dot=band.f1dot, mismatch=MISMATCH, data=data)
    alpha, delta = patch(setting)
    return jfstat.template_bank(alpha, delta, f1dot=band.f1dot, mismatch=MISMATCH, data=data)


def search(band: Band, setting: Setting, outdir: Path, mesh: Any = None) -> None:
    """Search a band, or go on with it, and write its candidates and what it took."""
    out = outdir / f"{band.name}.ecsv"
    if (outdir / f"{band.name}-result.json").exists():
        return
    began = time.perf_counter()
    sfts = jfstat.read_sfts(str(outdir / band.name / "*.sft"))
    data = jfstat.prepare(sfts, band.fmin, band.fmin + setting.width, START, SQRT_SX, guard=GUARD)
    bank = bank_for(band, setting, data)
    n_sky = len(np.unique(np.stack([bank.alpha, bank.delta]), axis=1).T)
    n = len(np.asarray(bank.alpha))
    prepared = time.perf_counter()
    print(f"{band.name}: {n} templates at {n_sky} sky positions, prepared in {prepared - began:.0f} s", flush=True)
    times = outdir / f"{band.name}-times.json"
    spent = json.loads(times.read_text())["search_s"] if times.exists() else 0.0

    def note() -> dict[str, Any]:
        seconds = spent + time.perf_counter() - prepared
        record = {"templates": n, "sky_positions": n_sky, "search_s": seconds, "prepare_s": prepared - began}
        record |= {"device": jax.devices()[0].device_kind, "devices": 1 if mesh is None else mesh.devices.size}
        write_json(times, record)
        return record

    try:
        found: Any = jfstat.search(data, bank, checkpoint=outdir / f"{band.name}.checkpoint", run=jfstat.Run(mesh=mesh))
    finally:
        record = note()
    jfstat.write_candidates(found, out)
    better: Any = jfstat.refine(data, found[:1], progress=False)
    jfstat.write_candidates(better, outdir / f"{band.name}-refined.ecsv")
    truth = json.loads((outdir / f"{band.name}-injection.json").read_text())
    true_point = jfstat.Doppler(truth["alpha"], truth["delta"], [truth["freq"], truth["f1dot"]], reftime=START)

    def loss(row: Any) -> float:
        values = [float(getattr(row[k], "value", row[k])) for k in ("alpha", "delta", "freq", "f1dot")]
        other = jfstat.Doppler(*(jnp.asarray(x) for x in values[:2]), values[2:], reftime=START)
        return float(jfstat.mismatch(data, true_point, other))

    write_json(
        outdir / f"{band.name}-result.json",
        record
        | {
            "n_twoF": found.meta["n_twoF"],
            "twoF_per_s": found.meta["n_twoF"] / record["search_s"],
            "loudest_twoF": float(found["twoF"][0]),
            "mismatch_of_loudest": loss(found[0]),
            "refined_twoF": float(better["twoF"][0]),
            "mismatch_of_refined": loss(better[0]),
            "injection": truth,
            "noise": noise_of(found, truth["freq"], 0.0 if band.known else setting.side),
        },
    )
    print(f"{band.name}: {found.meta['n_twoF']:.3e} values of 2F in {record['search_s']:.1f} s", flush=True)


def noise_of(found: Any, f: float, side: float) -> dict[str, float]:
    """The loudest of the sub-bands that the signal at frequency f does not reach, and how likely noise is as loud.

    At other sky positions of a patch a signal shows at other frequencies, by the Doppler shift of the difference.
    """
    subbands = {name: np.array(x) for name, x in found.meta["loudest_per_subband"].items()}
    reach = 1.1e-4 * f * 2 * side + 20 / found.meta["tspan"]
    quiet = (subbands["stop"] < f - reach) | (subbands["start"] > f + reach)
    part = np.sum((subbands["stop"] - subbands["start"])[quiet]) / np.sum(subbands["stop"] - subbands["start"])
    loudest, n = float(np.max(subbands["twoF"][quiet])), float(part * found.meta["n_twoF"])
    return {"loudest_twoF": loudest, "n_twoF": n, "false_alarm": float(false_alarm(loudest, n))}


def report(setting: Setting, outdir: Path) -> None:
    """Print and write the summary of the bands that are done, and draw the loudest 2F of all sub-bands."""
    done = [band for band in BANDS if (outdir / f"{band.name}-result.json").exists()]
    if not done:
        raise SystemExit(f"no band is done in {outdir}: search first")
    results = {band.name: json.loads((outdir / f"{band.name}-result.json").read_text()) for band in done}
    print("band    sky  templates  2F values  search     2F/s  expected  loudest  mismatch  loudest noise  false alarm")
    for name, x in results.items():
        print(
            f"{name:4s} {x['sky_positions']:6d} {x['templates']:10d} {x['n_twoF']:10.3e} {x['search_s']:6.1f} s "
            f"{x['twoF_per_s']:8.2e} {x['injection']['expected_twoF']:9.1f} {x['loudest_twoF']:8.1f} "
            f"{x['mismatch_of_loudest']:9.3f} {x['noise']['loudest_twoF']:14.1f} {x['noise']['false_alarm']:12.3f}"
        )
    total = {k: sum(x[k] for x in results.values()) for k in ("templates", "sky_positions", "n_twoF", "search_s")}
    loudest = max(x["noise"]["loudest_twoF"] for x in results.values())
    n = sum(x["noise"]["n_twoF"] for x in results.values())
    total |= {"loudest_noise_twoF": loudest, "false_alarm": float(false_alarm(loudest, n))}
    total["gpu_hours"] = sum(x["search_s"] * x["devices"] for x in results.values()) / 3600
    print(f"in all {total}")
    command = "python examples/omega_centauri.py report"
    write_json(outdir / "summary.json", {"command": command, "total": total, "bands": results})
    draw(results, outdir)


def draw(results: dict[str, Any], outdir: Path) -> None:
    """Loudest 2F of every sub-band, against frequency, one panel a band."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    n = len(results)
    figure, axes = plt.subplots(
        (n + 1) // 2, 2, figsize=(10, 2.2 * ((n + 1) // 2)), squeeze=False, layout="constrained"
    )
    for axis, (name, x) in zip(axes.flat, results.items(), strict=False):
        found: Any = jfstat.read_candidates(outdir / f"{name}.ecsv")
        subbands = found.meta["loudest_per_subband"]
        edges = np.array([*subbands["start"], subbands["stop"][-1]])
        axis.stairs(subbands["twoF"], edges, baseline=None, label="loudest of a sub-band")
        truth = x["injection"]
        axis.plot(truth["freq"], truth["expected_twoF"], "v", color="tab:red", label="injection, expected")
        axis.set(title=f"PSR J1326-4728{name[0]}", xlabel="frequency (Hz)", ylabel="2F")
        axis.ticklabel_format(useOffset=False)
    axes.flat[0].legend(fontsize="small")
    figure.savefig(outdir / "loudest_per_subband.png", dpi=120)
    plt.close(figure)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a file whole."""
    with replacing(path) as file:
        file.write(json.dumps(content, indent=1).encode())


def main() -> None:
    """Do the steps that the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("step", nargs="?", choices=("simulate", "search", "report", "all"), default="all")
    parser.add_argument("--outdir", type=Path, default=Path("omega-centauri"), help="for SFTs and results")
    parser.add_argument("--bands", help="names such as C1,C2 (default: all)")
    parser.add_argument("--small", action="store_true", help="scaled down for a laptop")
    parser.add_argument("--days", type=float, help="length of the data, d, instead of 100")
    parser.add_argument("--width", type=float, help="width of each band, Hz, instead of 1")
    parser.add_argument("--devices", type=int, default=1, help="devices of this machine to use (default 1; 0: all)")
    arguments = parser.parse_args()
    setting = SMALL if arguments.small else WHOLE
    changes = {"days": arguments.days, "width": arguments.width}
    setting = setting._replace(**{k: v for k, v in changes.items() if v is not None})
    names = arguments.bands.split(",") if arguments.bands else setting.names
    if not set(names) <= set(setting.names):
        parser.error(f"--bands must be of {', '.join(setting.names)}, not {arguments.bands}")
    arguments.outdir.mkdir(parents=True, exist_ok=True)
    devices = jax.local_devices()[: arguments.devices or None]
    mesh = jax.sharding.Mesh(np.array(devices), ("templates",)) if len(devices) > 1 else None
    for band in BANDS:
        if band.name in names:
            if arguments.step in ("simulate", "all"):
                simulate(band, setting, arguments.outdir)
            if arguments.step in ("search", "all"):
                search(band, setting, arguments.outdir, mesh)
    if arguments.step in ("report", "all"):
        report(setting, arguments.outdir)


if __name__ == "__main__":
    main()
