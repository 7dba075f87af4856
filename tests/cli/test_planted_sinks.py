"""`ridgeline prove` finds each fault that is planted in an output, and says what it is."""

import pytest

from support.paths import SUPPORT

pytestmark = pytest.mark.slow

APPLICATION = SUPPORT / "cli" / "planted_sinks.py"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("sink", "check", "said"),
    [
        ("before_commit", "before its commit", "before the commit of window 0 row 0 was there"),
        ("last_part", "2 partitions", " are missing, such as ("),
        ("last_window", "1 partitions", " 7 are missing, such as ("),
        ("repeats", "write: after, time 2", "older than the checkpoint"),
        ("aborted", "before its commit", "before the commit of window 0 row 0 was there"),
        ("aborted", "container killed, encode: after, time 7", " twice, such as ("),
        ("two_transactions", "line by line", "held, with "),
        ("wide_key", "2 partitions", "rows are there that later ones of their key replace, such as ("),
        ("narrow_key", "2 partitions", "rows are there that later ones of their key replace, such as ("),
    ],
)
def test_a_planted_fault_is_found_and_said(ridgeline_command, folder, sink, check, said):
    ran = ridgeline_command("prove", APPLICATION, "--sink", sink, "--kills", 0, "--only", check)
    assert ran.exit_code == 1, ran.stdout + ran.stderr
    assert said in ran.stdout
    assert "not proved: " in ran.stdout
    assert not list(folder.iterdir()), "its scratch places are removed"


def test_a_right_sink_is_no_false_alarm(ridgeline_command, folder):
    only = ["--only", "line by line", "--only", "before its commit", "--only", "kills"]
    ran = ridgeline_command("prove", APPLICATION, "--sink", "right", "--kills", 3, *only)
    assert ran.exit_code == 0, ran.stdout + ran.stderr
    assert "proved: exactly once, expected exactly once (3 checks held, 0 failed, 0 skipped" in ran.stdout
    assert not list(folder.iterdir())
