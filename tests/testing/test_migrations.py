"""Versions of an application one after the other: its state is that of a model outside of the engine.

Each version is a module of its own. Migrations say what becomes of the state between two of them, or defaults
and wider types do. Versions may be left out, as where an application is seldom released.
"""

import random
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ridgeline.api.errors import CheckpointError, RidgelineError, StateError, ValidationError
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.engine.state import keyed_segments
from ridgeline.testing import run_local
from support.depth import deep

HEAD = """
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, TypedDict
from pydantic import BaseModel
from ridgeline import *
from ridgeline.testing import CollectorSink

def without(name, record):
    record.pop(name, None)
    return record

def renamed(old, new, record):
    if old in record:
        record[new] = record.pop(old)
    return record

def as_text(name, record):
    if name in record:
        record[name] = repr(float(record[name]))
    return record

class Rec(NamedTuple):
    key: int

class Out(NamedTuple):
    key: int
    text: str

{classes}

class Feed(InputOperator):
    output = OutputPort(Rec)
    pos = State(0)
    def emit_tuples(self):
        for n in range(self.pos, self.pos + 5):
            self.output.emit(Rec(n * 7 % 23))
        self.pos += 5

class Keep(Operator):
    data = InputPort(Rec, key="key")
    output = OutputPort(Out)
    migrations = [{steps}]
    {body}

app = Application("app", window=0, snapshot_interval=3)
feed = app.add_operator("feed", Feed())
keep = app.add_operator("{name}", Keep(), partitions={partitions})
app.add_stream("r", feed.output, keep.data)
app.add_stream("o", keep.output, app.add_operator("sink", CollectorSink(Out)).input)
{more}
"""


@pytest.fixture
def load(version: Any) -> Any:
    """Imports a version: `load(body, classes=..., steps=..., ...)`."""

    def imported(body: str, **given: Any) -> ModuleType:
        parts = {"classes": "", "steps": "", "name": "keep", "partitions": 1, "more": ""} | given
        return version(HEAD.format(body=body, **parts), "migrated_app")

    return imported


@dataclass
class Versions:
    """A random chain of versions: the source of each, and a model of what its state is."""

    choice: random.Random
    fields: dict[str, tuple[str, Any]] = field(default_factory=lambda: {"n": ("int", 0)})
    steps: list[str] = field(default_factory=list)
    state: str = "kept"
    kind: str = "NamedTuple"
    number: int = 0
    model: dict[int, dict[str, Any]] = field(default_factory=dict)
    pos: int = 0

    def change(self) -> None:
        """The next version: one to three changes."""
        some = self.remove, self.rename, self.widen, self.convert, self.move, self.recast
        for _ in range(self.choice.randint(1, 3)):
            self.choice.choice([self.add, self.add, *some])()

    def some(self, *kinds: str) -> str | None:
        fits = (name for name, (kind, _) in self.fields.items() if kind in kinds or not kinds)
        found = [name for name in fits if name != "n"]
        return self.choice.choice(found) if found else None

    def title(self) -> str:
        self.number += 1
        return f'name="step {self.number}"'

    def function(self, text: str) -> None:
        self.steps.append(f'Migration("{self.state}", partial({text}), {self.title()})')

    def free(self) -> str | None:
        """A name that no field has; perhaps one that another field had before."""
        found = sorted({"a", "b", "c", "d"} - self.fields.keys())
        return self.choice.choice(found) if found else None

    def add(self) -> None:
        if (name := self.free()) is None:
            return
        default = self.choice.choice([7, True, "x", 1.5])
        self.fields[name] = type(default).__name__, default
        items = list(self.fields.items())
        self.choice.shuffle(items)
        self.fields = dict(items)
        for held in self.model.values():
            held[name] = default

    def remove(self) -> None:
        if (name := self.some()) is not None:
            del self.fields[name]
            self.function(f'without, "{name}"')
            for held in self.model.values():
                del held[name]

    def rename(self) -> None:
        old, new = self.some(), self.free()
        if old is not None and new is not None:
            self.fields = {new if name == old else name: one for name, one in self.fields.items()}
            self.function(f'renamed, "{old}", "{new}"')
            for held in self.model.values():
                held[new] = held.pop(old)

    def _retype(self, name: str, kind: str, function: Any) -> None:
        self.fields[name] = kind, function(self.fields[name][1])
        for held in self.model.values():
            held[name] = function(held[name])

    def widen(self) -> None:
        name = self.some("int", "bool")
        if name is not None:
            self._retype(name, "float", float)

    def convert(self) -> None:
        name = self.some("int", "float", "bool")
        if name is not None:
            self.function(f'as_text, "{name}"')
            self._retype(name, "str", as_text)

    def move(self) -> None:
        others = [one for one in ("kept", "held", "seen") if one != self.state]
        old, self.state = self.state, self.choice.choice(others)
        self.steps.append(f'Migration("{self.state}", was="{old}", {self.title()})')

    def recast(self) -> None:
        """The class is of another kind."""
        self.kind = self.choice.choice(["NamedTuple", "dataclass", "slots", "pydantic"])

    def source(self) -> dict[str, Any]:
        """The version as the template takes it."""
        fields = [(name, *one) for name, one in self.fields.items() if name != "n"]
        lines = ["    n: int", *(f"    {name}: {kind} = {default!r}" for name, kind, default in fields)]
        heads = {
            "NamedTuple": "class Acc(NamedTuple):",
            "dataclass": "@dataclass\nclass Acc:",
            "slots": "@dataclass(slots=True)\nclass Acc:",
            "pydantic": "class Acc(BaseModel):",
        }
        names = list(self.fields)
        body = f"""{self.state} = KeyedState(Acc, key=int)
    @data.process
    def add(self, r):
        old = self.{self.state}.get(r.key)
        fields = {{}} if old is None else {{name: getattr(old, name) for name in {names}}}
        new = Acc(**{{**fields, "n": fields.get("n", 0) + 1}})
        self.{self.state}[r.key] = new
        self.output.emit(Out(r.key, repr({{name: getattr(new, name) for name in sorted({names})}})))"""
        classes = "\n".join([heads[self.kind], *lines])
        return {"classes": classes, "steps": ", ".join(self.steps), "body": body}

    def run(self, windows: int) -> list[tuple[int, str]]:
        """What the model gives for so many windows."""
        rows = []
        for _ in range(windows):
            for n in range(self.pos, self.pos + 5):
                key = n * 7 % 23
                fresh = {name: default for name, (_, default) in self.fields.items()}
                held = self.model.setdefault(key, fresh)
                held["n"] += 1
                rows.append((key, repr(dict(sorted(held.items())))))
            self.pos += 5
        return sorted(rows)


def as_text(value: Any) -> str:
    """Of a number, however wide it was."""
    return repr(float(value))


@pytest.mark.parametrize("seed", range(deep(12)))
def test_a_chain_of_versions_keeps_what_a_model_keeps(
    load: Any, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = Versions(random.Random(seed))
    monkeypatch.setattr(keyed_segments, "SEGMENT_KEYS", [4, 50_000][seed % 2])
    storage = MemoryStorage()
    for version in range(6):
        if version:
            versions.change()
        if versions.choice.random() < 0.4:
            continue  # it was never released
        module = load(**versions.source(), partitions=versions.choice.choice([1, 2, 3]))
        windows = versions.choice.randint(1, 9)
        run = run_local(module.app, checkpoint=storage, windows=windows)
        rows = sorted((row.key, row.text) for row in run.collected("sink"))
        assert rows == versions.run(windows), versions.steps


KEYED = """kept = KeyedState({kind}, key=int)
    @data.process
    def add(self, r):
        self.output.emit(Out(r.key, repr(self.kept.get(r.key))))
        self.kept[r.key] = {value}"""


def begun(load: Any, body: str, **given: Any) -> MemoryStorage:
    """The checkpoint of a first version."""
    storage = MemoryStorage()
    run_local(load(body, **given).app, checkpoint=storage, windows=9)
    return storage


def texts(load: Any, storage: MemoryStorage, body: str, **given: Any) -> list[str]:
    """What the next window of another version emits."""
    run = run_local(load(body, **given).app, checkpoint=storage, windows=1)
    return [row.text for row in sorted(run.collected("sink"))]


def refusal(load: Any, storage: MemoryStorage, body: str, **given: Any) -> str:
    """Why another version does not start. The one before can, as nothing has changed."""
    with pytest.raises((CheckpointError, StateError)) as caught:
        texts(load, storage, body, **given)
    return str(caught.value)


WIDER = [
    ("int", "r.key + 1", "float", float),
    ("bool", "r.key > 5", "int", int),
    ("list[int]", "[r.key]", "list[float]", lambda value: [float(one) for one in value]),
    ("dict[str, int]", "{'a': r.key}", "dict[str, float | None]", lambda value: {"a": float(value["a"])}),
    ("tuple[int, str]", "(r.key, 'x')", "tuple[float, str]", lambda value: (float(value[0]), "x")),
    (
        "int | str",
        "r.key if r.key % 2 else 'even'",
        "float | str",
        lambda one: float(one) if one != "even" else one,
    ),
    ("int", "r.key", "int | None", lambda value: value),
]


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize(("kind", "value", "wider", "function"), WIDER)
@pytest.mark.usefixtures("in_segments")
def test_values_of_wider_types_are_exact(load: Any, kind: str, value: str, wider: str, function: Any) -> None:
    before = KEYED.format(kind=kind, value=value)
    storage = begun(load, before)
    found = texts(load, storage, KEYED.format(kind=wider, value="self.kept[r.key]"))
    keys = sorted(n * 7 % 23 for n in range(45, 50))
    expected = [function(eval(value, {"r": type("R", (), {"key": key})})) for key in keys]
    assert found == list(map(repr, expected))


def test_what_no_float_equals_is_refused_and_nothing_has_changed(load: Any) -> None:
    before = KEYED.format(kind="int", value="2 ** 60 + r.key")
    storage = begun(load, before)
    told = refusal(load, storage, KEYED.format(kind="float", value="0.5"))
    assert "cannot be a float" in told
    assert texts(load, storage, before)[0].startswith("1152921504606846")


def test_code_without_a_migration_that_was_carried_out_is_refused(load: Any) -> None:
    before = KEYED.format(kind="int", value="r.key * 100")
    step = 'Migration("kept", lambda cents: cents // 100)'
    storage = begun(load, before)
    assert texts(load, storage, KEYED.format(kind="int", value="r.key"), steps=step)[1] == "7"
    told = refusal(load, storage, before)
    assert "been through the migration `state `kept` converted`, which this code does not have" in told
    assert "--from-window" in told
    run = run_local(load(before).app, checkpoint=storage, windows=1, from_window=7)
    assert [row.text for row in sorted(run.collected("sink"))][1] == "400", "as the code before has it"


NESTED = """class Colour(Enum):
    {red} = "r"
    BLUE = "b"
class Part(NamedTuple):
    {size}: int
@dataclass
class Acc:
    parts: list
    colour: Colour
    more: {more}
ONE = Part(7)
"""


@pytest.mark.usefixtures("in_segments")
@pytest.mark.parametrize("segments", [False, True])
def test_a_function_gets_records_and_may_return_some(load: Any) -> None:
    before = KEYED.format(kind="Acc", value="Acc([ONE, Part(r.key)], Colour.RED, None)")
    storage = begun(load, before, classes=NESTED.format(red="RED", size="size", more="Any"))
    after = NESTED.format(red="CRIMSON", size="width", more="dict")
    function = """def mend(old):
    parts = [{"width": part["size"] + 1} for part in old["parts"]]
    colour = "CRIMSON" if old["colour"] == "RED" else old["colour"]
    return {"parts": [Part(**part) for part in parts], "colour": colour, "more": old}
"""
    steps = 'Migration("kept", mend), Migration("kept", lambda new: new | {"more": {}}, name="more")'
    body = KEYED.format(kind="Acc", value="1 / 0").replace("self.kept[r.key] =", "pass #")
    found = texts(load, storage, body, classes=after + function, steps=steps)
    key = min(n * 7 % 23 for n in range(45, 50))
    colour = "<Colour.CRIMSON: 'r'>"
    assert found[0] == f"Acc(parts=[Part(width=8), Part(width={key + 1})], colour={colour}, more={{}})"


@pytest.mark.usefixtures("in_segments")
@pytest.mark.parametrize("segments", [False, True])
def test_classes_that_a_function_makes_are_compared_from_then_on(load: Any) -> None:
    storage = begun(load, KEYED.format(kind="Any", value="r.key"))
    body = KEYED.format(kind="Any", value="self.kept[r.key]")
    step, classes = (
        'Migration("kept", lambda n: [Acc(n, -n)])',
        "class Acc(NamedTuple):\n    {}: int\n    {}: int\n",
    )
    texts(load, storage, body, classes=classes.format("a", "b"), steps=step)
    assert texts(load, storage, body, classes=classes.format("b", "a"), steps=step)[1] == "[Acc(b=-5, a=5)]"


RETURNED = {
    "old": "`Acc` has no field `a`: a migration must drop it",
    "{}": "field `b` of `Acc` has no value, and no default",
    "{'b': old}": "is no `int`",
    "5": "5 is no `migrated_app.Acc`",
}


@pytest.mark.parametrize(("function", "told"), RETURNED.items())
def test_what_a_function_returns_must_be_what_the_state_declares(load: Any, function: str, told: str) -> None:
    classes = "class Acc(NamedTuple):\n    {}: int\n"
    storage = begun(load, KEYED.format(kind="Acc", value="Acc(1)"), classes=classes.format("a"))
    body, step = KEYED.format(kind="Acc", value="Acc(1)"), f'Migration("kept", lambda old: {function})'
    assert told in refusal(load, storage, body, classes=classes.format("b"), steps=step)


def test_fields_of_keys_stay_as_they_are(load: Any) -> None:
    classes = "class Key(NamedTuple):\n    a: {}\n"
    body = """kept = KeyedState(int, key=Key)
    @data.process
    def add(self, r):
        self.kept[Key(r.key)] = 1"""
    storage = begun(load, body, classes=classes.format("int"))
    assert "is no `str`" in refusal(
        load, storage, body.replace("key=Key", "key=str"), classes=classes.format("int")
    )
    told = refusal(load, storage, body, classes=classes.format("float"))
    assert "field `a` of `Key`: " in told
    assert "is in keys, which cannot be converted: keep their type" in told
    step = 'Migration("kept", lambda value: value)'
    told = refusal(load, storage, body, classes=classes.format("str"), steps=step)
    assert "field `a` of `Key`: " in told
    assert "is no `str`" in told


OTHERS = """{one} = State({default})
    {many} = ListState({kind})
    {ends} = KeyedState(int, key=int, ttl="1h")
    @data.process
    def add(self, r):
        self.output.emit(Out(r.key, repr((self.{one}, list(self.{many})[-1:], sorted(self.{ends})[:3]))))
        self.{one} += 1
        self.{many}.append({item})
        self.{ends}[r.key] = 1"""


def test_other_cells_are_renamed_converted_and_dropped(load: Any) -> None:
    before = OTHERS.format(one="one", many="many", ends="ends", default="0", kind="int", item="r.key")
    storage = begun(load, before)
    after = OTHERS.format(one="two", many="most", ends="kept", default="0.0", kind="str", item="'x'")
    steps = 'Migration("two", was="one"), Migration("most", was="many"), Migration("kept", was="ends"), '
    steps += 'Migration("most", str)'
    assert "(45.0, ['9'], [0, 1, 2])" in texts(load, storage, after, steps=steps)
    dropped = OTHERS.format(one="two", many="most", ends="fresh", default="0.0", kind="str", item="'x'")
    steps += ', Migration("kept", drop=True), Migration("seen", drop=True)'
    assert "(50.0, ['x'], [])" in texts(load, storage, dropped, steps=steps)


def test_an_operator_has_another_name_and_other_partitions(load: Any) -> None:
    body = KEYED.format(kind="int", value="r.key * 10")
    storage = begun(load, body, partitions=2)
    more = 'app.add_migrations("kept", Migration(was="keeper"), Migration(was="keep"))'
    found = texts(load, storage, body, name="kept", partitions=3, more=more)
    assert sorted(found) == sorted(str(n * 7 % 23 * 10) for n in range(45, 50))
    # The name that it has counts first from now on.
    assert len(texts(load, storage, body, name="kept", partitions=3, more=more)) == 5


def test_an_operator_that_held_no_state_goes_without_a_word(load: Any) -> None:
    body = "@data.process\n    def add(self, r):\n        self.output.emit(Out(r.key, ''))"
    storage = begun(load, body)
    assert len(texts(load, storage, body, name="other")) == 5


def test_faults_of_migrations_are_those_of_the_application(load: Any) -> None:
    body = KEYED.format(kind="int", value="1")
    for steps, told in [
        ('Migration("kepd", str)', "did you mean `kept`?"),
        ('Migration("b", was="a")', "it has no state `b` then"),
        ('Migration("a", drop=True), Migration("a", drop=True)', "two migrations are `state `a` removed`"),
        ('Migration("a", drop=True), 7', "`Keep.migrations` has 7"),
    ]:
        with pytest.raises(ValidationError, match="1 fault") as caught:
            run_local(load(body, steps=steps).app, windows=1)
        assert told in str(caught.value)
    with pytest.raises(RidgelineError, match="was not added; did you mean `keep`"):
        load(body, more='app.add_migrations("kep", Migration(was="x"))')
    for said in ("", '"kept"', '"kept", str, drop=True', "function=str"):
        with pytest.raises(ValueError, match="a migration says one thing"):
            load(body, steps=f"Migration({said})")


KILLED = """
import os, sys
sys.path.insert(0, sys.argv[1])
import migrated_app
from ridgeline.testing import run_local
run_local(migrated_app.app, checkpoint=sys.argv[2], windows=2)
"""


def test_a_process_killed_in_the_middle_of_a_conversion_loses_nothing(load: Any, tmp_path: Path) -> None:
    before = KEYED.format(kind="int", value="r.key")
    folder = tmp_path / "ck"
    run_local(load(before).app, checkpoint=folder, windows=9)
    after = KEYED.format(kind="str", value="str(r.key)")
    for killed in ("fifth value", "first window"):
        at = "len(made) == 5" if killed == "fifth value" else "False"
        classes = "import os, signal\nmade = []\ndef text(value):\n    made.append(value)\n"
        classes += f"    if {at}:\n        os.kill(os.getpid(), signal.SIGKILL)\n    return str(value)\n"
        body = after
        if killed == "first window":
            body = after.replace("self.output", "os.kill(os.getpid(), signal.SIGKILL); self.output")
        module = load(body, classes=classes, steps='Migration("kept", text)')
        words = [sys.executable, "-c", KILLED, str(Path(str(module.__file__)).parent), str(folder)]
        assert subprocess.run(words, check=False, timeout=60, capture_output=True).returncode == -9
    module = load(after, steps='Migration("kept", str)')
    run = run_local(module.app, checkpoint=folder, windows=1)
    assert sorted(row.text for row in run.collected("sink")) == sorted(
        repr(str(n * 7 % 23)) for n in range(45, 50)
    )
