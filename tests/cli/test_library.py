"""The commands that say what is in the library."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from ridgeline.api.attributes import ATTRIBUTES
from ridgeline.cli.main import app
from ridgeline.operators import aggregate


def ridgeline_command(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.stdout, done.stderr


def listed(*words: str) -> list[dict[str, Any]]:
    code, out, _ = ridgeline_command("list-library", *words, "--json")
    assert code == 0
    found: list[dict[str, Any]] = json.loads(out)
    return found


def test_the_list_has_all_operators_windows_and_aggregates() -> None:
    found = {one["name"]: one for one in listed()}
    assert {f"aggregate.{name}" for name in aggregate.__all__ if name != "Aggregate"} <= found.keys()
    assert {"Windowed", "FileOutput", "Delay", "rolling", "session"} <= found.keys()
    assert {f"generators.{name}" for name in ("choice", "times")} <= found.keys()
    connected = {"KafkaInput", "KafkaOutput", "PostgresInput", "PostgresOutput", "SqliteOutput"}
    assert connected <= found.keys()
    assert all(one["summary"] for one in found.values())


def test_a_search_takes_words_in_any_case_and_names_come_first() -> None:
    names = [one["name"] for one in listed("Rolling")]
    assert names[0] == "rolling"
    assert "Windowed" in names
    assert "FileOutput" not in names
    both = {one["name"] for one in listed("time", "to", "live")}
    assert {"Running", "Deduplicate"} <= both
    code, out, _ = ridgeline_command("list-library", "no-such-thing")
    assert (code, out) == (0, "nothing in the library says no-such-thing\n")


@pytest.mark.parametrize(
    "name", ["Windowed", "windowed", "quantile", "aggregate.quantile", "tumbling", "Delay", "choice"]
)
def test_a_description_has_an_import_and_says_how_it_is_called(name: str) -> None:
    code, out, _ = ridgeline_command("describe-operator", name)
    assert code == 0
    assert "from ridgeline.operators import " in out
    assert ("properties:" in out) == (name.lower() in ("windowed", "delay"))
    assert ("(column: str, q: float, *" in out) == ("quantile" in name)


def test_a_name_that_is_not_there_is_an_error() -> None:
    code, _, error = ridgeline_command("describe-operator", "Windowd")
    assert code == 2
    assert "there is no `Windowd` in the library; did you mean `Windowed`" in error


def test_all_attributes_are_listed() -> None:
    _, out, _ = ridgeline_command("list-attributes", "--json")
    assert [one["name"] for one in json.loads(out)] == sorted(ATTRIBUTES)
    _, out, _ = ridgeline_command("list-attributes")
    assert "partition_parallel (operator, input port): true, false; default: false" in out
    code, _, error = ridgeline_command("list-attributes", "--scope", "operators")
    assert code != 0
    assert "there is no scope `operators`; did you mean `operator`?" in error
