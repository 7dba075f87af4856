from pathlib import Path

import pyarrow.fs
import pytest

from ridgeline import RidgelineError
from ridgeline.api.support.files import is_local, local_path, resolve


@pytest.mark.parametrize(
    ("uri", "local"),
    [
        ("out", True),
        ("/tmp/out", True),
        ("file:/tmp", True),
        ("C:/out", True),
        ("s3a://b/k", False),
        ("hdfs:///x", False),
    ],
)
def test_paths_and_file_uris_are_local(uri, local):
    assert is_local(uri) is local


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("/a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b%20c", "/a/b c"),
        ("/a/b%20c", "/a/b%20c"),
        ("/a/../b", "/b"),
        ("~/x", f"{Path.home()}/x"),
    ],
)
def test_local_paths_are_absolute(uri, path):
    assert local_path(uri) == path


def test_relative_paths_are_relative_to_the_folder_one_is_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert local_path("out") == f"{tmp_path}/out"
    filesystem, path = resolve("out")
    assert isinstance(filesystem, pyarrow.fs.LocalFileSystem)
    assert path == f"{tmp_path}/out"


def test_an_unknown_scheme_is_reported():
    remedy = "give a path, or a URI such as `file:`, `s3a:` or `hdfs:`"
    with pytest.raises(RidgelineError, match=rf"^`nowhere://a/b` cannot be reached: .*; {remedy}"):
        resolve("nowhere://a/b")
