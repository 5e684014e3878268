"""Writes catalogues of random pulsars as psrcat, the ATNF's page, and table programs do."""

import csv
import io

COLUMNS = ["NAME", "PSRJ", "RAJ", "DECJ", "PMRA", "PMDEC", "POSEPOCH", "F0", "F1", "PEPOCH", "DM"]
COLUMNS += ["BINARY", "PB", "A1", "T0", "ECC", "OM", "DIST", "EDOT"]
UNITS = dict(RAJ="hms", DECJ="dms", PMRA="mas/yr", PMDEC="mas/yr", POSEPOCH="MJD", F0="Hz", F1="s^-2", PEPOCH="MJD")
UNITS |= dict(DM="cm^-3 pc", PB="days", A1="s", T0="MJD", OM="deg", DIST="kpc", EDOT="ergs/s")
WITH_REFERENCE = {"NAME", "PSRJ", "POSEPOCH", "PEPOCH", "BINARY"}
WITH_ERROR = {"RAJ", "DECJ", "PMRA", "PMDEC", "F0", "F1", "DM", "PB", "A1", "T0", "ECC", "OM"}
"""Columns that psrcat's long tables follow with a reference, or with an error and a reference."""


def pulsars(rng, n=4):
    """Rows of words by column, every second pulsar in a binary; missing values are ``*``."""
    rows = []
    for i in range(n):
        hour, minute, degree = int(rng.integers(24)), int(rng.integers(60)), int(rng.integers(-89, 90))
        row = dict.fromkeys(COLUMNS, "*")
        row["PSRJ"] = f"J{hour:02}{minute:02}{degree:+03}{int(rng.integers(60)):02}"
        row["NAME"] = f"B{hour:02}{minute:02}{degree:+03}{'ABCDEFGH'[i]}" if i % 3 else row["PSRJ"]
        row["RAJ"] = f"{hour:02}:{minute:02}:{rng.uniform(10, 59):.6f}"
        row["DECJ"] = f"{degree:+03}:{int(rng.integers(10, 60))}:{rng.uniform(10, 59):.5f}"
        row |= {"F0": f"{rng.uniform(1, 700):.13f}", "F1": f"{-(10 ** rng.uniform(-16, -10)):.6E}"}
        row |= {"PEPOCH": f"{rng.uniform(50000, 59000):.6f}", "EDOT": f"{10 ** rng.uniform(30, 38):.1E}"}
        row |= {"DM": f"{rng.uniform(1, 900):.3f}", "DIST": f"{rng.uniform(0.1, 10):.2f}"}
        if i % 2:
            row |= {"BINARY": "BT", "PB": f"{rng.uniform(0.1, 90):.9f}", "A1": f"{rng.uniform(0.1, 30):.7f}"}
            row |= {"T0": f"{rng.uniform(50000, 59000):.7f}", "ECC": f"{rng.uniform(0, 0.9):.5f}"}
            row |= {"OM": f"{rng.uniform(0, 360):.4f}", "PMRA": f"{rng.normal():.3f}", "PMDEC": f"{rng.normal():.3f}"}
            row |= {"POSEPOCH": f"{rng.uniform(50000, 59000):.1f}"}
        rows.append(row)
    return rows


def plain(rows, separator=",", missing="", columns=COLUMNS, index=False):
    """Names and values, quoted where they must be: what table programs write."""
    file = io.StringIO()
    writer = csv.writer(file, delimiter=separator, lineterminator="\n")
    writer.writerow(([""] if index else []) + [str(name) for name in columns])
    for i, row in enumerate(rows):
        cells = [missing if row[name] == "*" else row[name] for name in columns]
        writer.writerow(([i] if index else []) + cells)
    return file.getvalue()


def short_csv(rows):
    """psrcat -o short_csv."""
    lines = ["#;" + ";".join(COLUMNS) + ";", ";" + ";".join(_unit(name) for name in COLUMNS) + ";"]
    lines += [f"{i};" + ";".join(row[name] for name in COLUMNS) + ";" for i, row in enumerate(rows, 1)]
    return "\n".join(lines) + "\n"


def long_csv(rows):
    """psrcat -o long_csv and the page's "Long csv with errors": columns of errors and references have no names."""
    lines = ["#", ""] + [f"{i}" for i in range(1, len(rows) + 1)]
    for name in COLUMNS:
        more = 2 if name in WITH_ERROR else 1 if name in WITH_REFERENCE else 0
        lines[0] += f";{name}" + ";" * more
        lines[1] += f";{_unit(name)}" + ";" * more
        for i, row in enumerate(rows, 2):
            lines[i] += ";" + ";".join([row[name], *["2.0e-12", "mhth05"][2 - more :]])
    return "\n".join(line + ";" for line in lines) + "\n"


def page(rows):
    """The page around that table, with references as links."""
    table = long_csv(rows).replace("mhth05", '<a href="refs.html#mhth05">mhth05</a>')
    return f"<!DOCTYPE html>\n<html><head><title>ATNF</title></head><body>\n<pre>{table}</pre></body></html>\n"


def printed(rows, long=True):
    """psrcat -o long, or -o short: columns of fixed widths, in groups of five rows between rules."""
    widths = {name: 3 + max(len(name), len(_unit(name)), *(len(row[name]) for row in rows)) for name in COLUMNS}
    header, units, lines = "#     ", "      ", [f"{i:<6}" for i in range(1, len(rows) + 1)]
    for name in COLUMNS:
        more = 18 if long and name in WITH_ERROR else 10 if long and name in WITH_REFERENCE else 0
        header += name.ljust(widths[name] + more)
        units += _unit(name).ljust(widths[name] + more)
        for i, row in enumerate(rows):
            after = f"{'12':>6}  {'mhth05':<10}" if more == 18 else f"{'mhth05':<10}" if more else ""
            lines[i] += row[name].ljust(widths[name]) + after
    rule = "-" * len(header)
    grouped = [line + ("\n" if i % 5 == 4 else "") for i, line in enumerate(lines)]
    return "\n".join([rule, header, units, rule, *grouped, rule, ""])


def _unit(name):
    return f"({UNITS[name]})" if name in UNITS else ""
