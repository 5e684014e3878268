"""Several processes that search together: the first reads and writes files, the others learn from it."""

from __future__ import annotations

import jax
import numpy as np


def is_first() -> bool:
    """Whether this process is the one to write files and to show progress."""
    return jax.process_index() == 0


def from_first(content: bytes | None) -> bytes | None:
    """What the first process has, on all of them, which must all call this."""
    if jax.process_count() == 1:
        return content
    from jax.experimental.multihost_utils import broadcast_one_to_all

    size = int(broadcast_one_to_all(np.int64(-1 if content is None else len(content))))
    if size < 0:
        return None
    own = np.zeros(size, np.uint8) if content is None or len(content) != size else np.frombuffer(content, np.uint8)
    return np.asarray(broadcast_one_to_all(own), np.uint8).tobytes()
