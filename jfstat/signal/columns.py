"""Read the parameters of templates from the columns of tables and from their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from jfstat.signal.parameters import (
    LIMITS,
    MOTION_FIELDS,
    ORBIT_FIELDS,
    ORBIT_REQUIRED,
    PRECISE,
    SKY,
    WINDOW_COLUMNS,
    is_of_model,
    spin_names,
    unit,
)
from jfstat.validation import shown


class AnyTable(Protocol):
    """Interface of a table of candidates or templates: astropy's Table or QTable, or a PlainTable."""

    @property
    def colnames(self) -> Sequence[str]: ...

    @property
    def meta(self) -> Any: ...  # `Meta`, but astropy's attribute has no type

    def __getitem__(self, item: str | int | slice | np.ndarray, /) -> Any: ...

    def __len__(self) -> int: ...


@dataclass(frozen=True, eq=False)
class OneRow:
    """A row of a table as a table of one row, without copies of the table's other columns and meta."""

    table: AnyTable
    index: int

    @property
    def colnames(self) -> Sequence[str]:
        return self.table.colnames

    @property
    def meta(self) -> Any:
        return self.table.meta

    def __getitem__(self, item: str | int | slice | np.ndarray, /) -> Any:
        return self.table[item][self.index : self.index + 1]

    def __len__(self) -> int:
        return 1


def one_row(x: Any, name: str) -> OneRow:
    """Return a row of an astropy table, or a table of a single row, as a table of one row.

    Raises
    ------
    TypeError
        If it is neither a row nor a table.
    ValueError
        If it is a table of more or fewer rows.
    """
    if not hasattr(x, "colnames"):
        raise TypeError(f"{name} must be a row of a table, such as jfstat.search(...)[0], not {shown(x)}.")
    if hasattr(x, "table") and hasattr(x, "index"):  # an astropy Row
        return OneRow(x.table, x.index)
    if len(x) != 1:
        raise ValueError(
            f"{name} is a table of {len(x)} rows, but one is wanted: give table[0], or make a stack of all rows by "
            "jfstat.bank_from_table."
        )
    return OneRow(x, 0)


def refuse_window(row: AnyTable, name: str) -> None:
    """Raise a ValueError for a row of a table of transient signals, whose window would be ignored."""
    if all(column in row.colnames for column in WINDOW_COLUMNS):
        raise ValueError(
            f"{name} is a row of a table of transient signals, whose window would be ignored: use transient_twoF with "
            "a TransientWindow of its t0 and tau, or jfstat.Doppler.from_row(row) for its template alone."
        )


def parameter_columns(
    table: AnyTable, what: str = "table", required: Sequence[str] = SKY, of_model: str | None = "use refine(model=)"
) -> dict[str, np.ndarray]:
    """Return the parameters of the templates that a table holds, without units, (k,) float64 each.

    Derivatives below the highest, an orbit's ``ecc`` and ``argp``, and one of two components of a proper motion are
    zero where their columns are missing.

    Parameters
    ----------
    table : Table or QTable
    what : str
        Name of the table in errors.
    required : sequence of str
        Columns that must be there. A table with any column of an orbit needs ``asini``, ``period`` and ``tp`` too.
    of_model : str or None
        What to do with templates of a phase model, for the message that refuses them, since a table cannot hold the
        model's function; None if the caller knows the function.

    Raises
    ------
    ValueError
        If a column is missing or has another unit, or the templates have a phase model.
    """
    own = [name for name in table.colnames if is_of_model(name)]
    if own and of_model is not None:
        raise ValueError(f"{what} has the column {own[0]!r} of a phase model, which is not known here: {of_model}.")
    orbital = [name for name in ORBIT_FIELDS if name in table.colnames]
    moving = [name for name in MOTION_FIELDS if name in table.colnames]
    needed = [*required, *(ORBIT_REQUIRED if orbital else ())]
    missing = [name for name in needed if name not in table.colnames]
    if missing:
        raise ValueError(
            f"{what} lacks the column {missing[0]!r}: candidates need {', '.join(required)}, and asini, period and tp "
            "if they have an orbit."
        )
    names = [*spin_names(table.colnames), *SKY]
    names += [*(MOTION_FIELDS if moving else ()), *(ORBIT_FIELDS if orbital else ())]
    return {name: _parameter(table, name, what) if name in table.colnames else np.zeros(len(table)) for name in names}


def check_limits(given: Mapping[str, np.ndarray], what: str = "table", numbered: bool = True) -> None:
    """Raise a ValueError for the first value of a parameter beyond its limits; if `numbered`, with its row."""
    for name in set(LIMITS) & set(given):
        bad = np.flatnonzero(~LIMITS[name].holds(given[name]))
        if len(bad):
            where = f" in row {bad[0]}, counted from 0" if numbered else ""
            raise ValueError(
                f"{what} has {name} = {given[name][bad[0]]}{where}, which must be {LIMITS[name].must_be}: "
                f"{LIMITS[name].hint}."
            )


def _parameter(table: AnyTable, name: str, what: str) -> np.ndarray:
    return column_values(table, name, unit(name), name in PRECISE, what)


def column_values(table: AnyTable, name: str, wanted: str, double: bool, what: str = "table") -> np.ndarray:
    """Return a column in a unit, "" for none, without the unit: float64, NaN for masked values.

    Raises
    ------
    ValueError
        If the column has another unit, or if it must be `double` and has too few digits.
    """
    column = table[name]
    kind = getattr(column, "dtype", None)
    if double and kind is not None and kind.kind == "f" and kind.itemsize < 8:
        raise ValueError(f"{what} has a column {name!r} in {kind}, which keeps too few digits: make it in float64.")
    try:
        if getattr(column, "mask", None) is not None:
            column = column.astype(np.float64).filled(np.nan)
        return plain(column, wanted)
    except (TypeError, ValueError) as error:  # astropy's UnitConversionError is both
        unit_words = f"in {wanted}" if wanted else "of numbers without unit"
        raise ValueError(f"{what} has a column {name!r} that is not {unit_words}: convert it.") from error


def plain(column: Any, wanted: str) -> np.ndarray:
    """Return a column of a Table or a QTable in a unit, "" for none, without the unit, float64."""
    if wanted and getattr(column, "unit", None) is not None:
        quantity = getattr(column, "quantity", column)  # of a Table, whose columns are no Quantities
        return np.asarray(quantity.to_value(wanted), np.float64)
    return np.asarray(getattr(column, "value", column), np.float64)
