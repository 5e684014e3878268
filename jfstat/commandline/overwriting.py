"""Which files a command line reads and which it writes: none may be both or written twice, and all can be written."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from jfstat.atomic import check_directory
from jfstat.files import overwritten, text_of

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments

WRITTEN = (
    *(
        "outputFstat",
        "outputLoudest",
        "outputTransientStats",
        "outputTrack",
        "outputGrid",
        "outputBackground",
        "outputTiming",
    ),
    *("outputTransientStatsAll", "outputPSD", "plot", "spectrogram", "output", "checkpoint"),
)
"""Options that each name a file to write."""
DIRECTORIES = ("outdir", "outSFTdir", "outFrameDir", "output_directory", "outDir", "sft_write_path")
"""Options that name a directory for SFT files; the names in it are known, and checked, only when they are written."""
BASES = ("outputFstatAtoms",)
"""Options with which the names of files to write begin."""


def check_files(arguments: Arguments) -> None:
    """Raise an error if a command line would write over a file that it reads, or one file twice, or cannot write one.

    Raises
    ------
    OSError
        If a directory for SFT files cannot be made or written to.
    ValueError
    """
    options = {name: path for name in WRITTEN if (path := arguments.given.get(name)) is not None}
    for name, path in options.items():
        try:
            os.stat(path)
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:  # a name that no file can have, a folder that may not be entered
            raise ValueError(f"--{name} cannot be written to ({error}): choose another file.") from None
    for name in DIRECTORIES:
        if arguments.given.get(name) is not None:
            check_directory(arguments.given[name])
    places = [(os.path.realpath(path), name) for name, path in options.items()]
    names = dict(places)
    for place, name in places:
        if names[place] != name:
            raise ValueError(f"--{name} and --{names[place]} are one file, {options[name]}: give two.")
    outputs = {Path(path): name for name, path in options.items()}
    for name in BASES:
        if name in arguments.given:
            outputs |= {Path(path): name for path in glob.glob(glob.escape(arguments.given[name]) + "_*.dat")}
    lost = overwritten(outputs, _inputs(arguments))
    if lost is not None:
        raise ValueError(f"--{outputs[lost]} would replace {lost}, which is read too: choose another file.")


def inputs_of(arguments: Arguments) -> list[Path]:
    """Return all files that the options of a command line name to be read, which does not count as reading these."""
    return list(_inputs(arguments))


def _inputs(arguments: Arguments) -> Iterator[Path]:
    given = arguments.given | {"config": arguments.config}
    return (Path(name) for option in READ if option in given for name in _named(given[option], READ[option]))


def _named(value: str | Path | list[str], suffixes: tuple[str, ...]) -> Iterator[str]:
    """Yield the files that an option may mean, whatever its form.

    That is by name, as ``H1:name`` or ``Z1=name``, several in a row, by patterns, by folders, of which files with some
    suffixes count, by ``list:name``.
    """
    for word in value if isinstance(value, list) else [str(value)]:
        for part in (word, *map(str.strip, re.split(r"[,;]", word))):
            for name in filter(None, (part, part.partition(":")[2], part.partition("=")[2])):
                yield from [name] if os.path.isfile(name) else glob.glob(name)
                if os.path.isdir(name):
                    yield from (os.path.join(name, own) for own in os.listdir(name) if own.endswith(suffixes))
            if part.startswith("list:"):
                yield from _lines(part.removeprefix("list:"))


def _lines(path: str) -> Iterator[str]:
    """Yield the files that a list names."""
    with suppress(OSError, ValueError):  # whoever reads it says what is wrong with it
        for line in filter(str.strip, text_of(path).splitlines()):
            yield re.sub("^file://(localhost)?", "", line.strip())


READ: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("DataFiles", "noiseSFTs", "inputData", "sftDir", "SFTfiles"), (".sft",)),
    **dict.fromkeys(("frame_files", "inFrames"), (".gwf", ".hdf5", ".h5", ".hdf")),
    "file_pattern": (".SFDB09", ".sfdb09", ".SFDB", ".sfdb"),
    "par": (".par",),
    **dict.fromkeys(
        (
            *("frame_cache", "segment_file", "segmentList", "candidates", "ephemEarth", "ephemSun", "gridFile"),
            *("timestampsFiles", "linefiles", "detectorFiles", "files", "injectionSources", "artefacts", "config"),
        ),
        (),
    ),
}
"""Options that name files to read, and the suffixes of those that each reads of a folder."""
