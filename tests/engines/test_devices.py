"""A search on several devices of one process gives the table of one device."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "several_devices.py"


@pytest.mark.parametrize(
    "what",
    [
        "all_of_them",
        pytest.param("out_of_memory", marks=pytest.mark.ci),
        pytest.param("every_kind", marks=pytest.mark.slow),
    ],
)
def test_several_devices(what):
    done = subprocess.run(
        [sys.executable, PROGRAM, what],
        env={
            **os.environ,
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=3",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
