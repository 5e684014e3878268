"""Users' mistakes: each raises ValueError with one sentence that names what was wrong and what to do."""

import subprocess
import sys
from pathlib import Path

import astropy.units as u
import jax.numpy as jnp
import numpy as np
import pytest
from astropy.table import QTable
from cases import make

import jfstat

START = 1_167_458_304


@pytest.fixture(scope="module")
def sfts():
    return jfstat.simulate_sfts(["H1", "L1"], START, 4 * 1800, fmin=98.5, fmax=101.5)


@pytest.fixture(scope="module")
def case():
    return make(100.0, seed=1)


def zeroed(sfts, n):
    data = sfts["H1"].data.copy()
    data[n] = 0
    h1 = jfstat.sfts.SFTSeries("H1", sfts["H1"].gps, sfts["H1"].gps_ns, data)
    return jfstat.SFTs((h1, sfts["L1"]), sfts.tsft, sfts.first_bin)


PREPARE = {
    "fmin above fmax": (dict(fmin=100.5, fmax=100.0), "fmin.*fmax"),
    "negative fmin": (dict(fmin=-1.0, fmax=100.0), "fmin"),
    "nan": (dict(fmin=np.nan, fmax=100.0), "fmin"),
    "not a number": (dict(fmin="a", fmax=100.0), "fmin"),
    "a truth value": (dict(fmin=True, fmax=100.0), "fmin must be a frequency in Hz, not True"),
    "a number as text": (dict(fmin=99.9, fmax="100.0"), "fmax must be a frequency in Hz, not '100.0'"),
    "wrong unit": (dict(fmin=1 * u.m, fmax=100.0), "fmin"),
    "band below the files": (dict(fmin=98.0, fmax=99.0), "SFTs cover"),
    "band above the files": (dict(fmin=101.0, fmax=102.0), "SFTs cover"),
    "no room for Doppler shifts": (dict(fmin=98.5, fmax=101.0), "Doppler"),
    "negative guard": (dict(fmin=100.0, fmax=100.5, guard=-1), "guard"),
    "unknown ephemeris": (dict(fmin=100.0, fmax=100.5, ephemeris="DE999"), "ephemeris.*DE999"),
    "missing ephemeris files": (dict(fmin=100.0, fmax=100.5, ephemeris=("no.dat", "no2.dat")), "does not exist"),
    "sqrt_sx of the wrong length": (dict(fmin=100.0, fmax=100.5, sqrt_sx=[1e-23]), "sqrt_sx"),
    "sqrt_sx without a detector": (dict(fmin=100.0, fmax=100.5, sqrt_sx={"H1": 1e-23}), "L1"),
    "sqrt_sx zero": (dict(fmin=100.0, fmax=100.5, sqrt_sx=0.0), "sqrt_sx"),
    "fdots reversed": (dict(fmin=100.0, fmax=100.5, fdots=[(0.0, -1e-9)]), "fdots"),
    "fdots without ranges": (dict(fmin=100.0, fmax=100.5, fdots=[-1e-9]), "fdots"),
    "orbit of another kind": (dict(fmin=100.0, fmax=100.5, orbit=3), "orbit"),
    "sqrt_sx in another unit": (dict(fmin=100.0, fmax=100.5, sqrt_sx=[1 * u.m] * 2), "sqrt_sx"),
    "broken reference time": (dict(fmin=100.0, fmax=100.5, reftime=float("inf")), "reftime"),
}


def one_sentence(error):
    text = str(error.value)
    assert "\n" not in text
    assert text.endswith(".")
    return True


@pytest.mark.parametrize("name", PREPARE)
def test_prepare(sfts, name):
    arguments, message = PREPARE[name]
    with pytest.raises((OSError, TypeError, ValueError), match=message) as error:
        jfstat.prepare(sfts, **arguments)
    assert one_sentence(error)


def test_prepare_refuses_other_things_than_sfts():
    with pytest.raises(TypeError, match=r"sfts must be SFTs") as error:
        jfstat.prepare("data/*.sft", 100, 101)
    assert one_sentence(error)


def test_all_zero_sft_has_no_noise_floor(sfts):
    with pytest.raises(ValueError, match=f"H1 at GPS {START + 3600}") as error:
        jfstat.prepare(zeroed(sfts, 2), 100.0, 100.5)
    assert one_sentence(error)
    jfstat.prepare(zeroed(sfts, 2), 100.0, 100.5, sqrt_sx=4e-24)  # with a given floor it is data like any other


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bins_that_are_not_finite(sfts, value):
    data = sfts["H1"].data.copy()
    data[1, 2700] = value
    h1 = jfstat.sfts.SFTSeries("H1", sfts["H1"].gps, sfts["H1"].gps_ns, data)
    broken = jfstat.SFTs((h1, sfts["L1"]), sfts.tsft, sfts.first_bin)
    for sqrt_sx in (None, 4e-24):
        with pytest.raises(ValueError, match=f"H1 at GPS {START + 1800}.*not finite") as error:
            jfstat.prepare(broken, 100.0, 100.5, sqrt_sx=sqrt_sx)
        assert one_sentence(error)


def test_too_few_bins_for_the_median():
    narrow = jfstat.simulate_sfts("H1", START, 3600, fmin=99.98, fmax=100.03)
    with pytest.raises(ValueError, match="101") as error:
        jfstat.prepare(narrow, 99.999, 100.001)
    assert one_sentence(error)


@pytest.mark.parametrize("start", [600_000_000, 1_895_000_000])
def test_times_outside_the_ephemeris(start):
    sfts = jfstat.simulate_sfts("H1", start, 3600, fmin=98.5, fmax=101.5)
    with pytest.raises(ValueError, match=r"ephemeris.*covers GPS") as error:
        jfstat.prepare(sfts, 100, 100.5)
    assert one_sentence(error)


ROWS = [f"{START + 7200 * (k - 13)} 499 0 0 0 1e-4 0 0 0 0\n" for k in range(27)]


@pytest.mark.parametrize(
    ("header", "rows", "reason"),
    [
        ("630720013 7200 3", ["1 2 3\n"], "its header does not fit its rows"),
        (f"{START - 13 * 7200} 7200 28", ROWS, "its header does not fit its rows"),
        (f"{START - 13 * 7200} 7200 27", [*ROWS[:13], "1 2 3\n", *ROWS[14:]], "a row does not hold ten numbers"),
        (f"{START - 13 * 7200} 7200 27", [ROWS[0], *(x.replace("499", "nan") for x in ROWS[1:])], "is not finite"),
        (f"{START - 13 * 7200} 7200 26", [*ROWS[:9], *ROWS[10:]], "are not 7200 s apart"),
        (f"{START - 13 * 7200} 7100 27", ROWS, "are not 7100 s apart"),
        (f"{START - 13 * 7200} 1e-320 27", ROWS, "infinity"),
    ],
)
def test_damaged_ephemeris_file(sfts, tmp_path, header, rows, reason):
    bad = tmp_path / "earth.dat"
    bad.write_text(f"# comment\n{header}\n{''.join(rows)}")
    with pytest.raises(ValueError, match=rf"earth\.dat is not an ephemeris file.*{reason}") as error:
        jfstat.prepare(sfts, 100, 100.5, ephemeris=(bad, bad))
    assert one_sentence(error)


DOPPLER = {
    "no fkdot": (dict(alpha=1.0, delta=0.0), "fkdot"),
    "scalar fkdot": (dict(alpha=1.0, delta=0.0, fkdot=100.0), "brackets"),
    "empty fkdot": (dict(alpha=1.0, delta=0.0, fkdot=[]), "fkdot"),
    "delta beyond the pole": (dict(alpha=1.0, delta=2.0, fkdot=[100.0]), "delta"),
    "text": (dict(alpha="x", delta=0.0, fkdot=[100.0]), "alpha"),
    "nan": (dict(alpha=np.nan, delta=0.0, fkdot=[100.0]), "alpha"),
    "reftime": (dict(alpha=0.0, delta=0.0, fkdot=[1.0], reftime="next week"), "reftime"),
    "orbit of another kind": (dict(alpha=0.0, delta=0.0, fkdot=[1.0], orbit=3), "orbit"),
    "both sky and delta": (dict(delta=0.0, sky=1, fkdot=[1.0]), "sky"),
}


def test_kinds_of_errors(sfts, case, tmp_path):
    nowhere, p = tmp_path / "nowhere", case.doppler
    table = jfstat.search(case.data, p, top=1, progress=False)
    (tmp_path / "list").write_text(f"{nowhere}.sft\n")
    for kind, call in [
        (FileNotFoundError, lambda: jfstat.read_sfts(nowhere)),
        (FileNotFoundError, lambda: jfstat.read_sfts(f"list:{nowhere}")),
        (FileNotFoundError, lambda: jfstat.read_sfts(f"list:{tmp_path / 'list'}")),
        (FileNotFoundError, lambda: jfstat.read_candidates(nowhere)),
        (FileNotFoundError, lambda: jfstat.write_candidates(table, nowhere / "found.ecsv")),
        (IsADirectoryError, lambda: jfstat.search(case.data, p, checkpoint=tmp_path, progress=False)),
        (FileNotFoundError, lambda: jfstat.search(case.data, p, checkpoint=nowhere / "x", progress=False)),
        (FileNotFoundError, lambda: jfstat.prepare(sfts, 99.9, 100.1, ephemeris=(nowhere, nowhere))),
        (TypeError, lambda: jfstat.read_sfts(3)),
        (TypeError, lambda: jfstat.join_sfts([sfts, 3])),
        (TypeError, lambda: jfstat.prepare(3, 99.9, 100.1)),
        (TypeError, lambda: jfstat.prepare(sfts, 99.9, 100.1, orbit=3)),
        (TypeError, lambda: jfstat.Doppler(0.0, 0.0, [100.0], orbit=3)),
        (TypeError, lambda: jfstat.template_bank(0.0, 0.0, orbit=3)),
        (TypeError, lambda: jfstat.twoF(3, p)),
        (TypeError, lambda: jfstat.twoF(case.data, 3)),
        (TypeError, lambda: jfstat.search(case.data, 3, progress=False)),
        (TypeError, lambda: jfstat.search(case.data, p, progress=False, run=jfstat.Run(mesh=3))),
        (TypeError, lambda: jfstat.refine(case.data, 3, progress=False)),
        (TypeError, lambda: jfstat.Fit(bounds=3)),
    ]:
        with pytest.raises(kind) as error:
            call()
        assert one_sentence(error)


@pytest.mark.parametrize("name", DOPPLER)
def test_doppler(name):
    arguments, message = DOPPLER[name]
    with pytest.raises((TypeError, ValueError), match=message) as error:
        jfstat.Doppler(**arguments)
    assert one_sentence(error)


@pytest.mark.parametrize(
    ("make_it", "message"),
    [
        (lambda: jfstat.Orbit(1.0, -5.0, 0.0), "period"),
        (lambda: jfstat.Orbit(-1.0, 5e4, 0.0), "asini"),
        (lambda: jfstat.Orbit(1.0, 5e4, 0.0, ecc=1.0), "ecc"),
        (lambda: jfstat.Orbit(1.0, 5e4, np.inf), "tp"),
        (lambda: jfstat.Orbit(100.0, 500.0, 0.0), "slower than light"),
        (lambda: jfstat.Amplitude(1e-24, 0.0, psi=np.nan), "psi"),
        (lambda: jfstat.Amplitude(-1e-24, 0.0), "h0"),
        (lambda: jfstat.Amplitude(1e-24, 1.5), "cosi"),
        (lambda: jfstat.Amplitude(1e-24, True), "cosi must be a number"),
        (lambda: jfstat.Amplitude(1e-24, np.array(["0.5"], object)), "cosi must be a number"),
        (lambda: jfstat.simulate_sfts(["H1"], START, 3600, fmin=101, fmax=100), "fmin"),
        (lambda: jfstat.simulate_sfts(["Q9"], START, 3600, fmin=99, fmax=100), "Q9"),
        (lambda: jfstat.simulate_sfts(["H1", "H1"], START, 3600, fmin=99, fmax=100), "detectors"),
        (lambda: jfstat.simulate_sfts(["H1"], START, 100, fmin=99, fmax=100), "duration"),
        (lambda: jfstat.simulate_sfts(["H1"], fmin=99, fmax=100), "start"),
        (lambda: jfstat.simulate_sfts(["H1"], timestamps=[START, START + 60], fmin=99, fmax=100), "timestamps"),
        (lambda: jfstat.simulate_sfts(["H1"], timestamps={"L1": [START]}, fmin=99, fmax=100), "timestamps"),
        (lambda: jfstat.observation(["H1"], timestamps=[START, 1e300]), "timestamps"),
        (lambda: jfstat.observation(["H1"], timestamps=[[START, 0], [10**17, 0]]), "timestamps"),
        (lambda: jfstat.simulate_sfts(["H1"], START, 3600, fmin=99, fmax=100, window="welch"), "window"),
        (lambda: jfstat.simulate_sfts(["H1"], START, 3600, fmin=99, fmax=100, signals=[1]), "signals"),
        (
            lambda: jfstat.simulate_sfts(
                ["H1"], START, 3600, fmin=99, fmax=100,
                signals=[(jfstat.Doppler(1.0, 0.5, [150.0]), jfstat.Amplitude(1e-24, 0.3))],
            ),
            "150",
        ),
    ],
)  # fmt: skip
def test_constructors_and_simulation(make_it, message):
    with pytest.raises(ValueError, match=message) as error:
        make_it()
    assert one_sentence(error)


def test_templates_that_do_not_fit_the_data(case):
    p, data = case.doppler, case.data
    stack = jfstat.Doppler(jnp.ones(3), jnp.ones(3), jnp.ones((3, 1)) * 100)
    tight = jfstat.Doppler(p.alpha, p.delta, [100.0], orbit=jfstat.Orbit(0.008, 60.0, START))
    wide = jfstat.Doppler(p.alpha, p.delta, [100.0], orbit=jfstat.Orbit(20.0, 8000.0, START))
    for arguments, message in [
        ((data, stack), "vmap"),
        ((data, 3), "point must be"),
        (("data", p), "data must be"),
        ((data, jfstat.Doppler(p.alpha, p.delta, [50.0])), "outside the data's band"),
        ((data, tight), "turns too fast"),
        ((data, wide), "leaves the data's band"),
    ]:
        for function in (jfstat.twoF, jfstat.fstat, jfstat.twoF_band, jfstat.estimate_amplitude):
            if function is jfstat.twoF_band and "outside" in message:
                continue  # the band does not look at the template's own frequency
            kind = TypeError if "must be" in message else ValueError
            with pytest.raises(kind, match=message) as error:
                function(*arguments)
            assert one_sentence(error)


RESULTS = (
    "AmplitudeEstimate",
    "AtomSizes",
    "Atoms",
    "Coordinates",
    "Fstat",
    "FstatData",
    "NarrowData",
    "NarrowSizes",
    "NoiseEnergy",
    "Observation",
    "Pulsar",
    "SFTs",
    "SearchPlan",
)
RESULTS += ("PathUpperLimit", "TransientUpperLimit", "AmplitudePosterior", "Model", "PulsarPosteriors", "TimingErrors")
RESULTS += ("DualHarmonicPosterior", "EllipticityLikelihoods", "PosteriorDensity")
RESULTS += (
    "PathPosterior",
    "PolarisationFstat",
    "SemicoherentAmplitude",
    "SemicoherentFstat",
    "Track",
    "NormalisedPower",
    "NormalisedSFTs",
    "UpperLimit",
    "ViterbiPath",
)
"""Classes that functions return; users do not call them."""
WITHOUT_JAX = ("Detector", "Ephemeris", "Gating", "SearchStopped")
WITHOUT_JAX += ("BSGL", "BSGLtL", "BestPath", "Interpolated", "MeanTwoF", "Transient", "TwoF", "TransientRange")
WITHOUT_JAX += (
    "Braking",
    "Conditioning",
    "DataQuality",
    "Details",
    "Fit",
    "Keep",
    "LinePrior",
    "Noise",
    "PulsarBand",
    "Run",
)
WITHOUT_JAX += (
    "Stages",
    "Artefact",
    "TrackPower",
    "BroadLine",
    "FloorDrift",
    "Glitches",
    "WanderingLine",
)
"""Classes that hold plain numbers, float64 NumPy arrays or a message, whatever JAX's mode."""
TURNED_OFF = """
import sys, warnings
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)
import jfstat
from wrong_kinds import sound_calls

calls = sound_calls(Path(sys.argv[1]))
time = jfstat.Doppler(1.0, 0.3, [100.0], 1e9).reftime
calls["GPSTime"] = (time.since, dict(epoch=0))
calls["GPSTime - number"] = (lambda: time - 1, {})
missing = {name for name in jfstat.__all__ if callable(getattr(jfstat, name))}
missing -= {name.split()[0].split(".")[0] for name in calls}
print(*sorted(missing))
jax.config.update("jax_enable_x64", False)
for name, (function, arguments) in calls.items():
    try:
        function(**arguments)
        print(name, "worked")
    except Exception as error:
        if type(error) is not ValueError or not str(error).startswith("jfstat needs JAX in 64-bit mode and it is off"):
            print(name, repr(error))
"""


@pytest.mark.ci
def test_every_public_function_says_that_64_bit_mode_is_off(tmp_path):
    """Also if it was on when data and templates were made: signals were wrong then, without a word."""
    run = subprocess.run(
        [sys.executable, "-c", TURNED_OFF, tmp_path],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1],
    )  # fmt: skip
    missing, *wrong = run.stdout.splitlines()
    assert set(missing.split()) <= {*RESULTS, *WITHOUT_JAX, "use_compile_cache"}  # of which test_import.py has its own
    assert all(line.split()[0].split(".")[0] in ("SFTs", *WITHOUT_JAX) for line in wrong), wrong


def test_64_bit_mode_off_is_said_plainly():
    program = (
        "import jfstat\n"
        "for f in (lambda: jfstat.Doppler(1.0, 0.5, [100.0]), lambda: jfstat.prepare(None, 1, 2), "
        "lambda: jfstat.twoF(None, None)):\n"
        "    try:\n        f()\n        print('nothing')\n    except ValueError as error:\n        print(error)\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert len(out) == 3
    assert all("jax_enable_x64" in line for line in out)


def test_frequencies_in_float32_are_refused(case):
    for field, change in (
        ("fkdot", {"fkdot": jnp.asarray([100.0, -1e-9], jnp.float32)}),
        (r"fkdot\[0\]", {"fkdot": [np.float32(100.0), -1e-9]}),
    ):
        arguments = {"alpha": 1.0, "delta": 0.3, "fkdot": [100.0, np.float32(-1e-9)]} | change
        with pytest.raises(ValueError, match=rf"{field} must be float64, not float32") as error:
            jfstat.Doppler(**arguments)
        assert one_sentence(error)
    table = QTable({"freq": np.full(2, 100.0, np.float32), "alpha": [1.0, 1.0], "delta": [0.3, 0.3]})
    with pytest.raises(ValueError, match="column 'freq' in float32") as error:
        jfstat.refine(case.data, table, progress=False)
    assert one_sentence(error)


def test_ranges_of_orbits_have_no_natural_step(case):
    ranges = {"asini": (1.0, 2.0), "period": 1e5, "tp": START}
    with pytest.raises(ValueError, match=r"orbit asini has no natural step: give \(low, high, step\), or a mismatch"):
        jfstat.template_bank(1.0, 0.3, orbit=ranges, data=case.data)


def remade(sfts, **fields):
    """The SFTs with other fields of H1's, made in memory without a reader's checks."""
    h1 = {"gps": sfts["H1"].gps, "gps_ns": sfts["H1"].gps_ns, "data": sfts["H1"].data}
    whole = {"tsft": sfts.tsft, "first_bin": sfts.first_bin}
    whole |= {name: fields.pop(name) for name in tuple(fields) if name in whole}
    series = (jfstat.sfts.SFTSeries("H1", **(h1 | fields)), sfts["L1"])
    return jfstat.SFTs(series, **whole)


MADE = {
    "a detector twice": (lambda s: jfstat.SFTs((s["H1"], s["H1"]), s.tsft, s.first_bin), "hold the detector H1 twice"),
    "equal times": (lambda s: remade(s, gps=s["H1"].gps[[0, 0, 2, 3]]), "H1 are not in order.*is not after"),
    "unsorted times": (lambda s: remade(s, gps=s["H1"].gps[::-1]), "H1 are not in order.*is not after"),
    "overlap": (lambda s: remade(s, gps=s["H1"].gps[0] + 1799 * np.arange(4)), "H1 are not in order.*overlaps with"),
    "times that are floats": (lambda s: remade(s, gps=s["H1"].gps.astype(float)), "gps of shape .n_sfts,., whole"),
    "fewer times": (lambda s: remade(s, gps=s["H1"].gps[:3]), "gps of shape"),
    "nanoseconds": (lambda s: remade(s, gps_ns=s["H1"].gps_ns - 1), "gps_ns of 0 to 999999999"),
    "real data": (lambda s: remade(s, data=s["H1"].data.real), "data of shape .n_sfts, n_bins., complex"),
    "one SFT's data": (lambda s: remade(s, data=s["H1"].data[0]), "data of shape .n_sfts, n_bins., complex"),
    "other bins": (lambda s: remade(s, data=s["H1"].data[:, :-1]), "different numbers of bins"),
    "NaN tsft": (lambda s: remade(s, tsft=np.nan), "sfts.*tsft must be positive and finite"),
    "text tsft": (lambda s: remade(s, tsft="1800"), "sfts.*tsft must be positive and finite"),
    "first bin": (lambda s: remade(s, first_bin=-3), "first_bin must be a whole number"),
    "no SFT": (lambda s: jfstat.SFTs((), s.tsft, s.first_bin), "hold no SFT"),
}


@pytest.mark.parametrize("name", MADE)
def test_sfts_made_in_memory_are_looked_at_by_all_who_take_them(sfts, name):
    make_it, message = MADE[name]
    broken = make_it(sfts)
    lines = QTable({"detector": ["H1"], "freq": [100.0], "fmin": [99.9], "fmax": [100.1]})
    for call in (
        lambda: jfstat.prepare(broken, 100.0, 100.1),
        lambda: jfstat.prepare(broken, 100.0, 100.1, sqrt_sx=4e-24, segments=2),
        lambda: jfstat.observation(broken),
        lambda: jfstat.inject(broken, []),
        lambda: jfstat.psd(broken),
        lambda: jfstat.spectrogram(broken),
        lambda: jfstat.clean(broken, lines),
        lambda: jfstat.join_sfts([broken]),
    ):
        with pytest.raises((TypeError, ValueError), match=message) as error:
            call()
        assert one_sentence(error)


def test_results_that_are_no_numbers_are_refused(sfts):
    point, loud = jfstat.Doppler(1.0, 0.3, [100.0]), jfstat.Amplitude(1e40, 0.3)
    for call, message in (
        (lambda: jfstat.inject(sfts, [(point, loud)]), "signals: bins are too large for"),
        (lambda: jfstat.simulate_sfts("H1", START, 3600, 99, 101, signals=[(point, loud)]), "signals: bins are too"),
        (lambda: jfstat.simulate_sfts("H1", START, 3600, 99, 101, sqrt_sx=1e40), "sqrt_sx: bins are too large for"),
        (lambda: jfstat.prepare(sfts, 100.0, 100.1, sqrt_sx=1e-50), "sqrt_sx: the SFTs of H1 are so much louder"),
        (lambda: jfstat.prepare(sfts, 100.0, 100.1, sqrt_sx=[4e-24, 1e-100]), "sqrt_sx: the SFTs of L1 are so much"),
    ):
        with pytest.raises(ValueError, match=message) as error:
            call()
        assert one_sentence(error)
