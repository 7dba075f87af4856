"""Progress and backlog of a running application, as a fold over its events.

Between two heartbeats the operator that ran is assumed to run on. The time spent grows and the time left
falls by the time since, for at most `heartbeat_timeout`. Counts stay as they were reported. All times are
STRAM's clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from ridgeline.api.errors import did_you_mean
from ridgeline.measure.answers.progress import (
    BacklogAnswer,
    ContainerProgressAnswer,
    ProgressAnswer,
    SourceAnswer,
    SourceDetailAnswer,
    SourcePartitionAnswer,
)
from ridgeline.measure.events import (
    ApplicationEnded,
    ContainerHeartbeat,
    RunningOperator,
    SourceAsked,
    SourceProgress,
    SourceTaken,
    WindowCommitted,
    WindowPlanned,
    WindowReported,
    WindowStarted,
)
from ridgeline.measure.progress.averages import Averages, Lately
from ridgeline.measure.progress.backlog import BacklogState, SourceBacklog
from ridgeline.measure.progress.columns import Doing, Reports, WindowProgress
from ridgeline.measure.progress.estimate import UNKNOWN, Basis, greatest, total
from ridgeline.measure.progress.rows import (
    finite,
    infinite,
    operator_rows,
    states_of,
    to_json,
    window_row,
    works_of,
)
from ridgeline.measure.progress.shape import ProgressShape
from ridgeline.measure.progress.sources import Done, SourceLevel, amount
from ridgeline.measure.progress.verdict import APPLICATION, EARLY, Situation, Verdict, by_rules, worst
from ridgeline.measure.progress.windows import (
    LATE_SHARE,
    Settling,
    WindowInFlight,
    WindowSchedule,
    WindowsInFlight,
)
from ridgeline.measure.slot_events import StoreSilent
from ridgeline.measure.topology import Topology

STUCK_SECONDS, STUCK_WINDOWS = 5.0, 2.0
"""Without a commit or any progress for the longer of both, windows are stuck."""


_LATE_WINDOWS = 1.5  # so long it is called late after a window that was
_SILENT_SECONDS = 3.0  # that a window may run before its first heartbeat
_BEAT_SECONDS = 1.5  # within which a container that works has sent its next one
_FLOWS_WINDOWS = 2.0
_BEHIND_WINDOWS = 4.0  # no application that is further behind its schedule keeps up


class ProgressFold:
    """Folds events into `progress`.

    Its size is bounded by the topology and by one interval's samples of each source.

    Args:
        window_seconds: The application's window width.
        interval_seconds: Over how long the rates of sources are taken.
        heartbeat_timeout: A running container without a heartbeat for longer is shown as silent; seconds.
    """

    def __init__(
        self,
        window_seconds: float,
        interval_seconds: float = 10.0,
        heartbeat_timeout: float = 30.0,
    ) -> None:
        self._window_seconds = window_seconds
        self._interval_seconds = interval_seconds
        self._timeout = heartbeat_timeout
        self._topology = Topology((), ())
        self._shape = ProgressShape(self._topology)
        self._averages = Averages()
        self._sources: dict[str, SourceLevel] = {}
        self._former: dict[str, SourceLevel] = {}
        """Those of the plan before that the plan has not: the driver may go back to it."""
        self._stuck_stores: dict[tuple[str, str], str] = {}
        """Why nothing can be committed or published, by host and output of the event."""
        self.schedule = WindowSchedule(window_seconds, interval_seconds)
        self.windows = WindowsInFlight(window_seconds)
        """Those of the run, also for others to look at."""
        self._settling = Settling()
        self._late_until = -math.inf
        self._progressed_at = -math.inf
        """When a report last showed that windows progress."""
        self._has_heartbeats = False
        """True once there was any: without them the state of a long window is unknown."""

    # Events -------------------------------------------------------------------------------------------------

    def planned(self, topology: Topology) -> None:
        """The plan is made or has changed. Backlogs go by name."""
        self._settling.begin()
        self._topology = topology
        self._shape = ProgressShape(topology)
        before, self._sources = self._sources, {}
        for name in dict.fromkeys(node.name for node in topology.operators if node.kind == "input"):
            known = before.get(name) or self._former.get(name)
            source = known or SourceLevel(
                SourceBacklog(window_seconds=self._window_seconds, interval_seconds=self._interval_seconds)
            )
            source.repartition(tuple(node.id for node in topology.partitions_of(name)))
            self._sources[name] = source
        self._former = {name: one for name, one in before.items() if name not in self._sources}
        self.windows.clear()

    def window_planned(self, event: WindowPlanned) -> None:
        """A window's trigger has fired: how late it fired is a sample of the schedule."""
        self._settling.planned(event.window_id)
        self.windows.planned(event)
        self._void(event.window_id)
        self.schedule.planned(event)

    def window_started(self, event: WindowStarted) -> bool:
        """An attempt is given to the containers; heartbeats of earlier ones do not count.

        True if no other window is under way.
        """
        alone = set(self.windows.attempted) <= {event.window_id}
        new = self.windows.started(event)
        if event.attempt:
            self._settling.begin(event.window_id)
        if event.attempt or new:
            self._void(event.window_id)
        return alone

    def _void(self, window_id: int) -> None:
        """Forget what this window and later ones have taken from sources: they run again."""
        for source in self._sources.values():
            source.void(window_id)

    def heartbeat(self, event: ContainerHeartbeat) -> None:
        """A container's heartbeat; it counts if it is of this attempt and of a planned container."""
        self._has_heartbeats = True
        for report in event.taken:
            self._add_taken(replace(report, at=event.at, asked=event.at))
        first = event.container not in self.windows.oldest.heartbeats
        if self._add_heartbeat(event):
            self._sample_sources(event.at, again=first)
        elif event.at - self.windows.oldest.last_heartbeat_at >= _BEAT_SECONDS:  # else the next will say more
            self._sample_sources(event.at)

    def _add_heartbeat(self, event: ContainerHeartbeat) -> bool:
        """Take in the report of the window that a container runs; False if it does not count."""
        window = self.windows.by_id.get(event.window_id, self.windows.oldest)
        progressed = window.add_heartbeat(event, self._topology.containers.get(event.container))
        if progressed is None:
            return False
        if progressed:
            self._progressed_at = max(self._progressed_at, event.at)
            for source in self._sources.values():
                source.backlog.moved(event.at)
            if self._settling.worked(window.id, event.at):
                self._restart_backlogs(event.at)
        self._add_work(event, window)
        return True

    def _source_of(self, operator: int) -> SourceLevel | None:
        """The source that a physical operator is a partition of; None for those that are no inputs."""
        node = self._topology.by_id.get(operator)
        return None if node is None or node.unifier else self._sources.get(node.name)

    def _add_work(self, event: ContainerHeartbeat, window: WindowInFlight) -> None:
        """Take in the reports of input operators. `window`: the one that their container runs."""
        for report in event.operators:
            source = self._source_of(report.id)
            if source is not None and report.work is not None:
                taken_by = window.id if report.state == "done" else None
                source.report(report.id, event.at, report.work, taken_by, report.before)

    def _restart_backlogs(self, at: float) -> None:
        """Drop the samples of backlogs before the first sign of work: they say nothing of what follows."""
        for source in self._sources.values():
            source.backlog.restart(at)

    def source_taken(self, event: SourceTaken) -> None:
        """An input operator has ended its part of a window that is still under way."""
        if self._add_taken(event):
            self._progressed_at = max(self._progressed_at, event.at)
            self._sample_sources(event.at)

    def _add_taken(self, event: SourceTaken) -> bool:
        """Take in how far an input operator is; True if it has ended its part of a window under way."""
        source = self._source_of(event.operator)
        if source is None:
            return False
        window = self.windows.by_id.get(event.window_id)
        counts = window is not None and window.attempt == event.attempt
        source.ahead(event, takes=counts)
        if window is not None and counts and event.produced:
            done = RunningOperator(event.operator, "done", event.seconds, produced=event.produced)
            window.reported[event.operator] = done
        return counts

    def _sample_sources(self, at: float, *, again: bool = False) -> None:
        """A running window has reported: sample the sources.

        `again`: by what is known now, the sample that was just before does not count.
        """
        if not self.windows.running:
            return
        due = [source for source in self._sources.values() if source.is_due(at, again=again)]
        if not due or self._reported_in_part(self.windows.oldest, at):
            return
        done = self._done(at)
        for source in due:
            source.follow(at, done)

    def _reported_in_part(self, window: WindowInFlight, at: float) -> bool:
        """True if some containers that sent heartbeats in the window before have not yet, and others have.

        Their partitions are in step with those that have: one half alone says little of the whole.
        """
        first = window.first_heartbeat_at
        if first is None or at - first >= _BEAT_SECONDS:
            return False
        usual = self.windows.last.heartbeats.keys() & self._topology.containers.keys()
        return bool(usual - window.heartbeats.keys() - window.finished)

    def _done(self, at: float, committed: int = -1) -> Done:
        """How much windows in flight after one have done; whether windows are or will be late.

        A window is not late that takes no longer than windows did lately, if others begin in time. Several
        are in flight then, as they should.
        """
        silent, first = None, True
        usual = self.windows.usual_seconds
        late = self._late_seconds(at) > self._window_seconds
        done = {}
        for window in self.windows.by_id.values():
            if window.id <= committed:
                continue
            left = None
            turn = max(window.began, at if committed >= 0 else self.windows.committed_at or window.began)
            oldest, first = first, False
            if oldest and not window.heartbeats and at - turn <= _SILENT_SECONDS:
                silent = window.id, at - turn
            if window.heartbeats:
                figures = self._figures(at, window)
                done[window.id], left = figures.fraction_done, figures.wall_seconds.value
            late = late or at - window.planned + (left or 0.0) > LATE_SHARE * usual
        if late:
            self._late_until = at + _LATE_WINDOWS * self._window_seconds
        return Done(done, late or at < self._late_until, silent)

    def operators_ended(self, event: WindowReported) -> None:
        """What the operators of the plan did in the attempt at a window that counts."""
        self._averages.add(event)
        window = self.windows.by_id.get(event.window_id)
        if window is not None:
            window.ended = event

    def source(self, event: SourceProgress) -> None:
        """How far an input operator is: one partition, or a whole source."""
        source = self._source_of(event.operator)
        if source is None:
            return
        if not event.whole and event.consumed is not None:
            self._averages.add_work(event.operator, event.consumed)
        if source.add(event):
            source.flush(event.at, self._done(event.at, event.window_id))

    def source_asked(self, event: SourceAsked) -> None:
        """A source was asked how much waits, beside the windows."""
        source = self._source_of(event.operator)
        if source is None:
            return
        done = self._done(event.at) if event.held > 0 else Done({}, late=False)
        over = event.window_id <= (-1 if self.windows.committed_id is None else self.windows.committed_id)
        source.answer(
            event,
            1.0 if over else done.parts.get(event.window_id, 0.0),
            late=done.late or event.cut,
            # Where windows are long enough for heartbeats, their work shows with the first of these.
            known=done.silent is None or not self.windows.last_had_heartbeats,
        )

    def store(self, event: StoreSilent) -> None:
        """A store does not answer, or does again."""
        if event.again:
            self._stuck_stores.pop((event.host, event.output), None)
        else:
            self._stuck_stores[event.host, event.output] = event.problem

    def window_committed(self, event: WindowCommitted) -> None:
        """A window is committed: it no longer runs, and its sources have reported."""
        for source in self._sources.values():
            if source.waiting:
                source.flush(event.at, self._done(event.at, event.window_id))
            source.window_ended = True
        self._stuck_stores = {one: why for one, why in self._stuck_stores.items() if not one[0]}
        self.windows.committed(event)
        if self._settling.committed(event.window_id, event.at):
            self._restart_backlogs(event.at)

    def ended(self, event: ApplicationEnded) -> None:
        """The run is over: windows under way count for nothing, unless the run failed in one."""
        self.windows.ended(failed=event.outcome == "failed")
        if event.outcome == "finished":  # so what was expected to arrive since the last answer has not
            for source in self._sources.values():
                source.backlog.ended(event.at)

    # Figures ------------------------------------------------------------------------------------------------

    def progress(self, now: float) -> ProgressAnswer:
        """The progress of the running window (or the last one) and the backlog at `now`, ready for JSON.

        Estimates are `{"value", "basis"}`, with `"infinite": true` and a null value where there is no end;
        unknown is null. Seconds, and seconds since 1970 for times. `window.remainingSeconds` is wall time,
        `cpuRemainingSeconds` the sum over all operators, both without Spark's own work.
        `averageSecondsPerElement` of an input operator is per window.
        """
        window = self.windows.oldest
        figures = self._figures(now, window)
        sources, application = self.backlog(now)
        return {
            "windowId": None if window.id < 0 else window.id,
            "running": window.running,
            "elapsedSeconds": window.elapsed(now),
            "operators": operator_rows(figures, window.operators),
            "containers": self._containers(figures, now),
            "window": window_row(window, figures, now),
            "sources": sources,
            "application": application,
        }

    def doing(self, now: float) -> Doing:
        """The states of operators in `progress`, and which containers are silent: much less work."""
        figures = self._figures(now, self.windows.oldest)
        return Doing.of(states_of(figures), self._containers(figures, now))

    def backlog(self, now: float) -> tuple[list[SourceAnswer], BacklogAnswer]:
        """The sources and the application in `progress`, without what operators have to do."""
        schedule = self.schedule.state(now, self._late_seconds(now))
        done = (
            self._done(now)
            if self.windows.running and any(one.backlog.late for one in self._sources.values())
            else None
        )
        states = {name: source.state(now, done) for name, source in self._sources.items()}
        verdicts = {name: self._verdict(name, state, schedule, now) for name, state in states.items()}
        rows = [self._source_json(name, state, verdicts[name]) for name, state in states.items()]
        return rows, self._application_json(states, verdicts, schedule, now)

    def _figures(self, now: float, window: WindowInFlight) -> WindowProgress:
        """The progress formulas, applied to a window as of `now`; once for one that is committed."""
        if window.figures is not None:
            return window.figures
        shape, reports = self._shape, Reports(self._shape, window.operators)
        history, shares, _ = self._averages.columns(shape)  # after the reports, which may name new ports
        if window.running:
            ages = {one: min(max(0.0, now - at), self._timeout) for one, at in window.heartbeats.items()}
            return WindowProgress(shape, reports, history, shares, ages, window.finished)
        over = () if window.id < 0 else self._topology.containers
        window.figures = WindowProgress(shape, reports, None, shares, {}, over)
        return window.figures

    def _containers(self, figures: WindowProgress, now: float) -> list[ContainerProgressAnswer]:
        """How far the containers are. Silent is who works, and has sent no heartbeat for too long."""
        heartbeats = self.windows.oldest.heartbeats
        ages = {container: max(0.0, now - at) for container, at in heartbeats.items()}
        rows = zip(self._topology.containers, works_of(figures), to_json(figures.by_container), strict=True)
        return [
            {
                "id": container,
                "remainingSeconds": left,
                "lastHeartbeatAgeSeconds": ages.get(container),
                "silent": works and ages.get(container, 0.0) > self._timeout,
            }
            for container, works, left in rows
        ]

    def _late_seconds(self, now: float) -> float:
        """How late the application is: the window after the one that runs should have begun."""
        return self.schedule.late_seconds(now) if self.windows.running else 0.0

    def _application_json(
        self,
        states: Mapping[str, BacklogState],
        verdicts: Mapping[str, Verdict],
        schedule: BacklogState,
        now: float,
    ) -> BacklogAnswer:
        """The backlog over all sources; by the schedule where no source knows its own."""
        free = {name: state for name, state in states.items() if not self._sources[name].paced}
        counted = any(state.backlog.known and not state.backlog.infinite for state in free.values())
        judged = list(free.values()) if counted else [schedule]
        seconds = greatest(UNKNOWN if state.backlog.infinite else state.seconds for state in judged)
        known = [state.oldest for state in judged if state.oldest.known]
        oldest = greatest(known) if known or counted else UNKNOWN
        ends = [
            one.caught_up_at
            for one in judged
            if one.verdict is Verdict.CATCHING_UP and not one.backlog.infinite
        ]
        caught_up_at = None if None in ends else max((end for end in ends if end is not None), default=None)
        if counted:
            records = total(self._sources[name].records(state.backlog) for name, state in free.items())
            basis = seconds.basis.value
            verdict = worst(verdicts.values())
            seen = all(self._sources[name].seen_late for name in free)  # then the sources' verdict counts it
            if verdict is Verdict.KEEPING_UP and not seen and self._is_behind(schedule):
                starts = self.schedule.in_first_window or self._settling.settles(now)
                verdict = Verdict.SETTLING if starts else Situation(verdict, schedule.verdict).late
        else:
            records, basis = UNKNOWN, "schedule" if schedule.backlog.known else Basis.UNKNOWN.value
            verdict = worst(verdicts.values()) if len(free) < len(states) else schedule.verdict
            verdict = self._unless_settling(verdict, now)
        unreachable = [name for name, source in self._sources.items() if source.problem]
        if self._hangs(now) or self._stuck_stores:
            verdict = Verdict.STUCK
        if unreachable:
            verdict = Verdict.UNREACHABLE
        late = schedule.backlog.value
        answers = [one.backlog.as_of for one in self._sources.values() if one.backlog.as_of is not None]
        return {
            "backlogRecords": finite(records),
            "backlogSeconds": finite(seconds),
            "basis": basis,
            "caughtUpAt": caught_up_at if verdict is Verdict.CATCHING_UP else None,
            "asOf": min(answers, default=None),
            "unreachable": unreachable,
            "stuckOutputs": [],
            "stuckStores": list(self._stuck_stores.values()),
            "verdict": verdict.value,
            "windowsBehind": None if late is None else int(late / self._window_seconds + 1e-9),
            "oldest": oldest.to_json(),
            "bottleneck": None,
            **infinite(seconds),
        }

    @property
    def lately(self) -> Lately:
        """The moving averages as of the last window."""
        return self._averages.columns(self._shape)[2]

    def seconds_running(self) -> dict[int, float]:
        """Seconds that operators have spent in the windows under way."""
        found: dict[int, float] = {}
        for window in self.windows.by_id.values():
            for number, report in window.operators.items():
                found[number] = found.get(number, 0.0) + report.seconds
        return found

    def _verdict(self, name: str, state: BacklogState, schedule: BacklogState, now: float) -> Verdict:
        """The verdict of a source.

        An old answer does not show that an application keeps up while its windows are late.
        """
        source, windows, width = self._sources[name], self.windows, self._window_seconds
        waits, left = state.backlog.value, state.seconds.value
        late, as_of, ahead = self._late_seconds(now), source.backlog.as_of, source.taken_ahead
        usual = (state.drain_per_second or 0.0) * _FLOWS_WINDOWS * width
        found = by_rules(
            APPLICATION,
            Situation(
                samples=state.verdict,
                schedule=schedule.verdict,
                problem=bool(source.problem),
                hangs=self._hangs(now),
                endless=state.backlog.infinite,
                paced=source.paced,
                nothing=waits == 0 and not ahead > 0,
                waits=bool(waits),
                starts=self.schedule.in_first_window,
                silent=not windows.oldest.heartbeats,
                behind=self._is_behind(schedule),
                flows=state.verdict in {Verdict.NOT_CATCHING_UP, Verdict.KEEPING_UP}
                and not (source.backlog.late or late > 0.5 * width)
                and ahead > 0
                and (waits or 0.0) - ahead <= usual,
                old=as_of is not None
                and now - as_of > max(5.0, 2 * width)
                and (windows.last_late or late > width),
                unseen=windows.last_late
                and not source.backlog.late
                and bool(waits)
                and (left is None or left > width),
            ),
        )
        return self._unless_settling(found, now)

    def _unless_settling(self, verdict: Verdict, now: float) -> Verdict:
        """The verdict; `settling` if it needs a longer look, and the run or its plan has just begun."""
        early = verdict in EARLY or (verdict is Verdict.KEEPING_UP and not self._settling.committed_any)
        settles = bool(self.schedule.windows) and self._settling.settles(now)
        return Verdict.SETTLING if early and settles else verdict

    def _is_behind(self, schedule: BacklogState) -> bool:
        """True if the windows are too far behind their schedule."""
        return (schedule.backlog.value or 0.0) > _BEHIND_WINDOWS * self._window_seconds

    def _hangs(self, now: float) -> bool:
        """True if windows are under way, and for long nothing was committed and nothing has moved."""
        window = self.windows.oldest
        committed_at = self.windows.committed_at
        if not window.running or (committed_at is None and not window.heartbeats):
            return False
        since = max(committed_at or -math.inf, window.began, self._progressed_at)
        allowed = max(STUCK_SECONDS, STUCK_WINDOWS * self._window_seconds)
        if not self._has_heartbeats:
            allowed = max(allowed, STUCK_WINDOWS * self.windows.longest_seconds)
        return now - since > allowed

    def source_detail(self, name: str) -> SourceDetailAnswer:
        """One source with its partitions. Raises KeyError naming those that report."""
        source = self._sources.get(name)
        if source is None:
            raise KeyError(f"there is no source `{name}`; {did_you_mean(name, self._sources)}")
        partitions: list[SourcePartitionAnswer] = []
        for number, report in sorted(source.latest.items()):
            node, left = self._topology.by_id.get(number), amount(report.remaining)
            row: SourcePartitionAnswer = {
                "id": number,
                "operator": name if node is None or report.whole else node.title,
                "consumed": report.consumed,
                "remaining": finite(left),
                "remainingBytes": report.remaining_bytes,
                "windowId": report.window_id,
            }
            if left.infinite:
                row["infinite"] = True
            partitions.append(row)
        return {"operator": name, "unit": source.unit, "partitions": partitions, "position": None}

    def _source_json(self, name: str, state: BacklogState, verdict: Verdict) -> SourceAnswer:
        """The backlog of a source."""
        source = self._sources[name]
        found: SourceAnswer = {
            "operator": name,
            "unit": source.unit,
            "backlog": state.backlog.to_json(),
            "backlogRecords": finite(source.records(state.backlog)),
            "backlogBytes": finite(state.backlog if source.unit == "bytes" else source.bytes),
            "backlogSeconds": finite(state.seconds),
            "drainPerSecond": state.drain_per_second,
            "arrivalPerSecond": state.arrival_per_second,
            "basis": state.backlog.basis.value,
            "caughtUpAt": state.caught_up_at,
            "oldest": state.oldest.to_json(),
            "asOf": source.backlog.as_of,
            "problem": source.problem or None,
            "verdict": verdict.value,
        }
        if state.seconds.infinite:
            found["infinite"] = True
        return found
