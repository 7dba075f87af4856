"""States of a checkpoint as Parquet."""

from __future__ import annotations

from collections import Counter
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
from ridgeline.engine.driver.checkpoint.upkeep import exporting
from ridgeline.engine.driver.checkpoint.upkeep.contents import walk
from ridgeline.engine.driver.checkpoint.upkeep.exporting import export_states
from ridgeline.testing import CollectorSink, run_local
from support.rewound import Count, Numbers, Totals, application


@pytest.fixture(autouse=True)
def _private(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)


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
    value = 3


class Keeper(Operator):
    numbers = InputPort(Count, key="key")
    accounts = KeyedState(Account, key=Place)
    large = KeyedState(int, key=int)
    recent = ListState(float)
    ratio = State(1.5)
    lived = KeyedState(str, key=UUID, ttl="1h")
    pairs = KeyedState(object, key=tuple)
    opaque: State[Any] = State(None)

    @numbers.process
    def add(self, number: Any) -> None:
        n = number.total
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=n)
        colours = [Colour.RED, Colour.BLUE]
        owner = None if n % 2 else f"ö{n}"
        self.accounts[Place(f"t{n}", n)] = Account(n, owner, at, colours, {"a": n / 4}, Decimal("1.10"))
        self.large[n] = 1 << 70
        self.recent.append(n / 2)
        self.ratio += 1
        self.lived[UUID(int=n)] = str(n)
        self.pairs["a", n] = n if n % 2 else str(n)
        self.opaque = Opaque()


def kept() -> Application:
    made = Application("kept")
    numbers = made.add_operator("numbers", Numbers())
    made.add_stream("numbers", numbers.numbers, made.add_operator("keeper", Keeper()).numbers)
    return made


def test_values_have_the_types_of_arrow_and_else_are_pickles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "_ROWS", 3)
    run_local(kept(), windows=4, checkpoint=tmp_path / "state")
    before = walk(str(tmp_path / "state"))
    found = export_states(str(tmp_path / "state"), tmp_path / "out", ["keeper"])
    assert walk(str(tmp_path / "state")) == before
    names = ("accounts", "large", "lived", "opaque", "pairs", "ratio", "recent")
    tables = {name: pq.read_table(tmp_path / "out" / f"keeper.{name}.parquet") for name in names}
    assert dict(found.files) == {f"keeper.{name}.parquet": table.num_rows for name, table in tables.items()}
    accounts = tables["accounts"]
    rows = sorted(accounts.drop_columns("partition").to_pylist(), key=lambda row: row["value"]["cents"])
    assert len(rows) == 16
    assert rows[5]["key"] == {"town": "t5", "number": 5}
    assert rows[5]["value"] == {
        "cents": 5,
        "owner": None,
        "at": datetime(2026, 1, 1, 0, 5, tzinfo=UTC),
        "colours": ["RED", "BLUE"],
        "extra": [{"key": "a", "value": 1.25}],
        "limit": Decimal("1.10"),
    }
    assert rows[4]["value"]["owner"] == "ö4"
    assert tables["recent"].select(["position", "value"]).to_pylist()[3] == {"position": 3, "value": 1.5}
    assert tables["ratio"].to_pylist() == [{"partition": 0, "value": 17.5}]
    assert {row["key"]["1"] for row in tables["pairs"].to_pylist()} == set(range(16))
    assert tables["large"].schema.field("value").type == pa.binary()
    assert Counter(note.partition("`")[2].partition("`")[0] for note in found.notes) == Counter(
        ["keeper.large", "keeper.opaque", "keeper.pairs"]
    )


def test_an_export_is_into_an_empty_folder_of_a_window_that_is_kept(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    run_local(application(), windows=3, checkpoint=state)
    with pytest.raises(CheckpointError, match="has not window 77"):
        export_states(state, tmp_path / "out", window=77)
    with pytest.raises(CheckpointError, match=r"`totls`; .*`totals`"):
        export_states(state, tmp_path / "out", ["totls"])
    export_states(state, tmp_path / "out", ["totals"], window=1)
    held = pq.read_table(tmp_path / "out" / "totals.sums.parquet").to_pylist()
    assert {row["key"]: row["value"] for row in held} == {
        key: sum(n for n in range(8) if n % 3 == key) for key in range(3)
    }
    with pytest.raises(CheckpointError, match="is not empty"):
        export_states(state, tmp_path / "out")


def test_values_of_a_class_that_is_gone_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_local(kept(), windows=1, checkpoint=tmp_path / "state")
    monkeypatch.delattr(f"{__name__}.Opaque")
    with pytest.raises(StateError, match=r"cannot be read: .*Opaque.*; run it with the code that wrote it"):
        export_states(str(tmp_path / "state"), tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def test_the_command_names_files_and_windows_of_regions(tmp_path: Path) -> None:
    made = Application("regions")
    numbers = made.add_operator("numbers", Numbers())
    totals = made.add_operator("totals", Totals())
    made.add_stream("numbers", numbers.numbers, totals.numbers, decoupled={totals.numbers})
    made.add_stream("totals", totals.totals, made.add_operator("sink", CollectorSink(Count)).input)
    run_local(made, windows=5, checkpoint=tmp_path / "state")
    command = ["checkpoint", "export-state", str(tmp_path / "state"), "--out", str(tmp_path / "out")]
    found = CliRunner().invoke(app, command)
    assert (found.exit_code, found.output.count("is of window")) == (0, 2), found.output
    assert "3  totals.sums.parquet" in found.output
