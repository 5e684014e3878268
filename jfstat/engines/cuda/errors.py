"""What goes wrong outside of JAX: no driver, no compiler, a kernel that cannot be loaded."""

from __future__ import annotations


class CudaError(RuntimeError):
    """The kernels cannot be compiled, loaded or launched; one line that says why."""
