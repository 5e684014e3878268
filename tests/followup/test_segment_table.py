"""2F over segments at exactly given templates, against `mean_twoF`, and the program."""

import numpy as np
import pytest

import jfstat
from jfstat.commandline import main

START = 1167458304


@pytest.fixture(scope="module")
def sfts():
    times = {"H1": START + 1800 * np.r_[0:9, 12:24], "L1": START + 1800 * np.r_[3:20]}
    signal = jfstat.Doppler(1.1, 0.2, [100.003, -1e-10], START), jfstat.Amplitude(3e-24, 0.4, 0.3, 1.0)
    how = dict(fmin=99.0, fmax=101.0, timestamps=times, sqrt_sx=[4e-24, 6e-24], signals=[signal])
    return jfstat.simulate_sfts(["H1", "L1"], seed=1, **how)


def drawn(seed, n):
    rng = np.random.default_rng(seed)
    orbits = rng.random(n) < 0.5
    columns = {"freq": rng.uniform(99.99, 100.01, n), "alpha": rng.uniform(0, 6, n), "delta": rng.uniform(-1, 1, n)}
    columns |= {"f1dot": rng.uniform(-1e-9, 1e-9, n), "asini": np.where(orbits, 0.01, 0.0)}
    columns |= {"period": np.full(n, 30000.0), "tp": np.full(n, START + 500.0)}
    columns["freq"][0], columns["alpha"][0], columns["delta"][0], columns["f1dot"][0] = 100.003, 1.1, 0.2, -1e-10
    columns["asini"][0] = 0.0
    return columns


@pytest.mark.parametrize(
    "segments", [2, pytest.param(3, marks=pytest.mark.ci), [(START, START + 9000), (START + 9000, START + 30000)]]
)
def test_points_over_segments_are_their_means(sfts, segments):
    from astropy.table import Table

    columns = drawn(seed=7, n=5)
    table = Table(columns, meta={"reftime": START})
    how = dict(fmin=99.98, fmax=100.02, reftime=START, sqrt_sx=[4e-24, 6e-24], fdots=[(-1e-9, 1e-9)], guard=0.5)
    orbit = jfstat.Orbit(0.01, 30000.0, START + 500.0)
    data = jfstat.prepare(sfts, segments=segments, orbit=orbit, **how)
    found = jfstat.fstat_table(data, table, progress=False)
    for row in range(5):
        own = None if columns["asini"][row] == 0 else orbit
        point = jfstat.Doppler(
            columns["alpha"][row], columns["delta"][row], [columns["freq"][row], columns["f1dot"][row]], START, own
        )
        assert found["mean_twoF"][row] == pytest.approx(float(jfstat.mean_twoF(data, point)), rel=2e-5)
    assert found["mean_twoF"][0] == max(found["mean_twoF"]) > 8
    assert found.meta["n_segments"] == data.n_segments and "phi0" not in found.colnames
    assert found["h0"][0] == pytest.approx(3e-24, rel=0.4)
    empty = jfstat.fstat_table(data, table[:0], progress=False)
    assert len(empty) == 0 and empty.colnames == found.colnames and empty.meta["false_alarm"] is None


@pytest.mark.ci
def test_the_command_line_takes_segments_for_points(sfts, tmp_path, capsys):
    jfstat.write_sfts(sfts, tmp_path)
    columns = drawn(seed=3, n=4)
    rows = np.transpose([columns[name] for name in ("freq", "alpha", "delta", "f1dot")] + [np.zeros(4)] * 2)
    np.savetxt(tmp_path / "grid.txt", rows, fmt="%.15g")
    (tmp_path / "segments.txt").write_text(f"{START} {START + 14400} 8\n{START + 14400} {START + 43200} 16\n")
    line = ["points", f"--DataFiles={tmp_path}/*.sft", f"--gridFile={tmp_path}/grid.txt", "--guard=0.5"]
    line += [f"--refTime={START}", "--assumeSqrtSX=4e-24,6e-24"]
    tables = {}
    for words in (f"--segmentList={tmp_path}/segments.txt", "--segments=2", "--segmentDuration=14400", None):
        out = [f"--outputFstat={tmp_path}/out.ecsv"]
        assert main([*line, *out, *([words] if words else [])]) == 0
        tables[words] = jfstat.read_candidates(tmp_path / "out.ecsv")
    several = [table for words, table in tables.items() if words]
    assert [table.meta["n_segments"] for table in several] == [2, 2, 3]
    for table in several:
        assert "mean_twoF" in table.colnames and "twoF" not in table.colnames
    point = jfstat.Doppler(columns["alpha"][1], columns["delta"][1], [columns["freq"][1], columns["f1dot"][1]], START)
    data = jfstat.prepare(
        sfts, 99.98, 100.02, START, dict(H1=4e-24, L1=6e-24), segments=2, guard=0.5, fdots=[(-1e-9, 1e-9)]
    )
    assert several[1]["mean_twoF"][1] == pytest.approx(float(jfstat.mean_twoF(data, point)), rel=1e-3)
    capsys.readouterr()
    window = ["--transient-WindowType=rect", "--transient-tau=3600"]
    for more, message in (
        (window, "--segments does not go with --transient-WindowType"),
        ([f"--outputFstatAtoms={tmp_path}/atoms"], "--segments does not go with --outputFstatAtoms"),
        (["--segmentDuration=14400"], "two ways to give segments"),
    ):
        assert main([*line, "--segments=2", *more]) == 1
        assert message in capsys.readouterr().err


@pytest.mark.ci
def test_windows_do_not_go_with_segments(sfts):
    data = jfstat.prepare(sfts, 100.0, 100.01, guard=0.5, segments=2)
    windows = jfstat.TransientRange("rect", START + 1800 * np.arange(2), 1800 * np.arange(1, 3), duration=1800)
    with pytest.raises(ValueError, match="transient does not go with data of segments"):
        jfstat.fstat_table(data, jfstat.Doppler(1.0, 0.2, [100.005]), transient=windows)
