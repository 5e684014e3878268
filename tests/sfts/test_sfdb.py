"""SFDB files: the bins are LALSuite's, transforms that overlap are taken once, and damaged files are refused."""

import numpy as np
import pytest
from sfdb_files import transform, write_sfdb

import jfstat
from jfstat.commandline import main

START, TSFT, F = 1257741529, 1024, 22.3
POINT = jfstat.Doppler(2.0, 0.4, [F, -1e-10], START)


def simulated(detectors=("V1",), begin=0, n=40, seed=1):
    """SFTs of 20 to 24 Hz with a loud signal."""
    times = START + begin + TSFT * np.arange(n)
    signals = [(POINT, jfstat.Amplitude(3e-24, 0.3, 0.2, 1.0))]
    options = dict(fmin=20.0, fmax=24.0, timestamps=times, tsft=TSFT, sqrt_sx=4e-24, seed=seed, signals=signals)
    return jfstat.simulate_sfts(list(detectors), **options)


@pytest.fixture(scope="module")
def interlaced():
    return simulated(), simulated(begin=TSFT // 2, seed=2)


def test_bins_are_those_of_lalsuite(interlaced, tmp_path):
    lalpulsar = pytest.importorskip("lalpulsar")
    path = write_sfdb(tmp_path / "a.SFDB09", *interlaced, lavesp=100)
    theirs = lalpulsar.ReadSFDB(21.0, 23.0, path, None, None).data[0]
    with pytest.warns(
        UserWarning, match="40 of 80 transforms are left out: none have more zeros than 0 of their strain, 40"
    ):
        own = jfstat.read_sfdb(path, fmin=21.0, fmax=23.0)["V1"]
    assert own.gps.tolist() == interlaced[0]["V1"].gps.tolist()
    by_time = {sft.epoch.gpsSeconds: sft.data.data for sft in theirs.data}
    for gps, row in zip(own.gps.tolist(), own.data, strict=True):
        assert np.array_equal(row, by_time[gps][:-1])  # LALSuite's band holds its upper end, too
    assert np.abs(own.data / interlaced[0]["V1"].data[:, 1024:3072] - 1).max() < 1e-6
    assert own.window == "tukey:0.5"


def test_a_signal_in_sfdbs_is_found(tmp_path):
    for name in ("H1", "L1"):
        write_sfdb(tmp_path / f"{name}.SFDB09", simulated([name]))
    sfts = jfstat.read_sfdb(tmp_path, fmin=21.0, fmax=23.6)
    assert sfts.detectors == ("H1", "L1") and sfts.tsft == TSFT
    data = jfstat.prepare(sfts, F - 0.001, F + 0.001, START, guard=0.3)
    direct = jfstat.prepare(simulated(["H1", "L1"]), F - 0.001, F + 0.001, START, guard=0.3)
    twoF = [float(jfstat.twoF(x, POINT)) for x in (data, direct)]
    assert twoF[0] > 500 and twoF[0] == pytest.approx(twoF[1], rel=0.01)  # floors end at other frequencies


def test_transforms_are_chosen_by_detector_time_segment_and_zeros(tmp_path):
    first, rest = simulated(["H1", "L1"], n=3), simulated(["H1"], begin=3 * TSFT, n=2)
    write_sfdb(tmp_path / "a.SFDB09", first)
    write_sfdb(tmp_path / "b.SFDB09", rest, n_zeroes=419430)  # of 1024 s at 4096 Hz, a tenth
    pattern, band = f"{tmp_path}/b.SFDB09;{tmp_path}/a.SFDB09", dict(fmin=20.5, fmax=21.0)
    assert len(jfstat.read_sfdb(pattern, **band, zeros=0.11)["H1"]) == 5
    with pytest.warns(
        UserWarning, match="2 of 8 transforms are left out: 2 of H1 have more zeros than 0 of their strain, 0 ov"
    ):
        sfts = jfstat.read_sfdb(pattern, **band)
    assert len(sfts["H1"]) == len(sfts["L1"]) == 3 and sfts.n_bins == 512
    only = jfstat.read_sfdb(pattern, **band, detectors="L1", start=START + 1, end=START + 2 * TSFT)
    assert only.detectors == ("L1",) and only["L1"].gps.tolist() == [START + TSFT]
    segments = [(START - 5, START + 1.5 * TSFT), (START + 2 * TSFT, START + 3 * TSFT)]
    inside = jfstat.read_sfdb(pattern, **band, detectors="H1", segments=segments)
    assert inside["H1"].gps.tolist() == [START, START + 2 * TSFT]
    mine = jfstat.Detector("H1", (6.378e6, 0, 0), [(0, 1, 0), (0, 0, 1)])
    assert jfstat.read_sfdb(pattern, **band, detectors=mine, end=START + 1)["H1"].site == mine


def test_overlaps_are_resolved_from_the_earliest_on_beside_gaps(tmp_path):
    starts = [0, 512, 1024, 1536, 2600, 3000, 3624, 5000]
    blocks = [transform("H1", START + t, np.full(2048, 1e-22), TSFT, wink=1) for t in starts]
    (tmp_path / "a.SFDB09").write_bytes(b"".join(blocks[::-1]))
    with pytest.warns(UserWarning, match="3 overlap others"):
        own = jfstat.read_sfdb(tmp_path / "a.SFDB09", fmin=1.0, fmax=1.5)["H1"]
    assert (own.gps - START).tolist() == [0, 1024, 2600, 3624, 5000] and own.window == "hann"


@pytest.mark.parametrize(("wink", "normw", "name"), [(0, 1.0, "rectangular"), (2, 1.5, "unknown"), (5, 3.0, "unknown")])
def test_windows(wink, normw, name, tmp_path):
    path = tmp_path / "a.SFDB09"
    path.write_bytes(transform("L1", START, np.ones(100) * 1e-22, TSFT, wink=wink, normw=normw))
    assert jfstat.read_sfdb(path, fmin=0.0, fmax=0.05)["L1"].window == name


def test_bins_need_not_begin_at_zero(tmp_path):
    path = tmp_path / "a.SFDB09"
    path.write_bytes(transform("L1", START, np.arange(100) * 1e-22, TSFT, frinit=2.0))
    own = jfstat.read_sfdb(path, fmin=2.0 + 3 / TSFT, fmax=2.0 + 5 / TSFT)
    assert own.first_bin == 2 * TSFT + 3 and np.abs(own["L1"].data) == pytest.approx(
        np.array([[3e-22, 4e-22]]), rel=1e-6, abs=0
    )


GOOD = dict(detector="H1", gps=START, bins=np.full(100, 1e-22), tsft=TSFT)
DAMAGED = {
    "is of detector number 7, not 1 to 3": transform(**GOOD | {"detector": 7}),
    "its transform 1 is of detector number": transform(**GOOD) + transform(**GOOD | {"detector": 0}),
    "which do not fit together": transform(**GOOD, deltanu=1.0),
    "has a factor or a frequency that is not positive": transform(**GOOD, normw=-1.0),
    "too many": transform(**GOOD, frinit=1e300),
    "or no valid time": transform(**GOOD | {"gps": -5}),
    "begins at 0.0001 Hz, between two bins": transform(**GOOD, frinit=1e-4),
    "does not state the length of its spectra": transform(**GOOD, lavesp=-3),
    "has a negative number of zeros, or no valid time": transform(**GOOD, gps_ns=-3),
    "it ends within a header": transform(**GOOD)[:100],
    "it ends within the bins of its transform 0": transform(**GOOD)[:-8],
    "a bin at GPS 1257741529 is infinite": transform(**GOOD | {"bins": np.full(100, np.nan)}),
    "it is empty": b"",
    "is there twice, in": 2 * transform(**GOOD),
    "differ in their windows": transform(**GOOD) + transform(**GOOD | {"gps": START + TSFT}, wink=1),
    "transforms of 1024.0 s and 2048.0 s": transform(**GOOD) + transform(**GOOD | {"gps": START + 2000, "tsft": 2048}),
}


@pytest.mark.parametrize("said", DAMAGED)
def test_damaged_files_are_refused(said, tmp_path):
    (tmp_path / "a.SFDB09").write_bytes(DAMAGED[said])
    with pytest.raises(ValueError, match=said):
        jfstat.read_sfdb(tmp_path / "a.SFDB09", fmin=0.0, fmax=0.05)


def test_wrong_arguments_are_refused(tmp_path):
    path = tmp_path / "a.SFDB09"
    path.write_bytes(transform(**GOOD, n_zeroes=100))
    with pytest.raises(ValueError, match="zeros=0: more of the strain is zero in all 1 transforms"):
        jfstat.read_sfdb(path, fmin=0.0, fmax=0.05)
    refused = [
        (dict(fmin=0.05, fmax=0.01), "the band must have 0 <= fmin < fmax"),
        (dict(fmin=0.05, fmax=1e12), "the band is not covered: the transforms in"),
        (dict(fmin=0.05, fmax=3.0), "the band is not covered: the transforms in .* have 0 to 0.09765625 Hz"),
        (dict(zeros=1.5), "zeros must be a number from 0 to 1"),
        (
            dict(detectors="L1"),
            "detectors: there are no transforms of L1 among the files and times asked for, only of H1",
        ),
        (dict(start=START + 1), "no transform lies in start, end and segments"),
        (dict(segments=[(5, 3)]), "segments must be pairs of GPS times with start < end"),
        (dict(segments=[]), "segments must be pairs of GPS times"),
        (dict(segments=[3]), "segments must"),
    ]
    for given, said in refused:
        with pytest.raises(ValueError, match=said):
            jfstat.read_sfdb(path, **dict(fmin=0.0, fmax=0.05, zeros=1.0) | given)
    with pytest.raises(FileNotFoundError, match="no SFDB file matches"):
        jfstat.read_sfdb(tmp_path / "b")


def test_a_named_detector_is_never_dropped(tmp_path):
    path = tmp_path / "a.SFDB09"
    path.write_bytes(transform(**GOOD) + transform(**GOOD | {"detector": "L1"}, n_zeroes=100))
    with pytest.raises(ValueError, match="zeros=0: more of the strain is zero in all transforms of L1"):
        jfstat.read_sfdb(path, ["H1", "L1"])
    with pytest.warns(UserWarning, match="1 of 2 transforms are left out: 1 of L1 have more zeros"):
        assert jfstat.read_sfdb(path).detectors == ("H1",)


def test_the_band_of_the_files_is_the_default(tmp_path):
    path = tmp_path / "a.SFDB09"
    path.write_bytes(transform(**GOOD, frinit=2.0) + transform(**GOOD | {"gps": START + TSFT}, frinit=2.0))
    sfts = jfstat.read_sfdb(path)
    assert (sfts.first_bin, sfts.n_bins, len(sfts)) == (2 * TSFT, 100, 2)
    path.write_bytes(transform(**GOOD) + transform(**GOOD | {"gps": START + TSFT}, frinit=0.125 / 8))
    with pytest.raises(ValueError, match="mixed bands: give fmin and fmax"):
        jfstat.read_sfdb(path)


def test_the_command_writes_sft_files(interlaced, tmp_path, capsys):
    path = write_sfdb(tmp_path / "a.SFDB09", *interlaced)
    line = ["convert-sfdb", f"--file-pattern={path}", "--fmin=21", "--fmax=23", f"--outSFTdir={tmp_path / 'out'}"]
    assert main(line) == 0
    said = capsys.readouterr()
    note = "jfstat: note: 40 of 80 transforms are left out: none have more zeros than 0 of their strain, 40 overlap"
    assert said.err == f"{note} others.\n"
    name = said.out.removeprefix("wrote ").strip()
    assert jfstat.validate_sfts(name) == 40
    again = jfstat.read_sfts(name)
    assert np.abs(again["V1"].data / interlaced[0]["V1"].data[:, 1024:3072] - 1).max() < 1e-6
    (tmp_path / "science.txt").write_text(f"{START} {START + 3 * TSFT}\n")
    more = ["--IFOs=V1", f"--segment-file={tmp_path / 'science.txt'}", "--zeros=0.1", "--outLabel=few"]
    more += [f"--minStartTime={START + 10}", f"--maxStartTime={START + 2000}"]
    assert main([*line, *more]) == 0
    name = capsys.readouterr().out.removeprefix("wrote ").strip()
    assert "1024SFT_few" in name and jfstat.read_sfts(name)["V1"].gps.tolist() == [START + 512, START + 1536]
