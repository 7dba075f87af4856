"""The unit of systemd fits the command that it runs, and systemd takes it."""

import re
import shutil
import subprocess

import pytest
from typer.testing import CliRunner

from ridgeline.cli.errors import AGAIN, FAILED, NOT_VALID
from ridgeline.cli.main import app
from ridgeline.cli.output import OUTPUT_GONE
from support.paths import ROOT

UNIT = ROOT / "deploy" / "systemd" / "ridgeline@.service"
NEWER = {"RestartSteps", "RestartMaxDelaySec"}
"""Keys of systemd 254, which older ones pass over with a line in the journal."""


def test_the_unit_starts_again_what_another_start_may_mend():
    text = UNIT.read_text()
    assert re.findall(r"^Restart=(.*)$", text, re.MULTILINE) == ["on-failure"]
    (final,) = re.findall(r"^RestartPreventExitStatus=(.*)$", text, re.MULTILINE)
    assert {*map(int, final.split())} == {FAILED, NOT_VALID, OUTPUT_GONE}
    assert AGAIN not in {FAILED, NOT_VALID, OUTPUT_GONE, 0}
    described = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "200"}).stdout
    assert "3 failed, and the same command may get further" in " ".join(described.split())


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_unit(tmp_path):
    shutil.copy(UNIT, tmp_path)
    words = ["systemd-analyze", "verify", "./ridgeline@orders.service"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if not any(f"'{key}'" in line for key in NEWER)]
    assert (done.returncode, said) == (0, [])
