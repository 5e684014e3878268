"""Compile CUDA C++ with NVRTC, NVIDIA's run-time compiler, which is installed with JAX for GPUs."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from jfstat.engines.cuda.errors import CudaError

MOST_OF_LOG = 300
"""Number of characters of the compiler's log that an error message repeats."""


@cache
def library() -> ctypes.CDLL:
    """Return NVRTC, from NVIDIA's Python packages, a CUDA toolkit or the system.

    Raises
    ------
    CudaError
        If there is none.
    """
    for path in _candidates():
        try:
            # it looks for this one by name only, which works once it is loaded
            for builtins in sorted(path.parent.glob("libnvrtc-builtins.so*")):
                ctypes.CDLL(str(builtins))
            return ctypes.CDLL(str(path))
        except OSError:
            continue
    for name in ("libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise CudaError("NVIDIA's run-time compiler NVRTC is not installed: pip install 'jax[cuda12]' or 'jax[cuda13]'")


def _candidates() -> list[Path]:
    """Return files that may be NVRTC."""
    package = find_spec("nvidia")
    roots = [Path(root) for root in (package.submodule_search_locations or ())] if package else []
    folders = [folder for root in roots for folder in sorted(root.glob("*/lib"), reverse=True)]
    folders += [Path(root) / "lib64" for root in (os.environ.get("CUDA_HOME"), "/usr/local/cuda") if root]
    found = [file for folder in folders for file in sorted(folder.glob("libnvrtc.so*"))]
    return [file for file in found if "alt" not in file.name]


@cache
def version() -> str:
    """Return NVRTC's version, such as ``12.9``."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "nvrtcVersion")
    return f"{major.value}.{minor.value}"


def compiled(source: str, headers: Mapping[str, str], architecture: str, options: Sequence[str] = ()) -> bytes:
    """Return the machine code of a source for an architecture such as ``sm_90``.

    Raises
    ------
    CudaError
        If it cannot be compiled.
    """
    nvrtc, program = library(), ctypes.c_void_p()
    names, texts = (_strings(list(x)) for x in (headers.keys(), headers.values()))
    _check(
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", len(headers), texts, names),
        "nvrtcCreateProgram",
    )
    try:
        arguments = [f"--gpu-architecture={architecture}", "--std=c++17", "-default-device", *options]
        if nvrtc.nvrtcCompileProgram(program, len(arguments), _strings(arguments)):
            log = (
                _text(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
                .rstrip(b"\0")
                .decode(errors="replace")
            )
            raise CudaError(
                f"NVRTC {version()} cannot compile a kernel for {architecture}: {' '.join(log.split())[:MOST_OF_LOG]}"
            )
        return _text(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _strings(values: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * len(values))(*(value.encode() for value in values))


def _text(program: ctypes.c_void_p, size_of: ctypes._NamedFuncPointer, get: ctypes._NamedFuncPointer) -> bytes:
    size = ctypes.c_size_t()
    _check(size_of(program, ctypes.byref(size)), "asking for a size")
    text = ctypes.create_string_buffer(size.value)
    _check(get(program, text), "asking for a result")
    return text.raw


def _check(code: int, what: str) -> None:
    if code:
        raise CudaError(f"NVRTC fails with error {code} ({what})")
