"""The source distribution and the wheel: the same bytes from everywhere, the one whole, the other without tests."""

import hashlib
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import jfstat

ROOT = Path(__file__).parents[2]
NAME = f"jfstat-{jfstat.__version__}"
EPOCH = 1796000000
"""Seconds since 1970 that a release takes from its commit."""

pytestmark = pytest.mark.ci


def build(source, output, umask, zone):
    """Both distributions of a source tree, made without network by the installed backend."""
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(EPOCH), "TZ": zone}
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(output), str(source)]
    old = os.umask(umask)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=output)
    finally:
        os.umask(old)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.name: path for path in output.iterdir()}


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return build(ROOT, tmp_path_factory.mktemp("first"), 0o022, "UTC")


@pytest.fixture(scope="module")
def unpacked(first, tmp_path_factory):
    """The tree of the source distribution, at another path and with other times of its files than the checkout's."""
    folder = tmp_path_factory.mktemp("elsewhere") / "unpacked"
    with tarfile.open(first[f"{NAME}.tar.gz"]) as archive:
        archive.extractall(folder, filter="data")
    tree = folder / NAME
    for path in tree.rglob("*"):
        os.utime(path, (1e9, 1e9))
    return tree


def test_another_build_in_another_place_has_the_same_bytes(first, unpacked, tmp_path):
    second = build(unpacked, tmp_path, 0o077, "Asia/Tokyo")
    assert {f"{NAME}.tar.gz", f"{NAME}-py3-none-any.whl"} == set(first) == set(second)
    for name, path in first.items():
        assert hashlib.sha256(path.read_bytes()).digest() == hashlib.sha256(second[name].read_bytes()).digest(), name


def test_the_source_distribution_is_the_whole_repository(unpacked):
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.split("\0")[:-1]
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a checkout of git")
    tracked = {name for name in listed if (ROOT / name).exists()}
    assert "tests/conftest.py" in tracked
    held = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    assert tracked <= held, sorted(tracked - held)[:5]
    hidden = {name for name in held if name.startswith(".")}
    assert hidden <= tracked, sorted(hidden - tracked)[:5]  # nothing of whoever builds it


def test_the_wheel_is_the_package_and_nothing_else(first):
    with zipfile.ZipFile(first[f"{NAME}-py3-none-any.whl"]) as wheel:
        held = {name for name in wheel.namelist() if not name.startswith(f"{NAME}.dist-info/")}
    package = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "jfstat").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert held == package
    assert {Path(name).suffix for name in held} == {".py", ".typed", ".csv", ".cu", ".cuh"}
    assert not [name for name in held if "test" in name]
