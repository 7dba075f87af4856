"""Commits beside the windows: a slow disk holds back what is published, not what runs."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ridgeline import Application, CheckpointError, InputPort, Operator, Publisher, State
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.run.committing import Commits
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.measure.events import WindowCommitted
from ridgeline.plan.planner import plan_application
from ridgeline.stram.control import ManifestWritten
from ridgeline.testing import END_WINDOW, ListInput, SteppingClock
from ridgeline.testing.local_executor import LocalExecutor
from support.engine.driven import publisher_context
from support.waiting import PATIENCE_SECONDS

WRITTEN = ManifestWritten(7)


@pytest.fixture
def woken():
    return threading.Event()


@pytest.fixture
def beside(woken):
    commits = Commits(ThreadPoolExecutor(1), woken.set)
    yield commits
    commits.close()


def test_a_commit_is_reported_once_it_is_done_and_wakes_the_run(beside, woken):
    go = threading.Event()

    def commit():
        assert go.wait(PATIENCE_SECONDS)
        return WRITTEN

    assert beside.finished() is None
    beside.begin(commit)
    assert beside.finished() is None
    assert not woken.is_set()
    go.set()
    assert woken.wait(PATIENCE_SECONDS)
    assert beside.finished() is WRITTEN
    assert beside.finished() is None


def test_what_a_commit_raises_is_raised_once(beside, woken):
    def commit():
        raise CheckpointError("no space")

    beside.begin(commit)
    assert woken.wait(PATIENCE_SECONDS)
    with pytest.raises(CheckpointError, match="no space"):
        beside.finished()
    assert beside.finished() is None


class Total(Operator):
    """The sum so far."""

    numbers = InputPort(object)
    total = State(0)

    @numbers.process
    def add(self, number: int) -> None:
        self.total += number

    def end_window(self) -> None:
        self.context.hand_over(self.total)


class Seen(Publisher):
    """What is staged and published."""

    groups_windows = True

    def __init__(self, seen):
        self.seen = seen

    def stage(self, window_id, values):
        self.seen.append(("staged", window_id, *values))
        return window_id

    def publish(self, window_id):
        self.seen.append(("published", window_id))

    def idle(self):
        self.seen.append(("idle",))


class SlowDisk(MemoryStorage):
    """Records wait for `go`; the disk may `fail` then."""

    def __init__(self):
        super().__init__()
        self.go = threading.Event()
        self.go.set()
        self.fail = False

    def create(self, name, data, *, settled=""):
        if name.startswith("journal/"):
            assert self.go.wait(PATIENCE_SECONDS)
            if self.fail:
                raise OSError(5, "Input/output error")
        return super().create(name, data, settled=settled)


class Run:
    """An application whose commits wait for a slow disk."""

    def __init__(self, groups, commits):
        self.seen = []
        seen = self.seen

        class Output(Total):
            def publisher(self):
                publisher = Seen(seen)
                publisher.groups_windows = groups
                return publisher

        app = Application("slow", windows_in_flight=5)
        numbers = app.add_operator(
            "numbers", ListInput(object, [one for number in range(100) for one in (number, END_WINDOW)])
        )
        app.add_stream("numbers", numbers.output, app.add_operator("output", Output()).numbers)
        plan = plan_application(app)
        self.storage, self.events = SlowDisk(), []
        self.checkpoint = Checkpoint(self.storage, "slow")
        clock = SteppingClock()
        executor = LocalExecutor(plan, self.storage, clock, self.checkpoint.run_id, seed=1)
        self.run = ApplicationRun(
            plan,
            self.checkpoint,
            executor,
            clock,
            lambda name: publisher_context(name, clock),
            self.events.append,
            commits=commits,
        )

    def go_on(self, until):
        """Begin and run windows until something is the case."""
        master = self.run.master
        while not until():
            if master.can_begin:
                self.run.begin(master.next_window)
            self.run.turn(0)

    @property
    def committed(self):
        return [event.window_id for event in self.events if isinstance(event, WindowCommitted)]


@pytest.mark.parametrize("groups", [True, False])
def test_windows_go_on_while_the_disk_is_slow(beside, groups):
    one = Run(groups, beside)
    one.storage.go.clear()
    one.go_on(lambda: one.run.master.under_way == 5 and one.seen)
    for _ in range(100):
        one.run.turn(0)
        one.run.idle()
    assert one.seen == [("staged", 0, 0)]  # nothing is published before the sync
    assert one.committed == []
    one.storage.go.set()
    one.go_on(lambda: len(one.committed) >= 5)
    if groups:
        staged = [("staged", window, sum(range(window + 1))) for window in range(1, 5)]
        assert one.seen[1:7] == [("published", 0), *staged, ("published", 4)]
        assert [window.window_id for window in one.checkpoint.kept()][-2:] == [4, 0]
    else:
        assert one.seen[1:4] == [("published", 0), ("staged", 1, 1), ("published", 1)]
    assert one.committed[:5] == [0, 1, 2, 3, 4]
    one.run.close(orderly=False)


def test_a_sync_that_fails_ends_the_run_and_nothing_is_published(beside):
    one = Run(groups=True, commits=beside)
    one.storage.fail = True
    with pytest.raises(CheckpointError, match="Input/output error"):
        one.go_on(lambda: False)
    assert one.seen == [("staged", 0, 0)]
    one.run.close(orderly=False)
    one.storage.fail = False
    assert Checkpoint(one.storage, "slow").last() is None
