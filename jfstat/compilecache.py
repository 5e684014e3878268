"""Cache of compiled programs on disk."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from jfstat import kinds
from jfstat.atomic import made_directory
from jfstat.processor import processor_kind
from jfstat.public import public

LARGEST = 2 << 30
"""Size of the cache in bytes, beyond which what was not used for longest is removed."""


@public(folder=kinds.path)
def use_compile_cache(folder: str | os.PathLike | None = None) -> Path:
    """Keep programs on disk, where later processes find them: call it before the first computation.

    It sets JAX's persistent compilation cache for all programs of this process, jfstat's and others', those that
    compile fast included. In the folder ``jfstat-traced`` within it, programs of `search`, `refine` and `follow_up` are
    kept as they were traced, so that later processes need not trace them either: a first `refine` takes one second
    instead of eight. Programs with functions of the user's own (phase models, optimizers) are traced by each process,
    since these may change. A process runs what it finds in the folder, so others must not be able to write there.

    XLA says something about processors each time that it loads a program for a CPU: unless a level is set
    (``jax_logging_level``, or ``TF_CPP_MIN_LOG_LEVEL`` of 0 or 2), all messages of XLA's own are silenced; those of JAX
    are not. Programs for a processor may not run on another, so each kind of machine and each version of JAX has a
    folder of its own: home folders may be shared. The command line keeps its programs by itself.

    Parameters
    ----------
    folder : str or path, optional
        Where to keep programs. By default where JAX is told to keep them already (``JAX_COMPILATION_CACHE_DIR``), or
        in ``jfstat`` in the user's cache folder (``XDG_CACHE_HOME``, or ``~/.cache``).

    Returns
    -------
    Path
        The folder in which programs are kept.

    Raises
    ------
    OSError
        If the folder cannot be made or written.
    ValueError
        If JAX is told to keep nothing (``JAX_ENABLE_COMPILATION_CACHE``).

    Examples
    --------
    >>> folder = jfstat.use_compile_cache()  # doctest: +SKIP
    """
    from jfstat.diskcache import jax_cache

    chosen, wanted = jax_cache()
    if not wanted:
        raise ValueError("JAX's compilation cache is switched off (jax_enable_compilation_cache): switch it on.")
    _silence_loader()
    if folder is None and chosen is not None:
        _keep_all()
        return Path(chosen)
    return _kept_in(_usual_root() if folder is None else Path(folder))


def _keep_all() -> None:
    """Let JAX keep programs however fast they were compiled."""
    import jax

    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _kept_in(root: Path) -> Path:
    """Keep compiled programs in a folder; see `use_compile_cache`."""
    import jax
    from jax.experimental.compilation_cache import compilation_cache
    from jaxlib.version import __version__ as jaxlib_version

    own = made_directory(root / f"jax-{jax.__version__}-{jaxlib_version}-{processor_kind()[1]}", "folder")
    if not os.access(own, os.W_OK):
        raise PermissionError(f"folder {str(own)!r} cannot be written: choose another.")
    compilation_cache.reset_cache()  # which may be open in another folder
    jax.config.update("jax_compilation_cache_dir", str(own))
    if find_spec("filelock") is not None:  # JAX needs it to keep a limit
        jax.config.update("jax_compilation_cache_max_size", LARGEST)
    _keep_all()
    return own


def _silence_loader() -> None:
    """Silence XLA's own messages, of which each loaded program writes two; those of JAX are written as before."""
    import jax

    chosen = getattr(jax.config, "jax_logging_level", None)
    # JAX itself sets 1 as it is imported
    if chosen in (None, "NOTSET") and os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1") == "1":
        loggers = [logging.getLogger(name) for name in ("jax", "jaxlib")]
        levels = [logger.level for logger in loggers]
        for level in ("CRITICAL", chosen):  # which leaves XLA's level as it is
            jax.config.update("jax_logging_level", level)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def use_usual_cache() -> None:
    """Keep the command line's programs, unless the user has said where JAX keeps them or that it must not.

    Nothing happens where the usual folder cannot be written.
    """
    from jfstat.diskcache import jax_cache

    chosen, wanted = jax_cache()
    if chosen is None and wanted:
        with suppress(OSError):
            _kept_in(_usual_root())


def _usual_root() -> Path:
    """Return where programs are kept unless users say otherwise; an OSError if they have no home."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jfstat"
    except RuntimeError as error:
        raise FileNotFoundError(f"folder: {error}; name one.") from error
