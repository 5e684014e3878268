"""Compile kernels once, and keep their machine code on disk beside JAX's own compilation cache."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import TypeAlias

from jfstat.diskcache import DiskCache
from jfstat.engines.cuda import nvrtc

KEPT = DiskCache("jfstat-cuda", ".cubin", 256 << 20)
"""Machine code on disk."""
Constants: TypeAlias = tuple[tuple[str, int | float], ...]
"""Names and values of a source's constants."""


@lru_cache
def sources() -> Mapping[str, str]:
    """Return the texts of all sources by name."""
    folder = files("jfstat.engines.cuda") / "source"
    return {file.name: file.read_text() for file in folder.iterdir() if file.name.endswith((".cu", ".cuh"))}


def header(constants: Constants) -> str:
    """Return the header that defines constants."""
    lines = (f"constexpr {'int' if isinstance(x, int) else 'double'} {name} = {x!r};\n" for name, x in constants)
    return "#pragma once\n" + "".join(lines)


def key(source: str, constants: Constants, architecture: str) -> str:
    """Return a name that tells one kernel's machine code from all others."""
    parts = [source, header(constants), architecture, nvrtc.version(), *sorted(sources().values())]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def cubin(source: str, constants: Constants, architecture: str, stored: bool = True) -> bytes:
    """Return the machine code of a source for an architecture such as ``sm_90``, from the disk if it is `stored` there.

    Raises
    ------
    CudaError
        If it cannot be compiled.
    """
    name = key(source, constants, architecture)
    known = KEPT.read(name) if stored else None
    if known is not None:
        return known
    texts = sources()
    headers = {name: text for name, text in texts.items() if name.endswith(".cuh")}
    code = nvrtc.compiled(texts[source], {**headers, "constants.cuh": header(constants)}, architecture)
    KEPT.write(name, code)
    return code
