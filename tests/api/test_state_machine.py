"""State cells against plain Python values, over any sequence of edits, windows, crashes and snapshots."""

import copy
import pickle
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ridgeline import KeyedState, ListState, State
from ridgeline.api.cells.cell import StateScope
from ridgeline.api.state import StateCell
from support.depth import deep

KEYS = st.integers(0, 4)
VALUES = st.integers(-3, 3)
WINDOWS_SEEN_AS_ONE = 3


class CellMachine(RuleBasedStateMachine):
    """Windows begin, end with a commit, or are lost; the cell is then made again of what was committed."""

    scope: StateScope = "application"

    def make(self) -> StateCell:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.cell: Any = self.make()
        self.version: list[bytes] = []
        self.idle: tuple[Any, list[bytes]] = (self.make(), [])
        self.window = 0
        self.model: Any = None
        self.committed: Any = None
        self.changed: dict[Any, None] = {}
        self.committed_changed: dict[Any, None] = {}

    @initialize()
    def first_window(self) -> None:
        self.committed = copy.deepcopy(self.model)
        self.begin()

    def begin(self) -> None:
        if self.window % WINDOWS_SEEN_AS_ONE == 0:
            self.committed_changed = {}
        self.changed = dict(self.committed_changed)
        self.cell.begin(self.window - self.window % WINDOWS_SEEN_AS_ONE)

    @rule(snapshot=st.booleans(), move=st.booleans())
    def commit(self, *, snapshot: bool, move: bool) -> None:
        """`move`: the next window runs in another worker, which may have the state of an earlier window."""
        if self.scope == "window" and (self.window + 1) % WINDOWS_SEEN_AS_ONE == 0:
            self.cell.end()
            self.model = type(self)().model
        change = self.cell.changes()
        if change is not None and snapshot:
            self.version = [pickle.dumps(self.cell.snapshot())]
        elif change is not None:
            self.version = [*self.version, pickle.dumps(change)]
        self.committed, self.committed_changed = copy.deepcopy(self.model), dict(self.changed)
        self.window += 1
        if move:
            here = self.cell, self.version
            self.cell, held = self.idle
            self.idle = here
            missing = self.version[len(held) :]
            if not held or self.version[: len(held)] != held:
                self.cell.reset()
                missing = self.version
            for change in missing:
                self.cell.apply(pickle.loads(change))
        self.begin()

    @rule(new_cell=st.booleans())
    def abort(self, *, new_cell: bool) -> None:
        if new_cell:
            self.cell = self.make()
        self.cell.reset()
        for change in self.version:
            self.cell.apply(pickle.loads(change))
        self.model = copy.deepcopy(self.committed)
        self.begin()

    @rule()
    def nothing_happens(self) -> None:
        self.commit(snapshot=False, move=False)


class KeyedMachine(CellMachine):
    def make(self) -> StateCell:
        return KeyedState(list, default=list, scope=self.scope).cell()

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[int, list[int]] = {}

    def note(self, *keys: int) -> None:
        self.changed.update(dict.fromkeys(keys))

    @rule(key=KEYS, value=VALUES)
    def put(self, key: int, value: int) -> None:
        self.cell[key] = [value]
        self.model[key] = [value]
        self.note(key)

    @rule(key=KEYS)
    def delete(self, key: int) -> None:
        assert self.cell.pop(key, None) == self.model.pop(key, None)
        self.note(key)

    @rule(key=KEYS)
    def look(self, key: int) -> None:
        assert self.cell.get(key) == self.model.get(key)

    @rule(key=KEYS, value=VALUES)
    def append_in_place(self, key: int, value: int) -> None:
        self.cell[key].append(value)
        self.model.setdefault(key, []).append(value)
        self.note(key)

    @rule(key=KEYS, value=VALUES)
    def set_default(self, key: int, value: int) -> None:
        if key not in self.model:
            self.note(key)
        assert self.cell.setdefault(key, [value]) == self.model.setdefault(key, [value])

    @rule(keys=st.lists(KEYS, max_size=4), value=VALUES)
    def put_many(self, keys: list[int], value: int) -> None:
        self.cell.put_many(keys, [[value]] * len(keys))
        self.model.update((key, [value]) for key in keys)
        self.note(*keys)
        for key in keys:  # not one list under several keys
            self.cell[key] = [value]

    @rule()
    def clear(self) -> None:
        self.note(*self.model)
        self.cell.clear()
        self.model.clear()

    @invariant()
    def same_items_in_the_same_order(self) -> None:
        assert list(self.cell.items()) == list(self.model.items())
        assert len(self.cell) == len(self.model)
        assert [key in self.cell for key in range(5)] == [key in self.model for key in range(5)]

    @invariant()
    def changed_in_the_application_window(self) -> None:
        changed = list(self.cell.changed())
        assert dict(changed) == {key: self.model[key] for key in self.changed if key in self.model}
        assert len(changed) == len(dict(changed))


class OrderMachine(KeyedMachine):
    """A twin that dies after every window gives what it changed in the very same order."""

    def __init__(self) -> None:
        super().__init__()
        self.twin = self.make()

    def begin(self) -> None:
        super().begin()
        self.twin = self.make()
        for change in self.version:
            self.twin.apply(pickle.loads(change))
        self.twin.begin(self.window - self.window % WINDOWS_SEEN_AS_ONE)
        assert list(self.twin.changed()) == list(self.cell.changed())


class ListMachine(CellMachine):
    def make(self) -> StateCell:
        return ListState(int, scope=self.scope).cell()

    def __init__(self) -> None:
        super().__init__()
        self.model: list[int] = []

    @rule(value=VALUES)
    def append(self, value: int) -> None:
        self.cell.append(value)
        self.model.append(value)

    @rule(values=st.lists(VALUES, max_size=3))
    def extend(self, values: list[int]) -> None:
        self.cell.extend(values)
        self.model.extend(values)

    @precondition(lambda self: self.model)
    @rule(index=st.integers(-9, 9), value=VALUES)
    def put(self, index: int, value: int) -> None:
        index %= len(self.model)
        index -= len(self.model) if value < 0 else 0
        self.cell[index] = value
        self.model[index] = value

    @precondition(lambda self: self.model)
    @rule(index=st.integers(-9, 9))
    def pop(self, index: int) -> None:
        index %= len(self.model)
        assert self.cell.pop(index) == self.model.pop(index)

    @rule(index=st.integers(-9, 9), value=VALUES)
    def insert(self, index: int, value: int) -> None:
        self.cell.insert(index, value)
        self.model.insert(index, value)

    @rule(
        start=st.none() | st.integers(-5, 5),
        stop=st.none() | st.integers(-5, 5),
        values=st.lists(VALUES, max_size=3),
    )
    def put_slice(self, start: int | None, stop: int | None, values: list[int]) -> None:
        self.cell[start:stop] = values
        self.model[start:stop] = values

    @rule(start=st.none() | st.integers(-5, 5), step=st.sampled_from([-3, -2, -1, 1, 2]))
    def delete_slice(self, start: int | None, step: int) -> None:
        del self.cell[start::step]
        del self.model[start::step]

    @rule()
    def clear(self) -> None:
        self.cell.clear()
        self.model.clear()

    @rule()
    def reverse(self) -> None:
        self.cell.reverse()
        self.model.reverse()

    @invariant()
    def same_items(self) -> None:
        assert self.cell == self.model
        assert list(self.cell) == self.model
        assert len(self.cell) == len(self.model)


class ValueMachine(CellMachine):
    def make(self) -> StateCell:
        return State([0], scope=self.scope).cell()

    def __init__(self) -> None:
        super().__init__()
        self.model: list[int] = [0]

    @rule(value=VALUES)
    def assign(self, value: int) -> None:
        self.cell.set([value])
        self.model = [value]

    @rule(value=VALUES)
    def append_in_place(self, value: int) -> None:
        self.cell.get().append(value)
        self.model.append(value)

    @rule()
    def empty_in_place(self) -> None:
        self.cell.get().clear()
        self.model.clear()

    @invariant()
    def same_value(self) -> None:
        assert self.cell.get() == self.model


class KeyedOfWindow(OrderMachine):
    scope = "window"


class ListOfWindow(ListMachine):
    scope = "window"


class ValueOfWindow(ValueMachine):
    scope = "window"


for machine in (
    CellMachine,
    KeyedMachine,
    OrderMachine,
    ListMachine,
    ValueMachine,
    KeyedOfWindow,
    ListOfWindow,
    ValueOfWindow,
):
    # Each run draws others.
    machine.TestCase.settings = settings(deadline=None, max_examples=deep(20), stateful_step_count=40)

TestKeyedState = KeyedMachine.TestCase
TestKeyedStateInOrder = OrderMachine.TestCase
TestListState = ListMachine.TestCase
TestState = ValueMachine.TestCase
TestKeyedStateOfWindow = KeyedOfWindow.TestCase
TestListStateOfWindow = ListOfWindow.TestCase
TestStateOfWindow = ValueOfWindow.TestCase
