"""Count the modules that a template enters on its way through `twoF_band`, and a small table through `refine`.

`python docs/rooms.py` prints, for a first call of each, how many modules of jfstat run functions ("rooms") and how
often a function calls one of a module that stands higher in architecture.py's ORDER ("climbs"), with their names.
Functions of other libraries in between, such as JAX's transformations, do not count: a call is from the last function
of jfstat before them. `jax.lax` calls some functions more than once, so climbs differ a little between versions of JAX.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import jax
from architecture import ORDER, node_of

import jfstat

HOME = Path(jfstat.__file__).parent


def module_of(frame: FrameType) -> str | None:
    """Name of a frame's module without the leading "jfstat."; None for other libraries and for imports."""
    code = frame.f_code
    if code.co_name == "<module>" or not code.co_filename.startswith(f"{HOME}/"):
        return None
    parts = Path(code.co_filename).relative_to(HOME).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__") or "jfstat"


def count(function: Callable[[], Any]) -> tuple[Counter[str], Counter[tuple[str, str]]]:
    """How often each module is entered from another during a call, and each climb: (lower module, higher one)."""
    rooms: Counter[str] = Counter()
    climbs: Counter[tuple[str, str]] = Counter()

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or (module := module_of(frame)) is None:
            return
        caller = frame.f_back
        while caller is not None and module_of(caller) is None:
            caller = caller.f_back
        before = None if caller is None else module_of(caller)
        if before == module:
            return
        rooms[module] += 1
        if before is not None and ORDER.index(node_of(module)) > ORDER.index(node_of(before)):
            climbs[before, module] += 1

    sys.setprofile(watch)
    try:
        function()
    finally:
        sys.setprofile(None)
    return rooms, climbs


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    start = 1167458304
    point = jfstat.Doppler(2.1, 0.47, [100.01, -1e-10], start)
    sfts = jfstat.simulate_sfts(["H1", "L1"], start, 86400, fmin=99, fmax=101, sqrt_sx=4e-24, seed=1)
    data = jfstat.prepare(sfts, fmin=100.0, fmax=100.02)
    table = jfstat.search(data, jax.tree.map(lambda x: x[None], point), top=2, progress=False)
    jax.clear_caches()
    for function, arguments in ((jfstat.twoF_band, (data, point)), (jfstat.refine, (data, table))):
        rooms, climbs = count(partial(function, *arguments))
        print(f"{function.__name__}: {len(rooms)} rooms, entered {rooms.total()} times, {climbs.total()} climbs")
        print("  rooms:", ", ".join(sorted(rooms)))
        print("  climbs:", ", ".join(f"{a} -> {b} ({n})" for (a, b), n in sorted(climbs.items())) or "none")


if __name__ == "__main__":
    main()
