"""The endpoints about sources, sinks, and the windows for a rewind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any

from ridgeline.api.columns.dead_letter import NAME as DEAD_LETTERS
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import mask, mask_text
from ridgeline.connect.sink_publisher import SinkPublisher
from ridgeline.engine.driver.checkpoint.rewinding import offered
from ridgeline.engine.state import state_files
from ridgeline.measure.answers.operators import RecordAgeAnswer, RecordAgesAnswer
from ridgeline.measure.answers.progress import SourceDetailAnswer
from ridgeline.regions.joined_run import JoinedRun
from ridgeline.service.http.answers import CheckpointsAnswer, KeptWindowAnswer, SinkAnswer, SinksAnswer
from ridgeline.service.http.endpoint import AnswerError, Call, Rows, Within, found
from ridgeline.service.origin import Origin

if TYPE_CHECKING:
    from ridgeline.engine.driver.checkpoint.folder import Checkpoint
    from ridgeline.engine.driver.checkpoint.manifest import Manifest
    from ridgeline.engine.driver.run.run import ApplicationRun

NOT_KEPT = "not kept"
"""The protocol of a sink that is known from an event log alone."""
_PARTITION = re.compile(r"\[\d+\]$")


KEPT = Rows()


# Sinks ------------------------------------------------------------------------------------------------------


@KEPT.question("/sinks")
def _sinks(call: Call) -> SinksAnswer:
    """The output operators: where they write, what readers see, and how old that is."""
    watch, plan, publishers = call.watch, call.logical_plan, call.publishers
    topology = watch.topology
    ages, seen = watch.record_age(), {row["operator"]: row for row in watch.outputs()}
    sources = [stream["source"] for stream in plan["streams"]]
    read = {one["operatorName"] for one in sources if one["portName"] != DEAD_LETTERS}
    read -= {*seen, *(publishers or ())}
    letters = {node.name for node in topology.operators if node.kind in ("dead letters", "observer")}
    rows: list[SinkAnswer] = []
    for one in plan["operators"]:
        if (name := one["name"]) in read:
            continue
        shown: Mapping[str, Any] = seen.get(name, {})
        publisher = None if publishers is None else publishers.get(name)
        place = None if publisher is None else publisher.place()
        rows.append(
            {
                "operator": name,
                "className": one["class"],
                "deadLetters": name in letters,
                "place": None if place is None else mask_text(place),
                "protocol": NOT_KEPT if publishers is None else _protocol(publisher),
                "mode": str(one["attributes"].get("processing_mode", "")),
                "partitions": max(1, len(topology.partitions_of(name))),
                "visibleWindow": shown.get("visibleWindow"),
                "visibleAt": shown.get("visibleAt"),
                "timesPublished": shown.get("timesPublished", 0),
                "problem": shown.get("problem", ""),
                "committedAge": _worst(ages, name, "commit"),
                "visibleAge": _worst(ages, name, "publish"),
            }
        )
    return {"sinks": rows}


def _protocol(publisher: object) -> str:
    if publisher is None:
        return "none"
    return publisher.protocol if isinstance(publisher, SinkPublisher) else "staged"


def _worst(ages: RecordAgesAnswer, name: str, place: str) -> RecordAgeAnswer | None:
    """The ages of the partition whose p99 is highest, of those that had records."""
    rows = [
        row
        for row in ages["operators"]
        if row["at"] == place and row["p99Ms"] is not None and _PARTITION.sub("", row["operator"]) == name
    ]
    return max(rows, key=lambda row: row["p99Ms"] or 0.0, default=None)


# Sources ----------------------------------------------------------------------------------------------------


@KEPT.question("/sources/{name}")
def _source(call: Call, name: str) -> SourceDetailAnswer:
    """A source with its partitions, and its position after the last commit.

    Raises AnswerError. Only a run of one region says the position.

    Args:
        call: The question.
        name: the name of an input operator
    """
    answer = found(call.watch.source, name)
    run = call.run
    last = None if run is None or isinstance(run, JoinedRun) else run.checkpoint.last()
    if last is not None and name in last.inputs:
        answer["position"] = mask(name, last.inputs[name])
    return answer


# Checkpoints ------------------------------------------------------------------------------------------------


@KEPT.question("/checkpoints")
def _checkpoints(call: Call, limit: Annotated[int, Within(1, 1_000)] = 50) -> CheckpointsAnswer:
    """The windows that the run can go back to, and the command for it. State files are not read.

    Raises AnswerError (503) if a checkpoint cannot be read.

    Args:
        call: The question.
        limit: how many windows; default: 50
    """
    run = call.run
    folder = str(call.watch.info().get("checkpoint") or "") if run is None else run.checkpoint.storage.uri
    folder = mask_text(folder)
    rows: list[KeptWindowAnswer] = []
    for region, checkpoint in () if run is None else _folders(run):
        try:
            rows += _windows_of(call, checkpoint, folder, region, limit)
        except (OSError, RidgelineError) as error:
            raise AnswerError(503, f"the checkpoint cannot be read: {error}", "ask again soon") from None
    kept = call.logical_plan["attributes"].get("windows_kept")
    return {"folder": folder, "windowsKept": kept, "windows": rows, "note": "" if rows else call.not_begun}


def _folders(run: ApplicationRun | JoinedRun) -> list[tuple[str | None, Checkpoint]]:
    """The checkpoint of each region that has begun; of a run without regions one, with None for a name."""
    if not isinstance(run, JoinedRun):
        return [(None, run.checkpoint)]
    return [(one.name, one.run.checkpoint) for one in run.regions if one.run is not None]


def _windows_of(
    call: Call, checkpoint: Checkpoint, folder: str, region: str | None, limit: int
) -> Iterator[KeptWindowAnswer]:
    """The windows that a region can rewind to. `folder`: of the whole run. Raises as `offered`."""
    begin = (call.origin or Origin(None, list)).command(folder)
    committed = {
        row["windowId"]: row["committedAt"] for row in call.watch.windows() if row.get("region") == region
    }
    size_of = cache(partial(_size, checkpoint))  # most windows share most of their files
    for one in offered(checkpoint, limit):
        row = _kept(one, size_of, begin, committed.get(one.window_id))
        if region is not None:
            row["region"] = region
            row["command"] += f" --region {region}"
        yield row


def _kept(
    manifest: Manifest, size_of: Callable[[str], int | None], begin: str, committed: float | None
) -> KeptWindowAnswer:
    """One window, with the sizes of its state files."""
    names = {name for version in manifest.states.values() for name in version}
    sizes = [size_of(name) for name in names]
    return {
        "windowId": manifest.window_id,
        "committedAt": committed,
        "planVersion": manifest.plan_version,
        "stateBytes": None if None in sizes else sum(size or 0 for size in sizes),
        "stateFiles": len(names),
        "rewoundTo": manifest.rewound_to,
        "ended": manifest.ended,
        "command": f"{begin} --from-window {manifest.window_id}",
    }


def _size(checkpoint: Checkpoint, name: str) -> int | None:
    """The bytes of a state file; None where that needs its content, or if it is gone by now."""
    if place := state_files.slice_place(name):
        return place[2]
    try:
        data = checkpoint.storage.map(f"{state_files.FOLDER}/{name}")
    except OSError:
        return None
    return None if data is None else len(memoryview(data))
