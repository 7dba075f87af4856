"""What a window changes in place without declaring it is found in the in-process runner."""

from __future__ import annotations

import itertools
import logging
import random
import re
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

from ridgeline import Application, Cache, InputPort, KeyedState, Operator, OperatorContext, OutputPort
from ridgeline.api.errors import OperatorError
from ridgeline.api.operator import is_stateless, state_cells
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.rows import in_a_row


class Word(NamedTuple):
    text: str


class Passing(Operator):
    """Passes words on; a subclass does something besides."""

    words = InputPort(Word)
    out = OutputPort(Word)

    @words.process
    def take(self, word: Word) -> None:
        self.out.emit(word)
        self.note(word)

    def note(self, word: Word) -> None:
        """What the subclass does."""


def run(operator: Operator, windows: int = 3) -> Any:
    app = in_a_row(
        Application("changes", window="1s"),
        source=ListInput(Word, [item for n in range(windows) for item in ((f"w{n}",), END_WINDOW)]),
        noting=operator,
        sink=CollectorSink(),
    )
    return run_local(app)


class Inner:
    def __init__(self) -> None:
        self.seen: dict[str, int] = {}
        self.lock = threading.Lock()


@dataclass
class Totals:
    count: int = 0
    by_name: dict[str, int] = field(default_factory=dict)


class Slotted:
    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Growing(Passing):
    def __init__(self, make: Callable[[], Any], change: Callable[[Any, Word], Any]) -> None:
        super().__init__()
        self.make, self.change = make, change

    def setup(self, context: OperatorContext) -> None:
        self.kept = self.make()

    def note(self, word: Word) -> None:
        self.change(self.kept, word)


def setting(name: str) -> Callable[[Any, Word], None]:
    return lambda kept, word: setattr(kept, name, getattr(kept, name) + 1)


CHANGES: list[tuple[str, Callable[[], Any], Callable[[Any, Word], Any]]] = [
    ("dict", dict, lambda kept, word: kept.update({word.text: 1})),
    ("list", list, lambda kept, word: kept.append(word.text)),
    ("set", set, lambda kept, word: kept.add(word.text)),
    ("deque", lambda: deque(maxlen=2), lambda kept, word: kept.append(word.text)),
    ("bytearray", bytearray, lambda kept, word: kept.extend(word.text.encode())),
    ("defaultdict", lambda: defaultdict(list), lambda kept, word: kept["all"].append(word.text)),
    ("array", lambda: np.zeros(5), lambda kept, word: kept.__setitem__(1, kept[1] + 1)),
    ("array of objects", lambda: np.array([[], []], object).reshape(2, 0), lambda kept, word: None),
    ("nested", lambda: {"a": [{"b": set()}]}, lambda kept, word: kept["a"][0]["b"].add(word.text)),
    ("in a tuple", lambda: ([], 1), lambda kept, word: kept[0].append(word.text)),
    ("minus", lambda: {"n": -1}, lambda kept, word: kept.update(n=-2)),
    ("object", Inner, lambda kept, word: kept.seen.update({word.text: 1})),
    ("dataclass", Totals, setting("count")),
    ("slots", Slotted, setting("count")),
    ("large", lambda: dict.fromkeys(range(200_000)), lambda kept, word: kept.update({word.text: 1})),
    ("random", lambda: random.Random(1), lambda kept, word: kept.random()),
    ("generator", lambda: np.random.default_rng(1), lambda kept, word: kept.random()),
    ("count", itertools.count, lambda kept, word: next(kept)),
]


@pytest.mark.parametrize(("name", "make", "change"), CHANGES, ids=[name for name, _, _ in CHANGES])
def test_what_setup_made_and_a_window_changes_is_found(
    name: str, make: Callable[[], Any], change: Callable[[Any, Word], Any]
) -> None:
    if name == "array of objects":
        make, change = lambda: np.array([[1], None], object), lambda kept, word: kept[0].append(word.text)
    with pytest.raises(OperatorError) as caught:
        run(Growing(make, change))
    assert str(caught.value).startswith(
        "operator `noting` (partition 0) of application `changes` failed in window 0 in `end of window`: "
        "StateError: `Growing.kept` was changed in place and the change would be lost in a crash: "
        "what is not declared is made again by `setup`, without what windows did to it; "
        "declare it, `kept = State(...)`, `KeyedState(...)` or `ListState(...)`, to keep it, "
        "or `kept = Cache(...)` if it may be lost at any time"
    )


class InInit(Passing):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def note(self, word: Word) -> None:
        self.seen.append(word.text)


class InClass(Passing):
    seen: ClassVar[dict[str, int]] = {}

    def note(self, word: Word) -> None:
        self.seen[word.text] = 1


@pytest.mark.parametrize(
    ("operator", "text"),
    [
        (InInit(), "`InInit.seen` was changed .* what is not declared is made again"),
        (InClass(), "`InClass.seen` was changed .* what is not declared belongs to the class"),
    ],
)
def test_what_init_or_the_class_holds_is_found_too(operator: Operator, text: str) -> None:
    try:
        with pytest.raises(OperatorError, match=text):
            run(operator)
    finally:
        InClass.seen.clear()


class Weird:
    """A user's object that cannot be pickled, compared or shown."""

    def __init__(self) -> None:
        self.itself = self
        self.function = lambda: 1

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise RuntimeError

    def __reduce__(self) -> str:
        raise RuntimeError


class Harmless(Passing):
    """Holds what must not trip the check."""

    known = Cache(dict)
    replies: Cache[list[str]] = Cache(list)
    totals = KeyedState(int, default=0)
    _log: ClassVar = logging.getLogger("harmless")

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def setup(self, context: OperatorContext) -> None:
        self.file = self.path.open("a", encoding="utf-8")
        self.lock = threading.RLock()
        self.event = threading.Event()
        self.log = logging.getLogger("harmless")
        self.pattern = re.compile("w")
        self.module = random
        self.weird = Weird()
        self.scratch: list[str] = []
        self.loop = {"a": self}
        self.reader = iter([1, 2, 3])

    def begin_window(self, window_id: int) -> None:
        self.local = [window_id]

    def note(self, word: Word) -> None:
        with self.lock:
            self.file.write(word.text)
        self.log.debug("%s", word)
        self.event.set()
        self.scratch.append(word.text)
        self.local.append(1)
        self.known[word.text] = 1
        self.replies = [*self.replies, word.text]
        self.totals[word.text] += 1
        next(self.reader, None)

    def end_window(self) -> None:
        self.scratch.clear()

    def teardown(self) -> None:
        self.file.close()
        assert len(self.known) == len(self.replies) == 3


@pytest.mark.guide("004", "Transient Fields")
def test_what_is_no_state_or_declared_is_left_alone(tmp_path: Path) -> None:
    assert len(run(Harmless(tmp_path / "out")).collected("sink")) == 3


def test_a_cache_is_made_for_each_instance_and_never_shipped() -> None:
    import copy
    import pickle

    one, two = Harmless(Path("x")), Harmless(Path("y"))
    one.known["a"] = 1
    assert two.known == {}
    assert copy.deepcopy(one).known == {}
    assert pickle.loads(pickle.dumps(one)).known == {}
    assert isinstance(Harmless.known, Cache)
    assert not is_stateless(one)
    assert "known" not in state_cells(one)
    with pytest.raises(
        TypeError,
        match=r"^`Cache` takes a callable without arguments that makes what is missing; got \{\}; "
        r"such as `Cache\(dict\)`$",
    ):
        Cache({})
