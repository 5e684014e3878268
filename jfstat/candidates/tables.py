"""Read and make tables of candidates: their columns with units, and the templates that they hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import numpy as np

from jfstat import kinds
from jfstat.candidates.provenance import Provenance, reftime_of
from jfstat.candidates.schema import column_of
from jfstat.public import public
from jfstat.signal.columns import AnyTable, check_limits, column_values, parameter_columns
from jfstat.signal.parameters import spin_order
from jfstat.signal.templates import Doppler, points_from
from jfstat.signal.values import with_fields

if TYPE_CHECKING:
    from astropy.table import QTable

Meta: TypeAlias = dict[str, Any]
"""Meta of a table by name: plain values and lists of them, as JSON can hold."""


@dataclass(frozen=True, eq=False)
class PlainTable:
    """Table without astropy, whose import takes a quarter of a second.

    Attributes
    ----------
    columns : dict of (k,) ndarrays
        Columns in the units that belong to their names; see `jfstat.candidates.schema`.
    meta : dict
    """

    columns: dict[str, np.ndarray]
    meta: Meta

    @property
    def colnames(self) -> list[str]:
        return list(self.columns)

    def __getitem__(self, item: str | int | slice | np.ndarray, /) -> Any:
        """Return a column by its name, or a table of some rows."""
        if isinstance(item, str):
            return self.columns[item]
        return PlainTable({name: np.atleast_1d(x[item]) for name, x in self.columns.items()}, self.meta)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @property
    def in_units(self) -> QTable:
        """Astropy table of these columns, with units."""
        return in_units(self.columns, self.meta)


def by_orbits(points: Doppler) -> Iterator[tuple[np.ndarray, Doppler]]:
    """Yield the rows of a stack with NumPy leaves that have no orbit, and then the rows that have one.

    Each kind runs its own programs. Row numbers of a kind, (m,), come with the whole stack, without its orbit for the
    first kind; a kind without rows is left out.
    """
    isolated = np.ones(len(points.alpha), bool) if points.orbit is None else np.asarray(points.orbit.asini == 0)
    for alone in (True, False):
        rows = np.flatnonzero(isolated == alone)
        if len(rows):
            yield rows, with_fields(points, orbit=None) if alone else points


def point_in(points: Doppler, row: int) -> Doppler:
    """Return one template of a stack with NumPy leaves, without its orbit if the orbit has no size."""
    point = jax.tree.map(lambda x: x[row] if np.ndim(x) else x, points)
    return with_fields(point, orbit=None) if point.orbit is not None and not point.orbit.asini else point


@public(table=kinds.table)
def bank_from_table(table: AnyTable) -> Doppler:
    """Return a stack of templates from a table with columns ``alpha``, ``delta``, and any of ``f1dot``, ... and an
    orbit's; ``varied`` is what ``meta["parameters"]`` names.

    Raises
    ------
    ValueError
        If a column is missing, or has another unit or values that are impossible for a template, or the templates have
        a phase model.
    """
    given = parameter_columns(table, of_model="give jfstat.Doppler templates, which hold it")
    check_limits(given)
    points = points_from(given, reftime_of(table))
    return with_fields(points, varied=Provenance.of(table).parameters)


def carry_over(table: QTable, given: AnyTable) -> None:
    """Add columns of the user's table that do not depend on templates and data, such as names."""
    for name in given.colnames:
        if name not in table.colnames and not column_of(name).stale:
            table[name] = given[name]


def in_units(columns: dict[str, np.ndarray], meta: Meta) -> QTable:
    """Return a table of columns with the units that belong to their names; see `jfstat.candidates.schema`."""
    from astropy.table import QTable
    from astropy.units import Quantity

    units = {name: column_of(name).unit for name in columns}
    return QTable({name: Quantity(x, units[name]) if units[name] else x for name, x in columns.items()}, meta=meta)


def stacked(tables: Sequence[QTable]) -> QTable:
    """Return the rows of tables one after the other, with the meta of the first; the tables lose their meta."""
    from astropy.table import vstack

    meta = tables[0].meta
    for table in tables:  # meta is the same for all, but vstack would concatenate its lists
        table.meta = {}
    together: Any = vstack(list(tables))
    together.meta = meta
    return together


def plain_column(table: AnyTable, name: str) -> np.ndarray:
    """Return a column without its unit, float64, NaN for masked values; zeros for a derivative that has no column.

    Raises
    ------
    ValueError
        If the column is missing, or has another unit or too few digits.
    """
    if name not in table.colnames:
        if (spin_order(name) or 0) > 0:
            return np.zeros(len(table))
        raise ValueError(f"table lacks the column {name!r}: add it, or, to write it, use .ecsv.")
    own = column_of(name)
    return column_values(table, name, own.unit, own.double)
