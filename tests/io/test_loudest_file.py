"""The file of --outputLoudest: read back, and field by field against ComputeFstatistic_v2's."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lalsuite_tools import read_values, run

import jfstat
from jfstat.commandline import main
from jfstat.signal.templates import Amplitude

START, DURATION = 1167458304, 86400
ORBIT = dict(orbitasini=0.02, orbitPeriod=50000.0, orbitTp=1167460000.25, orbitEcc=0.1, orbitArgp=1.0)
FLOORS = {"H1": 4e-24, "L1": 5e-24, "V1": 9e-24}


def matrix(path):
    """The Fisher matrix in a file, (4, 4)."""
    text = path.read_text()
    rows = re.search(r"AmpFisher =\s*\[(.*)\];", text, re.S)[1].strip().split(";")[:4]
    return np.array([[float(x) for x in row.split(",")] for row in rows])


def jacobian(values):
    """Derivatives of the four amplitudes in units of n by aPlus/n, aCross/n, phi0 and psi: (4, 4)."""
    n = np.sqrt(2 / values["Sinv_Tsft"])

    def canonical(x):
        h0 = x[0] + jnp.sqrt(x[0] ** 2 - x[1] ** 2)
        return jfstat.Amplitude(h0=h0, cosi=x[1] / h0, phi0=x[2], psi=x[3]).canonical

    at = np.array([values["aPlus"] / n, values["aCross"] / n, values["phi0"], values["psi"]])
    return np.asarray(jax.jacfwd(canonical)(at))


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((("H1", "L1"), False), id="isolated"),
        pytest.param((("H1", "L1", "V1"), True), id="binary", marks=pytest.mark.ci),
    ],
)
def files(request, tmp_path_factory):
    """The two programs' files for one search of a signal in noise: theirs, ours."""
    detectors, binary = request.param
    directory = tmp_path_factory.mktemp("sfts")
    orbit = None
    if binary:
        orbit = jfstat.Orbit(*(ORBIT[f"orbit{name}"] for name in ("asini", "Period", "Tp", "Ecc", "Argp")))
    point = jfstat.Doppler(1.3, -0.4, [60.01, -1e-9], START + 1000, orbit)
    amplitude = Amplitude(h0=9e-25, cosi=0.4, psi=0.3, phi0=2.0)
    floors = {name: FLOORS[name] for name in detectors}
    sfts = jfstat.simulate_sfts(
        list(detectors), START, DURATION, 59, 61, sqrt_sx=floors, signals=[(point, amplitude)], seed=7
    )
    jfstat.write_sfts(sfts, directory)
    shared = dict(DataFiles=f"{directory}/*.sft", Alpha=1.3, Delta=-0.4, Freq=60.0099, FreqBand=0.0002, f1dot=-1e-9)
    shared |= dict(refTime=START + 1000, assumeSqrtSX=",".join(map(str, floors.values())))
    shared |= ORBIT if binary else {}
    theirs, ours = directory / "theirs.txt", directory / "ours.txt"
    run("ComputeFstatistic_v2", **shared, outputLoudest=theirs, outputLogfile="/dev/null", computeBSGL="true",
        Dterms=64, FstatMethod="DemodGeneric", outputSingleFstats="true", dFreq=1 / (2 * DURATION))  # fmt: skip
    assert (
        main(
            [
                "search",
                *(f"--{name}={value}" for name, value in shared.items()),
                f"--outputLoudest={ours}",
                "--noDetails",
            ]
        )
        == 0
    )
    return theirs, ours


@pytest.mark.ci
def test_every_field_is_ComputeFstatistic_v2s(files):
    theirs, ours = map(read_values, files)
    assert set(theirs) == set(ours)
    assert list(theirs)[:4] == list(ours)[:4]
    for name in ("refTime", "Alpha", "Delta", "f1dot", "f2dot", "f3dot", "Ed", *(x for x in theirs if "orbit" in x)):
        assert ours[name] == pytest.approx(theirs[name], rel=1e-12), name
    assert ours["Freq"] == pytest.approx(theirs["Freq"], abs=1e-12)
    # LALSuite sums over 16 bins of each SFT and takes antenna patterns in float32 at the SFTs' middle
    for name in ("Ad", "Bd", "Cd", "Sinv_Tsft", "h0", "aPlus"):
        assert ours[name] == pytest.approx(theirs[name], rel=0.02), name
    for name in ("twoF", *(f"twoF{i}" for i in range(3) if f"twoF{i}" in theirs), "log10BSGL"):
        assert ours[name] == pytest.approx(theirs[name], rel=0.02, abs=0.3), name
    for name in ("Fa", "Fb"):
        assert abs(ours[name] - theirs[name]) < 0.02 * abs(theirs[name]), name
    for name in ("cosi", "psi", "phi0"):
        assert ours[name] == pytest.approx(theirs[name], abs=0.02), name
    assert ours["aCross"] == pytest.approx(theirs["aCross"], abs=0.02 * theirs["h0"])


def test_the_fisher_matrix_is_the_inverse_of_the_covariance(files):
    values, own = read_values(files[1]), matrix(files[1])
    two = np.array([[values["Ad"], values["Cd"]], [values["Cd"], values["Bd"]]])
    j = jacobian(values)
    expected = 2 * j.T @ np.kron(np.eye(2), two) @ j
    np.testing.assert_allclose(own, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    # phase and amplitude: rho^2 = 2F, and its derivative by the amplitude
    assert own[2, 2] == pytest.approx(values["twoF"], rel=1e-6)
    n = np.sqrt(2 / values["Sinv_Tsft"])
    covariance = np.linalg.inv(own)
    errors = [values["daPlus"] / n, values["daCross"] / n, values["dphi0"], values["dpsi"]]
    np.testing.assert_allclose(np.sqrt(np.diagonal(covariance)), errors, rtol=1e-5)


def test_their_fisher_matrix_takes_half_of_the_inverse_antenna_matrix(files):
    # EstimateAmplitudeParams.c sets the upper half of a symmetric matrix and multiplies by it as if it were full, and
    # leaves out that the covariance of A^mu/n is half the inverse antenna matrix: why the two files differ in this
    values, theirs = read_values(files[0]), matrix(files[0])
    inverse = np.linalg.inv([[values["Ad"], values["Cd"]], [values["Cd"], values["Bd"]]])
    back = np.linalg.inv(jacobian(values))
    expected = np.linalg.inv(back @ np.kron(np.eye(2), np.triu(inverse)) @ back.T)
    np.testing.assert_allclose(theirs, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


def test_errors_of_h0_and_cosi_are_the_spread_of_estimates(files):
    values, own = read_values(files[1]), matrix(files[1])
    n = np.sqrt(2 / values["Sinv_Tsft"])
    at = [values["aPlus"] / n, values["aCross"] / n, values["phi0"], values["psi"]]
    draws = np.random.default_rng(1).multivariate_normal(at, np.linalg.inv(own) * 1e-4, size=20000)
    h0 = draws[:, 0] + np.sqrt(draws[:, 0] ** 2 - draws[:, 1] ** 2)
    assert 100 * n * np.std(h0) == pytest.approx(values["dh0"], rel=0.03)
    assert 100 * np.std(draws[:, 1] / h0) == pytest.approx(values["dcosi"], rel=0.03)


@pytest.mark.ci
def test_a_table_without_candidates_and_a_bad_path(tmp_path):
    sfts = jfstat.simulate_sfts(["H1"], START, 43200, 59.8, 60.2, sqrt_sx=1e-23, seed=1)
    data = jfstat.prepare(sfts, 60, 60.001, sqrt_sx=1e-23)
    found = jfstat.search(data, jfstat.Doppler(1.0, 0.2, [60.0]), threshold=1e4, progress=False)
    path = jfstat.write_loudest(data, found, tmp_path / "none.txt")
    assert path.read_text().endswith("%% no candidate\n") and not read_values(path)
    one = jfstat.search(data, jfstat.Doppler(1.0, 0.2, [60.0]), top=1, progress=False)
    values = read_values(jfstat.write_loudest(data, one, tmp_path / "one.txt"))
    assert values["twoF"] == pytest.approx(one["twoF"][0], rel=1e-3) and "twoF0" not in values
    with pytest.raises(OSError, match="cannot be written"):
        jfstat.write_loudest(data, one, tmp_path / "missing" / "one.txt")
    with pytest.raises(ValueError, match="lacks the column 'freq'"):
        jfstat.write_loudest(data, one["alpha", "delta"], tmp_path / "x")
    assert not (tmp_path / "x").exists()
