"""Entries of timing solutions: each is taken, known to leave the phase alone, or refused by its name."""

import dataclasses
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from solutions import ORBITS, SOLUTION, solved, written

import jfstat
from jfstat.pulsars.entries import Entries, named
from jfstat.pulsars.names import IDLE, LEFT_OUT, ORBIT, POSITION, SECOND, usual
from jfstat.pulsars.pulsar import pulsar_of, refuse_contradictions

LEAVE_ALONE = """
PSRB INFO MODE NITS NTOA TRES CHI2R START FINISH TRACK TZRMJD TZRSITE TZRFRQ PHOFF CLK CLOCK T2CMETHOD TIMEEPH
DILATEFREQ CORRECT_TROPOSPHERE PLANET_SHAPIRO JUMP JUMP3 JUMP_2 FD1JUMP FDJUMPDM DM DM1 DMEPOCH DMX DMX_0001
DMXR1_0001 DMXR2_0001 DMXEP_0001 DMXF1_0001 DMWXSIN_0001 CM CM1 CMEPOCH TNCHROMIDX CMX_0001 CMWXFREQ_0001 RM
NE_SW NE_SW1 SOLARN0 SWM SWXDM_0001 SWXR2_0001 FD1 FD4 T2EFAC T2EQUAD EFAC ECORR TNECORR TNEF TNEQ DMEFAC
DMEQUAD RNAMP RNIDX TNREDAMP TNREDGAM TNREDC TNDMAMP TNCHROMGAM WAVEEPOCH WAVE_OM WXEPOCH WXFREQ_0001
EXPDIPEP_1 EXPDIPTAU_1 CHROMGAUSS_EPOCH_1 H0 COSIOTA PSI PHI0 IOTA C21 PHI22 Q22 HPLUS HVECTORX PSISCALAR_F
TRANSIENTTAU ASSOC BSURF SURVEY S1400 EDOTD2 DMDATA DMRES SIMULATE DMMODEL _DM WAVDM1
""".split()  # noqa: SIM905
CHANGE = """
IFUNC1 SIFUNC ORBIFUNC1 QIFUNC_p1 _CM PWF0_1 PWEP_1 BRAKE PMRV DSHK D_AOP PMRA2 PMELONG2 DMASSPLANET5 GWM_AMP
CGW_FREQ GW_OMEGA QUAD1 X2DOT A1DOT2 XDOT2 E2DOT OM2DOT PB2DOT XOMDOT MTOT AFAC BPJEP_1 T0X_0001
XR1_0001 WAVE_SCALE
""".split()  # noqa: SIM905
SAME = [
    ("BT", "XDOT", "A1DOT", "1e-13"),
    ("BT", "ECC", "E", "0.2"),
    ("BT", "EDOT", "ECCDOT", "3e-15"),
    ("DD", "DTH", "DTHETA", "1e-5"),
    ("DDH", "STIG", "STIGMA", "0.4"),
    ("DDH", "STIG", "VARSIGMA", "0.4"),
    ("", "F0", "F", "77.5"),
    ("", "F0", "f0", "77.5"),
    ("", "RAJ", "RA", "5:6:7"),
    ("", "DECJ", "DEC", "5:6:7"),
]


@pytest.mark.parametrize("name", LEAVE_ALONE)
def test_what_leaves_the_phase_alone_changes_nothing(name, tmp_path):
    wanted = solved("DD")
    for line in (f"{name} 1.5", f"{name} -be X 3e-3 1", name, f"{name.lower()} nan\n{name} 2", f"{name} 3 1 0.1"):
        assert jfstat.read_par(written(tmp_path / "x.par", SOLUTION | ORBITS["DD"], line)) == wanted


@given(st.from_regex(r"[A-Z][A-Z0-9_]{1,9}", fullmatch=True), st.sampled_from(["", "DD", "ELL1"]))
@settings(deadline=None, max_examples=200)
def test_unknown_names_are_refused(name, model):
    if any(known.fullmatch(usual(name)) for known in (IDLE, LEFT_OUT, ORBIT, POSITION, SECOND)) or usual(name)[:2] in (
        *("GL", "WA", "WX", "EX", "CH"),
        *(f"F{digit}" for digit in range(10)),
    ):
        return
    if (
        name in ("PX", "DIST", "EPHEM", "UNITS", "EPHVER", "PEPOCH", "POSEPOCH", "P0", "P1", *SOLUTION)
        or usual(name) != name
    ):
        return
    for word in ("0", "1.5", "text"):
        with pytest.raises(ValueError, match=f"^x.par: {name} is unknown: correct its name, or remove it if"):
            solved(model, **{name: word})


@pytest.mark.parametrize("name", CHANGE)
def test_what_changes_the_phase_otherwise_is_refused_unless_it_is_zero(name):
    assert solved("DD", **{name: "0.0"}) == solved("DD")
    with pytest.raises(ValueError, match=f"^x.par: {usual(name)} is not understood: give a solution without it"):
        solved("DD", **{name: "2.5e-3"})


@pytest.mark.parametrize(
    ("model", "name", "word"),
    [
        ("ELL1", "OMDOT", "0.1"),
        ("ELL1", "GAMMA", "1e-4"),
        ("ELL1", "EDOT", "1e-15"),
        ("ELL1", "T0", "55000"),
        ("ELL1", "DR", "1e-6"),
        ("BT", "M2", "0.3"),
        ("BT", "SINI", "0.9"),
        ("BT", "EPS1", "0.1"),
        ("BT", "KIN", "70"),
        ("DD", "TASC", "55000"),
        ("DD", "EPS1DOT", "1e-15"),
        ("DD", "KOM", "10"),
        ("DD", "K96", "1"),
    ],
)
def test_what_a_model_of_the_orbit_does_not_have_is_refused(model, name, word):
    with pytest.raises(ValueError, match=f"^x.par: {name} has no place in the orbit, of the model {model}"):
        solved(model, **{name: word})


@pytest.mark.parametrize("name", ["PB", "ECC", "T0", "BINARY2", "M2", "SINI", "FB0", "ORBWAVEC0", "PBDOT", "H3"])
def test_an_orbit_without_size_is_refused(name):
    with pytest.raises(ValueError, match=rf"^x.par: {name} is (of a binary, which needs A1|not understood)"):
        solved(**{name: "0.5" if name != "T0" else "55000"})


@pytest.mark.parametrize("name", ["A1_2", "PB_2", "E_2", "T0_2", "OM_3", "XDOT_2"])
def test_a_second_companion_is_refused(name):
    for model in ("BT", ""):
        with pytest.raises(ValueError, match=f"^x.par: {name} is of a second companion"):
            solved(model, **{name: "1"})


@pytest.mark.parametrize(("model", "name", "other", "word"), SAME)
def test_names_of_peers_for_the_same_parameter(model, name, other, word, tmp_path):
    entries = SOLUTION | ORBITS.get(model, {}) | ({"H3": "2e-7"} if model == "DDH" else {})
    plain = pulsar_of(named(entries | {name: word}), "x.par")
    entries.pop(name, None)
    assert jfstat.read_par(written(tmp_path / "x.par", entries, f"{other} {word}")) == plain
    assert plain != solved(model, **({"H3": "2e-7", "STIG": "0.5"} if model == "DDH" else {}))
    # both spellings: once with the same word, once with another
    assert jfstat.read_par(written(tmp_path / "x.par", entries, f"{other} {word}", f"{name} {word}")) == plain
    line = len(entries) + 2
    another = "5:6:8" if ":" in word else "0.31"
    with pytest.raises(
        ValueError, match=f"x.par: line {line}: {other} is '{another}', but '{word}' in line {line - 1}"
    ):
        jfstat.read_par(written(tmp_path / "x.par", entries, f"{name} {word}", f"{other} {another}"))


@given(st.floats(1e-3, 5), st.floats(1e-20, 1e-12))
@settings(deadline=None, max_examples=20)
def test_periods_are_frequencies(period, rate):
    entries = {name: word for name, word in SOLUTION.items() if name not in ("F0", "F1")}
    first, other = (pulsar_of(named(entries | {"P": repr(period), name: repr(rate)}), "x") for name in ("P1", "PDOT"))
    assert first == other
    assert first.spins == pytest.approx((1 / period, -rate / period**2), rel=1e-12)


@given(st.floats(1e-3, 5), st.floats(1e-20, 1e-12), st.integers(3, 9), st.integers(2, 9))
@settings(deadline=None, max_examples=50)
def test_periods_and_frequencies_agree_to_the_digits_that_are_written(period, rate, digits, fewer):
    entries = {name: word for name, word in SOLUTION.items() if name not in ("F0", "F1")}
    both = {"F0": f"{1 / period:.17e}", "F1": f"{-rate / period**2:.17e}"}
    both |= {"P0": f"{period:.{digits}e}", "P1": f"{rate:.{fewer}e}"}
    own = Entries(named(entries | both))
    refuse_contradictions(own, "x")
    assert pulsar_of(own, "x").spins == pytest.approx((1 / period, -rate / period**2), rel=1e-15)
    for order, places in enumerate((digits, fewer)):
        for name in (f"P{order}", f"F{order}"):
            wrong = f"{float(both[name]) * (1 + 3 * 10.0**-places):.17e}"
            with pytest.raises(ValueError, match=f"^x: P{order} contradicts F{order}, of which it must be"):
                refuse_contradictions(Entries(named(entries | both | {name: wrong})), "x")


@pytest.mark.parametrize("entries", [{"P0": "0.0201"}, {"P1": "5e-19"}, {"F1": "0", "P1": "1e-13"}, {"P1": "0"}])
def test_files_with_a_period_that_contradicts_the_frequency_are_refused(tmp_path, entries):
    path = tmp_path / "a.par"
    path.write_text("".join(f"{name} {word}\n" for name, word in (SOLUTION | entries).items()))
    with pytest.raises(ValueError, match=r"a\.par: P\d contradicts F\d, of which it must be"):
        jfstat.read_par(path)


def test_digits_of_the_frequency_count_for_its_derivative():
    """F0 and P0 agree within their digits; P1 F0^2 differs from F1 by what those of F0 leave open."""
    entries = {"F0": "29.95", "P0": "0.0333924123", "F1": "-3.77535E-10", "P1": "4.20972E-13"}
    refuse_contradictions(Entries(named(SOLUTION | entries)), "x")


def test_signals_that_end_are_refused(tmp_path):
    lines = "".join(f"{name} {word}\n" for name, word in SOLUTION.items())
    (tmp_path / "a.par").write_text(f"{lines}TRANSIENTWINDOWTYPE NONE\nTRANSIENTTAU 0\n")
    assert jfstat.read_par(tmp_path / "a.par").spins[0] == 50.0
    with pytest.raises(ValueError, match="TRANSIENTWINDOWTYPE is 'RECT', of a signal that is there for a part"):
        pulsar_of(named(SOLUTION | {"TRANSIENTWINDOWTYPE": "RECT", "TRANSIENTTAU": "86400"}), "x")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["F1 -1e-15", "F1 -2e-15"], r"line 6: F1 is '-2e-15', but '-1e-15' in line 5: leave one of them out"),
        (
            ["F1 -1e-15 1 1e-18", "F1 -1e-15 1 1e-20"],
            "line 6: F1 has another error, unlike in line 5: leave one of them out",
        ),
        (["F1"], r"line 5: F1 has no value: give one, or remove the line"),
        (["F1 nan"], r"line 5: F1 has no value"),
        (["F1 *"], r"line 5: F1 has no value"),
        (["WAVE1 0.1"], r"line 5: WAVE1 has no value"),
        (["F1 -1e -15 1"], r"line 5: F1 is followed by '-15 1': after a number only the fit's flag, an error and"),
        (["F1 -1.1 5e-15 1 1e-20"], r"line 5: F1 is followed by '5e-15 1 1e-20'"),
        (["F1 -1e-15 PX 3.5"], r"line 5: F1 is followed by 'PX 3.5'"),
        (["F1 -1e-15 1 1e-20 PX 3.5"], r"line 5: F1 is followed by"),
        (["DM 20.1 1 0.1 PX 3.5"], r"line 5: DM is followed by"),
        (["RAJ 12 34 56.7"], r"line 5: RAJ is followed by '34 56.7'"),
        (["NTOA 350PX 3.5"], r"line 5: NTOA is '350PX': give a number, or remove the line"),
        (["EPHEM DE405PX 3.5"], r"line 5: EPHEM is followed by '3.5': .* after a word nothing"),
        (["PSRJ J1234UNITS TCB"], r"line 5: PSRJ is followed by 'TCB'"),
        (["CLK TT(TAI)PX 1"], r"line 5: CLK is followed by '1'"),
        (["PLANET_SHAPIRO NPX 1"], r"line 5: PLANET_SHAPIRO is followed by '1'"),
        (["QUAD1 0 0 1e-3 0"], r"QUAD1 is not understood"),
        (["IFUNC3 0.0 1e-3 0"], r"IFUNC3 is not understood"),
        (["F1 -1e\x0c-15"], r"line 5: it has characters that are no text"),
        (["F1 -1_0e-15"], r"F1 is '-1_0e-15': give a number"),
        (["F1 -١e-15"], r"F1 is '-١e-15': give a number"),
        (["F1 1e400"], r"F1 is '1e400': give a number from -1 to 1"),
        (["PX " + "9" * 400], r"PX is '9{36} \.\.\.': give a number from"),
        (["POSEPOCH " + "9" * 400], r"POSEPOCH is '9{36} \.\.\.': give an MJD"),
        (["POSEPOCH 2455000.5"], r"POSEPOCH is '2455000.5': give an MJD"),
        (["POSEPOCH 1e999999999999999999999"], r"POSEPOCH is '1e9+': give an MJD"),
        (["POSEPOCH -5"], r"POSEPOCH is '-5': give an MJD"),
        (["F" + "1" * 5000 + " 1"], r"F1{35} \.\.\. is unknown"),
        (["F01 -1e-15"], r"F01 is unknown"),
        (["EPHVER 3"], r"EPHVER is '3': give 2 for TDB or 5 for TCB"),
        (["UNITS TDB", "UNITS TCB"], r"line 6: UNITS is 'TCB', but 'TDB' in line 5"),
        (["PDOT 1e-12", "F1 -1e-15"], r"PDOT contradicts F1, of which it must be"),
        (["a1dot nan", "F1 -1e-15"], r"line 5: a1dot has no value"),
        (["PMLAMBDA 1e9"], r"PMLAMBDA is of a second position"),
        (["lambda 3"], r"lambda is of a second position"),
        (["GLF0_007 1e-7"], r"GLEP_7 is missing: give the epoch of the glitch of GLF0_007"),
        (["VARSIGMA -0.2"], r"VARSIGMA is '-0.2': give a number from 0 to 1"),
        (["ELONG 3"], r"ELONG is of a second position or motion"),
        (["PMELAT 3"], r"PMELAT is of a second position or motion"),
    ],
)
def test_what_is_wrong_with_a_line_is_said_in_a_sentence(lines, message, tmp_path):
    entries = {name: SOLUTION[name] for name in ("RAJ", "DECJ", "F0", "PEPOCH")}
    with pytest.raises(ValueError, match=rf"^[^\n]*x\.par: {message}[^\n]*\.$"):
        jfstat.read_par(written(tmp_path / "x.par", entries, *lines))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"ELONG": "3"}, "ELAT is missing: a position has ELAT beside ELONG"),
        ({"ELAT": "3"}, "ELONG is missing: a position has ELONG beside ELAT"),
        ({"BETA": "3"}, "ELONG is missing"),
        ({"LAMBDA": "3", "RAJ": "1:2:3"}, "DECJ is missing|ELAT is missing"),
        ({"DECJ": "1:2:3"}, "RAJ is missing: a position has RAJ beside DECJ"),
        ({"RAJD": "3"}, "DECJD is missing"),
        ({}, "RAJ and DECJ are missing"),
        ({"RAJ": "25:00:00", "DECJ": "1:2:3"}, "RAJ is '25:00:00': hours must be from 0 to 24"),
        ({"RAJ": "-1:00:00", "DECJ": "1:2:3"}, "RAJ is '-1:00:00': hours must"),
        ({"RAJ": "12", "DECJ": "1:2:3"}, "RAJ is '12': write hours:minutes:seconds"),
        ({"RAJ": "12:61:00", "DECJ": "1:2:3"}, "RAJ is '12:61:00': minutes and seconds must be below 60"),
        ({"ELONG": "3", "ELAT": "91"}, r"ELAT is '91': give a number from -90 to 90 \(degrees\)"),
    ],
)
def test_positions_that_are_none(entries, message):
    with pytest.raises(ValueError, match=f"^x.par: ({message})"):
        pulsar_of(named({"NAME": "X", "F0": "50", "PEPOCH": "55000"} | entries), "x.par")


def test_units_without_units():
    assert solved(EPHVER="TEMPO2").spins == solved(EPHVER="5").spins == solved(UNITS="SI").spins != solved().spins
    assert solved(EPHVER="TEMPO1") == solved(EPHVER="2") == solved(UNITS="TDB") == solved()
    assert solved(EPHVER="5", UNITS="TDB") == solved()


def test_tcb_changes_every_time_and_frequency():
    # all times grow with K, so that the same epochs and times in TDB give the same pulsar
    rate = 1.55051979176e-8
    for model, name, word, power in (
        ("ELL1", "ORBWAVE_OM", "1e-7", -1),
        ("BT", "GAMMA", "1e-3", 1),
        ("DD", "A0", "1e-4", 1),
        ("DDH", "H3", "1e-6", 1),
    ):
        extra = {name: word}
        if name == "ORBWAVE_OM":
            extra |= {"ORBWAVE_EPOCH": "55000", "ORBWAVEC0": "0.1", "ORBWAVES0": "0.1"}
        if name == "H3":
            extra["STIG"] = "0.5"
        tdb, tcb = (solved(model, UNITS=units, **extra).binary for units in ("TDB", "TCB"))
        values = {
            "ORBWAVE_OM": lambda binary: binary.waves.rate,
            "GAMMA": lambda binary: binary.gamma,
            "A0": lambda binary: binary.aberration[0],
            "H3": lambda binary: binary.shapiro[0],
        }
        ratio = values[name](tcb) / values[name](tdb)
        assert ratio == pytest.approx((1 + rate) ** -power, rel=1e-12)


@pytest.mark.parametrize(
    "rest", ["", "1", "0.1", "1 0.1", "0 1D-3", "0.1 mhth05", "1 0.1 mhth05", "ref", "1 # a note 3 4"]
)
def test_after_a_value_come_the_fits_flag_an_error_and_a_reference(rest, tmp_path):
    path = tmp_path / "x.par"
    lines = [f"{name} {word} {rest if name != 'NAME' else ''}\n" for name, word in SOLUTION.items()]
    path.write_text("".join(lines) + "PLANET_SHAPIRO N 0\nTZRSITE ao # of 1\nDMX_0001 0.1 1 0.2\n")
    assert jfstat.read_par(path) == solved()


def test_byte_order_marks_are_no_part_of_a_name(tmp_path):
    text = "".join(f"{name} {word}\n" for name, word in SOLUTION.items())
    (tmp_path / "x.par").write_text(text, encoding="utf-8-sig")
    assert jfstat.read_par(tmp_path / "x.par") == solved()


def test_events_and_waves_are_counted():
    for entries, seconds in (
        ({"WAVE1": "3e-3 4e-3", "WAVE_OM": "0.01", "WAVEEPOCH": "55000"}, 5e-3),
        ({"WAVE_SIN1": "3e-3", "WAVE_COS1": "-4e-3"}, 7e-3),
        ({"WXSIN_0001": "3e-3", "WXCOS_0001": "-4e-3", "WXFREQ_0001": "0.1"}, 7e-3),
        ({"EXPDIPAMP_1": "-3e-3", "EXPDIPEP_1": "55000", "EXPDIPTAU_1": "10"}, 3e-3),
        ({"EXPPH_1": "-3e-3", "EXPEP_1": "55000"}, 3e-3),
        ({"GAUSAMP_1": "-3e-3", "GAUSEP_1": "55000"}, 3e-3),
        ({"CHROMGAUSS_LOGAMP_1": "-3"}, 1e-3),
    ):
        pulsar = solved(**entries)
        assert pulsar.phase_error(1e9, 1e9 + 1e6) == {"waves": pytest.approx(100 * seconds)}


def test_columns_of_catalogues_may_be_of_any_kind(tmp_path):
    plain, full = tmp_path / "plain.csv", tmp_path / "full.csv"
    row = {name: word for name, word in (SOLUTION | ORBITS["ELL1"]).items() if name != "PB"} | {"FB0": "7.7e-6"}
    plain.write_text(",".join(row) + "\n" + ",".join(row.values()))
    # derived, and rounded
    more = row | {"ELONG": "20", "ELAT": "3", "P0": "0.021", "P1": "4e-18", "ECC": "3e-5", "OM": "153", "PB": "1.503"}
    more |= {"PBDOT": "3.0", "MINMASS": "0.3", "T0": "55000.3"}
    full.write_text(",".join(more) + "\n" + ",".join(more.values()))
    assert jfstat.read_pulsars(full) == jfstat.read_pulsars(plain)
    for more, message in (
        ({"FOO": "3"}, "has a column 'FOO', which is not known"),
        ({"OMDOT": "0.3"}, r"1 of 1 pulsars .* OMDOT has no place in the orbit, of the model ELL1"),
    ):
        full.write_text(",".join(row | more) + "\n" + ",".join((row | more).values()))
        with pytest.raises(ValueError, match=message):
            jfstat.read_pulsars(full)


def test_random_subsets_of_all_entries_are_taken_or_refused(tmp_path):
    """Whatever is added to a solution, it is read as before only if the entry is one that leaves the phase alone."""
    rng = np.random.default_rng(3)
    names = [
        *LEAVE_ALONE,
        *CHANGE,
        "OMDOT",
        "XDOT",
        "PBDOT",
        "GAMMA",
        "F2",
        "PX",
        "PMRA",
        "A0",
        "DR",
        "M2",
        "EDOT",
        "WXSIN_1",
    ]
    wanted = solved("DD")
    for _ in range(200):
        chosen = rng.choice(names, 3, replace=False)
        path = written(tmp_path / "x.par", SOLUTION | ORBITS["DD"], *(f"{name} 1e-6" for name in chosen))
        moved = [name for name in chosen if name not in LEAVE_ALONE]
        refused = [name for name in chosen if name in CHANGE]
        if refused:
            with pytest.raises(ValueError, match="is not understood"):
                jfstat.read_par(path)
            continue
        pulsar = jfstat.read_par(path)
        changed = [
            field.name
            for field in dataclasses.fields(pulsar)
            if field.compare and getattr(pulsar, field.name) != getattr(wanted, field.name)
        ]
        assert bool(changed) == bool(moved)


@given(
    alpha=st.floats(0, 6.28),
    delta=st.floats(-1.55, 1.55),
    f0=st.floats(0.1, 1000),
    f1=st.floats(-1e-8, 1e-8),
    reftime=st.integers(600_000_000, 1_600_000_000),
    orbit=st.none() | st.tuples(st.floats(0, 100), st.floats(0.2, 300), st.floats(0, 0.9), st.floats(0, 6.28)),
)
@settings(deadline=None, max_examples=60)
def test_templates_go_to_par_files_and_back(alpha, delta, f0, f1, reftime, orbit):
    from astropy.coordinates import Angle

    def mjd(gps):
        return str(44244 + (Decimal(gps) + Decimal("51.184")) / 86400)

    entries = {
        "PSR": "J0000+0000",
        "RAJ": Angle(alpha, unit="rad").to_string(unit="hourangle", sep=":", precision=12, pad=True),
        "DECJ": Angle(delta, unit="rad").to_string(unit="deg", sep=":", precision=11, pad=True),
        "F0": repr(f0 / 2),
        "F1": repr(f1 / 2).replace("e", "D"),
        "PEPOCH": mjd(reftime),
    }
    if orbit is not None:
        asini, days, ecc, argp = orbit
        if not 2 * np.pi * asini / (days * 86400) < 0.4 * (1 - ecc):
            return
        entries |= {"BINARY": "DD", "A1": repr(asini), "PB": repr(days), "T0": mjd(reftime + 1000), "ECC": repr(ecc)}
        entries |= {"OM": repr(float(np.degrees(argp)))}
    point = pulsar_of(named(entries), "x.par").doppler(reftime, reftime + 1e6)
    assert (int(point.reftime.seconds), int(point.reftime.nanoseconds)) == (reftime, 0)
    assert np.asarray(point.fkdot) == pytest.approx(np.array([f0, f1]), rel=1e-15, abs=1e-300)
    assert (float(point.alpha), float(point.delta)) == pytest.approx((alpha, delta), abs=1e-14)
    if orbit is None:
        assert point.orbit is None
        return
    assert float(point.orbit.asini) == asini
    assert float(point.orbit.period) == pytest.approx(days * 86400, rel=1e-15)
    assert (float(point.orbit.ecc), float(point.orbit.argp)) == pytest.approx((ecc, argp), abs=1e-12)
    turns = (float(point.orbit.tp) - reftime - 1000) / (days * 86400)
    assert turns == pytest.approx(round(turns), abs=1e-9)


@pytest.mark.parametrize(
    "lines",
    [["ECL IERS2010"], ["PMELONG 0", "PMELAT 0.0"], ["BINARY DD kbm+03"], ["EPHEM DE405 dth78"]],
)
def test_what_says_nothing_beside_a_position_and_references_are_taken(lines, tmp_path):
    text = "".join(
        f"{name} {word}\n" for name, word in (SOLUTION | ORBITS["DD"]).items() if name not in ("BINARY", "EPHEM")
    )
    usual = [x for x in ("BINARY DD", "EPHEM DE405") if x.split()[0] not in {y.split()[0] for y in lines}]
    path = tmp_path / "x.par"
    path.write_text(text + "\n".join(["BINARY DD", "EPHEM DE405", ""]))
    plain = jfstat.read_par(path)
    path.write_text(text + "\n".join([*usual, *lines, ""]))
    assert jfstat.read_par(path) == plain
