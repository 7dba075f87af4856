"""The endpoints about sources, sinks, and the windows for a rewind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import TYPE_CHECKING

from ridgeline.api.columns.dead_letter import NAME as DEAD_LETTERS
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import mask, mask_text
from ridgeline.connect.sink_publisher import SinkPublisher
from ridgeline.engine.driver.checkpoint.rewinding import offered
from ridgeline.engine.state import state_files
from ridgeline.measure.answers.operators import RecordAgeAnswer, RecordAgesAnswer
from ridgeline.measure.answers.progress import SourceDetailAnswer
from ridgeline.regions.joined_run import JoinedRun
from ridgeline.service.http import apex
from ridgeline.service.http.answers import CheckpointsAnswer, KeptWindowAnswer, SinkAnswer, SinksAnswer
from ridgeline.service.http.endpoint import AnswerError, Call, Endpoint, Parameter, found
from ridgeline.service.origin import Origin

if TYPE_CHECKING:
    from ridgeline.engine.driver.checkpoint.folder import Checkpoint
    from ridgeline.engine.driver.checkpoint.manifest import Manifest
    from ridgeline.engine.driver.run.run import ApplicationRun

_MOST, _DEFAULT = 1_000, 50
_NOT_YET = "the application has not begun its first window"
_PARTITION = re.compile(r"\[\d+\]$")


def kept_endpoints(base: str) -> tuple[Endpoint, ...]:
    """All of them, below the base path."""
    return (
        Endpoint(
            f"{base}/sinks",
            _sinks,
            "The output operators: where they write, what readers see, and how old that is.",
            SinksAnswer,
            tag="sinks",
        ),
        Endpoint(
            f"{base}/sources/{{name}}",
            _source,
            "A source with its partitions, and its position after the last commit.",
            SourceDetailAnswer,
            (Parameter("name", "string", "the name of an input operator"),),
            tag="sources",
        ),
        Endpoint(
            f"{base}/checkpoints",
            _checkpoints,
            "The windows that the run can go back to, and the command for it. State files are not read.",
            CheckpointsAnswer,
            query=(Parameter("limit", "integer", f"how many windows; default: {_DEFAULT}", 1, _MOST),),
            tag="checkpoints",
        ),
    )


# Sinks ------------------------------------------------------------------------------------------------------


def _sinks(call: Call) -> SinksAnswer:
    """The operators that publish, or that nothing reads from."""
    ages, seen = call.watch.record_age(), {row["operator"]: row for row in call.watch.outputs()}
    publishers = {} if call.run is None else call.run.publishers
    streams = [one for one in call.plan.logical.streams if one.source.port != DEAD_LETTERS]
    read = {stream.source.operator for stream in streams}
    letters = {node.name for node in call.watch.topology.operators if node.kind == "dead letters"}
    sinks: list[SinkAnswer] = []
    for one in call.plan.logical.operators:
        if one.name in read and one.name not in publishers:
            continue
        publisher, shown = publishers.get(one.name), seen.get(one.name)
        place = None if publisher is None else publisher.place()
        sinks.append(
            {
                "operator": one.name,
                "className": apex.class_name(one),
                "deadLetters": one.name in letters,
                "place": None if place is None else mask_text(place),
                "protocol": _protocol(publisher),
                "mode": str(apex.attributes(one.attributes).get("processing_mode", "")),
                "partitions": max(1, len(one.divided)),
                "visibleWindow": None if shown is None else shown["visibleWindow"],
                "visibleAt": None if shown is None else shown["visibleAt"],
                "timesPublished": 0 if shown is None else shown["timesPublished"],
                "problem": "" if shown is None else shown["problem"],
                "committedAge": worst(ages, one.name, "commit"),
                "visibleAge": worst(ages, one.name, "publish"),
            }
        )
    return {"sinks": sinks}


def _protocol(publisher: object) -> str:
    if publisher is None:
        return "none"
    return publisher.protocol if isinstance(publisher, SinkPublisher) else "staged"


def worst(ages: RecordAgesAnswer, name: str, place: str) -> RecordAgeAnswer | None:
    """The ages of the partition whose p99 is highest, of those that had records."""
    rows = [
        row
        for row in ages["operators"]
        if row["at"] == place and row["p99Ms"] is not None and _PARTITION.sub("", row["operator"]) == name
    ]
    return max(rows, key=lambda row: row["p99Ms"] or 0.0, default=None)


# Sources ----------------------------------------------------------------------------------------------------


def _source(call: Call) -> SourceDetailAnswer:
    """A source; only a run of one region says its position. Raises AnswerError."""
    answer = found(call.watch.source, call["name"])
    run = call.run
    last = None if run is None or isinstance(run, JoinedRun) else run.checkpoint.last()
    if last is not None and call["name"] in last.inputs:
        answer["position"] = mask(call["name"], last.inputs[call["name"]])
    return answer


# Checkpoints ------------------------------------------------------------------------------------------------


def _checkpoints(call: Call) -> CheckpointsAnswer:
    """The windows of a run, or of each region of it. Raises AnswerError if a checkpoint cannot be read."""
    run = call.run
    kept = call.plan.logical.attributes.get("windows_kept")
    if run is None:
        return {"folder": "", "windowsKept": kept, "windows": [], "note": _NOT_YET}
    folder = mask_text(run.checkpoint.storage.uri)
    rows: list[KeptWindowAnswer] = []
    for region, checkpoint in _folders(run):
        try:
            rows += _windows_of(call, checkpoint, folder, region)
        except (OSError, RidgelineError) as error:
            raise AnswerError(503, f"the checkpoint cannot be read: {error}", "ask again soon") from None
    return {"folder": folder, "windowsKept": kept, "windows": rows, "note": "" if rows else _NOT_YET}


def _folders(run: ApplicationRun | JoinedRun) -> list[tuple[str | None, Checkpoint]]:
    """The checkpoint of each region that has begun; of a run without regions one, with None for a name."""
    if not isinstance(run, JoinedRun):
        return [(None, run.checkpoint)]
    return [(one.name, one.run.checkpoint) for one in run.regions if one.run is not None]


def _windows_of(
    call: Call, checkpoint: Checkpoint, folder: str, region: str | None
) -> Iterator[KeptWindowAnswer]:
    """The windows that a region can rewind to. `folder`: of the whole run. Raises as `offered`."""
    begin = (call.origin or Origin(None, list)).command(folder)
    committed = {
        row["windowId"]: row["committedAt"] for row in call.watch.windows() if row.get("region") == region
    }
    size_of = cache(partial(_size, checkpoint))  # most windows share most of their files
    for one in offered(checkpoint, call.get("limit") or _DEFAULT):
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
