"""Lattices over ranges of orbits: coverage, counts, options; a signal like Sco X-1's from SFT files to the table."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from astropy.table import QTable
from hypothesis import given, settings
from hypothesis import strategies as st
from lalsuite_tools import run

import jfstat
from jfstat.banks.chart import charted_space, elements
from jfstat.banks.comparison import Phases
from jfstat.commandline import main
from jfstat.geometry.nearby import phase_difference, sites
from jfstat.maths.lattices import covering_radius, lattice_points, nearest_points
from jfstat.signal.times import gps_time

START, PERIOD, HOUR = 1167458304, 68023.7, 3600.0
SKY = 4.276, -0.273


def gaps(days, detectors=("H1", "L1")):
    """An observation with SFTs missing."""
    times = {}
    for name in detectors:
        rng = np.random.default_rng([5, *name.encode()])
        there = rng.uniform(size=round(48 * days)) < 0.7
        there[[0, -1]] = True
        times[name] = START + 1800 * np.flatnonzero(there)
    return jfstat.observation(list(times), timestamps=times)


@jax.jit
def least_losses(observation, signals, templates):
    """Loss of the phase, (k,), between pairs at the best frequency: a direct sum over the middles of SFTs."""
    time, weight = observation.quadrature(1)
    share = weight / jnp.sum(weight)
    centred = time - jnp.sum(share * time)

    def one(pair):
        signal, template = (observation.source(x) for x in pair)
        cycles = jax.vmap(lambda x, t: phase_difference(sites(x, signal, t), signal, template))(
            observation.trajectory, time
        )
        slope = jnp.sum(share * centred * cycles) / jnp.sum(share * centred**2)
        steps = slope + jnp.linspace(-0.3, 0.3, 31) / observation.tspan
        angle = 2 * jnp.pi * (cycles - steps[:, None, None] * centred)
        found = [jnp.sum(share * x, axis=(1, 2)) ** 2 for x in (jnp.cos(angle), jnp.sin(angle))]
        return jnp.min(1 - sum(found))

    return jax.lax.map(one, (signals, templates))


def rows(points, index):
    return jax.tree.map(lambda x: jnp.asarray(x)[index], points)


CASES = {
    "long": (3, 100.0, dict(asini=(1.4, 1.44), period=PERIOD, tp=(START - 50, START + 50)), {}),
    "short": (0.5, 50.0, dict(asini=(1.0, 1.2), period=(PERIOD - 500, PERIOD + 500), tp=(START, START + 2000)), {}),
    "period": (2, 40.0, dict(asini=(0.03, 0.05), period=(7 * HOUR - 50, 7 * HOUR + 50), tp=(START, START + 3e5)), {}),
    "tiny": (1, 20.0, dict(asini=(0.0, 0.01), period=(2 * HOUR, 2 * HOUR + 10), tp=(START, START + 3e5)), {}),
    "ecc": (2, 20.0, dict(asini=1.4, period=PERIOD, tp=(START, START + 30), ecc=(0, 0.02), argp=(0, 2 * np.pi)), {}),
    "ecc only": (2, 50.0, dict(asini=1.4, period=PERIOD, tp=START, ecc=(0.2, 0.22), argp=0.3), {}),
    "f1dot": (2, 60.0, dict(asini=(1.4, 1.42), period=PERIOD, tp=(START, START + 30)), dict(f1dot=(-3e-9, 0.0))),
}


@pytest.mark.parametrize(
    ("name", "n"),
    [
        ("short", 10),
        pytest.param("short", 40, marks=pytest.mark.ci),
        *(pytest.param(name, 40, marks=pytest.mark.slow) for name in CASES if name != "short"),
    ],
)
def test_no_random_signal_loses_more_than_the_mismatch(name, n):
    days, f, orbit, spins = CASES[name]
    observation, m = gaps(days), 0.2
    bank = jfstat.template_bank(*SKY, **spins, orbit=orbit, data=observation, freq=f, mismatch=m)
    rng = np.random.default_rng(8)
    at = {k: rng.uniform(*x, n) if isinstance(x, tuple) else np.full(n, x) for k, x in (orbit | spins).items()}
    fkdot = np.stack([np.full(n, f), at.pop("f1dot", np.zeros(n))], axis=-1)
    signals = jfstat.Doppler(np.full(n, SKY[0]), np.full(n, SKY[1]), fkdot, START, jfstat.Orbit(**at))
    templates = jfstat.Doppler(bank.alpha, bank.delta, bank.fkdot.at[:, 0].set(f), START, bank.orbit)
    # every signal against all templates, or the most likely ones
    phase = [
        2 * np.pi * (START + 43200 * days - p.orbit.tp) / p.orbit.period + p.orbit.argp for p in (signals, templates)
    ]
    places = [
        np.stack([p.orbit.asini * np.cos(x), p.orbit.asini * np.sin(x)], axis=-1)
        for p, x in zip((signals, templates), phase, strict=True)
    ]
    k = min(len(bank.alpha), 400)
    distance = np.linalg.norm(places[0][:, None] - places[1], axis=-1)
    if spins:  # by the effect on the phase at the edges of the data
        distance = np.hypot(
            distance * f, 0.05 * (np.asarray(fkdot[:, 1:]) - np.asarray(bank.fkdot[:, 1])) * (43200 * days) ** 2
        )
    index = np.argsort(distance, axis=1)[:, :k]
    lost = least_losses(observation, rows(signals, np.repeat(np.arange(n), k)), rows(templates, index.ravel()))
    assert np.max(np.min(np.asarray(lost).reshape(n, k), axis=1)) < m


@pytest.mark.ci
def test_count_is_that_of_leaci_and_prix_in_long_data():
    """Their metric for data much longer than the period: N = theta_2/m int 2 pi^2 f^2 asini Omega dasini dtasc."""
    f, m, a, width = 100.0, 0.1, (1.4, 1.5), 200.0
    observation = jfstat.observation(["H1", "L1"], START, 10 * 86400)
    ranges = dict(asini=a, period=PERIOD, tp=(START, START + width))
    bank = jfstat.template_bank(*SKY, orbit=ranges, data=observation, freq=f, mismatch=m)
    thickness = np.sqrt(3) * 2 * 4 / (12 * 3)
    expected = thickness / m * 2 * np.pi**2 * f**2 * (2 * np.pi / PERIOD) * width * (a[1] ** 2 - a[0] ** 2) / 2
    assert expected < len(bank.alpha) < 1.1 * expected


@pytest.mark.slow
def test_sizes_of_banks_over_segments_beside_lalsuites(tmp_path):
    """BinaryWeave's metric and lattice, called by an example; its committed numbers, and one set-up again."""
    pytest.importorskip("lalpulsar")
    examples, name = Path(__file__).parents[2] / "examples", "orbit_banks_against_lalsuite"
    committed = json.loads((examples / f"{name}.json").read_text())["banks"]
    written = tmp_path / "banks.json"
    command = [sys.executable, examples / f"{name}.py", "--setups", committed[0]["setup"], "--output", written]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    again = json.loads(written.read_text())["banks"]
    assert len(again) == 2
    for row in [*committed, *again]:
        assert 0.4 < row["templates"] / row["tiling"] < 1.04
        assert 0.4 < row["values"] / row["tiling_values"] < (1.4 if row["mismatch"] == 0.1 else 1.0)
    for row in again:
        before = next(x for x in committed if (x["setup"], x["mismatch"]) == (row["setup"], row["mismatch"]))
        assert row["tiling"] == pytest.approx(before["tiling"], rel=0.01)
        assert row["templates"] == pytest.approx(before["templates"], rel=0.01)


@pytest.mark.ci
def test_a_range_of_a_whole_period_is_the_whole_orbit():
    observation = jfstat.observation(["H1"], START, 86400)
    count = {}
    for periods in (1.0, 7.0):
        orbit = dict(asini=0.05, period=PERIOD / 3, tp=(START, START + periods * PERIOD / 3))
        bank = jfstat.template_bank(*SKY, orbit=orbit, data=observation, freq=100.0, mismatch=0.2)
        count[periods] = len(bank.alpha)
    assert count[1.0] == count[7.0] > 10


@given(st.integers(1, 5), st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_nearest_points_of_the_lattice(n, seed):
    x = np.random.default_rng(seed).normal(size=(50, n)) * 4
    integers = nearest_points(x)
    distance = np.linalg.norm(x - lattice_points(integers), axis=1)
    assert np.max(distance) <= covering_radius(n) * (1 + 1e-12)
    steps = np.array(list(itertools.product((-1, 0, 1), repeat=n)))
    around = lattice_points((integers[:, None] + steps).reshape(-1, n)).reshape(50, -1, n)
    assert np.all(distance <= np.min(np.linalg.norm(x[:, None] - around, axis=2), axis=1) + 1e-12)


def test_coordinates_and_elements_are_inverses():
    observation = jfstat.observation(["H1"], START, 2 * 86400)
    limits = dict(alpha=(1.0, 1.2), delta=(0.1, 0.3), f1dot=(-1e-9, 0), asini=(1, 2), period=(PERIOD - 1, PERIOD + 1))
    limits |= dict(tp=(START - 9e5, START - 9e5 + 300), ecc=(0.01, 0.2), argp=(4.0, 5.0))
    space = charted_space(Phases.of(observation), limits, 1, gps_time(START, "reftime"), 100.0, 0.1)
    u = np.random.default_rng(0).uniform(space.low, space.high, (20, len(space.low)))
    found = elements(space.chart, space.place, jnp.asarray(space.coordinates(u)))
    for i, name in enumerate(space.chart.names):
        values = found.spins[:, 0] if name == "f1dot" else getattr(found, name)
        assert values == pytest.approx(u[:, i], rel=1e-9), name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(orbit=dict(asini=(1, 2), period=PERIOD, tp=(0, 9, 1))), "orbit tp must be a number or .low, high."),
        (dict(orbit=dict(asini=(1, 2), period=PERIOD, tp=0, ecc=(0, 0.9))), "orbit ecc must be at most 0.8"),
        (dict(orbit=dict(asini=(2, 1), period=PERIOD, tp=0)), "orbit asini must have low <= high"),
        (dict(orbit=dict(asini=(-1, 1), period=PERIOD, tp=0)), "asini must be non-negative"),
        (dict(orbit=dict(asini=(1, 2), period=(0, 9), tp=0)), "period must be positive"),
        (dict(orbit=dict(asini=(1, 2), period=PERIOD)), "orbit lacks tp"),
        (dict(orbit=dict(asini=(1, 2), period=PERIOD, tp=0), region="all"), "region cannot go with ranges of orbits"),
        (dict(orbit=dict(asini=(1, 2), period=PERIOD, tp=0), alpha=(0, 2), delta=(0, 0.1)), "span less than 1.0 rad"),
        (dict(orbit=dict(asini=(1, 2), period=PERIOD, tp=(0, 9)), freq=1e6), "narrow the ranges or raise the mismatch"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message):
    observation = jfstat.observation(["H1"], START, 86400)
    sky = dict(alpha=1.0, delta=0.2) if "region" not in arguments else {}
    with pytest.raises(ValueError, match=message):
        jfstat.template_bank(**(sky | dict(data=observation, freq=100.0, mismatch=0.1) | arguments))


def test_without_a_mismatch_ranges_need_steps():
    with pytest.raises(ValueError, match=r"give \(low, high, step\), or a mismatch and data for a lattice"):
        jfstat.template_bank(1.0, 0.2, orbit=dict(asini=(1, 2), period=PERIOD, tp=0))


SIGNAL = dict(
    Alpha=SKY[0], Delta=SKY[1], Freq=100.0271, f1dot=0.0, refTime=START, h0=7e-25, cosi=0.4, psi=0.3, phi0=1.1,
    orbitasini=1.4413, orbitPeriod=PERIOD, orbitTp=START + 37.3, orbitEcc=0.0, orbitArgp=0.0,
)  # fmt: skip
TEMPLATES = [
    *(
        "--Alpha",
        str(SKY[0]),
        "--Delta",
        str(SKY[1]),
        "--Freq",
        "100.02",
        "--FreqBand",
        "0.02",
        "--refTime",
        str(START),
    ),
    *("--orbitasini", "1.43", "--orbitasiniBand", "0.03", "--orbitPeriod", str(PERIOD), "--orbitTp", str(START)),
    *("--orbitTpBand", "80", "--metricMismatch", "0.2"),
]


@pytest.fixture(scope="module")
def sco_x1(tmp_path_factory):
    """SFTs of a signal like Sco X-1's in noise, by Makefakedata_v5; short ones, as ComputeFstatistic_v2 wants."""
    directory = tmp_path_factory.mktemp("sco")
    (directory / "signal.cfg").write_text("[Sco]\n" + "".join(f"{k} = {v!r}\n" for k, v in SIGNAL.items()))
    run("Makefakedata_v5", IFOs="H1,L1", outSFTdir=directory, sqrtSX="4e-24,4e-24", startTime=START, duration=43200,
        Tsft=720, fmin=99.6, Band=1.0, injectionSources=directory / "signal.cfg", randSeed=3)  # fmt: skip
    return directory


@pytest.mark.ci
def test_a_signal_like_sco_x1_is_on_top(sco_x1, tmp_path, capsys):
    files, found = str(sco_x1 / "*.sft"), tmp_path / "found.ecsv"
    assert main(["search", "--DataFiles", files, *TEMPLATES, "--cluster", "1", "--outputFstat", str(found)]) == 0
    table = QTable.read(found)
    run("ComputeFstatistic_v2", DataFiles=files, outputLoudest=tmp_path / "loudest.txt", outputLogfile="/dev/null",
        **{name: SIGNAL[name] for name in ("Alpha", "Delta", "Freq", "refTime", "orbitasini", "orbitPeriod")},
        orbitTp=f"{SIGNAL['orbitTp']}GPS")  # fmt: skip
    lines = (tmp_path / "loudest.txt").read_text().splitlines()
    expected = next(float(line.split("=")[1].strip(" ;")) for line in lines if line.startswith("twoF "))
    top = table[0]
    assert expected > 150
    assert 0.75 * expected < float(top["twoF"]) < 1.2 * expected  # the mismatch and the bins; noise adds
    assert len(table) == 1 or float(table["twoF"][1]) < 60
    assert top["n_members"] > 10
    # the signal lies within a cell of the template
    assert abs(top["asini"].value - SIGNAL["orbitasini"]) < 0.01
    assert abs(top["tp"].value - SIGNAL["orbitTp"]) < 60
    assert abs(top["h0"] - SIGNAL["h0"]) < 4 * top["h0_error"] + 0.15 * SIGNAL["h0"]
    assert table.meta["parameters"] == ["freq", "asini", "tp"]
    assert set(table.meta["bounds"]) == {"asini", "tp"}
    assert {"period", "ecc", "argp", "outside", "twoF_H1", "twoF_L1", "log10BSGL"} <= set(table.colnames)
    capsys.readouterr()


@pytest.mark.ci
def test_count_templates_of_a_lattice_of_orbits(sco_x1, capsys):
    assert main(["search", "--DataFiles", str(sco_x1 / "*.sft"), *TEMPLATES, "--countTemplates"]) == 0
    printed = capsys.readouterr().out
    n = int(printed.partition(" template(s)")[0].split()[-1])
    assert 5 < n < 500
    assert "would take" in printed


def test_an_orbit_band_without_step_or_mismatch_is_refused(sco_x1, capsys):
    options = TEMPLATES[: TEMPLATES.index("--metricMismatch")]
    assert main(["search", "--DataFiles", str(sco_x1 / "*.sft"), *options]) == 1
    assert "give one, or --metricMismatch for a lattice" in capsys.readouterr().err
