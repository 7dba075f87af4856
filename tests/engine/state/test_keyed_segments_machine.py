"""Keyed state in segments against a plain dict, over random edits, windows, crashes and compactions."""

import copy
import pickle
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from unittest import mock

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ridgeline import KeyedState
from ridgeline.engine.state import keyed_hash, keyed_segments, segment_compaction
from support.depth import deep
from support.engine.run_folder import RunFolder

WINDOWS_SEEN_AS_ONE = 3

INSTANT = datetime(2026, 1, 1, tzinfo=UTC)
ANY_KEYS = [
    0,
    1,
    1.0,
    True,
    -1,
    2.5,
    Decimal("2.5"),
    2**70,
    2.0**70,
    "",
    "a",
    b"a",
    None,
    date(2026, 1, 1),
    INSTANT,
    timedelta(1),
    "\ud800",
]
ANY_KEYS += [(), (1, "a"), (1.0, "a"), (1, ("a",)), ("a", "b")]


class RunsMachine(RuleBasedStateMachine):
    """Windows begin, end with a commit, or are lost; now and then what was committed is compacted."""

    keys: Any = st.integers(-4, 4)
    values: Any = st.integers(-3, 3)
    kind: Any = int
    default: Any = 0

    def make(self) -> Any:
        return KeyedState(self.kind, default=self.default).cell()

    def __init__(self) -> None:
        super().__init__()
        self.patches = [
            mock.patch.object(keyed_segments, "SEGMENT_KEYS", 3),
            mock.patch.object(segment_compaction, "_CHUNK_KEYS", 4),
        ]
        self.patches += [
            mock.patch.object(keyed_segments, "_CHUNK", 3),
            mock.patch.object(keyed_segments, "_TIER", 2),
        ]
        self.patches += self.more_patches()
        for patch in self.patches:
            patch.start()
        self.folder = RunFolder()
        self.version: list[bytes] = []
        self.window = 0
        self.cell = self.make()
        self.model: dict[Any, Any] = {}
        self.committed: dict[Any, Any] = {}
        self.changed: dict[Any, None] = {}
        self.committed_changed: dict[Any, None] = {}

    def more_patches(self) -> list[Any]:
        return []

    def teardown(self) -> None:
        for patch in self.patches:
            patch.stop()

    @initialize(keys=st.lists(st.integers(0, 40), unique=True, max_size=30), compact=st.booleans())
    def first_window(self, *, keys: list[int], compact: bool) -> None:
        self.begin()
        if compact:
            items = {self.first_key(key): self.first_value(key) for key in keys}
            self.cell.put_many(list(items), list(items.values()))
            self.model.update(copy.deepcopy(items))
            self.note(*items)
            self.commit(compact=True, move=True)

    def first_key(self, key: int) -> Any:
        return key

    def first_value(self, key: int) -> Any:
        return key

    def begin(self) -> None:
        if self.window % WINDOWS_SEEN_AS_ONE == 0:
            self.committed_changed = {}
        self.changed = dict(self.committed_changed)
        twin = self.restored()  # as any other worker has it
        for cell in (self.cell, twin):
            cell.begin(self.window - self.window % WINDOWS_SEEN_AS_ONE)
        assert list(twin.changed()) == list(self.cell.changed())
        assert typed(twin.items()) == typed(self.cell.items())
        assert set(twin) == set(self.cell)

    def note(self, *keys: Any) -> None:
        self.changed.update(dict.fromkeys(keys))

    def restored(self) -> Any:
        cell = self.make()
        for change in self.version:
            self.folder.apply(cell, pickle.loads(change))
        return cell

    @rule(compact=st.booleans(), move=st.booleans())
    def commit(self, *, compact: bool, move: bool) -> None:
        """`move`: the next window segments in another worker."""
        change = self.cell.changes()
        if change is not None:
            self.version = [*self.version, pickle.dumps(change)]
        if compact and self.version:
            self.version = [pickle.dumps(self.folder.compacted(self.restored()))]
        self.committed, self.committed_changed = copy.deepcopy(self.model), dict(self.changed)
        self.window += 1
        if move:
            self.cell = self.restored()
        self.begin()

    @rule()
    def abort(self) -> None:
        self.cell.reset()
        for change in self.version:
            self.folder.apply(self.cell, pickle.loads(change))
        self.model = copy.deepcopy(self.committed)
        self.begin()

    @rule(data=st.data())
    def put(self, data: Any) -> None:
        key, value = data.draw(self.keys), data.draw(self.values)
        self.cell[key] = copy.copy(value)
        self.model[key] = copy.copy(value)
        self.note(key)

    @rule(data=st.data())
    def delete(self, data: Any) -> None:
        key = data.draw(self.keys)
        assert self.cell.pop(key, None) == self.model.pop(key, None)
        self.note(key)

    @rule(data=st.data())
    def delete_what_may_not_be_there(self, data: Any) -> None:
        key = data.draw(self.keys)
        try:
            del self.cell[key]
        except KeyError:
            assert key not in self.model
        else:
            del self.model[key]
            self.note(key)

    @rule(data=st.data())
    def look(self, data: Any) -> None:
        key = data.draw(self.keys)
        assert self.cell.get(key) == self.model.get(key)
        assert (key in self.cell) == (key in self.model)

    @rule(data=st.data())
    def set_default(self, data: Any) -> None:
        key, value = data.draw(self.keys), data.draw(self.values)
        if key not in self.model:
            self.note(key)
        assert self.cell.setdefault(key, copy.copy(value)) == self.model.setdefault(key, copy.copy(value))

    @rule(data=st.data())
    def put_many(self, data: Any) -> None:
        keys = data.draw(st.lists(self.keys, max_size=5))
        values = [data.draw(self.values) for _ in keys]
        self.cell.put_many(keys, copy.deepcopy(values))
        self.model.update(zip(keys, copy.deepcopy(values), strict=True))
        self.note(*keys)

    @rule(data=st.data())
    def get_many(self, data: Any) -> None:
        keys = data.draw(st.lists(self.keys, max_size=5))
        keys = [key for key in keys if key in self.model or self.default == 0]
        assert self.cell.get_many(keys).tolist() == [self.model.get(key, 0) for key in keys]

    @rule(rarely=st.integers(0, 5))
    def clear(self, rarely: int) -> None:
        if not rarely:
            self.note(*self.model)
            self.cell.clear()
            self.model.clear()

    @invariant()
    def same_items(self) -> None:
        assert typed(self.cell.items()) == typed(self.model.items())
        assert set(self.cell) == set(self.model)
        assert sorted(map(repr, self.cell.values())) == sorted(map(repr, self.model.values()))
        assert bool(self.cell) == bool(self.model)
        assert len(self.cell) == len(self.model)

    @invariant()
    def changed_in_the_application_window(self) -> None:
        changed = list(self.cell.changed())
        assert dict(changed) == {key: self.model[key] for key in self.changed if key in self.model}
        assert len(changed) == len(dict(changed))
        keys, values = self.cell.changed_arrays()
        assert list(zip(keys.tolist(), values.tolist(), strict=True)) == changed


def typed(items: Any) -> dict[Any, Any]:
    return {key: (type(value), value) for key, value in items}


class ArraysMachine(RunsMachine):
    """As long as arrays are all that is put, they lie in a table."""

    keys = st.integers(-4, 14)
    lookups = st.lists(
        st.one_of(keys, st.sampled_from([True, 2.0, 2.5, "2", Decimal(3), 2**70, None])), max_size=5
    )

    @rule(data=st.data())
    def put_arrays(self, data: Any) -> None:
        keys = data.draw(st.lists(self.keys, max_size=12))
        values = data.draw(st.lists(self.values, min_size=len(keys), max_size=len(keys)))
        given = np.array(keys, np.int64)
        self.cell.put_many(given, np.array(values, np.int64))
        given[:] = 0  # an array may be used again
        self.model.update(zip(keys, values, strict=True))
        self.note(*keys)

    @rule(data=st.data())
    def get_arrays(self, data: Any) -> None:
        keys = data.draw(st.lists(self.keys, max_size=12))
        found = self.cell.get_many(np.array(keys, np.int64))
        assert found.tolist() == [self.model.get(key, 0) for key in keys]

    @rule(data=st.data())
    def look_for_anything(self, data: Any) -> None:
        keys = data.draw(self.lookups)
        assert [self.cell.get(key) for key in keys] == list(map(self.model.get, keys))
        assert [key in self.cell for key in keys] == [key in self.model for key in keys]
        assert self.cell.get_many(keys).tolist() == [self.model.get(key, 0) for key in keys]
        assert (len(self.cell), bool(self.cell)) == (len(self.model), bool(self.model))

    @rule()
    def look_through(self) -> None:
        super().same_items()

    @invariant()
    def same_items(self) -> None:
        assert len(self.cell) == len(self.model)  # more than that puts what lies in a table into a dict

    def begin(self) -> None:
        """Without a look at all items."""
        if self.window % WINDOWS_SEEN_AS_ONE == 0:
            self.committed_changed = {}
        self.changed = dict(self.committed_changed)
        self.cell.begin(self.window - self.window % WINDOWS_SEEN_AS_ONE)
        assert typed(self.restored().items()) == typed(self.model.items())


class StringsMachine(RunsMachine):
    """Keys and values of variable length, and hashes of which many are the same."""

    keys = st.sampled_from(["", "a", "b", "äöü", "1", "12", "Z" * 30, "a\0"])
    values = st.sampled_from(["", "x", "yz", "ß"])
    kind, default = str, ""

    def more_patches(self) -> list[Any]:
        return few_hashes()

    def first_key(self, key: int) -> Any:
        return str(key)

    def first_value(self, key: int) -> Any:
        return "x" * (key % 5)

    @rule(data=st.data())
    def get_many(self, data: Any) -> None:
        keys = data.draw(st.lists(self.keys, max_size=5))
        assert self.cell.get_many(keys).tolist() == [self.model.get(key, "") for key in keys]


class MixedMachine(RunsMachine):
    """Keys of all kinds, some of which are equal, and lists that change in place."""

    keys = st.sampled_from(ANY_KEYS)
    values = st.lists(st.integers(0, 3), max_size=2)
    kind, default = list, list

    def more_patches(self) -> list[Any]:
        return few_hashes()

    def first_value(self, key: int) -> Any:
        return [key]

    @rule(data=st.data(), value=st.integers(0, 3))
    def append_in_place(self, data: Any, value: int) -> None:
        key = data.draw(self.keys)
        self.cell[key].append(value)
        self.model.setdefault(key, []).append(value)
        self.note(key)

    @rule(value=st.integers(0, 3))
    def append_to_all(self, value: int) -> None:
        for there in self.cell.values():
            there.append(value)
        for there in self.model.values():
            there.append(value)
        self.note(*self.model)

    @rule(data=st.data())
    def get_many(self, data: Any) -> None:
        keys = data.draw(st.lists(self.keys, max_size=5))
        for key in keys:
            if key not in self.model:
                self.model[key] = []
                self.note(key)
        assert self.cell.get_many(keys).tolist() == [self.model[key] for key in keys]

    def put_many(self, data: Any) -> None:
        """Not one list under several keys."""

    @invariant()
    def changed_in_the_application_window(self) -> None:
        assert dict(self.cell.changed()) == {
            key: self.model[key] for key in self.changed if key in self.model
        }


class TuplesMachine(RunsMachine):
    """Keys and values that are tuples, in columns."""

    keys = st.tuples(st.integers(0, 2), st.sampled_from(["a", "b"]))
    values = st.tuples(st.integers(0, 3), st.sampled_from([0.5, -1.0]))
    kind, default = tuple, (0, 0.0)

    def first_key(self, key: int) -> Any:
        return key % 4, "ab"[key % 2]

    def first_value(self, key: int) -> Any:
        return key, 0.25 * key

    @rule(data=st.data())
    def get_many(self, data: Any) -> None:
        keys = data.draw(st.lists(self.keys, max_size=5))
        assert self.cell.get_many(keys).tolist() == [self.model.get(key, self.default) for key in keys]


def few_hashes() -> list[Any]:
    one, many, wanted = keyed_hash.hash_one, keyed_hash.hash_many, keyed_hash.hash_wanted
    few = 0xC000000000000000
    return [
        mock.patch.object(keyed_hash, "hash_one", lambda key: one(key) & few),
        mock.patch.object(keyed_hash, "hash_many", lambda keys: many(keys) & few),
        mock.patch.object(keyed_hash, "hash_wanted", lambda keys: wanted(keys) & few),
    ]


for machine in (RunsMachine, ArraysMachine, StringsMachine, MixedMachine, TuplesMachine):
    machine.TestCase.settings = settings(deadline=None, max_examples=deep(6), stateful_step_count=30)

TestInts = RunsMachine.TestCase
TestArrays = ArraysMachine.TestCase
TestStrings = StringsMachine.TestCase
TestMixed = MixedMachine.TestCase
TestTuples = TuplesMachine.TestCase
