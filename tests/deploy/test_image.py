"""The steps of the Dockerfile, run for real without a container runtime, and what they make."""

import json
import shutil
import subprocess
import sys

import pytest

from support.containers import need_namespaces
from support.depth import DEPTH
from support.paths import ROOT, SUPPORT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(DEPTH < 2, reason="it installs all packages and Java, for minutes: TEST_DEPTH=2"),
]

COMMANDS = (
    ["--version"],
    ["run", "/numbers.py", "--output", "/tmp/out", "--master", "local[2]", "-D", "numbers.windows=5"],
)


def test_the_image_is_built_and_runs_applications_as_its_user_with_a_root_that_is_read_only(tmp_path):
    need_namespaces()
    if shutil.which("apt-get") is None or sys.version_info[:2] != (3, 11):
        pytest.skip("the image's base is Debian with Python 3.11, and so has to be this machine")
    program = [
        sys.executable,
        "-m",
        "support.deploy.dockerfile",
        ROOT / "deploy" / "Dockerfile",
        ROOT,
        tmp_path,
    ]
    words = ["unshare", "--mount", "--propagation", "private", *program, SUPPORT / "crash" / "numbers.py"]
    given = "".join(json.dumps(one) + "\n" for one in COMMANDS)
    done = subprocess.run(
        words, input=given, stdout=subprocess.PIPE, text=True, check=True, cwd=SUPPORT.parent
    )
    version, run = map(json.loads, done.stdout.splitlines())
    assert version[0] == 0
    assert "ridgeline 0." in version[1]
    assert run[0] == 0, run[1]
    assert "5 windows" in run[1]
