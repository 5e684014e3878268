"""Files that are replaced whole or not at all."""

import os
from pathlib import Path

import pytest

import jfstat
from jfstat.atomic import check_writable, replacing, written_to


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


def test_links_are_followed_wherever_they_lead(tmp_path):
    """A link is how many keep their outputs on another disk: it stays, and the file is written there."""
    (tmp_path / "elsewhere").mkdir()
    for there in (True, False):
        target, link = tmp_path / "elsewhere" / f"file{there}", tmp_path / f"link{there}"
        if there:
            target.write_bytes(b"old")
        link.symlink_to(target)
        check_writable(link)
        written_to(link, b"new")
        assert link.is_symlink() and target.read_bytes() == b"new" and not target.is_symlink()
    assert sorted(os.listdir(tmp_path / "elsewhere")) == ["fileFalse", "fileTrue"]


def test_what_is_no_regular_file_is_never_replaced(tmp_path):
    """As root, a device would be replaced by a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    link = tmp_path / "link"
    link.symlink_to(pipe)
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for path, message in (
        ("/dev/null", "it is a device"),
        ("/dev/full", "it is a device"),
        (pipe, "it is a named pipe"),
        (link, "it is a named pipe"),
        (tmp_path, "Is a directory"),
        (tmp_path / "circle", "symbolic links"),
    ):
        before = os.lstat(path)
        for refuse in (lambda path=path: check_writable(path), lambda path=path: written_to(Path(path), b"x")):
            with pytest.raises(OSError, match=f"path .* cannot be written .*{message}"):
                refuse()
        assert os.lstat(path).st_ino == before.st_ino
    assert sorted(os.listdir(tmp_path)) == ["circle", "link", "pipe"]


@pytest.mark.ci
def test_a_checkpoint_may_be_a_link_to_where_no_file_is_yet(tmp_path):
    sfts = jfstat.simulate_sfts("H1", 1_167_458_304, 3600, 98.9, 101.1)
    data = jfstat.prepare(sfts, 100.0, 100.0001)
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "checkpoint"
    link.symlink_to(tmp_path / "elsewhere" / "checkpoint")
    point = jfstat.Doppler(1.0, 0.3, [100.0])
    first = jfstat.search(data, point, top=1, checkpoint=link, progress=False)
    assert link.is_symlink() and (tmp_path / "elsewhere" / "checkpoint").stat().st_size
    assert jfstat.search(data, point, top=1, checkpoint=link, progress=False)["twoF"] == first["twoF"]
    with pytest.raises(OSError, match=r"checkpoint '/dev/null' cannot be written .it is a device"):
        jfstat.search(data, point, top=1, checkpoint="/dev/null", progress=False)
