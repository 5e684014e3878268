"""Merging the tables of all units of a search into one: `merge`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from jfstat.candidates.tables import AnyTable, Meta, plain_column
from jfstat.searching.reduce.state import louder
from jfstat.searching.result import SUBBAND_KEYS, finished, subband_columns
from jfstat.searching.session.checkpoint import differences

if TYPE_CHECKING:
    from astropy.table import QTable

DECIDE = ("cluster", "batch_size", "parts", "Fstar0", "oLGX", "bounds", "ranking", "bsgl_threshold", "lines")
"""Keys of meta that must agree beside the identity: how the work was divided, and options of the table."""
MAY_DIFFER = ("unit", "platform", "jax")
"""Keys of the identity that may differ, because the machines of a pool may."""


def merge(tables: Sequence[QTable]) -> QTable:
    """Merge the tables of all units of a search into the table that the undivided search would have given.

    Parameters
    ----------
    tables : sequence of QTable
        From ``search(..., unit=(i, n))`` for i = 1 to n, in any order, or read from .ecsv or .hdf5 files of such
        tables.

    Returns
    -------
    QTable
        As from `search`.

    Raises
    ------
    ValueError
        If a unit is missing or given twice, a table is not of a unit, or the tables are of different searches.
    """
    tables = list(tables)
    n = _check_same_search(tables)
    units = _all_in_order(tables, n)
    columns = {name: np.concatenate([_values(table, name) for table in units]) for name in units[0].colnames}
    metas: list[Meta] = [dict(table.meta) for table in units]
    order = np.lexsort((columns["freq"], columns["template"], -columns["twoF"]))[: metas[0]["top"]]
    columns = {name: x[order] for name, x in columns.items()}
    loudest: dict[tuple[float, float], float] = {}
    for meta in metas:
        rows = zip(*(meta["loudest_per_subband"][key] for key in SUBBAND_KEYS), strict=True)
        loudest = louder(loudest, {(start, stop): twoF for start, stop, twoF in rows})
    meta = metas[0] | {
        "n_twoF": sum(meta["n_twoF"] for meta in metas),
        "backend": ", ".join(sorted({meta["backend"] for meta in metas})),
        "device_bytes": max(meta["device_bytes"] for meta in metas),
        "twoF_histogram": np.sum([meta["twoF_histogram"] for meta in metas], axis=0).tolist(),
        "loudest_per_subband": subband_columns(loudest),
    }
    return finished(columns, meta)


def _check_same_search(tables: Sequence[AnyTable]) -> int:
    """The search's number of units; raises a ValueError unless all tables are of units of one search."""
    if not tables:
        raise ValueError("tables is empty: give the tables of all units.")
    for i, table in enumerate(tables):
        if not table.meta.get("unit"):
            raise ValueError(f"tables[{i}] is not of a unit of a search: give what search(..., unit=(i, n)) returned.")
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
    """The tables of units 1 to n; raises a ValueError unless each is there exactly once."""
    numbers = [table.meta["unit"][0] for table in tables]
    missing = sorted(set(range(1, n + 1)) - set(numbers))
    if missing:
        listed = ", ".join(map(str, missing[:10])) + (", ..." if len(missing) > 10 else "")
        raise ValueError(f"tables lack {len(missing)} of {n} units, {listed}: do them first.")
    if len(numbers) > n:
        twice = next(i for i in numbers if numbers.count(i) > 1)
        raise ValueError(f"tables hold unit {twice} twice: give each once.")
    return [tables[i] for i in np.argsort(numbers)]


def _values(table: AnyTable, name: str) -> np.ndarray:
    return np.asarray(table[name]) if name in ("template", "line") else plain_column(table, name)
