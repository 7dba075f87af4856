"""Checkpoints on an object store (moto): copied, read, exported, pruned, moved back and edited."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from ridgeline import CheckpointError, SystemClock
from ridgeline.api.support.files import resolve, use_s3
from ridgeline.engine.driver.checkpoint.planning import Planner
from ridgeline.engine.driver.checkpoint.upkeep import pruning
from ridgeline.engine.driver.checkpoint.upkeep.contents import describe, runs_of, verify
from ridgeline.engine.driver.checkpoint.upkeep.copying import copy, move
from ridgeline.engine.driver.checkpoint.upkeep.exporting import export_states
from ridgeline.engine.driver.checkpoint.upkeep.importing import import_states
from ridgeline.plan.planner import plan_application
from ridgeline.testing import run_local, services
from ridgeline.testing.services.fixtures import ready
from support.rewound import LAST, application

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """A folder that `s3a:` leads to."""
    store = ready(services.moto)
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


def test_a_checkpoint_goes_to_a_store_and_back_with_edited_states(tmp_path: Path, bucket: str) -> None:
    tmp_path.chmod(0o700)
    run_local(application(), windows=LAST + 1, checkpoint=tmp_path / "state")
    copy(str(tmp_path / "state"), f"{bucket}/copy")
    [there] = runs_of(f"{bucket}/copy")
    assert not verify(there).faults
    assert describe(there).windows[0].window_id == LAST

    export_states(f"{bucket}/copy", tmp_path / "far")
    export_states(str(tmp_path / "state"), tmp_path / "near")
    for one in (tmp_path / "near").glob("*.parquet"):
        assert pq.read_table(tmp_path / "far" / one.name).equals(pq.read_table(one)), one.name

    def plan(kept: Any = (), kept_edits: Any = (), edits: Any = ()) -> Any:
        return plan_application(application(), edits=edits, kept=kept_edits)

    def import_to(state: str) -> None:
        import_states(state, tmp_path / "far", plan(), Planner(plan, {}), SystemClock(), operators=["totals"])

    path = tmp_path / "far" / "totals.sums.parquet"
    rows = pq.read_table(path)
    more = pc.add(rows.column("value"), 1000)
    pq.write_table(rows.set_column(rows.column_names.index("value"), "value", more), path)
    import_to(f"{bucket}/copy")
    assert not verify(there).faults
    assert describe(there).windows[0].window_id > LAST
    with ExitStack() as locks:
        assert pruning.carry_out(pruning.find(f"{bucket}/copy", SystemClock(), locks, windows=2)) >= 0
    assert not verify(there).faults

    move(f"{bucket}/copy", str(tmp_path / "back"))
    with pytest.raises(CheckpointError, match="was moved to"):
        runs_of(f"{bucket}/copy")
    import_to(str(tmp_path / "state"))
    rest = sorted(run_local(application(), checkpoint=tmp_path / "state").collected("sink"))
    assert sorted(run_local(application(), checkpoint=tmp_path / "back").collected("sink")) == rest
    assert min(total for _, total in rest) > 1000
