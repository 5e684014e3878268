"""Compile kernels once, and keep their machine code on disk beside JAX's own compilation cache."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

import jax

from jfstat.atomic import replacing
from jfstat.engines.cuda import nvrtc

FOLDER = "jfstat-cuda"
"""Name of the folder within JAX's compilation cache, if there is one."""
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
    folder = _folder()
    path = None if folder is None else folder / f"{key(source, constants, architecture)}.cubin"
    if path is not None and stored:
        with suppress(OSError):
            return path.read_bytes()
    texts = sources()
    headers = {name: text for name, text in texts.items() if name.endswith(".cuh")}
    code = nvrtc.compiled(texts[source], {**headers, "constants.cuh": header(constants)}, architecture)
    if path is not None:
        with suppress(OSError):  # a full or read-only disk costs time only
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as file:
                file.write(code)
    return code


def _folder() -> Path | None:
    folder, wanted = (getattr(jax.config, f"jax_{x}") for x in ("compilation_cache_dir", "enable_compilation_cache"))
    return Path(folder) / FOLDER if folder and wanted and "://" not in folder else None
