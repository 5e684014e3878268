"""Frame files that jfstat writes: LALSuite and jfstat read what they were made of, and signals are added to them."""

from pathlib import Path

import lal
import lalframe
import numpy as np
import pytest

import jfstat
from jfstat.commandline import main, simulate
from jfstat.strain.writing import CHANNEL, strain_of

START = 1_167_458_304
LINE = ["simulate", f"--startTime={START}", "--fmin=40", "--Band=10", "--Tsft=64", "--randSeed=3"]
SIGNAL = ["--Alpha=1.1", "--Delta=0.2", "--Freq=45.01", f"--refTime={START}", "--h0=3e-23", "--cosi=0.3"]


def arrays(sfts):
    return [np.asarray(series.data) for series in sfts]


def made(folder, **changes):
    return jfstat.simulate_sfts(
        **dict(detectors=["H1", "L1"], start=START, duration=320, fmin=40, fmax=50, tsft=64, sqrt_sx=1e-23) | changes
    )


@pytest.mark.parametrize("seed", range(3))
def test_strain_is_read_again_as_the_same_sfts(seed, tmp_path):
    rng = np.random.default_rng(seed)
    gaps = np.repeat(64, 6) + 64 * rng.integers(0, 2, 6)
    times = (START + np.cumsum(gaps)).tolist()
    low = float(rng.integers(0, 100))
    tsft = 60 if seed == 2 else 64
    sfts = jfstat.simulate_sfts(
        ["V1"], fmin=low, fmax=low + rng.uniform(0.5, 40), tsft=tsft, sqrt_sx=1e-23, seed=seed, timestamps={"V1": times}
    )
    files = jfstat.write_frames(sfts, tmp_path)
    runs = 6 if tsft == 60 else 1 + np.count_nonzero(np.diff(times) > 64)
    assert len(files) == runs == len(list(tmp_path.iterdir()))
    flat = jfstat.Conditioning("rectangular")
    band = sfts.first_bin / tsft, (sfts.first_bin + sfts.n_bins) / tsft
    again = jfstat.sfts_from_frames(tmp_path, tsft=tsft, fmin=band[0], fmax=band[1], conditioning=flat)
    assert again.first_bin == sfts.first_bin
    np.testing.assert_array_equal(again["V1"].gps, sfts["V1"].gps)
    (found,), (true,) = arrays(again), arrays(sfts)
    skip = int(sfts.first_bin == 0)  # the mean of real strain is real
    np.testing.assert_allclose(found[:, skip:], true[:, skip:], rtol=0, atol=1e-6 * np.abs(true).max())


def test_lalsuite_reads_the_strain(tmp_path):
    sfts = made(tmp_path)
    files = jfstat.write_frames(sfts, tmp_path, ["L1:LOW", "H1:OTHER-NAME"], description="a_b")
    assert [path.name for path in files] == [f"H-H1_a_b-{START}-320.gwf", f"L-L1_a_b-{START}-320.gwf"]
    for path, name, series in zip(files, ["H1:OTHER-NAME", "L1:LOW"], sfts, strict=True):
        stream = lalframe.FrStreamOpen(str(path.parent), path.name)
        read = lalframe.FrStreamReadREAL8TimeSeries(stream, name, lal.LIGOTimeGPS(START), 320.0, 0)
        assert (read.f0, read.deltaT, read.sampleUnits) == (0, 1 / 128, lal.StrainUnit)
        true = np.concatenate([strain_of(x, sfts.first_bin, 64)[0] for x in np.asarray(series.data)])
        np.testing.assert_array_equal(read.data.data, true)
        # the Fourier integral of a bin, straight from its definition
        t = np.arange(64 * 128) / 128
        for k in (0, 317):
            own = np.sum(read.data.data[: 64 * 128] * np.exp(-2j * np.pi * (40 + k / 64) * t)) / 128
            assert abs(own - np.asarray(series.data)[0, k]) < 1e-6 * np.abs(series.data).max()


@pytest.mark.parametrize(
    "changes, words, message",
    [
        (dict(window="hann"), {}, "of window 'hann'"),
        (dict(tsft=64.5, duration=129), {}, "fractions of a second"),
        (dict(timestamps={x: [START, START + 32] for x in ("H1", "L1")}, start=None, duration=None), {}, "overlap"),
        ({}, dict(description="a b"), "description 'a b' must"),
        ({}, dict(description=""), "description '' must"),
        ({}, dict(channels=["H1:X"]), "must name one channel of each of H1, L1"),
        ({}, dict(channels=["H1:X", "L1:Y", "L1:Z"]), "must name one channel of each of H1, L1"),
        ({}, dict(channels=["H1:X", "L1"]), "must name one channel of each of H1, L1"),
    ],
)
def test_what_cannot_be_written(changes, words, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        jfstat.write_frames(made(tmp_path, **changes), tmp_path / "out", **words)
    assert not (tmp_path / "out").exists()


def test_a_source_is_not_replaced(tmp_path):
    (path, *_) = jfstat.write_frames(made(tmp_path), tmp_path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="read too"):
        jfstat.write_frames(made(tmp_path), tmp_path, sources=path)
    assert path.read_bytes() == before


def test_signals_are_added_to_frames(tmp_path, capsys):
    """What simulate makes in one step, it makes of frames of the noise, and of LALSuite's frames likewise."""
    noise = ["--duration=640", "--IFOs=H1,L1", "--sqrtSX=1e-23"]
    frames, own = tmp_path / "frames", "--inFrChannels=H1:NOISE,L1:NOISE"
    assert (
        main([*LINE, *noise, f"--outFrameDir={frames}", "--outFrChannels=H1:NOISE,L1:NOISE", "--outLabel=noise"]) == 0
    )
    assert sorted(path.name[:11] for path in frames.iterdir()) == ["H-H1_noise-", "L-L1_noise-"]
    assert main([*LINE, *noise, *SIGNAL, f"--outSFTdir={tmp_path}/whole"]) == 0
    line = [word for word in LINE if not word.startswith(("--startTime", "--randSeed"))]
    line += [f"--inFrames={frames}/H*.gwf,{frames}/L*.gwf", own, *SIGNAL]
    assert main([*line, f"--outSFTdir={tmp_path}/added"]) == 0
    whole, added = (jfstat.read_sfts(tmp_path / name) for name in ("whole", "added"))
    for a, b in zip(arrays(whole), arrays(added), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-6 * np.abs(a).max())
    capsys.readouterr()
    assert main([*line, f"--outSFTdir={tmp_path}/part", f"--startTime={START + 64}", "--duration=200"]) == 0
    said = capsys.readouterr().out
    assert "8 s of H1 that fill no SFT of 64 s are left out" in said and "added 1 signal(s)" in said
    part = jfstat.read_sfts(tmp_path / "part")
    np.testing.assert_array_equal(part["L1"].gps, START + 64 + 64 * np.arange(3))
    for a, b in zip(arrays(added), arrays(part), strict=True):
        np.testing.assert_allclose(a[1:4], b, rtol=0, atol=1e-6 * np.abs(b).max())


@pytest.mark.parametrize(
    "words, message",
    [
        (["--inFrames={0}/H*.gwf", "--sqrtSX=1e-23"], "--inFrames already says what --sqrtSX would"),
        (["--inFrames={0}/H*.gwf", "--noiseSFTs={0}"], "--noiseSFTs already says what --inFrames would"),
        (["--inFrames={0}/H*.gwf", "--inFrChannels=H1:X,L1:X"], "--inFrChannels has 2 values for 1"),
        (["--inFrames={0}/H*.gwf", "--duration=64"], "--startTime and --duration go together"),
        (["--inFrames={0}/H*.gwf,{0}/H*.gwf"], "H1"),
        (["--inFrChannels=H1:X"], "missing"),
        (["--inFrames={0}/H*.gwf", "--outFrChannels=H1:X"], "--outFrChannels has no effect"),
        (["--inFrames={0}/H*.gwf", "--outFrameDir={0}"], "read too"),
    ],
)
def test_options_that_contradict_each_other(words, message, tmp_path, capsys):
    jfstat.write_frames(made(tmp_path), tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    line = ["simulate", "--fmin=40", "--Band=10", "--Tsft=64", *SIGNAL, *(word.format(tmp_path) for word in words)]
    line += [] if "outFrameDir" in words[-1] else [f"--outSFTdir={tmp_path}/out"]
    assert main(line) != 0
    said = capsys.readouterr().err
    assert message in said and "Traceback" not in said
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_frames_alone_are_not_copied(tmp_path, capsys):
    jfstat.write_frames(made(tmp_path), tmp_path)
    assert (
        main(["simulate", "--fmin=40", "--Band=10", f"--inFrames={tmp_path}/H*.gwf", f"--outSFTdir={tmp_path}/x"]) != 0
    )
    assert "--inFrames needs a signal to add" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_the_usual_channel_is_the_one_in_the_help():
    assert CHANNEL == "JFSTAT_STRAIN" and f"default H1:{CHANNEL} and so on" in Path(simulate.__file__).read_text()


def test_no_output_is_named(capsys):
    assert main([*LINE, "--duration=640", "--IFOs=H1"]) != 0
    assert "--outSFTdir is missing: give it, or --outFrameDir." in capsys.readouterr().err
