"""What a run on Spark logs and what its operators print, by the command's options."""

import json

import pytest

from support.paths import SUPPORT

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CHATTY = (
    (SUPPORT / "cli" / "tiny.py")
    .read_text()
    .replace(
        "        self.total += number.value\n",
        "        if number.value == 13:\n"
        "            print('thirteen')\n"
        "            logging.getLogger('users').warning('password=%s', 'hunter2')\n"
        "        self.total += number.value\n",
    )
    .replace("import time\n", "import logging\nimport time\n", 1)
    .replace("Total(), recovery_attempts=0", 'Total(), on_error="SKIP"')
)


def test_what_operators_print_and_log(ridgeline_process, tmp_path):
    (tmp_path / "chatty.py").write_text(CHATTY)
    words = ("run", "chatty.py", "--master", "local[2]", "--quiet", "--no-service", "-D", "total.fail_at=23")
    process = ridgeline_process(
        *words, "--log-level", "debug", "--log-file", "run.log", "--log-format", "json"
    )
    _, stderr = process.communicate()
    assert (process.returncode, stderr) == (0, "[total:0] thirteen\n")
    text = (tmp_path / "run.log").read_text()
    assert "hunter2" not in text
    lines = [json.loads(line) for line in text.splitlines()]
    (users,) = [line for line in lines if line["logger"] == "users"]
    assert users["message"] == "password=***"
    assert (users["operator"], users["partition"], users["window"]) == ("total", 0, 1)
    warnings = [line for line in lines if line["level"] == "WARNING" and line["logger"] != "users"]
    (skipped,) = [line for line in warnings if "runs again" not in line["message"]]
    assert skipped["logger"] == "ridgeline.observe.event_lines"
    assert (skipped["operator"], skipped["partition"], skipped["window"]) == ("total", 0, 2)
    messages = [line["message"] for line in lines if line not in warnings]
    assert sum(message.startswith("window ") for message in messages) == 5, "commits"
    assert messages[-1] == "run finished"
