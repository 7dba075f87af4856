"""Code that looks for its own files finds the same in a worker, on the driver's host and on another one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ridgeline
from support.waiting import PATIENCE_SECONDS

_FILES = {
    "app.py": "import shopkit.ops, spread.leaf\nfrom shopkit.ops import look\n",
    "late_neighbour.py": "VALUE = 'beside'\n",
    "latepackage/__init__.py": "",
    "latepackage/part.py": "VALUE = 'in a package beside'\n",
    "spread/leaf.py": "VALUE = 1\n",
    "spread/words.txt": "spread out",
    "shopkit/__init__.py": "",
    "shopkit/rates.json": '{"de": 0.19}',
    "shopkit/.hidden": "not for others",
    "shopkit/deep/er/data.bin": "\x00\x01",
    "shopkit/plugins/__init__.py": "",
    "shopkit/plugins/double.py": "def apply(n): return 2 * n\n",
    "shopkit/plugins/negate.py": "def apply(n): return -n\n",
    "shopkit/plugins/more/__init__.py": "",
    "shopkit/plugins/more/inner.py": "from ..double import apply\n",
    "shopkit/ops.py": """
import importlib, importlib.resources, importlib.util, inspect, pkgutil
from pathlib import Path
import shopkit, shopkit.plugins

def by_name(*parts):
    return importlib.import_module("".join(parts))

def extracted():
    with importlib.resources.as_file(importlib.resources.files("shopkit") / "rates.json") as path:
        return path.read_text()

def look():
    resources = importlib.resources.files
    found = {}
    for what, get in {
        "plugins": lambda: sorted(one.name for one in pkgutil.iter_modules(shopkit.plugins.__path__)),
        "walked": lambda: sorted(
            one.name for one in pkgutil.walk_packages(shopkit.__path__, "shopkit.")
        ),
        "plugin by name": lambda: by_name("shopkit.plugins.", "double").apply(21),
        "relative in one": lambda: by_name("shopkit.plugins.more.", "inner").apply(4),
        "by path": lambda: importlib.util.find_spec("shopkit.plugins." + "negate").name,
        "neighbour": lambda: by_name("late_", "neighbour").VALUE,
        "package beside": lambda: by_name("late", "package", ".part").VALUE,
        "resource": lambda: resources("shopkit").joinpath("rates.json").read_text(),
        "resources": lambda: sorted(
            one.name for one in resources("shopkit").iterdir() if one.name[0] not in "._"
        ),
        "deep resource": lambda: list(resources("shopkit").joinpath("deep/er/data.bin").read_bytes()),
        "extracted": extracted,
        "open_text": lambda: importlib.resources.open_text("shopkit", "rates.json").read(),
        "of a spread package": lambda: resources("spread").joinpath("words.txt").read_text(),
        "get_data": lambda: pkgutil.get_data("shopkit", "rates.json").decode(),
        "beside __file__": lambda: Path(__file__).with_name("rates.json").read_text(),
        "source": lambda: inspect.getsource(by_name).strip(),
        "missing": lambda: by_name("shopkit.plugins.", "triple"),
    }.items():
        try:
            found[what] = get()
        except Exception as error:
            found[what] = f"{type(error).__name__}: {error}"
    return found
""",
}
_DRIVER = """
import json, pickle, sys
sys.path.insert(0, sys.argv[1])
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.engine.process.plan_distribution import distribute
import app
pickle.dump(distribute(LocalStorage(sys.argv[2]), ()), open(sys.argv[3], "wb"))
print(json.dumps(app.look()))
"""
_WORKER = """
import json, pickle, sys
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.engine.process.plan_distribution import receive
assert receive(LocalStorage(sys.argv[1]), pickle.load(open(sys.argv[2], "rb"))) == ()
import app
print(json.dumps({**app.look(), "path": sys.path, "file": app.__file__}))
"""


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    for name, text in _FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def run(code, *arguments, **options):
    """What a Python process of its own prints, as JSON."""
    local = options.pop("local", None)
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(ridgeline.__file__).parent.parent),
            **({"SPARK_LOCAL_DIRS": str(local)} if local else {}),
        },
        **options,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def driver(project, tmp_path):
    """What code finds in the driver, which has written its plan."""
    return run(_DRIVER, project, tmp_path / "checkpoint", tmp_path / "plan")


def test_a_worker_of_the_same_host_finds_what_the_driver_finds(driver, project, tmp_path):
    found = run(_WORKER, tmp_path / "checkpoint", tmp_path / "plan")
    assert found.pop("path")[0] == str(project)
    assert found.pop("file") == str(project / "app.py")
    assert found == driver
    assert (driver["plugin by name"], driver["plugins"]) == (42, ["double", "more", "negate"])


def test_a_folder_of_the_same_name_on_another_host_is_not_taken_for_the_drivers(driver, project, tmp_path):
    project.rename(tmp_path / "elsewhere")
    (project / "shopkit").mkdir(parents=True)
    (project / "shopkit" / "rates.json").write_text("{}")
    found = run(_WORKER, tmp_path / "checkpoint", tmp_path / "plan", local=tmp_path)
    assert found["resource"] == driver["resource"]
