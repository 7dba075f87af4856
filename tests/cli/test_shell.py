"""`ridgeline shell`: lines that are typed or read, aliases, macros, completion."""

import os
import pty
import subprocess
import sys
from contextlib import suppress

import pytest
import typer
from typer.main import get_group

from ridgeline.cli.main import app
from ridgeline.cli.remote.plan_session import COMMANDS
from ridgeline.cli.shell import Shell, commands_of, filled
from support.cli.windows import make_plan, watch_of, window

PLAN = make_plan()


@pytest.fixture
def numbers(serve):
    """A running application of that name, after a window."""
    return serve(watch_of(PLAN, window(PLAN, 0, at=0.5), now=1.0), PLAN)


@pytest.fixture
def script(ridgeline_command):
    """`script("line", "line")`: what the shell does with such lines in a pipe."""
    return lambda *lines: ridgeline_command("shell", typed="\n".join(lines))


@pytest.fixture
def session():
    return Shell(get_group(app))


@pytest.fixture
def typed(session, monkeypatch):
    """`typed("line", KeyboardInterrupt)`: type lines and keys into a session, until its end."""

    def run(*given):
        rest = iter(given)

        def read(_prompt):
            line = next(rest, EOFError)
            if isinstance(line, str):
                return line
            raise line

        monkeypatch.setattr("builtins.input", read)
        session.run()

    return run


def test_words():
    assert commands_of("set-operator-property a b 'x; y' ;status;") == [
        ["set-operator-property", "a", "b", "x; y"],
        ["status"],
    ]
    assert commands_of("  # a remark; status") == []
    assert commands_of("lines double.output#unifier") == [["lines", "double.output#unifier"]]
    assert filled("set-operator-property $1 rate '$2'", ["two words", "5"]) == (
        "set-operator-property 'two words' rate '5'"
    )


def test_an_application_is_given_to_all_commands(script, numbers):
    result = script("connect numbers", "list-operators no*", "disconnect", "list-apps")
    assert result.exit_code == 2, "no such operator"
    assert "standard input has ended at `list-operators no*`" in result.stderr
    assert "running" not in result.stdout, "what stands behind it is not carried out"
    result = script(
        "connect numbers", "windows --limit 1; latency", "list-operators numbers 'double*'", "latency numbers"
    )
    assert (result.exit_code, result.stderr) == (0, "")
    assert "double[1]" in result.stdout


def test_aliases_macros_and_files(script, tmp_path):
    (tmp_path / "more").write_text("both windows latency\nexit\necho never\n")
    result = script(
        "alias say echo",
        "alias tell say",
        "begin-macro both",
        "tell $1",
        "say $2 of $1",
        "end",
        "both 'a b' c",
        "source more",
        "say neither",
    )
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == ["a b", "c of a b", "windows", "latency of windows"]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["lattency numbers"], "there is no command `lattency`; did you mean `latency`?"),
        (["alias x"], "`alias x` wants one command"),
        (["begin-macro m", "echo $2", "end", "m one"], "takes `$2`; got 1 words"),
        (["begin-macro m", "echo"], "the macro `m` has no line `end`"),
        (["begin-macro m", "m", "end", "m"], "20 deep; end the circle"),
        (["echo 'a"], "No closing quotation"),
        (["source nowhere"], "`nowhere` cannot be read: No such file or directory"),
        (["connect nothing"], "no application of yours is running"),
        (["alias exit echo"], "`exit` is a command of the shell"),
        (["connect"], "`connect` takes `APP`; got 0 words"),
    ],
)
def test_a_wrong_line_ends_a_script(script, lines, reason):
    result = script(*lines, "echo never")
    assert result.exit_code == 2
    assert reason in result.stderr
    assert "standard input has ended at" in result.stderr
    assert "never" not in result.stdout


def test_answers_go_through_the_pager(script, numbers, monkeypatch, capfd):
    monkeypatch.setenv("PAGER", "sed s/^/paged:/")
    assert script("set-pager on", "latency numbers", "set-pager off", "latency numbers").exit_code == 0
    assert any(line.startswith("paged:double[1]") for line in capfd.readouterr().out.splitlines())
    monkeypatch.setenv("PAGER", "no-such-program")
    assert "set `PAGER`" in script("set-pager on", "latency numbers").stderr


APEX_CHANGES = """
help create-operator create-stream add-stream-sink remove-operator remove-stream set-operator-property
set-operator-attribute set-port-attribute set-stream-attribute show-queue submit abort
"""
"""All commands of Apex's shell that change a plan: ApexCli.java of 3.7."""


def test_each_command_of_apex_that_changes_a_plan_is_known_here():
    assert not set(APEX_CHANGES.split()) - set(COMMANDS)


def test_help_describes_commands_of_both(script):
    shown = script(
        "begin-macro m", "latency $1", "end", "help m", "help connect", "help launch", "help"
    ).stdout
    for text in ("latency $1", "connect APP", "Usage: ridgeline run", "begin-macro NAME", "critical-path"):
        assert text in shown


# Typed lines ------------------------------------------------------------------------------------------------


def test_ctrl_c_drops_the_line_and_ends_the_command_only(capsys, typed, session, monkeypatch):
    def interrupted(*_given, **_settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(session.group, "main", interrupted)
    typed("begin-macro m", KeyboardInterrupt, "latency", "echo on")
    assert capsys.readouterr().out.split() == ["on"]
    assert session.macros == {}


def test_a_plan_is_changed_in_a_mode_of_its_own(capsys, numbers, typed):
    with pytest.raises(typer.Exit):
        typed(
            "connect numbers", "begin-logical-plan-change", "nonsense", "abort", "echo on", "exit", "echo 3"
        )
    printed = capsys.readouterr()
    assert printed.out.splitlines()[1:] == ["nothing is changed", "on"]
    assert "there is no command `nonsense`" in printed.err


def test_at_a_terminal_tab_completes_and_lines_are_kept_for_their_owner(numbers, tmp_path, environment):
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "ridgeline", "shell"]
    with subprocess.Popen(command, stdin=its, stdout=its, env=environment, cwd=tmp_path) as process:
        os.close(its)
        os.write(ours, b'connect nu\t\necho o"n"ce\nexit\n')
        out = b""
        with suppress(OSError):  # the other end is closed
            while read := os.read(ours, 10_000):
                out += read
    os.close(ours)
    assert process.returncode == 0
    assert b"numbers: numbers-1\r\n" in out
    assert b"once\r\n" in out
    path = tmp_path / "ridgeline-home" / "shell_history"
    assert path.read_text().splitlines()[0] == "connect numbers "
    assert path.stat().st_mode & 0o077 == 0


# Completion -------------------------------------------------------------------------------------------------


def completed(session, text):
    word = text.replace(";", " ").split(" ")[-1]
    return [one.strip() for one in session._completions(text, word)]


@pytest.mark.parametrize(
    ("text", "some"),
    [
        ("crit", ["critical-path"]),
        ("echo a; get-app-i", ["get-app-info"]),
        ("connect num", ["numbers"]),
        ("latency ", ["numbers"]),
        ("windows --lim", ["--limit"]),
        ("set-operator-property numbers dou", ["double"]),
        ("start-recording numbers double out", ["output"]),
        ("lau", ["launch"]),
        ("nonsense ", []),
    ],
)
def test_what_can_follow(text, some, numbers, session):
    found = completed(session, text)
    assert [one for one in found if one in some] == some, found
