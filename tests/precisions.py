"""Make a product of single-precision matrices in jfstat an error in all tests, unless it says its precision.

On NVIDIA GPUs XLA rounds the elements of such matrices to 11 bits if nothing else is asked for; on CPUs, where tests
usually run, it does not. What JAX has traced before, for others' code with matrices of the same shapes, is not seen.
"""

import contextlib
import sys
from pathlib import Path
from typing import Any

import jax
from jax.extend.core.primitives import dot_general_p

import jfstat

SINGLE = ("float32", "complex64")
OURS, JAX = (str(Path(package.__file__).parent) for package in (jfstat, jax))
BETWEEN = (JAX, contextlib.__file__, "<frozen")
HIGHEST = jax.lax.Precision.HIGHEST
_bind = dot_general_p.bind


def _of_jfstat() -> bool:
    """Return whether the code that JAX was called from is jfstat's, not a test's or a user's function."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(BETWEEN):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(OURS)


def _checked_bind(*args: Any, **settings: Any) -> Any:
    precise = settings.get("precision") in (HIGHEST, (HIGHEST, HIGHEST))
    if not precise and any(str(x.dtype) in SINGLE for x in args) and _of_jfstat():
        raise AssertionError(
            f"a product of matrices {[f'{x.dtype}{list(x.shape)}' for x in args]} is rounded on GPUs: give "
            "precision=PRECISE, from jfstat.maths.arrays."
        )
    return _bind(*args, **settings)


def refuse_rounded_products() -> None:
    """Check all products of matrices from now on, as they are traced."""
    dot_general_p.bind = _checked_bind
