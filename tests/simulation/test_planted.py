"""Bugs that are planted on purpose: the simulation finds each within some seeds."""

from dataclasses import replace

import pytest

from ridgeline.engine.driver import retention
from ridgeline.engine.driver.checkpoint import Checkpoint
from ridgeline.engine.driver.journal import Journal
from ridgeline.engine.driver.run import ApplicationRun
from ridgeline.engine.worker.slot import Slot
from ridgeline.stram.in_flight import InFlight
from ridgeline.stram.master import Master
from support.simulation.search import failure, first_failing, shrunk

SEEDS = 1500


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


def no_fence(patch):
    """A driver does not look whether there is another one."""
    patch.setattr(Checkpoint, "check_owner", lambda self: None)


def no_seal(patch):
    """A driver that takes over writes nothing before its first window."""
    patch.setattr(Journal, "seal", lambda self, epoch: True)


def publish_before_commit(patch):
    """Readers see a window that is not committed yet."""
    commit = ApplicationRun._commit

    def early(self, instruction):
        for window_id, reports in instruction.reports.items():
            self._outputs.stage(window_id, reports)
            self._outputs.publish(window_id)
        return commit(self, instruction)

    patch.setattr(ApplicationRun, "_commit", early)


def old_end_window_accepted(patch):
    """A slot takes END_WINDOW and blocks of an attempt that is over for those of the next."""
    from_slot = Slot.from_slot

    def take(self, message):
        known = self._attempts.get(message.window_id)
        from_slot(self, replace(message, attempt=max(known)) if known else message)

    patch.setattr(Slot, "from_slot", take)


def states_not_given_after_loss(patch):
    """Containers of a lost slot go on with nothing."""

    def failed(self, failure):
        event = original(self, failure)
        self._void = None
        return event

    original = InFlight.failed
    patch.setattr(InFlight, "failed", failed)
    void = Master._void

    def keep(self, first, reason):
        void(self, first, reason)
        self._reload = False

    patch.setattr(Master, "_void", keep)


def old_reports_counted(patch):
    """STRAM counts reports of attempts that are void."""
    reported = Master._reported

    def count(self, report):
        flight = self._flights.get(report.window.window_id)
        if flight is not None:
            report.window.attempt = flight.attempt
        return reported(self, report)

    patch.setattr(Master, "_reported", count)


def purges_too_much(patch):
    """A purge forgets that the kept windows name files."""
    patch.setattr(retention, "_names", lambda windows: set())


BUGS = [
    commit_before_sync,
    state_file_not_settled,
    no_fence,
    no_seal,
    publish_before_commit,
    old_end_window_accepted,
    states_not_given_after_loss,
    old_reports_counted,
    purges_too_much,
]


@pytest.mark.slow
@pytest.mark.parametrize("plant", BUGS, ids=[bug.__name__ for bug in BUGS])
def test_a_planted_bug_is_found(plant, monkeypatch):
    plant(monkeypatch)
    case = first_failing(range(SEEDS))
    assert case is not None
    small = shrunk(case)
    assert failure(small)
    assert len(small.faults) <= len(case.faults)
