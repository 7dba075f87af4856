"""`ridgeline compare`: two versions of an application, each in a process of its own."""

import json
import subprocess
import sys

_APPLICATION = """
from typing import NamedTuple
from ridgeline import Application
from ridgeline.operators import FileOutput, Map
from ridgeline.testing import ListInput
from factor import FACTOR

class Price(NamedTuple):
    symbol: str
    price: float

def scaled(price: Price) -> Price:
    print("scaled")
    return Price(price.symbol, price.price * FACTOR)

app = Application("prices")
prices = app.add_operator("prices", ListInput(Price, [("IBM", 12.0), ("SAP", 0.0)]))
scale = app.add_operator("scale", Map(scaled, schema=Price))
store = app.add_operator("store", FileOutput(path="out", format="jsonl"))
app.add_stream("prices", prices.output, scale.data)
app.add_stream("scaled", scale.output, store.input)
"""


def _compare(*arguments, cwd):
    command = [sys.executable, "-m", "ridgeline", "compare", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False, timeout=900)


def _version(folder, factor):
    folder.mkdir()
    (folder / "app.py").write_text(_APPLICATION)
    (folder / "factor.py").write_text(f"FACTOR = {factor}")


def test_versions_with_modules_of_one_name_are_compared(tmp_path):
    _version(tmp_path / "old", 2.0)
    _version(tmp_path / "new", 2.5)
    ran = _compare("old/app.py", "new/app.py", "--json", cwd=tmp_path)
    assert ran.returncode == 1, ran.stderr
    found = json.loads(ran.stdout)
    assert [(one["operator"], one["differ"], one["cause"]) for one in found["differences"]] == [
        ("scale", 1, True)
    ]
    assert found["differences"][0]["shown"] == ["symbol='IBM': price 24.0 in A, 30.0 in B"]
    assert "A: scaled" in ran.stderr
    assert not (tmp_path / "out").exists(), "no output operator writes anything"


def test_options_of_one_side_and_a_tolerance(tmp_path, ridgeline_command):
    _version(tmp_path / "app", 2.0)
    options = ("app/app.py", "--b", "--attribute scale.partitions=2", "--tolerance", "0.1", "--only", "scale")
    ran = ridgeline_command("compare", *options)
    assert (ran.exit_code, ran.stdout) == (0, "equal: 1 stream, 1 window, 2 tuples\n"), ran.stderr


def test_a_side_that_does_not_run_is_named(tmp_path):
    _version(tmp_path / "app", 2.0)
    ran = _compare("app/app.py", "--b", "-D scale.nothing=1", cwd=tmp_path)
    assert ran.returncode == 2
    assert "B: " in ran.stderr
    assert "A: error" not in ran.stderr
    assert "error: `B` did not run to the end" in ran.stderr
    assert not ran.stdout
