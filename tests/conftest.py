"""What all tests share: x64, strict promotion (silent mixing of precisions is how accuracy is lost), compiled programs.

Most of the suite's time is compilation, and many tests compile the same programs: JAX keeps them in a directory that
the workers of a run share with each other and with the programs that tests start. It is made anew for each run, because
a program compiled on one processor may not run on another; set JAX_COMPILATION_CACHE_DIR to keep it between runs.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # workers find it set
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="jfstat-tests-")
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # or XLA writes a page about each program that it loads

import jax
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")

MOST_MAPS = 20_000
"""Memory maps from which on a worker drops its compiled programs: each takes some, and Linux allows 65,530."""


@pytest.fixture(autouse=True, scope="module")
def few_compiled_programs():
    """Workers that compile thousands of programs end in a segmentation fault of XLA's compiler, out of memory maps."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
