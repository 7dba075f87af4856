"""mypy and pyright in strict mode: which lines of which files they refuse.

pyright is basedpyright here: the same checker, as a wheel with its own node.js, so nothing is downloaded when
it runs.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from support.paths import ROOT


def mypy(files, folder, paths=()):
    """The places (file name, line) of mypy's errors, and what it printed. `folder`: for its cache."""
    options = [
        "--strict",
        "--config-file=",
        "--explicit-package-bases",  # paths are the roots: `tests` is a package
        "--no-error-summary",
        f"--cache-dir={folder}",
        "--python-version=3.11",
    ]
    places = os.pathsep.join(map(str, (ROOT / "src", *paths)))
    command = [sys.executable, "-m", "mypy", *options, *map(str, files)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env={**os.environ, "MYPYPATH": places}
    )
    found = re.findall(r"^(.+?):(\d+): error:", done.stdout, re.MULTILINE)
    return {(Path(path).name, int(line)) for path, line in found}, done.stdout + done.stderr


def pyright(files, folder, paths=()):
    """The places (file name, line) of pyright's errors, and their texts. `folder`: for its settings."""
    settings = {
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "include": list(map(str, files)),
        "extraPaths": list(map(str, (ROOT / "src", *paths))),
    }
    config = folder / "pyrightconfig.json"
    config.write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--project", str(config), "--outputjson"]
    command += ["--pythonpath", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    problems = json.loads(done.stdout)["generalDiagnostics"]
    found = {
        (Path(problem["file"]).name, problem["range"]["start"]["line"] + 1)
        for problem in problems
        if problem["severity"] == "error"
    }
    return found, "\n".join(
        f"{problem['file']}: {problem['range']['start']} {problem['message']}" for problem in problems
    )
