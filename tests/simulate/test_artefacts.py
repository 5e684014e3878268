"""Artefacts against direct sums of their strain, against Makefakedata_v4's lines, and from the command line."""

import numpy as np
import pytest

import jfstat
from jfstat.commandline import main

START, TSFT, LOW, HIGH = 1167458304, 600.0, 20.0, 21.0
RATE = 256
"""Samples/s of the direct sums."""


def empty(window="rectangular", detectors=("H1", "L1")):
    times = START + 600 * np.array([0, 1, 4])
    return jfstat.simulate_sfts(
        list(detectors), fmin=LOW, fmax=HIGH, tsft=TSFT, sqrt_sx=None, timestamps=times, window=window
    )


def drawn(rng):
    """Parameters of an artefact whose frequency stays in the band."""
    period, swing = float(rng.uniform(500, 5000)), float(rng.uniform(0, 20))
    values = dict(freq=float(rng.uniform(20.3, 20.7)), h0=float(rng.uniform(1, 5)), phi0=float(rng.uniform(0, 6)))
    values |= dict(f1dot=float(rng.normal() * 1e-5), reftime=START + float(rng.uniform(-1000, 1000)), period=period)
    return values | dict(swing=swing, swing_phase=float(rng.uniform(0, 6)), varies=bool(rng.integers(2)))


def strain(t, freq, h0, phi0, f1dot, reftime, period, swing, swing_phase, varies):
    """The strain by its definition, at times in s since START."""
    since, turn = t - (reftime - START), 2 * np.pi * ((t + START % period) / period) + swing_phase
    then = 2 * np.pi * ((reftime - START + START % period) / period) + swing_phase
    cycles = freq * since + 0.5 * f1dot * since**2 + swing * (np.sin(turn) - np.sin(then))
    return h0 * np.sin(2 * np.pi * cycles + phi0) * (np.sin(turn) if varies else 1)


def direct(x, start):
    """Bins of strain by a direct sum over samples, of one SFT."""
    t = np.arange(int(TSFT * RATE)) / RATE
    return np.fft.fft(x(t + start))[int(LOW * TSFT) : int(HIGH * TSFT)] / RATE


@pytest.mark.parametrize("seed", range(8))
def test_bins_are_the_fourier_integrals_of_the_strain(seed):
    values = drawn(np.random.default_rng(seed))
    found = jfstat.inject_artefacts(empty(), [jfstat.Artefact(**values)])
    for series in found:
        for row, start in zip(series.data, (0.0, 600.0, 2400.0), strict=True):
            truth = direct(lambda t: strain(t, **values), start)
            assert np.abs(row - truth).max() < 0.01 * np.abs(truth).max()
    assert not any(series.data.any() for series in empty())


@pytest.mark.parametrize("shape", ["rect", "exp"])
def test_artefacts_may_be_transient(shape):
    window = jfstat.TransientWindow(shape, START + 300.0, 400.0)
    found = jfstat.inject_artefacts(empty(), [jfstat.Artefact(20.4321, 2.0, 0.3, reftime=START, window=window)])["H1"]

    def wave(t):
        inside = (t >= 300) & (t < 300 + 400 * (1 if shape == "rect" else 3))
        return inside * (1 if shape == "rect" else np.exp(-(t - 300) / 400)) * 2 * np.sin(2 * np.pi * 20.4321 * t + 0.3)

    for row, start in zip(found.data, (0.0, 600.0, 2400.0), strict=True):
        truth = direct(wave, start)
        assert np.abs(row - truth).max() < 0.01 * np.abs(truth).max() + 1e-12
    assert not found.data[2].any()
    with pytest.raises(ValueError, match=r"^artefacts: the window of the one at 20.4 Hz, .* no part of the SFTs"):
        jfstat.inject_artefacts(empty(), [jfstat.Artefact(20.4, 2.0, window=jfstat.TransientWindow(shape, 1e9, 1.0))])


def test_artefacts_add_and_belong_to_their_detectors():
    one, other = jfstat.Artefact(20.3, 1.0, detectors="H1"), jfstat.Artefact(20.4, 2.0, detectors=["L1"])
    both = jfstat.Artefact(20.5, 1.0)
    together = jfstat.inject_artefacts(empty(), [one, other, both])
    step = jfstat.inject_artefacts(jfstat.inject_artefacts(jfstat.inject_artefacts(empty(), [both]), [other]), [one])
    for a, b in zip(together, step, strict=True):
        np.testing.assert_allclose(a.data, b.data, atol=1e-4)
        power = np.abs(a.data[0])
        assert (power[180] > 290) == (a.detector == "H1") and (power[240] > 590) == (a.detector == "L1")
        assert power[300] > 290


def test_windows_are_applied():
    line = jfstat.Artefact(20.5, 1.0)
    plain, hann = (jfstat.inject_artefacts(empty(x), [line])["H1"].data[0] for x in ("rectangular", "hann"))
    assert abs(plain[300]) == pytest.approx(300, rel=1e-3) and abs(hann[300]) == pytest.approx(
        300 * np.sqrt(2 / 3), rel=1e-2
    )


@pytest.mark.parametrize("seed", range(3))
def test_lines_are_those_of_makefakedata(seed, tmp_path):
    """PyFstat's LineWriter writes these; their phase holds at a time that Makefakedata_v4 chooses."""
    from lalsuite_tools import run

    rng = np.random.default_rng(seed)
    freq, h0 = float(rng.uniform(49.9, 50.1)), float(rng.uniform(1, 3))
    options = dict(IFO="H1", startTime=START, duration=7200, fmin=49.8, Band=0.4, Tsft=1800, Freq=freq, h0=h0, cosi=0)
    run(
        "Makefakedata_v4",
        **options,
        refTime=START,
        lineFeature="TRUE",
        outSingleSFT="TRUE",
        outSFTbname=tmp_path / "x.sft",
    )
    theirs = jfstat.read_sfts(tmp_path / "x.sft")["H1"].data
    sfts = jfstat.simulate_sfts("H1", START, 7200, 49.8, 50.2, sqrt_sx=None)
    own = jfstat.inject_artefacts(sfts, [jfstat.Artefact(freq, h0)])["H1"].data
    turn = np.vdot(own, theirs)
    np.testing.assert_allclose(own * turn / abs(turn), theirs, atol=0.01 * np.abs(theirs).max())


WRONG = {
    "zero": (dict(freq=0.0, h0=1), "must be positive"),
    "negative": (dict(freq=20.0, h0=-1), "not negative"),
    "no swing": (dict(freq=20.0, h0=1, period=100.0), "are of a swing"),
    "no swing's phase": (dict(freq=20.0, h0=1, swing_phase=1.0), "are of a swing"),
    "period": (dict(freq=20.0, h0=1, swing=1.0, period=0.0), "period"),
    "word": (dict(freq="x", h0=1), "freq"),
    "window": (dict(freq=20.0, h0=1, window=jfstat.TransientWindow("rect", [1.0, 2.0], 1.0)), "one window"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_artefacts_are_refused(name):
    values, message = WRONG[name]
    with pytest.raises((ValueError, TypeError), match=message):
        jfstat.Artefact(**values)


def test_artefacts_stay_in_the_band():
    for values in (dict(freq=22.0), dict(freq=20.99, f1dot=1e-4), dict(freq=20.5, swing=500.0, period=3000.0)):
        with pytest.raises(ValueError, match=r"leaves the SFTs' band of 20 to 20.99"):
            jfstat.inject_artefacts(empty(), [jfstat.Artefact(h0=1.0, **values)])
    with pytest.raises(ValueError, match="detectors has V1"):
        jfstat.inject_artefacts(empty(), [jfstat.Artefact(20.5, 1.0, detectors=["V1"])])
    with pytest.raises(TypeError, match="must hold objects such as"):
        jfstat.inject_artefacts(empty(), [(20.5, 1.0)])


def test_the_command_line_adds_artefacts(tmp_path, capsys):
    (tmp_path / "lines.txt").write_text(
        f"[hum]\nFreq = 50.02\nh0 = 1e-22\nphi0 = 0.4\nrefTime = {START}\ndetectors = H1\n"
        "[swinging]\nFreq = 50.1\nh0 = 2e-22\nf1dot = 1e-7\nperiod = 3000\nswing = 5\nswingPhase = 1\nvaries = yes\n"
        f"transientWindowType = rect\ntransientStartTime = {START + 900}\ntransientTauDays = 0.05\n"
    )
    common = ["simulate", "--IFOs=H1,L1", f"--startTime={START}", "--duration=7200", "--fmin=49.9", "--Band=0.4"]
    assert main([*common, f"--outSFTdir={tmp_path}/a", f"--artefacts={tmp_path}/lines.txt", "--sqrtSX=1e-23"]) == 0
    hum = jfstat.Artefact(50.02, 1e-22, 0.4, reftime=START, detectors=["H1"])
    how = dict(f1dot=1e-7, period=3000.0, swing=5.0, swing_phase=1.0, varies=True)
    other = jfstat.Artefact(50.1, 2e-22, window=jfstat.TransientWindow("rect", START + 900, 4320.0), **how)
    noise = jfstat.simulate_sfts(["H1", "L1"], START, 7200, 49.9, 50.3, sqrt_sx=1e-23)
    truth = jfstat.inject_artefacts(noise, [hum, other])
    found = jfstat.read_sfts(tmp_path / "a")
    assert all(np.array_equal(x.data, y.data) for x, y in zip(found, truth, strict=True))
    jfstat.write_sfts(noise, tmp_path / "noise")
    line = ["simulate", f"--noiseSFTs={tmp_path}/noise", f"--outSFTdir={tmp_path}/b"]
    assert main([*line, f"--artefacts={tmp_path}/lines.txt"]) == 0
    found = jfstat.read_sfts(tmp_path / "b")
    assert all(np.array_equal(x.data, y.data) for x, y in zip(found, truth, strict=True))
    for text, message in (
        ("{Freq=50.1}", "h0 must be given"),
        ("{Freq=50.1;h0=1;Alpha=1}", "line 3, 'Alpha=1' is not one of Freq, h0"),
        ("{Freq=50.1;h0=1;varies=maybe}", "'maybe' is not true or false"),
        ("{Freq=50.1;h0=1;period=5}", "are of a swing"),
        ("nothing.txt", "--artefacts: no file matches"),
    ):
        assert main([*line, f"--artefacts={text}"]) == 1
        assert message in capsys.readouterr().err
