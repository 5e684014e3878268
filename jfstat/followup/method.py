"""Choose the steps by which climbs proceed, and their largest number."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jfstat.followup.optimizer import Optimizer
from jfstat.maths import descent, newton
from jfstat.validation import is_whole, shown

if TYPE_CHECKING:
    import optax

MOST_STEPS = 2**31 - 1
"""Largest limit that can be set."""


def checked_max_steps(max_steps: object) -> int | None:
    """Return the largest number of steps of a climb as an int, or None.

    Raises
    ------
    ValueError
        If the number is no whole number from 1 on.
    """
    if max_steps is None:
        return None
    if not (is_whole(max_steps) and 1 <= max_steps <= MOST_STEPS):
        raise ValueError(f"max_steps must be a whole number from 1 on, not {shown(max_steps)}, or None.")
    return int(max_steps)


class Method(NamedTuple):
    """Optimizer and step limit of climbs.

    Attributes
    ----------
    optimizer : Optimizer or None
        Optimizer whose steps are taken; None for Newton's method.
    max_steps : int
        Largest number of steps of a climb.
    """

    optimizer: Optimizer | None = None
    max_steps: int = newton.MAX_STEPS

    @classmethod
    def checked(
        cls, optimizer: optax.GradientTransformation | None, max_steps: int | None, n_parameters: int
    ) -> Method:
        """Return the method that a user's arguments describe, checked for a number of parameters.

        Raises
        ------
        ValueError
            If `optimizer` is not one of optax or fails, or `max_steps` is no whole number from 1 on.
        """
        most = checked_max_steps(max_steps)
        if optimizer is None:
            return cls(None, newton.MAX_STEPS if most is None else most)
        own = Optimizer(optimizer)
        own.check(n_parameters)
        return cls(own, descent.MAX_STEPS if most is None else most)

    @property
    def name(self) -> str:
        """Name of what takes the steps, for `meta` of tables."""
        return "trust-region Newton" if self.optimizer is None else self.optimizer.name


NEWTON = Method()
