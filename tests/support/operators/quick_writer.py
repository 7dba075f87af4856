"""Another writer, into the folders of `SparkOutput`, and a folder that is moved meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from ridgeline import RidgelineError
from ridgeline.operators.spark_output import _Folders


class QuickWriter:
    """Hadoop's own file system. Around a call another writer makes the target again."""

    def __init__(self, files: Any, made: Any, when: str) -> None:
        self._files, self._made, self._when = files, made, when

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def delete(self, path: Any, recursive: bool) -> bool:
        done = self._files.delete(path, recursive)
        if self._when == "deleted":
            self._files.create(self._made).close()
        return bool(done)

    def rename(self, source: Any, target: Any) -> bool:
        if self._when == "moved":
            self._files.create(self._made).close()
        return bool(self._files.rename(source, target))


def moves_where_another_writes(spark: Any, folder: str, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Move a folder with a file to `window=0`. Nothing of it may be where no reader looks for it."""
    java = spark.sparkContext._jvm.org.apache.hadoop.fs
    beside, target = f"{folder}/_ridgeline-window=0-0", f"{folder}/window=0"
    own = _Folders(spark)
    files, _ = own._found(folder)
    for name in (f"{beside}/part.json", f"{target}/old.json"):
        files.create(java.Path(name)).close()
    own.replace(beside, target, "table")
    assert own.names(folder) == ["window=0"]
    assert own.names(target) == ["part.json"]
    files.create(java.Path(f"{beside}/part.json")).close()
    found = _Folders._found

    def quick(self: _Folders, place: str) -> tuple[Any, Any]:
        files, path = found(self, place)
        return QuickWriter(files, java.Path(f"{target}/other.json"), when if place == target else ""), path

    with monkeypatch.context() as patch:
        patch.setattr(_Folders, "_found", quick)
        with pytest.raises(
            RidgelineError, match=r"`table`: .*window=0-0` cannot be moved to `.*/window=0`: "
        ):
            own.replace(beside, target, "table")
    assert own.names(folder) == ["window=0"]
    assert own.names(target) == ["other.json"]
    files.create(java.Path(f"{beside}/part.json")).close()
    own.replace(beside, target, "table")
    assert own.names(target) == ["part.json"]
