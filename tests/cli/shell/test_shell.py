"""`ridgeline shell`: lines of files and of a terminal, aliases, macros, completion."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from typer.main import get_group

from ridgeline import Application
from ridgeline.cli.main import app
from ridgeline.cli.remote.plan_session import COMMANDS
from ridgeline.cli.shell.completer import ShellCompleter
from ridgeline.cli.shell.session import Session
from ridgeline.cli.shell.terminal import Terminal
from ridgeline.cli.shell.words import commands_of, filled, with_alias
from ridgeline.service import registry
from ridgeline.testing import CollectorSink
from support.cli.windows import make_plan, watch_of, window
from support.service.living import Number, Numbers, Sums, living

PLAN = make_plan()


class Choosy(Sums):
    order: Literal["asc", "desc"] = "asc"
    loud: bool = False


def choosy():
    """The application `numbers` whose operator `sums` has properties of few values."""
    found = Application("numbers", window="2ms")
    sums = found.add_operator("sums", Choosy())
    found.add_stream("numbers", found.add_operator("numbers", Numbers()).output, sums.input)
    found.add_stream("sums", sums.output, found.add_operator("sink", CollectorSink(Number)).input)
    return found


@pytest.fixture
def numbers(serve):
    """A running application of that name, after a window."""
    return serve(watch_of(PLAN, window(PLAN, 0, at=0.5), now=1.0), PLAN)


@pytest.fixture
def script(ridgeline_command, tmp_path):
    """`script("line", "line")`: what the shell does with such a file."""

    def run(*lines):
        (tmp_path / "lines").write_text("\n".join(lines))
        return ridgeline_command("shell", "lines")

    return run


def test_words():
    assert commands_of("set-operator-property a b 'x; y' ;status;") == [
        ["set-operator-property", "a", "b", "x; y"],
        ["status"],
    ]
    assert commands_of("  # a remark; status") == []
    assert commands_of("lines double.output#unifier") == [["lines", "double.output#unifier"]]
    assert with_alias(["cp", "a"], {"cp": ["critical-path", "--json"]}) == ["critical-path", "--json", "a"]
    assert with_alias(["latency"], {"latency": ["latency", "--json"]}) == ["latency", "--json"]
    assert with_alias(["launch", "x.py"], {}) == ["run", "x.py"]
    assert filled("set-operator-property $1 rate '$2'", ["two words", "5"]) == (
        "set-operator-property 'two words' rate '5'"
    )


def test_an_application_is_given_to_all_commands(script, numbers):
    result = script("connect numbers", "get-app-attributes window_count", "disconnect", "list-apps")
    assert result.exit_code == 2, "no such attribute"
    assert "window_count" in result.stderr
    assert "the command of lines, line 2 has failed" in result.stderr
    assert "numbers-1" not in result.stdout.splitlines()[1:], "what stands behind it is not carried out"
    result = script(
        "connect numbers", "windows --limit 1; latency", "list-operators numbers 'double*'", "latency numbers"
    )
    assert (result.exit_code, result.stderr) == (0, "")
    assert "double[1]" in result.stdout


def test_an_operator_may_be_called_as_an_application(numbers):
    session = Session(get_group(app))
    registry.register(registry.own_entry("other-1", "double", "http://127.0.0.1:1", token=None, started=1.0))
    session.carry_out("connect numbers")
    for words, wanted in [
        (["lines", "double"], ["lines", "numbers", "double"]),
        (["lines", "other", "double"], ["lines", "other", "double"]),
        (["shutdown-app", "double", "--note", "x"], ["shutdown-app", "double", "--note", "x"]),
        (["windows", "--limit", "3"], ["windows", "numbers", "--limit", "3"]),
        (["latency", "--url=http://b:1"], ["latency", "--url=http://b:1"]),
        (["set-operator-property", "a", "b", "-2"], ["set-operator-property", "numbers", "a", "b", "-2"]),
    ]:
        assert session.with_app(words) == wanted


def test_code_that_was_changed_is_loaded_again(tmp_path, capfd):
    (tmp_path / "app.py").write_text(
        "from ridgeline import Application\nfrom ridgeline.operators import RandomEventGenerator\n"
        "from part import NAME\n"
        "app = Application(NAME)\napp.read('a', RandomEventGenerator(count=1)).write('c')\n"
    )
    session = Session(get_group(app))
    for name in ("one", "other"):
        (tmp_path / "part.py").write_text(f"NAME = '{name}'\n")
        session.carry_out("validate app.py")
        assert f"application {name} is valid" in capfd.readouterr().out


def test_ctrl_c_ends_the_command_only(capsys, monkeypatch):
    session = Session(get_group(app))
    lines = iter(["connect nothing", "echo on"])
    session.read = lambda _prompt: next(lines, None)

    def interrupted(*_given):
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "_connect", interrupted)
    session.run()
    assert capsys.readouterr().out == "on\n"


def test_aliases_macros_and_scripts(script, numbers, tmp_path):
    (tmp_path / "more").write_text("both windows latency\nexit\necho never\n")
    result = script(
        "alias say echo",
        "begin-macro both",
        "say $1",
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
        (["alias x y", "alias y x", "x"], "the alias `x` leads back to itself"),
        (["begin-macro m", "echo $2", "end", "m one"], "takes `$2`; got 1 words"),
        (["begin-macro m", "echo"], "the macro `m` has no end"),
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
    assert f"lines, line {len(lines) + 2 * ('has no end' in reason)} has failed" in result.stderr
    assert "never" not in result.stdout


def test_lines_come_from_options_and_standard_input(ridgeline_command):
    assert ridgeline_command("shell", "-e", "echo a; echo b", "-e", "echo c").stdout == "a\nb\nc\n"
    assert ridgeline_command("shell", typed="echo a\nexit\necho b\n").stdout == "a\n"
    assert ridgeline_command("shell", "-e", "validate nowhere.py; echo b").exit_code == 2


def test_shellrc_comes_first(ridgeline_command, tmp_path):
    home = tmp_path / "ridgeline-home"
    home.mkdir()
    (home / "shellrc").write_text("alias say echo\n")
    assert ridgeline_command("shell", "-e", "say a").stdout == "a\n"
    assert ridgeline_command("shell", "--no-rc", "-e", "say a").exit_code == 2
    (home / "shellrc").chmod(0o666)
    result = ridgeline_command("shell", "-e", "say a")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "can be written by others" in result.stderr


def test_a_change_of_the_plan_reads_the_lines_that_follow(script, numbers):
    result = script("connect numbers", "begin-logical-plan-change", "show-queue", "abort", "echo after")
    assert result.stdout.splitlines()[1:] == ["the queue is empty", "nothing is changed", "after"]


APEX = """
help echo connect launch shutdown-app list-apps kill-app show-logical-plan get-jar-operator-classes
get-jar-operator-properties alias source exit begin-macro dump-properties-file get-app-info set-pager
get-config-parameter get-app-package-info get-app-package-operators get-app-package-operator-properties
list-default-app-attributes list-default-operator-attributes list-default-port-attributes
clean-app-directories list-containers list-operators show-physical-plan kill-container wait start-recording
stop-recording get-operator-attributes get-operator-properties get-physical-operator-properties
set-operator-property set-physical-operator-property get-app-attributes get-port-attributes
begin-logical-plan-change get-recording-info get-container-stacktrace set-log-level
"""
APEX_CHANGES = """
help create-operator create-stream add-stream-sink remove-operator remove-stream set-operator-property
set-operator-attribute set-port-attribute set-stream-attribute show-queue submit abort
"""
"""All commands of Apex's shell: ApexCli.java of 3.7."""


@pytest.mark.parametrize("name", APEX.split())
def test_each_command_of_apex_is_known_here_or_says_what_to_do(script, name):
    result = script(f"help {name}")
    if result.exit_code == 0:
        assert result.stdout
        return
    assert f"Apex's `{name}` has no command of its own here: " in result.stderr
    assert result.stderr.count("`") > 2, "it names another one"


def test_each_command_of_apex_that_changes_a_plan_is_known_here():
    assert not set(APEX_CHANGES.split()) - set(COMMANDS)


def test_properties_are_written_to_a_file_by_the_name_of_apex(script):
    with living() as living_app:
        entry = registry.own_entry("n-1", "numbers", living_app.server.url, token=None, started=1.0)
        with closing(registry.register(entry)):
            result = script("connect numbers", "dump-properties-file numbers.properties")
    assert result.exit_code == 0, result.stderr
    assert "sums" in Path("numbers.properties").read_text()


# At a terminal ----------------------------------------------------------------------------------------------


def typed(keys, session):
    """What a session prints for keys that are typed."""
    with create_pipe_input() as pipe:
        terminal = Terminal(input=pipe, output=DummyOutput())
        terminal.begin(session)
        pipe.send_text(keys)
        session.run()
        terminal.close()


def test_errors_of_typed_lines_end_nothing(capsys, numbers):
    session = Session(get_group(app))
    typed(
        "connect numbers\nnonsense\nconnect numbers; echo one\nbegin-macro m\necho two\nend\nm\n\x04", session
    )
    printed = capsys.readouterr()
    assert printed.out.splitlines() == ["numbers: numbers-1", "numbers: numbers-1", "one", "two"]
    assert "there is no command `nonsense`" in printed.err
    assert session.prompt == "numbers> "


def test_a_plan_is_changed_in_a_mode_of_its_own(capsys, numbers):
    session = Session(get_group(app))
    typed("connect numbers\nbegin-logical-plan-change\nnonsense\nabort\necho on\nexit\n", session)
    printed = capsys.readouterr()
    assert printed.out.splitlines()[1:] == ["nothing is changed", "on"]
    assert "there is no command `nonsense`" in printed.err


def test_the_history_is_its_owners_alone(numbers, tmp_path):
    typed("echo one\n\x04", Session(get_group(app)))
    path = tmp_path / "ridgeline-home" / "shell_history"
    assert path.read_text().endswith("+echo one\n")
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("text", "some"),
    [
        ("crit", ["critical-path"]),
        ("echo a; get-app-i", ["get-app-info"]),
        ("connect num", ["numbers"]),
        ("latency ", ["numbers"]),
        ("windows --lim", ["--limit"]),
        ("set-operator-property numbers dou", ["double"]),
        ("set-operator-attribute numbers double partit", ["partitioner", "partitions"]),
        ("get-port-attributes numbers double out", ["output"]),
        ("describe-operator Windowe", ["Windowed"]),
        ("lau", ["launch"]),
        ("source li", ["lines"]),
    ],
)
def test_what_can_follow(text, some, numbers, tmp_path):
    (tmp_path / "lines").write_text("")
    found = completed(Session(get_group(app)), text)
    assert [one for one in found if one in some] == some, found


def test_what_can_follow_once_an_application_is_known(numbers):
    session = Session(get_group(app))
    session.carry_out("connect numbers")
    assert "double" in completed(session, "get-operator-properties d")
    assert completed(session, "lines doub") == ["double"]


def test_a_property_can_follow_its_operator():
    with living() as living_app:
        entry = registry.own_entry("n-1", "numbers", living_app.server.url, token=None, started=1.0)
        registration = registry.register(entry)
        assert completed(Session(get_group(app)), "set-operator-property numbers sums fac") == ["factor"]
        registration.close()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("set-operator-property numbers sums order ", ["asc", "desc"]),
        ("set-operator-property numbers sums loud t", ["true"]),
        ("set-operator-property numbers sums factor ", ["1"]),
        ("set-operator-property numbers numbers password ", []),
        ("set-operator-attribute numbers sums on_error SK", ["SKIP"]),
        ("get-physical-operator-properties numbers ", ["1", "2", "3"]),
    ],
)
def test_values_can_follow(text, wanted):
    with living(choosy()) as living_app:
        entry = registry.own_entry("n-1", "numbers", living_app.server.url, token=None, started=1.0)
        with closing(registry.register(entry)):
            assert completed(Session(get_group(app)), text) == wanted


@pytest.mark.parametrize(
    ("text", "some"),
    [
        ("remove-op", ["remove-operator"]),
        ("remove-operator dou", ["double"]),
        ("remove-stream dou", ["doubled"]),
        ("add-stream-sink doubled sin", ["sink"]),
        ("add-stream-sink doubled sink ", ["input"]),
        ("create-stream new double ou", ["output"]),
        ("set-operator-attribute double on_e", ["on_error"]),
        ("set-operator-attribute double on_error SK", ["SKIP"]),
        ("set-stream-attribute doub", ["doubled"]),
        ("create-operator new ridgeline.operators.Filt", ["ridgeline.operators.Filter"]),
        ("submit ", []),
        ("nonsense ", []),
    ],
)
def test_what_can_follow_while_a_plan_is_changed(text, some, numbers):
    session = Session(get_group(app))
    session.changing = "numbers"
    found = completed(session, text, COMMANDS)
    assert [one for one in found if one in some] == some, found


def completed(session, text, only=None):
    completer = ShellCompleter(session)
    completer.only = only
    found = completer.get_completions(Document(text), CompleteEvent())
    start = len(text) - len(text.split(" ")[-1])
    return [text[start : len(text) + one.start_position] + one.text for one in found]


def test_bash_completes_the_same(numbers, environment):
    asked = {"_RIDGELINE_COMPLETE": "complete_bash", "COMP_WORDS": "ridgeline latency num", "COMP_CWORD": "2"}
    command = Path(sys.executable).with_name("ridgeline")
    done = subprocess.run([command], env=environment | asked, text=True, stdout=subprocess.PIPE, check=True)
    assert done.stdout.split() == ["numbers"]
