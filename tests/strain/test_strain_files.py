"""SFTs from frame files and HDF5 files of GWOSC, in Python and by `jfstat make-sfts`, beside lalpulsar_MakeSFTs."""

import os
from itertools import pairwise

import h5py
import lalsuite_tools
import numpy as np
import pytest
from commandwords import changed
from scipy.ndimage import uniform_filter1d
from strain_files import ALL_DATA_QUALITY, coloured_noise, write_frame, write_gwosc

import jfstat
from jfstat.commandline import main
from jfstat.sfts.naming import public_description

T0, RATE, TSFT = 1_256_655_618, 512, 60
SECONDS = 8 * TSFT
CHANNEL = "H1:GWOSC-TEST_STRAIN"


@pytest.fixture(scope="module")
def x():
    return coloured_noise(SECONDS, RATE, 1)


def gwosc(folder, x, cuts=(0, 200, SECONDS), **options):
    """GWOSC files of seconds between cuts."""
    for low, high in pairwise(cuts):
        own = {key: value[low:high] for key, value in options.items()}
        write_gwosc(
            folder / f"H-H1_T-{T0 + low}-{high - low}.hdf5", "H1", T0 + low, x[low * RATE : high * RATE], RATE, **own
        )
    return folder


def frames(folder, x, cuts=(0, 200, SECONDS), each=4, kind="f8", **masks):
    """The same as frame files, of several frames each."""
    for low, high in pairwise(cuts):
        own = {CHANNEL.replace(":", "__"): x[low * RATE : high * RATE].astype(kind)}
        own |= {name: mask[low:high].astype("u4") for name, mask in masks.items()}
        write_frame(folder / f"H-H1_T-{T0 + low}-{high - low}.gwf", T0 + low, RATE, each, **own)
    return folder


def same(a, b):
    assert (a.detectors, a.tsft, a.first_bin) == (b.detectors, b.tsft, b.first_bin)
    for one, other in zip(a, b, strict=True):
        np.testing.assert_array_equal(one.gps, other.gps)
        np.testing.assert_array_equal(one.data, other.data)


@pytest.mark.parametrize("write", [gwosc, frames])
def test_files_give_the_sfts_of_their_strain(write, x, tmp_path):
    highpass = jfstat.Conditioning(highpass=10)
    expected = jfstat.sfts_from_strain((x, T0, 1 / RATE), "H1", TSFT, 30, 200, conditioning=highpass)
    same(jfstat.sfts_from_frames(write(tmp_path, x), tsft=TSFT, fmin=30, fmax=200, conditioning=highpass), expected)
    assert expected["H1"].gps.tolist() == [T0 + k * TSFT for k in range(8)]


@pytest.mark.parametrize("write", [gwosc, frames])
def test_good_time_is_what_all_agree_on(write, x, tmp_path):
    """Bits, NaN, missing files, segments and start and end, against times worked out by hand."""
    x = x.copy()
    x[(305 * RATE + 3) : (306 * RATE)] = np.nan
    mask, injections = np.full(SECONDS, ALL_DATA_QUALITY), np.full(SECONDS, 31)
    mask[100:103] = ALL_DATA_QUALITY - 1  # DATA
    mask[180] = ALL_DATA_QUALITY - 8  # CBC_CAT3
    injections[250:252] -= 8  # NO_CW_HW_INJ
    names = ("quality", "injections") if write is gwosc else ("H1__GWOSC-TEST_DQMASK", "H1__GWOSC-TEST_INJMASK")
    write(tmp_path, x, **dict(zip(names, (mask, injections), strict=True)))

    def starts(bits=None, **times):
        quality = jfstat.DataQuality(bits, **times)
        sfts = jfstat.sfts_from_frames(tmp_path, tsft=TSFT, fmin=99, fmax=101, quality=quality)
        return (sfts["H1"].gps - T0).tolist()

    assert starts() == starts(["DATA"]) == [0, 103, 163, 223, 306, 366]
    assert starts([]) == [0, 60, 120, 180, 240, 306, 366]
    assert starts(["DATA", "CBC_CAT3"]) == [0, 103, 181, 241, 306, 366]
    assert starts(["DATA", "NO_CW_HW_INJ"]) == [0, 103, 163, 306, 366]
    assert starts([], start=T0 + 10.5, end=T0 + 250.5) == [11, 71, 131]
    assert starts(segments=[(T0 + 10, T0 + 75.5), (T0 + 110, T0 + 170)]) == [10, 110]
    (tmp_path / (f"H-H1_T-{T0}-200" + (".hdf5" if write is gwosc else ".gwf"))).unlink()
    assert starts() == [200, 306, 366]


def test_bits_of_a_channel_have_numbers(x, tmp_path):
    state = np.full(SECONDS * 4, 0b101)
    state[4 * 70] = 0b001
    write_frame(tmp_path / "a.gwf", T0, RATE, H1__STRAIN=x, H1__STATE=state.astype("u4"))

    def sfts(bits):
        quality = jfstat.DataQuality(bits, "H1:STATE")
        return jfstat.sfts_from_frames(tmp_path / "a.gwf", "H1:STRAIN", tsft=TSFT, fmin=99, fmax=101, quality=quality)

    assert len(sfts([0])) == 8
    assert sfts([0, 2])["H1"].gps[:2].tolist() == [T0, T0 + 71]
    with pytest.raises(ValueError, match="no stretch"):
        sfts([1])


def test_of_several_detectors_one_is_named(x, tmp_path):
    gwosc(tmp_path, x)
    write_gwosc(tmp_path / "L.hdf5", "L1", T0, x[: 100 * RATE], RATE)
    with pytest.raises(ValueError, match="H1 and L1: name one as detector"):
        jfstat.sfts_from_frames(tmp_path, tsft=TSFT)
    options = dict(tsft=TSFT, fmin=99, fmax=101)
    assert len(jfstat.sfts_from_frames(tmp_path, detector="H1", **options)) == 8
    sfts = jfstat.sfts_from_frames(tmp_path, detector="L1", **options)
    assert (sfts.detectors, len(sfts)) == (("L1",), 1)
    with pytest.raises(ValueError, match=r"detector is V1, but paths hold strain of H1, L1"):
        jfstat.sfts_from_frames(tmp_path, detector="V1", **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"meta/Detector": None}, "lacks what GWOSC's files have"),
        ({"meta/Detector": b"Q7"}, "Q7"),
        ({"strain/Strain": None}, "lacks what GWOSC's files have"),
        ({"meta/Duration": 61}, "are not the 61 s"),
        ({"strain/Strain": np.ones((SECONDS, RATE))}, "shape"),
        ({"strain/Strain": np.ones(SECONDS * RATE, complex)}, "complex"),
        ({"quality/simple/DQmask": np.ones(7, int)}, "7 values for 480 s"),
    ],
)
def test_files_of_another_layout_are_refused(change, message, x, tmp_path):
    path = write_gwosc(tmp_path / "a.hdf5", "H1", T0, x, RATE, **change)
    with pytest.raises(ValueError, match=message):
        jfstat.sfts_from_frames(path, tsft=TSFT)


@pytest.mark.parametrize("suffix", ["hdf5", "gwf"])
@pytest.mark.parametrize("content", [b"", b"IGWD" + bytes(200), b"\x89HDF\r\n\x1a\n" + bytes(500), b"no strain" * 99])
def test_what_is_no_strain_is_refused_in_one_line(suffix, content, tmp_path, capfd):
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.") as error:
        jfstat.sfts_from_frames(path, tsft=TSFT)
    assert "\n" not in str(error.value)
    assert capfd.readouterr().err == ""  # LALSuite would print its own


def test_cut_and_missing_files(x, tmp_path, capfd):
    frames(tmp_path, x)
    path = next(tmp_path.iterdir())
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ValueError, match="H1_T"):
        jfstat.sfts_from_frames(tmp_path, tsft=TSFT)
    with pytest.raises(FileNotFoundError, match="no strain file matches"):
        jfstat.sfts_from_frames(tmp_path / "none*.gwf", tsft=TSFT)
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(ValueError, match=r"neither \.gwf nor"):
        jfstat.sfts_from_frames(tmp_path / "a.txt", tsft=TSFT)
    os.mkfifo(tmp_path / "b.gwf")
    with pytest.raises(OSError, match="named pipe"):
        jfstat.sfts_from_frames(tmp_path / "b.gwf", tsft=TSFT)
    assert capfd.readouterr().err == ""


def test_what_does_not_go_together_is_refused(x, tmp_path):
    gwosc(tmp_path, x)
    options = dict(tsft=TSFT, fmin=99, fmax=101)
    for bits, message in ((["NO_BIT"], "not a data-quality bit"), ("DATA", "sequence"), ([-1], "numbers of bits")):
        with pytest.raises(ValueError, match=message):
            jfstat.sfts_from_frames(tmp_path, quality=jfstat.DataQuality(bits), **options)
    with pytest.raises(ValueError, match="segments must be pairs"):
        jfstat.DataQuality(segments=[(T0 + 5, T0)])
    with pytest.raises(ValueError, match="no strain from"):
        jfstat.sfts_from_frames(tmp_path, quality=jfstat.DataQuality(start=T0 + SECONDS), **options)
    with pytest.raises(TypeError, match=r"quality must be a jfstat\.DataQuality"):
        jfstat.sfts_from_frames(tmp_path, quality=["DATA"], **options)
    for wrong in (dict(window="flat"), dict(highpass=0.0), dict(gating=3)):
        with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
            jfstat.Conditioning(**wrong)
    with pytest.raises(ValueError, match=r"highpass=300\.0 must be below"):
        jfstat.sfts_from_frames(tmp_path, conditioning=jfstat.Conditioning(highpass=300), **options)
    with pytest.raises(ValueError, match="Nyquist"):
        jfstat.sfts_from_frames(tmp_path, tsft=TSFT, fmax=300)
    write_gwosc(tmp_path / "z.hdf5", "H1", T0 + 450, x[: 40 * RATE], RATE)
    with pytest.raises(ValueError, match="overlap in time"):
        jfstat.sfts_from_frames(tmp_path, **options)
    write_gwosc(tmp_path / "z.hdf5", "H1", T0 + SECONDS, x[: 40 * RATE // 2], RATE // 2)
    with pytest.raises(ValueError, match="different rates"):
        jfstat.sfts_from_frames(tmp_path, **options)


def test_the_channel_of_frames(x, tmp_path):
    two = {"H1__A_STRAIN": x, "H1__B_STRAIN": 2 * x}
    path = write_frame(tmp_path / "a.gwf", T0, RATE, **two)
    with pytest.raises(ValueError, match=r"channel is missing.*H1:A_STRAIN, H1:B_STRAIN"):
        jfstat.sfts_from_frames(path, tsft=TSFT)
    with pytest.raises(ValueError, match=r"channel 'H1:C' is not in.*H1:A_STRAIN"):
        jfstat.sfts_from_frames(path, "H1:C", tsft=TSFT)
    a, b = (jfstat.sfts_from_frames(path, f"H1:{name}_STRAIN", tsft=TSFT)["H1"].data for name in "AB")
    np.testing.assert_allclose(b, 2 * a, rtol=1e-6)
    with pytest.raises(ValueError, match="not a data-quality bit"):
        jfstat.sfts_from_frames(path, "H1:A_STRAIN", quality=jfstat.DataQuality(["DATA"]), tsft=TSFT)
    with pytest.raises(ValueError, match="the channel of its bits is missing"):
        jfstat.sfts_from_frames(path, "H1:A_STRAIN", quality=jfstat.DataQuality([0]), tsft=TSFT)


@pytest.mark.parametrize(
    ("window", "parameter", "highpass", "kind"),
    [("tukey", 0.001, 7, "f8"), ("hann", None, 30, "f8"), ("rectangular", None, 0, "f4"), ("tukey", 0.5, 10, "f4")],
)
def test_make_sfts_beside_lalpulsar_makesfts(window, parameter, highpass, kind, x, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "frames").mkdir()
    frames(tmp_path / "frames", x if kind == "f8" else x * 1e20, kind=kind)
    cache = tmp_path / "cache.lcf"
    cache.write_text(
        "".join(
            "{} {} {} {} file://localhost{}\n".format(*path.stem.split("-"), path.absolute())
            for path in sorted((tmp_path / "frames").iterdir())
        )
    )
    options = {"frame-cache": cache, "channel-name": CHANNEL, "gps-start-time": T0, "gps-end-time": T0 + SECONDS}
    options |= {"sft-duration": TSFT, "high-pass-freq": highpass, "window-type": window, "start-freq": 40, "band": 150}
    options |= {} if parameter is None else {"window-param": parameter}
    options |= {"observing-run": 4, "observing-kind": "DEV", "observing-revision": 2}
    for folder in ("theirs", "ours"):
        (tmp_path / folder).mkdir()
    lalsuite_tools.run("MakeSFTs", **options, **{"sft-write-path": "theirs"})
    assert main(["make-sfts", *(f"--{name}={value}" for name, value in options.items()), "-p", "ours"]) == 0
    assert sorted(os.listdir("ours")) == sorted(os.listdir("theirs"))
    theirs, ours = jfstat.read_sfts("theirs"), jfstat.read_sfts("ours")
    assert ours["H1"].gps.tolist() == theirs["H1"].gps.tolist()
    assert (ours.first_bin, ours["H1"].window) == (theirs.first_bin, theirs["H1"].window)
    for one, other in zip(ours["H1"].data.astype(complex), theirs["H1"].data.astype(complex), strict=True):
        scale = np.sqrt(uniform_filter1d(np.abs(other / 1e-20) ** 2, 51)) * 1e-20  # rms of the bins nearby
        assert np.max(np.abs(one - other) / scale) < 1e-6


def test_the_program_says_what_it_does(x, tmp_path, capsys):
    mask = np.full(SECONDS, ALL_DATA_QUALITY)
    mask[100:110] = 0
    gwosc(tmp_path, x, quality=mask)
    out, segments = tmp_path / "out", tmp_path / "segments.txt"
    segments.write_text(f"# start end\n{T0} {T0 + 300}\n")
    words = ["make-sfts", "--frame-files", tmp_path, "-g", segments, "-t", TSFT, "-f", 7, "-F", 90, "-B", 20, "-p", out]
    words += ["-X", "mine", "--gate-threshold", 12]
    assert main(list(map(str, words))) == 0
    text = capsys.readouterr().out
    assert "H1: 2 files, 290 s of good time in 2 stretches, 512 samples/s" in text
    assert "gating set 0.0 s of 240 s to zero and left out 0 SFTs" in text
    assert "wrote 4 SFTs, 90 to 110 Hz" in text
    assert sorted(path.name for path in out.iterdir()) == [
        f"H-1_H1_60SFT_mine-{T0 + start}-60.sft" for start in (0, 110, 170, 230)
    ]
    assert len(jfstat.read_sfts(out)) == 4


@pytest.mark.parametrize(("rate", "band", "warned"), [(4096, 11, True), (4096, 10, False), (8192, 11, False)])
def test_strain_at_four_kilohertz_is_not_valid_near_nyquist(rate, band, warned, tmp_path, capsys):
    write_gwosc(tmp_path / "a.hdf5", "H1", T0, coloured_noise(2, rate, 1), rate)
    words = [
        "make-sfts",
        "--frame-files",
        tmp_path / "a.hdf5",
        "-t",
        1,
        "-f",
        0,
        "-F",
        1590,
        "-B",
        band,
        "-p",
        tmp_path,
    ]
    assert main(list(map(str, words))) == 0
    assert ("16384 Hz" in capsys.readouterr().err) == warned


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["-O", 3], "--observing-kind"),
        (["-O", 3, "-K", "RUN"], "--observing-revision"),
        (["-K", "RUN"], "--observing-run"),
        (["-O", 3, "-K", "RUN", "-R", 1, "-X", "a"], "--misc-desc"),
        (["-t", 1000], "no stretch of 1000 s"),
        (["-B", 1000], "Nyquist"),
        (["-f", 300], "Nyquist"),
        (["-w", "flat"], "window"),
        (["--quality-bits", "GOOD"], "'GOOD'"),
        (["--overlap-fraction", 0.5], "do not overlap"),
        (["--gate-threshold", 9, "--gate-bands", "30"], "bands such as"),
        (["--gate-threshold", 9, "--gate-bands", "300-400"], "Nyquist"),
        (["--IFO", "L1"], "L1"),
    ],
)
def test_wrong_options_are_told_in_one_line(changes, message, x, tmp_path, capsys):
    gwosc(tmp_path, x, cuts=(0, SECONDS))
    words = ["make-sfts", "--frame-files", tmp_path, "-t", TSFT, "-f", 7, "-F", 90, "-B", 20, "-p", tmp_path / "out"]
    assert main(changed(words, changes)) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_public_names():
    assert public_description(4, "RUN", 1, "H1:GDS-CALIB_STRAIN_CLEAN", "tukey:0.001") == (
        "O4RUN+R1+CGDSCALIBSTRAINCLEAN+WTKEY5"
    )
    for wrong in (
        (0, "RUN", 1, "a", "hann"),
        (4, "X", 1, "a", "hann"),
        (4, "RUN", 0, "a", "hann"),
        (4, "RUN", 1, "a", "b"),
    ):
        with pytest.raises(ValueError):
            public_description(*wrong)


@pytest.fixture(scope="module")
def glitchy(x):
    """Strain with two sine-Gaussians, of 90 and 35 Hz, in the second and fourth SFT, one by an edge."""
    t = np.arange(len(x)) / RATE
    for centre, f, loud in ((100.2, 90.0, 8e-21), (239.9, 35.0, 4e-20)):
        x = x + loud * np.exp(-(((t - centre) / 0.05) ** 2)) * np.sin(2 * np.pi * f * t)
    return x


def test_gating_takes_glitches_out_and_leaves_the_rest(x, glitchy):
    options = dict(detector="H1", tsft=TSFT, fmin=60, fmax=120)
    gating = jfstat.Gating(most_gated=0.1)

    def bins(strain, gating):
        own = jfstat.Conditioning(highpass=20, gating=gating)
        return jfstat.sfts_from_strain((strain, T0, 1 / RATE), conditioning=own, **options)["H1"].data.astype(complex)

    clean, loud, gated = bins(x, None), bins(glitchy, None), bins(glitchy, gating)

    def excess(a, b):
        """Power that differs over that of the clean bins, for each SFT."""
        return np.mean(np.abs(a / 1e-24 - b / 1e-24) ** 2, axis=1) / np.mean(np.abs(b / 1e-24) ** 2, axis=1)

    assert excess(loud, clean)[1] > 10
    # what remains is that 2 to 4 s of 60 s are missing
    assert excess(gated, clean)[[1, 3, 4]].max() < 0.07
    assert excess(gated, clean)[[1, 3, 4]].min() > 0.01  # the one by the edge is in both its SFTs
    np.testing.assert_array_equal(gated[[0, 2, 5, 6, 7]], clean[[0, 2, 5, 6, 7]])


def test_gates_are_the_inverse_tukey_windows_that_are_documented(glitchy):
    from jfstat.strain.gating import gate_window

    window = gate_window(glitchy[80 * RATE : 120 * RATE], RATE, jfstat.Gating())
    zero = np.flatnonzero(window == 0) / RATE + 80
    assert zero[0] < 100.2 - 1 and zero[-1] > 100.2 + 1 and zero[-1] - zero[0] < 2.6
    assert np.all(np.diff(zero) < 1.5 / RATE)
    rising = window[(window > 0) & (window < 1)]
    assert abs(len(rising) / RATE - 1.0) < 3 / RATE  # two tapers of 0.5 s
    assert np.max(np.abs(np.diff(window))) < np.pi / 0.5 / RATE / 2 * 1.01


def test_sfts_that_would_be_mostly_gated_are_left_out(glitchy):
    options = dict(
        detector="H1", tsft=TSFT, fmin=60, fmax=120, conditioning=jfstat.Conditioning(gating=jfstat.Gating())
    )
    sfts = jfstat.sfts_from_strain((glitchy, T0, 1 / RATE), **options)
    # at most 1 s of 60 s may be zero; the gate of the second glitch ends 0.96 s into the next SFT
    assert (sfts["H1"].gps - T0).tolist() == [0, 120, 240, 300, 360, 420]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"threshold": 0}, "threshold"),
        ({"bands": []}, "bands"),
        ({"bands": [(50, 25)]}, "bands"),
        ({"bands": 5}, "bands"),
        ({"tzero": -1}, "tzero"),
        ({"tpad": 0}, "tpad"),
        ({"most_gated": 0}, "most_gated"),
    ],
)
def test_gating_that_makes_no_sense_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        jfstat.Gating(**changes)


def test_detector_of_a_series_is_never_guessed(x):
    from types import SimpleNamespace

    series = SimpleNamespace(value=x, t0=T0, dt=1 / RATE, name="L1:STRAIN")
    assert jfstat.sfts_from_strain(series, tsft=TSFT).detectors == ("L1",)
    series.channel = "V1:Hrec_hoft_16384Hz"
    assert jfstat.sfts_from_strain(series, tsft=TSFT).detectors == ("V1",)
    with pytest.raises(ValueError, match="detector is H1, but the series is of V1"):
        jfstat.sfts_from_strain(series, "H1", tsft=TSFT)
    series.channel, series.name = None, "Strain"
    with pytest.raises(ValueError, match="detector is missing"):
        jfstat.sfts_from_strain(series, tsft=TSFT)
    with pytest.raises(ValueError, match="detector is missing"):
        jfstat.sfts_from_strain((x, T0, 1 / RATE), tsft=TSFT)


def test_gwpys_own_series(x):
    timeseries = pytest.importorskip("gwpy.timeseries")
    series = timeseries.TimeSeries(x, t0=T0, sample_rate=RATE, channel="L1:GDS-CALIB_STRAIN")
    ours = jfstat.sfts_from_strain((x, T0, 1 / RATE), "L1", TSFT, 40, 60)
    same(jfstat.sfts_from_strain(series, tsft=TSFT, fmin=40, fmax=60), ours)


def test_h5py_is_only_needed_where_it_is_used(x, tmp_path, monkeypatch):
    gwosc(tmp_path, x)
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(ValueError, match=r"need h5py: run pip install h5py"):
        jfstat.sfts_from_frames(tmp_path, tsft=TSFT)
    assert h5py is not None
