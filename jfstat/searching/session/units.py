"""Merge the tables of all units of a search into one: `merge`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from jfstat.candidates.tables import AnyTable, Meta, plain_column
from jfstat.engines.reduction import BINS
from jfstat.public import public
from jfstat.searching.result import SUBBAND_KEYS, finished, summed_tallies
from jfstat.searching.session.identity import differences
from jfstat.searching.statistics import STATISTICS, statistic_of
from jfstat.validation import is_whole

if TYPE_CHECKING:
    from astropy.table import QTable

DECIDE = (
    *("batch_size", "parts", "n_coherent"),
    *("parameters", "cluster", "Fstar0", "oLGX", "bounds", "ranking", "bsgl_threshold", "lines"),
)
"""Keys of meta, besides the identity, that must agree: the division of the work and the options of the table."""
MOST_NAMED = 10
"""Largest number of units that a warning names for each kind of processor."""
MAY_DIFFER = ("unit", "platform", "jax")
"""Keys of the identity that may differ, because the machines of a pool may."""


@public
def merge(tables: Sequence[QTable]) -> QTable:
    """Merge the tables of all units of a search into the table that the undivided search would have given.

    Every unit keeps up to `top` candidates, and the loudest `top` of all remain. Clusters (`Keep.cluster`) form here.
    Units share one bank. Searches of different patches of the sky or bands are not units of one search: `join_searches`
    joins their tables.

    Parameters
    ----------
    tables : sequence of QTable
        Tables from ``search(..., run=Run(unit=(i, n)))`` for i = 1 to n, in any order, possibly read from .ecsv or
        .hdf5 files.

    Returns
    -------
    QTable
        Table as from `search`.

    Raises
    ------
    ValueError
        If a unit is missing or given twice, a table belongs to no unit, or the tables belong to different searches.

    Warns
    -----
    UserWarning
        If units were computed on different kinds of processor: their values then differ from the undivided search's in
        the last bits, and candidates of nearly equal 2F may be ordered otherwise.
    """
    given = _listed(tables)
    n = _check_same_search(given)
    units = _all_in_order(given, n)
    columns = {name: np.concatenate([_values(table, name) for table in units]) for name in units[0].colnames}
    metas: list[Meta] = [dict(table.meta) for table in units]
    kinds = _processors(metas)
    if len(kinds) > 1:
        listed = "; ".join(f"{kind}: {_numbers(units)}" for kind, units in sorted(kinds.items()))
        warnings.warn(
            f"tables are from {len(kinds)} kinds of processor, so that last bits may differ from those of one search "
            f"({listed}).",
            stacklevel=3,
        )
    loud = columns[statistic_of(metas[0]).loudness(metas[0])]
    order = np.lexsort((columns["freq"], columns["template"], -loud))[: metas[0]["top"]]
    columns = {name: x[order] for name, x in columns.items()}
    tallies = summed_tallies(metas)
    meta = metas[0] | {
        "engine": ", ".join(sorted({meta["engine"] for meta in metas})),
        "processor": ", ".join(sorted(kinds)),
        "device_bytes": max(meta["device_bytes"] for meta in metas),
    }
    try:
        return finished(columns, meta | tallies).in_units
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:  # values were changed
        raise ValueError(
            f"tables are damaged or changed ({type(error).__name__}: {error}): do these units again."
        ) from error


def _processors(metas: Sequence[Meta]) -> dict[str, list[int]]:
    """Return the kinds of processor that computed units, as far as known, with the numbers of these units."""
    kinds: dict[str, list[int]] = {}
    for meta in metas:
        for kind in str(meta.get("processor", "unknown")).split(", "):
            kinds.setdefault(kind, []).append(meta["unit"][0])
    return kinds


def _numbers(units: list[int]) -> str:
    """Format the numbers of units for a message."""
    shown = ", ".join(map(str, units[:MOST_NAMED])) + (", ..." if len(units) > MOST_NAMED else "")
    return f"unit{'s' * (len(units) > 1)} {shown}"


def _listed(tables: object) -> list[AnyTable]:
    """Return the tables as a list; raise a TypeError unless they are tables."""
    try:
        listed = None if hasattr(tables, "colnames") else list(tables)  # type: ignore[call-overload]
    except Exception:  # whatever a foreign object raises
        listed = None
    if listed is None or isinstance(tables, (str, bytes)) or not all(hasattr(table, "colnames") for table in listed):
        raise TypeError(f"tables must be a sequence of QTables from units of a search, not {type(tables).__name__}.")
    return listed


def _problem(table: AnyTable) -> str | None:
    """Return in words what a unit's table lacks that `search` would have written: files may have been edited."""
    meta = table.meta
    for name, (holds, what) in HELD.items():
        if name not in meta:
            return f"its meta lacks {name!r}"
        if not holds(meta[name]):
            return f"{name!r} of its meta is not {what}"
    statistic = statistic_of(meta)
    needed = {"metric", "sampling"} if statistic.joins_side_lobes else {"metric"}
    if meta["cluster"] is not None and not needed <= set(meta):
        return "its meta lacks what clusters need"
    needed = (
        "freq",
        "template",
        statistic.loudness(meta),
        statistic.sorted_by(meta),
        *(("log10BSGL",) if meta["ranking"] == "BSGL" else ()),
    )
    for name in needed:
        if name not in table.colnames:
            return f"it lacks the column {name!r}"
    for name in table.colnames:
        own = table[name]
        if getattr(own, "ndim", 0) != 1 or getattr(own, "mask", None) is not None or own.dtype.kind not in "fiubUS":
            return f"its column {name!r} does not hold a number or word in each row"
    return None


def _is_unit(x: object) -> bool:
    pair = isinstance(x, (list, tuple)) and len(x) == 2 and all(map(is_whole, x))
    return pair and 1 <= x[0] <= x[1]  # type: ignore[index]


def _is_list_of_numbers(x: object) -> bool:
    return isinstance(x, (list, tuple)) and all(isinstance(y, (int, float)) for y in x)


def _is_subbands(x: object) -> bool:
    lists = isinstance(x, Mapping) and all(_is_list_of_numbers(x.get(key)) for key in SUBBAND_KEYS)
    return lists and len({len(x[key]) for key in SUBBAND_KEYS}) == 1  # type: ignore[index]


HELD: dict[str, tuple[Callable[[Any], bool], str]] = {
    "unit": (_is_unit, "a pair (i, n) with 1 <= i <= n"),
    "identity": (lambda x: isinstance(x, Mapping), "a mapping"),
    "top": (lambda x: x is None or (is_whole(x) and x > 0), "a number of rows"),
    "statistic": (lambda x: x in [kind.__name__ for kind in STATISTICS], "a known statistic"),
    "cluster": (lambda x: x is None or isinstance(x, (int, float)), "a number"),
    "ranking": (lambda x: x in ("F", "BSGL", "BtSG"), "'F', 'BSGL' or 'BtSG'"),
    "bounds": (lambda x: isinstance(x, Mapping), "a mapping"),
    "reftime": (lambda x: isinstance(x, (int, float)), "a GPS time"),
    "engine": (lambda x: isinstance(x, str), "a name"),
    "device_bytes": (lambda x: isinstance(x, (int, float)), "a number"),
    "n_twoF": (lambda x: is_whole(x) and 0 <= x < 2**63, "a number of values"),
    "twoF_histogram": (lambda x: _is_list_of_numbers(x) and len(x) == BINS, f"a list of {BINS} numbers"),
    "loudest_per_subband": (_is_subbands, "lists of numbers"),
}
"""Entries of a unit's meta that `merge` needs: the condition that each value must fulfil, and its description in
words."""


def _check_same_search(tables: Sequence[AnyTable]) -> int:
    """Return the search's number of units; raise a ValueError unless all tables belong to units of one search."""
    if not tables:
        raise ValueError("tables is empty: give the tables of all units.")
    for i, table in enumerate(tables):
        if not table.meta.get("unit"):
            raise ValueError(
                f"tables[{i}] is not of a unit of a search: give what search(..., run=Run(unit=(i, n))) returned."
            )
        problem = _problem(table)
        if problem:
            raise ValueError(f"tables[{i}] is damaged or changed: {problem}; do this unit again.")
    first = tables[0].meta
    for i, table in enumerate(tables):
        meta = table.meta
        found = [differences(first["identity"], meta["identity"], MAY_DIFFER)]
        found += [f"{x} ({first.get(x)}, {meta.get(x)})" for x in DECIDE if meta.get(x) != first.get(x)]
        if meta["unit"][1] != first["unit"][1]:
            found = [f"the number of units ({first['unit'][1]}, {meta['unit'][1]})"]
        if table.colnames != tables[0].colnames:
            found.append("the columns")
        if any(found):
            listed = ", ".join(filter(None, found))
            raise ValueError(f"tables[0] and tables[{i}] are of different searches: what differs is {listed}.")
    return first["unit"][1]


def _all_in_order(tables: Sequence[AnyTable], n: int) -> list[AnyTable]:
    """Return the tables of units 1 to n in order; raise a ValueError unless each is there exactly once."""
    numbers = [table.meta["unit"][0] for table in tables]
    there = set(numbers)
    n_missing = n - len(there)
    if n_missing:
        missing = islice((i for i in range(1, n + 1) if i not in there), 10)
        listed = ", ".join(map(str, missing)) + (", ..." if n_missing > 10 else "")
        raise ValueError(f"tables lack {n_missing} of {n} units, {listed}: do them first.")
    if len(numbers) > n:
        twice = next(i for i in numbers if numbers.count(i) > 1)
        raise ValueError(f"tables hold unit {twice} twice: give each once.")
    return [tables[i] for i in np.argsort(numbers)]


def _values(table: AnyTable, name: str) -> np.ndarray:
    return np.asarray(table[name]) if name in ("template", "line", "line_veto") else plain_column(table, name)
