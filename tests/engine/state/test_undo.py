"""Windows that are taken back in memory leave what loading the state anew would."""

import math
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline import Application, InputOperator, KeyedState, OperatorError, State
from ridgeline.api.errors import StateError
from ridgeline.engine.state import keyed_segments, undo
from ridgeline.plan.protocol import WindowRequest
from support.depth import deep
from support.engine.containers import ByHand, CountingStorage

KEYS = st.sampled_from([*range(12), "text", (1, math.nan), float("nan"), None, 2.5])
ACTS = st.sampled_from(
    ["set", "set", "many", "many", "add", "add", "read", "read", "drop", "arrays", "arrays"]
)
WINDOW = st.lists(st.tuples(ACTS, KEYS, st.integers(0, 9)), max_size=6)
STEPS = st.lists(
    st.tuples(
        WINDOW, st.sampled_from([0, 0, 1, 2, 3]), st.booleans(), st.sampled_from([False, False, False, True])
    ),
    max_size=16,
)
"""What a window does; how many are run and void; whether the last of these fails; whether it is compacted."""


class Store(InputOperator):
    """Keeps what its script says, in all kinds of cells that can be taken back."""

    script: tuple[list[tuple[str, object, int]], ...]

    numbers = KeyedState(int, key=object, default=0)
    lists = KeyedState(list, key=object, default=list)
    counts = KeyedState(int, key=int, default=0)
    last = State(0)

    def emit_tuples(self):
        for what, key, value in self.script[self.context.window_id % len(self.script)]:
            match what:
                case "set":
                    self.numbers[key] = value
                case "many":
                    self.numbers.put_many([key, value, value + 5], [value, value, value])
                case "add":
                    self.lists[key].append(value)
                case "read":
                    _ = self.numbers[key], self.lists.get(key)
                case "drop":
                    self.numbers.pop(key, None)
                case "arrays":
                    keys = np.array([value, 7 - value, 20 + self.last % 50])
                    self.counts.put_many(keys, self.counts.get_many(keys) + 1)
            self.last += value
        if self.context.attempt == 2:
            raise ValueError("as ordered")


class FailingStorage(CountingStorage):
    """Fails once, when it is told to."""

    left = math.inf

    def fails_after(self, reads):
        self.left = reads

    def read(self, name):
        self.left -= 1
        if self.left < 0:
            self.left = math.inf
            raise OSError("as ordered")
        return super().read(name)


class Flights(ByHand):
    """One container that runs windows ahead of the commits."""

    def __init__(self, script, window_count=1):
        app = Application("app")
        app.add_operator("store", Store(script=script), application_window_count=window_count)
        super().__init__(app, FailingStorage())

    def run(self, window_id, attempt, states):
        request = WindowRequest(window_id, attempt, 1, False, frozenset(), states)
        return self.containers[0].run(request, [], (), f"t{attempt}")[1]

    def ahead(self, windows, *, fails):
        """Run so many windows, the last of which may fail; none of them counts."""
        for number in range(windows):
            states = dict(self.states) if number == 0 else None
            if fails and number == windows - 1:
                with pytest.raises(OperatorError):
                    self.run(self.window_id + number, 2, states)
            else:
                self.run(self.window_id + number, 1, states)

    def commit(self):
        self.keep([self.run(self.window_id, 0, dict(self.states))])

    def content_of_next(self):
        """What is in the cells after the next window, in order."""
        self.run(self.window_id, 1, dict(self.states))
        cells = self.operator("store")
        numbers, lists = cells.numbers.snapshot(), cells.lists.snapshot()
        return repr(
            [
                numbers[1],
                [*numbers[2].items()],
                numbers[3],
                lists[1],
                [*lists[2].items()],
                len(cells.counts),
                cells.counts.get_many(np.arange(80)).tolist(),
                cells.last,
            ]
        )


@settings(max_examples=deep(25), deadline=None)
@given(STEPS, st.sampled_from([1, 3]))
def test_taking_back_is_as_good_as_loading(steps, window_count):
    with patch.object(keyed_segments, "SEGMENT_KEYS", 4), patch.object(undo, "LARGE", 0):
        flights = Flights(tuple(script for script, *_ in steps) or ([],), window_count)
        for _, windows, fails, compacted in steps:
            flights.ahead(windows, fails=fails)
            flights.commit()
            if flights.states:
                kept, content = flights.containers, flights.content_of_next()
                flights.die()
                assert content == flights.content_of_next()
                flights.containers = kept
                if compacted:
                    flights.merge("store")


def test_a_state_that_was_loaded_in_part_is_not_taken_back():
    script = [[("set", window, window), ("set", 100 + window, 1)] for window in range(10)]
    with patch.object(undo, "LARGE", 3):
        flights = Flights((*script, [("drop", 3, 0)]))
        for _ in script:
            flights.commit()
        flights.ahead(1, fails=True)
        flights.storage.fails_after(4)
        with pytest.raises(StateError, match="as ordered"):
            flights.commit()
        content = flights.content_of_next()
        flights.die()
        assert content == flights.content_of_next()


def test_what_another_process_has_run_in_another_way_is_loaded():
    with patch.object(undo, "LARGE", 1):
        flights = Flights(([("set", 1, 1), ("set", 2, 2)], [("set", 1, 7)], [("add", 3, 3)]))
        flights.commit()
        flights.run(1, 0, dict(flights.states))
        here, flights.containers[0] = flights.containers[0], Flights(([("set", 2, 9)],)).containers[0]
        container = flights.containers[0]
        container._storage = container._states._storage = container._states._files.storage = flights.storage
        flights.keep([flights.run(1, 1, dict(flights.states))])
        flights.containers[0] = here
        flights.run(2, 0, dict(flights.states))
    assert dict(flights.operator("store").numbers) == {1: 1, 2: 9}


def test_a_large_state_is_not_loaded_anew_after_a_failure():
    with patch.object(undo, "LARGE", 3):
        flights = Flights(
            tuple([("set", window % 3, window), ("set", 100 + window, 1)] for window in range(30))
        )
        for _ in range(20):
            flights.commit()
        flights.storage.reads.clear()
        flights.ahead(3, fails=True)
        flights.commit()
    assert flights.storage.reads == [f"journal/{segment:08d}" for segment in (20, 19, 18)]
