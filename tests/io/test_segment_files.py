"""Segment lists and files of timestamps: each format that programs write, and one sentence for each fault."""

import numpy as np
import pytest

import jfstat
from jfstat.commandline import main

GPS = 1_187_056_880


def segments(rng, n=6, fraction=False):
    """Starts and ends, s, in order; with a fraction of quarters of seconds."""
    edges = GPS + np.cumsum(rng.integers(100, 5000, 2 * n)) + (rng.integers(0, 4, 2 * n) / 4 if fraction else 0)
    return [(float(start), float(end)) for start, end in edges.reshape(-1, 2)]


def number(x):
    return repr(int(x)) if x == int(x) else repr(x)


WRITERS = {
    "two columns": lambda i, a, b: f"{number(a)} {number(b)}",
    "tabs": lambda i, a, b: f"{number(a)}\t{number(b)}",
    "commas": lambda i, a, b: f"{number(a)}, {number(b)}",
    "durations": lambda i, a, b: f"{number(a)} {number(b)} {number(b - a)}",
    "SFTs": lambda i, a, b: f"{number(a)} {number(b)} {1 + i % 7}",
    "hours and SFTs": lambda i, a, b: f"{number(a)} {number(b)} {(b - a) / 3600:.4f} {1 + i % 7}",
    "segwizard": lambda i, a, b: f"{i}\t{number(a)}\t{number(b)}\t{number(b - a)}",
    "segwizard, rounded": lambda i, a, b: f"{i} {a:.2f} {b:.2f} {b - a:.1f}",
    "exponents": lambda i, a, b: f"{a:.18e} {b:.12e}",
    "comments": lambda i, a, b: f"{number(a)} {number(b)}  # science % mode",
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("fraction", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_formats_of_segments(tmp_path, writer, fraction, seed):
    rows = segments(np.random.default_rng(seed), fraction=fraction)
    text = "".join(WRITERS[writer](i, *row) + "\n" for i, row in enumerate(rows))
    (tmp_path / "a").write_text("# seg\tstart\tstop\tduration\n\n" + text)
    assert jfstat.read_segments(tmp_path / "a") == rows


def test_make_sfts_keeps_to_a_list_of_segwizard(tmp_path):
    h5py = pytest.importorskip("h5py")
    from strain_files import coloured_noise, write_gwosc

    assert h5py
    write_gwosc(tmp_path / "H-H1_LOSC_4_V1.hdf5", "H1", GPS - 600, coloured_noise(3600, 256, seed=1), 256)
    (tmp_path / "science.txt").write_text(f"# seg\tstart\tstop\tduration\n0\t{GPS}\t{GPS + 1200}\t1200\n")
    words = [f"--frame-files={tmp_path}/*.hdf5", "-f", "7", "-t", "300", "-F", "20", "-B", "60"]
    words += [f"--segment-file={tmp_path / 'science.txt'}", f"--sft-write-path={tmp_path / 'sfts'}"]
    assert main(["make-sfts", *words]) == 0
    starts = [int(x) for x in np.asarray(jfstat.read_sfts(tmp_path / "sfts")["H1"].gps)]
    assert starts == [GPS, GPS + 300, GPS + 600, GPS + 900]


GOOD = f"{GPS} {GPS + 1200}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no segment"),
        ("# nothing\n\n", "holds no segment"),
        (GOOD + f"{GPS + 2000}\n", "line 2: '1187058880' has no start and end in GPS s"),
        (GOOD + f"{GPS} {GPS + 9} 1 2 3\n", "line 2: .* has no start and end"),
        (GOOD + "start end\n", "line 2: 'start end' has no start and end"),
        (GOOD + f"{GPS}_0 {GPS}9\n", "line 2: .* has no start and end"),
        (GOOD + f"{GPS} inf\n", "line 2: .* has no start and end"),
        (GOOD + f"nan {GPS}\n", "line 2: .* has no start and end"),
        (GOOD + f"{GPS} {'9' * 400}\n", "line 2: .* has no start and end"),
        (GOOD + f"{GPS} {GPS + 9} 9\n", "line 2, has 3 columns, and lines before it 2"),
        (GOOD + f"{GPS + 9} {GPS}\n", "line 2, has the start 1187056889, which is not before the end 1187056880"),
        (GOOD + f"{GPS} {GPS}\n", "line 2, has the start 1187056880, which is not before the end"),
        (GOOD + "0 100\n", "line 2, has the time 0, at which no detector ran"),
        (GOOD + f"{GPS} 1e12\n", "line 2, has the time 1E.12, at which no detector ran"),
        (GOOD + f"-{GPS} {GPS}\n", "line 2, has the time -1187056880, at which no detector ran"),
        (GOOD + "57000 57001\n", "line 2, has the time 57000, at which no detector ran"),
        (GOOD + f"{GPS} 1.188e9\n", "line 2, has the time 1.188E.9, which leaves digits out: write 1188000000"),
        (f"0 {GPS} {GPS + 9} 9\n1 {GPS + 10} {GPS + 29} 9\n", "line 2, has a duration other than end - start"),
        (f"{GPS} {GPS + 9} 9\n{GPS + 10} {GPS + 20} 11\n", "line 2, has a duration other than end - start"),
        (f"0 {GPS} {GPS + 9} 8\n", "line 1, has the time 0, at which no detector ran"),
        (f"0 {GPS + 9} {GPS} -9\n", "line 1, has the start 1187056889, which is not before the end 1187056880"),
    ],
)
def test_faults_of_segments_are_sentences(tmp_path, text, message):
    (tmp_path / "a").write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        jfstat.read_segments(tmp_path / "a")
    assert "\n" not in str(error.value) and str(tmp_path / "a") in str(error.value)


STAMPS = {
    "seconds": lambda s, ns: f"{s}",
    "and nanoseconds": lambda s, ns: f"{s} {ns}",
    "commas": lambda s, ns: f"{s},{ns}",
    "decimals": lambda s, ns: f"{s}.{ns:09}",
    "exponents": lambda s, ns: f"{str(s)[0]}.{str(s)[1:]}{ns:09}e{len(str(s)) - 1:+03}",
}


@pytest.mark.parametrize("writer", STAMPS)
@pytest.mark.parametrize("seed", range(3))
def test_the_formats_of_timestamps(tmp_path, writer, seed):
    rng = np.random.default_rng(seed)
    times = np.stack([GPS + 1800 * np.arange(8) + rng.integers(0, 900, 8), rng.integers(0, 10**9, 8)], 1)
    times[:, 1] *= writer != "seconds"
    (tmp_path / "H1").write_text("% s ns\n" + "".join(STAMPS[writer](s, ns) + "  # a\n" for s, ns in times.tolist()))
    read = jfstat.read_timestamps([tmp_path / "H1"], ["H1"])
    assert list(read) == ["H1"] and read["H1"].dtype == np.int64 and np.array_equal(read["H1"], times)


def test_fractions_beyond_nanoseconds_are_rounded(tmp_path):
    (tmp_path / "H1").write_text(f"{GPS}.99999999999\n{GPS + 100}.0000000004\n")
    assert jfstat.read_timestamps([tmp_path / "H1"], ["H1"])["H1"].tolist() == [[GPS + 1, 0], [GPS + 100, 0]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no timestamp"),
        (b"\xff\xfe\x00", "is not text"),
        (bytes(range(256)), "is not text"),
        (f"{GPS} 0\nsoon 0\n", "line 2: 'soon 0' is not GPS seconds, or seconds and nanoseconds"),
        (f"{GPS} 0\n{GPS + 9} 0 0\n", "line 2: .* is not GPS seconds"),
        (f"{GPS} 0\n{GPS + 9}\n", "line 2, has 1 columns, and lines before it 2"),
        (f"{GPS} 0\n{GPS + 9}.5 0\n", "line 2, has 1187056889.5 s and 0 ns: give whole seconds"),
        (f"{GPS} {GPS + 1200}\n", "line 1, has 1187056880 s and 1187058080 ns"),
        (f"{GPS} -1\n", "line 1, has 1187056880 s and -1 ns"),
        (f"{GPS} 0.5\n", "line 1, has 1187056880 s and 0.5 ns"),
        ("99999999999999999999\n", "line 1, has the time 99999999999999999999, at which no detector ran"),
        ("57000.5\n", "line 1, has the time 57000.5, at which no detector ran"),
        ("1.187e9\n", "line 1, has the time 1.187E.9, which leaves digits out"),
        ("1e400\n", "line 1, has the time 1E.400, at which no detector ran"),
    ],
)
def test_faults_of_timestamps_are_sentences(tmp_path, content, message, capsys):
    (tmp_path / "H1").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message) as error:
        jfstat.read_timestamps([tmp_path / "H1"], ["H1"])
    assert "\n" not in str(error.value) and str(error.value).startswith(f"files: {tmp_path / 'H1'}")
    words = [f"--timestampsFiles={tmp_path / 'H1'}", "--IFOs=H1", "--fmin=50", "--Band=0.5", "--sqrtSX=1e-23"]
    assert main(["simulate", *words, f"--outSFTdir={tmp_path / 'out'}"]) == 1
    assert f"--timestampsFiles: {tmp_path / 'H1'}" in capsys.readouterr().err


def test_files_that_are_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match="none' cannot be read"):
        jfstat.read_segments(tmp_path / "none")
    with pytest.raises(ValueError, match=r"^files: .*none cannot be read"):
        jfstat.read_timestamps([tmp_path / "none"], ["H1"])
    with pytest.raises(ValueError, match="names 1 files for 2 detectors"):
        jfstat.read_timestamps([tmp_path / "none"], ["H1", "L1"])
