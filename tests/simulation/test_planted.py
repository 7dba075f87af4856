"""Bugs that are planted on purpose: the simulation finds each within some seeds."""

from dataclasses import replace
from random import Random

import pytest

from ridgeline.engine.container.container import Container
from ridgeline.engine.container.states import ContainerStates
from ridgeline.engine.driver.checkpoint import folder, state_moves
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.checkpoint.journal import Journal
from ridgeline.engine.driver.checkpoint.planning import Planner
from ridgeline.engine.driver.inputs import Inputs
from ridgeline.engine.driver.run import run as run_module
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.engine.driver.slots import executor as slot_executor
from ridgeline.engine.slot.slot import Slot
from ridgeline.operators._file_publisher import FilePublisher
from ridgeline.operators._queue_enumerator import QueueEnumerator
from ridgeline.operators._queue_log import LogWriter
from ridgeline.operators._queue_publisher import QueuePublisher
from ridgeline.stram.master import Master
from ridgeline.stram.patience import Patience
from ridgeline.stram.slot_attempts import SlotAttempts
from ridgeline.stram.windows import InFlightWindow, InFlightWindows
from support.simulation import queue_files
from support.simulation.region_world import RegionCase
from support.simulation.search import as_test, failure, first_failing, shrunk
from support.simulation.world import KINDS, Case, Fault, simulate

SEEDS = 500
BEGINS = {
    "attempts_begin_anew": 2,
    "commit_before_sync": 9,
    "edits_forgotten": 1,
    "entries_before_the_commit": 229,
    "entries_not_in_the_commit": 72,
    "held_states_survive_a_change": 2,
    "impatient": 13,
    "marker_before_the_file": 38,
    "no_seal_at_takeover": 5,
    "offset_not_in_the_commit": 24,
    "old_end_window_accepted": 81,
    "old_reports_counted": 3,
    "published_files_not_looked_for": 17,
    "readers_before_the_log_is_mended": 1141,
    "renames_not_settled": 29,
    "renames_without_asking": 301,
    "reports_of_a_late_slot_taken": 935,
    "rows_synced_after_the_report": 6,
    "segments_of_living_containers_dropped": 167,
    "segments_not_settled": 14,
    "state_file_not_settled": 187,
    "states_stay_behind": 3,
    "taken_back_and_kept": 2,
    "windows_count_for_nothing": 53,
}
"""The seed by which a bug was found: it is tried first, then those after it, the many before it last."""


def seeds_of(plant, count):
    """All seeds, the likely ones first."""
    begin = BEGINS.get(plant.__name__, 0)
    return [*range(begin, count), *range(begin)]


def commit_before_sync(patch):
    """A record is written, and synced some time."""

    def extend(self, place, record, *, settles):
        self._file.write(record, place.offset)

    patch.setattr(Journal, "_extend", extend)


def state_file_not_settled(patch):
    """A record names a file whose own name is not on the disk yet."""
    whole = Journal._extend
    patch.setattr(
        Journal, "_extend", lambda self, place, record, settles: whole(self, place, record, settles=False)
    )


def no_fence_after_append(patch):
    """A driver that has appended does not look whether there is another one."""
    commit = Checkpoint.commit

    def unfenced(self, *arguments):
        self.check_owner = lambda: None
        try:
            return commit(self, *arguments)
        finally:
            del self.check_owner

    patch.setattr(Checkpoint, "commit", unfenced)


def no_seal_at_takeover(patch):
    """What a driver reads does not count from then on: another one may still append to it."""
    seal = Journal.seal

    def late(self, epoch):
        if self.last is None:
            return seal(self, epoch)
        self._write_again()
        return True

    patch.setattr(Journal, "seal", late)


def publish_before_commit(patch):
    """Readers see a window that is not committed yet."""
    commit = ApplicationRun._commit

    def early(self, instruction):
        for window_id, reports in instruction.reports.items():
            self.outputs.stage(window_id, reports)
            self.outputs.publish(window_id)
        return commit(self, instruction)

    patch.setattr(ApplicationRun, "_commit", early)


def old_end_window_accepted(patch):
    """A slot takes END_WINDOW and blocks of an attempt that is over for those of the next."""
    from_slot = Slot.from_slot

    def take(self, message):
        known = self._attempts.of_window(message.window_id)
        from_slot(self, replace(message, attempt=max(known)) if known else message)

    patch.setattr(Slot, "from_slot", take)


def states_not_given_after_loss(patch):
    """Containers of a lost slot go on with nothing."""

    def failed(self, failure):
        event = original(self, failure)
        self._void = None
        return event

    original = SlotAttempts.failed
    patch.setattr(SlotAttempts, "failed", failed)
    void = Master._void

    def keep(self, first, reason):
        void(self, first, reason)
        self.state_versions.stale = False

    patch.setattr(Master, "_void", keep)


def old_reports_counted(patch):
    """STRAM counts reports of attempts that are void."""
    reported = Master._reported

    def count(self, report):
        window = self._windows.get(report.window.window_id)
        if window is not None:
            report.window.attempt = window.attempt
        return reported(self, report)

    patch.setattr(Master, "_reported", count)


def commits_before_all_have_reported(patch):
    """STRAM takes a window for complete that some container has reported."""
    patch.setattr(InFlightWindow, "complete", property(lambda self: bool(self.reports)))


def void_state_kept(patch):
    """A container that has failed takes what it holds for the state that it is to go back to."""
    restore = ContainerStates.restore

    def kept(self, spec, runtime, states, window_id):
        if self.versions[runtime.spec.id] is None and states is not None:
            self.versions[runtime.spec.id] = states.get(runtime.spec.id, ())
        return restore(self, spec, runtime, states, window_id)

    patch.setattr(ContainerStates, "restore", kept)


def purges_too_much(patch):
    """A purge forgets that the kept windows name files."""
    patch.setattr(folder, "_names", lambda windows: set())


def edits_forgotten(patch):
    """The record of a change does not say what has changed."""
    patch.setattr(Planner, "_texts", lambda self, _noted: self.kept.edits)


def states_stay_behind(patch):
    """A plan begins without the states that move to it."""

    def nothing(*arguments):
        begin = state_moves.moved(*arguments)
        kept = {one: version for one, version in begin.states.items() if one not in begin.moved}
        return replace(begin, states=kept)

    patch.setattr(run_module, "moved", nothing)


def attempts_begin_anew(patch):
    """A window that two plans begin has the same attempts under both."""
    patch.setattr(InFlightWindows, "attempts", {})


def held_states_survive_a_change(patch):
    """A container takes what it holds under one plan for what it is to hold under the next."""
    change = Container.change

    def kept(self, spec):
        held = dict(self._states.versions)
        errors = change(self, spec)
        self._states.versions.update({one: held[one] for one in held if one in self._operators})
        return errors

    patch.setattr(Container, "change", kept)
    restore = ContainerStates.restore

    def believe(self, spec, runtime, states, window_id):
        if states is not None and self.versions.get(runtime.spec.id):
            self.versions[runtime.spec.id] = states.get(runtime.spec.id, ())
        return restore(self, spec, runtime, states, window_id)

    patch.setattr(ContainerStates, "restore", believe)


def taken_back_and_kept(patch):
    """A change whose first window fails is in the records that follow."""
    take_back = ApplicationRun._take_back

    def for_good(self, trial, failure):
        take_back(self, replace(trial, kept=self._planner.kept), failure)

    patch.setattr(ApplicationRun, "_take_back", for_good)


def reports_of_a_late_slot_taken(patch):
    """What a slot reports counts, though another one runs its containers since it was late."""
    patch.setattr(slot_executor, "is_of_windows", lambda message: False)


def renames_without_asking(patch):
    """A file comes into sight whoever owns the checkpoint by now."""
    publish_file = FilePublisher._publish_file

    def unasked(self, segments):
        context = self._context
        self._context = replace(context, check_owner=lambda: None)
        try:
            publish_file(self, segments)
        finally:
            self._context = context

    patch.setattr(FilePublisher, "_publish_file", unasked)


def marker_before_the_file(patch):
    """The marker says that a file is in sight before it is."""
    publish_file = FilePublisher._publish_file

    def early(self, segments):
        self._marker.move(segments[-1].window)
        publish_file(self, segments)

    patch.setattr(FilePublisher, "_publish_file", early)


def segments_not_settled(patch):
    """A record names segments whose own names are not on the disk yet."""
    stage = FilePublisher.stage

    def unsettled(self, *arguments):
        self._files.sync = lambda folder: None
        try:
            return stage(self, *arguments)
        finally:
            del self._files.sync

    patch.setattr(FilePublisher, "stage", unsettled)


def renames_not_settled(patch):
    """The marker is moved though the name of the file before it may be lost."""
    publish_file = FilePublisher._publish_file

    def unsettled(self, segments):
        self._files.sync = lambda folder: None
        try:
            publish_file(self, segments)
        finally:
            del self._files.sync

    patch.setattr(FilePublisher, "_publish_file", unsettled)


def published_files_not_looked_for(patch):
    """A driver that starts believes the marker alone."""
    patch.setattr(FilePublisher, "_last_windows", lambda self, folder: [])


def segments_of_later_windows_removed(patch):
    """A driver that starts removes what one that is being fenced off may be about to commit."""
    patch.setattr(FilePublisher, "_is_left_over", lambda self, name: name.endswith(".segment"))


def offset_not_in_the_commit(patch):
    """A reader of a queue begins anew with each driver."""
    opened = Inputs.open
    patch.setattr(Inputs, "open", lambda self, plan, _offsets: opened(self, plan, {}))


def entries_before_the_commit(patch):
    """Readers of a queue see windows that are not committed yet."""
    stage = QueuePublisher.stage

    def early(self, window_id, values):
        state = stage(self, window_id, values)
        self._append(self._staged)
        return state

    patch.setattr(QueuePublisher, "stage", early)


def rows_synced_after_the_report(patch):
    """A container reports rows of a queue that a power cut can still take."""
    patch.setattr(queue_files, "sync_rows", lambda number: None)


def entries_not_in_the_commit(patch):
    """A window is committed without its entries, which a driver that dies then has not appended."""
    stage = QueuePublisher.stage
    patch.setattr(
        QueuePublisher, "stage", lambda self, *given: {**stage(self, *given), "entries": [], "next": 0}
    )
    patch.setattr(QueuePublisher, "_resume", lambda self, state: self._begin())


def segments_of_living_containers_dropped(patch):
    """A segment goes with the last entry that names it, though its partition appends to it."""

    def drop(self, first):
        dropped = self.files.pop(first)
        self._folder.remove([dropped.bundle])
        self._folder.remove_segments(dropped.segments - self.segments)

    patch.setattr(LogWriter, "drop", drop)


def readers_before_the_log_is_mended(patch):
    """After a power cut a reader reads what its writer has not mended yet."""
    patch.setattr(QueueEnumerator, "_is_of_application", lambda self: False)


def windows_count_for_nothing(patch):
    """Failures of the cluster add up, though windows run between them."""
    patch.setattr(Patience, "window_ran", lambda self: setattr(self, "wait_until", 0.0))


def impatient(patch):
    """Failures of the cluster count as attempts long before the patience is over."""
    made = Patience.__init__
    patch.setattr(Patience, "__init__", lambda self, seconds: made(self, seconds / 4))


def short(seed, kinds):
    """Rows of every other case stay for a short time only; the power fails while there are some."""
    case = RegionCase.of(seed, kinds)
    if kinds == ("power",):  # two cuts of a run that lasts
        faults = (Fault(200 + seed * 13 % 800, "power", 0), Fault(400 + seed * 29 % 900, "power", 0))
        return replace(case, total=8, faults=faults)
    return replace(case, keep=0.5, roll_entries=1) if seed % 2 else case


def stopping(seed, kinds):
    """Slots that stand still and are killed over and over, where all blocks are large."""
    case, luck = Case.speculating(7255, kinds), Random(seed)
    stops = [
        Fault(luck.randint(60, 420), "stop slot", luck.randrange(1 << 16)) for _ in range(luck.randint(2, 6))
    ]
    kills = [
        Fault(luck.randint(60, 420), "kill slot", luck.randrange(1 << 16)) for _ in range(luck.randint(0, 2))
    ]
    return replace(case, seed=7255 + seed, faults=tuple(sorted([*stops, *kills])))


def struck(seed, kinds):
    """One fault, somewhere in a small application that writes files."""
    rolls = (0.0, 0.01)[seed % 2]
    faults = (Fault(100 + 2 * seed, kinds[0], seed),)
    return Case(
        seed, total=8, in_flight=2, slots=1, large=0.0, real=False, files="jsonl", roll_seconds=rolls,
        faults=faults,
    )  # fmt: skip


def overtaken(seed, _kinds):
    """A driver stands still from a moment on, while another one begins to publish other windows together."""
    faults = (Fault(150 + seed, "second driver", 100 + 7 * seed % 500),)
    return Case(seed, total=24, real=False, files="jsonl", roll_seconds=0.05, faults=faults)


def lasting(seed, _kinds=()):
    """A slot is lost, another one is late for long, then a connection breaks."""
    faults = (
        Fault(86, "cut", seed),
        Fault(90, "late", 2 * (100 + seed)),
        Fault(120 + 5 * seed, "cut", 7 * seed),
    )
    return Case(seed, total=3, slots=3, burst=2, large=0.0, real=False, faults=faults)


POWER = ("power", "bad sync")
DRIVERS = ("kill driver", "stop driver", "second driver")
SLOTS = ("kill slot", "job", "cut", "late", "stop slot", "disown", "raise")
FOUND_BY = {
    Case.of: {
        commit_before_sync: POWER,
        state_file_not_settled: POWER,
        no_fence_after_append: DRIVERS,
        no_seal_at_takeover: DRIVERS,
        publish_before_commit: DRIVERS,
        old_end_window_accepted: SLOTS,
        states_not_given_after_loss: SLOTS,
        old_reports_counted: SLOTS,
        void_state_kept: ("raise",),
        purges_too_much: SLOTS,
    },
    Case.changing: {
        edits_forgotten: KINDS,
        states_stay_behind: KINDS,
        attempts_begin_anew: KINDS,
        held_states_survive_a_change: KINDS,
        taken_back_and_kept: KINDS,
    },
    short: {
        offset_not_in_the_commit: ("kill driver",),
        entries_before_the_commit: ("kill driver", "kill slot"),
        rows_synced_after_the_report: ("power",),
        entries_not_in_the_commit: ("kill driver",),
        segments_of_living_containers_dropped: ("kill slot",),
        readers_before_the_log_is_mended: ("power",),
    },
    struck: {
        marker_before_the_file: ("kill driver",),
        segments_not_settled: ("power",),
        renames_not_settled: ("power",),
        published_files_not_looked_for: ("kill driver",),
        segments_of_later_windows_removed: ("kill driver",),
    },
    stopping: {reports_of_a_late_slot_taken: KINDS},
    overtaken: {renames_without_asking: KINDS},
    lasting: {windows_count_for_nothing: KINDS, impatient: KINDS},
}
"""What makes the cases that find a bug, of faults of these kinds."""
COUNTS = {struck: 150, lasting: 100, stopping: 2 * SEEDS, short: 3 * SEEDS}
PLANTED = [
    pytest.param(plant, of, kinds, id=plant.__name__)
    for of, bugs in FOUND_BY.items()
    for plant, kinds in bugs.items()
]


@pytest.mark.parametrize(("plant", "of", "kinds"), PLANTED)
def test_a_planted_bug_is_found(plant, of, kinds, monkeypatch):
    plant(monkeypatch)
    assert first_failing(seeds_of(plant, COUNTS.get(of, SEEDS)), kinds, of=of) is not None


def test_a_driver_ends_once_its_patience_is_over_and_the_next_one_goes_on():
    assert sum(simulate(lasting(seed)).ends for seed in range(40, 60)) > 1


def test_an_illegal_transition_of_a_window_is_found(monkeypatch):
    commits_before_all_have_reported(monkeypatch)
    found = failure(Case.of(0))
    assert "cannot go from RUNNING to COMMITTING: its commit begins" in found


def test_a_failing_seed_is_shrunk_and_becomes_a_test(monkeypatch):
    states_not_given_after_loss(monkeypatch)
    case = first_failing(range(SEEDS), SLOTS)
    small = shrunk(case)
    assert len(small.faults) <= len(case.faults)
    assert small.total <= case.total
    found = {"Case": Case, "Fault": Fault, "failure": failure}
    exec(as_test(small), found)
    with pytest.raises(AssertionError):
        found[f"test_seed_{small.seed}"]()
    monkeypatch.undo()
    found[f"test_seed_{small.seed}"]()
