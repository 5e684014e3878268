"""Simulated data of signals of any polarisation, by direct sums in NumPy: no pattern or filter of jfstat is used."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import jfstat

START, TSFT, FLOOR = 1_167_458_304, 1800, 4e-24
OVERSAMPLING = 4


def wave_tensor(name, alpha, delta):
    """The wave's tensor by its definition, from LALSuite's axes X, Y and Z of the wave at psi = 0."""
    ca, sa, cd, sd = np.cos(alpha), np.sin(alpha), np.cos(delta), np.sin(delta)
    x, y, z = np.array([sa, -ca, 0]), np.array([-ca * sd, -sa * sd, cd]), -np.array([cd * ca, cd * sa, sd])
    return {
        "plus": np.outer(x, x) - np.outer(y, y),
        "cross": np.outer(x, y) + np.outer(y, x),
        "x": np.outer(x, z) + np.outer(z, x),
        "y": np.outer(y, z) + np.outer(z, y),
        "breathing": np.outer(x, x) + np.outer(y, y),
        "longitudinal": np.outer(z, z),
    }[name]


def pattern(name, response, sidereal, alpha, delta):
    """The antenna pattern at sidereal times, from the detector tensor turned with the Earth, same shape."""
    cos, sin, zero = np.cos(sidereal), np.sin(sidereal), np.zeros_like(sidereal)
    turn = np.moveaxis(np.array([[cos, -sin, zero], [sin, cos, zero], [zero, zero, zero + 1]]), (0, 1), (-2, -1))
    tensor = turn @ np.asarray(response) @ np.swapaxes(turn, -1, -2)
    return np.sum(tensor * wave_tensor(name, alpha, delta), axis=(-2, -1))


def random_point(rng, f0=60.0):
    return jfstat.Doppler(
        rng.uniform(0, 2 * np.pi), np.arcsin(rng.uniform(-1, 1)), [f0, rng.uniform(-1e-9, 0)], START + 20000
    )


def of_detector(observation, d):
    """Response, and a trajectory for arrays of times, of one detector."""
    return jax.tree.map(lambda x: x[d], (observation.response, observation.trajectory))


def phase(source, trajectory, t, point, observation):
    """Phase of a template, cycles, at times of a detector since the epoch, from the delay to the source."""
    delay = np.asarray(source.delay(trajectory, jnp.asarray(t)))
    since = t - float(observation.reference(point))
    f0, f1 = (float(x) for x in point.fkdot)
    tau = since + delay
    # whole cycles of the large product are exact: f0 times whole seconds
    return f0 * delay + np.mod(f0 * since, 1.0) + 0.5 * f1 * tau**2


def simulated(point, amplitudes, noise=False, seed=0, days=1.0, detectors=("H1", "L1"), band=0.6):
    """SFTs of a signal with the given complex amplitudes by name."""
    rng, n = np.random.default_rng(seed), int(48 * days)
    slots = {name: START + TSFT * np.sort(rng.choice(n, round(0.8 * n), replace=False)) for name in detectors}
    f0 = float(point.fkdot[0])
    sfts = jfstat.simulate_sfts(
        list(detectors), timestamps=slots, fmin=f0 - band, fmax=f0 + band, sqrt_sx=FLOOR if noise else None, seed=seed
    )
    observation = jfstat.observation(sfts, sqrt_sx=FLOOR, reftime=START)
    source, series = observation.source(point), []
    first, n_bins = sfts.first_bin, sfts.n_bins
    samples = OVERSAMPLING * n_bins
    within = (np.arange(samples) + 0.5) * TSFT / samples
    centre = first + n_bins // 2
    for d, own in enumerate(sfts):
        response, trajectory = of_detector(observation, d)
        data = own.data.copy()
        t = own.since(int(observation.epoch))[:, None] + within
        sidereal = np.asarray(trajectory.sidereal(jnp.asarray(t)))
        cycles = phase(source, trajectory, t, point, observation)
        strain = sum(
            amplitude * pattern(name, response, sidereal, float(point.alpha), float(point.delta))
            for name, amplitude in amplitudes.items()
        )
        wave = 0.5 * strain * np.exp(2j * np.pi * (cycles - centre / TSFT * within))
        offsets = np.arange(n_bins) + first - centre
        half_a_step = np.exp(-1j * np.pi * offsets / samples)
        data += (np.fft.fft(wave)[:, offsets] * half_a_step * TSFT / samples).astype(data.dtype)
        series.append(jfstat.sfts.SFTSeries(own.detector, own.gps, own.gps_ns, data))
    return jfstat.SFTs(tuple(series), sfts.tsft, sfts.first_bin)


def prepared(point, amplitudes, **options):
    f0 = float(point.fkdot[0])
    return jfstat.prepare(simulated(point, amplitudes, **options), f0 - 0.05, f0 + 0.05, sqrt_sx=FLOOR, guard=0.4)


def filters(data, point, names):
    """Matched filters, (D, m), and the weighted sums of products of patterns, (D, m, m), by direct sums.

    Phases are those at the reference time of the template.
    """
    observation, band = data.observation, data.band
    source, alpha, delta = observation.source(point), float(point.alpha), float(point.delta)
    found, matrices = [], []
    for d in range(len(data.detectors)):
        response, trajectory = of_detector(observation, d)
        x = np.asarray(data.series[d], np.complex128)
        t = float(band.start) + float(band.dt) * np.arange(len(x))
        cycles = phase(source, trajectory, t, point, observation) - float(band.heterodyne) * t
        sidereal = np.asarray(trajectory.sidereal(jnp.asarray(t)))
        demodulated = x * np.exp(-2j * np.pi * cycles)
        found.append(
            [float(band.dt) * np.sum(demodulated * pattern(p, response, sidereal, alpha, delta)) for p in names]
        )
        weight = np.asarray(observation.weight[d])
        nodes, shares = np.polynomial.legendre.leggauss(10)
        times = np.asarray(observation.start[d])[:, None] + 0.5 * TSFT * (1 + nodes)
        sidereal = np.asarray(trajectory.sidereal(jnp.asarray(times)))
        each = np.stack([pattern(p, response, sidereal, alpha, delta) for p in names])
        matrices.append(np.einsum("psi,qsi,s,i->pq", each, each, weight, 0.5 * shares))
    return np.array(found), np.array(matrices)
