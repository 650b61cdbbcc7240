"""Files that are complete or not there, and folders of one process."""

import errno
import subprocess
import sys

import pytest

from sweeps import files
from sweeps.errors import StoreError
from sweeps.files import atomic_file, exclusive_folder


def test_an_existing_file_is_replaced_only_at_the_end(tmp_path):
    path = tmp_path / "out.parquet"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_file(path) as file:
        file.write(b"new" * (1 // 0))
    assert path.read_text() == "old"
    with atomic_file(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_has_the_rights_of_any_other(tmp_path):
    (tmp_path / "other").write_text("")
    with atomic_file(tmp_path / "out"):
        pass
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_what_is_renamed_is_on_the_disk(tmp_path, monkeypatch):
    order = []
    really = files.os.fsync, files.os.replace
    monkeypatch.setattr(files.os, "fsync", lambda fd: order.append("fsync") or really[0](fd))
    monkeypatch.setattr(files.os, "replace", lambda a, b: order.append("rename") or really[1](a, b))
    with atomic_file(tmp_path / "out"):
        pass
    assert order[:2] == ["fsync", "rename"]  # and then the folder, where it can be


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing/out.parquet", "cannot be written: No such file or directory"),
        ("file/out.parquet", "cannot be written: Not a directory"),
        ("", "is a folder; name a file in it, such as "),
    ],
)
def test_places_that_cannot_be_written(tmp_path, name, reason):
    (tmp_path / "file").write_text("")
    path = tmp_path / name
    with pytest.raises(StoreError) as caught, atomic_file(path):
        pytest.fail("nothing may run before this is known")
    assert str(caught.value).startswith(f"{path}: {reason}")
    assert isinstance(caught.value, OSError)


def test_a_disk_that_is_full_in_the_end(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    no_space = pytest.raises(StoreError, match="out: cannot be written: No space left on device")
    with no_space, atomic_file(tmp_path / "out") as file:
        file.write(b"something")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_has_one_process(tmp_path):
    folder, output = tmp_path / "out.parts", tmp_path / "out"
    code = (
        "import sys, pathlib; from sweeps.files import exclusive_folder\n"
        "with exclusive_folder(pathlib.Path(sys.argv[1]), pathlib.Path('out')):\n"
        "    print('held', flush=True); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as other:
        assert other.stdout.readline() == b"held\n"
        refused = pytest.raises(StoreError, match="out: another sweep is writing it")
        with refused, exclusive_folder(folder, output):
            pass
        other.kill()
        other.wait()
        with exclusive_folder(folder, output):  # the lock has ended with the process
            pass
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_in_it_stays(tmp_path):
    with exclusive_folder(tmp_path / "out", tmp_path / "out"):
        (tmp_path / "out" / "part").write_text("")
    with exclusive_folder(tmp_path / "out", tmp_path / "out"):
        pass
    assert (tmp_path / "out" / "part").exists()


def test_a_folder_that_cannot_be_made(tmp_path):
    missing = tmp_path / "missing"
    refused = pytest.raises(StoreError, match="out: cannot be written: No such file or directory")
    with refused, exclusive_folder(missing / "parts", missing / "out"):
        pytest.fail("nothing may run before this is known")
