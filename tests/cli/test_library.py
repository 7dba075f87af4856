"""The commands that say what is in the library."""

import json
import os
from typing import Any

import pytest
from typer.testing import CliRunner

from ridgeline.api.attributes import ATTRIBUTES
from ridgeline.cli import doctor
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
    "name", ["Windowed", "windowed", "quantile", "aggregate.quantile", "tumbling", "Delay"]
)
def test_a_description_has_an_import_and_says_how_it_is_called(name: str) -> None:
    code, out, _ = ridgeline_command("describe-operator", name)
    assert code == 0
    assert "from ridgeline.operators import " in out
    assert ("properties:" in out) == (name.lower() in ("windowed", "delay"))
    assert ("(column: str, q: float, *" in out) == ("quantile" in name)


def test_a_description_of_a_connector_has_the_properties_of_its_kind() -> None:
    assert "- `begin`: where a fresh run begins" in ridgeline_command("describe-operator", "FileInput")[1]


def test_a_name_that_is_not_there_is_an_error() -> None:
    code, _, error = ridgeline_command("describe-operator", "Windowd")
    assert code == 2
    assert "there is no `Windowd` in the library; did you mean `Windowed`" in error


def test_all_attributes_are_listed() -> None:
    _, out, _ = ridgeline_command("list-attributes", "--json")
    assert [one["name"] for one in json.loads(out)] == sorted(ATTRIBUTES)
    _, out, _ = ridgeline_command("list-attributes")
    assert "partition_parallel (operator, input port): true, false; default: false" in out


# What `ridgeline doctor` finds, on this machine and of one that is not fit ----------------------------------


def test_a_fit_machine_is_said_to_be_so(ridgeline_command, tmp_path):
    result = ridgeline_command("doctor", "--checkpoint", str(tmp_path / "state"), "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == (1 if any(one["state"] == "wrong" for one in found) else 0)
    by_subject = {one["subject"]: one for one in found}
    for subject in ("Java", "Python", "pyspark", "pyarrow", "cores", "open files", "network", "disk"):
        assert by_subject[subject]["state"] in {"ok", "warning"}, by_subject[subject]
    assert all(one["remedy"] for one in found if one["state"] != "ok")
    assert not list(tmp_path.iterdir())


def test_what_is_missing_is_wrong_with_a_remedy(ridgeline_command, tmp_path, monkeypatch):
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o777)
    little = os.terminal_size  # any pair of numbers
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: doctor.shutil._ntuple_diskusage(1 << 40, 0, 9))
    monkeypatch.setattr(doctor.resource, "getrlimit", lambda _: little((100, 100)))
    monkeypatch.setattr(doctor.socket, "gethostname", lambda: "nowhere.invalid")
    monkeypatch.setattr(doctor, "_sync_seconds", lambda _: 0.06)
    result = ridgeline_command("doctor", "--checkpoint", str(state), "--json")
    assert result.exit_code == 1
    found = {one["subject"]: one for one in json.loads(result.stdout)}
    wrong = {"temporary folder", "network", "trust"}
    warnings = {"/dev/shm", "open files", "disk", "room"}
    assert {name for name, one in found.items() if one["state"] == "wrong"} >= wrong
    assert {name for name, one in found.items() if one["state"] == "warning"} >= warnings
    assert all(found[name]["remedy"] for name in wrong | warnings)
    shown = ridgeline_command("doctor", "--checkpoint", str(state)).stdout
    assert "-> raise it: `ulimit -n 65536`" in shown


def test_a_folder_that_cannot_be_written_is_wrong(monkeypatch, tmp_path):
    def refuse(_folder):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor, "_sync_seconds", refuse)
    [finding] = doctor._folder(str(tmp_path / "none" / "deep"))
    assert (finding.state, "Permission denied" in finding.found) == ("wrong", True)
