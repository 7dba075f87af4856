"""`ridgeline history`: its address, its end, and what it is given by mistake."""

import signal
import subprocess
import sys
import urllib.request

from support.service.history import events, write_log
from support.waiting import PATIENCE_SECONDS


def test_it_answers_at_the_address_that_it_prints_until_ctrl_c(tmp_path):
    log = write_log(tmp_path / "run.jsonl", events(2))
    command = [sys.executable, "-m", "ridgeline.cli.main", "history", str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().strip()
            with urllib.request.urlopen(f"{address}ws/v2/stram/sentence") as answer:
                assert b"finished after 2 windows" in answer.read()
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            process.kill()
    assert (process.returncode, said) == (0, "")


def test_what_is_not_there_is_said_at_once(ridgeline_command):
    result = ridgeline_command("history", "none.jsonl")
    assert result.exit_code == 2
    assert "there is no event log `none.jsonl`" in result.stderr
