"""Check the mesh that `search` is given, and tell whether its devices belong to several processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import jax
import numpy as np
from jax.sharding import Mesh


def check_mesh(mesh: object) -> None:
    """Raise an error unless `mesh` is None or a mesh of devices of one kind, of this process or of all."""
    if mesh is None:
        return
    if not isinstance(mesh, Mesh):
        raise TypeError(f"mesh must be a jax.sharding.Mesh or None, not {type(mesh).__name__}: see jax.make_mesh.")
    devices = list(mesh.devices.flat)
    if not devices:
        raise ValueError("mesh holds no devices: give at least one.")
    kinds = sorted({device.device_kind for device in devices})
    if len(kinds) > 1:
        raise ValueError(f"mesh must hold devices of one kind, not of {', '.join(kinds)}: results would depend on it.")
    processes = {device.process_index for device in devices}
    if processes not in ({jax.process_index()}, set(range(jax.process_count()))):
        raise ValueError("mesh must hold devices of this process or of all processes, not of some: see jax.devices().")


def spans_processes(mesh: Mesh | None) -> TypeGuard[Mesh]:
    """Return whether devices of other processes belong to the mesh."""
    return mesh is not None and len({device.process_index for device in mesh.devices.flat}) > 1


def gathered(numbers: Sequence[float]) -> np.ndarray:
    """Gather the numbers of each process, (n_processes, k) float64; all processes must call this."""
    from jax.experimental.multihost_utils import process_allgather

    return np.asarray(process_allgather(np.array(numbers, np.float64))).reshape(-1, len(numbers))
