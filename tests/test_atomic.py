"""Files that are replaced whole or not at all."""

import os

import pytest

from jfstat.atomic import replacing


def test_content_reaches_the_disk_before_the_name_and_the_name_before_the_end(tmp_path, monkeypatch):
    """A power cut at any moment then leaves the old file or the new one, never an empty one."""
    calls, fsync, replace = [], os.fsync, os.replace

    def seen_fsync(descriptor):
        is_directory = os.path.isdir(f"/proc/self/fd/{descriptor}")
        size = os.fstat(descriptor).st_size
        calls.append("sync directory" if is_directory else f"sync {size} bytes")
        fsync(descriptor)

    def seen_replace(source, target):
        calls.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", seen_fsync)
    monkeypatch.setattr(os, "replace", seen_replace)
    path = tmp_path / "file"
    with replacing(path) as file:
        file.write(b"content")
    assert calls == ["sync 7 bytes", "rename", "sync directory"]
    assert path.read_bytes() == b"content"


def test_a_file_system_that_cannot_sync_directories_will_do(tmp_path, monkeypatch):
    fsync = os.fsync

    def refusing(descriptor):
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(22, "Invalid argument")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", refusing)
    with replacing(tmp_path / "file") as file:
        file.write(b"content")
    assert (tmp_path / "file").read_bytes() == b"content"


@pytest.mark.parametrize("where", ["block", "sync"])
def test_an_error_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, where):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    if where == "sync":
        monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"), replacing(path) as file:
        file.write(b"new")
        if where == "block":
            raise OSError(28, "No space left on device")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]
