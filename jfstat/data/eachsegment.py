"""Apply a function to each segment of data; data without segments count as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax

from jfstat.data.protocol import HasSegments
from jfstat.maths.lengths import largest_divisor

Segments = TypeVar("Segments", bound=HasSegments)


def each_segment(function: Callable[[Segments], Any], data: Segments, at_once: int = 1) -> Any:
    """Return a function's results for each of K segments, with a leading axis K (1 for data without segments).

    Gradients recompute the segments, so memory is needed only for the segments that are computed together.

    Parameters
    ----------
    function : callable
        From one segment to a pytree of arrays; traceable.
    data : Observation, FstatData or NarrowData
    at_once : int
        Most segments to compute together.
    """
    if data.n_segments is None:
        return jax.tree.map(lambda x: x[None], function(data))
    size = largest_divisor(data.n_segments, at_once)
    return jax.lax.map(jax.checkpoint(function), data, batch_size=size if size > 1 else None)
