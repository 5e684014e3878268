"""Transient signals and atoms on the command line and in `fstat_table`, beside ComputeFstatistic_v2."""

import re
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from lalsuite_tools import run

import jfstat
from jfstat.commandline import main

START = 1_120_000_000
POINT = jfstat.Doppler(2.1, -0.4, [70.0, -1e-10], START)
RANGE = ["--transient-WindowType=rect", "--transient-t0Band=72000", "--transient-tau=7200", "--transient-tauBand=36000"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("transients")
    window = jfstat.TransientWindow("rect", START + 10 * 1800, 20 * 1800)
    signal = (POINT, jfstat.Amplitude(1e-24, 0.3, 0.2, 1.0), window)
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 86400, 68, 72, sqrt_sx=5e-24, seed=4, signals=[signal])
    jfstat.write_sfts(sfts, folder)
    common = [f"--DataFiles={folder}/*.sft", "--Alpha=2.1", "--Delta=-0.4", "--Freq=70", "--f1dot=-1e-10",
              f"--refTime={START}", "--assumeSqrtSX=5e-24,5e-24"]  # fmt: skip
    return SimpleNamespace(folder=folder, common=common, sfts=sfts, window=window)


def rows(path):
    """Numbers in a file of --outputTransientStats, (n, 12)."""
    return np.atleast_2d(np.loadtxt(path, comments="%"))


@pytest.mark.ci
def test_windows_are_those_of_compute_fstatistic(files, tmp_path, capsys):
    """The same options, the same columns: the loudest window, and 2F and Bayes factor within what Demod loses."""
    ours, theirs = tmp_path / "ours.txt", tmp_path / "theirs.txt"
    table = tmp_path / "ours.ecsv"
    own = [f"--outputTransientStats={ours}", f"--outputFstat={table}"]
    assert main(["points", *files.common, *RANGE, *own]) == 0
    options = dict(option.removeprefix("--").split("=", 1) for option in [*files.common, *RANGE])
    options["transient-t0Offset"] = "0"  # which is the default of jfstat, not of LALSuite
    run("ComputeFstatistic_v2", outputTransientStats=theirs, outputLogfile="/dev/null", **options)
    mine, other = rows(ours)[0], rows(theirs)[0]
    np.testing.assert_allclose(mine[:6], other[:6], rtol=1e-12)
    assert tuple(mine[6:8]) == tuple(other[6:8])
    np.testing.assert_allclose(mine[8:10], other[8:10], rtol=0.05)
    # LALSuite gives the middle of a bin of its posterior; the next tau of the range is nearly as probable
    assert np.all(np.abs(mine[10:] - other[10:]) < 3600)
    header = [next(x for x in path.read_text().splitlines() if x.startswith("%% Freq")) for path in (ours, theirs)]
    assert header[0] == header[1]
    found = jfstat.read_candidates(table)
    assert found["t0"].unit == "s" and found.meta["transient"]["n_windows"] == 41 * 21
    np.testing.assert_allclose(found["log10BtSG"], mine[9] / np.log(10), rtol=1e-6)
    assert "max_twoF" in capsys.readouterr().out


@pytest.mark.ci
def test_bands_and_files_of_points_give_the_same(files, tmp_path):
    paths = [tmp_path / "band.ecsv", tmp_path / "points.ecsv"]
    assert main(["search", *files.common, "--FreqBand=3e-5", *RANGE, "--NumCandidatesToKeep=3",
                 f"--outputFstat={paths[0]}"]) == 0  # fmt: skip
    band = jfstat.read_candidates(paths[0])
    assert len(band) == 3 and band.meta["n_twoF"] >= 6 and np.all(np.diff(band["max_twoF"]) <= 0)
    np.testing.assert_allclose(band["max_twoF_band"], band["max_twoF"], rtol=0.02)
    jfstat.write_candidates(band, tmp_path / "grid.ecsv")
    exact = [x for x in files.common if not x.startswith(("--Alpha", "--Delta", "--Freq", "--f1dot"))]
    assert main(["points", *exact, *RANGE, f"--gridFile={tmp_path / 'grid.ecsv'}",
                 f"--outputFstat={paths[1]}"]) == 0  # fmt: skip
    points = jfstat.read_candidates(paths[1])
    for name in ("max_twoF", "log10BtSG"):
        np.testing.assert_allclose(points[name], band[name], rtol=1e-3)
    np.testing.assert_array_equal(points["t0"], band["t0"])


@pytest.mark.slow
def test_bands_are_searched_in_units_and_by_the_bayes_factor(files, tmp_path, capsys):
    """What only searches have goes with windows too."""
    common = [*files.common, "--FreqBand=3e-5", *RANGE, "--RankingStatistic=BtSG", "--NumCandidatesToKeep=3"]
    assert main(["search", *common, "--f1dotBand=2e-10", "--countTemplates"]) == 0
    assert "would take" in capsys.readouterr().out
    paths = [tmp_path / f"{i}.ecsv" for i in range(3)]
    assert main(["search", *common, "--f1dotBand=2e-10", f"--outputFstat={paths[0]}"]) == 0
    assert "log10BtSG" in capsys.readouterr().out
    for i in (1, 2):
        assert main(["search", *common, "--f1dotBand=2e-10", f"--unit={i}/2", f"--outputFstat={paths[i]}"]) == 0
    whole = jfstat.read_candidates(paths[0])
    merged = jfstat.merge([jfstat.read_candidates(path) for path in paths[1:]])
    assert np.all(np.diff(whole["log10BtSG"]) <= 0)
    np.testing.assert_array_equal(merged["log10BtSG"], whole["log10BtSG"])
    stats = tmp_path / "stats.txt"
    assert main(["search", *common, "--lineVeto", f"--outputTransientStats={stats}"]) == 0
    assert len(rows(stats)) == 3 and "line veto" in capsys.readouterr().out


@pytest.mark.ci
def test_tables_hold_what_maps_say(files):
    """Isolated sources and orbits in one table."""
    data = jfstat.prepare(files.sfts, 69.99, 70.01, sqrt_sx=5e-24, orbit=jfstat.Orbit(0.01, 30000.0, START))
    orbit = jfstat.Orbit(np.array([0.0, 0.001]), np.full(2, 30000.0), np.full(2, float(START)))
    stack = jfstat.Doppler(np.full(2, 2.1), np.full(2, -0.4), np.tile([70.0, -1e-10], (2, 1)), START, orbit)
    wanted = jfstat.TransientRange("exp", START + 1800.0 * np.arange(40), 1800.0 * np.arange(4, 20), rho_max=10.0)
    table = jfstat.fstat_table(data, stack, transient=wanted, progress=False)
    for row, point in enumerate((POINT, jax.tree.map(lambda x: x[1], stack))):
        found = jfstat.transient_map(jfstat.atoms(data, point), "exponential", wanted.t0, wanted.tau)
        np.testing.assert_allclose(table["max_twoF"][row], found.max_twoF, rtol=1e-9)
        np.testing.assert_allclose(table["log10BtSG"][row], found.log10_bayes_factor(10.0), rtol=1e-9)
        assert table["t0"][row].value == float(found.best.t0) and table["tau"][row].value == float(found.best.tau)
        assert table["t0_MP"][row].value == float(found.t0[np.argmax(found.posterior_t0)])
    # tables of other data do not carry the columns over
    assert "t0" not in jfstat.fstat_table(data, table, progress=False).colnames
    with pytest.raises(TypeError, match="TransientRange"):
        jfstat.fstat_table(data, stack, transient="rect", progress=False)
    with pytest.raises(ValueError, match="duration must be at least"):
        jfstat.fstat_table(data, stack, transient=jfstat.TransientRange("rect", [START], [7200.0], duration=0.1))


@pytest.mark.ci
def test_atoms_are_written_for_each_point(files, tmp_path):
    assert main(["points", *files.common, "--FreqBand=6e-6", f"--outputFstatAtoms={tmp_path}/own"]) == 0
    found = sorted(tmp_path.glob("own*"), key=lambda path: len(path.name))
    assert len(found) == 2 and found[0].name == f"own_tRef{START}_RA2.1_DEC-0.4_Freq70_f1dot-1e-10.dat"
    data = jfstat.prepare(files.sfts, 70.0, 70.0001, sqrt_sx=5e-24)
    np.testing.assert_allclose(jfstat.read_atoms(found[0]).twoF, jfstat.twoF(data, POINT), rtol=2e-3)


def test_simulated_signals_have_windows(tmp_path, capsys):
    """Options for one signal, and keys of sources, as LALSuite's."""
    keys = dict(Alpha=2.1, Delta=-0.4, Freq=70, refTime=START, h0=1e-24, cosi=0.3)
    keys |= dict(transientWindowType="exp", transientStartTime=START + 3600, transientTau=1800)
    common = ["simulate", "--IFOs=H1", f"--startTime={START}", "--duration=18000", "--fmin=69", "--Band=2"]
    source = "; ".join(f"{name}={value}" for name, value in keys.items())
    assert main([*common, f"--outSFTdir={tmp_path}/a", *(f"--{name}={value}" for name, value in keys.items())]) == 0
    assert main([*common, f"--outSFTdir={tmp_path}/b", f"--injectionSources={{{source}}}"]) == 0
    a, b = (next(iter(jfstat.read_sfts(str(tmp_path / x)))).data for x in "ab")
    np.testing.assert_array_equal(a, b)
    # 3 tau from the third SFT on
    assert np.array_equal(np.flatnonzero(np.any(a, axis=1)), [2, 3, 4])
    for change, words in (
        (dict(transientWindowType="box"), "must be none, rect or exp"),
        (dict(transientWindowType="none"), "go with transientWindowType"),
        (dict(transientTau=-1), "transientTau must be positive"),
    ):
        source = "; ".join(f"{name}={value}" for name, value in (keys | change).items())
        assert main([*common, f"--outSFTdir={tmp_path}/c", f"--injectionSources={{{source}}}"]) == 1
        assert words in capsys.readouterr().err


WRONG = {
    "window missing": (["--transient-tau=7200"], "--transient-tau needs --transient-WindowType"),
    "statistics without window": (["--outputTransientStats=x"], "--outputTransientStats needs --transient-WindowType"),
    "windows within an SFT": (["--transient-WindowType=rect", "--transient-tau=600"], "is less than 1800 s, an SFT"),
    "time scale missing": (["--transient-WindowType=exp"], "--transient-tau is missing"),
    "two starts": ([*RANGE, f"--transient-t0Epoch={START}", "--transient-t0Offset=3"], "exclude each other"),
    "negative step": ([*RANGE, "--transient-dt0=-3"], "--transient-dt0 must be positive"),
    "negative band": ([*RANGE[:-1], "--transient-tauBand=-3"], "--transient-tauBand must not be negative"),
    "segments": ([*RANGE, "--segments=2"], "--segments does not go with --transient-WindowType"),
    "atoms": (["--outputFstatAtoms=x"], "unknown option --outputFstatAtoms: use jfstat points"),
}
WRONG_POINTS = {
    "clusters": (["--outputFstatAtoms=x", "--cluster=1"], "unknown option --cluster"),
    "too many": (["--outputFstatAtoms=x", "--FreqBand=0.5", "--f1dotBand=1e-6"], "are .* points, more than 1000000"),
    "too many files": (["--outputFstatAtoms=x", "--FreqBand=0.1"], "would write 17281 files"),
}


@pytest.mark.parametrize(
    ("command", "name"), [*(("search", name) for name in WRONG), *(("points", name) for name in WRONG_POINTS)]
)
def test_wrong_options_are_named(files, command, name, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options, words = (WRONG if command == "search" else WRONG_POINTS)[name]
    assert main([command, *files.common, *options]) == 1
    assert re.search(words, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("shape", "seed"),
    [pytest.param("rect", 1, marks=pytest.mark.slow), pytest.param("exp", 2, marks=pytest.mark.ci)],
)
def test_the_loudest_file_is_of_the_loudest_persistent_signal(shape, seed, tmp_path):
    """As in ComputeFstatistic_v2, whatever windows are searched beside it."""
    persistent = jfstat.Doppler(2.1, -0.4, [70.0003], START), jfstat.Amplitude(6e-25, 0.3, 0.2, 1.0)
    brief = jfstat.TransientWindow(shape, START + 7200, 7200)
    short = jfstat.Doppler(2.1, -0.4, [70.0008], START), jfstat.Amplitude(2.5e-24, 0.3, 0.2, 1.0), brief
    how = dict(fmin=69.5, fmax=70.5, sqrt_sx=5e-24, seed=seed, signals=[persistent, short])
    jfstat.write_sfts(jfstat.simulate_sfts("H1", START, 86400, **how), tmp_path)
    line = ["search", f"--DataFiles={tmp_path}/*.sft", "--Alpha=2.1", "--Delta=-0.4", "--Freq=70", "--FreqBand=0.001"]
    line += [f"--refTime={START}", "--guard=0.4", "--assumeSqrtSX=5e-24"]
    window = [f"--transient-WindowType={shape}", "--transient-tau=7200", "--transient-t0Band=72000"]
    names = [tmp_path / name for name in ("with", "without")]
    assert main([*line, *window, f"--outputLoudest={names[0]}", f"--outputFstat={tmp_path}/t.ecsv"]) == 0
    assert main([*line, f"--outputLoudest={names[1]}"]) == 0
    values = [re.findall(r"^(Freq|twoF|Fa|h0) += *(.*);", name.read_text(), re.MULTILINE) for name in names]
    assert values[0] == values[1] and abs(float(dict(values[0])["Freq"]) - 70.0003) < 1e-5
    assert abs(jfstat.read_candidates(tmp_path / "t.ecsv")["freq"][0].value - 70.0008) < 2e-4


@pytest.mark.parametrize(
    ("command", "shape"),
    [
        pytest.param("points", "rect", marks=pytest.mark.ci),
        pytest.param("search", "exp", marks=pytest.mark.ci),
        pytest.param("points", "exp", marks=pytest.mark.slow),
        pytest.param("search", "rect", marks=pytest.mark.slow),
    ],
)
def test_all_windows_are_written(command, shape, files, tmp_path):
    """A line for each window of each candidate, the largest of which is the candidate's 2F."""
    window = [
        f"--transient-WindowType={shape}",
        "--transient-t0Band=14400",
        "--transient-tau=7200",
        "--transient-tauBand=7200",
    ]
    out = [
        f"--outputTransientStatsAll={tmp_path}/all.txt",
        f"--outputFstat={tmp_path}/t.ecsv",
        "--NumCandidatesToKeep=3",
    ]
    assert main([command, *files.common, "--FreqBand=1e-5", "--dFreq=2e-6", *window, *out]) == 0
    table = jfstat.read_candidates(tmp_path / "t.ecsv")
    lines = np.loadtxt(tmp_path / "all.txt", comments="%").reshape(3, 9 * 5, 9)
    header = (tmp_path / "all.txt").read_text()
    assert "fkdot[3]  t0[s]      tau[s]      twoF\n" in header
    for row, own in zip(table, lines, strict=True):
        best = own[np.argmax(own[:, 8])]
        np.testing.assert_allclose(own[:, 0], row["freq"].value, rtol=1e-14)
        np.testing.assert_allclose(best[8], row["max_twoF"], rtol=1e-5)
        assert (best[6], best[7]) == (row["t0"].value, row["tau"].value)
        assert len(np.unique(own[:, 6:8], axis=0)) == 45


def test_all_windows_need_windows_and_are_not_too_many(files, tmp_path, capsys):
    line = ["points", *files.common, f"--outputTransientStatsAll={tmp_path}/all.txt"]
    assert main(line) == 1
    assert "--outputTransientStatsAll needs --transient-WindowType" in capsys.readouterr().err
    windows = jfstat.TransientRange("rect", START + np.arange(4000.0), 1800 + np.arange(3000.0), duration=1800)
    found = jfstat.template_table([POINT])
    with pytest.raises(ValueError, match="at most 10000000 lines"):
        jfstat.write_transient_maps_files(jfstat.find_sfts(str(files.folder)), found, tmp_path / "x", windows)
    assert not list(tmp_path.iterdir())


def test_explained_refusals_of_peers_options(capsys):
    for name in ("outputTiming", "outputFstatTiming", "resampFFTPowerOf2", "transient-useFReg", "FstatHistBin"):
        assert main(["search", "--DataFiles=x", "--Freq=1", f"--{name}=1"]) == 1
        assert f"unknown option --{name}: leave it out, " in capsys.readouterr().err
