"""Sources in files and braces, as Makefakedata_v5 takes them; durations; predictions."""

import re

import numpy as np
import pytest

import jfstat
from jfstat.commandline import main
from jfstat.commandline.sources import read_sources

START = 1167458304
SKY = "Alpha = 1.1\nDelta = 0.2\nFreq = 50.1\nh0 = 1e-23\ncosi = 0.3\n"
BRACES = "{" + SKY.strip().replace("\n", ";")


@pytest.mark.parametrize("seed", range(20))
def test_days_of_a_time_scale_are_whole_seconds(seed, tmp_path):
    """As in Makefakedata_v5, where 0.02003 d give the SFTs of 1731 s."""
    rng = np.random.default_rng(seed)
    days, start = float(rng.uniform(1e-3, 40)), int(rng.integers(START, START + 10**7))
    shape = str(rng.choice(["rect", "exp"]))
    window = f"transientWindowType = {shape}\ntransientStartTime = {start}\ntransientTauDays = {days!r}\n"
    (tmp_path / "a.dat").write_text(SKY + window)
    for text in (str(tmp_path / "a.dat"), BRACES + ";" + window.strip().replace("\n", ";") + "}"):
        ((_, _, own),) = read_sources(text)
        assert (float(own.t0), float(own.tau)) == (start, round(days * 86400))
        assert own.shape == {"rect": "rectangular", "exp": "exponential"}[shape]
    ((_, _, own),) = read_sources(
        BRACES + f";transientWindowType=rect;transientStartTime={start};transientTauDays=0.02}}"
    )
    assert float(own.tau) == 1728


@pytest.mark.parametrize("seed", range(20))
def test_all_derivatives_of_the_frequency_are_read(seed, tmp_path):
    rng = np.random.default_rng(seed)
    values = {
        f"f{k}dot": float(rng.normal() * 10.0 ** (-5 * k)) for k in rng.permutation(range(1, 7))[: rng.integers(1, 7)]
    }
    lines = rng.permutation([*SKY.splitlines(), *(f"{name} = {x!r}" for name, x in values.items())])
    (tmp_path / "a.dat").write_text("\n".join(lines))
    ((point, *_),) = read_sources(str(tmp_path / "a.dat"))
    order = max(int(name[1]) for name in values)
    assert np.asarray(point.fkdot).tolist() == [50.1, *(values.get(f"f{k}dot", 0.0) for k in range(1, order + 1))]


WRONG = {
    "seventh derivative": ("f7dot = 1", "line 6, 'f7dot = 1' is not one of"),
    "a name twice": ("cosi = 0.2", "line 6 gives cosi a second time"),
    "another name": ("h_0 = 1", "line 6, 'h_0 = 1' is not one of"),
    "no value": ("psi", "line 6, 'psi' is not one of"),
    "two time scales": (
        "transientWindowType = rect\ntransientStartTime = 1e9\ntransientTau = 1\ntransientTauDays = 1",
        "one time scale in s and in days",
    ),
    "days without a window": ("transientTauDays = 1", "go with transientWindowType"),
    "no days": (
        "transientWindowType = rect\ntransientStartTime = 1e9\ntransientTauDays = 0",
        "transientTau must be positive",
    ),
    "words for days": (
        "transientWindowType = rect\ntransientStartTime = 1e9\ntransientTauDays = x",
        "'x' is not a number",
    ),
    "a large derivative": ("f1dot = 1e30\nf2dot = 1e-18\n", "f1dot must be at most"),
    "a large second derivative": ("f1dot = -1e-9\nf2dot = 1e30\n", "f2dot must be at most"),
    "an empty source": ("[second]", "Alpha, Delta, Freq must be given"),
    "a source twice": (f"[a]\n{SKY}[a]\n{SKY}", "names a source a second time"),
}


@pytest.mark.parametrize("name", WRONG)
def test_nothing_in_a_source_is_skipped(name, tmp_path):
    text, message = WRONG[name]
    (tmp_path / "a.dat").write_text(SKY + text)
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        read_sources(str(tmp_path / "a.dat"))
    assert str(tmp_path / "a.dat") in str(raised.value)


@pytest.mark.parametrize("text", [BRACES, "}", BRACES + "}}", "{" + BRACES + "}", BRACES + "},{"])
def test_braces_are_closed(text):
    with pytest.raises(ValueError, match=r"--injectionSources has '[{}]*' alone"):
        read_sources(text)


def test_an_empty_file_is_no_source(tmp_path):
    for text in ("", "\n\n", "# nothing\n% at all\n; here\n"):
        (tmp_path / "a.dat").write_text(text)
        with pytest.raises(ValueError, match="Alpha, Delta, Freq must be given"):
            read_sources(str(tmp_path / "a.dat"))


def test_names_comments_and_quotes(tmp_path):
    (tmp_path / "a.dat").write_text(
        f"[one]\n{SKY}psi = 0.1 ; a comment\n[two]  # another\n{SKY}transientWindowType='none'\n"
    )
    assert [float(amplitude.psi) for _, amplitude, _ in read_sources(str(tmp_path / "a.dat"))] == [0.1, 0.0]


def words(text):
    return [f"--{line.replace(' ', '')}" for line in text.split("\n") if line]


@pytest.mark.parametrize(("duration", "n"), [(1, 1), (899, 1), (900, 1), (901, 2), (1800, 2), (1800.5, 3), (4499, 5)])
def test_sfts_cover_the_duration(duration, n, tmp_path, capsys):
    """As those of Makefakedata_v5 and PredictFstat, which round up."""
    band = ["--IFOs=H1", f"--startTime={START}", "--Tsft=900"]
    line = [
        "simulate",
        f"--outSFTdir={tmp_path}",
        *band,
        f"--duration={duration}",
        "--fmin=50",
        "--Band=0.1",
        "--sqrtSX=1",
    ]
    assert main(line) == 0
    assert len(jfstat.read_sfts(tmp_path)["H1"]) == n
    capsys.readouterr()
    source = ["predict", *band, "--assumeSqrtSX=1e-23", "--Alpha=1", "--Delta=0.2", "--h0=1e-24", "--cosi=0"]
    assert main([*source, f"--duration={duration}"]) == main([*source, f"--duration={900 * n}"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == said[2:]
    for wrong in ("0", "-5"):
        assert main([*source, f"--duration={wrong}"]) == 1
        assert f"--duration must be positive, not {wrong}" in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(6))
def test_the_prediction_of_a_transient_is_the_2F_of_its_data(seed):
    """Without noise, the 2F in the signal's window is rho^2."""
    rng = np.random.default_rng(seed)
    times = {
        "H1": START + 1800 * np.sort(rng.permutation(48)[:36]),
        "L1": START + 1800 * np.sort(rng.permutation(48)[:30]),
    }
    floor = {"H1": 4e-24, "L1": 7e-24}
    shape = ("rectangular", "exponential")[seed % 2]
    window = jfstat.TransientWindow(shape, START + float(rng.uniform(0, 43200)), float(rng.uniform(5000, 20000)))
    point = jfstat.Doppler(*rng.uniform(-1, 1, 2), [100.01, -1e-10], START)
    amplitude = jfstat.Amplitude(1e-22, *rng.uniform(-0.9, 0.9, 3))
    how = dict(fmin=99.5, fmax=100.5, timestamps=times)
    sfts = jfstat.simulate_sfts(["H1", "L1"], sqrt_sx=None, signals=[(point, amplitude, window)], **how)
    data = jfstat.prepare(sfts, 100.0, 100.02, START, sqrt_sx=floor, guard=0.4)
    seen = jfstat.observation(["H1", "L1"], timestamps=times, sqrt_sx=floor)
    expected = float(jfstat.predict_twoF(seen, point, amplitude, window)) - 4
    assert float(jfstat.transient_twoF(data, point, window)) == pytest.approx(expected, rel=5e-3)
    assert expected < float(jfstat.predict_twoF(seen, point, amplitude)) - 4
    later = jfstat.TransientWindow(shape, START + 1e6, 5000.0)
    assert float(jfstat.predict_twoF(seen, point, amplitude, later)) == 4.0


def test_a_window_does_not_go_with_segments():
    sfts = jfstat.simulate_sfts("H1", START, 7200, 50.0, 51.0, sqrt_sx=1e-23)
    point, window = jfstat.Doppler(1.0, 0.2, [50.5]), jfstat.TransientWindow("rect", START, 3600.0)
    with pytest.raises(ValueError, match="data has segments"):
        jfstat.predict_twoF(jfstat.segment_observations(sfts, 2), point, jfstat.Amplitude(1e-24, 0), window)


@pytest.mark.parametrize("more", ["days", "derivatives"])
def test_sources_are_those_of_makefakedata(more, tmp_path):
    from lalsuite_tools import run

    rng = np.random.default_rng(len(more))
    text = "Alpha = 1.1\nDelta = 0.2\nFreq = 50.1\nrefTime = 1167458304\nh0 = 1\ncosi = 0.3\npsi = 0.2\nphi0 = 1\n"
    if more == "days":
        text += f"transientWindowType = rect\ntransientStartTime = {START + 700}\n"
        text += f"transientTauDays = {rng.uniform(0.02, 0.1)}\n"
    else:
        text += "".join(f"f{k}dot = {rng.normal() * 1e-3 * 2.0**k / 14400**k}\n" for k in range(1, 7))
    (tmp_path / "a.dat").write_text(text)
    how = dict(IFOs="H1", startTime=START, duration=13000, Tsft=1800, fmin=50, Band=0.2)
    (tmp_path / "theirs").mkdir()
    run("Makefakedata_v5", **how, outSFTdir=tmp_path / "theirs", injectionSources=tmp_path / "a.dat")
    line = [f"--{name}={value}" for name, value in how.items()]
    assert main(["simulate", *line, f"--outSFTdir={tmp_path}/own", f"--injectionSources={tmp_path}/a.dat"]) == 0
    own, theirs = (jfstat.read_sfts(tmp_path / name)["H1"] for name in ("own", "theirs"))
    assert len(own) == len(theirs) == 8
    np.testing.assert_allclose(own.data, theirs.data, atol=0.02 * np.abs(theirs.data).max())


def predicted(capsys, *options):
    assert main(["predict", *options]) == 0, capsys.readouterr().err
    return [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()]


def test_predictions_need_no_more_than_they_use(tmp_path, capsys):
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 36000, 50.0, 50.5, sqrt_sx=1e-23)
    jfstat.write_sfts(sfts, tmp_path)
    files, given = f"--DataFiles={tmp_path}", "--assumeSqrtSX=1e-23,2e-23"
    times = ["--IFOs=H1,L1", f"--minStartTime={START}", "--duration=36000"]
    source = ["--Alpha=1.1", "--Delta=0.2", "--h0=1e-24", "--cosi=0.3"]
    rect = [*source, "--transientWindowType=rect", f"--transientStartTime={START + 3600}", "--transientTau=7200"]
    whole = predicted(capsys, files, given, *source)  # no --Freq
    assert whole == predicted(capsys, *times, given, *source)
    assert whole == predicted(capsys, files, given, "--Freq=50.25", *source)
    part = predicted(capsys, files, given, *rect)
    assert part == predicted(capsys, *times, given, *rect) and 4 < part[0] < whole[0]
    for data in ([files, given], [files, "--Freq=50.25"], [*times, given]):  # pure noise
        assert predicted(capsys, *data) == [4.0, pytest.approx(8**0.5, abs=1e-4)]
        assert predicted(capsys, *data, "--PureSignal") == [0.0]
    for line, message in (
        ([files, *source], "--Freq is missing: say at which frequency"),
        ([files, given, "--Freq=60", *source], "not all of 60 to 60 Hz"),
        ([files, given, "--Alpha=1"], "--Alpha has no effect"),
        ([files, given, "--psi=1"], "--psi has no effect"),
        ([files, given, "--h0=1e-24", "--cosi=0"], "--Alpha is missing"),
        ([files, given, *source, "--transientTau=100"], "go with --transientWindowType"),
        ([files, given, *rect[:4], "--transientWindowType=rect"], "--transientStartTime, --transientTau must be given"),
    ):
        assert main(["predict", *line]) == 1
        assert message in capsys.readouterr().err
