"""Levels of loggers that are set while a process runs: who writes, how often, and how all is as before."""

import logging

import pytest

from ridgeline.engine.process import log_channel


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
