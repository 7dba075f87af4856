"""The conformance tests of `FileOutput`, in both ways to divide its rows."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ridgeline.connect.window_output import WindowOutput
from ridgeline.operators import FileOutput
from ridgeline.testing import ConnectorTarget, connector_checks

pytestmark = pytest.mark.slow


class Folder(ConnectorTarget):
    count = 0

    def __init__(self, above: Path, by: list[str] | None) -> None:
        Folder.count += 1
        self.path, self.by = above / str(Folder.count), by

    def output(self) -> WindowOutput:
        return FileOutput(self.path, format="jsonl", partition_by=self.by, roll_seconds=0)

    def rows(self) -> Sequence[Any]:
        found = []
        for path in self.path.rglob("*.jsonl"):
            if any(part.startswith(".") for part in path.relative_to(self.path).parts):
                continue
            folder = path.parent.name.partition("=")[2]
            found += [
                (row["id"], row.get("key", folder and int(folder)), row["text"], row["value"])
                for row in map(json.loads, path.read_text().splitlines())
            ]
        return found


@pytest.mark.parametrize("by", [None, ["key"]])
def test_files_are_exactly_once(tmp_path: Path, by: list[str] | None) -> None:
    assert connector_checks(lambda: Folder(tmp_path, by)).guarantee == "exactly once"
