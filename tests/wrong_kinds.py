"""Public functions, a sound call of each, and values of wrong kinds to put in the place of each argument."""

from __future__ import annotations

import datetime
import decimal
import fractions
import inspect
from pathlib import Path

import astropy.units as u
import jax
import jax.numpy as jnp
import numpy as np
from astropy.table import QTable
from sfdb_files import transform
from strain_files import write_gwosc

import jfstat
from jfstat.inference.pulsarposteriors import PulsarPosteriors
from jfstat.inference.pulsarsignals import PulsarLikelihood
from jfstat.statistic.likelihood import total_likelihood

START = 1_167_458_304
PAR = """PSRJ J0001+0001
RAJ 00:01:00
DECJ 00:01:00
F0 50.0 1 1e-9
F1 -1e-12
PEPOCH 54100
"""


class Plain:
    """An object that is nothing that jfstat knows."""

    def __repr__(self) -> str:
        return "a plain\nobject"


class Hostile:
    """An object whose every conversion fails in its own way."""

    ndim, shape, dtype = "no", 3, None

    def __len__(self):
        raise RuntimeError("no length")

    def __float__(self):
        raise RuntimeError("no\nfloat")

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("no array")


def wrong_values(tmp_path: Path) -> dict[str, object]:
    """Values by a name for messages; the same for every argument, whatever it is."""
    return {
        "None": None,
        "True": True,
        "text": "x",
        "empty text": "",
        "text with a line break": "a\nb",
        "text with a null": "a\0b",
        "long text": "9" * 5000,
        "bytes": b"x",
        "empty list": [],
        "empty tuple": (),
        "empty dict": {},
        "dict": {"H1": "x", 3: None},
        "set": {1.5},
        "list of text": ["x"],
        "list of None": [None],
        "ragged list": [[1], [2, 3]],
        "nested pairs": [(1, 2, 3)],
        "range": range(3),
        "object": Plain(),
        "hostile object": Hostile(),
        "class": float,
        "function": len,
        "NaN": np.nan,
        "inf": np.inf,
        "-inf": -np.inf,
        "-1": -1,
        "-1.5": -1.5,
        "0": 0,
        "400 digits": 10**400,
        "-400 digits": -(10**400),
        "2**63": 2**63,
        "-2**63": -(2**63),
        "1e300": 1e300,
        "1e-300": 1e-300,
        "complex": 1j,
        "no numbers": np.array([]),
        "matrix": np.ones((2, 3)),
        "tensor": jnp.ones((2, 2, 2)),
        "array of text": np.array(["a", "b"]),
        "array of objects": np.array([None, "x"], dtype=object),
        "array of NaN": np.full(3, np.nan),
        "structured array": np.zeros(2, [("a", "f8")]),
        "date": datetime.date(2020, 1, 1),
        "datetime64": np.datetime64("2020-01-01"),
        "metres": 3 * u.m,
        "seconds": 3 * u.s,
        "array of metres": [1, 2] * u.m,
        "kelvins": 3 * u.K,
        "array of kelvins": [1, 2] * u.K,
        "list of kelvins": [3 * u.K, 4 * u.K],
        "decimal": decimal.Decimal("1.5"),
        "decimal NaN": decimal.Decimal("NaN"),
        "fraction": fractions.Fraction(1, 3),
        "float32": np.float32(2.5),
        "masked": np.ma.masked,
        "masked array": np.ma.array([1.0, 2.0], mask=[True, False]),
        "table": QTable({"x": [1.0, 2.0]}),
        "empty table": QTable(),
        "path": tmp_path / "nowhere",
    }


def sound_calls(tmp_path: Path) -> dict[str, tuple[object, dict[str, object]]]:
    """Functions and arguments with which they work, by name."""
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 4 * 1800, 98.8, 101.2, seed=1)
    folder = tmp_path / "sfts"
    jfstat.write_sfts(sfts, folder)
    point = jfstat.Doppler(1.0, 0.3, [100.0, -1e-10], START)
    amplitude = jfstat.Amplitude(1e-23, 0.3)
    data = jfstat.prepare(sfts, 99.9999, 100.0001)
    segments = jfstat.prepare(sfts, 99.9999, 100.0001, segments=2)
    near, coordinates = jfstat.narrow(data, point), jfstat.whiten(data, point)
    bank = jfstat.Doppler(np.array([1.0, 1.1]), np.array([0.3, 0.3]), np.full((2, 1), 100.0), START)
    found = jfstat.search(data, bank, top=2, progress=False)
    unit = jfstat.search(data, bank, top=2, progress=False, run=jfstat.Run(unit=(1, 1)))
    times = (START + 8640 * np.arange(80)).tolist()  # of a few hours there would be no other positions
    longer = jfstat.simulate_sfts(["H1"], timestamps=times, fmin=98.8, fmax=101.2)
    longer = jfstat.prepare(longer, 99.9999, 100.0001, START)
    longest = jfstat.search(longer, bank[0], top=2, progress=False)
    measured = jfstat.background(longer, bank[0], positions=10, progress=False)
    (tmp_path / "L1lines.csv").write_text("100.0,0,0,1,1,0.001,0.001,a line\n")
    lines = jfstat.read_lines(tmp_path / "L1lines.csv")
    (tmp_path / "a.par").write_text(PAR)
    (tmp_path / "a.SFDB09").write_bytes(transform("H1", START, np.full(100, 1e-22), 1024))
    pulsar = jfstat.read_par(tmp_path / "a.par")
    below = jfstat.Doppler(1.0, 0.3, [50.0, -5e-11], START)
    half = jfstat.prepare(jfstat.simulate_sfts(["H1", "L1"], START, 4 * 1800, 48.8, 51.2, seed=1), 49.9999, 50.0001)
    star = QTable({"name": ["J0"], "freq": [100.0] * u.Hz, "distance": [1.0] * u.kpc})
    stack = jax.tree.map(lambda x: x[None], total_likelihood(data, point))
    certain = PulsarLikelihood((stack,), (jnp.float64(1.0),), jnp.zeros(1))
    limits = PulsarPosteriors(star, (), (jfstat.AmplitudePrior(),), (certain,))
    candidates = jfstat.write_candidates(found, tmp_path / "found.ecsv")
    stages = QTable({"candidate": [0, 0], "stage": [0, 1]})
    # few samples: LALSuite takes seconds to compress many
    low = jfstat.simulate_sfts(["H1", "L1"], START, 1800, 8.0, 12.0, seed=1)
    strain = (np.random.default_rng(0).normal(size=4 * 1800 * 16), START, 1 / 16)
    gating = jfstat.Gating(12.0, [(2.0, 6.0)])
    frames = write_gwosc(tmp_path / "frames.hdf5", "H1", START, strain[0][: 240 * 16], 16)
    never = np.zeros(240, np.uint32)  # bits of seconds without injections, of which there are none
    injected = write_gwosc(tmp_path / "injected.hdf5", "H1", START, np.resize(strain[0], 240 * 64), 64, None, never)
    with_injection = jfstat.simulate_sfts(["H1"], START, 3600, 52.4, 53.2, seed=1)
    table = np.array([START - 1e5 + 2e4 * np.arange(12), *np.zeros((3, 12))])
    earth = (table[0], np.full((12, 3), 288.0))
    parts, window = jfstat.atoms(data, point), jfstat.TransientWindow("rectangular", START, 7200.0)
    atom_file = jfstat.write_atoms(parts, tmp_path / "parts.dat")
    (tmp_path / "cache").write_text("H H1_STRAIN 0 60 file://localhost/a.gwf\n")
    (tmp_path / "segments").write_text(f"{START} {START + 7200}\n")
    (tmp_path / "times").write_text(f"{START} 0\n")
    ended = QTable({"freq": [100.0], "twoF": [30.0], "converged": [True], "covariance": np.ones((1, 1, 1))})
    ended.meta["parameters"] = ["freq"]
    one = dict(data=data, point=point)
    likelihoods = dict(log_likelihood=np.ones((2, 3, 2)), transitions=[-1.0, -1.0, -1.0], drift=[0, 1])
    bands = dict(segments=segments, point=point, f1dot=[-1e-10, 0.0])
    windows = jfstat.TransientRange("rectangular", [START, START + 3600], [7200.0, 14400.0])
    loudest = jfstat.transient_null(parts, windows)
    prior = jfstat.LinePrior(0.0, [1.0, 1.0])
    solution = dict(sfts=sfts, pulsars=pulsar, progress=False, line_prior=prior)
    solution |= dict(sqrt_sx=jfstat.Noise(off_source=10), ephemeris="DE405", guard=0.5)
    calls = {
        "Amplitude": (jfstat.Amplitude, dict(h0=1e-24, cosi=0.2, psi=0.1, phi0=0.3)),
        "Detector": (jfstat.Detector, dict(prefix="Z1", location=(6.37e6, 0.0, 0.0), arms=[(0, 1, 0), (0, 0, 1)])),
        "Detector.from_geodetic": (
            jfstat.Detector.from_geodetic,
            dict(prefix="Z1", latitude=0.3, longitude=0.2, height=10.0, azimuths=[0.1, 1.7]),
        ),
        "Doppler": (
            jfstat.Doppler,
            dict(alpha=1.0, delta=0.3, fkdot=[100.0, 0.0], reftime=START, orbit=None, motion=(0.0, 0.0)),
        ),
        "Ephemeris": (jfstat.Ephemeris, dict(earth=earth, sun=earth, name="own")),
        "Gating": (
            jfstat.Gating, dict(threshold=12.0, bands=[(2.0, 6.0)], tzero=1.0, tpad=0.5, most_gated=0.1)
        ),
        "Braking": (jfstat.Braking, dict(age=3e10, index=(2, 7))),
        "Conditioning": (jfstat.Conditioning, dict(window="tukey:0.001", highpass=1.0, gating=gating)),
        "DataQuality": (
            jfstat.DataQuality,
            dict(
                bits=[1], channel="H1:BITS", segments=[(START, START + 180)], start=START, end=START + 240,
            ),
        ),
        "Fit": (
            jfstat.Fit,
            dict(
                parameters=["freq"], bounds={"freq": (99.99, 100.01)}, mismatch=0.3, bins=2.0, max_steps=5,
                reftime=START, lines=lines,
            ),
        ),
        "Stages": (jfstat.Stages, dict(numbers=(2, 1), veto=1e-3, false_alarm=0.1)),
        "LinePrior": (jfstat.LinePrior, dict(fstar0=0.0, olgx=[1.0, 1.0])),
        "Noise": (jfstat.Noise, dict(sqrt_sx=None, median_bins=51, off_source=10)),
        "PulsarBand": (jfstat.PulsarBand, dict(freq=1e-4, f1dot=1e-12, top=2, harmonic=2.0, reftime=START)),
        "Orbit": (jfstat.Orbit, dict(asini=1.0, period=5e4, tp=START, ecc=0.1, argp=0.2)),
        "PhaseModel": (jfstat.PhaseModel, dict(function=lambda t, p: p * t, parameters=jnp.asarray(0.0))),
        "SFTs.select": (sfts.select, dict(start=START, end=START + 9000, detectors="H1")),
        "SFTs.joined": (sfts.joined, {}),
        "Coordinates.point": (coordinates.point, dict(x=jnp.zeros(4))),
        "Coordinates.values": (coordinates.values, dict(x=jnp.zeros(4))),
        "Pulsar.doppler": (pulsar.doppler, dict(start=START, end=START + 86400)),
        "TransientMap.log10_bayes_factor": (
            jfstat.transient_map(parts, "rectangular", [START], [7200.0]).log10_bayes_factor, dict(rho_max=2.0)
        ),
        "TransientRange": (
            jfstat.TransientRange,
            dict(shape=lambda x: x, t0=[START], tau=[7200.0], end=2.0, duration=1800.0, rho_max=2.0),
        ),
        "TransientWindow": (jfstat.TransientWindow, dict(shape=lambda x: x, t0=START, tau=3600.0, end=2.0, taper=60.0)),
        "add_signal": (jfstat.add_signal, one | dict(amplitude=amplitude, window="hann")),
        "add_signal to narrow data": (jfstat.add_signal, dict(data=near, point=point, amplitude=amplitude)),
        "atom_sizes": (jfstat.atom_sizes, one | dict(duration=3600.0)),
        "atoms": (jfstat.atoms, one | dict(duration=3600.0)),
        "atoms of sizes": (jfstat.atoms, one | dict(sizes=jfstat.atom_sizes(data, point))),
        "clean": (jfstat.clean, dict(sfts=sfts, lines=lines, seed=1, window=100, max_bins=10)),
        "covers": (jfstat.covers, dict(data=near, point=point)),
        "Population": (
            jfstat.Population,
            dict(alpha=1.0, delta=(0.0, 0.1), cosi=0.3, psi=0.1, freq=100.0, fdots=[0.0], orbit=None),
        ),
        "Population.draw": (jfstat.Population().draw, dict(n=3, seed=1, freq=100.0)),
        "detection_probability": (
            jfstat.detection_probability,
            dict(data=data, h0=1e-23, threshold=50.0, population=None, mismatch=0.1, samples=10, seed=1),
        ),
        "dm_off_twoF": (jfstat.dm_off_twoF, one),
        "estimate_amplitude": (jfstat.estimate_amplitude, one),
        "flag_lines": (jfstat.flag_lines, dict(data=data, found=found, lines=lines)),
        "follow_up": (
            jfstat.follow_up,
            dict(
                sfts=sfts, found=found[:1], stages=(1,), fit=jfstat.Fit(["freq"], mismatch=0.3, bins=2.0),
                sqrt_sx=4e-24, ephemeris="DE405", guard=0.5, progress=False,
            ),
        ),
        "follow_up_stages": (
            jfstat.follow_up_stages,
            dict(
                sfts=sfts, point=point, n_segments=2, parameters=["freq", "f1dot"], most_trials=100, ephemeris="DE405"
            ),
        ),
        "fstat": (jfstat.fstat, one),
        "fstat_table": (
            jfstat.fstat_table,
            dict(
                data=data, points=found, reftime=START, line_prior=prior, transient=None, progress=False,
            ),
        ),
        "bank_from_table": (jfstat.bank_from_table, dict(table=found)),
        "Doppler.from_row": (jfstat.Doppler.from_row, dict(row=found[0], model=None)),
        "load": (jfstat.load, dict(path=jfstat.save(data, tmp_path / "saved.npz"))),
        "save": (jfstat.save, dict(data=data, path=tmp_path / "saved.npz")),
        "template_table": (jfstat.template_table, dict(points=bank, freq=[100.0], reftime=None)),
        "summary": (jfstat.summary, dict(table=found, row=0, total=None)),
        "distinct": (jfstat.distinct, dict(refined=ended, statistic="twoF")),
        "dump_sfts": (jfstat.dump_sfts, dict(pattern=str(folder), what="headers", most=1)),
        "public_description": (
            jfstat.public_description, dict(run=4, kind="RUN", revision=1, channel="H1:STRAIN", window="hann")
        ),
        "segment_observations": (
            jfstat.segment_observations,
            dict(sfts=sfts, segments=2, sqrt_sx=4e-24, reftime=START, ephemeris="DE405", fmin=99.9, fmax=100.1),
        ),
        "find_strain": (
            jfstat.find_strain,
            dict(paths=frames, channel=None, detector="H1", quality=jfstat.DataQuality(["DATA"])),
        ),
        "enable_export": (jfstat.enable_export, {}),
        "each_sft": (
            jfstat.each_sft,
            dict(
                strain=jfstat.find_strain(frames), tsft=60, fmin=2.0, fmax=5.0,
                conditioning=jfstat.Conditioning(highpass=1.0),
            ),
        ),
        "read_frame_cache": (jfstat.read_frame_cache, dict(path=tmp_path / "cache")),
        "read_segments": (jfstat.read_segments, dict(path=tmp_path / "segments")),
        "read_timestamps": (jfstat.read_timestamps, dict(files=[tmp_path / "times"], detectors=["H1"])),
        "SFTFiles.read_band": (
            jfstat.find_sfts(str(folder)).read_band,
            dict(fmin=99.9, fmax=100.1, guard=0.1, orbit=None, fdots=[(-1e-10, 0.0)], reftime=START, noise_bins=50),
        ),
        "refine_files": (
            jfstat.refine_files,
            dict(
                files=jfstat.find_sfts(str(folder)), found=found[:1], fit=jfstat.Fit(["freq"], mismatch=0.3, bins=2.0),
                segments=None, sqrt_sx=4e-24, ephemeris="DE405", guard=0.5, progress=False,
            ),
        ),
        "follow_up_files": (
            jfstat.follow_up_files,
            dict(
                files=jfstat.find_sfts(str(folder)), found=found[:1], stages=(1,),
                fit=jfstat.Fit(["freq"], mismatch=0.3, bins=2.0), sqrt_sx=4e-24, ephemeris="DE405", guard=0.5,
                progress=False,
            ),
        ),
        "fstat_table_files": (
            jfstat.fstat_table_files,
            dict(
                files=jfstat.find_sfts(str(folder)), points=found, line_prior=prior, transient=None, segments=None,
                sqrt_sx=4e-24,
                ephemeris="DE405", guard=0.5, progress=False,
            ),
        ),
        "write_atoms_files": (
            jfstat.write_atoms_files,
            dict(
                files=jfstat.find_sfts(str(folder)), points=found[:1], path=str(tmp_path / "each"), sqrt_sx=4e-24,
                ephemeris="DE405", guard=0.5,
            ),
        ),
        "write_transient_stats": (
            jfstat.write_transient_stats,
            dict(
                found=jfstat.fstat_table(data, found, transient=windows, progress=False), path=tmp_path / "stats.txt"
            ),
        ),
        "narrow_files": (
            jfstat.narrow_files,
            dict(files=jfstat.find_sfts(str(folder)), point=point, sqrt_sx=4e-24, ephemeris="DE405", guard=0.5),
        ),
        "inject": (jfstat.inject, dict(sfts=sfts, signals=[(point, amplitude)], ephemeris="DE405")),
        "inject_artefacts": (jfstat.inject_artefacts, dict(sfts=sfts, artefacts=[jfstat.Artefact(100.0, 1e-23)])),
        "join_sfts": (jfstat.join_sfts, dict(sfts=[sfts])),
        "last_stage": (jfstat.last_stage, dict(table=stages)),
        "leave_out": (jfstat.leave_out, dict(data=data, stretches=[(START, START + 1)])),
        "line_veto": (jfstat.line_veto, dict(data=data, found=found, transient=None)),
        "log_posterior": (jfstat.log_posterior, dict(data=near, coordinates=coordinates, x=jnp.zeros(4))),
        "join_searches": (jfstat.join_searches, dict(tables=[found])),
        "merge": (jfstat.merge, dict(tables=[unit])),
        "metric": (
            jfstat.metric,
            dict(data=data, point=point, parameters=["freq", "alpha"], amplitude=amplitude, phase_only=False),
        ),
        "mismatch": (
            jfstat.mismatch,
            dict(data=data, point=point, other=point, amplitude=amplitude, phase_only=False),
        ),
        "move_detectors": (
            jfstat.move_detectors,
            dict(data=data, shift=np.zeros((2, 3)), arms=np.tile(np.eye(3)[:2], (2, 1, 1))),
        ),
        "narrow": (jfstat.narrow, one | dict(reach=1e-3, max_block=1800.0)),
        "narrow of sizes": (jfstat.narrow, one | dict(sizes=jfstat.narrow_sizes(data, point))),
        "narrow_sizes": (jfstat.narrow_sizes, one | dict(reach=1e-3, max_block=1800.0)),
        "noise_like": (jfstat.noise_like, dict(key=jax.random.key(1), data=data, window="rectangular")),
        "observation": (
            jfstat.observation,
            dict(
                sfts=sfts, sqrt_sx=4e-24, reftime=START, ephemeris="DE405", fmin=99.9, fmax=100.1,
            ),
        ),
        "observation of names": (
            jfstat.observation,
            dict(sfts=["H1"], start=START, duration=7200.0, tsft=1800.0, sqrt_sx=4e-24, reftime=START),
        ),
        "observation at times": (
            jfstat.observation,
            dict(sfts=["H1"], timestamps={"H1": [START, START + 1800]}, tsft=1800.0),
        ),
        "predict_twoF": (jfstat.predict_twoF, dict(data=data, doppler=point, amplitude=amplitude, window=window)),
        "prepare": (
            jfstat.prepare,
            dict(
                sfts=sfts, fmin=99.9999, fmax=100.0001, reftime=START, sqrt_sx=None, ephemeris="DE405", guard=0.5,
                segments=2, orbit=None, fdots=[(-1e-10, 0.0)], filters=True, dfreq=1e-4,
                max_block=900,
            ),
        ),
        "psd": (
            jfstat.psd,
            dict(
                sfts=sfts, fmin=99.9, fmax=100.1, median_bins=101, over_sfts="harmmean", over_detectors="harmsum",
                bin_size=1, over_bins="arithmedian",
            ),
        ),
        "read_candidates": (jfstat.read_candidates, dict(path=candidates)),
        "read_lines": (jfstat.read_lines, dict(path=tmp_path / "L1lines.csv", detector="L1", extra_width=0.0)),
        "read_par": (jfstat.read_par, dict(path=tmp_path / "a.par")),
        "read_pulsars": (jfstat.read_pulsars, dict(paths=tmp_path / "a.par")),
        "read_sfdb": (
            jfstat.read_sfdb,
            dict(
                pattern=str(tmp_path / "a.SFDB09"), fmin=0.01, fmax=0.05, detectors="H1", start=START, end=START + 9000,
                segments=[(START, START + 9000)], zeros=0.1,
            ),
        ),
        "read_sfts": (
            jfstat.read_sfts,
            dict(
                pattern=str(folder), detectors=["H1"], start=START, end=START + 9000, fmin=99.0, fmax=101.0,
                check_crc=True,
            ),
        ),
        "find_sfts": (
            jfstat.find_sfts,
            dict(pattern=str(folder), detectors=["H1"], start=START, end=START + 9000, check_crc=True),
        ),
        "read_templates": (jfstat.read_templates, dict(path=candidates)),
        "read_atoms": (jfstat.read_atoms, dict(path=atom_file, detectors=["H1", "L1"], duration=1800.0)),
        "refine": (
            jfstat.refine,
            dict(
                data=data, found=found[:1], optimizer=None, fit=jfstat.Fit(["freq"], mismatch=0.3, bins=2.0),
                merge=False, model=None, transient=None, progress=False,
            ),
        ),
        "resample": (jfstat.resample, one),
        "search": (
            jfstat.search,
            dict(
                data=data, bank=bank, statistic=jfstat.TwoF(), top=2, threshold=None, checkpoint=None, progress=False,
                keep=jfstat.Keep(), details=jfstat.Details(), run=jfstat.Run(),
            ),
        ),
        "plan_search": (
            jfstat.plan_search,
            dict(
                data=data, bank=bank, statistic=jfstat.TwoF(), top=2, threshold=None, checkpoint=None, progress=False,
                keep=jfstat.Keep(), details=jfstat.Details(), run=jfstat.Run(),
            ),
        ),
        "Keep": (
            jfstat.Keep,
            dict(ranking="F", bsgl_threshold=None, cluster=None, lines=None, veto_lines=False, bounds=None),
        ),
        "Details": (jfstat.Details, dict(per_detector=True, amplitudes=None, line_prior=None)),
        "Run": (jfstat.Run, dict(mesh=None, batch_size=1, unit=None, engine=None)),
        "Interpolated": (jfstat.Interpolated, dict(mismatch=0.2)),
        "BestPath": (jfstat.BestPath, dict(transitions=1, amplitude=None)),
        "BSGL": (jfstat.BSGL, dict(line_prior=prior)),
        "BSGLtL": (jfstat.BSGLtL, dict(line_prior=prior)),
        "search_template": (
            jfstat.search_template,
            dict(data=near, top=1, threshold=None, keep=jfstat.Keep(), details=jfstat.Details(), units=False),
        ),
        "Transient": (
            jfstat.Transient,
            dict(windows=jfstat.TransientRange("rectangular", START + np.arange(2) * 1800.0, [3600.0]), ranking="F"),
        ),
        "search_pulsars": (jfstat.search_pulsars, solution),
        "hardware_injections": (jfstat.hardware_injections, dict(run="O3")),
        "hardware_injection_sfts": (
            jfstat.hardware_injection_sfts,
            dict(
                paths=injected, run="O2", detectors=["H1"], channel=None, tsft=60, quality=jfstat.DataQuality(["DATA"]),
                conditioning=jfstat.Conditioning("hann", highpass=1.0),
            ),
        ),
        "check_hardware_injections": (
            jfstat.check_hardware_injections,
            dict(
                sfts=with_injection, run="O2", sqrt_sx=jfstat.Noise(off_source=10), ephemeris="DE405", guard=0.3,
                tolerance=0.1, progress=False,
            ),
        ),
        "search_pulsars in bands": (jfstat.search_pulsars, solution | dict(band=jfstat.PulsarBand(1e-4))),
        "mean_twoF": (jfstat.mean_twoF, dict(segments=segments, point=point)),
        "semicoherent_amplitude": (jfstat.semicoherent_amplitude, dict(segments=segments, point=point)),
        "semicoherent_fstat": (jfstat.semicoherent_fstat, dict(segments=segments, point=point)),
        "sum_twoF": (jfstat.sum_twoF, dict(segments=segments, point=point)),
        "sensitivity": (
            jfstat.sensitivity,
            dict(data=data, threshold=50.0, population=None, confidence=0.9, mismatch=0.1, samples=10, seed=1),
        ),
        "sensitivity_depth": (jfstat.sensitivity_depth, dict(data=data, h0=1e-24)),
        "sfts_from_strain": (
            jfstat.sfts_from_strain,
            dict(
                series=strain, detector="H1", tsft=1800, fmin=2.0, fmax=5.0, timestamps=[START],
                conditioning=jfstat.Conditioning(highpass=1.0, gating=gating),
            ),
        ),
        "sfts_from_frames": (
            jfstat.sfts_from_frames,
            dict(
                paths=frames, channel=None, detector="H1", tsft=60, fmin=2.0, fmax=5.0,
                quality=jfstat.DataQuality(["DATA"]), conditioning=jfstat.Conditioning(highpass=1.0, gating=gating),
            ),
        ),
        "simulate_sfts": (
            jfstat.simulate_sfts,
            dict(
                detectors=["H1"], start=START, duration=3600, fmin=99.9, fmax=100.1, tsft=1800, sqrt_sx=4e-24,
                signals=[(point, amplitude)], window="rectangular", seed=0, ephemeris="DE405",
            ),
        ),
        "simulate_sfts at times": (
            jfstat.simulate_sfts, dict(detectors=["H1"], fmin=99.9, fmax=100.1, timestamps=[START, START + 1800])
        ),
        "spectrogram": (jfstat.spectrogram, dict(sfts=sfts, fmin=99.9, fmax=100.1, median_bins=101)),
        "split_sfts": (
            jfstat.split_sfts,
            dict(
                pattern=str(folder), directory=tmp_path / "split", width=0.5, overlap=0.0, fmin=99.0, fmax=101.0,
                detectors=["H1"], start=START, end=START + 9000, comment="x", description="x",
            ),
        ),
        "template_bank": (
            jfstat.template_bank,
            dict(alpha=1.0, delta=0.3, f1dot=(-1e-9, 0, 1e-9), f2dot=0.0, f3dot=0.0, orbit=None, data=data),
        ),
        "template_bank by the metric": (
            jfstat.template_bank,
            dict(
                alpha=(1.0, 1.01), delta=(0.3, 0.31), f1dot=(-1e-9, 0), data=data, freq=(100.0, 100.1), mismatch=0.5,
                region=None, strict=False,
            ),
        ),
        "bank_size": (
            jfstat.bank_size,
            dict(data=data, mismatch=0.5, freq=(100.0, 100.1), alpha=1.0, delta=0.3, f1dot=(-1e-9, 0)),
        ),
        "lattice_bank": (
            jfstat.lattice_bank, dict(data=data, point=point, ranges={"f1dot": (-1e-9, 0.0)}, mismatch=0.5)
        ),
        "lattice_size": (
            jfstat.lattice_size, dict(data=data, point=point, ranges={"f1dot": (-1e-9, 0.0)}, mismatch=0.5)
        ),
        "remnant_bank": (
            jfstat.remnant_bank,
            dict(
                data=data, point=jfstat.Doppler(1.0, 0.3, [100.0]), f1dot=(-1.01e-6, -1e-6), braking_index=(3.0, 5.0),
                mismatch=0.5, band=(99.9, 100.0), change=0.0, knots=None,
            ),
        ),
        "piecewise_model": (
            jfstat.piecewise_model,
            dict(knots=[0.0, 1e4], drift=[0.0, -0.1], f1dot=[-1e-5, -1e-5], f2dot=[0.0, 0.0]),
        ),
        "braking_evolution": (
            jfstat.braking_evolution, dict(freq=100.0, f1dot=-1e-5, braking_index=5.0, time=[0.0, 1e4])
        ),
        "background": (
            jfstat.background,
            dict(
                data=longer, bank=bank[0], statistic=None, positions=10, checkpoint=None, progress=False, lines=lines,
                run=jfstat.Run(),
            ),
        ),
        "comb": (jfstat.comb, dict(spacing=0.5, harmonics=[200], h0=1e-24, offset=0.0, detectors=["H1"])),
        "background_positions": (jfstat.background_positions, dict(data=longer, bank=bank[0], positions=10)),
        "empirical_false_alarm": (jfstat.empirical_false_alarm, dict(found=longest, background=measured)),
        "empirical_thresholds": (jfstat.empirical_thresholds, dict(background=measured, false_alarm=0.1)),
        "search_setups": (
            jfstat.search_setups,
            dict(
                observations=segments, mismatch=[0.5], bank=dict(alpha=1.0, delta=0.3, freq=(100.0, 100.1)),
                seconds=1e-9, population=None, false_alarm=0.01, progress=False,
            ),
        ),
        "template_bank by age": (
            jfstat.template_bank,
            dict(
                alpha=1.0, delta=0.3, f1dot=jfstat.Braking(3e10, (2, 7)), data=data, freq=(99.9, 100.1), mismatch=0.5,
            ),
        ),
        "transient_map": (
            jfstat.transient_map, dict(atoms=parts, window=lambda x: x, t0=[START], tau=[7200.0], end=2.0)
        ),
        "transient_null": (jfstat.transient_null, dict(atoms=parts, windows=windows, ranking="BtSG", seed=1)),
        "NullDistribution.false_alarm": (loudest.false_alarm, dict(value=[20.0], n_trials=2)),
        "NullDistribution.threshold": (loudest.threshold, dict(false_alarm=0.1, n_trials=2)),
        "transient_twoF": (jfstat.transient_twoF, one | dict(window=window)),
        "windowed": (jfstat.windowed, dict(data=data, window=window)),
        "transient_twoF of atoms": (jfstat.transient_twoF, dict(data=parts, point=None, window=window)),
        "twoF": (jfstat.twoF, one),
        "twoF of narrow data": (jfstat.twoF, dict(data=near, point=point)),
        "twoF_band": (jfstat.twoF_band, one | dict(series=jfstat.resample(data, point))),
        "AmplitudePrior": (
            jfstat.AmplitudePrior,
            dict(h0=jfstat.HalfNormal(1e-24), cosi=jfstat.Normal(0.5, 0.1), psi=jfstat.Uniform(0.0, 0.1)),
        ),
        "DualHarmonicAmplitude": (
            jfstat.DualHarmonicAmplitude, dict(c21=1e-24, c22=1e-24, cosi=0.5, psi=0.1, phi21=1.0, phi22=2.0)
        ),
        "DualHarmonicPrior": (
            jfstat.DualHarmonicPrior,
            dict(
                c21=jfstat.HalfNormal(1e-24), c22=jfstat.Uniform(0.0, 1e-24), cosi=jfstat.Normal(0.5, 0.1), psi=0.1,
            ),
        ),
        "Exponential": (jfstat.Exponential, dict(mu=1e-7)),
        "dual_harmonic_posterior": (
            jfstat.dual_harmonic_posterior,
            dict(
                data21=half, point21=below, data22=data, point22=point, prior=jfstat.DualHarmonicPrior(),
                key=jax.random.key(1), samples=10,
            ),
        ),
        "ellipticity_likelihoods": (jfstat.ellipticity_likelihoods, dict(found=limits, moment=1e38)),
        "timing_errors": (
            jfstat.timing_errors, dict(pulsar=pulsar, start=START, end=START + 86400, harmonic=2.0)
        ),
        "Cosine": (jfstat.Cosine, dict(minimum=-0.5, maximum=0.5)),
        "FermiDirac": (jfstat.FermiDirac, dict(mu=1e-24, sigma=1e-25)),
        "HalfNormal": (jfstat.HalfNormal, dict(sigma=1e-24)),
        "LogUniform": (jfstat.LogUniform, dict(minimum=1e-27, maximum=1e-24)),
        "Normal": (jfstat.Normal, dict(mu=0.5, sigma=0.1, minimum=0.0, maximum=1.0)),
        "Uniform": (jfstat.Uniform, dict(minimum=0.0, maximum=1.0)),
        "amplitude_posterior": (
            jfstat.amplitude_posterior, one | dict(prior=jfstat.AmplitudePrior(), key=jax.random.key(1), samples=10)
        ),
        "ellipticity": (jfstat.ellipticity, dict(h0=1e-26, freq=100.0, distance=1.0, moment=1e38)),
        "spin_down_limit": (jfstat.spin_down_limit, dict(freq=100.0, f1dot=-1e-10, distance=1.0, moment=1e38)),
        "antenna_patterns": (
            jfstat.antenna_patterns, dict(detectors=["H1"], point=point, times=[START, START + 60], hypothesis="vector")
        ),
        "polarisation_fstat": (jfstat.polarisation_fstat, one | dict(hypothesis="vector")),
        "log_polarisation_bstat": (jfstat.log_polarisation_bstat, one | dict(scale=1e-24, hypothesis="scalar")),
        "polarisation_table": (
            jfstat.polarisation_table, dict(data=data, points=point, scale=jfstat.LogUniform(1e-26, 1e-23))
        ),
        "track_power": (
            jfstat.track_power,
            dict(data=jfstat.normalise(sfts), points=point, progress=False),
        ),
        "normalise": (
            jfstat.normalise,
            dict(sfts=sfts, fmin=100.0, fmax=100.01, dfreq=1 / 3600, bins=2, sqrt_sx=4e-24, ephemeris="DE405"),
        ),
        "TrackPower": (jfstat.TrackPower, {}),
        "log_bstat": (jfstat.log_bstat, one | dict(prior=jfstat.AmplitudePrior())),
        "log_likelihood": (
            jfstat.log_likelihood,
            dict(
                data=data, doppler=point, amplitude=amplitude, per_detector=True, energy=jfstat.noise_energy(data),
            ),
        ),
        "noise_energy": (jfstat.noise_energy, dict(data=data)),
        "model": (
            jfstat.model,
            one | dict(
                priors={"freq": jfstat.Uniform(99.99999, 100.00001)},
                amplitude=jfstat.AmplitudePrior(h0=jfstat.HalfNormal(1e-24)), marginalised=True, energy=None,
            ),
        ),
        "to_bilby": (
            jfstat.to_bilby,
            dict(model=jfstat.model(data, point, {"freq": jfstat.Uniform(99.99999, 100.00001)})),
        ),
        "pulsar_posteriors": (
            jfstat.pulsar_posteriors,
            dict(
                sfts=sfts, pulsars=pulsar, prior=jfstat.AmplitudePrior(), credibility=0.9,
                sqrt_sx=jfstat.Noise(off_source=10), ephemeris="DE405", guard=0.5, progress=False,
            ),
        ),
        "path_upper_limit": (
            jfstat.path_upper_limit,
            dict(
                segments=segments, threshold=60.0, transitions=1, population=None, confidence=0.6, mismatch=0.1,
                injections=10, seed=1,
            ),
        ),
        "transient_upper_limit": (
            jfstat.transient_upper_limit,
            dict(
                data=data, threshold=50.0, windows=jfstat.TransientRange("rectangular", [START + 0.0], [7200.0]),
                population=None, confidence=0.6, mismatch=0.1, injections=10, seed=1,
            ),
        ),
        "upper_limit": (
            jfstat.upper_limit,
            dict(
                data=data, threshold=50.0, population=None, confidence=0.6, mismatch=0.1, injections=10, seed=1,
            ),
        ),
        "validate_sfts": (jfstat.validate_sfts, dict(path=next(folder.iterdir()))),
        "forward_backward": (jfstat.forward_backward, likelihoods),
        "log_likelihood_by_segment": (jfstat.log_likelihood_by_segment, bands | dict(amplitude=amplitude)),
        "track": (jfstat.track, dict(segments=segments, point=point, transitions=1, amplitude=amplitude)),
        "twoF_by_segment": (jfstat.twoF_by_segment, bands),
        "viterbi": (jfstat.viterbi, likelihoods),
        "viterbi_null": (
            jfstat.viterbi_null,
            dict(segments=segments, point=point, transitions=1, n_frequencies=100, amplitude=amplitude, seed=0),
        ),
        "whiten": (jfstat.whiten, one | dict(parameters=["freq", "alpha", "delta"], bounded=["freq"])),
        "write_atoms": (jfstat.write_atoms, dict(atoms=parts, path=tmp_path / "atoms")),
        "write_candidates": (jfstat.write_candidates, dict(table=found, path=tmp_path / "written.ecsv")),
        "write_psd": (jfstat.write_psd, dict(table=jfstat.psd(sfts, 99.9, 100.1), path=tmp_path / "psd.txt")),
        "write_loudest": (jfstat.write_loudest, dict(data=data, found=found, path=tmp_path / "loudest")),
        "write_templates": (jfstat.write_templates, dict(table=found, path=tmp_path / "templates.txt")),
        "write_transient_maps": (
            jfstat.write_transient_maps,
            dict(data=data, points=found[:1], path=tmp_path / "map.txt", transient=windows),
        ),
        "write_transient_maps_files": (
            jfstat.write_transient_maps_files,
            dict(
                files=jfstat.find_sfts(str(folder)), points=found[:1], path=tmp_path / "maps.txt", transient=windows,
                sqrt_sx=4e-24, ephemeris="DE405", guard=0.5,
            ),
        ),
        "write_frames": (
            jfstat.write_frames,
            dict(sfts=low, directory=tmp_path / "frames", channels=["H1:X", "L1:X"], description="x", sources=[]),
        ),
        "write_sfts": (
            jfstat.write_sfts,
            dict(
                sfts=sfts, directory=tmp_path / "out", merge=True, comment="x", description="x", name_band=True,
                sources=[tmp_path / "a.sft"],
            ),
        ),
    }  # fmt: skip
    # what writes comes last, or others would read what it wrote
    return dict(sorted(calls.items(), key=lambda call: call[0].startswith("write")))


def arguments_of(function: object) -> list[str]:
    """Names of a function's arguments."""
    return [name for name in inspect.signature(function).parameters if name not in ("self", "args", "kwargs")]
