"""State is matched by name when an application goes on with other code: goes on right, or is refused.

Each version of the application is a module of its own, written and imported anew. What is expected comes from
a loop over the same numbers.
"""

import sys
from collections import Counter
from types import ModuleType
from typing import Any

import pytest

from ridgeline.api.errors import CheckpointError, RidgelineError, StateError
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.testing import run_local
from support.testing.shares import share

KEYS, WIDTH, WINDOWS, FIRST = 40, 10, 40, 30
TEMPLATE = """
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple
from ridgeline import Application, InputOperator, InputPort, KeyedState, ListState
from ridgeline import Operator, OutputPort, State
from ridgeline.testing import CollectorSink

class Rec(NamedTuple):
    key: int
    n: int

class Out(NamedTuple):
    key: int
    count: int
    total: int

{classes}

class Feed(InputOperator):
    output = OutputPort(Rec)
    pos = State(0)
    def emit_tuples(self):
        for n in range(self.pos, self.pos + {width}):
            self.output.emit(Rec(n % {keys}, n))
        self.pos += {width}
        if self.pos >= {width} * {windows}:
            self.finish()

class Sum(Operator):
    data = InputPort(Rec, key="key")
    output = OutputPort(Out)
    {states}
    @data.process
    def f(self, r):
        {body}

def application(parts=1):
    app = Application("app", window=0)
    feed, total = app.add_operator("feed", Feed()), app.add_operator("sum", Sum(), partitions=parts)
    app.add_stream("r", feed.output, total.data)
    app.add_stream("o", total.output, app.add_operator("sink", CollectorSink(Out)).input)
    return app
"""
KEYED = "acc = KeyedState({kind}, key=int)"
BODY = """a = self.acc.get(r.key)
        count, total = (0, 0) if a is None else (a.count, a.total)
        self.acc[r.key] = a = Acc(count=count + 1, total=total + r.n)
        self.output.emit(Out(r.key, a.count, a.total))"""
NAMED = "class Acc(NamedTuple):\n    count: int\n    total: int\n"


@pytest.fixture
def modules(version: Any) -> Any:
    """Imports a version of a module: `modules(name, classes, states, body)`."""

    def load(
        name: str, classes: str = NAMED, states: str = KEYED.format(kind="Acc"), body: str = BODY
    ) -> ModuleType:
        sizes = {"keys": KEYS, "width": WIDTH, "windows": WINDOWS}
        return version(TEMPLATE.format(classes=classes, states=states, body=body, **sizes), name)

    return load


def expected() -> list[tuple[int, int, int]]:
    """What the windows after the first ones give."""
    counts: Counter[int] = Counter()
    totals: Counter[int] = Counter()
    rows = []
    for n in range(WIDTH * WINDOWS):
        counts[n % KEYS] += 1
        totals[n % KEYS] += n
        if n >= WIDTH * FIRST:
            rows.append((n % KEYS, counts[n % KEYS], totals[n % KEYS]))
    return sorted(rows)


def first(module: ModuleType, parts: int = 1) -> MemoryStorage:
    """The checkpoint of the first windows."""
    storage = MemoryStorage()
    run_local(module.application(parts), checkpoint=storage, windows=FIRST)
    return storage


def rows(run: Any) -> list[tuple[int, int, int]]:
    return sorted((row.key, row.count, row.total) for row in run.collected("sink"))


def goes_on(module: ModuleType, storage: MemoryStorage, parts: int = 1, **given: Any) -> None:
    """The rest is right, also if a first start commits a few windows only."""
    found = rows(run_local(module.application(parts), checkpoint=storage, windows=3, **given))
    found += rows(run_local(module.application(parts), checkpoint=storage))
    assert sorted(found) == expected()


def refused(module: ModuleType, storage: MemoryStorage, **given: Any) -> str:
    """The refusal; nothing has changed by it."""
    with pytest.raises((CheckpointError, StateError)) as caught:
        run_local(module.application(), checkpoint=storage, **given)
    return str(caught.value)


DATACLASS = "@dataclass{how}\nclass Acc:\n    count: int\n    total: int\n"
OTHER_DATACLASS = (
    "@dataclass{how}\nclass Acc:\n    more: list = field(default_factory=list)\n"
    "    total: int = 0\n    count: int = 0\n"
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (NAMED, "class Acc(NamedTuple):\n    total: int\n    extra: Any = ()\n    count: int = 0\n"),
        *[
            (DATACLASS.format(how=how), OTHER_DATACLASS.format(how=other))
            for how in ("", "(frozen=True)")
            for other in ("", "(frozen=True, slots=True)")
        ],
    ],
)
def test_fields_are_matched_by_name(modules: Any, before: str, after: str) -> None:
    storage = first(modules("versioned_app", before))
    goes_on(modules("versioned_app", after), storage)


KEY = "class Key(NamedTuple):\n    {}: int\n    {}: int\n"
BY_KEY = BODY.replace("[r.key]", "[Key(one=r.key, two=-r.key)]").replace(
    "get(r.key)", "get(Key(one=r.key, two=-r.key))"
)


@pytest.mark.usefixtures("in_segments")
@pytest.mark.parametrize(("kind", "segments"), share(2, ["Key", "object"], [False, True]))
def test_fields_of_keys_are_matched(modules: Any, kind: str) -> None:
    states = f"acc = KeyedState(Acc, key={kind})"
    storage = first(modules("versioned_app", NAMED + KEY.format("one", "two"), states, BY_KEY))
    goes_on(modules("versioned_app", NAMED + KEY.format("two", "one"), states, BY_KEY), storage)


@pytest.mark.usefixtures("in_segments")
@pytest.mark.parametrize(("kind", "segments"), share(2, ["Flag", "IntFlag"], [False, True]))
def test_flags_are_matched_by_name(modules: Any, kind: str) -> None:
    before = f"from enum import {kind}\nclass Has({kind}):\n    ONE = 1\n    TWO = 2\n    NONE = 0\n"
    after = before.replace("= 2", "= 8").replace("= 1", "= 2").replace("= 8", "= 1")
    body = """count, total, has = self.acc.get(r.key, (0, 0, Has.ONE))
        assert has == (Has.ONE, Has.TWO, Has.ONE | Has.TWO, Has.NONE)[count % 4], (count, has)
        has = (Has.TWO, Has.ONE | Has.TWO, Has.NONE, Has.ONE)[count % 4]
        self.acc[r.key] = (count + 1, total + r.n, has)
        self.output.emit(Out(r.key, count + 1, total + r.n))"""
    states = KEYED.format(kind="tuple")
    storage = first(modules("versioned_app", before, states, body))
    gone = "`Has` has no member 'TWO': rename it by a migration"
    assert gone in refused(modules("versioned_app", before.replace("TWO", "SECOND"), states, body), storage)
    goes_on(modules("versioned_app", after, states, body), storage)


MODELS = [
    "from pydantic import BaseModel\nclass Acc(BaseModel):\n",
    "from pydantic.dataclasses import dataclass as checked\n@checked\nclass Acc:\n",
    "import attr\n@attr.define\nclass Acc:\n",
    "import attr\n@attr.s(auto_attribs=True)\nclass Acc:\n",
]
FIELDS = "    count: int\n    total: int\n"
WITH_MORE = BODY.replace("if a is None else", "if a is None or a.more != 5 else")


@pytest.mark.parametrize(("head", "kind"), share(2, MODELS, ["Acc", "object"]))
def test_fields_of_pydantic_and_attrs_are_matched_by_name(modules: Any, head: str, kind: str) -> None:
    states = KEYED.format(kind=kind)
    storage = first(modules("old_app", head + FIELDS, states))
    renamed = head + FIELDS.replace("count", "number")
    gone = "`Acc` has no field `count`: a migration must drop it"
    assert gone in refused(modules("old_app", renamed, states), storage)
    missing = head + FIELDS + "    more: int\n"
    assert "field `more` of `Acc` has no value, and no default" in refused(
        modules("old_app", missing, states), storage
    )
    after = head + "    total: int\n    count: int\n    more: int = 5\n"
    goes_on(modules("new_app", after, states, WITH_MORE), storage)


def test_keys_of_a_typed_dict_are_its_fields(modules: Any) -> None:
    typed = "from typing import TypedDict\nclass Acc(TypedDict):\n    count: int\n    total: int\n"
    body = BODY.replace("a.count", 'a["count"]').replace("a.total", 'a["total"]')
    states = KEYED.format(kind="Acc")
    storage = first(modules("old_app", typed, states, body))
    renamed = modules("old_app", typed.replace("count", "number"), states, body.replace("count", "number"))
    assert "a `Acc` has no `number`" in refused(renamed, storage)
    goes_on(modules("new_app", typed, states, body), storage)


SUBCLASSED = """class Base:
    def __init_subclass__(cls, tag): assert tag == 1
class Kind(type):
    def __new__(kind, name, *a, **k):
        assert name in ("Acc", "Holds")
        return super().__new__(kind, name, *a, **k)
import abc
"""


@pytest.mark.parametrize("bases", ["Base, tag=1", "metaclass=Kind", "abc.ABC", "dict", "Generic[T]"])
def test_a_conversion_runs_no_code_of_classes(modules: Any, bases: str) -> None:
    head = SUBCLASSED + "from typing import Generic, TypeVar\nT = TypeVar('T')\n"
    before = DATACLASS.format(how="").replace("Acc:", f"Acc({bases}):")
    after = OTHER_DATACLASS.format(how="").replace("Acc:", f"Acc({bases}):")
    storage = first(modules("versioned_app", head + before))
    goes_on(modules("versioned_app", head + after), storage)


@pytest.mark.parametrize(
    ("states", "told"),
    [
        ("acc = KeyedState(int, key=int)", "total=240) is no `int`"),
        ("acc = KeyedState(Acc, key=str)", "0 is no `str`"),
        (
            "acc = KeyedState(Acc, key=int, scope='window')",
            "it lived as long as the application, and lives as long as the window",
        ),
        ("acc = State(0)", "it was a `KeyedState`, and is a `State`"),
    ],
)
def test_other_types_are_refused(modules: Any, states: str, told: str) -> None:
    storage = first(modules("old_app"))
    other = NAMED + "\nclass Other(NamedTuple):\n    count: int\n    total: int\n"
    assert told in refused(modules("old_app", other, states), storage)
    goes_on(modules("old_app"), storage)


def test_a_class_that_has_moved_is_found_by_what_is_declared(
    modules: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def defined(text: str) -> None:
        module = ModuleType("types_app")
        exec("from typing import NamedTuple\n" + text, vars(module))
        monkeypatch.setitem(sys.modules, "types_app", module)

    storage = first(modules("old_app"))
    body, states = BODY.replace("Acc(", "types_app.Acc("), "acc = KeyedState(types_app.Acc, key=int)"
    defined(NAMED)
    found = rows(
        run_local(
            modules("new_app", "import types_app\n", states, body).application(),
            checkpoint=storage,
            windows=3,
        )
    )
    # values that were read so are known by the new name from then on
    defined(NAMED + "    more: int = 5\n")
    checked = body.replace("if a is None else", "if a is None or a.more != 5 else")
    module = modules("new_app", "import types_app\n", states, checked)
    found += rows(run_local(module.application(), checkpoint=storage))
    assert sorted(found) == expected()


def test_values_of_another_class_with_the_same_fields_are_refused(modules: Any) -> None:
    storage = first(modules("old_app"))
    other = NAMED + "    more: int = 0\n" + NAMED.replace("Acc", "Other")
    told = refused(modules("old_app", other, "acc = KeyedState(Other, key=int)"), storage)
    assert "a value of `old_app.Acc` is no `old_app.Other`" in told
    assert "`--drop-state sum.acc`" in told
    goes_on(modules("old_app"), storage)


def test_a_refused_start_has_not_rewound_the_run(modules: Any) -> None:
    storage = first(modules("old_app"))
    other = modules("old_app", states="acc = KeyedState(int, key=int)")
    assert "is no `int`" in refused(other, storage, from_window=FIRST - 5)
    goes_on(modules("old_app"), storage)


ODD = """class Odd:
    def __init__(self, n): self.n = n
    def __reduce__(self): return Odd, (self.n,)
"""


def test_a_class_that_says_itself_how_it_is_written_stays_as_it_was(modules: Any) -> None:
    own = DATACLASS.format(how="") + "    def __reduce__(self): return Acc, (self.count, self.total)\n"
    storage = first(modules("old_app", own))
    told = refused(modules("old_app", own.replace("total: int", "total: float")), storage)
    assert "`old_app.Acc` is another class than in the checkpoint: its fields are others" in told
    assert "`--drop-state sum.acc` drops the values" in told
    assert "it was a dataclass, and is a NamedTuple" in refused(modules("old_app", NAMED), storage)
    more = own.replace("    def", "    more: int = 5\n    def")
    goes_on(modules("old_app", more, body=WITH_MORE), storage)


def test_a_state_of_a_class_that_is_gone_can_be_dropped(modules: Any) -> None:
    states = KEYED.format(kind="Acc")
    before = f"{states}\n    odd = KeyedState(object, key=int)", f"self.odd[r.key] = Odd(1)\n        {BODY}"
    storage = first(modules("old_app", NAMED + ODD, *before))
    told = refused(modules("old_app", NAMED, before[0]), storage)
    assert "`old_app.Odd` says itself how it is written, so nothing else can read it" in told
    goes_on(modules("old_app", NAMED, states), storage, drop_state=["sum.odd"])


def test_two_states_may_change_their_names(modules: Any) -> None:
    states = "acc = KeyedState(Acc, key=int)\n    last = KeyedState(int, key=int, default=-1)"
    body = BODY + "\n        self.last[r.key] = r.n"
    swapped = states.replace("acc", "one").replace("last", "acc").replace("one", "last")
    other = body.replace("self.acc", "self.one").replace("self.last", "self.acc")
    other = other.replace("self.one", "self.last")
    other = other.replace("a = self", "assert self.acc[r.key] == r.n - 40\n        a = self", 1)
    storage = first(modules("versioned_app", NAMED, states, body))
    module = modules("versioned_app", NAMED, swapped, other)
    refused(module, storage)
    only = {"sum.acc": "sum.last"}
    assert "`last` has values of its own" in refused(module, storage, rename=only)
    goes_on(module, storage, rename={**only, "sum.last": "sum.acc"})


LITERAL_BODY = """known = self.acc.get(r.key)
        self.acc[r.key] = a = known or "pq"[r.key % 2]
        self.output.emit(Out(r.key, "pqs".index(a), 0))"""


@pytest.mark.parametrize(
    ("kind", "classes", "now", "told"),
    [
        ('Literal["p", "q"]', "", 'Literal["p"]', "'q' is none of `'p'`"),
        ('Literal["p", "q"]', "", 'Literal["p", "s"] | None', "'q' is none of `'p' | 's' | None`"),
        ("list[Literal[1, 2]]", "", "list[Literal[1]]", "2 is none of `1`"),
    ],
)
def test_values_of_a_literal_that_are_gone_are_refused(
    modules: Any, kind: str, classes: str, now: str, told: str
) -> None:
    imports = "from typing import Literal\n"
    body = LITERAL_BODY if "list" not in kind else "self.acc[r.key] = [1, 2]"
    storage = first(modules("old_app", imports + classes, f"acc = KeyedState({kind}, key=int)", body))
    found = refused(modules("old_app", imports, f"acc = KeyedState({now}, key=int)", body), storage)
    assert told in found


COLOURS = """from typing import Literal
class Colour(Enum):
    {} = "{}"
    BLUE = "b"
"""
RED = (
    "self.acc[r.key] = known = self.acc.get(r.key) or Colour.RED\n        self.output.emit(Out(r.key, 0, 0))"
)


def test_a_member_of_an_enum_in_a_literal_is_known_by_its_name(modules: Any) -> None:
    one = "acc = KeyedState(Literal[Colour.RED], key=int)"
    storage = first(modules("old_app", COLOURS.format("RED", "r"), one, RED))
    found = refused(
        modules("old_app", COLOURS.format("RED", "r"), one.replace("RED", "BLUE"), "pass"), storage
    )
    assert "is none of `Colour.BLUE`" in found
    after = modules("old_app", COLOURS.format("RED", "another"), one, RED)
    run = run_local(after.application(), checkpoint=storage, windows=2)
    assert run.windows_committed == 2
    step = '\n    migrations = [Migration("acc", lambda name: {"RED": "CRIMSON"}[name])]'
    imports = "from ridgeline import Migration\n" + COLOURS.format("CRIMSON", "c")
    renamed = modules("old_app", imports, one.replace("RED", "CRIMSON") + step, RED.replace("RED", "CRIMSON"))
    assert run_local(renamed.application(), checkpoint=storage, windows=2).windows_committed == 2


@pytest.mark.parametrize(
    ("before", "put", "after", "fits", "segments"),
    share(
        2,
        [
            ("int", "1", "Literal[1, 2]", True),
            ("int", "3", "Literal[1, 2]", False),
            ("int | None", "3", "Literal[1] | None", False),
            ("Any", "'a'", "Literal['a', 1]", True),
            ("Any", "2", "Literal['a', 1]", False),
            ("str | int", "2", "Literal['a'] | int", True),
            ("str | int", "'b'", "Literal['a'] | int", False),
            ("list[int]", "[1, 3]", "list[Literal[1]]", False),
            ("Acc", "Acc(3)", "Acc", False),
            ("Acc", "Acc(1)", "Acc", True),
            ("Colour", "Colour.RED", "Literal[Colour.RED]", True),
            ("Colour", "Colour.BLUE", "Literal[Colour.RED]", False),
        ],
        [False, True],
        spread=True,
    ),
)
@pytest.mark.usefixtures("in_segments")
def test_values_are_looked_at_where_a_literal_is_declared(
    modules: Any, before: str, put: str, after: str, fits: bool
) -> None:
    classes = COLOURS.format("RED", "r") + "class Acc(NamedTuple):\n    n: int\n"
    old = KEYED.format(kind=before)
    storage = first(modules("old_app", classes, old, f"self.acc[r.key] = {put}"))
    changed = classes.replace("n: int", "n: Literal[1, 2]")
    module = modules("old_app", changed, KEYED.format(kind=after), "pass")
    if not fits:
        with pytest.raises(RidgelineError, match=r"`sum`.* is none of `"):
            run_local(module.application(), checkpoint=storage, windows=1)
        module = modules("old_app", classes, old, "pass")
    assert run_local(module.application(), checkpoint=storage, windows=1).windows_committed == 1


@pytest.mark.parametrize(
    ("states", "body", "after", "segments"),
    share(
        2,
        [
            ("acc = State(None)", "self.acc = 'x'", "acc = State(0)"),
            ("acc = KeyedState(object, key=int)", "self.acc[r.key] = 'x'", "acc = KeyedState(int, key=int)"),
            ("acc = KeyedState(Any)", "self.acc[r.key] = 2.5", "acc = KeyedState(int | None)"),
            ("acc = ListState()", "self.acc.append('x')", "acc = ListState(int)"),
        ],
        [False, True],
        spread=True,
    ),
)
@pytest.mark.usefixtures("in_segments")
def test_values_of_any_type_are_looked_at_where_one_is_declared(
    modules: Any, states: str, body: str, after: str
) -> None:
    storage = first(modules("old_app", "", states, body))
    with pytest.raises(RidgelineError, match="is no `int"):
        run_local(modules("old_app", "", after, "pass").application(), checkpoint=storage, windows=1)
    run = run_local(modules("old_app", "", states, body).application(), checkpoint=storage, windows=1)
    assert run.windows_committed == 1, "nothing has changed by the refusal"
