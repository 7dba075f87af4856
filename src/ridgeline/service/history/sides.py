"""One side of a comparison: the figures of a run, from its event log or from its bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ridgeline.measure.wording.sentence import sentence_of
from ridgeline.service.history.answering import ENDPOINTS, Asked, answer
from ridgeline.service.history.bundled_run import BundledRun
from ridgeline.service.history.logged_run import LoggedRun
from ridgeline.service.http.endpoint import AnswerError
from ridgeline.service.http.endpoints import BASE

Row = Mapping[str, Any]
_MISSING, _NEEDS_RUNNING = 404, 409


@dataclass(frozen=True, slots=True)
class Side:
    """The compared figures of a run. A figure that it does not have is empty, or None."""

    info: Row
    sentence: Row
    path: Sequence[str]
    """The critical path of its last window, by title."""
    windows: Sequence[Row]
    marks: Sequence[Row]
    ages: Sequence[Row]
    retries: int | None
    slots_lost: int | None
    latencies: Sequence[Row]
    """Those of its logical operators."""
    shares: Mapping[str, float]
    """By logical operator, the share of windows in which it was on the critical path."""
    partitions: Mapping[str, int]
    totals: Mapping[str, Row]
    """By logical operator: `tuplesIn`, `tuplesOut`, and of an event log `seconds` and `windows`."""
    plan: Row
    configuration: Sequence[Row]
    versions: Row
    lines: Sequence[Row]


def side_of(run: LoggedRun | BundledRun) -> Side:
    """The side of a run that is read. Raises AnswerError for a bundle that is damaged."""
    return _of_log(run) if isinstance(run, LoggedRun) else _of_bundle(run)


def _of_log(run: LoggedRun) -> Side:
    """Of an event log: all from the figures that its events were folded to."""
    watch = run.watch
    overview, summary = watch.overview(), watch.summary()
    latencies = watch.latency()["logical"]
    endpoints = {one.path: one for one in ENDPOINTS}

    def ask(path: str) -> Any:
        return answer(endpoints[f"{BASE}{path}"], Asked(watch, run.plan, {}))

    return Side(
        info=overview["info"],
        sentence=sentence_of(overview),
        path=[step["operator"] for step in overview["criticalPath"]["path"]],
        windows=watch.windows(),
        marks=ask("/marks")["marks"],
        ages=watch.record_age()["operators"],
        retries=summary["retries"],
        slots_lost=summary["slotsLost"],
        latencies=latencies,
        shares=watch.critical_path()["logicalShare"],
        partitions={row["operator"]: len(watch.topology.partitions_of(row["operator"])) for row in latencies},
        totals=watch.operator_totals(),
        plan=run.plan.answer,
        configuration=ask("/configuration")["values"],
        versions=ask("/versions"),
        lines=ask("/lines")["operators"],
    )


def _of_bundle(run: BundledRun) -> Side:
    """Of a bundle: from the answers that are kept in it. Raises AnswerError for one that is damaged."""
    whole = run.whole()

    def ask(path: str) -> Any:
        try:
            return run.kept(path, {})
        except AnswerError as error:
            if error.status != _MISSING:
                raise
            return {}

    try:
        overview = whole["overview"]
        rows = ask("/logicalPlan/operators").get("operators", [])
        stats = overview["info"].get("stats", {})
        return Side(
            info=overview["info"],
            sentence=whole["sentence"],
            path=[step["operator"] for step in overview["criticalPath"]["path"]],
            windows=whole["windows"],
            marks=ask("/marks").get("marks", []),
            ages=overview["recordAge"]["operators"],
            retries=stats.get("windowsRetried"),
            slots_lost=stats.get("slotsLost"),
            latencies=list(overview["latency"]["logical"].values()),
            shares=overview["criticalPath"]["logicalShare"],
            partitions={row["name"]: len(row["partitions"]) for row in rows},
            totals={
                row["name"]: {"tuplesIn": row["totalTuplesProcessed"], "tuplesOut": row["totalTuplesEmitted"]}
                for row in rows
            },
            plan=ask("/logicalPlan") or whole["plan"],
            configuration=ask("/configuration").get("values", []),
            versions=ask("/versions"),
            lines=ask("/lines").get("operators", []),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise AnswerError(
            _NEEDS_RUNNING,
            f"the bundle `{run.path.name}` is damaged: {type(error).__name__} {error}",
            "make it again with `ridgeline bundle`",
        ) from None
