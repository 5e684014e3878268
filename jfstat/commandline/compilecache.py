"""The program's cache of compiled programs, in the user's cache folder."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from jfstat.processor import processor_kind

LARGEST = 2 << 30
"""Size of the cache in bytes, beyond which what was not used for longest is removed."""


def use_compile_cache() -> None:
    """Keep compiled programs for the next call, unless the user has said where JAX keeps them or that it must not.

    Programs for a processor may not run on another, so each kind of machine and version of JAX has a folder of its own:
    home folders may be shared. Nothing happens where the folder cannot be written.
    """
    import jax
    from jaxlib.version import __version__ as jaxlib_version

    # JAX's settings have no types
    chosen, wanted = (getattr(jax.config, f"jax_{x}") for x in ("compilation_cache_dir", "enable_compilation_cache"))
    if chosen is not None or not wanted:
        return
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = root / "jfstat" / f"jax-{jax.__version__}-{jaxlib_version}-{processor_kind()[1]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return
    if not os.access(folder, os.W_OK):
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    if find_spec("filelock") is not None:  # JAX needs it to keep a limit
        jax.config.update("jax_compilation_cache_max_size", LARGEST)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
