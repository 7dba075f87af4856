"""Secrets planted wherever an application can have them: nothing that is written or answered has one."""

import base64
import contextlib
import io
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
import zlib
from pathlib import Path
from secrets import token_hex

import pytest

from ridgeline.service import registry
from support.ports import free_port
from support.service.certificates import Authority
from support.waiting import wait_until

APP = """
import logging
import os
from pathlib import Path
from typing import NamedTuple

from pydantic import SecretBytes, SecretStr

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State


class Rate(NamedTuple):
    value: int


class Rates(InputOperator):
    output = OutputPort(Rate)

    coded: SecretStr
    raw: SecretBytes
    url: str
    options: dict[str, str]
    password: str
    from_environment: SecretStr = SecretStr("")
    from_file: SecretStr = SecretStr("")
    configured: SecretStr = SecretStr("")
    stop: str = ""

    count = State(0)

    def emit_tuples(self) -> None:
        all_of_them = [
            self.coded.get_secret_value(), self.raw.get_secret_value().decode(), self.password,
            self.from_environment.get_secret_value(), self.from_file.get_secret_value(),
            self.configured.get_secret_value(),
        ]
        if self.count == 0:
            for secret in all_of_them:
                logging.getLogger("rates").warning("logged in by %s", secret)
        self.output.emit(Rate(self.count))
        self.count += 1
        if Path(self.stop).exists():
            raise ValueError("no way in with " + " and ".join(all_of_them) + " at " + self.url)


class Sink(Operator):
    input = InputPort(Rate)

    @input.process
    def take(self, rate: Rate) -> None:
        pass


def application() -> Application:
    made = Application("planted", window=0.1)
    rates = made.add_operator("rates", Rates(
        coded=SecretStr(os.environ["PLANT_CODED"]),
        raw=SecretBytes(os.environ["PLANT_RAW"].encode()),
        url=f"redis://ann:{os.environ['PLANT_URL']}@cache",
        options={"access.key": os.environ["PLANT_OPTION"], "user": "ann"},
        password=os.environ["PLANT_PASSWORD"],
    ), recovery_attempts=0)
    made.add_stream("rates", rates.output, made.add_operator("sink", Sink()).input)
    return made
"""
PLACES = ("CODED", "RAW", "URL", "OPTION", "PASSWORD", "ENVIRONMENT", "FILE", "CONFIGURED")
PLACES += ("TOKEN", "READ_TOKEN", "S3", "HEADER", "CHANGED", "ROTATED")


def forms(secret):
    """A secret as it stands, and as it could be written otherwise."""
    return [secret.encode(), base64.b64encode(secret.encode()).rstrip(b"=")[:-1], secret.encode("utf-16-le")]


def contents(data, name=""):
    """The bytes of a file, and of what is packed in it."""
    yield name, data
    if data[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            for one in packed.namelist():
                yield from contents(packed.read(one), f"{name}!{one}")
    for begin in re.finditer(rb"\x78[\x01\x5e\x9c\xda]", data[:4_000_000]):
        with contextlib.suppress(zlib.error):
            yield f"{name}@{begin.start()}", zlib.decompressobj().decompress(data[begin.start() :], 4_000_000)


class Searcher:
    """Looks for planted secrets, and keeps where it has found one."""

    def __init__(self, planted):
        self.planted = {place: forms(secret) for place, secret in planted.items()}
        self.found = []
        self.looked = 0

    def look(self, where, data):
        data = data.encode() if isinstance(data, str) else data
        for name, content in contents(data, where):
            self.looked += 1
            self.found += [
                f"{place} in {name}"
                for place, all_forms in self.planted.items()
                if any(f in content for f in all_forms)
            ]


def processes_of(session):
    """The command lines of all processes that a session has; of its workers, too."""
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int((path / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                yield f"{path}/cmdline", (path / "cmdline").read_bytes()


class Planted:
    """A run with secrets in all places, and a search for them. `state`: its checkpoint folder."""

    def __init__(self, folder, environment):
        self.folder, self.environment = folder, environment
        self.kept, self.events = folder / "kept", folder / "spark-events"
        self.stop, self.out = folder / "stop", folder / "out.txt"
        self.planted = {place: f"{place.lower().replace('_', '')}{token_hex(12)}" for place in PLACES}
        for name in ("project", "kept", "spark-events"):
            (folder / name).mkdir()
        self.signed = Authority(self.kept).sign("web")
        self.ui = free_port()
        self.search = Searcher({**self.planted, "WEB_KEY": self.signed.key_file.read_text().splitlines()[2]})
        self.run = None

    def start(self):
        """Write the files that the run reads, and start it; `kept` is not searched."""
        (self.folder / "project" / "planted.py").write_text(APP)
        (self.kept / "secret").write_text(self.planted["FILE"])
        configuration = self.kept / "run.yaml"
        configuration.write_text(
            f'operator.rates:\n  configured: "{self.planted["CONFIGURED"]}"\n'
            f'  from_file: "file:{self.kept / "secret"}"\n'
        )
        configuration.chmod(0o600)
        words = ["run", "planted.py", "--master", "local[2]", "--checkpoint", self.folder / "state"]
        words += ["--event-log", self.folder / "run.jsonl", "--metrics-file", self.folder / "run.prom"]
        words += ["--log-file", self.folder / "run.log", "--log-level", "DEBUG", "--conf-file", configuration]
        words += ["-D", "rates.from_environment=env:PLANT_ENVIRONMENT", "-D", f"rates.stop={self.stop}"]
        words += ["--web-cert", self.signed.certificate, "--web-key", self.signed.key_file]
        words += ["--token", "env:PLANT_TOKEN"]
        spark = {"hadoop.fs.s3a.secret.key": "env:PLANT_S3", "ui.enabled": "true", "ui.port": self.ui}
        spark |= {
            "eventLog.enabled": "true",
            "eventLog.dir": f"file:{self.events}",
            "eventLog.compress": "false",
        }
        for name, value in spark.items():
            words += ["--conf", f"spark.{name}={value}"]
        secrets = {f"PLANT_{place}": secret for place, secret in self.planted.items()}
        with self.out.open("wb") as output:
            self.run = subprocess.Popen(
                [sys.executable, "-m", "ridgeline", *map(str, words)],
                cwd=self.folder / "project",
                env={**self.environment, **secrets, "RIDGELINE_READ_TOKEN": self.planted["READ_TOKEN"]},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def ask(self, path, body=None, token=None, url=None):
        """The answer of the web service, or the error; of a stream its first bytes."""
        head = {
            "Authorization": f"Bearer {token or self.planted['TOKEN']}",
            "X-Api-Key": self.planted["HEADER"],
        }
        head["Content-Type"] = "application/json"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        address = (url or next(iter(registry.running())).url) + path
        asked = urllib.request.Request(address, None if body is None else json.dumps(body).encode(), head)
        try:
            with urllib.request.build_opener(*handlers).open(asked, timeout=60) as answer:
                return (
                    answer.read(5000) if "event-stream" in answer.headers["content-type"] else answer.read()
                )
        except urllib.error.HTTPError as error:
            with error:
                return error.read()

    def get(self, path, body=None):
        return json.loads(self.ask(f"/ws/v2/stram{path}", body))

    def lines(self):
        return [one["text"] for one in self.get("/log", {}).get("lines", [])]

    def ask_all(self):
        """Search the answers of all paths, and those to requests that are refused."""
        described = self.get("/openapi.json")["paths"]
        fillers = {"name": "rates", "id": "0", "windowId": "2", "operator": "rates", "port": "output"}
        for path, methods in described.items():
            asked = re.sub(r"\{(\w+)\}", lambda found: fillers.get(found[1], "0"), path)
            if "get" in methods:
                self.search.look(f"GET {asked}", self.ask(asked))
            if "post" in methods:
                self.search.look(f"POST {asked}", self.ask(asked, {"nothing": "here"}))
        assert len(described) > 40
        self.search.look("the page", self.ask("/"))
        self.search.look("denied", self.ask("/ws/v2/stram/info", token=self.planted["HEADER"]))
        ui = f"http://127.0.0.1:{self.ui}"
        (application,) = json.loads(self.ask("/api/v1/applications", url=ui))
        settings = self.ask(f"/api/v1/applications/{application['id']}/environment", url=ui)
        assert b"fs.s3a.secret.key" in settings
        self.search.look("Spark's settings", settings)
        self.search.look("Spark's page", self.ask("/environment/", url=ui))

    def change(self, name, value):
        """Set a property, and wait until it has effect."""
        edit = {"do": "set-property", "operator": "rates", "property": name, "value": value}
        self.search.look("a preview", self.ask("/ws/v2/stram/changes", {"edits": [edit], "dryRun": True}))
        said = self.get("/changes", {"edits": [edit], "wait": 5, "note": "rotated"})
        self.search.look("a change", json.dumps(said))
        wait_until(lambda: self.get("/changes")["changes"][-1]["state"] == "APPLIED", "the change")

    def command(self, *words):
        """Search what a command prints."""
        done = subprocess.run(
            [sys.executable, "-m", "ridgeline", *map(str, words)],
            cwd=self.folder, env=self.environment, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        self.search.look(f"ridgeline {words[0]}", done.stdout + done.stderr)

    def end(self):
        if self.run.poll() is None:
            os.killpg(self.run.pid, signal.SIGKILL)
        self.run.wait()
        wait_until(lambda: not list(processes_of(self.run.pid)), "the end of its processes")


@pytest.mark.spark
@pytest.mark.slow
def test_nothing_that_is_written_or_answered_has_a_secret(tmp_path, environment):
    made = Planted(tmp_path, environment)
    made.start()
    try:
        wait_until(lambda: registry.running() or made.run.poll() is not None, "the registry")
        assert made.run.poll() is None, made.out.read_text()
        wait_until(lambda: (made.get("/info")["stats"]["recoveryWindowId"] or 0) > 5, "some windows")
        wait_until(lambda: sum("logged in by" in line for line in made.lines()) >= 6, "lines of the operator")
        made.ask_all()
        made.change("password", made.planted["CHANGED"])
        made.change("coded", made.planted["ROTATED"])
        made.ask_all()
        lists = list(processes_of(made.run.pid))
        assert len(lists) >= 3
        for where, line in lists:
            made.search.look(where, line)
        made.stop.write_text("")
        made.run.wait(120)
    finally:
        made.end()
    assert made.run.returncode == 3
    assert "no way in with" in made.out.read_text()
    made.command("replay", tmp_path / "run.jsonl")
    written = [one for one in tmp_path.rglob("*") if one.is_file() and not one.is_relative_to(made.kept)]
    assert {"out.txt", "run.jsonl", "run.log", "run.prom"} <= {path.name for path in written}
    events = b"".join(path.read_bytes() for path in written if path.is_relative_to(made.events))
    properties = re.findall(rb'"(ridgeline\.\w+\.secret)":"(.*?)"', events)
    assert {value for _, value in properties} == {b"*********(redacted)"}  # it lets a peer in
    for path in written:
        made.search.look(str(path), path.read_bytes())
    assert not made.search.found, "\n".join(made.search.found)
    assert made.search.looked > 100
