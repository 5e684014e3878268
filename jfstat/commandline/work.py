"""How a search is divided, stopped and resumed, and checks of the files that a command will write."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import jfstat
from jfstat.atomic import check_writable
from jfstat.commandline.spellings import OptionGroup, add

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments

TABLES = (".ecsv", ".hdf5", ".h5")
"""Suffixes of files that hold whole tables; others hold ComputeFstatistic_v2's text."""
WORK = (
    *("countTemplates", "checkpoint", "unit", "batchSize", "engine", "devices", "distributed"),
    *("coordinator", "numProcesses", "processId"),
)
MESSAGE_BYTES = 1000
"""Longest message that the first process sends to the others."""


@dataclass(frozen=True, eq=False)
class Division:
    """How the work is divided, and where its state is kept.

    Attributes
    ----------
    run : jfstat.Run
    checkpoint : str or None
    count_only : bool
        Whether only to say what the search would cost.
    together : bool
        Whether several processes search together.
    """

    run: jfstat.Run
    checkpoint: str | None
    count_only: bool
    together: bool

    @property
    def is_first(self) -> bool:
        """Whether this process writes and prints."""
        import jax

        return not self.together or jax.process_index() == 0

    def say(self, words: object) -> None:
        """Print, in the first process."""
        if self.is_first:
            print(words)


def add_work(group: OptionGroup, engines: bool = True) -> None:
    """Add the options for the division of the work, and for stopping and going on."""
    add(group, *(name for name in WORK if engines or name != "engine"))


def division_of(arguments: Arguments) -> Division:
    """Return how the work is divided; it is called before JAX computes anything.

    Raises
    ------
    ValueError
        If options contradict each other or are out of range.
    """
    if arguments.unit is not None and not str(arguments.outputFstat).endswith(TABLES):
        raise ValueError("--unit needs --outputFstat with .ecsv or .hdf5: jfstat merge reads these.")
    if arguments.unit is not None and arguments.distributed:
        raise ValueError("--unit and --distributed are two ways to divide the work: give one.")
    run = jfstat.Run(_mesh(arguments), arguments.batchSize, arguments.unit, getattr(arguments, "engine", None))
    return Division(run, arguments.checkpoint, arguments.countTemplates, arguments.distributed)


def _mesh(arguments: Arguments) -> Any:
    """Return the devices among which to divide the work; None for a single one."""
    import jax
    from jax.sharding import Mesh

    if arguments.distributed:
        jax.distributed.initialize(arguments.coordinator, arguments.numProcesses, arguments.processId)
        return Mesh(np.array(jax.devices()), ("templates",))
    for name in ("coordinator", "numProcesses", "processId"):
        if arguments.is_given(name):
            raise ValueError(f"--{name} goes with --distributed: give both.")
    if arguments.devices is None:
        return None
    devices = jax.local_devices()
    if not 0 <= arguments.devices <= len(devices):
        raise ValueError(f"--devices must be 0 to {len(devices)}, not {arguments.devices}: that many are here.")
    return Mesh(np.array(devices[: arguments.devices or None]), ("templates",))


def check_outputs(paths: Iterable[str | None], together: bool = False) -> None:
    """Check that files can be written, before the work that leads to them is done.

    Parameters
    ----------
    paths : iterable of str or None
        None for files that are not asked for.
    together : bool
        Whether several processes call this: the first checks, and all raise its error.

    Raises
    ------
    OSError
        If a file cannot be written.
    ValueError
        If one needs a package that is not installed.
    """
    wanted = [path for path in paths if path is not None]
    if not together:
        for path in wanted:
            _check(path)
        return
    import jax
    from jax.experimental.multihost_utils import broadcast_one_to_all

    problem = b""
    if jax.process_index() == 0:
        try:
            check_outputs(wanted)
        except (OSError, ValueError) as error:
            problem = str(error).encode()[:MESSAGE_BYTES]
    sent = np.frombuffer(problem.ljust(MESSAGE_BYTES), np.uint8)
    problem = np.asarray(broadcast_one_to_all(sent), np.uint8).tobytes().rstrip()
    if problem:
        raise OSError(problem.decode("utf-8", "replace"))


def _check(path: str) -> None:
    """Raise an error if a file cannot be written."""
    if Path(path).suffix.lower() in TABLES[1:] and find_spec("h5py") is None:
        raise ValueError(f"path {path!r} needs h5py, which is missing: install it or use .ecsv.")
    check_writable(path)


def write_all(*files: tuple[str | None, Callable[[str], object], str]) -> list[str]:
    """Write the files that are asked for, and return what to print of them once all is written.

    Parameters
    ----------
    files : (path, write, words)
        What to call with the path, and what it writes, in words; nothing is written where the path is None.
    """
    return [f"wrote {words} to {write(path)}" for path, write, words in files if path is not None]
