"""Checkpoints on an object store (SeaweedFS): copied, read, exported and copied back."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ridgeline.api.support.files import resolve, use_s3
from ridgeline.cli.main import app
from ridgeline.engine.driver.checkpoint.upkeep.contents import describe, runs_of, verify
from ridgeline.engine.driver.checkpoint.upkeep.copying import copy
from ridgeline.engine.driver.checkpoint.upkeep.exporting import export_states
from ridgeline.testing import run_local
from support import services
from support.paths import SUPPORT
from support.rewound import LAST, application
from support.services.fixtures import ready

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """A folder that `s3a:` leads to."""
    store = ready(services.seaweedfs)
    use_s3(
        {
            "access_key": store.KEY,
            "secret_key": store.SECRET,
            "endpoint_override": store.direct_endpoint.removeprefix("http://"),
            "scheme": "http",
            "region": store.REGION,
            "allow_bucket_creation": True,
        }
    )
    try:
        resolve("s3a://states")[0].create_dir("states")
        yield f"s3a://states/{uuid.uuid4().hex}"
    finally:
        use_s3({})


def test_a_checkpoint_goes_to_a_store_and_back(tmp_path: Path, bucket: str) -> None:
    tmp_path.chmod(0o700)
    run_local(application(), windows=LAST + 1, checkpoint=tmp_path / "state")
    copy(str(tmp_path / "state"), f"{bucket}/copy")
    [there] = runs_of(f"{bucket}/copy")
    assert not verify(there).faults
    assert describe(there).windows[0].window_id == LAST
    words = ["validate", f"{SUPPORT / 'rewound.py'}:application", "--against", f"{bucket}/copy"]
    judged = CliRunner().invoke(app, words)
    assert (judged.exit_code, f"window {LAST}:" in judged.stdout) == (0, True), judged.output

    export_states(f"{bucket}/copy", tmp_path / "far")
    export_states(str(tmp_path / "state"), tmp_path / "near")
    for one in (tmp_path / "near").glob("*.parquet"):
        assert pq.read_table(tmp_path / "far" / one.name).equals(pq.read_table(one)), one.name

    copy(f"{bucket}/copy", str(tmp_path / "back"))
    rest = sorted(run_local(application(), checkpoint=tmp_path / "state").collected("sink"))
    assert sorted(run_local(application(), checkpoint=tmp_path / "back").collected("sink")) == rest
