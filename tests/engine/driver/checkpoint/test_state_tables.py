"""States that leave a checkpoint as Parquet, are edited by other programs, and come back."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ridgeline import (
    Application,
    CheckpointError,
    InputPort,
    KeyedState,
    ListState,
    Operator,
    State,
    StateError,
)
from ridgeline.cli.main import app
from ridgeline.engine.driver.checkpoint.upkeep.contents import describe, runs_of, verify, walk
from ridgeline.engine.driver.checkpoint.upkeep.exporting import export_states
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.operators import FileOutput
from ridgeline.testing import run_local
from support.rewound import Count, Numbers, application, rows
from support.state_tables import imported

Step = Callable[[str], None]


@pytest.fixture(autouse=True)
def _private(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)


def edit(path: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    table = pq.read_table(path)
    found = table.to_pylist()
    change(found)
    pq.write_table(pa.Table.from_pylist(found, schema=table.schema), path)


def test_an_edit_by_another_program_is_what_the_next_run_counts_on(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    folder = tmp_path / "results"
    output = FileOutput(path=str(folder), format="jsonl")
    run_local(application(output), windows=5, checkpoint=tmp_path / "state")
    before = walk(str(tmp_path / "state"))
    export_states(str(tmp_path / "state"), tmp_path / "out", ["totals"])
    assert walk(str(tmp_path / "state")) == before
    path = tmp_path / "out" / "totals.sums.parquet"
    held = polars.read_parquet(path)
    assert dict(held.select("key", "value").iter_rows()) == {
        key: sum(n for n in range(20) if n % 3 == key) for key in range(3)
    }
    edited = held.filter(polars.col("key") != 1).with_columns(polars.col("value") + 1000).drop("partition")
    polars.concat([edited, polars.DataFrame({"key": [7], "value": [5]})]).write_parquet(path)
    made = imported(application(output), tmp_path / "state", tmp_path / "out")
    assert made.rows == {"totals.sums": 3}
    run_local(application(output), checkpoint=tmp_path / "state")
    wanted, sums = [], dict.fromkeys(range(3), 0)
    for n in range(40):
        if n == 20:
            sums = {0: sums[0] + 1000, 1: 0, 2: sums[2] + 1000}
        sums[n % 3] += n
        wanted.append([n % 3, sums[n % 3]])
    assert sorted(rows(folder)) == sorted(wanted)

    run_local(application(output), checkpoint=tmp_path / "state", from_window=4)  # takes the import back
    sums = dict.fromkeys(range(3), 0)
    straight = []
    for n in range(40):
        sums[n % 3] += n
        straight.append([n % 3, sums[n % 3]])
    assert sorted(rows(folder)) == sorted(straight)


class Colour(Enum):
    RED = 1
    BLUE = 2


class Place(NamedTuple):
    town: str
    number: int


@dataclass
class Account:
    cents: int
    owner: str | None
    at: datetime
    colours: list[Colour]
    extra: dict[str, float]
    limit: Decimal


class Opaque:
    def __init__(self) -> None:
        self.value = 3

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque)

    def __hash__(self) -> int:
        return 1


def account(n: int) -> Account:
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=n)
    owner = None if n % 2 else f"ö{n}"
    return Account(n, owner, at, [Colour.RED, Colour.BLUE], {"a": n / 3}, Decimal("1.10"))


class Keeper(Operator):
    numbers = InputPort(Count, key="key")
    accounts = KeyedState(Account, key=Place)
    large = KeyedState(int, key=int)
    recent = ListState(float)
    ratio = State(1.5)
    free: State[Any] = State(None)
    lived = KeyedState(str, key=UUID, ttl="1h")
    opaque: State[Any] = State(None)
    keeps_opaque: bool = False

    @numbers.process
    def add(self, number: Any) -> None:
        n = number.total
        self.accounts[Place(f"t{n}", n)] = account(n)
        self.large[n] = 1 << 70
        self.recent.append(n / 7)
        self.ratio += 1
        self.free = {"n": [n, None, True]}
        self.lived[UUID(int=n)] = str(n)
        if self.keeps_opaque:
            self.opaque = Opaque()


def kept(**given: Any) -> Application:
    made = Application("kept")
    numbers = made.add_operator("numbers", Numbers())
    keeper = made.add_operator("keeper", Keeper(**given))
    made.add_stream("numbers", numbers.numbers, keeper.numbers)
    return made


def states_of(uri: Path, out: Path) -> dict[str, Any]:
    export_states(str(uri), out, pickles=True)
    return {one.name: pq.read_table(one).to_pylist() for one in out.glob("*.parquet")}


def test_values_of_all_types_come_back_as_they_were(tmp_path: Path) -> None:
    run_local(kept(), windows=4, checkpoint=tmp_path / "state")
    first = states_of(tmp_path / "state", tmp_path / "one")
    schema = pq.read_schema(tmp_path / "one" / "keeper.accounts.parquet")
    assert {name: str(schema.field(name).type) for name in schema.names} == {
        "partition": "int32",
        "key_town": "string",
        "key_number": "int64",
        "value_cents": "int64",
        "value_owner": "string",
        "value_at": "timestamp[us, tz=UTC]",
        "value_colours": "list<element: string>",
        "value_extra": "map<string, double ('value_extra')>",
        "value_limit": "string",
    }
    assert first["keeper.large.parquet"][0]["value"] == json.dumps(1 << 70)
    imported(kept(), tmp_path / "state", tmp_path / "one")
    assert states_of(tmp_path / "state", tmp_path / "two") == first
    [run] = runs_of(str(tmp_path / "state"))
    assert not verify(run).faults
    run_local(kept(), windows=1, checkpoint=tmp_path / "state")  # reads it as its classes
    later = states_of(tmp_path / "state", tmp_path / "three")
    assert later["keeper.accounts.parquet"][:16] == first["keeper.accounts.parquet"]
    assert len(later["keeper.accounts.parquet"]) == 20


def test_pickles_only_where_they_are_allowed(tmp_path: Path) -> None:
    run_local(kept(keeps_opaque=True), windows=1, checkpoint=tmp_path / "state")
    with pytest.raises(StateError, match=r"`keeper.opaque` has values that no column .* `--allow-pickle`"):
        export_states(str(tmp_path / "state"), tmp_path / "out")
    export_states(str(tmp_path / "state"), tmp_path / "out", pickles=True)
    with pytest.raises(CheckpointError, match=r"`keeper.opaque` has pickles, which run code"):
        imported(kept(keeps_opaque=True), tmp_path / "state", tmp_path / "out")
    imported(kept(keeps_opaque=True), tmp_path / "state", tmp_path / "out", pickles=True)
    assert not verify(runs_of(str(tmp_path / "state"))[0]).faults


WRONG: list[tuple[pa.Table | bytes | None, str]] = [
    (pa.table({"key": [1, 2, 1], "value": [1, 2, 3]}), r"row 3: the key 1 is in row 1, too"),
    (pa.table({"key": [1, 2], "value": [1, None]}), r"row 2: `value`: there is no value"),
    (pa.table({"key": [1, 2], "value": ["1", "2"]}), r"row 1: `value`: '1' is a `str`, but it holds a `int`"),
    (pa.table({"key": [1, 2], "value": [1.0, 2.5]}), r"row 1: `value`: 1.0 is a `float`"),
    (pa.table({"key": ["a"], "value": [1]}), r"row 1: `key`: 'a' is a `str`"),
    (pa.table({"key": [1]}), r"are others: it has key, and needs key, value"),
    (pa.table({"key": [1], "value": [1], "more": [2]}), r"are others: it has key, value, more"),
    (b"PAR1 damaged", r"cannot be read"),
    (None, r"is missing; export again"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_rows_are_named_and_change_nothing(tmp_path: Path, number: int) -> None:
    content, error = WRONG[number]
    run_local(application(), windows=3, checkpoint=tmp_path / "state")
    export_states(str(tmp_path / "state"), tmp_path / "out", ["totals"])
    path = tmp_path / "out" / "totals.sums.parquet"
    path.unlink()
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        pq.write_table(content, path)
    before = walk(str(tmp_path / "state"))
    with pytest.raises((StateError, CheckpointError), match=error):
        imported(application(), tmp_path / "state", tmp_path / "out")
    assert walk(str(tmp_path / "state")) == before


def test_columns_of_other_types_are_refused_and_not_made_fit(tmp_path: Path) -> None:
    run_local(kept(), windows=2, checkpoint=tmp_path / "state")
    cases: list[tuple[str, str, Callable[[pa.Array], pa.Array], str]] = [
        ("recent", "position", lambda one: one.cast("string"), r"row 1: position '0' is no whole number"),
        ("recent", "position", lambda one: pa.nulls(len(one), "int64"), r"row 1: position None is no whole"),
        ("accounts", "value_limit", lambda one: one.cast("float64"), r"`value_limit`: 1.1 is a `float`"),
        ("lived", "key", lambda one: pa.array(range(len(one))), r"row 1: `key`: 0 is a `int`"),
        (
            "accounts",
            "value_at",
            lambda one: pa.array([1] * len(one), pa.timestamp("ns", "UTC")),
            r"row 1: `value_at`: '1970-01-01 00:00:00.000000001Z' is no time of UTC",
        ),
    ]
    for number, (state, column, change, error) in enumerate(cases):
        out = tmp_path / str(number)
        export_states(str(tmp_path / "state"), out)
        path = out / f"keeper.{state}.parquet"
        table = pq.read_table(path)
        changed = change(table.column(column).combine_chunks())
        pq.write_table(table.set_column(table.column_names.index(column), column, changed), path)
        before = walk(str(tmp_path / "state"))
        with pytest.raises(StateError, match=error):
            imported(kept(), tmp_path / "state", out)
        assert walk(str(tmp_path / "state")) == before


def test_what_does_not_belong_to_the_run_is_refused(tmp_path: Path) -> None:
    state, out = tmp_path / "state", tmp_path / "out"
    run_local(application(), windows=3, checkpoint=state)
    export_states(str(state), out)
    lock = LocalStorage(str(state)).lock()
    assert lock is not None
    with pytest.raises(CheckpointError, match="is in use by process"):
        imported(application(), state, out)
    lock.release()
    run_local(kept(), windows=1, checkpoint=tmp_path / "other")
    with pytest.raises(CheckpointError, match="is of the application `rewound`, not of `kept`"):
        imported(kept(), tmp_path / "other", out)
    run_local(application(), windows=1, checkpoint=state)
    with pytest.raises(CheckpointError, match=r"is of window 2, and the checkpoint is at 3: changes since"):
        imported(application(), state, out)
    listing = json.loads((out / "states.json").read_text())
    for change, error in (
        ({"format": 9}, r"has format 9, and this version of Ridgeline reads 1"),
        ({"states": [{"file": "x"}]}, r"is damaged \(KeyError"),
        ({"states": []}, "has no state"),
    ):
        (out / "states.json").write_text(json.dumps({**listing, **change}))
        with pytest.raises(CheckpointError, match=error):
            imported(application(), state, out, any_window=True)
    (out / "states.json").write_text("{")
    with pytest.raises(CheckpointError, match="is damaged"):
        imported(application(), state, out)
    (out / "states.json").unlink()
    with pytest.raises(CheckpointError, match="has written to its end"):
        imported(application(), state, out)
    with pytest.raises(CheckpointError, match="is not empty"):
        export_states(str(state), out)
    with pytest.raises(CheckpointError, match=r"has not window 77 to export; it has 0, 1, 2, 3"):
        export_states(str(state), tmp_path / "none", window=77)


def test_a_state_without_rows_is_empty_afterwards(tmp_path: Path) -> None:
    run_local(application(), windows=3, checkpoint=tmp_path / "state")
    export_states(str(tmp_path / "state"), tmp_path / "out", ["totals"])
    edit(tmp_path / "out" / "totals.sums.parquet", lambda found: found.clear())
    imported(application(), tmp_path / "state", tmp_path / "out")
    found = run_local(application(), windows=1, checkpoint=tmp_path / "state")
    assert sorted(found.collected("sink")) == [(0, 12), (0, 27), (1, 13), (2, 14)]


class DiedError(Exception):
    pass


def test_an_import_that_dies_at_any_step_leaves_the_old_state_or_the_new_one(tmp_path: Path) -> None:
    run_local(application(), windows=3, checkpoint=tmp_path / "first")
    export_states(str(tmp_path / "first"), tmp_path / "out", ["totals"])

    def changed(found: list[dict[str, Any]]) -> None:
        for row in found:
            row["value"] += 1000

    edit(tmp_path / "out" / "totals.sums.parquet", changed)
    results = []
    for at in range(20):
        state = tmp_path / f"state{at}"
        shutil.copytree(tmp_path / "first", state)
        names: list[str] = []

        def step(name: str, at: int = at, names: list[str] = names) -> None:
            if len(names) == at:
                raise DiedError(name)
            names.append(name)

        with contextlib.suppress(DiedError):
            imported(application(), state, tmp_path / "out", step=step)
        assert not verify(runs_of(str(state))[0]).faults
        first = describe(runs_of(str(state))[0]).windows[0].window_id
        found = run_local(application(), windows=1, checkpoint=state)
        results.append((first, min(total for _, total in found.collected("sink")) > 1000))
        if len(names) < at:
            break
    assert (2, False) in results
    assert results[-1] == (results[-1][0], True)
    assert all(new == (window > 2) for window, new in results)


TRACED = """
import pathlib
from typing import NamedTuple
from ridgeline import Application, InputOperator, State
from ridgeline.testing import run_local

pathlib.Path(__file__).with_suffix(".ran").touch()

class Place(NamedTuple):
    town: str
    number: int

class Free:
    def __init__(self):
        self.value = 3

    def __reduce__(self):
        return Free, ()

class Feed(InputOperator):
    place = State[Place](Place("Ulm", 1))
    free = State[object](None)
    def emit_tuples(self):
        self.place = Place("Bonn", 2)
        if FREE:
            self.free = Free()
        self.finish()

def run(folder):
    app = Application("traced")
    app.add_operator("feed", Feed())
    run_local(app, checkpoint=folder)
"""


@pytest.mark.parametrize("free", [False, True])
def test_code_of_the_application_runs_only_for_classes_that_no_type_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: bool
) -> None:
    module = f"traced_states_{int(free)}"
    (tmp_path / f"{module}.py").write_text(TRACED.replace("FREE", str(free)))
    made = f"import {module}; {module}.run('state')"
    subprocess.run([sys.executable, "-c", made], cwd=tmp_path, check=True)
    ran = tmp_path / f"{module}.ran"
    ran.unlink()
    monkeypatch.syspath_prepend(str(tmp_path))
    export_states(str(tmp_path / "state"), tmp_path / "out", pickles=True)
    held = pq.read_table(tmp_path / "out" / "feed.place.parquet")
    assert held.to_pylist() == [{"partition": 0, "value_town": "Bonn", "value_number": 2}]
    assert ran.exists() == free
    assert module not in sys.modules


APP = """
from typing import NamedTuple
from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.operators import ConsoleOutput

class Rec(NamedTuple):
    key: int
    n: int

class Acc(NamedTuple):
    count: int
    total: int

class Feed(InputOperator):
    output = OutputPort(Rec)
    pos = State(0)
    def emit_tuples(self):
        for n in range(self.pos, self.pos + 10):
            self.output.emit(Rec(n % 3, n))
        self.pos += 10

class Sum(Operator):
    data = InputPort(Rec, key="key")
    acc = KeyedState(Acc, key=int)
    @data.process
    def add(self, rec):
        count, total = self.acc.get(rec.key, (0, 0))
        self.acc[rec.key] = Acc(count + 1, total + rec.n)

app = Application("sums")
feed, total = app.add_operator("feed", Feed()), app.add_operator("sum", Sum())
app.add_stream("numbers", feed.output, total.data)
"""


def test_the_commands_say_what_they_did(tmp_path: Path) -> None:
    from ridgeline.cli.load import load_application

    (tmp_path / "sums.py").write_text(APP)
    made = load_application(str(tmp_path / "sums.py"), [], None)
    run_local(made, windows=2, checkpoint=tmp_path / "state")

    def command(*words: object) -> tuple[int, str]:
        found = CliRunner().invoke(app, ["checkpoint", *map(str, words)])
        return found.exit_code, found.output

    code, text = command("export-state", tmp_path / "state", "--out", tmp_path / "out")
    assert (code, "1  feed.pos.parquet" in text, "exported window 1 to" in text) == (0, True, True)
    code, text = command("import-state", tmp_path / "state", tmp_path / "sums.py", "--from", tmp_path / "out")
    assert (code, "3  sum.acc" in text, "imported as window 2" in text) == (0, True, True), text
    code, text = command("import-state", tmp_path / "state", tmp_path / "sums.py", "--from", tmp_path / "out")
    assert code != 0
    assert "is of window 1, and the checkpoint is at 2" in text


REGIONS_APP = """
from ridgeline import Application
from ridgeline.testing import CollectorSink
from support.rewound import Count, Numbers, Totals

app = Application("regions")
numbers = app.add_operator("numbers", Numbers())
totals = app.add_operator("totals", Totals())
sink = app.add_operator("sink", CollectorSink(Count))
app.add_stream("numbers", numbers.numbers, totals.numbers, decoupled={totals.numbers})
app.add_stream("totals", totals.totals, sink.input)
"""


def test_states_of_one_region_are_edited_and_the_others_stay(tmp_path: Path) -> None:
    from ridgeline.cli.load import load_application

    file, state, out = tmp_path / "app.py", tmp_path / "state", tmp_path / "out"
    file.write_text(REGIONS_APP)
    run_local(load_application(str(file), [], None), windows=5, checkpoint=state)

    def command(*words: object) -> tuple[int, str]:
        found = CliRunner().invoke(app, ["checkpoint", *map(str, words)])
        return found.exit_code, " ".join(found.output.split())

    code, text = command("export-state", state, "--out", out)
    assert (code, text.count("is of window")) == (0, 2), text
    edit(out / "totals.sums.parquet", lambda found: [row.update(value=row["value"] + 1000) for row in found])
    code, text = command("import-state", state, file, "--from", out)
    assert (code != 0, "give `--region` with one of them" in text) == (True, True), text
    code, text = command("import-state", state, file, "--from", out, "--region", "nothere")
    assert (code != 0, "there is no region `nothere`" in text) == (True, True), text
    before = {run.region: run.kept()[0].window_id for run in runs_of(str(state))}
    code, text = command("import-state", state, file, "--from", out, "--operator", "totals")
    assert (code, "3 totals.sums" in text) == (0, True), text
    after = {run.region: run.kept()[0].window_id for run in runs_of(str(state))}
    assert sum(after[name] > before[name] for name in before) == 1
    code, text = command("import-state", state, file, "--from", out, "--operator", "totals")
    assert (code != 0, "changes since would be lost" in text) == (True, True), text

    found = run_local(load_application(str(file), [], None), checkpoint=state).collected("sink")
    sums = {key: 1000 + sum(n for n in range(20) if n % 3 == key) for key in range(3)}
    wanted = []
    for n in range(20, 40):
        sums[n % 3] += n
        wanted.append((n % 3, sums[n % 3]))
    assert sorted(found) == sorted(wanted)


def _value(**parts: object) -> Callable[[dict[str, Any]], None]:
    return lambda listing: [one["value"].update(parts) for one in listing["states"]] and None


DAMAGED: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (lambda listing: listing["states"].extend(listing["states"]), "it has a state twice"),
    (lambda listing: [one.pop("key") for one in listing["states"]], "is damaged (KeyError: 'key')"),
    (lambda listing: listing["states"][0].update(file="../other.parquet"), "is no name of a file in it"),
    (lambda listing: listing["states"][0].update(value={}), "is damaged (KeyError: 'encoding')"),
    (_value(encoding="nonsense"), "'nonsense' is none of plain, utc, json, pickle"),
    (_value(type="no:Such"), "cannot be read as `no:Such`; export again"),
]


@pytest.mark.parametrize("number", range(len(DAMAGED)))
def test_a_listing_that_no_export_wrote_is_refused(tmp_path: Path, number: int) -> None:
    change, text = DAMAGED[number]
    run_local(application(), windows=3, checkpoint=tmp_path / "state")
    export_states(str(tmp_path / "state"), tmp_path / "out", ["totals"])
    path = tmp_path / "out" / "states.json"
    listing = json.loads(path.read_text())
    listing["states"] = [one for one in listing["states"] if one["state"] == "sums"]
    change(listing)
    path.write_text(json.dumps(listing))
    with pytest.raises(CheckpointError) as error:
        imported(application(), tmp_path / "state", tmp_path / "out")
    assert text in str(error.value)


def test_a_listing_that_is_nested_too_deeply_is_damaged(tmp_path: Path) -> None:
    run_local(application(), windows=3, checkpoint=tmp_path / "state")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "states.json").write_text("[" * 100_000)
    with pytest.raises(CheckpointError, match="is damaged"):
        imported(application(), tmp_path / "state", tmp_path / "out")
