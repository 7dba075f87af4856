"""A unit of systemd that runs an application, and what the driver says to the service manager."""

import configparser
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from ridgeline.cli.supervising.unit import quoted
from ridgeline.service import registry
from ridgeline.service.notifying import Manager, Notifier, StandbyNotifier, taken
from support.manifests import last_of
from support.waiting import wait_until

APP = """
import os
from typing import NamedTuple
from ridgeline import Application, InputOperator, OutputPort, State
from ridgeline.operators import FileOutput

class Rec(NamedTuple):
    n: int

class Feed(InputOperator):
    output = OutputPort(Rec)
    pos = State(0)
    def emit_tuples(self):
        for n in range(self.pos, self.pos + 10):
            self.output.emit(Rec(n))
        self.pos += 10

app = Application("feed", window="50ms")
feed = app.add_operator("feed", Feed())
store = app.add_operator("store", FileOutput(path="out", format="jsonl", roll_seconds=0))
app.add_stream("numbers", feed.output, store.input)
"""
NEWER = {"RestartSteps", "RestartMaxDelaySec"}
"""Keys of systemd 254, which older ones pass over with a line in the journal."""


@pytest.fixture
def app(tmp_path):
    (tmp_path / "app.py").write_text(APP)
    return "app.py"


def words_of(line):
    """The words of a line as the manual of systemd says that they are read: systemd.service(5), "Quoting"."""
    found = []
    for quote, plain in re.findall(r'"((?:[^"\\]|\\.)*)"|([^\s"]+)', line):
        text = plain or quote
        text = re.sub(r"\\x([0-9a-f]{2})", lambda one: chr(int(one[1], 16)), text)
        text = text.replace('\\"', '"').replace("\\\\", "\\")
        found.append(text.replace("%%", "%").replace("$$", "$"))
    return found


def parsed(text):
    """The sections of a unit: each key with its values in order."""
    sections, current = {}, None
    for line in text.splitlines():
        if line.startswith("["):
            current = sections.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            current.setdefault(key, []).append(value)
    configparser.RawConfigParser(strict=False).read_string(text)
    return sections


def test_a_unit_says_all_that_systemd_needs(ridgeline_command, app, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/opt/a java")
    given = ["--checkpoint", "state", app, "-D", 'store.path=out "x" 100% $HOME', "--back-off", "2s-32s"]
    given += ["--give-up", "5/10m", "--event-log", "events;\t.jsonl"]
    done = ridgeline_command("systemd-unit", *given)
    assert done.exit_code == 0, done.stderr
    unit = parsed(done.stdout)
    service = unit["Service"]
    (command,) = service["ExecStart"]
    assert words_of(command) == [sys.executable, "-m", "ridgeline", "run", *given]
    assert words_of(service["Environment"][0])[0] == "JAVA_HOME=/opt/a java"
    assert service["WorkingDirectory"] == [str(tmp_path)]
    assert service["EnvironmentFile"] == ["-/etc/ridgeline/feed.env"]
    assert (service["Type"], service["Restart"], service["KillMode"]) == (
        ["notify"],
        ["on-failure"],
        ["mixed"],
    )
    assert service["RestartPreventExitStatus"] == ["2 3 141"]
    assert (service["RestartSec"], service["RestartMaxDelaySec"], service["RestartSteps"]) == (
        ["2"],
        ["32"],
        ["4"],
    )
    assert unit["Unit"]["StartLimitBurst"] == ["5"]
    assert unit["Unit"]["StartLimitIntervalSec"] == ["600"]
    assert unit["Unit"]["Description"] == ["Ridgeline application feed"]
    if shutil.which("systemd-analyze") is None:
        return
    (tmp_path / "one.service").write_text(done.stdout)
    checked = subprocess.run(
        ["systemd-analyze", "verify", "./one.service"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in checked.stderr.splitlines() if not any(f"'{key}'" in line for key in NEWER)]
    assert (checked.returncode, said) == (0, [])


def test_a_unit_of_a_user_belongs_to_no_other_one(ridgeline_command, app):
    done = ridgeline_command("systemd-unit", "--user-unit", app, "--store", "/shared", "--store-name", "one")
    unit = parsed(done.stdout)
    assert "User" not in unit["Service"]
    assert "--user-unit" not in unit["Service"]["ExecStart"][0]
    assert unit["Install"]["WantedBy"] == ["default.target"]
    assert unit["Service"]["EnvironmentFile"] == ["-%h/.config/ridgeline/one.env"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "a unit needs `--checkpoint`, or `--store`"),
        (("--checkpoint", "s", "--supervise"), "leave `--supervise`"),
        (("--checkpoint", "s", "--from-window", "3"), "`--from-window` would count at each start"),
        (("--checkpoint", "s", "--from-window", "0"), "`--from-window` would count at each start"),
        (("--checkpoint", "s", "--token", "hunter2hunter2"), "`--token` cannot hold a secret there"),
        (("--checkpoint", "s", "--read-token=hunter2hunter2"), "`RIDGELINE_READ_TOKEN` in its"),
        (("--checkpoint", "s", "--oidc-client-secret", "hunter2"), "`RIDGELINE_OIDC_CLIENT_SECRET` in its"),
        (
            ("--checkpoint", "s", "--conf", "spark.hadoop.fs.s3a.secret.key=hunter2"),
            "a secret is in the command",
        ),
        (("--checkpoint", "s", "-D", "store.nothing=1"), "has no property `nothing`"),
    ],
)
def test_what_fits_no_unit_is_refused(ridgeline_command, app, words, text):
    done = ridgeline_command("systemd-unit", app, *words)
    assert done.exit_code == 2
    assert text in done.stderr
    assert "hunter2" not in done.stderr + done.stdout


def test_secrets_by_their_place_are_no_secrets(ridgeline_command, app):
    words = (
        "--checkpoint",
        "s",
        "--token",
        "file:/run/token",
        "--conf",
        "spark.hadoop.fs.s3a.secret.key=env:KEY",
    )
    done = ridgeline_command("systemd-unit", app, *words)
    assert done.exit_code == 0, done.stderr
    assert "--token file:/run/token --conf spark.hadoop.fs.s3a.secret.key=env:KEY" in done.stdout


@pytest.mark.parametrize(
    "word", ["plain", "", "a b", 'q"uo\\te', "50%n", "$HOME", "a\tb\nc", ";", "'", "ü", "\\"]
)
def test_a_word_comes_back_as_it_was(word):
    assert words_of(quoted(word)) == [word]


@pytest.fixture(params=["file", "abstract"])
def manager(request, tmp_path):
    """A service manager's socket, and its address as systemd writes it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        address = f"@ridgeline-{os.getpid()}" if request.param == "abstract" else str(tmp_path / "notify")
        end.bind("\0" + address[1:] if address.startswith("@") else address)
        end.settimeout(60)
        yield end, address


def messages(end, until):
    """The messages up to the first one with such a line."""
    found = []
    while not any(until in one for one in found[-1:]):
        found.append(end.recv(4096).decode().splitlines())
    return found


def test_the_manager_of_a_process_is_taken_once():
    given = {
        "NOTIFY_SOCKET": "/run/x",
        "WATCHDOG_USEC": "3000000",
        "WATCHDOG_PID": str(os.getpid()),
        "A": "b",
    }
    assert taken(given) == Manager("/run/x", 3.0)
    assert given == {"A": "b"}
    assert taken({"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}) == Manager(
        "@x", 0.0
    )
    assert taken({"NOTIFY_SOCKET": "x", "WATCHDOG_USEC": "5"}) is None
    assert taken({"WATCHDOG_USEC": "soon"}) is None


def test_a_start_that_takes_long_is_waited_for_and_a_manager_that_is_gone_does_no_harm(manager):
    end, address = manager
    with Notifier(Manager(address, 1.0)):
        first = end.recv(4096).decode().splitlines()
        assert first == ["STATUS=starting: Spark and slots are not there yet", "EXTEND_TIMEOUT_USEC=60000000"]
        end.recv(4096)
    assert messages(end, "STOPPING=1")
    with Notifier(Manager("/nowhere/at/all")):
        pass


def test_a_standby_that_waits_is_ready_and_its_start_after_that_is_no_silence(manager):
    end, address = manager
    waits = [""]
    with StandbyNotifier(Manager(address, 1.0), lambda: waits[0]):
        assert end.recv(4096).decode().splitlines()[1] == "EXTEND_TIMEOUT_USEC=60000000"
        waits[0] = "`one` runs;\x1b this one waits"
        ready = messages(end, "READY=1")[-1]
        assert ready[0] == "READY=1"
        assert "\x1b" not in ready[1]
        assert ready[2] == "WATCHDOG=1"
        assert messages(end, "WATCHDOG=1")
    with Notifier(Manager(address, 1.0), stood_by=True):
        found = messages(end, "STATUS=starting: Spark and slots are not there yet")
        assert "WATCHDOG=1" in found[-1]
        assert not any("STOPPING=1" in one for one in found)  # it would be ended


@pytest.mark.parametrize("managed", [False, True])
def test_kill_says_that_a_service_manager_may_start_it_again(ridgeline_command, managed):
    variables = {**os.environ, **({"NOTIFY_SOCKET": "/run/x"} if managed else {})}
    with subprocess.Popen(["sleep", "600"], env=variables) as process:
        identity = registry.process_identity(process.pid)
        made = registry.own_entry("one-1", "one", "http://127.0.0.1:9", token=None, started=1.0)
        registry.register(replace(made, pid=process.pid, process=identity))
        done = ridgeline_command("kill", "one", "--yes")
        assert process.wait() == -signal.SIGKILL
    assert done.stdout.startswith(f"the process {process.pid} got SIGKILL\none has ended\n")
    assert ("`systemctl stop` ends its unit" in done.stdout) == managed


@pytest.mark.spark
@pytest.mark.slow
def test_a_driver_under_a_manager_is_ready_says_how_it_does_and_ends_for_good(
    ridgeline_process, ridgeline_command, environment, app, tmp_path
):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(str(tmp_path / "notify"))
        end.settimeout(120)
        environment |= {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1500000"}
        words = ("run", app, "--master", "local[2]", "--checkpoint", "state", "--event-log", "log.jsonl")
        driver = ridgeline_process(*words, "--quiet")
        before = messages(end, "READY=1")
        assert last_of(tmp_path / "state").window_id >= 0
        assert all("EXTEND_TIMEOUT_USEC=60000000" in one for one in before[:-1])
        assert before[-1][1].startswith("STATUS=")
        assert any(" window" in one[0] for one in messages(end, "WATCHDOG=1"))
        for worker in driver.members():  # none of them speaks for the driver
            with suppress(ProcessLookupError, FileNotFoundError):  # it has ended meanwhile
                variables = Path(f"/proc/{worker.pid}/environ").read_bytes()
                assert worker.pid == driver.pid or b"NOTIFY_SOCKET=" not in variables

        os.kill(driver.pid, signal.SIGSTOP)  # it hangs: systemd would end it after 1.5 s of silence
        end.settimeout(0.1)
        quiet = time.monotonic() + 1.5
        while time.monotonic() < quiet:
            try:
                end.recv(4096)  # what it had sent before
                quiet = time.monotonic() + 1.5
            except TimeoutError:
                continue
        os.kill(driver.pid, signal.SIGCONT)
        end.settimeout(60)
        assert messages(end, "WATCHDOG=1")
        assert ridgeline_command("kill-app", "feed").exit_code == 0
        _, error = driver.communicate()
        assert driver.returncode == 3, error

        windows = last_of(tmp_path / "state").window_id
        driver = ridgeline_process(*words, "--quiet")
        messages(end, "READY=1")
        wait_until(lambda: last_of(tmp_path / "state").window_id > windows + 3, "windows more")
        driver.send_signal(signal.SIGTERM)
        assert messages(end, "STOPPING=1")
        _, error = driver.communicate()
        assert driver.returncode == 0, error
    assert (tmp_path / "log.000001.jsonl").exists()
    lines = [
        json.loads(line)["n"]
        for file in (tmp_path / "out").glob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    assert sorted(lines) == list(range(len(lines)))
