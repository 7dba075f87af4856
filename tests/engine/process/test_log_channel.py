"""The logging channel `ridgeline`: silent by default, lines for people or machines, no secrets."""

import json
import logging
import os
from datetime import datetime
from pathlib import Path

import pytest

from ridgeline import RidgelineError
from ridgeline.engine.process import log_channel
from ridgeline.engine.process.log_channel import (
    VARIABLE,
    LogFormat,
    LogLevel,
    LogSettings,
    for_executors,
    open_channel,
    open_worker_channel,
)
from ridgeline.engine.process.worker_output import enter_operator, leave_operator
from ridgeline.measure.trace_ids import trace_text
from support.engine.current_operators import BALANCES

LOG = logging.getLogger("ridgeline.some.module")


@pytest.fixture
def lines(tmp_path):
    """`lines(form, level)` opens the channel on a file; what is called on it is what the file holds then."""
    path = tmp_path / "run.log"

    def opened(form=LogFormat.TEXT, level=LogLevel.INFO):
        return open_channel(LogSettings(level, form, str(path)), {}), lambda: path.read_text().splitlines()

    return opened


def test_lines_for_people(lines):
    channel, read = lines()
    with channel:
        LOG.info("begins", extra={"application": "payments"})
        LOG.debug("not asked for")
        LOG.warning("skipped", extra={"operator": "balances", "partition": 1, "window": 7})
    LOG.error("after the end")
    first, second = read()
    time, _, rest = first.partition(" ")
    assert datetime.fromisoformat(time).utcoffset().total_seconds() == 0
    assert time.endswith("Z")
    assert rest == "INFO ridgeline.some.module: begins (application=payments)"
    assert second.split(" ", 1)[1] == "WARNING [balances:1] ridgeline.some.module: skipped (window=7)"


def test_lines_for_machines(lines):
    channel, read = lines(LogFormat.JSON, LogLevel.DEBUG)
    with channel:
        try:
            _ = 1 / 0
        except ZeroDivisionError:
            LOG.exception("failed", extra={"window": 7, "path": os.PathLike})
    (line,) = read()
    found = json.loads(line)
    assert list(found)[:2] == ["window", "path"]
    assert found["window"] == 7
    assert (found["level"], found["logger"], found["message"]) == ("ERROR", "ridgeline.some.module", "failed")
    assert "ZeroDivisionError: division by zero" in found["exception"]
    assert datetime.fromisoformat(found["time"]).utcoffset().total_seconds() == 0


@pytest.mark.parametrize("form", list(LogFormat))
def test_secrets_are_masked(lines, form):
    channel, read = lines(form)
    with channel:
        try:
            int("postgresql://ann:hunter2@db/sales")
        except ValueError:
            LOG.exception(
                "failed with %s", "password=hunter2", extra={"api_key": "hunter2", "url": "a://b:hunter2@c"}
            )
    text = "\n".join(read())
    assert "hunter2" not in text
    assert text.count("***") >= 4


def test_a_message_cannot_look_like_a_line_of_its_own(lines):
    channel, read = lines()
    with channel:
        LOG.info("one\n2026-01-01T00:00:00.000Z ERROR ridgeline: forged\x1b[2J")
    assert read()[1] == "    2026-01-01T00:00:00.000Z ERROR ridgeline: forged\\x1b[2J"


def test_in_a_callback_the_operator_is_named(lines):
    channel, read = lines(LogFormat.JSON)
    enter_operator(BALANCES)
    try:
        with channel:
            LOG.info("text")
    finally:
        leave_operator()
    found = json.loads(read()[0])
    assert {name: found[name] for name in ("application", "operator", "partition", "window")} == {
        "application": "payments",
        "operator": "balances",
        "partition": 1,
        "window": -1,
    }


def test_within_a_traced_window_a_line_has_the_trace(tmp_path, monkeypatch):
    path = tmp_path / "run.log"
    settings = LogSettings(LogLevel.INFO, LogFormat.JSON, str(path), traced=True)
    assert LogSettings.decode(settings.encode()) == settings
    with open_channel(settings, {}):
        enter_operator(BALANCES)
        try:
            LOG.info("before the first window")
            monkeypatch.setattr(BALANCES.context, "window_id", 7)
            LOG.info("within")
        finally:
            leave_operator()
        LOG.info("outside")
    before, within, outside = map(json.loads, path.read_text().splitlines())
    assert within["trace_id"] == trace_text("run", 7)
    assert "trace_id" not in before
    assert "trace_id" not in outside


def test_a_file_that_cannot_be_written_is_an_error(tmp_path):
    path = tmp_path / "nowhere" / "run.log"
    with pytest.raises(RidgelineError) as error, open_channel(LogSettings(file=str(path)), {}):
        pass
    assert str(error.value) == (
        f"log file `{path}` cannot be written: No such file or directory; "
        "give `--log-file` a path in a folder that exists and that you may write to"
    )


def test_a_full_disk_ends_nothing(capsys):
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    with open_channel(LogSettings(file="/dev/full"), {}):
        LOG.error("one")
        LOG.error("two")
    assert capsys.readouterr().err == (
        "a log line cannot be written: OSError: [Errno 28] No space left on device; further ones are "
        "not reported\n"
    )


def test_workers_get_the_settings(tmp_path):
    environment = {}
    assert not for_executors(same_host=True, environment=environment)
    settings = LogSettings(LogLevel.DEBUG, LogFormat.JSON, str(tmp_path / "run.log"))
    with open_channel(settings, environment):
        assert LogSettings.decode(environment[VARIABLE]) == settings
        assert for_executors(same_host=True, environment=environment) == environment[VARIABLE]
        elsewhere = LogSettings.decode(for_executors(same_host=False, environment=environment))
        assert elsewhere == LogSettings(LogLevel.DEBUG, LogFormat.JSON, None)
    assert environment == {}


@pytest.mark.parametrize("environment", [{}, {VARIABLE: ""}, {VARIABLE: "debug"}, {VARIABLE: '{"level": 1}'}])
def test_a_worker_without_settings_leaves_logging_alone(environment):
    before = list(logging.getLogger().handlers)
    open_worker_channel(environment)
    assert logging.getLogger().handlers == before
    assert not for_executors(same_host=True, environment=environment)


def test_a_log_file_that_is_renamed_is_begun_again(tmp_path, lines):
    channel, read = lines()
    with channel:
        LOG.info("first")
        (tmp_path / "run.log").rename(tmp_path / "run.log.1")
        LOG.info("second")
        assert [line.split()[-1] for line in read()] == ["second"]
    assert (tmp_path / "run.log.1").read_text().endswith("first\n")


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
