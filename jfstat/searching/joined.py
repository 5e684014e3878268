"""Join the tables of searches of other templates or bands, such as patches of the sky: `join_searches`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jfstat import kinds
from jfstat.candidates.provenance import other_floors
from jfstat.candidates.tables import AnyTable, Meta, plain_column
from jfstat.public import host
from jfstat.searching.result import SAME_KIND, summed_tallies
from jfstat.searching.statistics import statistic_of

if TYPE_CHECKING:
    from astropy.table import QTable

SAME = (*SAME_KIND, "ranking", "bsgl_threshold", "Fstar0", "oLGX", "twoF_edges", "n_subbands")
"""Entries of meta in which searches must agree, so that their values and numbers of trials can be added up."""
SAME_OF_SUBBANDS = ("fmin", "fmax")
"""Further such entries if there is a best path in each sub-band, which are counted from the start of the band."""
NEEDED = ("n_twoF", "n_templates", "twoF_histogram", "loudest_per_subband", "fmin", "fmax", "parameters")


@host(tables=kinds.sequence)
def join_searches(tables: Sequence[QTable]) -> QTable:
    """Join the tables of searches of the same data by one statistic, for other templates or in other bands.

    For searches that are divided into patches of the sky, ranges of spin-down, or bands, each with a bank of its own.
    The candidates become one table, loudest first, whose meta says how much noise was searched in all: `follow_up` and
    `refine` take their number of trials from it. Units of one search are joined by `merge`.

    Parameters
    ----------
    tables : sequence of QTable
        Tables from `search` or `merge`, at least one, with the same columns. They may come from files.

    Returns
    -------
    QTable
        All rows, with the column ``search``: the index of their table in `tables`. ``template`` is the index in that
        search's own bank. In meta the numbers of templates and of values, and the histogram, are sums,
        ``loudest_per_subband`` has the loudest of all, ``false_alarm`` is for all searches together, and ``n_searches``
        their number; ``lines`` has the known lines of all. Other entries in which the searches differ are left out.
        Clusters are those of each search. Where patches overlap a signal has several rows: `distinct` joins them once
        they are refined. Values of the overlaps count twice, so that the false-alarm probability is an upper bound
        there, too.

    Raises
    ------
    TypeError
        If `tables` holds anything but tables.
    ValueError
        If it is empty, a search is there twice, a table is none of a whole search or was judged by the background of
        its own, or the searches differ in data (their times, detectors and, of one band, noise floors), statistic,
        prior of lines, reference time or columns, or by their bands although there is a best path in each sub-band.

    Examples
    --------
    >>> patches = [jfstat.template_bank(alpha, 0.47, f1dot=-1e-10, data=data) for alpha in (2.0, 2.2)]
    >>> each = [jfstat.search(data, bank, top=5, progress=False) for bank in patches]
    >>> found = jfstat.join_searches(each)
    >>> len(found), found.meta["n_templates"], found.meta["n_searches"]
    (10, 2, 2)
    """
    from astropy.table import vstack

    given = list(tables)
    if not given:
        raise ValueError("tables is empty: give at least one table of a search.")
    for i, table in enumerate(given):
        kinds.table(table, f"tables[{i}]")
        _check_whole(table, i)
        _check_same(given[0], table, i)
        twin = next((k for k in range(i) if _is_same_search(given[k], table)), None)
        if twin is not None:
            raise ValueError(f"tables[{i}] is tables[{twin}] again, whose trials would count twice: leave it out.")
    copies: list[Any] = [table.copy() for table in given]
    number = 0
    for table in copies:
        if "search" not in table.colnames:
            table["search"] = np.zeros(len(table), np.int64)
        table["search"] += number
        number += table.meta.get("n_searches", 1)
    joined: Any = vstack(copies, metadata_conflicts="silent")
    metas: list[Meta] = [dict(table.meta) for table in copies]
    meta = _joint(metas)
    statistic = statistic_of(meta)
    column = "log10BSGL" if meta["ranking"] == "BSGL" else statistic.sorted_by(meta)
    joined = joined[np.argsort(-plain_column(joined, column), kind="stable")]
    kinds_of = {name: getattr(getattr(joined[name], "dtype", None), "kind", "") for name in joined.colnames}
    numbers = {name: plain_column(joined, name) for name, kind in kinds_of.items() if kind in ("f", "i", "u", "b")}
    joined.meta = meta | {"false_alarm": statistic.false_alarm(numbers, meta) if len(joined) else None}
    return joined


def _check_whole(table: AnyTable, i: int) -> None:
    """Raise a ValueError unless a table is one of a whole search."""
    if table.meta.get("unit"):
        raise ValueError(f"tables[{i}] is of a unit of a search: join its units by jfstat.merge first.")
    if "statistic" not in table.meta or not all(key in table.meta for key in NEEDED):
        raise ValueError(f"tables[{i}] is not of a search: give the table of jfstat.search, before it is refined.")
    if "empirical_false_alarm" in table.colnames:
        raise ValueError(
            f"tables[{i}] has the column empirical_false_alarm, which is of its own search alone: give the table "
            "without what empirical_false_alarm added."
        )


def _check_same(first: AnyTable, other: AnyTable, i: int) -> None:
    """Raise a ValueError if two tables are of searches that cannot be joined."""
    keys = SAME + (SAME_OF_SUBBANDS if first.meta.get("subband") is not None else ())
    differing = next((key for key in keys if not _equal(first.meta.get(key), other.meta.get(key))), None)
    if differing is not None:
        raise ValueError(
            f"tables[{i}] is of another kind of search: {differing} is {other.meta.get(differing)} there, and "
            f"{first.meta.get(differing)} in tables[0]; join like ones only."
        )
    same_band = all(first.meta[key] == other.meta[key] for key in ("fmin", "fmax"))
    if same_band and other_floors(first.meta, other.meta):  # programs estimate them from slightly different bands
        raise ValueError(f"tables[{i}] is of other data than tables[0], with other noise floors: join like ones only.")
    odd = sorted((set(first.colnames) ^ set(other.colnames)) - {"search"})
    if odd:
        raise ValueError(f"tables[{i}] has other columns than tables[0] ({', '.join(odd)}): search alike.")


def _is_same_search(one: AnyTable, other: AnyTable) -> bool:
    """Return whether two tables are of one search: its numbers and the loudest value of each sub-band are the same."""
    keys = "n_twoF", "n_templates", "fmin", "fmax", "twoF_histogram", "loudest_per_subband"
    return all(_equal(one.meta[key], other.meta[key]) for key in keys)


def _equal(one: object, other: object) -> bool:
    """Return whether two entries of meta are equal; users may have added arrays."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(np.asarray(one), np.asarray(other))
    return bool(one == other)


def _joint(metas: list[Meta]) -> Meta:
    """Return the meta of searches together."""
    same = {key: x for key, x in metas[0].items() if all(key in meta and _equal(meta[key], x) for meta in metas)}
    lines = [line for meta in metas for line in meta.get("lines", ())]
    if any("lines" in meta for meta in metas):
        same["lines"] = [line for i, line in enumerate(lines) if line not in lines[:i]]
    if all("n_coherent" in meta for meta in metas):
        same["n_coherent"] = sum(meta["n_coherent"] for meta in metas)
    return same | {
        "n_searches": sum(meta.get("n_searches", 1) for meta in metas),
        "n_templates": sum(meta["n_templates"] for meta in metas),
        **summed_tallies(metas),
        "fmin": min(meta["fmin"] for meta in metas),
        "fmax": max(meta["fmax"] for meta in metas),
        "parameters": list(dict.fromkeys(name for meta in metas for name in meta["parameters"])),
    }
