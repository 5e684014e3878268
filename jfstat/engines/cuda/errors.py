"""Define the error for failures outside of JAX: no driver, no compiler, a kernel that cannot be loaded."""

from __future__ import annotations


class CudaError(RuntimeError):
    """Error for kernels that cannot be compiled, loaded or launched; its message is one line that says why."""
