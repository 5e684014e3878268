"""`jfstat hardware-injections` on simulated strain in GWOSC's layout, with gaps, quality bits and injections."""

import re

import numpy as np
import pytest
from strain_files import ALL_DATA_QUALITY, ALL_INJECTIONS, coloured_noise, write_gwosc

import jfstat
from jfstat.commandline import _parser, main
from jfstat.pulsars.hardware import injections_of
from jfstat.searching.hardware import edges
from jfstat.signal.times import gps_time
from jfstat.strain.files import find_strain
from jfstat.strain.strainfile import DATA_QUALITY_BITS, INJECTION_BITS

pytest.importorskip("h5py")
START, PIECE = 1_256_700_000, 100
"""GPS time in O3b, and the time in which a signal's spectrum is computed, s."""
QUIET = 0.01
"""Noise over O3's, so that some minutes are enough."""
BIT = {name: 1 << k for names in (DATA_QUALITY_BITS, INJECTION_BITS) for k, name in enumerate(names)}
HOLE, OFF = (330, 347), (700, 910)
"""Seconds without data, and without injections."""


def injected_strain(detector, rate, seconds, seed):
    """Strain with the injections of O3 at their published amplitudes, in little noise."""
    x = QUIET * coloured_noise(seconds, rate, seed)
    signals = np.zeros((seconds // PIECE, rate * PIECE // 2 + 1), np.complex64)
    for own in injections_of("O3"):
        low, high = edges(own.point, gps_time(START, "start"), START + float(seconds))
        if high + 1 < rate / 2:
            band = jfstat.simulate_sfts([detector], START, seconds, low - 1, high + 1, tsft=PIECE, sqrt_sx=0)
            with_signal = jfstat.inject(band, [(own.point, own.amplitude)])
            signals[:, band.first_bin : band.first_bin + band.n_bins] += with_signal[detector].data
    signal = np.fft.irfft(signals.astype(complex) * rate, axis=1).ravel()
    signal[OFF[0] * rate : OFF[1] * rate] = 0  # whatever the bits say, there is no signal
    x += signal
    x[HOLE[0] * rate : HOLE[1] * rate] = np.nan
    return x


def written(folder, detector, rate, seconds, seed):
    """Files of 512 s with the bits that GWOSC's have: without data no bit is set, and CAT1 drops out as it likes."""
    quality, injections = (np.full(seconds, x, np.uint32) for x in (ALL_DATA_QUALITY, ALL_INJECTIONS))
    injections &= ~np.uint32(BIT["NO_CW_HW_INJ"])
    injections[OFF[0] : OFF[1]] |= BIT["NO_CW_HW_INJ"]
    injections[120:125] &= ~np.uint32(BIT["NO_DETCHAR_HW_INJ"])
    quality[40:60] &= ~np.uint32(BIT["BURST_CAT2"] | BIT["BURST_CAT3"])
    quality[HOLE[0] : HOLE[1]], injections[HOLE[0] : HOLE[1]] = 0, 0
    x, kind = injected_strain(detector, rate, seconds, seed), f"{rate // 1024}KHZ"
    for low in range(0, seconds, 512):
        cut = slice(low, min(low + 512, seconds))
        name = f"{detector[0]}-{detector}_GWOSC_O3b_{kind}_R1-{START + low}-{cut.stop - low}.hdf5"
        own = dict(quality=quality[cut], injections=injections[cut])
        write_gwosc(folder / name, detector, START + low, x[cut.start * rate : cut.stop * rate], rate, **own)


@pytest.fixture(scope="module")
def at_4_khz(tmp_path_factory):
    folder = tmp_path_factory.mktemp("strain")
    for seed, detector in enumerate(("H1", "L1")):
        written(folder, detector, 4096, 1200, seed)
    return folder


def said(line, capsys):
    status = main(["hardware-injections", *map(str, line)])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.mark.ci
def test_the_injections_are_found_in_strain_at_4_khz(at_4_khz, tmp_path, capsys):
    line = [f"--frame-files={at_4_khz}/*.hdf5", "--sft-duration=100", f"--outputFstat={tmp_path}/o.ecsv"]
    status, out, err = said(line, capsys)
    found = jfstat.read_candidates(tmp_path / "o.ecsv")
    assert status == 0 and not err, (out, err)
    assert "8 of H1, 8 of L1: SFTs of 100 s in 16 bands" in out  # 3 before the hole, 3 before the pause, 2 after it
    assert "not in the data's bands: PULSAR14, PULSAR15" in out
    loud = np.asarray(found["expected_twoF"]) >= 68
    assert loud.sum() >= 8
    judged = re.search(r"(\d+) of (\d+) injections with an expected 2F of 68 or more agree", out)
    assert judged and judged[1] == judged[2] == str(loud.sum())
    pulls = np.stack([np.asarray(found[f"pull_{x}"])[loud] for x in ("twoF", "h0", "phase")])
    assert np.abs(pulls).max() < 4 and np.all(np.abs(pulls.mean(axis=1)) < 1.5), pulls


@pytest.mark.ci
def test_the_injections_above_2_khz_are_found_at_16_khz(tmp_path, capsys):
    written(tmp_path, "L1", 16384, 1000, 5)
    status, out, err = said(
        [f"--frame-files={tmp_path}/*.hdf5", "-t", "100", f"--outputFstat={tmp_path}/o.ecsv"], capsys
    )
    assert status == 0, (out, err)
    found = jfstat.read_candidates(tmp_path / "o.ecsv")
    assert len(found) == 18 and "not in the data's bands" not in out
    # a quarter of an hour of one detector hardly tells two polarisations apart, so that some 2F are set to 4
    loud = np.asarray(found["expected_twoF"]) >= 68
    assert np.all(loud[np.isin(found["name"], ["PULSAR14", "PULSAR15"])]) and loud.sum() > 10
    assert max(np.abs(np.asarray(found[f"pull_{x}"])[loud]).max() for x in ("h0", "phase")) < 4


@pytest.mark.ci
def test_sfts_are_those_of_the_usual_way(at_4_khz):
    """In times, bins and numbers, but for what the high-pass filter makes of the ends: little, also in short SFTs."""
    quality = jfstat.DataQuality(end=START + 700)
    bands = jfstat.hardware_injection_sfts(f"{at_4_khz}/L*.hdf5", tsft=100, quality=quality)
    some = bands[3]
    low, high = some.first_bin / 100, (some.first_bin + some.n_bins) / 100
    usual = jfstat.sfts_from_frames(
        f"{at_4_khz}/L*.hdf5", tsft=100, fmin=low, fmax=high, quality=quality,
        conditioning=jfstat.Conditioning(highpass=7),
    )  # fmt: skip
    np.testing.assert_array_equal(some["L1"].gps, usual["L1"].gps)
    assert (some.first_bin, some.n_bins) == (usual.first_bin, usual.n_bins)
    one, other = (x["L1"].data.astype(complex) for x in (some, usual))
    assert np.abs(one - other).max() < 0.05 * np.median(np.abs(other))


@pytest.mark.ci
def test_every_option_has_an_effect(at_4_khz, tmp_path, capsys):
    """Of SFT files and of strain; an option that has none is refused."""
    sfts = jfstat.sfts_from_frames(f"{at_4_khz}/H*.hdf5", tsft=100, fmin=50, fmax=55)
    both = jfstat.join_sfts([sfts, jfstat.sfts_from_frames(f"{at_4_khz}/L*.hdf5", tsft=100, fmin=50, fmax=55)])
    jfstat.write_sfts(both, tmp_path)
    files = f"--DataFiles={tmp_path}/*.sft"
    status, out, _ = said([files], capsys)  # with SFTs in which nothing was injected
    assert status == 1 and "PULSAR05" in out and "PULSAR05" in out.splitlines()[-1]
    outcomes = {out.partition("\n")[2]}
    for option in ("--IFOs=H1", f"--minStartTime={START + 100}", f"--maxStartTime={START + 700}", "--tolerance=1"):
        status, out, err = said([files, option], capsys)
        assert not err
        outcomes.add(out.partition("\n")[2])
    assert "O4a" in said([files, "--run=O4a"], capsys)[1]
    assert len(outcomes) == 5
    strain = f"--frame-files={at_4_khz}/*.hdf5"
    for option, words in {
        "--run=O7": "run must be one of S5",
        "--tolerance=-1": "--tolerance=-1 is negative",
        f"--outputFstat={tmp_path}/o.txt": "needs --outputFstat with .ecsv or .hdf5",
        "--channel-name=H1:X": "is for frame files",
        "--quality-bits=NOTHING": "is not a data-quality bit",
        "--IFOs=V1": "only H1, H2, L1 have hardware injections",
        "--sft-duration=1e4": "no stretch of 10000 s",
        "--high-pass-freq=4000": "must be below",
        f"--minStartTime={START + 5000}": "hold no strain",
        f"--maxStartTime={START - 5000}": "hold no strain",
    }.items():
        status, out, err = said([strain, option], capsys)
        assert status == 1 and words in err and err.count("\n") == 1, (option, err)
    for option in ("--channel-name=X", "--quality-bits=DATA", "--sft-duration=100", "--high-pass-freq=7"):
        status, out, err = said([files, option], capsys)
        assert status == 1 and "goes with --frame-files only" in err


def test_strain_without_injections_is_refused(tmp_path, capsys):
    x = coloured_noise(64, 4096, 1)
    write_gwosc(tmp_path / "H-H1_A-1256700000-64.hdf5", "H1", START, x, 4096)
    status, _, err = said([f"--frame-files={tmp_path}", "--sft-duration=16"], capsys)
    assert status == 1 and "hold no good second of H1 with continuous waves in the hardware" in err
    write_gwosc(tmp_path / "V-V1_A-1256700000-64.hdf5", "V1", START, x, 4096)
    status, _, err = said([f"--frame-files={tmp_path}", "--IFOs=V1"], capsys)
    assert status == 1 and "--IFOs are of V1, and only H1, H2, L1" in err
    assert find_strain(tmp_path, detector="V1").stretches


def test_plans_read_all_options(tmp_path):
    words = ["--frame-files=x", "--IFOs=H1", f"--minStartTime={START}", f"--maxStartTime={START + 9}", "--run=O3"]
    words += [
        "--channel-name=H1:X",
        "--quality-bits=DATA",
        "--sft-duration=60",
        "--high-pass-freq=8",
        "--tolerance=0.2",
    ]
    arguments = _parser("hardware-injections").arguments(["hardware-injections", *words])
    arguments.plan(arguments)
    arguments.seal()
