"""Calls of the client that may never return, in a thread that can be left behind."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any


class HungError(Exception):
    """A call has not returned. Its client cannot be used any more, nor be closed."""


class Bounded:
    """Makes calls in a daemon thread, one at a time.

    `send_offsets_to_transaction` does not mind its timeout while the coordinator of the group is away. It may
    not return even after that is back (librdkafka, issue 5456).
    """

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    def call(self, function: Callable[[], Any], seconds: float) -> Any:
        """Call, and return or raise what the call does. Raises HungError after so many seconds."""
        over = threading.Event()
        found: list[Any] = []
        raised: list[BaseException] = []

        def made() -> None:
            try:
                found.append(function())
            except BaseException as error:  # noqa: BLE001  it is raised in the thread that has called
                raised.append(error)
            over.set()

        self._calls.put(made)
        if not over.wait(seconds):
            raise HungError(f"the client of Kafka has not returned for {seconds:.0f} s")
        if raised:
            raise raised[0]
        return found[0]

    def end(self) -> None:
        """End the thread, once a call that hangs has returned."""
        self._calls.put(None)
