"""Running a program on a CPU that JAX takes for two devices, for tests."""

import os
import subprocess
import sys
from pathlib import Path


def run_on_two_devices(program):
    """Run a program's text in a process of its own, which finds the modules beside this one."""
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    return subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"XLA_FLAGS": flags, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
