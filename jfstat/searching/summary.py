"""What tables of candidates say, in words: `summary`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jfstat import kinds
from jfstat.candidates.schema import column_of
from jfstat.candidates.tables import AnyTable
from jfstat.public import public
from jfstat.searching.statistics import statistic_of
from jfstat.signal.parameters import AMPLITUDE_FIELDS, WINDOW_COLUMNS, is_parameter
from jfstat.validation import NumberLike, is_whole, shown


@public(table=kinds.table)
def summary(table: AnyTable, row: int = 0, total: int | None = None) -> str:
    """Describe a candidate of a table, and of a table of `search` what it says of the whole search.

    Parameters
    ----------
    table : QTable
        From `search`, `fstat_table` or `merge`, or from `refine` or `last_stage`.
    row : int
        Which candidate.
    total : int, optional
        Number of candidates to name, if the table does not hold all of them.

    Returns
    -------
    str
        Lines: each parameter with its unit, for refined candidates with its error and how it ended; known lines,
        vetoes and ranges that candidates lie outside of; the false-alarm probability.

    Raises
    ------
    TypeError
        If `table` is no table.
    ValueError
        If it has no such row.

    Examples
    --------
    >>> bank = jfstat.template_bank((2.0, 2.2, 0.1), 0.47, f1dot=[-1e-10], data=data)
    >>> found = jfstat.search(data, bank, top=3, progress=False)
    >>> print(jfstat.summary(found).splitlines()[0])
    loudest of 3 candidates, at reference time GPS 1167458304:
    """
    if len(table) and "reftime" not in (table.meta or {}):
        raise ValueError("table has no reftime in its meta: give a table of candidates, as from jfstat.search.")
    if total is not None and not is_whole(total):
        raise ValueError(f"total must be a whole number or None, not {shown(total)}.")
    if not is_whole(row) or (len(table) and not 0 <= row < len(table)):
        raise ValueError(f"row must be a whole number from 0 to {len(table) - 1}, not {shown(row)}.")
    lines = _refined_lines(table, row) if "message" in table.colnames else _found_lines(table, row, total)
    return "\n".join(lines)


def _found_lines(found: AnyTable, row: int, total: int | None) -> Iterator[str]:
    """Yield what a table of a search says."""
    meta = found.meta
    statistic = statistic_of(meta)
    if len(found) == 0:
        cuts = (statistic.quantity, meta.get("threshold")), ("log10BSGL", meta.get("bsgl_threshold"))
        listed = " and ".join(f"{name} >= {least:g}" for name, least in cuts if least is not None)
        yield f"no candidate with {listed}" if listed else "no candidate"
        return
    odds = "log10BSGL" if meta.get("ranking") == "BSGL" else statistic.quantity
    first = f"highest {odds}" if odds.startswith("log10") else "loudest"
    number = len(found) if total is None else total
    yield f"{first} of {number} candidates, at reference time GPS {meta['reftime']}:"
    for name in found.colnames:
        column = found[name]
        if (
            name not in ("outside", "line", "line_veto", "background")
            and column.dtype.kind in "fiu"
            and column.ndim == 1
        ):
            yield f"  {name:8s} {column_of(name).text(column[row])}"
    if "line" in found.colnames:
        n_crossing = int(np.sum(np.asarray(found["line"]) != ""))
        yield f"  crosses {found['line'][row] or 'no known line'}; {n_crossing} of {len(found)} cross a known line"
    if "line_veto" in found.colnames:
        n_vetoed = int(np.sum(np.asarray(found["line_veto"]) != ""))
        yield f"  line veto: {found['line_veto'][row] or 'none'}; {n_vetoed} of {len(found)} are vetoed"
    if "outside" in found.colnames:
        ranges = f"the ranges of {', '.join(meta['bounds'])}" if meta.get("bounds") else "their search's ranges"
        yield (
            f"  {int(np.sum(found['outside']))} of {len(found)} lie outside {ranges}, as templates at their edges may: "
            "refine shows where signals are"
        )
    if "transient" in meta:
        yield f"  the largest of {meta['transient']['n_windows']} windows at each point"
    if meta.get("false_alarm") is not None:
        yield f"  false-alarm probability of the {statistic.loudest} in Gaussian noise {meta['false_alarm']:.3g}"
    if meta.get("empirical_false_alarm") is not None:
        positions = meta["background"]["positions"]
        least = meta["empirical_false_alarm"]
        yield f"  smallest false-alarm probability of a candidate, measured at {positions} other positions {least:.3g}"


def _refined_lines(table: AnyTable, row: int) -> Iterator[str]:
    """Yield the parameters of a refined candidate with their errors and units, and how it ended."""
    yield f"parameters at reference time GPS {table.meta['reftime']}:"
    for name in table.colnames:
        value, own = table[name][row], column_of(name)
        if name.startswith(("twoF", "mean_twoF")) or name == "log10BSGL":
            yield f"  {name:9s} {own.text(value)}"
        elif is_parameter(name) or name in (*WINDOW_COLUMNS, *AMPLITUDE_FIELDS):
            yield f"  {name:9s} {_plain(value):{own.digits}} {_error_of(table, row, name)} {own.unit}".rstrip()
    yield f"  {table['message'][row]}"


def _plain(x: NumberLike) -> float:
    """Return a number without its unit."""
    return float(getattr(x, "value", x))


def _error_of(table: AnyTable, row: int, name: str) -> str:
    """Return a parameter's error in words."""
    if f"{name}_error" not in table.colnames:
        return "(fixed)"
    error = _plain(table[f"{name}_error"][row])
    return f"+- {error:.2g}" if np.isfinite(error) else "(no error)"
