"""Files of lalpulsar_Weave as the program writes them."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from astropy.io import fits

import jfstat

pytest.importorskip("lalpulsar")
START, SEGMENT = 1_167_458_304, 86400
MIDDLE = START + SEGMENT
POINT = jfstat.Doppler(2.1, 0.47, [50.0, -1e-10], MIDDLE)
SEARCHED = ["--alpha=2.08,2.12", "--delta=0.45,0.49", "--freq=49.9995,50.0005", "--f1dot=-2e-10,0"]
MISMATCH = ["--semi-max-mismatch=0.3", "--toplist-limit=8"]
SQRT_SX = 5e-24
PARAMETERS = "freq", "f1dot", "alpha", "delta"


def run(name, *options):
    program = Path(sys.executable).with_name(name)
    if not program.exists():
        pytest.skip(f"{name} is not installed")
    subprocess.run([program, *options], check=True, capture_output=True)


@pytest.fixture(scope="module")
def sfts():
    signal = POINT, jfstat.Amplitude(8e-25, 0.3, 0.2, 1.0)
    return jfstat.simulate_sfts(["H1", "L1"], START, 2 * SEGMENT, 48.5, 51.5, sqrt_sx=SQRT_SX, signals=[signal], seed=3)


@pytest.fixture(scope="module")
def weave(sfts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("weave")
    jfstat.write_sfts(sfts, folder)
    setup = f"--first-segment={START},{START + SEGMENT}", "--segment-count=2", f"--ref-time={MIDDLE}"
    run("lalpulsar_WeaveSetup", *setup, "--detectors=H1,L1", f"--output-file={folder}/setup.fits")
    of_data = f"--setup-file={folder}/setup.fits", f"--sft-files={folder}/*.sft", *SEARCHED, *MISMATCH
    of_data += (f"--Fstat-assume-sqrtSX={SQRT_SX},{SQRT_SX}",)
    run("lalpulsar_Weave", *of_data, "--interpolation=false", f"--output-file={folder}/exact.fits")
    of_data += ("--coh-max-mismatch=0.3",)
    run("lalpulsar_Weave", *of_data, f"--output-file={folder}/plain.fits")
    run("lalpulsar_Weave", *of_data, "--toplists=sum2F", f"--output-file={folder}/sum.fits")
    run(
        "lalpulsar_WeaveConcat",
        f"--input-result-files={folder}/plain.fits",
        f"--output-result-file={folder}/joined.fits",
    )
    of_data += ("--lrs-Fstar0sc=2.5", "--lrs-oLGX=0.2,0.1")
    lists = "--toplists=mean2F,log10BSGL", "--recalc-statistics=mean2F,mean2F_det,log10BSGL,coh2F"
    run("lalpulsar_Weave", *of_data, *lists, f"--output-file={folder}/both.fits")
    return folder


def test_candidates_of_weave_are_read(weave):
    plain = jfstat.read_candidates(weave / "plain.fits")
    assert set(plain.colnames) == {"freq", "f1dot", "alpha", "delta", "mean_twoF_interpolated"}
    assert plain["freq"].unit == "Hz" and len(plain) == 8
    assert plain.meta["reftime"] == MIDDLE and type(plain.meta["reftime"]) is int
    assert plain.meta["detectors"] == ["H1", "L1"] and plain.meta["n_segments"] == 2
    assert plain.meta["parameters"] == ["freq", "f1dot", "alpha", "delta"]
    with fits.open(weave / "plain.fits") as file:
        assert plain.meta["n_twoF"] == file[0].header["NSEMITPL"] > plain.meta["n_templates"] > 0
        np.testing.assert_array_equal(plain["mean_twoF_interpolated"], file["mean2F_toplist"].data["mean2F"])
    assert "mean_twoF" in jfstat.read_candidates(weave / "exact.fits").colnames
    summed = jfstat.read_candidates(weave / "sum.fits")
    np.testing.assert_allclose(summed["mean_twoF_interpolated"], plain["mean_twoF_interpolated"], rtol=1e-6)
    joined = jfstat.read_candidates(weave / "joined.fits")
    assert joined.colnames == plain.colnames and len(joined) == len(plain)
    known = {name: plain.meta[name] for name in ("reftime", "detectors", "n_segments", "n_twoF")}
    assert {name: joined.meta[name] for name in known} == known and "parameters" not in joined.meta


def test_recalculated_statistics_are_those_of_the_templates(weave, sfts):
    both = jfstat.read_templates(weave / "both.fits")
    with fits.open(weave / "both.fits") as file:
        lists = [file[name].data for name in ("mean2F_toplist", "log10BSGL_toplist")]
    rows = [{tuple(float(x[name]) for name in PARAMETERS) for x in own} for own in lists]
    own = [tuple(float(x[name].value) for name in PARAMETERS) for x in both]
    assert set(own) == rows[0] | rows[1] and len(own) == len(set(own)) < len(rows[0]) + len(rows[1])
    assert both.meta["Fstar0"] == 2.5 and both.meta["oLGX"] == [0.2, 0.1]
    segments = jfstat.prepare(sfts, 49.99, 50.01, MIDDLE, sqrt_sx=SQRT_SX, segments=2)
    own = jfstat.fstat_table(segments, both, line_prior=jfstat.LinePrior(2.5, (0.2, 0.1)), progress=False)
    for name in ("mean_twoF", "mean_twoF_H1", "mean_twoF_L1"):
        np.testing.assert_allclose(own[name], both[name], rtol=0.04, atol=0.5)
    np.testing.assert_allclose(own["log10BSGL"], both["log10BSGL"], rtol=0.05, atol=0.5)


@pytest.mark.slow
def test_candidates_of_weave_are_followed_up(weave, sfts):
    found = jfstat.read_candidates(weave / "both.fits")[:2]
    last = jfstat.last_stage(jfstat.follow_up(sfts, found, sqrt_sx=SQRT_SX, progress=False))
    assert last["passed"].all() and (last["n_segments"] == 1).all()
    assert abs(last["freq"].value - 50.0).max() < 1e-4


def test_files_that_are_cut_or_of_other_kinds_are_refused(weave, tmp_path):
    content = (weave / "both.fits").read_bytes()
    for length in (0, 2000, 3000, len(content) - 2880):
        (tmp_path / "cut.fits").write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"is not a Weave FITS file of candidates|names no columns"):
            jfstat.read_candidates(tmp_path / "cut.fits")
    with pytest.raises(ValueError, match="is no file of lalpulsar_Weave with a toplist"):
        jfstat.read_candidates(weave / "setup.fits")
