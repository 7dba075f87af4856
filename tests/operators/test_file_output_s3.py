"""`FileOutput` on an object store, whose renames are copies: crashes, and two drivers that race."""

from __future__ import annotations

import json
import random
import threading
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow.fs
import pytest

from ridgeline.api.errors import FencedError
from ridgeline.operators import FileOutput
from support import services
from support.operators.publishing import Driver, Life, Steps, Store, die_at_any_step
from support.services.fixtures import ready
from support.waiting import PATIENCE_SECONDS

WINDOWS = 4


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """A bucket of an S3: the end of its URI names the server."""
    store = ready(services.seaweedfs)
    store.bucket("rows")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", store.KEY)
        patch.setenv("AWS_SECRET_ACCESS_KEY", store.SECRET)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        server = store.direct_endpoint.removeprefix("http://")
        yield f"scheme=http&endpoint_override={server}&region={store.REGION}&allow_bucket_creation=true"


class S3Store(Store):
    """A checkpoint whose drivers write to a folder of the bucket."""

    def __init__(self, bucket: str, partitions: int) -> None:
        super().__init__(Path("unused"), partitions)
        self.name = f"rows/{uuid.uuid4().hex}"
        self.uri = f"s3://{self.name}?{bucket}"
        self.files = pyarrow.fs.FileSystem.from_uri(self.uri)[0]

    def visible(self) -> list[int]:
        rows = []
        for info in self.files.get_file_info(pyarrow.fs.FileSelector(self.name, allow_not_found=True)):
            if info.is_file:
                with self.files.open_input_stream(info.path) as stream:
                    rows += [json.loads(line)["n"] for line in stream.read().splitlines()]
        return rows


def run(store: Store, output: FileOutput, steps: Steps | None = None) -> None:
    driver = Driver(store, output, steps)
    while len(store.manifests) < WINDOWS:
        driver.window()
    driver.publisher.close()


def race(store: Store, output: FileOutput, steps: Steps, errors: list[BaseException]) -> None:
    try:
        run(store, output, steps)
    except BaseException as error:  # noqa: BLE001  the test looks at it
        errors.append(error)


@pytest.mark.slow
def test_a_driver_that_dies_at_any_step(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch)

    def make(_survive: int) -> Life:
        store = S3Store(bucket, 2)
        output = FileOutput(path=store.uri, format="jsonl", roll_seconds=1)

        def finish() -> None:
            assert sorted(store.visible()) == store.committed

        return partial(run, store, output, steps), lambda: None, finish

    die_at_any_step(steps, make, most=200)


@pytest.mark.slow
def test_two_drivers_that_race_show_each_row_once(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch)
    chance = random.Random(1)
    fenced = 0
    for _ in range(20):
        store = S3Store(bucket, 1)
        output = FileOutput(path=store.uri, format="jsonl", roll_seconds=chance.choice([0, 1]))
        moment = chance.randrange(25)
        begin = threading.Event()
        errors: list[BaseException] = []

        def each(number: int, _what: str, moment: int = moment, begin: threading.Event = begin) -> None:
            if number >= moment:
                begin.set()

        steps.number, steps.each = 0, each
        first = threading.Thread(target=race, args=(store, output, steps, errors))
        first.start()
        assert begin.wait(PATIENCE_SECONDS)
        race(store, output, steps, errors)
        first.join()
        assert all(isinstance(error, FencedError) for error in errors), errors
        fenced += len(errors)
        run(store, output, steps)
        assert sorted(store.visible()) == store.committed
    assert fenced
