"""Levels of loggers that are set while a process runs: who writes, how often, and how all is as before."""

import logging
import subprocess
import sys

import pytest

from ridgeline.engine.process import log_channel

PROGRAM = """
import logging
from ridgeline.engine.process import log_channel
{prepare}
accounts, rules = logging.getLogger("accounts"), logging.getLogger("accounts.rules")
rules.debug("first")
log_channel.change({{"accounts.rules": "DEBUG"}})
rules.debug("second"), accounts.debug("third")
log_channel.change({{"accounts": "DEBUG"}})
rules.debug("fourth"), accounts.debug("fifth")
log_channel.change({{"accounts.rules": "ERROR"}})
rules.warning("sixth"), accounts.debug("seventh")
log_channel.change({{"accounts.rules": "DEFAULT"}})
rules.debug("eighth")
log_channel.follow({{}})
rules.debug("ninth"), accounts.info("tenth"), rules.warning("eleventh")
assert not accounts.handlers and not rules.handlers
"""
SAID = ["second", "fourth", "fifth", "seventh", "eighth", "eleventh"]


@pytest.mark.parametrize(
    "prepare",
    [
        "",  # a driver without a log
        "logging.basicConfig()",
        "log_channel.open_worker_channel({})",
        "log_channel.open_worker_channel({'RIDGELINE_LOG': log_channel.LogSettings().encode()})",
        "logging.getLogger('accounts').addHandler(logging.StreamHandler())",
    ],
)
def test_a_level_counts_from_then_on_and_each_line_is_written_once(prepare):
    program = PROGRAM.format(prepare=prepare)
    if "addHandler" in prepare:
        program = program.replace("not accounts.handlers and ", "")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = SAID
    if "RIDGELINE_LOG" in prepare:  # from INFO on
        expected = [*SAID[:-1], "tenth", SAID[-1]]
    words = [line.split()[-1].rpartition(":")[2] for line in done.stderr.splitlines()]
    assert words == expected, done.stderr


@pytest.mark.parametrize("name", ["", ".", "a..b", "a.*", "a b", "a\n", "x" * 201])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(ValueError, match="the name of a logger"):
        log_channel.change({name: "DEBUG"})
    assert not log_channel.levels()


def test_a_level_that_is_none_and_too_many_loggers_are_refused_and_nothing_is_set():
    with pytest.raises(ValueError, match="one of DEBUG, INFO, WARNING, ERROR, DEFAULT"):
        log_channel.change({"accounts": "DEBUG", "rules": "LOUD"})
    with pytest.raises(ValueError, match="at most"):
        log_channel.change({f"accounts{number}": "DEBUG" for number in range(log_channel.MOST_LOGGERS + 1)})
    assert not log_channel.levels()
    assert logging.getLogger("accounts").level == logging.NOTSET
