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
from typing import Any, NamedTuple, TypedDict
from pydantic import BaseModel
from ridgeline import *
from ridgeline.testing import CollectorSink

def as_text(value):
    return repr(float(value))

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
        for _ in range(self.choice.randint(1, 3)):
            self.choice.choice(
                [
                    self.add,
                    self.add,
                    self.remove,
                    self.rename,
                    self.widen,
                    self.convert,
                    self.move,
                ]
            )()

    def some(self, *kinds: str) -> str | None:
        found = [
            name for name, (kind, _) in self.fields.items() if name != "n" and (kind in kinds or not kinds)
        ]
        return self.choice.choice(found) if found else None

    def title(self) -> str:
        self.number += 1
        return f'name="step {self.number}"'

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
            self.steps.append(f'RemovedField("Acc", "{name}", {self.title()})')
            for held in self.model.values():
                del held[name]

    def rename(self) -> None:
        old, new = self.some(), self.free()
        if old is not None and new is not None:
            self.fields = {new if name == old else name: one for name, one in self.fields.items()}
            self.steps.append(f'RenamedField("Acc", "{old}", "{new}", {self.title()})')
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
            self.steps.append(f'ConvertedField("Acc", "{name}", as_text, {self.title()})')
            self._retype(name, "str", as_text)

    def move(self) -> None:
        old, self.state = (
            self.state,
            self.choice.choice([one for one in ("kept", "held", "seen") if one != self.state]),
        )
        self.steps.append(f'RenamedState("{old}", "{self.state}", {self.title()})')

    def remake(self) -> None:
        """The class is of another kind, by a function."""
        self.kind = self.choice.choice(["NamedTuple", "dataclass", "slots", "pydantic"])
        names = ", ".join(f'"{name}"' for name in self.fields)
        made = f"{{name: getattr(old, name) for name in [{names}] if name in Acc.__annotations__}}"
        self.steps.append(f'ConvertedState("{self.state}", lambda old: Acc(**{made}), {self.title()})')

    def source(self) -> dict[str, Any]:
        """The version as the template takes it."""
        lines = [
            "    n: int",
            *(
                f"    {name}: {kind} = {default!r}"
                for name, (kind, default) in self.fields.items()
                if name != "n"
            ),
        ]
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
        return {
            "classes": "\n".join([heads[self.kind], *lines]),
            "steps": ", ".join(self.steps),
            "body": body,
        }

    def run(self, windows: int) -> list[tuple[int, str]]:
        """What the model gives for so many windows."""
        rows = []
        for _ in range(windows):
            for n in range(self.pos, self.pos + 5):
                key = n * 7 % 23
                held = self.model.setdefault(
                    key, {name: default for name, (_, default) in self.fields.items()}
                )
                held["n"] += 1
                rows.append((key, repr(dict(sorted(held.items())))))
            self.pos += 5
        return sorted(rows)


def as_text(value: Any) -> str:
    """Of a number, however wide it was."""
    return repr(float(value))


def collected(run: Any) -> list[tuple[int, str]]:
    return sorted((row.key, row.text) for row in run.collected("sink"))


@pytest.mark.parametrize("seed", range(deep(12)))
def test_a_chain_of_versions_keeps_what_a_model_keeps(
    load: Any, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = Versions(random.Random(seed))
    monkeypatch.setattr(keyed_segments, "SEGMENT_KEYS", [4, 50_000][seed % 2])
    storage = MemoryStorage()
    remade = remade_next = False
    for version in range(6):
        remade, remade_next = remade_next, versions.choice.random() < 0.25
        if remade:
            versions.remake()
        elif version:
            versions.change()
        if not (remade or remade_next) and versions.choice.random() < 0.4:
            continue  # it was never released
        module = load(**versions.source(), partitions=versions.choice.choice([1, 2, 3]))
        windows = versions.choice.randint(1, 9)
        run = run_local(module.app, checkpoint=storage, windows=windows)
        assert collected(run) == versions.run(windows), versions.steps


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
def test_values_of_wider_types_are_exact(
    load: Any,
    kind: str,
    value: str,
    wider: str,
    function: Any,
    segments: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keyed_segments, "SEGMENT_KEYS", 4 if segments else 50_000)
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
    step = 'ConvertedState("kept", lambda cents: cents // 100)'
    storage = begun(load, before)
    assert texts(load, storage, KEYED.format(kind="int", value="r.key"), steps=step)[1] == "7"
    told = refusal(load, storage, before)
    assert "been through the migration `state `kept` converted`, which this code does not have" in told
    assert "--from-window" in told
    run = run_local(load(before).app, checkpoint=storage, windows=1, from_window=7)
    assert [row.text for row in sorted(run.collected("sink"))][1] == "400", "as the code before has it"


def test_a_step_behind_a_function_of_its_class_is_refused(load: Any) -> None:
    classes = "class Acc(NamedTuple):\n    {}: int\n"
    storage = begun(load, KEYED.format(kind="Acc", value="Acc(1)"), classes=classes.format("a"))
    steps = 'ConvertedState("kept", lambda old: Acc(old.a)), RenamedField("Acc", "a", "b")'
    told = refusal(
        load, storage, KEYED.format(kind="Acc", value="Acc(1)"), classes=classes.format("b"), steps=steps
    )
    assert "start the version in between once" in told


def test_fields_of_keys_stay_as_they_are(load: Any) -> None:
    classes = "class Key(NamedTuple):\n    a: {}\n"
    body = """kept = KeyedState(int, key=Key)
    @data.process
    def add(self, r):
        self.kept[Key(r.key)] = 1"""
    storage = begun(load, body, classes=classes.format("int"))
    assert "its keys were" in refusal(
        load, storage, body.replace("key=Key", "key=str"), classes=classes.format("int")
    )
    told = refusal(load, storage, body, classes=classes.format("float"))
    assert "is in keys" in told or "field `a` was `int`" in told
    step = 'ConvertedField(Key, "a", str)'
    assert "is in keys" in refusal(load, storage, body, classes=classes.format("str"), steps=step)


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
    steps = 'RenamedState("one", "two"), RenamedState("many", "most"), RenamedState("ends", "kept"), '
    steps += 'ConvertedState("most", str)'
    assert "(45.0, ['9'], [0, 1, 2])" in texts(load, storage, after, steps=steps)
    dropped = OTHERS.format(one="two", many="most", ends="fresh", default="0.0", kind="str", item="'x'")
    steps += ', RemovedState("kept"), RemovedState("seen")'
    assert "(50.0, ['x'], [])" in texts(load, storage, dropped, steps=steps)


def test_an_operator_has_another_name_and_other_partitions(load: Any) -> None:
    body = KEYED.format(kind="int", value="r.key * 10")
    storage = begun(load, body, partitions=2)
    more = 'app.add_migrations("kept", FormerName("keeper"), FormerName("keep"))'
    found = texts(load, storage, body, name="kept", partitions=3, more=more)
    assert sorted(found) == sorted(str(n * 7 % 23 * 10) for n in range(45, 50))
    # The name that it has counts first from now on.
    assert len(texts(load, storage, body, name="kept", partitions=3, more=more)) == 5


def test_faults_of_migrations_are_those_of_the_application(load: Any) -> None:
    body = KEYED.format(kind="int", value="1")
    for steps, told in [
        ('ConvertedState("kepd", str)', "did you mean `kept`?"),
        ('RenamedState("a", "b")', "it has no state `b` then"),
        ('RemovedState("a"), RemovedState("a")', "two migrations are `state `a` removed`"),
        ('RemovedState("a"), 7', "`Keep.migrations` has 7"),
    ]:
        with pytest.raises(ValidationError, match="1 fault") as caught:
            run_local(load(body, steps=steps).app, windows=1)
        assert told in str(caught.value)
    with pytest.raises(RidgelineError, match="was not added; did you mean `keep`"):
        load(body, more='app.add_migrations("kep", FormerName("x"))')


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
        module = load(body, classes=classes, steps='ConvertedState("kept", text)')
        words = [sys.executable, "-c", KILLED, str(Path(str(module.__file__)).parent), str(folder)]
        assert subprocess.run(words, check=False, timeout=60, capture_output=True).returncode == -9
    module = load(after, steps='ConvertedState("kept", str)')
    run = run_local(module.app, checkpoint=folder, windows=1)
    assert sorted(row.text for row in run.collected("sink")) == sorted(
        repr(str(n * 7 % 23)) for n in range(45, 50)
    )
