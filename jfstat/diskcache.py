"""Folders of jfstat's own within JAX's compilation cache, if JAX keeps one on disk."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import jax

from jfstat.atomic import replacing


def jax_cache() -> tuple[str | None, bool]:
    """Return where JAX is told to keep compiled programs, and whether it may."""
    # JAX's settings have no types
    folder, wanted = (getattr(jax.config, f"jax_{x}") for x in ("compilation_cache_dir", "enable_compilation_cache"))
    return folder, bool(wanted)


@dataclass(frozen=True)
class DiskCache:
    """Files under names that tell their contents from all others; a full or read-only disk costs time only.

    Parameters
    ----------
    name : str
        Of the folder.
    suffix : str
        Of the files, with its dot.
    largest : int
        Size of the folder in bytes, beyond which what was not used for longest is removed.
    """

    name: str
    suffix: str
    largest: int

    def folder(self) -> Path | None:
        """Return the folder, which may not be there yet; None if JAX keeps nothing, or not in a file system."""
        folder, wanted = jax_cache()
        return Path(folder) / self.name if folder and wanted and "://" not in folder else None

    def read(self, key: str) -> bytes | None:
        """Return what was written under a key, None if nothing was."""
        folder = self.folder()
        with suppress(OSError):
            if folder is not None:
                path = folder / f"{key}{self.suffix}"
                content = path.read_bytes()
                with suppress(OSError):
                    os.utime(path)
                return content
        return None

    def write(self, key: str, content: bytes) -> None:
        """Keep some bytes under a key, where the disk allows it."""
        folder = self.folder()
        with suppress(OSError):
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                with replacing(folder / f"{key}{self.suffix}") as file:
                    file.write(content)
                self._remove_oldest(folder)

    def _remove_oldest(self, folder: Path) -> None:
        """Remove what was not used for longest until the folder is half as large as it may be, if it is too large."""
        own = (self.suffix, ".part")  # what killed processes leave
        known = {path: path.stat() for path in folder.iterdir() if path.suffix in own}
        size = sum(x.st_size for x in known.values())
        if size > self.largest:
            for path in sorted(known, key=lambda x: known[x].st_mtime):
                if size <= self.largest // 2:
                    break
                path.unlink(missing_ok=True)
                size -= known[path].st_size
