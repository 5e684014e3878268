"""Atoms against 2F of the whole and of parts, direct sums, LALSuite's atoms, and files of these."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import make
from lalsuite_tools import run

import jfstat
from jfstat.io.lal.atoms import DURATION
from jfstat.plots import plot_cumulative
from jfstat.reference import direct_fa_fb, patterns_by_definition

SMALL = dict(half_band=0.02, guard=0.5, noise=True)
ORBIT = jfstat.Orbit(asini=1.2, period=40000.0, tp=1.1e9 + 0.25, ecc=0.3, argp=0.7)
KINDS = {
    "isolated, gaps": (100.0, dict(days=1.5, duty=0.6)),
    "orbit": (60.0, dict(days=1.0, orbit=ORBIT, reach=0.05)),
}
ROUNDING = 1e-9
"""Sums of the same float64 terms in another order; some 1e-15 is usual."""


@pytest.fixture(scope="module", params=KINDS)
def case(request):
    f0, how = KINDS[request.param]
    return make(f0, 3, **SMALL, **how)


@pytest.mark.ci
@pytest.mark.parametrize("duration", [None, 700.3, 30000, 1e7])
def test_sums_of_atoms_are_those_of_the_data(case, duration):
    whole, parts = jfstat.fstat(case.data, case.doppler), jfstat.atoms(case.data, case.doppler, duration)
    for name in ("Fa", "Fb", "A", "B", "C"):
        expected = complex(getattr(whole, name))
        assert abs(complex(jnp.sum(getattr(parts, name))) - expected) <= ROUNDING * abs(complex(whole.Fa) + expected)
    np.testing.assert_allclose(parts.twoF, whole.twoF, rtol=ROUNDING)
    np.testing.assert_allclose(parts.twoF_per_detector, whole.twoF_per_detector, rtol=ROUNDING)
    np.testing.assert_allclose(parts.cumulative_twoF[-1], whole.twoF, rtol=ROUNDING)
    np.testing.assert_allclose(parts.cumulative_twoF_per_detector[:, -1], whole.twoF_per_detector, rtol=ROUNDING)
    np.testing.assert_allclose(parts.expected_twoF[-1], max(4, float(whole.twoF)), rtol=ROUNDING)
    n = max(1, int(np.ceil(case.data.tspan / (duration or 1800.0))))
    assert parts.Fa.shape == parts.A.shape == (len(case.data.detectors), n)
    np.testing.assert_allclose(np.diff(parts.gps), duration or 1800.0)


@pytest.mark.ci
def test_narrow_data_have_their_blocks_as_slices(case):
    for max_block in (None, 2000.0):
        near = jfstat.narrow(case.data, case.doppler, max_block=max_block)
        parts = jfstat.atoms(near, case.doppler)
        np.testing.assert_allclose(parts.twoF, jfstat.twoF(near, case.doppler), rtol=ROUNDING)
        np.testing.assert_allclose(jnp.sum(parts.A), jfstat.fstat(case.data, case.doppler).A, rtol=ROUNDING)
    lengths = np.asarray(parts.end - parts.start)
    assert 1000 < lengths.max() <= 2000
    # the same slices of the prepared series: narrow data are accurate to 1e-6 of 2F, here of the sum's size
    width = lengths.max()
    first = float(parts.start[0] - (case.data.observation.middle - 0.5 * case.data.observation.tspan))
    grid = jfstat.atoms(case.data, case.doppler, width)
    assert first <= 0.5 * width and len(grid.gps) >= 10


def owner_ends(low, high, start, tsft, dt):
    """Times between which samples belong to a slice: its ends, or the middles of the gaps in which these lie."""
    ends = []
    for x in (low, high):
        in_sft = np.any((start + dt < x) & (x < start + tsft - dt))
        contiguous = np.any(np.abs(start - x) < 1e-6) and np.any(np.abs(start + tsft - x) < 1e-6)
        before, after = start[start + tsft <= x + dt], start[start >= x - dt]
        if not (in_sft or contiguous):
            x = 0.5 * ((before[-1] + tsft if len(before) else -np.inf) + (after[0] if len(after) else np.inf))
        ends.append(x)
    return ends


@pytest.mark.ci
def test_each_atom_is_a_direct_sum(case):
    """Fa, Fb, A and C of slices from samples one by one, and from patterns by their definition in each SFT."""
    data, point = case.data, case.doppler
    parts, observation = jfstat.atoms(data, point, 5000.0), data.observation
    dt, tsft = float(data.band.dt), float(observation.tsft)
    t = float(data.band.start) + dt * np.arange(data.series.shape[1])
    start = np.asarray(observation.start[0])[np.asarray(observation.weight[0]) > 0]
    response, trajectory = (jax.tree.map(lambda x: x[0], x) for x in (observation.response, observation.trajectory))
    scale = float(np.max(np.abs(parts.Fa)))
    # the reference's phase is zero at the reference time, not at the middle of the data
    turn = np.exp(2j * np.pi * float(observation.source(point).cycles_at_middle))
    for k in (2, 7):
        low, high = owner_ends(float(parts.start[k]), float(parts.end[k]), start, tsft, dt)
        mine = (t >= low) & (t < high)
        cut = SimpleNamespace(series=np.where(mine, data.series, 0), band=data.band, observation=observation)
        fa, fb = direct_fa_fb(cut, point, np.asarray(point.fkdot)[:1])
        # 1e-6: the timing by cubics
        assert abs(fa[0, 0] * turn - complex(parts.Fa[0, k])) < 1e-6 * scale
        assert abs(fb[0, 0] * turn - complex(parts.Fb[0, k])) < 1e-6 * scale
        A = C = 0.0
        for s, w in zip(start, np.asarray(observation.weight[0]), strict=False):
            first, last = max(s, t[mine][0] - 0.5 * dt), min(s + tsft, t[mine][-1] + 0.5 * dt)
            if last > first:
                x = first + (last - first) * (np.arange(2000) + 0.5) / 2000
                angle = np.asarray(trajectory.sidereal(jnp.asarray(x)))
                a, b = patterns_by_definition(np.asarray(response), angle, float(point.alpha), float(point.delta))
                A, C = A + w * np.mean(a**2) * (last - first) / tsft, C + w * np.mean(a * b) * (last - first) / tsft
        np.testing.assert_allclose([parts.A[0, k], parts.C[0, k]], [A, C], rtol=1e-6, atol=1e-6)


def test_atoms_are_differentiable_in_the_template(case):
    point = case.doppler

    def late(f):
        own = jfstat.atoms(case.data, jfstat.Doppler(point.alpha, point.delta, [f, *point.fkdot[1:]], point.reftime,
                                                     point.orbit), 20000)  # fmt: skip
        return jnp.real(own.Fa[0, 2]) + jnp.imag(own.Fb[1, 3])

    f, step = float(point.fkdot[0]), 1e-8
    numeric = (float(late(f + step)) - float(late(f - step))) / (2 * step)
    np.testing.assert_allclose(jax.grad(late)(jnp.asarray(f)), numeric, rtol=1e-5, atol=1e-5 * abs(numeric))


@pytest.mark.ci
def test_segments_without_sfts_of_a_detector():
    """A detector that has no data in some slices, or at all, has no atoms there."""
    start = 1_150_000_000
    times = {"H1": start + 1800 * np.arange(40), "L1": start + 1800 * np.arange(10, 20)}
    sfts = jfstat.simulate_sfts(["H1", "L1"], timestamps=times, fmin=49, fmax=51, seed=2)
    data, point = jfstat.prepare(sfts, 49.99, 50.01), jfstat.Doppler(1.0, 0.2, [50.0], start)
    parts = jfstat.atoms(data, point)
    empty = np.ones(40, bool)
    empty[10:20] = False
    assert not np.any(parts.A[1, empty]) and not np.any(parts.Fa[1, empty]) and np.all(parts.A[1, ~empty] > 0)
    np.testing.assert_allclose(parts.twoF, jfstat.twoF(data, point), rtol=ROUNDING)


@pytest.mark.ci
def test_cumulative_two_f_grows_as_expected(tmp_path):
    """A loud signal in noise: 2F of the data up to each time, within its errors of what it should be."""
    case = make(100.0, 11, days=2, duty=0.7, half_band=0.02, guard=0.5, noise=True, h0=1.5e-24)
    parts = jfstat.atoms(case.data, case.doppler)
    total, expected = np.asarray(parts.cumulative_twoF), np.asarray(parts.expected_twoF)
    assert total[-1] > 300
    later = np.asarray(parts.end - parts.start[0]) > 43200
    # the standard deviation of 2F is 2 sqrt(1 + rho^2); neighbouring values share data, so 4 of these are rare
    assert np.all(np.abs(total - expected)[later] < 4 * 2 * np.sqrt(expected[later]))
    each = np.asarray(parts.expected_twoF_per_detector) - 4
    np.testing.assert_allclose(each.sum(axis=0), expected - 4, rtol=1e-9, atol=1e-9)
    axes = pytest.importorskip("matplotlib.figure").Figure().add_subplot()
    lines = plot_cumulative(axes, parts).get_lines()
    assert len(lines) == 6 and lines[0].get_ydata()[-1] == total[-1]
    assert len(plot_cumulative(pytest.importorskip("matplotlib.figure").Figure().add_subplot(), parts,
                               per_detector=False).get_lines()) == 2  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """SFTs in files, with the atoms that ComputeFstatistic_v2 writes for them."""
    folder = tmp_path_factory.mktemp("atoms")
    start = 1_120_000_000
    point = jfstat.Doppler(2.1, -0.4, [70.0, -1e-10], start)
    times = {"H1": start + 1800 * np.arange(30), "L1": start + 1800 * np.arange(4, 48, 2)}
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], timestamps=times, fmin=68, fmax=72, sqrt_sx=5e-24, seed=4,
        signals=[(point, jfstat.Amplitude(2e-24, 0.3, 0.2, 1.0))],
    )  # fmt: skip
    jfstat.write_sfts(sfts, folder)
    run("ComputeFstatistic_v2", DataFiles=f"{folder}/*.sft", Alpha=2.1, Delta=-0.4, Freq=70.0, f1dot=-1e-10,
        refTime=start, assumeSqrtSX="5e-24,5e-24", outputFstatAtoms=folder / "lal", FstatMethod="DemodGeneric",
        Dterms=300, outputLogfile="/dev/null")  # fmt: skip
    data = jfstat.prepare(sfts, 69.98, 70.02, sqrt_sx=5e-24)
    return SimpleNamespace(data=data, point=point, lal=next(folder.glob("lal*")), folder=folder)


def test_atoms_are_those_of_compute_fstatistic(files):
    """Demod with 300 Dterms loses 0.2 % of an amplitude, and takes patterns at mid-times; there is noise as well."""
    theirs = jfstat.read_atoms(files.lal, detectors=["H1", "L1"])
    ours = jfstat.atoms(files.data, files.point)
    assert theirs.Fa.shape == ours.Fa.shape and np.array_equal(theirs.gps, ours.gps)
    there = np.asarray(theirs.A) > 0
    assert np.array_equal(there, np.asarray(ours.A) > 0)
    for name in ("A", "B", "C"):
        # slices end at samples, here 17 s apart: up to 8 s of 1800 s at both ends
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-2)
    # a common phase, and per slice the noise that bins beyond the 300 kept and the low-pass leave out
    mine, other = (np.stack([x.Fa, x.Fb]) for x in (ours, theirs))
    turn = np.sum(mine * other.conj())
    assert np.linalg.norm(mine - other * (turn / abs(turn))) < 0.05 * np.linalg.norm(other)
    np.testing.assert_allclose(ours.twoF, theirs.twoF, rtol=0.02)


def test_files_of_atoms_are_read_back(files):
    ours = jfstat.atoms(files.data, files.point)
    path = jfstat.write_atoms(ours, files.folder / "ours.dat")
    back = jfstat.read_atoms(path)
    assert back.detectors == ("H1", "L1") and np.array_equal(back.gps, ours.gps)
    assert np.array_equal(back.end - back.start, ours.end - ours.start)
    for name in ("Fa", "Fb", "A", "B", "C"):
        np.testing.assert_allclose(getattr(back, name), getattr(ours, name), rtol=1e-12, atol=1e-12)
    # slices of twice the length are pairs of them
    pairs = jfstat.read_atoms(path, duration=3600)
    padded = np.pad(np.asarray(ours.A), [(0, 0), (0, 1)])
    np.testing.assert_allclose(pairs.A, padded.reshape(2, -1, 2).sum(axis=2), rtol=1e-12)
    # columns and their order are LALSuite's
    header, first = (next(line for line in p.read_text().splitlines() if line.startswith("%% tGPS"))
                     for p in (files.lal, path))  # fmt: skip
    assert header == first


def test_files_that_are_no_atoms_are_refused(tmp_path):
    path = tmp_path / "x"
    for text, words in (("", "no file of atoms"), ("1 2 3\n", "8 numbers"), ("1 2 3 4 5 6 7 x\n", "numbers"),
                        ("1 2 3 4 5 6 7 nan\n", "not finite"), ("1 2 3 4 5 6 7 8\n", "duration")):  # fmt: skip
        path.write_text(text)
        with pytest.raises(ValueError, match=words):
            jfstat.read_atoms(path)
    for word in ("1800%%", ",", "-1800", "nan", "inf", "0"):
        path.write_text(f"{DURATION} {word}\n1 2 3 4 5 6 7 8\n2 2 3 4 5 6 7 8\n")
        with pytest.raises(ValueError, match=rf"x' has slices of '{word}' s: give duration"):
            jfstat.read_atoms(path)
    path.write_text("1 2 3 4 5 6 7 8\n2 2 3 4 5 6 7 8\n1 2 3 4 5 6 7 8\n")
    assert jfstat.read_atoms(path).detectors == ("X1", "X2")
    with pytest.raises(ValueError, match="detectors must be 2 names"):
        jfstat.read_atoms(path, detectors=["H1"])


def test_what_cannot_be_sliced_is_refused(case):
    near = jfstat.narrow(case.data, case.doppler)
    with pytest.raises(ValueError, match="max_block"):
        jfstat.atoms(near, case.doppler, 1800)
    with pytest.raises(ValueError, match="at least 2 samples"):
        jfstat.atoms(case.data, case.doppler, 1.0)
    with pytest.raises(ValueError, match="positive"):
        jfstat.atoms(case.data, case.doppler, -1.0)
    with pytest.raises(ValueError, match="traced"):
        jax.jit(jfstat.atoms)(case.data, case.doppler)
    with pytest.raises(ValueError, match="max_block must be positive"):
        jfstat.narrow(case.data, case.doppler, max_block=0)
