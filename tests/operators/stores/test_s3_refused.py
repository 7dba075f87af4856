"""Files in an S3 store that does not accept the user, or has no such bucket."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow.fs
import pytest

from ridgeline import Application, RidgelineError
from ridgeline.operators import FileInput
from ridgeline.testing import CollectorSink, run_local
from support.services import SeaweedFS
from support.services.fixtures import seaweedfs

__all__ = ["seaweedfs"]

pytestmark = pytest.mark.slow


class Row(NamedTuple):
    id: int


def rows(path: str) -> list[Row]:
    app = Application("rows")
    app.read("source", FileInput(path, Row, until="end")).write("sink", CollectorSink(Row))
    return run_local(app).collected("sink")


def test_who_is_refused_learns_what_to_do(seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting would not mend it."""
    bucket = seaweedfs.bucket()
    files, _ = pyarrow.fs.FileSystem.from_uri(seaweedfs.uri(bucket))
    with files.open_output_stream(f"{bucket}/in/a.jsonl") as file:
        file.write(b'{"id": 1}\n')
    for name, value in seaweedfs.addresses().items():
        monkeypatch.setenv(name, value)
    places = [f"s3://{bucket}/in/*.jsonl", f"s3://{bucket}/in", f"s3://{bucket}/in/a.jsonl"]
    for place in places:
        assert rows(place) == [(1,)]
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wr0ng-word")
    for place in places:
        with pytest.raises(RidgelineError, match="check the keys") as raised:
            rows(place)
        assert "wr0ng-word" not in str(raised.value)
