"""HDF5 files, read in a process of its own, which a damaged file may crash or keep busy; see `strain.hdf5worker`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import weakref
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock, Timer
from typing import Any

import numpy as np

from jfstat.files import opened, unreadable
from jfstat.strain.hdf5worker import READY

SECONDS = 10
"""Seconds of computing that a request may take, and those that each of its `SHARE` bytes may take more."""
SHARE = 10**7
START_SECONDS = 60
"""Seconds that the process may take until it is ready."""
WORKING = "JFSTAT_READS_HDF5"
"""Variable of the environment of such a process."""
NO_PYTHON = "a process of Python's own reads them, so set sys.executable to Python's path"


class HDF5Error(Exception):
    """What is wrong with an HDF5 file, as a part of a sentence."""


def described(path: Path, names: list[str]) -> dict[str, Any]:
    """Describe the datasets of a file that have these names.

    Returns
    -------
    dict
        For each name None if there is no such dataset, or a dict of its ``kind`` (NumPy's letter), ``type``,
        ``shape``, ``attributes`` (lists) and ``values`` (a list, or None if there are many).

    Raises
    ------
    OSError
        If the file cannot be opened.
    HDF5Error
        If it is damaged, or the values of a dataset are not all in it.
    ValueError
        If h5py is not installed.
    """
    return _asked(path, names, None)[0]


def part_of(path: Path, name: str, first: int, stop: int) -> np.ndarray:
    """Return values `first` up to `stop` of a dataset of one dimension; see `described` for errors."""
    reply, content = _asked(path, [name], (first, stop))
    x = np.frombuffer(content, reply["dtype"])
    if len(x) != stop - first:
        raise HDF5Error("it is damaged, or was replaced")
    return x


def _asked(path: Path, names: list[str], part: tuple[int, int] | None) -> tuple[dict[str, Any], bytearray]:
    """Return the reply to a request, and the bytes that follow it."""
    if find_spec("h5py") is None:
        raise ValueError("paths: HDF5 files need h5py: run pip install h5py.")
    try:
        opened(path).close()  # a named pipe would be waited for
    except OSError as error:
        raise unreadable(path, error) from error
    seconds = SECONDS + (0 if part is None else 8 * (part[1] - part[0]) // SHARE)
    task = {"path": str(path.absolute()), "names": names, "part": part}
    return _worker(os.getpid()).ask({"seconds": seconds, "task": task})


class _Worker:
    """A process that reads HDF5 files, and another one after it has died."""

    def __init__(self) -> None:
        self.lock, self.process = Lock(), None

    def ask(self, request: dict[str, Any]) -> tuple[dict[str, Any], bytearray]:
        with self.lock:
            idle = self.process
            reply, content = self._exchanged(request)
            if "died" in reply and idle is not None:  # something else may have ended it while it waited
                reply, content = self._exchanged(request)
        if "died" in reply:
            raise HDF5Error(_cause(reply["died"]))
        if "error" in reply:
            raise HDF5Error(reply["error"])
        return reply, content

    def _exchanged(self, request: dict[str, Any]) -> tuple[dict[str, Any], bytearray]:
        """Return a reply and the bytes that follow it; of a process that died, its exit status as ``died``."""
        process = self.process or self._start()
        self.process = None  # if anything interrupts the exchange, the process is of no use
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
            if not line.endswith(b"\n"):
                return {"died": process.wait()}, bytearray()
            reply: dict[str, Any] = json.loads(line)
            content = bytearray(8 * reply["n"] if "dtype" in reply else 0)
            if process.stdout.readinto(content) < len(content):  # type: ignore[attr-defined]
                return {"died": process.wait()}, bytearray()
            self.process = process
            return reply, content
        except BrokenPipeError:
            return {"died": process.wait()}, bytearray()
        finally:
            if self.process is None:
                _end(process)

    def _start(self) -> subprocess.Popen[bytes]:
        """Start a process that has said that it is ready."""
        paths = json.dumps([os.fspath(path) for path in sys.path]).encode() + b"\n"
        if WORKING in os.environ:  # a program that has Python built in would start itself without end
            raise ValueError(f"paths: HDF5 files cannot be read here: {NO_PYTHON}.")
        # -P: modules beside the program are not on its path; a session of its own: Ctrl-C is not for it
        command = [sys.executable or "python", "-P", str(Path(__file__).with_name("hdf5worker.py"))]
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=os.environ | {WORKING: "1"},
                start_new_session=True,
            )
        except OSError as error:
            raise ValueError(f"paths: HDF5 files cannot be read here ({error.strerror}): {NO_PYTHON}.") from error
        weakref.finalize(self, _end, process)
        assert process.stdin is not None and process.stdout is not None
        late = Timer(START_SECONDS, process.kill)
        late.start()
        try:
            # whatever else is loaded at the start of Python may print
            while (line := process.stdout.readline()) and line != READY:
                pass
            process.stdin.write(paths)
            process.stdin.flush()
        except BrokenPipeError:
            line = b""
        finally:
            late.cancel()
        if line != READY:
            _end(process)
            raise ValueError(f"paths: HDF5 files cannot be read here, {command[0]!r} does not answer: {NO_PYTHON}.")
        return process


@lru_cache(maxsize=1)
def _worker(process_id: int) -> _Worker:
    """Return the worker of this process; one that was forked does not share that of its parent."""
    return _Worker()


def _cause(status: int) -> str:
    """Say why a worker that had just started died, as a part of a sentence, given its exit status."""
    if status == -getattr(signal, "SIGXCPU", 0):
        return "it is damaged: HDF5's library does not come to an end with it"
    if status in [-getattr(signal, name, 0) for name in ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE", "SIGILL")]:
        return "it is damaged: HDF5's library crashed on it"
    return f"the process that reads it ended with status {status}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a worker."""
    for pipe in (process.stdin, process.stdout):
        try:
            if pipe is not None:
                pipe.close()
        except BrokenPipeError:  # what was written did not arrive
            pass
    process.kill()
    process.wait()
