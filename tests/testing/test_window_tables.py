"""Which callbacks an operator gets in which window, and how long states of windows live: tables by hand."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from ridgeline import (
    Application,
    InputPort,
    KeyedState,
    ListState,
    Operator,
    OutputPort,
    State,
    StateError,
    ValidationError,
)
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.testing import ABORT, END_WINDOW, CollectorSink, ListInput, LocalRun, run_local
from support.rows import in_a_row
from support.testing.shares import share


class Letter(NamedTuple):
    text: str


class Story(NamedTuple):
    text: str


class Tell(Operator):
    """Emits at the end of an application window what came in it: `b4` is `begin_window(4)`, `e` its end."""

    letters = InputPort(Letter)
    stories = OutputPort(Story)

    begun = State("")
    story = State("", scope="window")
    items = ListState(str, scope="window")
    by_key = KeyedState(int, default=0, scope="window")

    def begin_window(self, window_id: int) -> None:
        assert not self.items
        self.story = f"b{window_id}"

    @letters.process
    def add(self, letter: Letter) -> None:
        self.story += f" {letter.text}{self.context.window_id}"
        self.items.append(letter.text)
        self.by_key[letter.text] += 1

    def end_window(self) -> None:
        assert sorted(self.items) == sorted(key for key, count in self.by_key.items() for _ in range(count))
        self.stories.emit(Story(f"{self.story} e"))


def telling(
    windows: list[str], kills: bool = False, operator: Tell | None = None, **attributes: Any
) -> Application:
    """One letter after the other; windows are separated, an empty one has no letters."""
    items: list[Any] = []
    for window in windows:
        items += [*map(Letter, window), *[ABORT] * kills, END_WINDOW]
    return in_a_row(
        Application("telling", window="500ms"),
        source=ListInput(Letter, items[:-1]),
        tell=(operator or Tell(), attributes),
        sink=CollectorSink(Story),
    )


def stories(run: LocalRun) -> dict[int, str]:
    """What was told, by window; no window has two stories."""
    found = {window: [story.text for story in run.collected("sink", window)] for window in run.window_ids}
    assert all(len(texts) <= 1 for texts in found.values())
    return {window: texts[0] for window, texts in found.items() if texts}


Table = tuple[list[str], dict[str, Any], dict[int, str]]
TABLES: dict[str, Table] = {
    "each window by itself": (["ab", "", "c"], {}, {0: "b0 a0 b0 e", 1: "b1 e", 2: "b2 c2 e"}),
    "back to back": (
        ["a", "b", "c", "d", "e", "f"],
        {"application_window_count": 2},
        {1: "b0 a0 b1 e", 3: "b2 c2 d3 e", 5: "b4 e4 f5 e"},
    ),
    "the first tuple comes late in it": (
        ["", "", "a", "", "", "", "", "b"],
        {"application_window_count": 4},
        {3: "b0 a2 e", 7: "b4 b7 e"},
    ),
    "empty ones between": (
        ["a", "", "", "", "", "", "b"],
        {"application_window_count": 2},
        {1: "b0 a0 e", 3: "b2 e", 5: "b4 e", 6: "b6 b6 e"},
    ),
    "cut off by the end of the input": (
        ["a", "b", "c", "d", "e"],
        {"application_window_count": 3},
        {2: "b0 a0 b1 c2 e", 4: "b3 d3 e4 e"},
    ),
    "longer than the run": (["a", "", "b"], {"application_window_count": 1_000_000_000}, {2: "b0 a0 b2 e"}),
    "as a duration": (
        ["a", "b", "c", "d"],
        {"application_window": "1500ms"},
        {2: "b0 a0 b1 c2 e", 3: "b3 d3 e"},
    ),
    "a duration of one window": (["a", "b"], {"application_window": 0.5}, {0: "b0 a0 e", 1: "b1 b1 e"}),
}


HOW = ["in one run", "interleaved", "with kills", "a driver for each window"]


@pytest.mark.parametrize(("name", "how"), share(2, TABLES, HOW))
def test_what_an_operator_is_called_for(name: str, how: str) -> None:
    windows, attributes, expected = TABLES[name]
    app = telling(windows, kills=how == "with kills", **attributes)
    if how == "a driver for each window":
        storage, found = MemoryStorage(), {}
        for _ in windows:
            found |= stories(run_local(app, checkpoint=storage, windows=1))
    else:
        found = stories(run_local(app, interleave=5 if how == "interleaved" else None))
    assert found == expected


def test_a_lost_window_ends_the_states_of_its_application_window() -> None:
    class Fails(Tell):
        @Tell.letters.process
        def add(self, letter: Letter) -> None:
            super().add(letter)
            if letter.text == "x":
                raise ValueError("x")

    app = telling(["a", "b", "x", "d"], operator=Fails(), application_window_count=3)
    assert stories(run_local(app, attributes={"processing_mode": "AT_MOST_ONCE"})) == {3: "b3 d3 e"}


@pytest.mark.parametrize(
    ("window", "attributes", "fault"),
    [
        ("500ms", {}, "must be a multiple of the window, 0.5 s; got 1.2 s; give 1 s"),
        ("2s", {}, "must be a multiple of the window, 2 s; got 1.2 s; give 2 s"),
        (0, {}, "windows of the application have no width"),
        ("400ms", {"application_window_count": 3}, "leave one of them out"),
        ("1ms", {"application_window": "8000h"}, "must be at most 2147483647"),
    ],
)
def test_an_application_window_that_does_not_fit_is_a_fault(
    window: Any, attributes: dict[str, Any], fault: str
) -> None:
    app = telling([""], **{"application_window": "1200ms", **attributes})
    app.window = window
    with pytest.raises(ValidationError, match=fault):
        run_local(app)


def test_a_scope_that_does_not_exist_is_refused() -> None:
    with pytest.raises(StateError, match='got \'session\'; give "application" or "window"'):
        State(0, scope="session")  # type: ignore[arg-type]
