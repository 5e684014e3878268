"""Banks by age and braking index: they cover the physical ranges, and little more; LALSuite's ranges are the same."""

import astropy.units as u
import numpy as np
import pytest
from astropy.coordinates import SkyCoord
from scipy.spatial import KDTree

import jfstat
from jfstat.banks.braking import BrakingRegion
from jfstat.banks.ranges import natural_step
from jfstat.commandline import main
from jfstat.metrics.phasemetric import factor, restricted
from jfstat.signal.times import gps_time

START, DAY, AGE = 1167458304, 86400.0, 5e9
BRAKING = (2.0, 7.0)


@pytest.fixture(scope="module")
def observation():
    return jfstat.observation(["H1", "L1"], START, 8 * DAY)


def signals(n, low, high, age=AGE, braking=BRAKING, seed=0):
    """Random frequencies, and f1dot and f2dot of any braking indices within the range: (n,), (n, 2)."""
    rng = np.random.default_rng(seed)
    f = rng.uniform(low, high, n)
    f1dot = -rng.uniform(f / ((braking[1] - 1) * age), f / ((braking[0] - 1) * age))
    return f, np.stack([f1dot, rng.uniform(*braking, n) * f1dot**2 / f], axis=-1)


def spin_factor(observation, fmax):
    """Factor of the metric in f1dot and f2dot, the frequency maximised over."""
    return restricted(factor(observation, 2, gps_time(START, "reftime"), fmax), [0, 1, 2])[1:, 1:]


@pytest.mark.parametrize(("low", "high", "mismatch"), [(100.0, 100.0, 0.2), (100.0, 100.5, 0.1), (60.0, 90.0, 0.3)])
def test_a_lattice_covers_the_ranges_of_a_known_position(observation, low, high, mismatch):
    bank = jfstat.template_bank(
        1.0, 0.3, jfstat.Braking(AGE, BRAKING), data=observation, mismatch=mismatch, freq=(low, high)
    )
    _, spins = signals(3000, low, high)
    metric = spin_factor(observation, high)
    distance, _ = KDTree(np.asarray(bank.fkdot)[:, 1:] @ metric.T).query(spins @ metric.T)
    assert 0.3 * mismatch < np.max(distance**2) <= mismatch * (1 + 1e-6)
    # no template is useless: all are within the mismatch of a physical signal
    many = signals(100_000, low, high, seed=1)[1]
    own, _ = KDTree(many @ metric.T).query(np.asarray(bank.fkdot)[:, 1:] @ metric.T)
    assert np.quantile(own, 0.95) < 1.2 * np.sqrt(mismatch)


def test_it_is_smaller_than_that_of_the_enclosing_ranges(observation):
    limits = BrakingRegion(100.0, 100.1, 1e9, 2.0, 7.0).limits
    common = dict(data=observation, mismatch=0.3, freq=(100.0, 100.1))
    bank = jfstat.template_bank(1.0, 0.3, jfstat.Braking(1e9, (2, 7)), **common)
    box = jfstat.template_bank(1.0, 0.3, f1dot=tuple(limits[0]), f2dot=tuple(limits[1]), **common)
    assert len(bank.alpha) < 0.5 * len(box.alpha)


def test_a_region_of_the_sky_is_covered(observation):
    """Random signals in a small disc of the sky, by the metric of all parameters."""
    short = jfstat.observation(["H1", "L1"], START, 2 * DAY)
    centre, mismatch = SkyCoord(1.0, 0.3, unit="rad"), 0.2
    bank = jfstat.template_bank(
        region=(centre, 0.02 * u.rad), f1dot=jfstat.Braking(2e8, (3, 5)), data=short, mismatch=mismatch, freq=(50, 50.2)
    )
    n = 400
    _, spins = signals(n, 50, 50.2, 2e8, (3, 5))
    rng = np.random.default_rng(2)
    angle, radius = rng.uniform(0, 2 * np.pi, n), 0.02 * np.sqrt(rng.uniform(0, 1, n))
    sky = centre.directional_offset_by(angle * u.rad, radius * u.rad)

    def coordinates(alpha, delta, spins):
        alpha, delta = np.asarray(alpha), np.asarray(delta)
        n = [np.cos(delta) * np.cos(alpha), np.cos(delta) * np.sin(alpha), np.sin(delta)]
        return np.column_stack([spins, *n])

    metric = factor(short, 2, gps_time(START, "reftime"), 50.2)[1:, 1:]
    ours = coordinates(bank.alpha, bank.delta, np.asarray(bank.fkdot)[:, 1:]) @ metric.T
    distance, _ = KDTree(ours).query(coordinates(sky.ra.rad, sky.dec.rad, spins) @ metric.T)
    assert np.max(distance**2) <= mismatch


def test_a_flat_grid_has_a_template_within_half_a_step(observation):
    bank = jfstat.template_bank([1.0, 2.0], 0.3, jfstat.Braking(1e10, BRAKING), data=observation, freq=(100, 100.2))
    steps = np.array([natural_step(k, 8 * DAY) for k in (1, 2)])
    one = np.asarray(bank.fkdot)[np.asarray(bank.alpha) == 1.0, 1:]
    assert len(bank.alpha) == 2 * len(one)
    _, spins = signals(2000, 100, 100.2, 1e10)
    off, _ = KDTree(one / steps).query(spins / steps, p=np.inf)
    assert np.max(off) <= 0.5 * (1 + 1e-6)
    assert len(np.unique(one[:, 0])) > 10


def test_strict_leaves_only_physical_templates(observation):
    common = dict(f1dot=jfstat.Braking(1e9, BRAKING), data=observation, mismatch=0.2, freq=(100.0, 100.1))
    strict = np.asarray(jfstat.template_bank(1.0, 0.3, strict=True, **common).fkdot)[:, 1:]
    loose = np.asarray(jfstat.template_bank(1.0, 0.3, **common).fkdot)[:, 1:]
    f = 100.05
    ages = -f / ((np.array([[2.0], [7.0]]) - 1) * strict[:, 0])
    assert np.all(ages[0] >= 1e9 * (1 - 1e-3))
    assert np.all(ages[1] <= 1e9 * (1 + 1e-3))
    n = strict[:, 1] * f / strict[:, 0] ** 2
    assert 2 * (1 - 2e-3) < n.min() < n.max() < 7 * (1 + 2e-3)
    assert len(strict) < len(loose)


def test_quantities_and_one_braking_index_and_a_fixed_f3dot(observation):
    common = dict(data=observation, mismatch=0.2, freq=(100.0, 100.1))
    first = jfstat.template_bank(1.0, 0.3, jfstat.Braking(30 * u.yr, 5), f3dot=1e-25, **common)
    second = jfstat.template_bank(1.0, 0.3, jfstat.Braking(30 * 365.25 * DAY, (5, 5)), **common)
    assert np.asarray(first.fkdot).shape[1] == 4
    assert np.all(np.asarray(first.fkdot)[:, 3] == 1e-25)
    np.testing.assert_allclose(np.asarray(first.fkdot)[:, 1], np.asarray(second.fkdot)[:, 1], rtol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(f2dot=1e-19), "f2dot does not go with a Braking"),
        (dict(f3dot=(0.0, 1e-25)), "f3dot must be a number with a Braking"),
        (dict(freq=None), "freq must be given with an age"),
        (dict(freq=(101.0, 100.1)), "must be ordered"),
        (dict(freq=(100.0, 100.1, 100.2)), "freq must be a frequency or a band"),
    ],
)
def test_what_makes_no_sense_is_refused(observation, arguments, message):
    arguments = dict(freq=(100.0, 100.1), data=observation, mismatch=0.2) | arguments
    with pytest.raises(ValueError, match=message):
        jfstat.template_bank(1.0, 0.3, jfstat.Braking(1e9, 3), **arguments)


@pytest.mark.parametrize(
    ("age", "index", "message"),
    [
        (-1.0, 3, "age must be positive"),
        (1e9, (1, 5), "index must be"),
        (1e9, (5, 2), "index must be"),
        (1e9, "x", "index must be"),
    ],
)
def test_an_age_and_an_index_that_make_no_sense_are_refused(age, index, message):
    with pytest.raises(ValueError, match=message):
        jfstat.Braking(age, index)


def test_a_flat_grid_needs_the_data_for_its_steps():
    with pytest.raises(ValueError, match="data must be given with an age"):
        jfstat.template_bank(1.0, 0.3, jfstat.Braking(1e9, 3), freq=(100.0, 100.1))


# the program, against LALSuite's


@pytest.fixture(scope="module")
def lal_files(tmp_path_factory):
    tools = pytest.importorskip("lalsuite_tools", reason="needs LALSuite", exc_type=ImportError)
    path = tmp_path_factory.mktemp("sfts")
    tools.run("Makefakedata_v5", outSFTdir=path, IFOs="H1,L1", sqrtSX="4e-24", startTime=START, duration=2 * 86400,
              fmin=49.2, Band=1.6, Tsft=1800, randSeed=7)  # fmt: skip
    return tools, path


@pytest.mark.ci
def test_ranges_and_counts_beside_ComputeFstatistic_v2(lal_files, tmp_path, capsys):
    """The lattice of ComputeFstatistic_v2's gridType 9 within the physical ranges lies within the mismatch of ours."""
    tools, path = lal_files
    grid = dict(Freq=50.0, FreqBand=2e-4, Alpha=1.0, Delta=0.3, gridType=9)
    grid |= dict(spindownAge=3e8, minBraking=2, maxBraking=7)
    lattice = grid | dict(metricMismatch=0.2, countTemplates="TRUE", outputGrid=tmp_path / "grid.txt")
    printed = tools.run("ComputeFstatistic_v2", DataFiles=f"{path}/*.sft", outputLogfile="/dev/null", **lattice)
    theirs = jfstat.read_templates(tmp_path / "grid.txt")
    region = BrakingRegion(50.0, 50.0002, 3e8, 2.0, 7.0)
    stated = next(line for line in printed.splitlines() if "Spin-range" in line).split("[")[1].split(",")[1:3]
    for own, text in zip(region.limits, stated, strict=True):
        np.testing.assert_allclose(own, [float(x) for x in text.split(":")], rtol=2e-5)
    f, f1, f2 = (theirs[name].value for name in ("freq", "f1dot", "f2dot"))
    n = f2 * f / f1**2
    physical = (-f1 <= f / 3e8) & (-f1 >= f / (6 * 3e8)) & (n >= 2) & (n <= 7) & (f >= 50.0) & (f <= 50.0002)
    assert physical.sum() > 100
    observation = jfstat.observation(["H1", "L1"], START, 2 * DAY)
    bank = jfstat.template_bank(
        1.0, 0.3, jfstat.Braking(3e8, BRAKING), data=observation, mismatch=0.2, freq=(50.0, 50.0002)
    )
    metric = spin_factor(observation, 50.0002)
    spins = np.stack([f1, f2], axis=-1)[physical]
    distance, _ = KDTree(np.asarray(bank.fkdot)[:, 1:] @ metric.T).query(spins @ metric.T)
    assert np.max(distance**2) <= 0.2
    # with the bins of the FFT, which LALSuite's lattice counts within its mismatch
    ours = len(bank.alpha) * (int(2e-4 * 2 * 2 * DAY) + 1)
    assert 0.02 < ours / len(theirs) < 1
    options = [f"--{name}={value}" for name, value in grid.items()]
    common = ["search", f"--DataFiles={path}/*.sft", *options, "--assumeSqrtSX=4e-24"]
    capsys.readouterr()
    out = tmp_path / "found.ecsv"
    assert main([*common, "--metricMismatch=0.2", "--noDetails", f"--outputFstat={out}"]) == 0
    assert f"{len(bank.alpha)} template(s)" in capsys.readouterr().out
    found = jfstat.read_candidates(out)
    assert set(found.meta["parameters"]) >= {"freq", "f1dot"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--spindownAge=1e9"], "--minBraking is missing"),
        (["--spindownAge=1e9", "--minBraking=2", "--maxBraking=7", "--f1dot=-1e-9"], "--f1dot does not go with"),
        (["--spindownAge=1e9", "--minBraking=1", "--maxBraking=7"], "--spindownAge must be positive"),
        (["--gridType=9", "--metricMismatch=0.1"], "--spindownAge is missing"),
        (["--gridType=9", "--spindownAge=1e9", "--minBraking=2", "--maxBraking=7"], "--metricMismatch is missing"),
    ],
)
def test_wrong_options_are_one_line(capsys, options, message):
    assert main(["search", "--DataFiles=x", "--Freq=50", "--Alpha=1", "--Delta=1", *options]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
