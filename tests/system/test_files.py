"""Files are replaced as a whole, and a failure leaves the old one."""

from __future__ import annotations

import os

import pytest
import torch

from flashsac.runs.tree import save_tensors
from flashsac.system.files import append_line, make_folder, remove_tree, replacing, write_atomic, write_csv
from tests.helpers import full_disk


def test_a_file_is_replaced(tmp_path):
    file = tmp_path / "file.json"
    write_atomic(file, "ä")
    assert file.read_bytes() == "ä".encode()
    write_atomic(file, b"bytes")
    assert file.read_bytes() == b"bytes"
    assert os.listdir(tmp_path) == ["file.json"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    file = tmp_path / "video.mp4"
    file.write_text("old")

    def fail():
        with replacing(file) as temporary:
            assert temporary.suffix == ".mp4", "writers choose their format by the suffix"
            temporary.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["video.mp4"]


def test_a_table_is_written_as_a_whole_or_not_at_all(tmp_path):
    file = tmp_path / "table.csv"
    assert write_csv(file, ("name", "value"), iter([["a, b", 1], ["c", ""]])) == file
    assert file.read_bytes() == b'name,value\n"a, b",1\nc,\n'
    with pytest.raises(ZeroDivisionError):
        write_csv(file, ("name",), ([1 / number] for number in (1, 0)))
    assert file.read_bytes() == b'name,value\n"a, b",1\nc,\n'
    assert os.listdir(tmp_path) == ["table.csv"]


def test_links_and_devices_that_the_user_names_are_written_in_place(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_atomic(link, "new", in_place=True)
    assert link.is_symlink()
    assert target.read_text() == "new"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomic(pipe, "through", in_place=True)
    assert os.read(reader, 100) == b"through"
    os.close(reader)


def test_other_links_are_replaced_and_not_followed(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("somebody else's")
    link.symlink_to(target)
    (tmp_path / f".writing-{os.getpid()}-link").symlink_to(target)
    write_atomic(link, "ours")
    assert not link.is_symlink()
    assert (link.read_text(), target.read_text()) == ("ours", "somebody else's")


def test_a_link_to_a_folder_is_deleted_without_the_folder(tmp_path):
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    (folder / "file").write_text("")
    link.symlink_to(folder)
    remove_tree(link)
    assert not link.is_symlink()
    assert (folder / "file").exists()
    remove_tree(folder)
    remove_tree(folder)
    assert not folder.exists()


def test_half_a_line_is_removed_before_the_next(tmp_path):
    file = tmp_path / "rows"
    file.write_bytes(b"1\n" + b"2" * 10_000)  # by a process that was killed
    append_line(file, "3")
    assert file.read_text() == "1\n3\n"
    file.write_bytes(b"no line at all")
    append_line(file, "1")
    assert file.read_text() == "1\n"


def test_a_line_without_room_leaves_the_file_as_it_was(tmp_path):
    file = tmp_path / "rows"
    append_line(file, "1")
    with full_disk(5), pytest.raises(OSError, match="too large"):
        append_line(file, "2" * 10)
    assert file.read_text() == "1\n"


def test_modes_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomic(tmp_path / "file", "x")
        append_line(tmp_path / "rows", "x")
        make_folder(tmp_path / "folder")
        save_tensors({"x": torch.zeros(1)}, tmp_path / "tensors")
    finally:
        os.umask(before)
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()}
    assert modes == {"file": "0o640", "rows": "0o640", "folder": "0o750", "tensors": "0o640"}
