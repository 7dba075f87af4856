"""Sends attempts and commits to the slots."""

from __future__ import annotations

from ridgeline.engine.driver.slots.contents import SlotContents
from ridgeline.engine.driver.slots.feed import Feeds
from ridgeline.engine.driver.slots.group import SlotGroup
from ridgeline.engine.driver.slots.shared_folder import BlockSharing
from ridgeline.engine.process import log_levels
from ridgeline.engine.slot.messages import Committed, RunAttempt, SetLevels, encode_for_each
from ridgeline.plan.protocol import WindowRequest


class AttemptSender:
    """Sends attempts, with the rows of Spark sources and a place for large blocks. One thread."""

    def __init__(self, contents: SlotContents, feeds: Feeds, sharing: BlockSharing) -> None:
        self._contents = contents
        self._feeds = feeds
        self._sharing = sharing
        self._sent = False
        """Slots have got an attempt."""
        self._levels = log_levels.levels()
        """The levels of loggers that the slots have."""
        self._commit: int | None = None
        """The last window that was committed, if it is not sent yet: the next `RunAttempt` has it."""

    def send(self, group: SlotGroup, request: WindowRequest) -> None:
        """Send an attempt to all slots; each gets the states of its own containers only. Raises FeedError."""
        contents = self._contents
        self._sent = True
        hosts = {member.host for member in contents.slots.members.values()}
        place = self._sharing.place(request.window_id, request.attempt, hosts)
        fed = self._feeds.prepare(request)
        commit, self._commit = self._commit, None
        self._send(group, RunAttempt(request, place, fed, -1 if commit is None else commit))
        if fed:
            slots = {container: group.way_to(contents.home[container]) for container in fed}
            self._feeds.start(slots, group.secret)

    def _send(self, group: SlotGroup, run: RunAttempt) -> None:
        request, slots = run.request, self._contents.slots
        if request.states is None:
            group.send_all(run)
            return
        encoded = encode_for_each(run)
        for slot in range(len(slots.placement)):
            if slot != slots.spare:
                group.send_frame(slot, encoded(self._contents.states_of(slot, request.states)))

    def committed(self, window_id: int) -> None:
        """A window is committed: the slots get that with the next attempt, or by `send_commit`."""
        self._commit = window_id
        self._sharing.committed(window_id)

    def send_commit(self, group: SlotGroup | None) -> None:
        """Send the last commit, if no attempt had it and the slots have states to run on with."""
        if self._commit is not None and group is not None and self._sent:
            group.send_all(Committed(self._commit))
            self._commit = None

    def send_levels(self, group: SlotGroup | None) -> None:
        """Send the levels of loggers to all slots, if they have changed."""
        levels = log_levels.levels()
        if group is not None and levels is not self._levels:
            self._levels = levels
            for slot in self._contents.slots.members:
                group.send(slot, SetLevels(dict(levels)))

    def joined(self, group: SlotGroup, slot: int) -> None:
        """Send a slot that has joined the levels of loggers that are set."""
        if self._levels:
            group.send(slot, SetLevels(dict(self._levels)))
