"""Models that learn, as objects: each is what the state says, or is read from it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ridgeline.api import RidgelineError
from ridgeline.api.support.pickling import dumps, loads

Kept = tuple[int, int, bytes]
"""How many records a model has learned; how many those of its pickle are; the pickle, empty for a new model.

Within a window the first number grows. At the window's end the pickle is written again.
"""
NEW: Kept = (0, 0, b"")
MOST_LIVE = 10_000
"""The number of models that stay in memory between windows."""


@dataclass
class LiveModel:
    """A model, how many records it has learned, and the pickle that it was last written as."""

    model: Any
    count: int
    content: bytes


class LiveModels:
    """The models of an operator in one container.

    They are no state. An attempt that is void leaves models that have learned too much: their number of
    records differs from that in the state.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._live: dict[Any, LiveModel] = {}
        self._learned: set[Any] = set()
        self._in_call: dict[Any, tuple[int, bytes | None]] = {}

    def begin(self) -> None:
        """Records come, which count together: `undo` takes back what is learned from them."""
        self._in_call = {}

    def of(self, key: Any, kept: Kept) -> LiveModel:
        """The model of a key, which the state has as `kept`. Raises RidgelineError if it is in neither."""
        count, at, content = kept
        found = self._live.get(key)
        if key in self._in_call and found is not None:
            return found
        if found is None or found.count != count or found.content is not content != found.content:
            if count != at:
                raise RidgelineError(
                    "a model is not there that learned in this window; the window runs again"
                )
            found = LiveModel(loads(content) if content else self._make(), count, content)
            self._live[key] = found
        return found

    def learn(self, key: Any, one: LiveModel, records: int = 1, *, savepoint: bool = False) -> Any:
        """The model of a key, which learns from so many records now. `savepoint`: `undo` brings it back."""
        if key not in self._in_call:
            self._in_call[key] = (one.count, dumps(one.model) if savepoint else None)
        one.count += records
        return one.model

    def undo(self) -> None:
        """Models are as before the call, or else are read from the state again."""
        for key, (count, content) in self._in_call.items():
            if content is None:
                self._live.pop(key, None)
            else:
                one = self._live[key]
                one.model, one.count = loads(content), count
        self._in_call = {}

    def end(self) -> Iterator[tuple[Any, int]]:
        """The keys whose models have learned in the call, and how many records they have learned in all."""
        for key in self._in_call:
            self._learned.add(key)
            yield key, self._live[key].count
        self._in_call = {}

    def changed(self, kept: Callable[[Any], Kept]) -> Iterator[tuple[Any, Kept]]:
        """The models that have learned in the window, by key, as they are to be kept."""
        for key in self._learned:
            count, at, _ = kept(key)
            if count != at:
                one = self.of(key, kept(key))
                one.content = dumps(one.model)
                yield key, (count, count, one.content)
        self._learned = set()
        for key in list(self._live)[: max(0, len(self._live) - MOST_LIVE)]:
            del self._live[key]
