"""The kind of this machine's processor, on which the last bits of results and compiled programs depend."""

from __future__ import annotations

import hashlib
import platform
import re
from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=1)
def processor_kind() -> tuple[str, str]:
    """Return this machine's processor model, without commas, and a short digest of model and instruction sets."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        own = sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    except OSError:
        own = [platform.processor()]
    model = next((line.partition(":")[2] for line in own if line.startswith("model name")), platform.machine())
    digest = hashlib.sha256("\n".join([platform.machine(), *own]).encode()).hexdigest()[:12]
    return re.sub(r"[\s,]+", " ", model).strip(), digest
