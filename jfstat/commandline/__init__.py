"""The program `jfstat`; each subcommand has a module."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from jfstat.commandline.interruption import INTERRUPTED, MESSAGE, leaving_at_once, never_lost
from jfstat.commandline.streams import lenient_streams

if TYPE_CHECKING:
    from jfstat.commandline.parser import Parser

SUBCOMMANDS = (
    "demo",
    "make-sfts",
    "hardware-injections",
    "simulate",
    "search",
    "search-pulsars",
    "points",
    "track",
    "track-power",
    "merge",
    "refine",
    "follow-up",
    "predict",
    "upper-limit",
    "psd",
    "convert-sfdb",
    "split-sfts",
    "clean-sfts",
    "validate-sfts",
    "dump-sfts",
    "benchmark",
)
"""Modules, with underscores for hyphens. Each has ``add_parser(subparsers)``, whose parser sets ``plan`` to a function
that reads all options of any effect and returns the work to do. Only those that are needed are imported."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; the installed command `jfstat` exits with what this returns.

    It sets JAX to 64 bits, which a library must not do but a program may.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; those of the process if None.

    Returns
    -------
    int
        0; 1 after one line ``jfstat: error: ...`` on stderr, also if all is done and only stdout could not be written;
        130 if interrupted; 128 + signal after a search that stopped at a checkpoint.
    """
    with lenient_streams() as output:
        status = _run(_join_negative(sys.argv[1:] if argv is None else argv), argv is None)
        output.flush()
        if status == 0 and output.failure is not None:
            reason = output.failure.strerror or output.failure
            return _complain(f"standard output cannot be written ({reason}); files are as they should be")
        return status


def _noted(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """Print a warning to users as a note; others, which are for developers, with the line of the program that gave
    it."""
    meant = issubclass(category, (UserWarning, FutureWarning))
    text = message if meant else warnings.formatwarning(message, category, *where[:2]).rstrip()
    print(f"jfstat: note: {text}", file=sys.stderr)


def _run(words: list[str], as_program: bool) -> int:
    """Parse the words, do what they say, and return the exit status.

    Most is imported here, so that an interruption of that, which takes a second, is told like others.
    """
    arguments = None
    try:
        from jfstat.commandline.parser import UsageError

        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # XLA's remarks on the processor, before JAX is imported
        with leaving_at_once() if as_program else nullcontext():
            arguments = _parser(words[0] if words else "").arguments(words)
            import jax

            from jfstat.commandline.heap import keep_freed_memory
            from jfstat.compilecache import use_usual_cache

            jax.config.update("jax_enable_x64", True)
            use_usual_cache()
            if as_program:
                keep_freed_memory()
                warnings.showwarning = _noted
            from jfstat.commandline.overwriting import check_files
        with never_lost() if as_program else nullcontext():
            work = arguments.plan(arguments)
            check_files(arguments)
            arguments.seal()  # refuses options of no effect, before anything is written
            work()
    except SystemExit as request:  # --help and --version
        return int(request.code or 0)
    except KeyboardInterrupt as stopped:
        if not hasattr(stopped, "signal"):
            return _complain(MESSAGE, INTERRUPTED)
        print(f"jfstat: {stopped}", file=sys.stderr)  # a SearchStopped, whose module may not be imported
        return 128 + stopped.signal  # type: ignore[attr-defined]
    except UsageError as error:
        return _complain(f"{error} (see jfstat {error.command}--help)")
    except MemoryError:
        return _complain("there is not enough memory: search a narrower band, or fewer templates at a time.")
    except (ValueError, OSError) as error:
        from jfstat.commandline.messages import in_options

        return _complain(str(error) if arguments is None else in_options(str(error), arguments))
    except Exception as error:
        # users get one line; developers get the traceback by JFSTAT_TRACEBACK=1
        if os.environ.get("JFSTAT_TRACEBACK"):
            raise
        return _complain(f"{type(error).__name__}: {error}")
    return 0


def _complain(message: str, status: int = 1) -> int:
    print("jfstat: error: " + " ".join(message.split()), file=sys.stderr)
    return status


def _parser(first: str = "") -> Parser:
    """The program's parser; if the first word of the command line is a subcommand or --version, without the others."""
    from importlib import import_module

    from jfstat.commandline.parser import Parser
    from jfstat.version import __version__

    parser = Parser(prog="jfstat", description="The F-statistic for continuous gravitational waves, in JAX.")
    parser.add_argument("--version", action="version", version=f"jfstat {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="command", required=True)
    names = () if first == "--version" else (first,) if first in SUBCOMMANDS else SUBCOMMANDS
    for name in names:
        import_module(f"jfstat.commandline.{name.replace('-', '_')}").add_parser(subparsers)
    return parser


def _join_negative(argv: Sequence[str]) -> list[str]:
    """Join ``--option -1e-10`` and ``--Delta -5:30:00`` by "=": argparse would take the second words for options."""
    joined: list[str] = []
    for word in map(str, argv):
        if re.match(r"-[.\d]", word) and joined and re.fullmatch(r"--[^=]+", joined[-1]):
            joined[-1] += "=" + word
        else:
            joined.append(word)
    return joined
