"""Transient signals: 2F against direct sums and LALSuite; maps, Bayes factors, derivatives, noise."""

from dataclasses import replace
from functools import cache, partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lalsuite_tools import ephemeris, lalpulsar
from scipy.stats import chi2, kstest

import jfstat
from jfstat.reference import direct_fa_fb, patterns_by_definition
from jfstat.statistic.transients import common_ends

START = 1_130_000_000
POINT = jfstat.Doppler(1.7, 0.4, [90.0, -1e-9], START)
LOUD = jfstat.Amplitude(4e-24, 0.2, 0.3, 1.0)


def triangle(x):
    """A user's shape, with a kink."""
    return 1 - jnp.abs(2 * x - 1)


def bump(x):
    """A smooth one."""
    return jnp.sin(jnp.pi * x) ** 2


def fake_atoms(seed, n_slices=40, n_detectors=2, regular=True):
    """Atoms of Gaussian noise: Fa and Fb with the covariance that A, B and C say."""
    rng = np.random.default_rng(seed)
    start = 1800.0 * np.arange(n_slices)
    end = start + 1800
    if not regular:
        start = np.sort(rng.uniform(0, 1800 * n_slices, n_slices))
        end = start + np.diff(start, append=start[-1] + 1800) * rng.uniform(0.3, 1, n_slices)
    a, b = rng.normal(size=(2, n_detectors, n_slices))
    a[:, n_slices // 2], b[:, n_slices // 2] = 0, 0
    noise = rng.normal(size=(2, n_detectors, n_slices)) @ np.eye(n_slices)
    z = (noise[0] + 1j * noise[1]) / np.sqrt(2)
    spread = rng.normal(size=(2, n_detectors, n_slices))
    fa, fb = a * z, b * z
    # two independent directions, so that the antenna matrix is that of a^2 + c^2 and so on
    c, d = rng.normal(size=(2, n_detectors, n_slices)) * (a != 0)
    other = (spread[0] + 1j * spread[1]) / np.sqrt(2)
    fa, fb = fa + c * other, fb + d * other
    arrays = (fa, fb, a * a + c * c, b * b + d * d, a * b + c * d, start, end)
    return jfstat.Atoms(*map(jnp.asarray, arrays), epoch=jnp.asarray(START), detectors=("H1", "L1", "V1")[:n_detectors])


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """Two days of two detectors with gaps, a transient signal of half a day in noise."""
    rng = np.random.default_rng(5)
    times = {name: START + 1800 * np.sort(rng.choice(96, 80, replace=False)) for name in ("H1", "L1")}
    window = jfstat.TransientWindow("rectangular", START + 0.6 * 86400, 0.5 * 86400)
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], timestamps=times, fmin=88, fmax=92, sqrt_sx=2e-23, signals=[(POINT, LOUD, window)], seed=1
    )
    folder = tmp_path_factory.mktemp("transients")
    jfstat.write_sfts(sfts, folder)
    data = jfstat.prepare(sfts, 89.98, 90.02, sqrt_sx=2e-23)
    return SimpleNamespace(sfts=sfts, data=data, window=window, folder=folder, atoms=jfstat.atoms(data, POINT))


GRIDS = {
    "whole slices": (START + 1800.0 * np.arange(16, 36), 1800.0 * (1 + np.arange(15))),
    "steps of 2 to 3": (START + 777.0 + 3600 * np.arange(20), 2000 + 5400.0 * np.arange(15)),
    "irregular": (START + np.geomspace(1, 70000, 20) - 5000, np.geomspace(700, 90000, 15)),
}
"""All as large, and so with the same programs."""


@partial(jax.jit, static_argnames="shape")
def one_by_one(atoms, shape, t0, tau):
    windows = jfstat.TransientWindow(shape, t0[:, None], tau)
    return jax.vmap(jax.vmap(lambda window: jfstat.transient_twoF(atoms, None, window)))(windows)


@partial(jax.jit, static_argnames="shape")
def of_traced_times(atoms, shape, t0, tau):
    """The map by the way that knows nothing of the times."""
    return jfstat.transient_map(atoms, shape, t0, tau).twoF


@pytest.mark.ci
@pytest.mark.parametrize("regular", [True, False])
@pytest.mark.parametrize("shape", ["rectangular", "exponential", triangle])
def test_maps_are_made_of_single_windows(shape, regular):
    """Prefix sums, the recursion for exponentials and products of matrices against one window at a time."""
    atoms = fake_atoms(3, regular=regular)
    for name, (t0, tau) in GRIDS.items():
        found = jfstat.transient_map(atoms, shape, t0, tau)
        each = one_by_one(atoms, shape, t0, tau)
        np.testing.assert_allclose(found.twoF, each, rtol=1e-9, atol=1e-9, err_msg=name)
        best = each[list(found.t0).index(found.best.t0), list(found.tau).index(found.best.tau)]
        np.testing.assert_allclose(best, jnp.max(each), rtol=1e-9)
        assert float(found.max_twoF) == float(jnp.max(found.twoF))
        np.testing.assert_allclose(of_traced_times(atoms, shape, t0, tau), found.twoF, rtol=1e-9, atol=1e-9)


@pytest.mark.ci
@pytest.mark.parametrize("shape", ["rectangular", "exponential"])
def test_maps_as_other_devices_than_cpus_compute_them(shape, monkeypatch):
    atoms, (t0, tau) = fake_atoms(3, regular=False), GRIDS["irregular"]
    expected = jfstat.transient_map(atoms, shape, t0, tau).twoF
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *given, cpu, default: default(*given))
    jax.clear_caches()
    found = jfstat.transient_map(atoms, shape, t0, tau).twoF
    jax.clear_caches()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert not np.array_equal(found, expected) or shape == "rectangular"  # the order of the sums differs


@pytest.mark.parametrize("shape", ["rectangular", "exponential"])
def test_windows_in_gaps_have_two_f_of_noise(shape):
    """There sums are differences of sums over the slices before and after the gap."""
    atoms = fake_atoms(3)
    fields = {name: getattr(atoms, name).at[..., 10:30].set(0.0) for name in ("Fa", "Fb", "A", "B", "C")}
    atoms = replace(atoms, **fields)
    first, last = (float(x) + START for x in (atoms.start[10], atoms.end[29]))
    t0, tau = np.linspace(first, first + 0.4 * (last - first), 7), np.array([0.02, 0.1, 0.15]) * (last - first)
    np.testing.assert_array_equal(jfstat.transient_map(atoms, shape, t0, tau).twoF, 4.0)


def test_common_ends_of_windows():
    t0, length = 1e9 + 1800.0 * np.arange(50), 3600 + 1800.0 * np.arange(40)
    assert common_ends(t0, length) == (1, 1)
    assert common_ends(t0, 2 * length) == (1, 2)
    assert common_ends(t0, 1.5 * length) == (2, 3)
    assert common_ends(t0, length * np.pi) is None
    assert common_ends(t0, length**1.1) is None
    assert common_ends(t0[:1], length) is None


def fine_means(window, start, length, epoch, function=lambda g, t: g):
    """Means over intervals of a function of the window's value and the time, by midpoints, more at its ends."""
    ends = [float(window.t0) - epoch, float(window.t1) - epoch]
    t = start[:, None] + length * (np.arange(100) + 0.5) / 100
    out = np.mean(function(np.asarray(window.value(t, epoch)), t), axis=1)
    for k in np.flatnonzero([any(low < x < low + length for x in ends) for low in start]):
        t = start[k] + length * (np.arange(200_000) + 0.5) / 200_000
        out[k] = np.mean(function(np.asarray(window.value(t, epoch)), t))
    return out


def direct_transient(data, point, window):
    """2F of windowed data by direct sums: samples and antenna patterns one by one."""
    observation = data.observation
    epoch, dt = int(observation.epoch), float(data.band.dt)
    t = float(data.band.start) + dt * np.arange(data.series.shape[1])
    x = (t[:, None] + dt * ((np.arange(100) + 0.5) / 100 - 0.5)).ravel()
    factor = np.asarray(window.value(x, epoch)).reshape(len(t), -1).mean(axis=1)
    for end in (float(window.t0) - epoch, float(window.t1) - epoch):
        k = int(np.argmin(np.abs(t - end)))
        factor[k] = fine_means(window, t[k : k + 1] - 0.5 * dt, dt, epoch)[0]
    cut = SimpleNamespace(series=np.asarray(data.series) * factor, band=data.band, observation=observation)
    fa, fb = (x.sum() for x in direct_fa_fb(cut, point, np.asarray(point.fkdot)[:1]))
    matrix, tsft = np.zeros(3), float(observation.tsft)
    for d in range(len(data.detectors)):
        trajectory = jax.tree.map(lambda x, d=d: x[d], observation.trajectory)
        response, weight = np.asarray(observation.response[d]), np.asarray(observation.weight[d])

        def patterns(t, response=response, trajectory=trajectory):
            angle = np.asarray(trajectory.sidereal(jnp.asarray(t))).ravel()
            found = patterns_by_definition(response, angle, float(point.alpha), float(point.delta))
            return [x.reshape(t.shape) for x in found]

        for i, (p, q) in enumerate(((0, 0), (1, 1), (0, 1))):
            means = fine_means(
                window, np.asarray(observation.start[d]), tsft, epoch,
                lambda g, t, p=p, q=q, patterns=patterns: g**2 * patterns(t)[p] * patterns(t)[q],
            )  # fmt: skip
            matrix[i] += weight @ means
    A, B, C = matrix
    return 2 / (A * B - C * C) * (B * abs(fa) ** 2 + A * abs(fb) ** 2 - 2 * C * np.real(fa * np.conj(fb)))


WINDOWS = {
    "rectangular": ("rectangular", 51234.5, 41000.0),
    "exponential": ("exponential", 51234.5, 20000.0),
    "own": (bump, 40000.0, 70000.0),
}


@pytest.mark.ci
@pytest.mark.parametrize("name", WINDOWS)
def test_two_f_of_windowed_data_is_a_direct_sum(case, name):
    shape, offset, tau = WINDOWS[name]
    window = jfstat.TransientWindow(shape, START + offset, tau)
    truth = direct_transient(case.data, POINT, window)
    assert truth > 30
    # 1e-5: parts of a second and hundredths of samples in the direct sum, at the ends of the window
    np.testing.assert_allclose(jfstat.transient_twoF(case.data, POINT, window), truth, rtol=1e-5)
    # atoms smear sharp ends over a slice: data of a fraction 300 s/tau count differently, with their noise
    fine, rough = jfstat.atoms(case.data, POINT, 300), 3 * np.sqrt(truth * 300 / tau)
    assert abs(float(jfstat.transient_twoF(fine, None, window)) - truth) < rough
    near = jfstat.narrow(case.data, POINT, max_block=300)
    np.testing.assert_allclose(
        jfstat.transient_twoF(near, POINT, window),
        jfstat.transient_twoF(jfstat.atoms(near, POINT), None, window),
        rtol=1e-12,
    )
    assert abs(float(jfstat.transient_twoF(near, POINT, window)) - truth) < rough


def test_windows_of_whole_slices_need_no_samples(case):
    """Atoms and samples give the same where the window ends with slices, but for the half sample of rounding there."""
    window = jfstat.TransientWindow("rectangular", START + 30 * 1800, 20 * 1800)
    found, truth = (jfstat.transient_twoF(x, p, window) for x, p in ((case.atoms, None), (case.data, POINT)))
    assert abs(float(found - truth)) < 3 * np.sqrt(float(truth) * float(case.data.band.dt) / float(window.tau))


def test_a_window_over_all_data_gives_two_f(case):
    whole = jfstat.TransientWindow("rect", START - 1e5, 4e5)
    for data, point in ((case.data, POINT), (case.atoms, None)):
        np.testing.assert_allclose(jfstat.transient_twoF(data, point, whole), jfstat.twoF(case.data, POINT), rtol=1e-7)


@pytest.mark.ci
def test_expected_two_f_of_a_transient_signal():
    """Without noise 2F of the right window is rho^2, which follows from the window's square."""
    sites, shape = ["H1", "L1"], dict(fmin=88, fmax=92, sqrt_sx=None)
    window = jfstat.TransientWindow("exponential", START + 30000.5, 15000.0)
    sfts = jfstat.simulate_sfts(sites, START, 86400, signals=[(POINT, LOUD, window)], **shape)
    data = jfstat.prepare(sfts, 89.98, 90.02, sqrt_sx=2e-23)
    # rho^2 of each second, times the window's square
    fine = jfstat.atoms(data, POINT, 200)
    a1, a2, a3, a4 = LOUD.canonical
    each = [jnp.sum(x, axis=0) for x in (fine.A, fine.B, fine.C)]
    power = each[0] * (a1**2 + a3**2) + each[1] * (a2**2 + a4**2) + 2 * each[2] * (a1 * a2 + a3 * a4)
    square = jfstat.TransientWindow(lambda x: window.value(window.t0 + window.tau * x) ** 2, window.t0, window.tau,
                                    end=window.end)  # fmt: skip
    rho2 = data.observation.sinv_tsft * jnp.sum(power * square.mean(fine.start, fine.end, fine.epoch))
    # 1 %: each SFT ends 1 Hz beyond the band, and so do the signal's sudden beginning and end
    np.testing.assert_allclose(jfstat.transient_twoF(data, POINT, window), rho2, rtol=1e-2)
    best = jfstat.transient_map(
        jfstat.atoms(data, POINT, 600), window, float(window.t0) + 600 * np.arange(-20, 20),
        float(window.tau) + 600.0 * np.arange(-20, 20),
    ).best  # fmt: skip
    assert abs(float(best.t0 - window.t0)) <= 600 and abs(float(best.tau - window.tau)) <= 600


def test_injected_windows_are_as_long_as_they_say(case):
    """SFTs outside a window hold nothing of the signal, and those inside what they hold without a window."""
    quiet = jfstat.simulate_sfts("H1", START, 20 * 1800, 88, 92, sqrt_sx=None)
    window = jfstat.TransientWindow("rectangular", START + 5 * 1800, 6.5 * 1800)
    always, now = (next(iter(jfstat.inject(quiet, [s]))).data for s in ((POINT, LOUD), (POINT, LOUD, window)))
    assert not np.any(now[:5]) and not np.any(now[12:])
    np.testing.assert_allclose(now[5:11], always[5:11], rtol=5e-4)  # bins far from a transient signal are sums, too
    half = np.linalg.norm(now[11]) / np.linalg.norm(always[11])
    assert abs(half - np.sqrt(0.5)) < 0.1  # the pattern varies, and half an SFT ends suddenly
    np.testing.assert_array_equal(next(iter(jfstat.inject(quiet, [(POINT, LOUD, None)]))).data, always)
    with pytest.raises(ValueError, match="TransientWindow"):
        jfstat.inject(quiet, [(POINT, LOUD, "rect")])
    with pytest.raises(ValueError, match="single sources"):
        jfstat.inject(quiet, [(POINT, LOUD, jfstat.TransientWindow("rect", [START, START + 1], 1800))])


def test_maps_of_windows_beyond_the_data_are_refused():
    """Traced times are not checked, and have 2F = 4 there."""
    own, last = fake_atoms(0), START + 40 * 1800.0
    windows = jfstat.TransientRange("rect", [last, last + 60], [7200.0])
    for times in ((windows.t0, windows.tau), ([START - 7200.0], [7200.0])):
        with pytest.raises(ValueError, match=r"^t0 has no window within the data, from GPS"):
            jfstat.transient_map(own, "rect", *times)
    with pytest.raises(ValueError, match=r"^t0 has no window within the data"):
        jax.jit(lambda x: x * jfstat.transient_map(own, "rect", windows.t0, windows.tau).twoF)(1.0)
    assert jfstat.transient_map(own, "rect", [last - 60, last], [7200.0]).twoF.shape == (2, 1)
    tapered = jfstat.TransientWindow("rect", last, 7200, taper=600)  # rises from 300 s before
    assert jfstat.transient_map(own, tapered, [last + 200], [7200.0]).twoF.shape == (1, 1)
    inside = jfstat.TransientRange("rect", [START, START + 3600], [7200.0])
    expected = jfstat.transient_map(own, "rect", inside.t0, inside.tau).twoF
    for found in (
        jax.jit(lambda x: jfstat.transient_map(x, "rect", inside.t0, inside.tau).twoF)(own),
        jax.jit(lambda t: jfstat.transient_map(own, "rect", t, inside.tau).twoF)(inside.t0),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    beyond = jax.jit(lambda t: jfstat.transient_map(own, "rect", t, windows.tau).twoF)(windows.t0)
    np.testing.assert_array_equal(beyond, [[4.0], [4.0]])


def lal_range(shape, t0, tau):
    """LALSuite's window range for regular t0 and tau."""
    own = lalpulsar.transientWindowRange_t()
    own.type = {"rectangular": lalpulsar.TRANSIENT_RECTANGULAR, "exponential": lalpulsar.TRANSIENT_EXPONENTIAL}[shape]
    own.t0, own.dt0, own.t0Band = int(t0[0]), int(t0[1] - t0[0]), int(t0[-1] - t0[0])
    own.tau, own.dtau, own.tauBand = int(tau[0]), int(tau[1] - tau[0]), int(tau[-1] - tau[0])
    return own


def lal_atoms(folder, point, sqrt_sx, dterms=8):
    """Atoms by LALSuite's Demod, one template, with the noise floors given."""
    catalog = lalpulsar.SFTdataFind(f"{folder}/*.sft", lalpulsar.SFTConstraints())
    extra = lalpulsar.FstatOptionalArgs(lalpulsar.FstatOptionalArgsDefaults)
    extra.FstatMethod, extra.Dterms = lalpulsar.FMETHOD_DEMOD_BEST, dterms
    if dterms != 8:
        extra.FstatMethod = lalpulsar.FMETHOD_DEMOD_GENERIC
    floors = lalpulsar.MultiNoiseFloor()
    floors.length = 2
    values = floors.sqrtSn
    values[:2] = sqrt_sx
    floors.sqrtSn = values
    extra.assumeSqrtSX = floors
    f = float(point.fkdot[0])
    given = lalpulsar.CreateFstatInput(catalog, f - 0.02, f + 0.02, 0.0, ephemeris(), extra)
    doppler = lalpulsar.PulsarDopplerParams()
    doppler.refTime = int(point.reftime)
    doppler.Alpha, doppler.Delta = float(point.alpha), float(point.delta)
    fkdot = doppler.fkdot
    fkdot[: len(point.fkdot)] = np.asarray(point.fkdot)
    doppler.fkdot = fkdot
    result = lalpulsar.FstatResults()
    lalpulsar.ComputeFstat(result, given, doppler, 1, lalpulsar.FSTATQ_ATOMS_PER_DET | lalpulsar.FSTATQ_2F)
    return result.multiFatoms[0]


@pytest.mark.parametrize("shape", ["rectangular", "exponential"])
def test_maps_are_those_of_lalsuite(case, shape):
    """On the same SFT files, by Demod's atoms: 2F within the per cent that Demod loses, the same loudest window."""
    t0, tau = START + 1800 * np.arange(60), 1800.0 * (8 + np.arange(30))
    theirs = lalpulsar.ComputeTransientFstatMap(
        lal_atoms(case.folder, POINT, [2e-23, 2e-23]), lal_range(shape, t0, tau), False
    )
    expected, ours = 2 * theirs.F_mn.data, jfstat.transient_map(case.atoms, shape, t0, tau)
    loud = np.asarray(ours.twoF) > 40
    assert loud.sum() > 100
    # Demod with its default of 8 Dterms loses 3 to 5 % of rho^2; LALSuite's exponential is that of a slice's start
    ratio = expected[loud] / np.asarray(ours.twoF)[loud]
    assert ratio.min() > 0.9 and ratio.max() < 1.06
    assert (theirs.t0_ML, theirs.tau_ML) == (float(ours.best.t0), float(ours.best.tau))
    bayes = lalpulsar.ComputeTransientBstat(lal_range(shape, t0, tau), theirs) / np.log(10)
    np.testing.assert_allclose(ours.log10_bayes_factor(), bayes, rtol=0.06)


@pytest.mark.slow
def test_loudest_windows_are_those_of_lalsuite_on_injections(tmp_path):
    """Fifty signals in noise of SNR 8 to 15. The loudest window is LALSuite's in all maps of LALSuite's own atoms, and
    that of a direct sum in all maps of jfstat's. Between the two sets of atoms it is the same in most: neighbouring
    windows differ by less than Demod loses."""
    rng, same, same_atoms, direct = np.random.default_rng(8), 0, 0, 0
    t0, tau = START + 1800 * np.arange(40), 1800.0 * (4 + np.arange(30))
    for i in range(50):
        window = jfstat.TransientWindow("rectangular", rng.choice(t0), rng.choice(tau))
        point = jfstat.Doppler(rng.uniform(0, 6.28), np.arcsin(rng.uniform(-1, 1)), [60 + rng.uniform()], START)
        f = float(point.fkdot[0])
        amplitude = jfstat.Amplitude(1.0, rng.uniform(-1, 1), rng.uniform(-0.7, 0.7), rng.uniform(0, 6))
        observed = jfstat.observation(["H1", "L1"], float(window.t0), float(window.tau), sqrt_sx=1.0)
        rho = np.sqrt(float(jfstat.predict_twoF(observed, point, amplitude)) - 4)
        strength = rng.uniform(8, 15) / rho
        signal = (point, jfstat.Amplitude(strength, amplitude.cosi, amplitude.psi, amplitude.phi0), window)
        sfts = jfstat.simulate_sfts(["H1", "L1"], START, 86400, f - 1.5, f + 1.5, sqrt_sx=1.0, signals=[signal], seed=i)
        jfstat.write_sfts(sfts, tmp_path / str(i))
        data = jfstat.prepare(sfts, f - 0.01, f + 0.01, sqrt_sx=1.0, filters=False)
        ours = jfstat.transient_map(jfstat.atoms(data, point), "rectangular", t0, tau)
        of_demod = lal_atoms(tmp_path / str(i), point, [1.0, 1.0], 100)
        theirs = lalpulsar.ComputeTransientFstatMap(of_demod, lal_range("rectangular", t0, tau), False)
        expected = 2 * theirs.F_mn.data
        at = np.unravel_index(np.argmax(np.asarray(ours.twoF)), expected.shape)
        assert expected[at] > 0.97 * expected.max()
        same += (theirs.t0_ML, theirs.tau_ML) == (float(ours.best.t0), float(ours.best.tau))
        on_theirs = jfstat.transient_map(atoms_of(of_demod), "rectangular", t0, tau)
        np.testing.assert_allclose(on_theirs.twoF, expected, rtol=1e-5, atol=1e-4)  # single precision is theirs
        same_atoms += (theirs.t0_ML, theirs.tau_ML) == (float(on_theirs.best.t0), float(on_theirs.best.tau))
        by_definition = direct_map(data, point, t0, tau)
        np.testing.assert_allclose(ours.twoF, by_definition, rtol=1e-5, atol=1e-4)
        direct += at == np.unravel_index(np.argmax(by_definition), by_definition.shape)
    assert (same_atoms, direct) == (50, 50)
    assert same >= 40


def direct_map(data, point, t0, tau):
    """2F of rectangular windows of whole slices of 1800 s by direct sums, for data without gaps.

    A sample belongs to the slice that it lies in, and counts with the weight of this slice's SFT.
    """
    dt, observation = float(data.band.dt), data.observation
    t = float(data.band.start) + dt * np.arange(data.series.shape[1])
    n_slices = observation.start.shape[1]
    slices = np.clip(np.floor(t / 1800 + 1e-9).astype(int), 0, n_slices - 1)
    inside = np.diff(np.clip([t - 0.5 * dt, t + 0.5 * dt], 0, 1800 * n_slices), axis=0)[0]  # seconds of each sample
    fa, fb = np.zeros((2, n_slices), complex)
    for k in range(n_slices):
        own = SimpleNamespace(series=np.asarray(data.series) * (slices == k), band=data.band, observation=observation)
        fa[k], fb[k] = (x.sum() for x in direct_fa_fb(own, point, np.asarray(point.fkdot)[:1]))
    matrix = np.zeros((3, n_slices))
    for d in range(len(data.detectors)):
        trajectory = jax.tree.map(lambda x, d=d: x[d], observation.trajectory)
        angle, response = np.asarray(trajectory(jnp.asarray(t)).sidereal), np.asarray(observation.response[d])
        a, b = patterns_by_definition(response, angle, float(point.alpha), float(point.delta))
        weight = np.asarray(observation.weight[d])[slices] * inside / 1800
        for i, x in enumerate((a * a, b * b, a * b)):
            matrix[i] += np.bincount(slices, weight * x, n_slices)
    found = np.empty((len(t0), len(tau)))
    for i, first in enumerate(np.round((t0 - t0[0]) / 1800).astype(int)):
        for j, number in enumerate(np.round(tau / 1800).astype(int)):
            A, B, C = matrix[:, first : first + number].sum(axis=1)
            x, y = fa[first : first + number].sum(), fb[first : first + number].sum()
            power = B * abs(x) ** 2 + A * abs(y) ** 2 - 2 * C * np.real(x * np.conj(y))
            found[i, j] = 2 * power / (A * B - C * C)
    return found


def atoms_of(theirs):
    """LALSuite's atoms as jfstat's, all digits."""
    found = [[] for _ in range(5)]
    for own in theirs.data:
        for kind, name in enumerate(("Fa_alpha", "Fb_alpha", "a2_alpha", "b2_alpha", "ab_alpha")):
            found[kind].append([getattr(atom, name) for atom in own.data])
    start = np.array([atom.timestamp for atom in theirs.data[0].data], float) - START
    arrays = (*(np.array(x) for x in found), start, start + 1800)
    return jfstat.Atoms(*map(jnp.asarray, arrays), epoch=jnp.asarray(START), detectors=("H1", "L1"))


def test_bayes_factors_and_posteriors_by_brute_force(case):
    t0, tau = START + 1800.0 * np.arange(20, 40), 3600.0 * (2 + np.arange(15))
    found = jfstat.transient_map(case.atoms, "rectangular", t0, tau)
    windows = [[jfstat.TransientWindow("rect", a, b) for b in tau] for a in t0]
    each = [[float(jfstat.transient_twoF(case.atoms, None, window)) for window in row] for row in windows]
    likelihood = np.exp(0.5 * np.array(each))
    np.testing.assert_allclose(found.log10_bayes_factor(), np.log10(70 * likelihood.mean()), rtol=1e-9)
    np.testing.assert_allclose(found.log10_bayes_factor(10.0), np.log10(70e-4 * likelihood.mean()), rtol=1e-9)
    total = likelihood.sum()
    np.testing.assert_allclose(found.posterior, likelihood / total, rtol=1e-8, atol=1e-14)
    np.testing.assert_allclose(found.posterior_t0, likelihood.sum(axis=1) / total, rtol=1e-8, atol=1e-14)
    np.testing.assert_allclose(found.posterior_tau, likelihood.sum(axis=0) / total, rtol=1e-8, atol=1e-14)
    # LALSuite's function, fed with the same map: its exponential is a table of 2000 steps
    theirs = lalpulsar.ComputeTransientFstatMap(
        lal_atoms(case.folder, POINT, [2e-23, 2e-23]), lal_range("rectangular", t0, tau), False
    )
    same = jfstat.TransientMap(jnp.asarray(2 * theirs.F_mn.data), found.t0, found.tau, "rectangular", 1.0)
    expected = lalpulsar.ComputeTransientBstat(lal_range("rectangular", t0, tau), theirs) / np.log(10)
    np.testing.assert_allclose(same.log10_bayes_factor(), expected, rtol=1e-4)


@cache
def gradient_windows():
    return [("rectangular", 51234.5, 41000.0), ("exponential", 51234.5, 20000.0), (triangle, 40000.0, 70000.0)]


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["prepared", "atoms", "narrow"])
@pytest.mark.parametrize("which", range(3))
def test_derivatives_in_t0_and_tau(case, kind, which):
    """Against differences over less than a sample, between the kinks of a sharp window."""
    shape, offset, tau = gradient_windows()[which]
    data, point = {
        "prepared": (case.data, POINT),
        "atoms": (case.atoms, None),
        "narrow": (jfstat.narrow(case.data, POINT, max_block=1800), POINT),
    }[kind]

    def two_f(x):
        return jfstat.transient_twoF(data, point, jfstat.TransientWindow(shape, START + x[0], x[1]))

    x, step = jnp.array([offset, tau]), 0.02
    value = jax.jit(two_f)
    exact = np.asarray(jax.jit(jax.grad(two_f))(x))
    steps = step * np.eye(2)
    numeric = np.array([float(value(x + s) - value(x - s)) / (2 * step) for s in steps])
    # 1e-3 s of rounding of GPS times at 1.2e-7 s over 0.02 s
    np.testing.assert_allclose(exact, numeric, rtol=1e-4, atol=1e-4 * np.abs(exact).max())
    assert np.all(np.abs(exact) > 0)


def test_derivatives_in_the_template(case):
    window = jfstat.TransientWindow("exponential", START + 51234.5, 20000.0)

    def two_f(f, data):
        point = jfstat.Doppler(POINT.alpha, POINT.delta, jnp.stack([f, POINT.fkdot[1]]), POINT.reftime)
        return jfstat.transient_twoF(data, point, window)

    f, step = jnp.asarray(90.0 + 2e-6), 1e-8
    numeric = (two_f(f + step, case.data) - two_f(f - step, case.data)) / (2 * step)
    np.testing.assert_allclose(jax.grad(two_f)(f, case.data), numeric, rtol=1e-5)
    # data may be traced: a program for all data of a size
    np.testing.assert_allclose(jax.jit(two_f)(f, case.data), two_f(f, case.data), rtol=1e-12)


def test_noise_has_four_degrees_of_freedom():
    """2F at windows that cut slices, of atoms of Gaussian noise: chi^2 with 4 degrees of freedom."""
    stack = jax.tree.map(lambda *x: np.stack(x), *(fake_atoms(seed) for seed in range(1500)))
    for shape in ("rectangular", "exponential", triangle):
        window = jfstat.TransientWindow(shape, START + 5123.4, 21000.0)
        values = np.asarray(jax.vmap(lambda own, w=window: jfstat.transient_twoF(own, None, w))(stack))
        # the chance of a smaller p-value is 1e-3
        assert kstest(values, chi2(4).cdf).pvalue > 1e-3


@pytest.mark.ci
def test_maximum_of_a_map_in_noise(case):
    """The largest of 600 windows in noise: as of many independent ones, but far fewer, as most overlap."""
    t0, tau = START + 3600 * np.arange(20), 3600.0 * (2 + np.arange(30))
    stack = jax.tree.map(lambda *x: jnp.stack(x), *(fake_atoms(seed, 100) for seed in range(400)))
    largest = np.asarray(jax.vmap(lambda a: jfstat.transient_map(a, "rectangular", t0, tau).max_twoF)(stack))
    independent = np.log(0.5) / chi2(4).logcdf(np.median(largest))
    assert 10 < independent < 300


def test_arguments_are_checked(case):
    window = jfstat.TransientWindow("rect", START, 1800)
    assert window.shape == "rectangular" and float(window.t1) == START + 1800
    with pytest.raises(ValueError, match="shape must be one of"):
        jfstat.TransientWindow("box", START, 1800)
    with pytest.raises(TypeError, match="shape must be one of"):
        jfstat.TransientWindow(3.0, START, 1800)
    with pytest.raises(ValueError, match="tau must be positive"):
        jfstat.TransientWindow("rect", START, 0)
    with pytest.raises(ValueError, match="end goes with a function"):
        jfstat.TransientWindow("rect", START, 1800, end=2)
    with pytest.raises(ValueError, match="do not fit"):
        jfstat.TransientWindow("rect", [START, START], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="must be None for atoms"):
        jfstat.transient_twoF(case.atoms, POINT, window)
    with pytest.raises(ValueError, match="point is missing"):
        jfstat.transient_twoF(case.data, None, window)
    with pytest.raises(ValueError, match="vmap for a stack"):
        jfstat.transient_twoF(case.atoms, None, jfstat.TransientWindow("rect", [START], 1800))
    with pytest.raises(ValueError, match="in brackets"):
        jfstat.transient_map(case.atoms, "rect", START, [1800.0])
    with pytest.raises(ValueError, match="tau must be positive"):
        jfstat.transient_map(case.atoms, "rect", [START], [-1800.0])
    with pytest.raises(ValueError, match="rho_max must be positive"):
        jfstat.transient_map(case.atoms, "rect", [START], [7200.0]).log10_bayes_factor(0.0)
    with pytest.raises(ValueError, match="elementwise"):
        jfstat.transient_twoF(case.atoms, None, jfstat.TransientWindow(lambda x: jnp.sum(x), START, 7200.0))
