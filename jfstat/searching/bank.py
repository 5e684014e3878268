"""Check the bank of a search against the data before anything is computed, as a stack of templates on the host."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np

from jfstat.candidates.tables import bank_from_table
from jfstat.data.checks import check_template
from jfstat.data.fit import beyond_band, check_fit
from jfstat.data.fstatdata import FstatData
from jfstat.maths.arrays import on_device
from jfstat.signal.possible import check_possible, physical
from jfstat.signal.templates import Doppler
from jfstat.signal.values import with_fields


def stacked_bank(bank: Any, name: str = "bank") -> Doppler:
    """Return the argument `name`, a bank, as NumPy arrays with exactly one leading axis, on the host.

    There it is divided into batches.

    Raises
    ------
    TypeError
        If the bank is no Doppler.
    ValueError
        If the bank holds no templates, or templates with different reference times.
    """
    if not isinstance(bank, Doppler) and hasattr(bank, "colnames"):
        bank = bank_from_table(bank)
    if not isinstance(bank, Doppler):
        raise TypeError(
            f"{name} must be a jfstat.Doppler, one or a stack, not {type(bank).__name__}: see jfstat.template_bank."
        )
    if np.size(bank.alpha) == 0:
        raise ValueError(f"{name} holds no templates: give at least one.")
    if bank.reftime is not None:
        _ = bank.reftime.common  # a table has one reference time
    # a Doppler's leaves have the same batch axes
    stack = jax.tree.map(lambda x: np.asarray(x).reshape(-1, *np.shape(x)[np.ndim(bank.alpha) :]), bank)
    return with_fields(stack, varied=bank.varied, asked=bank.asked)


def check_all_possible(stack: Doppler, name: str, ignore: tuple[str, ...] = ()) -> None:
    """Raise a ValueError for the first template of a stack, the argument `name`, that is impossible.

    Transformations of JAX make stacks without the constructor's checks. Parameters to `ignore` do not matter.
    """
    impossible = np.flatnonzero(~np.asarray(physical(stack, ignore)))
    if len(impossible):
        try:
            check_possible(jax.tree.map(lambda x: on_device(x[impossible[0]]), stack))
        except ValueError as error:
            raise ValueError(
                f"{name} holds {len(impossible)} impossible template(s), the first in row {impossible[0]}: {error}"
            ) from None


def check_all_fit(data: FstatData, stack: Doppler) -> None:
    """Raise a ValueError for the first template of a stack that is impossible or does not fit the data."""
    check_template("bank", jax.tree.map(lambda x: on_device(x[0]), stack))  # kinds and shapes are those of all
    check_all_possible(stack, "bank", ("freq",))
    bare = replace(data, filters=())
    parts = [bare] if data.n_segments is None else [bare[i] for i in range(data.n_segments)]
    for part in parts:
        fits = np.asarray(beyond_band(part, stack)) <= 0  # not for NaN
        first = int(np.argmin(fits))
        if not fits[first]:
            point = jax.tree.map(lambda x, first=first: on_device(x[first]), stack)
            check_fit(part, point, band=True)
