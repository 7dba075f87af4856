"""`ridgeline init`: each project is valid, its tests pass, and its application runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ridgeline.cli.starting.commands import TEMPLATES


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_project_is_valid_and_its_tests_pass(ridgeline_command, environment, template):
    made = ridgeline_command("init", "my_shop", "--template", template)
    assert (made.exit_code, made.stderr) == (0, "")
    folder = Path("my_shop")
    assert all((folder / name).is_file() for name in (".gitignore", ".github/workflows/ci.yml", "README.md"))
    assert "PROJECT" not in "".join(path.read_text() for path in folder.rglob("*") if path.is_file())
    valid = ridgeline_command("validate", "my_shop/app.py", "--conf-file", "my_shop/ridgeline.yaml")
    assert "application my_shop is valid" in valid.stdout, valid.stderr
    tested = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(tested, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, check=False)
    assert done.returncode == 0, done.stdout
    assert "9 passed" in done.stdout


@pytest.mark.spark
@pytest.mark.slow
def test_a_project_runs_at_once(ridgeline_process, tmp_path):
    ridgeline_process("init", "shop").communicate()
    out, err = ridgeline_process("run", "shop/app.py", "--folder", "shop/in", "--quiet").communicate()
    assert "Traceback" not in err, err
    totals = read(tmp_path / "out/totals")
    cents = [order["cents"] for order in read(tmp_path / "shop/in") if order.get("cents", 0) > 0]
    assert sum(row["orders"] for row in totals) == len(cents)
    assert sum(row["cents"] for row in totals) == sum(cents)
    assert [row["tuple"] for row in read(tmp_path / "out/broken")] == ['{"time": "yesterday"}'], out


def read(folder):
    """The rows of files of JSON lines."""
    return [json.loads(line) for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]


def test_nothing_is_written_over(ridgeline_command):
    Path("shop").mkdir()
    Path("shop/test_app.py").write_text("mine")
    result = ridgeline_command("init", "shop")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "`shop/test_app.py` exists already" in result.stderr
    assert [path.name for path in Path("shop").iterdir()] == ["test_app.py"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["shop", "--template", "order"], "there is no template `order`; did you mean `orders`?"),
        (["1shop"], "`1shop` cannot be an application's name"),
        (["shop", "--name", "a b"], "`a b` cannot be an application's name"),
        (["file/shop"], "`file/shop` cannot be written: "),
    ],
)
def test_what_cannot_be_made(ridgeline_command, words, reason):
    Path("file").touch()
    result = ridgeline_command("init", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert reason in result.stderr
