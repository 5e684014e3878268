"""What all tests share: x64, strict promotion (silent mixing of precisions is how accuracy is lost), compiled programs.

Most of the suite's time is compilation, and many tests compile the same programs: JAX keeps them in a directory that
the workers of a run share with each other and with the programs that tests start. It is made anew for each run, because
a program compiled on one processor may not run on another; set JAX_COMPILATION_CACHE_DIR to keep it between runs.

They are also compiled quickly, with little optimization, which halves the time of the suite. Set XLA_FLAGS, to nothing
if you like, to have them compiled as users do: `.ci/run` runs modules that check numbers once more in that way. Tests
that are marked `compiled` run in no other: they ask for the same bits of different programs, which depend on it.
"""

import atexit
import ctypes
import gc
import os
import platform
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

QUICKLY = (
    "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
)
if platform.machine() in ("x86_64", "AMD64"):
    QUICKLY += " --xla_cpu_max_isa=SSE4_2"  # shorter vectors compile in less time
KNOWN = ("0.9.", "0.10.")
"""Versions of jaxlib that have these flags: others would stop at them. Newer ones compile as users do in any case."""

if "XLA_FLAGS" not in os.environ and version("jaxlib").startswith(KNOWN):  # workers find it set
    os.environ["XLA_FLAGS"] = QUICKLY

if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # workers find it set
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="jfstat-tests-")
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # or XLA writes a page about each program that it loads

import jax  # noqa: E402
import pytest  # noqa: E402
from precisions import refuse_rounded_products  # noqa: E402

from jfstat import tracecache  # noqa: E402
from jfstat.diskcache import DiskCache  # noqa: E402
from jfstat.searching.session import progress  # noqa: E402

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
refuse_rounded_products()


class NoCache(DiskCache):
    """A cache of nothing: tests change what functions are traced with, and share one directory."""

    def folder(self) -> Path | None:
        return None


tracecache.TRACED = NoCache(tracecache.TRACED.name, tracecache.TRACED.suffix, tracecache.TRACED.largest)

progress.FIRST_LINE = float("inf")  # tests read what commands print: on a slow machine lines of progress would join it

gc.set_threshold(200_000, 50, 100)  # tracing makes many small objects: looking for dead ones took an eighth of the time
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
MOST_MAPS = 40_000
"""Memory maps from which on a worker drops its compiled programs: each program takes some maps, a module of tests some
thousands, and Linux allows 65,530."""
MOST_MEMORY = 3 << 30
"""Resident memory, bytes, from which on a worker drops them, too: two workers must fit in a small machine."""
TESTS_BETWEEN = 8
"""Number of tests between two looks at a worker's memory and maps, which take some milliseconds."""
DEEPEST = 5000
"""Python's limit of nested calls. A worker of all tests marked ci once met that of 1000, for reasons unknown, in a
fixture that needs some 150 when it runs alone."""
LONGEST = [
    "package/test_settings",
    "package/test_wrong_kinds",
    "docs/test_notebooks",
    "engines/test_devices",
    "inference/test_timing_in_posteriors",
    "signal/test_phasemodel",
    "followup/test_follow_up",
    "data/test_added_signals",
    "docs/test_guides",
    "statistic/test_tapered_windows",
    "searching/test_properties",
    "tracking/test_tracking",
    "pulsars/test_targeted",
    "searching/test_transient_search",
    "statistic/test_transient_null",
    "commandline/test_transient_commandline",
    "package/test_tracecache",
    "statistic/test_windowed",
    "statistic/test_semicoherent",
    "data/test_shapes",
    "followup/test_refine_segments",
    "followup/test_refine",
    "data/test_dfreq",
    "engines/test_band",
    "geometry/test_motion",
    "searching/test_interpolating_search",
    "inference/test_bstat",
    "statistic/test_atoms",
    "searching/test_segment_search",
    "statistic/test_transients",
    "searching/test_loudest",
    "package/test_exporting",
    "searching/test_divided_search",
    "statistic/test_accuracy",
    "commandline/test_segment_commandline",
    "docs/test_physics_page",
    "engines/test_cuda",
    "tracking/test_path_limits",
    "tracking/test_viterbi",
]
"""Modules that take longest, with the tests marked ci, and begin first: one at the end would leave a worker idle."""
_tests_run = 0
sys.setrecursionlimit(max(DEEPEST, sys.getrecursionlimit()))


@pytest.fixture(autouse=True)
def few_compiled_programs():
    """Workers that compile thousands of programs end in a segmentation fault of XLA's compiler, out of memory maps."""
    global _tests_run
    yield
    _tests_run += 1
    if _tests_run % TESTS_BETWEEN == 0 and _too_much():
        jax.clear_caches()
        gc.collect()
        _trim()


def _too_much() -> bool:
    if not Path("/proc/self/maps").exists():  # not Linux
        return False
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * PAGE > MOST_MEMORY or Path("/proc/self/maps").read_bytes().count(b"\n") > MOST_MAPS


def _trim() -> None:
    """Give freed memory back to the system, which glibc keeps."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def pytest_sessionfinish():
    """At its end pytest collects garbage five times, seconds each after much compilation: once is enough."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by marks
def pytest_collection_modifyitems(items):
    places = {f"tests/{module}.py": i for i, module in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))
    for item in items:
        if item.get_closest_marker("slow"):  # a case of a test that is marked ci otherwise
            item.own_markers = [mark for mark in item.own_markers if mark.name != "ci"]
    if os.environ.get("XLA_FLAGS") == QUICKLY:
        skipped = pytest.mark.skip(reason="programs are compiled quickly: set XLA_FLAGS to compile them as users do")
        for item in items:
            if item.get_closest_marker("compiled"):
                item.add_marker(skipped)
