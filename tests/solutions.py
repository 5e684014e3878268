"""Timing solutions of isolated pulsars and of binaries in each model, as entries, for the tests of pulsars."""

from jfstat.pulsars.entries import named
from jfstat.pulsars.pulsar import pulsar_of

SOLUTION = {"NAME": "X", "RAJ": "1:2:3", "DECJ": "-4:5:6", "F0": "50", "F1": "-1D-14", "PEPOCH": "55000"}
ORBITS = {
    "BT": {"BINARY": "BT", "A1": "2", "PB": "1.5", "T0": "55000", "ECC": "0.1", "OM": "30"},
    "DD": {"BINARY": "DD", "A1": "2", "PB": "1.5", "T0": "55000", "ECC": "0.1", "OM": "30"},
    "DDH": {"BINARY": "DDH", "A1": "2", "PB": "1.5", "T0": "55000", "ECC": "0.1", "OM": "30"},
    "ELL1": {"BINARY": "ELL1", "A1": "2", "PB": "1.5", "TASC": "55000", "EPS1": "1e-5", "EPS2": "-2e-5"},
    "ELL1H": {"BINARY": "ELL1H", "A1": "2", "PB": "1.5", "TASC": "55000", "EPS1": "1e-5", "EPS2": "-2e-5"},
    "DDK": {"BINARY": "DDK", "A1": "2", "PB": "1.5", "T0": "55000", "ECC": "0.1", "OM": "30", "KIN": "70", "KOM": "40"},
}


def solved(model="", **entries):
    return pulsar_of(named(SOLUTION | ORBITS.get(model, {}) | entries), "x.par")


def written(path, entries, *lines):
    path.write_text(
        "\n".join([*(f"{name} {word}" + " 1 0.1" * word[-1].isdigit() for name, word in entries.items()), *lines])
    )
    return path
