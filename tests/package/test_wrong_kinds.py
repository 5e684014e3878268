"""Values of wrong kinds in the place of every argument: calls work or say in one line which of them is wrong."""

import os
import signal
import warnings
from importlib.util import find_spec

import pytest
from wrong_kinds import arguments_of, sound_calls, wrong_values

NEVER_RIGHT = [
    "text with a line break",
    "text with a null",
    "bytes",
    "dict",
    "set",
    "object",
    "hostile object",
    "class",
    "function",
    "complex",
    "array of text",
    "array of objects",
    "structured array",
    "datetime64",
    "date",
]
"""Values that no argument takes, so that calls end at the door; the others may mean some minutes of compilation."""
LONG = [
    "follow_up",
    "follow_up_stages",
    "fstat_table",
    "inject",
    "line_veto",
    "metric",
    "mismatch",
    "narrow",
    "observation",
    "prepare",
    "refine",
    "search",
]
LONG += ["path_upper_limit", "search_setups", "transient_upper_limit"]
LONG += ["pulsar_posteriors", "amplitude_posterior", "dual_harmonic_posterior"]
LONG += [
    "check_hardware_injections",
    "search_pulsars",
    "search_pulsars in bands",
    "simulate_sfts",
    "template_bank by age",
    "whiten",
]
LONG += ["template_bank by the metric", "refine_files", "follow_up_files", "fstat_table_files", "write_atoms_files"]
"""Calls that take long if the value is one that they can use."""
EXTRAS = {"to_bilby": "bilby"}
"""Calls that need a package that is not installed with jfstat."""
SYNONYMS = {
    "path": ("cannot be", "SFT file", "list of lines", "file of candidates"),
    "pattern": ("SFT file", "no SFT"),
    "paths": ("no .par file", "strain file"),
    "sfts": ("detector", "SFT file", "no SFT"),
    "start": ("GPS", "during the data"),
    "tsft": ("during the data",),
    "end": ("GPS",),
    "height": ("location",),
    "series": ("samples",),
    "motion": ("pmra", "pmdec"),
    "bounded": ("parameters",),
    "guard": ("pulsar",),
    "age": ("narrow the ranges",),
    "harmonic": ("pulsar", "does not hold the signal"),
    "bank": ("table",),
    "points": ("table",),
    "lines": ("table",),
}
"""Words by which messages name an argument, beside its own name, where they say what it led to."""
SECONDS = 200
"""A call that takes longer counts as hung."""


class Hung(BaseException):
    pass


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinds")
    usual = os.getcwd()
    os.chdir(folder)  # what a call that works may write
    yield sound_calls(folder), wrong_values(folder)
    os.chdir(usual)


def problem(function, arguments, name):
    """What is wrong with how a call ends, in words; None if it works or its error is a good one."""
    try:
        function(**arguments)
    except Hung:
        return "hung"
    except (TypeError, ValueError, OSError) as error:
        text = str(error)
        words = (name, name.removesuffix("s"), *SYNONYMS.get(name, ()))
        if "\n" in text:
            return f"several lines: {text!r}"
        if type(error).__module__ != "builtins":
            return f"raw error {error!r}"
        if not any(word in text for word in words):
            return f"does not name the argument: {text!r}"
    except Exception as error:
        return f"raw error {error!r}"
    return None


def tried(table, chosen):
    """Numbers of calls, and what was wrong with some of them."""
    calls, values = table
    count, wrong = 0, []

    def interrupt(*_):
        raise Hung

    usual = signal.signal(signal.SIGALRM, interrupt)
    try:
        for name, (function, arguments) in calls.items():
            assert set(arguments) <= set(arguments_of(function)) or name.startswith("SFTs.joined"), name
            for argument in arguments:
                for kind in chosen(name, values):
                    count += 1
                    signal.alarm(SECONDS)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        found = problem(function, arguments | {argument: values[kind]}, argument)
                    signal.alarm(0)
                    if found:
                        wrong.append(f"{name}({argument}={kind}): {found}")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, usual)
    return count, wrong


@pytest.mark.parametrize(
    "which", [pytest.param("short", marks=pytest.mark.ci), pytest.param("long", marks=pytest.mark.slow)]
)
def test_the_sound_calls_work(table, which):
    """Otherwise the tests below would show nothing."""
    for name, (function, arguments) in table[0].items():
        if (name in LONG) != (which == "long") or (name in EXTRAS and not find_spec(EXTRAS[name])):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(**arguments)


@pytest.mark.ci
def test_wrong_kinds_are_named_in_one_line(table):
    count, wrong = tried(table, lambda name, values: NEVER_RIGHT if name in LONG else values)
    assert count >= 5000
    assert not wrong, "\n".join([f"{len(wrong)} of {count} calls:", *wrong[:500]])


@pytest.mark.ci
def test_no_unit_is_dropped(table):
    """Nothing here is a temperature: a call that takes one would read its number in another unit."""
    calls, values = table
    named = {("Ephemeris", "name"), ("Stages", "numbers")}  # any text; checked with the data
    taken = []
    for name, (function, arguments) in calls.items():
        for argument in sorted(set(arguments)):
            for kind in ("kelvins", "array of kelvins", "list of kelvins"):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        function(**arguments | {argument: values[kind]})
                    except (TypeError, ValueError, OSError):
                        continue
                taken += [] if (name, argument) in named else [f"{name}({argument}={kind})"]
    assert not taken, "\n".join(taken)


@pytest.mark.slow
def test_wrong_kinds_of_calls_that_take_long(table):
    count, wrong = tried(table, lambda name, values: values if name in LONG else ())
    assert count >= 3000
    assert not wrong, "\n".join([f"{len(wrong)} of {count} calls:", *wrong[:500]])
