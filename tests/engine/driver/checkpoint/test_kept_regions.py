"""The checkpoint of an application with regions, and exported states, as an earlier version wrote them."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ridgeline import SystemClock
from ridgeline.engine.driver.checkpoint.planning import Planner
from ridgeline.engine.driver.checkpoint.upkeep.contents import runs_of, verify
from ridgeline.engine.driver.checkpoint.upkeep.importing import Listing, import_states
from ridgeline.plan.planner import plan_application
from ridgeline.regions.importing import region_to_import
from ridgeline.testing import run_local
from support.engine.write_kept_regions import STOPPED_AFTER, application
from support.paths import SUPPORT

ARCHIVES = sorted((SUPPORT / "engine").glob("kept-regions-*.tar.xz"))


def planner_of(planned: Any, _scope: Any) -> Planner:
    def plan(kept: Any = (), kept_edits: Any = (), edits: Any = ()) -> Any:
        return plan_application(planned, edits=edits, kept=kept_edits)

    return Planner(plan, {})


@pytest.mark.parametrize("more", [0, 1000])
@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda one: one.name)
def test_regions_continue_and_take_their_states(tmp_path: Path, archive: Path, more: int) -> None:
    tmp_path.chmod(0o700)
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    state, rows = tmp_path / "state", tmp_path / "rows"
    for one in [state, *(one for one in state.rglob("*") if one.is_dir())]:
        one.chmod(0o700)
    assert [verify(run).faults for run in runs_of(str(state))] == [[], []]
    if more:
        path = rows / "totals.sums.parquet"
        held = pq.read_table(path)
        values = pa.array([one + more for one in held["value"].to_pylist()], held.schema.field("value").type)
        pq.write_table(held.set_column(held.schema.get_field_index("value"), "value", values), path)
        app = application()
        whole = plan_application(app)
        one = region_to_import(app, whole, planner_of, str(state), Listing(rows), ["totals"], None)
        assert one is not None
        import_states(
            one.folder,
            rows,
            one.plan,
            one.planner,
            SystemClock(),
            operators=["totals"],
            region=one.name,
        )
    first = 4 * STOPPED_AFTER
    sums = {key: more + sum(n for n in range(first) if n % 3 == key) for key in range(3)}
    wanted = []
    for n in range(first, 40):
        sums[n % 3] += n
        wanted.append((n % 3, sums[n % 3]))
    assert sorted(run_local(application(), checkpoint=state).collected("sink")) == sorted(wanted)


def test_an_archive_is_there() -> None:
    assert ARCHIVES
