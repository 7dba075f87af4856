import io
import json
from pathlib import Path

import pytest
from benchmarks.catalog import load
from rich.console import Console

from benchmarks import __main__ as command
from support.paths import SUPPORT


@pytest.fixture
def catalog(monkeypatch):
    """Of the toys, which the processes of contestants find too."""
    monkeypatch.syspath_prepend(SUPPORT / "benchmarks")
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT / "benchmarks"))
    return load(["toy_benchmarks"])


@pytest.fixture
def run(catalog, monkeypatch, tmp_path):
    """Runs the toy; the exit code, what is printed, and what is written."""
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    console = Console(width=200, record=True, file=io.StringIO())

    def run(*, quick=False):
        code = command._run(console, catalog, list(catalog.benchmarks.values()), None, quick=quick)
        (file,) = tmp_path.glob("*.json")
        return code, console.export_text(), json.loads(file.read_text())

    return run


@pytest.mark.slow
def test_contestants_run_in_turn_and_one_that_fails_does_not_keep_the_others_from_running(run):
    code, printed, written = run()
    assert code == 0
    (toy,) = written["benchmarks"]
    assert [len(contestant["rounds"]) for contestant in toy["contestants"].values()] == [2] * 5
    assert toy["contestants"]["ours"]["rounds"][1] | {"seconds": 0} == {
        "round": 1,
        "seconds": 0,
        "error": "",
        "notes": "all is well\n",
        "samples": {"seconds": [20.0]},
    }
    assert toy["contestants"]["ours"]["figures"]["seconds"]["median"] == 15.0
    assert [(goal["verdict"], goal["compared"] and goal["compared"]["median"]) for goal in toy["goals"]] == [
        ("met", 0.5),
        ("missed", 0.5),
        ("met", -15.0),
        ("not run", None),
    ]
    assert toy["goals"][3]["reason"] == "wrong: ValueError: the sum is 3; got 4"
    assert "ended by itself with exit code 3" in toy["contestants"]["dies"]["rounds"][0]["error"]
    left = int(toy["contestants"]["lingers"]["rounds"][0]["samples"]["pid"][0])
    assert not Path(f"/proc/{left}").exists() or "Z" in Path(f"/proc/{left}/stat").read_text()
    assert "not run: toy, seconds against wrong: wrong: ValueError: the sum is 3; got 4" in printed
    assert (
        printed.index("1/2  ours")
        < printed.index("1/2  twice")
        < printed.index("2/2  ours")
        < printed.index("2/2  twice")
    )
