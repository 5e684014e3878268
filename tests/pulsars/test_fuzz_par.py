"""Damaged .par files: a sentence, or the reading that the damaged words themselves give.

How it is judged. A second reader, a few lines below, takes the damaged text apart into names and words. If `read_par`
accepts the file, then

- each line that is no comment is of an entry that leaves the phase alone, or one of the timing;
- the pulsar is that of a clean file with these entries and words, so nothing else of the damaged text counts;
- what belongs to entries that are undamaged is equal to the undamaged reading, exactly;
- each entry of the timing whose number is another one, that is new or that is lost, makes another pulsar, unless the
  entry says what holds without it: no damaged entry is without effect;
- an entry that is lost is nowhere in the damaged text, with its word after it: no line has swallowed it.

An error must be one sentence that begins with the file's name; nothing but a ValueError is one.
"""

import re
import warnings
from decimal import Decimal, InvalidOperation
from pathlib import Path

import numpy as np
import pytest
from fuzz import mutate
from solutions import ORBITS, SOLUTION

import jfstat
from jfstat.files import text_of
from jfstat.pulsars.names import IDLE, TEXTS, limits, usual

FILES = sorted(Path(__file__).parent.glob("*.par"))
RICH = {
    "glitches": {"GLEP_1": "55050", "GLPH_1": "0.1", "GLF0_1": "1e-6", "GLF1_1": "-1e-15", "GLEP_2": "56000.25"}
    | {
        "GLF0_2": "2e-6",
        "GLF0D_2": "1e-7",
        "GLTD_2": "40",
        "WAVE_OM": "0.01",
        "WAVEEPOCH": "55000",
        "DM": "20.5 1 0.1",
    },
    "waves": ORBITS["ELL1"]
    | {"ORBWAVE_OM": "3.5e-8", "ORBWAVE_EPOCH": "55000", "ORBWAVEC0": "0.01", "ORBWAVES0": "-0.1"},
    "kopeikin": ORBITS["DDK"]
    | {"PMRA": "12.5", "PMDEC": "-60.1", "PX": "3.5", "M2": "0.28", "K96": "1", "UNITS": "TCB"},
    "harmonics": ORBITS["ELL1H"]
    | {"H3": "2.5e-7", "H4": "1.5e-7", "NTOA": "350", "EPS1DOT": "1e-17", "PBDOT": "2e-12"},
    "deformed": ORBITS["DD"]
    | {"A0": "1e-5", "B0": "2e-5", "DR": "1e-6", "DTH": "2e-6", "GAMMA": "1e-4", "XDOT": "1e-14"},
    "frequencies": {k: v for k, v in ORBITS["BT"].items() if k != "PB"}
    | {"FB0": "7.7e-6", "FB1": "1e-20", "F2": "1e-25"},
}
TAIL = {"NTOA": "350", "POSEPOCH": "55321.5", "TZRSITE": "ao", "PX": "1.5", "DM": "20.5 1 0.1", "F2": "1.5e-25"}
WITHOUT = {"POSEPOCH", "UNITS", "EPHVER", "ECL", "K96", "BINARY", "NHARMS"}
"""Entries that may say what holds without them, or what other entries say too."""
TRIALS = 5000


def taken_apart(text):
    """Names, and the words after them, of the lines that are no comments; only the words that count."""
    found = {}
    for line in re.split(r"\r\n|\r|\n", text.removeprefix("\ufeff")):
        words = line.split(" ") if "\t" not in line else line.replace("\t", " ").split(" ")
        words = [word for word in words if word]
        if words and words[0] not in ("C", "c") and not words[0].startswith(("#", "%")):
            found.setdefault(usual(words[0]), words[1] if len(words) > 1 else "")
    return found


def same_number(first, second):
    try:
        numbers = [Decimal(re.sub("[dD]", "e", word)) for word in (first, second)]
    except InvalidOperation:
        return first.upper() == second.upper()
    return float(numbers[0]) == float(numbers[1])


def reading(path, content):
    path.write_bytes(content)
    return jfstat.read_par(path)


def clean(entries):
    return "".join(f"{name} {word}\n" for name, word in entries.items()).encode()


def belongs(attribute, name):
    """Whether an attribute of a pulsar may depend on an entry."""
    pattern = {
        "name": "NAME",
        "spins": r"F\d+|P0|P1|UNITS|EPHVER",
        "epoch": "PEPOCH|POSEPOCH|UNITS|EPHVER",
        "position_epoch": "PEPOCH|POSEPOCH|UNITS|EPHVER",
        "alpha": "RAJ|DECJ|ELONG|ELAT|ECL",
        "delta": "RAJ|DECJ|ELONG|ELAT|ECL",
        "motion": "RAJ|DECJ|ELONG|ELAT|ECL|PM.*|UNITS|EPHVER",
        "parallax": "PX|DIST",
        "glitches": "GL.*|UNITS|EPHVER",
        "waves": "WAVE.*|WX.*|EXP.*|CHROM.*|UNITS|EPHVER",
        "ephemeris": "EPHEM",
        "binary": "BINARY|PB|FB.*|A1|T0|TASC|ECC|OM|EPS.*|.*DOT|GAMMA|M2|SINI|SHAPMAX|H3|H4|STIG|NHARMS|KIN|KOM|K96|"
        "A0|B0|DR|DTH|ORBWAVE.*|PM.*|UNITS|EPHVER",
    }[attribute]
    return re.fullmatch(pattern, name) is not None


def judge(path, base, damaged):
    """Return None for a refused file, or "" for one that is read rightly, or what is wrong."""
    undamaged = reading(path, base)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            pulsar = reading(path, damaged)
            pulsar.doppler(1238166018, 1238166018 + 86400)
            pulsar.phase_error(1238166018, 1238166018 + 86400)
    except ValueError as error:
        said = str(error)
        whole = type(error) is ValueError and "\n" not in said and said.endswith(".") and len(said) < 500
        return None if whole else f"{type(error).__name__}: {said}"
    except Exception as error:  # raw errors are what is looked for
        return f"{type(error).__name__}: {error}"
    text = text_of(path)
    before, after = taken_apart(base.decode()), taken_apart(text)
    rest = {name: word for name, word in after.items() if not IDLE.fullmatch(name)} | {"NAME": after.get("NAME", "")}
    if pulsar != reading(path, clean({name: word for name, word in rest.items() if word})):
        return "other than its words say"
    changed = [name for name in {*before, *after} if before.get(name) != after.get(name)]
    for attribute in ("name", "spins", "epoch", "alpha", "delta", "motion", "parallax", "binary", "glitches", "waves"):
        differs = getattr(pulsar, attribute) != getattr(undamaged, attribute)
        if differs and not any(belongs(attribute, name) for name in changed):
            return f"{attribute} differs though its entries do not"
    for name in changed:
        if IDLE.fullmatch(name):
            continue
        old, new = before.get(name), after.get(name)
        if None in (old, new) and re.fullmatch(r"[-+]?[0.]+([eEdD].*)?", new or old or "0"):
            continue  # a zero says that an effect is absent
        if old is not None and new is not None and same_number(old, new):
            continue
        if name in WITHOUT:
            continue
        if new is None and re.search(rf"(?m)(?<=.){name}\s+{re.escape(old)}", text, re.IGNORECASE):
            lines = [line for line in text.splitlines() if old in line and name in line.upper()]
            if not any(line.lstrip().startswith(("#", "%", "C ", "c ")) for line in lines):
                return f"{name} is swallowed"
        other = {k: v for k, v in after.items() if k != name} | ({name: old} if old is not None else {})
        try:
            if pulsar == reading(path, clean({k: v for k, v in other.items() if v and not (IDLE.fullmatch(k))})):
                return f"{name} {new} is without effect"
        except ValueError:
            pass
    return ""


def bases():
    # lines of the timing after such as leave the phase alone
    rich = [clean(SOLUTION | {"EPHEM": "DE405", "CLK": "TT(TAI)"} | entries | TAIL) for entries in RICH.values()]
    return [path.read_bytes() for path in FILES] + rich


def tried(folder, trials):
    found = {"refused": 0, "read": 0}
    for trial in trials:
        rng = np.random.default_rng([45, trial])
        base = bases()[trial % len(bases())]
        damaged = mutate(rng, base)
        verdict = judge(folder / "x.par", base, damaged)
        assert not verdict, f"trial {trial}: {verdict}\n{damaged!r}"
        found["refused" if verdict is None else "read"] += 1
    return found


def test_some_damaged_files(tmp_path):
    found = tried(tmp_path, range(104))
    assert found["refused"] > 20
    assert found["read"] > 20


def test_extreme_numbers_are_computed_or_refused(tmp_path):
    rng = np.random.default_rng(45)
    computed = 0
    for _ in range(60):
        entries = SOLUTION | list(RICH.values())[rng.integers(len(RICH))]
        name = rng.choice([name for name in entries if not TEXTS.fullmatch(name) and not IDLE.fullmatch(name)])
        low, high, _ = limits(name)
        value = rng.choice([low, high, low + 1e-6 * (high - low), 1e-300, -1e-300, 1e-12, 1e300, 0.0])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                pulsar = reading(tmp_path / "x.par", clean(entries | {name: repr(float(value))}))
                point = pulsar.doppler(1238166018, 1269702018)
            except ValueError as error:
                assert re.fullmatch(r"[^\n]{20,300}\.", str(error)), str(error)
                continue
            said = pulsar.phase_error(1238166018, 1269702018)
        assert np.all(np.isfinite([*np.asarray(point.fkdot), *said.values()])), (entries, name, value)
        computed += 1
    assert computed > 10


@pytest.mark.slow
def test_many_damaged_files(tmp_path):
    found = tried(tmp_path, range(TRIALS))
    assert found["refused"] > TRIALS / 5
    assert found["read"] > TRIALS / 5
