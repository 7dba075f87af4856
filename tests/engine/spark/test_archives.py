"""`--archives`: what Spark is told, and what is refused before anything starts."""

import tarfile
import zipfile

import pytest

from ridgeline.api.errors import PackageError
from ridgeline.engine.spark.archives import ARCHIVES, PYTHON, archive_settings

MASTER = "spark://host:7077"


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "env.tar.gz"
    with tarfile.open(path, "w:gz") as file:
        file.add(__file__, "bin/python")
    return path


def test_the_python_of_the_archive_runs_the_workers(archive, monkeypatch):
    expected = {ARCHIVES: f"{archive}#environment", PYTHON: "./environment/bin/python"}
    assert archive_settings(str(archive), MASTER, {}) == expected
    monkeypatch.chdir(archive.parent)
    assert archive_settings("env.tar.gz", "yarn", {}) == expected
    assert archive_settings("env.tar.gz#env", "local-cluster[2,1,1024]", {}) == {
        ARCHIVES: f"{archive}#env",
        PYTHON: "./env/bin/python",
    }


def test_other_archives_and_a_python_that_is_named_stay(archive):
    given = {ARCHIVES: "data.zip#data", PYTHON: "/opt/python"}
    assert archive_settings(str(archive), MASTER, given) == {ARCHIVES: f"data.zip#data,{archive}#environment"}


def test_a_uri_is_left_to_spark():
    found = archive_settings("hdfs:///envs/env.tar.gz#e", "yarn", {})
    assert found == {ARCHIVES: "hdfs:///envs/env.tar.gz#e", PYTHON: "./e/bin/python"}


@pytest.mark.parametrize(
    ("given", "master", "expected"),
    [
        ("env.tar.gz", "local[2]", "is for workers of a cluster, and `local[2]` has none; leave it out"),
        (
            "none.tar.gz",
            MASTER,
            "none.tar.gz` cannot be read: No such file or directory; make one: `venv-pack",
        ),
        ("env.rar", MASTER, "is no archive (.tar.gz, .tgz, .tar, .zip); make one"),
        ("env.tar.gz#../up", MASTER, "names no folder behind `#`; write `env.tar.gz#environment`"),
        ("damaged.tar.gz", MASTER, "damaged.tar.gz` is damaged or none: "),
        ("damaged.zip", MASTER, "damaged.zip` is damaged or none: "),
    ],
)
def test_what_is_refused(given, master, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("damaged.tar.gz", "damaged.zip"):
        (tmp_path / name).write_bytes(b"hello" * 300)
    with pytest.raises(PackageError) as caught:
        archive_settings(given, master, {})
    assert expected in str(caught.value)


def test_a_zip_file_will_do(tmp_path):
    with zipfile.ZipFile(tmp_path / "env.zip", "w") as file:
        file.writestr("bin/python", "")
    assert PYTHON in archive_settings(str(tmp_path / "env.zip"), MASTER, {})
