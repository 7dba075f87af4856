"""`python -m ridgeline.testing.services`, as a user runs it."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from ridgeline.testing import services
from ridgeline.testing.services import parts
from ridgeline.testing.services.__main__ import main
from ridgeline.testing.services.kafka import JAVA

COMMAND = [sys.executable, "-m", "ridgeline.testing.services"]


@pytest.mark.crash
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_addresses_and_ends_all_when_it_is_interrupted(number):
    names = ["postgres", "seaweedfs"]
    for name in names:
        if reason := services.SERVICES[name].available():
            pytest.skip(reason)
    with subprocess.Popen(
        [*COMMAND, *names], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as ran:
        found = dict(ran.stdout.readline().strip().split("=", 1) for _ in range(2))
        assert ran.stderr.readline().startswith("all are up")
        address = ("127.0.0.1", int(found["POSTGRES_DSN"].rpartition(":")[2].partition("/")[0]))
        socket.create_connection(address).close()
        assert found["AWS_ENDPOINT_URL"].startswith("http://127.0.0.1:")
        ran.send_signal(number)
        assert ran.wait() == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_it_lists_all_services(capsys):
    assert main([]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(services.SERVICES)


def test_it_knows_the_names(capsys):
    with pytest.raises(SystemExit):
        main(["kafak"])
    assert "no service `kafak`; there are kafka, " in capsys.readouterr().err


def test_what_cannot_be_had_is_said_with_the_reason_and_the_remedy(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("RIDGELINE_SERVICES", str(tmp_path / "cache"))
    reason = services.kafka.available()
    assert "there is no `java`" in reason
    assert "`make services`" in reason
    assert "--install kafka" in reason
    assert main(["--install", "kafka"]) == 1
    assert main(["kafka"]) == 1
    printed = capsys.readouterr()
    assert "kafka ... not to be had: there is no `java`" in printed.out
    assert "error: kafka: there is no `java`" in printed.err
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main(["--install", "kafka"]) == 1
    assert "do so yourself" in capsys.readouterr().out


def test_a_tool_that_hangs_ends_no_other_installation(monkeypatch, capsys, tmp_path):
    (tmp_path / "mvn").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("RIDGELINE_SERVICES", str(tmp_path / "cache"))
    monkeypatch.setattr(parts, "SECONDS", 0.1)
    if reason := services.seaweedfs.available() or JAVA.missing():
        pytest.skip(reason)
    assert main(["--install", "kafka", "seaweedfs"]) == 1
    printed = capsys.readouterr().out
    assert "kafka ... not to be had: the jars of `kafka.xml`" in printed
    assert "has not ended within 0.1 s" in printed
    assert "seaweedfs ... installed" in printed
