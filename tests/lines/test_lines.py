"""Known lines: reading lists, which candidates cross them, vetoed bins, cleaned SFTs."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from astropy.table import QTable, Table
from lalsuite_tools import ephemeris, gps_vector, lal, lalpulsar, run, site, sky
from searches import search

import jfstat
from jfstat.candidates.lineflags import crossed_lines
from jfstat.commandline import main
from jfstat.lines.doppler import affected_range, detector_range, hertz, line_bands
from jfstat.statistic.bins import vetoed_bins

START, DAY = 1167458304, 86400
LIGO = (
    "# git repo: <url>\n# git tag:  <tag>\n# git hash: <hash>\n"
    "Frequency or frequency spacing [Hz],Type (0:line; 1:comb; 2:comb with scaling width),"
    "Frequency offset [Hz],First visible harmonic, Last visible harmonic, Left width [Hz], Right width [Hz], Comments\n"
    "16.0,0,0,1,1,0.05,0.06,Calibration line, moved once\n"
    "1.0,1,0,1,5,0.05,0.05,Comb\n"
    "10.0,2,0,1,5,0.05,0.04,Scaling comb\n"
    "100.0,1,10,1,3,1.0,1.0,Comb with offset\n"
)
TABS = "% columns\n16.0\t0\t0\t1\t1\t0.05\t0.06\n1.0 1 0.5 2 4 0.05 0.05 a comb\n"
UNIDENTIFIED = (
    "# git repo: <url>\nFrequency [Hz], Comments\n10.1,Unidentified line\n10.3,\n" + "10.5, odd" + 6 * ", very" + "\n"
)
SFTCLEAN = "60.0 0.5 3 0.01 0.02 comb\n60.25 0.0 1 0.0 0.0 alone\n"


# --------------------------------------------------------------------------------------------------------------- lists
def test_lists_of_identified_lines_are_lalpulsars(tmp_path):
    parser = pytest.importorskip("lalpulsar.lineFileParser").LineFileParser()
    path = tmp_path / "O3H1lines.csv"
    path.write_text(LIGO)
    # genfromtxt, which it uses, refuses commas in comments
    (tmp_path / "plain.csv").write_text(LIGO.replace("line, moved", "line moved"))
    parser.parse_identified_lines_csv(str(tmp_path / "plain.csv"), extra_wing_Hz=0.01)
    lines = jfstat.read_lines(path, extra_width=0.01)
    np.testing.assert_allclose(np.sort(lines["fmin"].value), np.sort(parser.lines_left_side), rtol=1e-14)
    np.testing.assert_allclose(np.sort(lines["fmax"].value), np.sort(parser.lines_right_side), rtol=1e-14)
    assert set(lines["detector"]) == {"H1"} and lines["fmin"].unit == "Hz"
    assert "Calibration line, moved once" in set(lines["name"])
    assert np.all(np.diff(lines["freq"].value) >= 0)


def test_other_lists(tmp_path):
    files = {"O2LinesToBeCleaned_L1_v1.txt": TABS, "V1_unidentified.csv": UNIDENTIFIED, "H1.txt": SFTCLEAN}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    l1, v1, h1 = (jfstat.read_lines(tmp_path / name) for name in files)
    assert l1["freq"].value.tolist() == [2.5, 3.5, 4.5, 16.0] and l1["name"][0] == "a comb"
    np.testing.assert_allclose([l1["fmin"].value[3], l1["fmax"].value[3]], [15.95, 16.06])
    assert v1["freq"].value.tolist() == [10.1, 10.3, 10.5] and v1["name"][2].startswith("odd, very, very")
    assert np.all(v1["fmin"] == v1["fmax"])
    assert h1["freq"].value.tolist() == [60.0, 60.25, 60.5, 61.0] and h1["name"][1] == "alone"
    both = jfstat.read_lines([tmp_path / name for name in files])
    assert len(both) == 11 and list(both["detector"]) == ["H1"] * 4 + ["L1"] * 4 + ["V1"] * 3
    assert set(jfstat.read_lines(tmp_path / "H1.txt", "L1")["detector"]) == {"L1"}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("lines.csv", LIGO, "none of H1, .* in its name: give the lines' detector by detector="),
        ("H1L1.csv", LIGO, "several detectors in its name"),
        ("H1.csv", "", "holds no lines"),
        ("H1.csv", "# nothing\nnames, of, columns\n", "holds no lines"),
        ("H1.csv", "16.0,0,0,1,1,x,0.05\n", "line 1, '16.0,0,.*has no known format"),
        ("H1.csv", "16.0,0,0,1\n", "line 1, '16.0,0,0,1', has no known format"),
        ("H1.csv", "16.0,0,0,1,1,0,0,\n16 0 0\n", "line 2, '16 0 0', has no known format"),
        ("H1.csv", LIGO + "16.0,3,0,1,1,0,0,\n", "in line 9 the type is 3"),
        ("H1.csv", "16.0,0,0,1,1,-1,0,\n", "in line 1 a width is negative"),
        ("H1.csv", "16.0,1,0,5,1,0,0,\n", "a comb runs from harmonic 5 to 1"),
        ("H1.csv", "16.0,1,0,1,1e9,0,0,\n", "a comb runs from harmonic 1 to 1000000000"),
        ("H1.csv", "nan,0,0,1,1,0,0,\n", "holds no lines"),
        ("H1.csv", "1.0,0,0,1,1,nan,0,\n", "a value is not finite"),
        ("H1.csv", "-16.0,0,0,1,1,0,0,\n", "the frequency is negative"),
    ],
)
def test_bad_lists(name, text, message, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        jfstat.read_lines(tmp_path / name)


def test_lists_that_are_missing(tmp_path):
    with pytest.raises(OSError, match="H1\\.csv' cannot be read"):
        jfstat.read_lines(tmp_path / "H1.csv")
    (tmp_path / "H1.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="is not text"):
        jfstat.read_lines(tmp_path / "H1.csv")
    with pytest.raises(ValueError, match="empty sequence"):
        jfstat.read_lines([])


# ------------------------------------------------------------------------------------------------------ Doppler shifts
def lal_frequencies(name, point, starts, tsft):
    """Frequencies of a template in a detector's frame at the middle of SFTs, from LALSuite."""
    states = lalpulsar.GetDetectorStates(gps_vector([(int(s), 0) for s in starts]), site(name), ephemeris(), 0.5 * tsft)
    reference = lal.LIGOTimeGPS(int(point.reftime.seconds))
    place = sky(float(point.alpha), float(point.delta))
    ssb = lalpulsar.GetSSBtimes(states, place, reference, lalpulsar.SSBPREC_RELATIVISTICOPT)
    if point.orbit is not None:
        params = lalpulsar.PulsarDopplerParams()
        for field in ("asini", "period", "ecc", "argp"):
            setattr(params, field, float(getattr(point.orbit, field)))
        params.tp, params.refTime = lal.LIGOTimeGPS(float(point.orbit.tp)), reference
        ssb = lalpulsar.AddBinaryTimes(ssb, params)
    tau, rate = np.array(ssb.DeltaT.data), np.array(ssb.Tdot.data)
    f, f1dot = (float(x) for x in point.fkdot)
    return (f + f1dot * tau) * rate


def stack(*points):
    return jax.tree.map(lambda *x: np.stack([np.asarray(y) for y in x]), *points)


@pytest.mark.parametrize("binary", [False, True])
def test_frequencies_in_the_detectors_frames_are_lalpulsars(binary):
    rng, tsft = np.random.default_rng(5 + binary), 900.0
    starts = {name: START + 900 * np.sort(rng.choice(96 * 20, 900, replace=False)) for name in ("H1", "V1")}
    observed = jfstat.observation(["H1", "V1"], timestamps=starts, tsft=tsft, sqrt_sx=1e-23)
    orbit = jfstat.Orbit(0.4, 30000.0, START + 5000.0, 0.2, 1.1) if binary else None
    for _ in range(3):
        position = rng.uniform(0, 6.28), np.arcsin(rng.uniform(-1, 1))
        point = jfstat.Doppler(*position, [rng.uniform(50, 500), -1e-9], START, orbit)
        low, high = jax.jit(detector_range)(observed, point, np.linspace(0, 1, 9 if binary else 3))
        for d, name in enumerate(observed.detectors):
            f = lal_frequencies(name, point, starts[name], tsft)
            # LALSuite at the middle of SFTs; here at their ends too, by which the rotation shifts 5e-8, the orbit 5e-6
            slack = (5e-6 if binary else 5e-8) * f.mean()
            # its solution of Kepler's equation is right to 5e-7 in the rate; see the test of a fast orbit below
            error = (1e-6 if binary else 1e-12) * f.mean()
            assert -error <= f.min() - low[d] < slack
            assert -error <= high[d] - f.max() < slack


@pytest.fixture(scope="module")
def banded(tmp_path_factory):
    """Data of H1 and L1 over a day with a signal, the bank, a list of lines: one in L1's way, one not; the SFTs."""
    directory = tmp_path_factory.mktemp("lines")
    point = jfstat.Doppler(1.0, 0.3, [100.0, -1e-10], START)
    signals = [(point, jfstat.Amplitude(h0=6e-25, cosi=0.9, psi=0.1, phi0=0.3))]
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, DAY, 99.7, 100.3, sqrt_sx=4e-24, signals=signals, seed=1)
    series = list(sfts)
    data = series[1].data.copy()
    data[:, round(100.0215 * 1800) - sfts.first_bin] += 4e-24 * 30 * 60
    series[1] = replace(series[1], data=data)
    sfts = jfstat.SFTs(tuple(series), sfts.tsft, sfts.first_bin)
    path = directory / "O3L1lines.csv"
    path.write_text(
        "# lines\n100.0215,0,0,1,1,0.0004,0.0004,mains; odd, one\n99.98,0,0,1,1,0,0.0,far\n7,1,0,1,3,1,1,\n"
    )
    data = jfstat.prepare(sfts, 99.98, 100.04, START, sqrt_sx=4e-24)
    alpha, delta = (x.ravel() for x in np.meshgrid([0.9, 1.0, 1.1, 3.0], [0.3, 0.4], indexing="ij"))
    fkdot = np.stack([np.full(8, 100.0), np.full(8, -1e-10)], axis=-1)
    return data, jfstat.Doppler(alpha, delta, fkdot, START), jfstat.read_lines(path), path, sfts


def crossing(point, name, starts, low, high):
    """Whether a template crosses a band at the middle of any SFT, by LALSuite."""
    f = lal_frequencies(name, point, starts, 1800.0)
    return f.max() >= low and f.min() <= high


@pytest.mark.ci
def test_candidates_are_flagged_by_their_own_frequencies(banded):
    data, bank, lines, _, sfts = banded
    found = jfstat.search(
        data, bank, top=50, progress=False, keep=jfstat.Keep(lines=lines), details=jfstat.Details(per_detector=False)
    )
    assert found.meta["veto_lines"] is False and [row[3] for row in found.meta["lines"]] == ["far", "mains; odd, one"]
    starts, told = sfts["L1"].gps, np.asarray(found["line"])
    assert np.sum(told != "") > 10 and set(told) <= {"", "L1 100.0215 Hz (mains, odd, one)"}
    for row in range(0, 50, 3):
        point = jfstat.Doppler(
            *(float(found[x][row].value) for x in ("alpha", "delta")), [found["freq"][row].value, -1e-10], START
        )
        assert (told[row] != "") == crossing(point, "L1", starts, 100.0211, 100.0219)
    again = jfstat.flag_lines(data, found["freq", "f1dot", "alpha", "delta"], lines)
    assert np.array_equal(again["line"], told)
    assert "line" not in found["freq", "f1dot", "alpha", "delta"].colnames
    assert len(jfstat.flag_lines(data.observation, found[:0], lines)) == 0


def test_vetoed_bins_are_those_that_are_flagged(banded):
    data, bank, lines, _, _ = banded
    bands = line_bands(lines, data.observation, bank)
    for row in (0, 4, 7):
        point = jax.tree.map(lambda x, row=row: np.asarray(x)[row], bank)
        ranges = np.asarray(jax.jit(vetoed_bins)(data, point, bands)).reshape(-1, 2)
        vetoed = np.zeros(len(data.frequencies), bool)
        for first, last in ranges:
            vetoed[first : last + 1] = True
        f = np.asarray(data.frequencies)[::97]
        points = stack(*(jfstat.Doppler(point.alpha, point.delta, [x, -1e-10], START) for x in f))
        assert np.array_equal(crossed_lines(data.observation, points, lines) != "", vetoed[::97])
        assert 0 < vetoed.sum() < len(vetoed) / 2


@pytest.mark.compiled
def test_vetoed_bins_never_become_candidates_and_the_signal_stays(banded):
    data, bank, lines, _, _ = banded
    plain = jfstat.search(data, bank, top=50, progress=False, details=jfstat.Details(per_detector=False))
    kept = jfstat.search(
        data,
        bank,
        top=50,
        progress=False,
        keep=jfstat.Keep(lines=lines, veto_lines=True),
        details=jfstat.Details(per_detector=False),
    )
    assert np.all(np.abs(plain["freq"].value - 100.0) > 0.01)  # the line fills the table
    assert kept["freq"][0].value == pytest.approx(100.0, abs=2e-5) and kept["template"][0] == 2
    assert np.all(np.asarray(kept["line"]) == "") and kept.meta["veto_lines"] is True
    n_vetoed = 0
    bands = line_bands(lines, data.observation, bank)
    for row in range(8):
        point = jax.tree.map(lambda x, row=row: np.asarray(x)[row], bank)
        own = np.zeros(len(data.frequencies), bool)
        for first, last in np.asarray(jax.jit(vetoed_bins)(data, point, bands)).reshape(-1, 2):
            own[first : last + 1] = True
        n_vetoed += own.sum()
    assert kept.meta["n_twoF"] == plain.meta["n_twoF"] - n_vetoed == sum(kept.meta["twoF_histogram"])
    # what is left is the same to the last bit
    every = jfstat.search(
        data,
        bank,
        top=None,
        threshold=25,
        progress=False,
        keep=jfstat.Keep(lines=lines),
        details=jfstat.Details(per_detector=False),
    )
    some = jfstat.search(
        data,
        bank,
        top=None,
        threshold=25,
        progress=False,
        keep=jfstat.Keep(lines=lines, veto_lines=True),
        details=jfstat.Details(per_detector=False),
    )
    left = every[np.asarray(every["line"]) == ""]
    assert len(some) == len(left) < len(every)
    assert np.array_equal(some["twoF"], left["twoF"]) and np.array_equal(some["freq"], left["freq"])


@pytest.mark.compiled
def test_lines_on_a_mesh_in_units_and_in_checkpoints(banded, tmp_path):
    data, bank, lines, _, _ = banded
    options = dict(top=50, progress=False, lines=lines, veto_lines=True, per_detector=False, batch_size=4)
    whole = search(data, bank, **options)
    parts = [search(data, bank, unit=(i, 2), **options) for i in (1, 2)]
    files = [jfstat.write_candidates(part, tmp_path / f"{i}.ecsv") for i, part in enumerate(parts)]
    meshed = search(data, bank, mesh=jax.make_mesh((1,), ("templates",)), **options)
    for table in (jfstat.merge([jfstat.read_candidates(file) for file in files]), meshed):
        assert np.array_equal(table["twoF"], whole["twoF"]) and np.array_equal(table["line"], whole["line"])
        assert table.meta["n_twoF"] == whole.meta["n_twoF"]
    search(data, bank, checkpoint=tmp_path / "c", **options)
    with pytest.raises(ValueError, match="what differs is the vetoed lines"):
        search(data, bank, checkpoint=tmp_path / "c", **{**options, "veto_lines": False})


@pytest.mark.ci
def test_refined_candidates_are_flagged_where_they_end(banded):
    data, bank, lines, _, _ = banded
    found = jfstat.search(
        data,
        bank,
        top=50,
        progress=False,
        keep=jfstat.Keep(lines=lines, veto_lines=True),
        details=jfstat.Details(per_detector=False),
    )[:1]
    assert jfstat.refine(data, found, progress=False, fit=jfstat.Fit(["freq"]))["line"][0] == ""  # lines from the table
    wide = lines.copy()
    wide["fmax"] = wide["fmax"] + 0.1 * wide["fmax"].unit
    fit = jfstat.Fit(["freq"], lines=wide)
    refined = jfstat.refine(data, found, fit=fit, progress=False)
    assert "99.98 Hz (far)" in refined["line"][0]
    bad = found.copy()
    bad["delta"] = bad["delta"] * 20
    assert jfstat.refine(data, bad, fit=fit, progress=False)["line"][0] == ""


def test_what_is_wrong_with_lines(banded):
    data, bank, lines, _, _ = banded
    with pytest.raises(TypeError, match="lines must be a table from jfstat\\.read_lines, not str"):
        jfstat.search(data, bank, keep=jfstat.Keep(lines="H1.csv"))
    with pytest.raises(ValueError, match="lines lacks the column 'fmax'"):
        jfstat.search(data, bank, keep=jfstat.Keep(lines=lines["detector", "fmin", "name"]))
    with pytest.raises(ValueError, match="veto_lines needs lines"):
        jfstat.search(data, bank, keep=jfstat.Keep(veto_lines=True))
    with pytest.raises(ValueError, match="engine 'cuda' cannot veto lines"):
        jfstat.search(data, bank, keep=jfstat.Keep(lines=lines, veto_lines=True), run=jfstat.Run(engine="cuda"))
    swapped = lines.copy()
    swapped["fmin"], swapped["fmax"] = lines["fmax"], lines["fmin"] - 1 * lines["fmin"].unit
    with pytest.raises(ValueError, match="fmin <= fmax"):
        jfstat.flag_lines(data, bank_table(), swapped)


def bank_table():
    from astropy.table import QTable

    return QTable({"freq": [100.0], "alpha": [1.0], "delta": [0.0]}, meta={"reftime": START})


def test_bands_that_overlap_are_joined(banded):
    data, bank, lines, _, _ = banded
    many = lines[:0].copy()
    for low, high, name in ((1.0, 2.0, "L1"), (1.5, 3.0, "L1"), (2.5, 2.6, "L1"), (1.0, 2.0, "H1"), (4.0, 4.0, "L1")):
        many.add_row([name, *(x * lines["fmin"].unit for x in (low, low, high, 0, 0)), ""])
    bands = line_bands(many, data.observation, bank)
    real = np.asarray(bands.fmin) <= np.asarray(bands.fmax)
    rows = [[int(x[i]) for x in (bands.detector, bands.fmin, bands.fmax)] for i in np.flatnonzero(real)]
    assert rows == [[0, 1, 2], [1, 1, 3], [1, 4, 4]] and len(real) == 4


@pytest.mark.ci
def test_the_program_flags_and_vetoes_a_line_of_Makefakedata(tmp_path, capsys):
    files, raw, lines = tmp_path / "sfts", tmp_path / "raw", tmp_path / "O3L1lines.csv"
    files.mkdir(), raw.mkdir()
    signal = (
        f"{{Alpha=1.0; Delta=0.3; Freq=100.0; refTime={START}; h0=4e-25; cosi=0.8; psi=0.3; phi0=0.5; f1dot=-1e-10}}"
    )
    times = dict(startTime=START, duration=DAY, fmin=99.6, Band=0.8, Tsft=1800)
    run(
        "Makefakedata_v5",
        IFOs="H1,L1",
        sqrtSX="4e-24,4e-24",
        outSFTdir=raw,
        injectionSources=signal,
        randSeed=3,
        **times,
    )
    h1, l1 = sorted(raw.iterdir())
    h1.rename(files / h1.name)
    run("Makefakedata_v4", IFO="L1", lineFeature="TRUE", h0=3e-24, cosi=0, psi=0, phi0=0.3, Freq=100.0213, noiseSFTs=l1,
        outSFTbname=files / l1.name, outSingleSFT="TRUE", Alpha=0, Delta=0, refTime=START, **times)  # fmt: skip
    lines.write_text("100.0213,0,0,1,1,0.0006,0.0006,test line\n99.98,0,0,1,1,0,0,far\n7,1,0,1,3,1,1,\n")
    words = [f"--DataFiles={files}", "--Alpha=1.0", "--Delta=0.3", "--Freq=99.98", "--FreqBand=0.06", "--f1dot=-1e-10"]
    words += [f"--refTime={START}", "--noDetails", f"--linefiles={lines}", "--NumCandidatesToKeep=20"]
    out, refined = tmp_path / "found.ecsv", tmp_path / "refined.ecsv"
    assert main(["search", *words, f"--outputFstat={out}"]) == 0
    assert "crosses L1 100.0213 Hz (test line); 20 of 20 cross a known line" in capsys.readouterr().out
    assert main(["search", *words, "--vetoLines", f"--outputFstat={out}"]) == 0
    told = capsys.readouterr().out
    assert "2 known line(s) in the band" in told and "crosses no known line; 0 of 20" in told
    found = jfstat.read_candidates(out)
    assert found["freq"][0].value == pytest.approx(100.0, abs=2e-5) and found["twoF"][0] > 300
    words = [f"--candidates={out}", "--NumCandidatesToKeep=1", "--mismatch=0", "--parameters=freq", *words[:1]]
    assert main(["refine", *words, f"--linefiles=L1:{lines}", f"--outputFstat={refined}"]) == 0
    assert list(jfstat.read_candidates(refined)["line"]) == [""]
    capsys.readouterr()
    words = [f"--DataFiles={files}", "--Alpha=1.0", "--Delta=0.3", "--Freq=99.98"]
    for wrong, message in (
        ("--vetoLines", "--vetoLines needs --linefiles"),
        ("--linefiles=none", "list of lines 'none' cannot be read"),
        ("--linefiles=X1:none", "list of lines 'X1:none' cannot be read"),
    ):
        assert main(["search", *words, wrong]) == 1
        assert message in capsys.readouterr().err


def test_the_range_of_a_veto_for_a_fast_orbit(tmp_path):
    orbit = jfstat.Orbit(0.05, 7200.0, START + 100.0, 0.3, 1.0)
    point = jfstat.Doppler(1.0, 0.3, [100.0, -1e-9], START, orbit)
    observed = jfstat.observation(["H1"], START, 20000, sqrt_sx=1e-23)
    (tmp_path / "H1.csv").write_text("100.0,a line without width\n")
    line = jfstat.read_lines(tmp_path / "H1.csv")
    low, high = jax.jit(affected_range)(observed, point, line_bands(line, observed, stack(point)))
    # the same from the phase itself, at 20000 times
    times = np.linspace(0, 19800, 20001)
    own, trajectory = observed.source(point), jax.tree.map(lambda x: x[0], observed.trajectory)
    tau = times + np.asarray(own.delay(trajectory, times))
    rate, drift = np.gradient(tau, times)[1:-1], -1e-9 * tau[1:-1]
    assert 0 <= (100.0 / rate - drift).min() - float(low[0]) < 1e-4
    assert 0 <= float(high[0]) - (100.0 / rate - drift).max() < 1e-4


# --------------------------------------------------------------------------------------------------------------- clean
def test_clean_replaces_the_bins_that_SFTclean_replaces(tmp_path):
    floors = {"H1": 4e-24, "L1": 9e-24}
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 40 * 1800, 60.0, 60.6, sqrt_sx=floors, seed=2)
    slope = np.linspace(1, 1.3, sfts.n_bins)
    series = [replace(s, data=(s.data * slope).astype(np.complex64)) for s in sfts]
    for s in series:
        s.data[:, 300:304] += 1e-20  # a line within the band that is cleaned
    sfts = jfstat.SFTs(tuple(series), sfts.tsft, sfts.first_bin)
    jfstat.write_sfts(sfts, tmp_path / "in")
    # at a bin, half-way between two, wings of whole and other numbers of bins, at the edges, too wide, outside
    comb, edge = (
        "60.1 0.05 3 0.005 0.0033 a\n60.30028 0.0 1 0.0 0.0 b\n",
        "60.0 0 1 0.001 0.001 c\n60.45 0 1 0.02 0 wide\n",
    )
    other = f"{60 + 302 / 1800!r} 0 1 0.002 0.002 a\n60.5994 0.0 1 0.003 0.003 b\n61.0 0 1 0.001 0.001 c\n"
    rows = {"H1": comb + edge, "L1": other}
    files = []
    for name, text in rows.items():
        files.append(tmp_path / f"{name}lines.txt")
        files[-1].write_text(text)
    (tmp_path / "theirs").mkdir()
    # SFTclean wants files whose names begin with the detector, and writes one file for each SFT
    run("SFTclean", sftDir=f"{tmp_path}/in/*.sft", outDir=tmp_path / "theirs", linefiles=",".join(map(str, files)))
    words = [f"--sftDir={tmp_path / 'in'}", f"--outDir={tmp_path / 'ours'}", f"--linefiles={','.join(map(str, files))}"]
    assert main(["clean-sfts", *words, "--maxBins=20", "--randSeed=3"]) == 0
    # jfstat names the band as well
    names = [{p.name for p in (tmp_path / x).iterdir()} for x in ("ours", "theirs")]
    assert {name.replace("_NBF0060Hz0W0000Hz1080", "") for name in names[0]} == names[1]
    ours, theirs = jfstat.read_sfts(tmp_path / "ours"), jfstat.read_sfts(tmp_path / "theirs")
    for old, own, their in zip(sfts, ours, theirs, strict=True):
        replaced = np.any(own.data != old.data, axis=0)
        assert np.array_equal(replaced, np.any(their.data != old.data, axis=0))
        assert 4 < replaced.sum() < 80
        # the level of the noise: of SFTclean's, and of the bins beside it; at the edges SFTclean repeats a single bin
        replaced &= (np.arange(1080) > 10) & (np.arange(1080) < 1070)
        power = [np.mean(np.abs(x.data[:, replaced].astype(complex)) ** 2) for x in (own, their)]
        n = 40 * replaced.sum()
        assert power[0] / power[1] == pytest.approx(1, abs=5 * np.sqrt(2 / n))
        expected = floors[old.detector] ** 2 * 1800 / 2 * np.mean(slope[replaced] ** 2)
        assert power[0] / expected == pytest.approx(1, abs=5 / np.sqrt(n) + 0.02)


@pytest.mark.ci
def test_clean_leaves_what_it_was_given_and_repeats_itself(banded):
    _, _, lines, _, sfts = banded
    before = [s.data.copy() for s in sfts]
    one, two, other = (jfstat.clean(sfts, lines, seed=seed) for seed in (4, 4, 5))
    assert all(np.array_equal(x, s.data) for x, s in zip(before, sfts, strict=True))
    assert np.array_equal(one["L1"].data, two["L1"].data) and not np.array_equal(one["L1"].data, other["L1"].data)
    assert np.array_equal(one["H1"].data, sfts["H1"].data)
    # the line is gone, and the signal is found without a veto
    data = jfstat.prepare(one, 99.98, 100.04, START, sqrt_sx=4e-24)
    found = jfstat.search(data, jfstat.Doppler(1.0, 0.3, [100.0, -1e-10], START), top=5, progress=False)
    assert found["freq"][0].value == pytest.approx(100.0, abs=2e-5) and found["twoF"][0] > 60


def test_lines_at_the_edges_and_over_the_whole_band(tmp_path):
    sfts = jfstat.simulate_sfts(["H1"], START, 100 * 1800, 60.0, 60.1, sqrt_sx=1e-23, seed=2)
    (tmp_path / "H1.csv").write_text("59.99,0,0,1,1,0,0.0201,\n")  # its middle is outside; SFTclean would not touch it
    cleaned = jfstat.clean(sfts, jfstat.read_lines(tmp_path / "H1.csv"))["H1"].data
    changed = np.flatnonzero(np.any(cleaned != sfts["H1"].data, axis=0))
    assert changed.tolist() == list(range(19))
    level = np.mean(np.abs(cleaned[:, changed].astype(complex)) ** 2) / (1e-46 * 900)
    assert level == pytest.approx(1, abs=0.1)
    (tmp_path / "H1.csv").write_text("60.05,0,0,1,1,1,1,\n")
    with pytest.raises(ValueError, match="covers all bins"):
        jfstat.clean(sfts, jfstat.read_lines(tmp_path / "H1.csv"))
    cleaned = jfstat.clean(sfts, jfstat.read_lines(tmp_path / "H1.csv"), max_bins=20)["H1"].data
    assert np.sum(np.any(cleaned != sfts["H1"].data, axis=0)) == 41


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(window=0), "window must be a whole number of at least 1"),
        (dict(max_bins=-1), "max_bins must be a whole number of at least 0"),
        (dict(seed=-1), "seed must be a whole number of at least 0"),
    ],
)
def test_what_clean_refuses(banded, options, message):
    with pytest.raises(ValueError, match=message):
        jfstat.clean(banded[4], banded[2], **options)
    with pytest.raises(TypeError, match="sfts must be SFTs"):
        jfstat.clean("x", banded[2])
    with pytest.raises(ValueError, match="lacks the column 'left_width'"):
        jfstat.clean(banded[4], banded[2]["detector", "freq", "fmin", "fmax", "name"])


def test_line_tables_may_be_plain_tables_with_units():
    """As astropy's Table.read makes them: their columns are no Quantities."""
    own = Table({"fmin": [0.05, 0.1], "fmax": [0.06, 0.11]}, units={"fmin": "kHz", "fmax": "kHz"})
    np.testing.assert_allclose(hertz(own["fmin"]), [50.0, 100.0])
    np.testing.assert_allclose(hertz(QTable(own)["fmax"]), [60.0, 110.0])
