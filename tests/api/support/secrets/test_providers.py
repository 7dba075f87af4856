"""Secrets by provider: real variables, files and commands, and errors that show none of them."""

import os
import pickle
import sys
import threading
from secrets import token_hex

import pytest
from pydantic import Field, SecretBytes, SecretStr

from ridgeline import Application, ChangeError, InputOperator, OutputPort, RidgelineError
from ridgeline.api.support.masking import mask, mask_text, secrets_in
from ridgeline.api.support.secrets import providers as secret_providers
from ridgeline.api.support.secrets.providers import (
    forget_secrets,
    named_by_command,
    provided,
    provided_option,
    provided_settings,
)
from ridgeline.cli.remote.client import Client
from ridgeline.connect import secret_value
from ridgeline.plan.edits import SetProperty
from ridgeline.plan.planner import plan_application
from ridgeline.testing import CollectorSink, run_local
from support.rows import in_a_row
from support.service.living import living


class Table(InputOperator):
    output = OutputPort(object)

    password: SecretStr = SecretStr("")
    blob: SecretBytes = SecretBytes(b"")
    several: dict[str, SecretStr] = Field(default={})
    dsn: str = ""

    def emit_tuples(self):
        several = {name: one.get_secret_value() for name, one in self.several.items()}
        self.output.emit((self.password.get_secret_value(), self.blob.get_secret_value(), several))
        self.finish()


@pytest.fixture(autouse=True)
def _asked_again():
    forget_secrets()
    yield
    forget_secrets()


@pytest.fixture
def script(tmp_path):
    """`script("print(1)")`: the `command:` that runs this text of Python."""

    def make(text, name="vault.py"):
        path = tmp_path / name
        path.write_text(text)
        return f"command:{sys.executable} '{path}'"

    return make


def application(**properties):
    return in_a_row(Application("tables"), table=Table(**properties), sink=CollectorSink())


def operator(properties):
    return plan_application(application(), properties).logical.operators[0].operator


def test_each_provider_gives_a_property_its_secret(tmp_path, monkeypatch, script):
    secret = token_hex()
    monkeypatch.setenv("TABLE_PASSWORD", secret)
    (tmp_path / "blob").write_text(f"{secret}\n")
    given = {
        "table.password": "env:TABLE_PASSWORD",
        "table.blob": f"file:{tmp_path / 'blob'}",
        "table.several": {"a": script(f"print('{secret}')"), "b": "plain"},
    }
    found = pickle.loads(pickle.dumps(operator(given)))
    assert found.password.get_secret_value() == secret
    assert found.blob.get_secret_value() == secret.encode()
    assert {name: one.get_secret_value() for name, one in found.several.items()} == {
        "a": secret,
        "b": "plain",
    }
    assert secret not in f"{vars(found)!r} {mask('password', found.password)}"
    assert [*secrets_in("password", found.password)] == ["env:TABLE_PASSWORD"]
    again = operator(given)
    assert (again.password, again.blob) == (found.password, found.blob)
    assert again.password != operator({"table.password": "env:OTHER"}).password


def test_a_run_reads_the_secret_where_it_is_used(monkeypatch):
    monkeypatch.setenv("TABLE_PASSWORD", "first")
    app = application(password="env:TABLE_PASSWORD")
    monkeypatch.setenv("TABLE_PASSWORD", "second")
    assert run_local(app).collected("sink") == [("second", b"", {})]


def test_threads_that_ask_at_once_run_one_command(tmp_path, script):
    count = tmp_path / "count"
    command = script(f"open({str(count)!r}, 'a').write('x'); print('it')")
    threads = [threading.Thread(target=provided, args=(command, "password")) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count.read_text() == "x"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("import sys; print('{secret}', file=sys.stderr); sys.exit(3)", "failed with exit code 3"),
        ("print('{secret}'); raise SystemExit(2)", "failed with exit code 2"),
        ("print('{secret}'); print('{secret}')", "printed 2 lines, and a secret is one"),
        ("", "printed nothing"),
        ("while True: print('{secret}' * 1000)", "printed more than 65,536 bytes"),
        ("import time; print('{secret}', flush=True); time.sleep(600)", r"did not end within 0.5 s"),
    ],
)
def test_commands_that_fail_are_named_and_what_they_print_is_not(script, monkeypatch, text, fault):
    if "sleep" in text:
        monkeypatch.setattr(secret_providers, "COMMAND_SECONDS", 0.5)
    secret = token_hex()
    with pytest.raises(
        RidgelineError, match=rf"`rates.key`: command `.*python.*` {fault}; run it by"
    ) as caught:
        provided(script(text.replace("{secret}", secret)), "rates.key")
    assert secret not in f"{caught.value} {caught.value.__cause__} {caught.value.__context__}"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("env:NO_SUCH_VARIABLE", "environment variable `NO_SUCH_VARIABLE` is not set"),
        ("file:/no/such/file", "file `/no/such/file` cannot be read"),
        ("file:/dev/zero", "file `/dev/zero` has more than 65,536 bytes"),
        ("command:/no/such/program --now", "command `/no/such/program` cannot be started: No such file"),
        ("command:'open", "its command cannot be read: No closing quotation"),
        ("command:' '", "command ` ` cannot be started"),
    ],
)
def test_what_is_not_there_is_named(text, fault):
    with pytest.raises(RidgelineError, match=f"`rates.key`: {fault}"):
        provided(text, "rates.key")


def test_texts_that_only_look_alike_are_secrets_themselves():
    for text in ("file:test.db?mode=ro", "file://host/share", "env:", "env:a b", "commander", "x env:Y"):
        found = operator({"table.password": text})
        assert found.password.get_secret_value() == text


def test_a_secret_that_looks_like_a_provider_is_not_read_twice(monkeypatch):
    monkeypatch.setenv("TABLE_PASSWORD", "command:rm -rf /")
    assert secret_value(operator({"table.password": "env:TABLE_PASSWORD"}).password, "password") == (
        "command:rm -rf /"
    )


def test_errors_hide_a_secret_that_was_read(monkeypatch):
    secret = token_hex()
    monkeypatch.setenv("TABLE_PASSWORD", secret)
    assert provided("env:TABLE_PASSWORD", "password") == secret
    assert mask_text(f"no way in with {secret}!") == "no way in with ***!"


def test_a_secret_that_is_a_word_hides_no_text(monkeypatch):
    for word in ("postgres", "minioadmin", "a1b2c3"):
        monkeypatch.setenv("TABLE_PASSWORD", word)
        assert provided("env:TABLE_PASSWORD", "password") == word
        assert mask_text(f"the folder {word}-data") == f"the folder {word}-data"


def test_options_and_settings_of_spark_name_places_too(monkeypatch):
    monkeypatch.setenv("THE_KEY", "it")
    assert provided_option("env:THE_KEY", "--token") == "it"
    assert provided_option(None, "--token") is None
    settings = {"spark.hadoop.fs.s3a.secret.key": "env:THE_KEY", "spark.eventLog.dir": "file:/tmp/x"}
    assert provided_settings(settings) == {**settings, "spark.hadoop.fs.s3a.secret.key": "it"}
    with living(token="it") as found:
        assert Client(found.server.url, "env:THE_KEY").get("/info")["name"] == "numbers"


@pytest.mark.parametrize(
    "value",
    ["command:vault", b"command:vault", {"a": ["command:vault"]}, SecretStr("command:x"), " command:x"],
)
def test_a_change_that_names_a_command_is_refused(value):
    assert named_by_command(value)
    with pytest.raises(ChangeError, match="`password` of `table` names a command, which a change may not"):
        plan_application(application(), edits=[SetProperty("table", "password", value)])


def test_no_child_gets_our_standard_input(script):
    assert provided(script("import sys; print(repr(sys.stdin.read()))"), "password") == "''"
    assert os.environ


@pytest.mark.parametrize("text", ['{"a": "command:vault"}', '["command:x"]', r'"\u0063ommand:vault"'])
def test_a_change_names_no_command_in_json_either(text):
    with pytest.raises(ChangeError, match="`several` of `table` names a command, which a change may not"):
        plan_application(application(), edits=[SetProperty("table", "several", text)])


def test_what_a_killed_command_had_printed_is_no_secret():
    with pytest.raises(RidgelineError, match="`password`: command `sh` failed with exit code -9"):
        provided("command:sh -c 'printf half; kill -9 $$'", "password")


def test_a_token_of_no_or_two_lines_is_refused_and_not_shown(tmp_path, monkeypatch):
    (tmp_path / "token").write_text("the-first-line\n\n")
    with pytest.raises(RidgelineError, match="`file:` names is not one line") as refused:
        Client("http://127.0.0.1:9", f"file:{tmp_path / 'token'}").get("/info")
    assert "the-first" not in str(refused.value)
    monkeypatch.setenv("NO_TOKEN", "")
    with pytest.raises(RidgelineError, match="`--read-token`: what `env:` names is empty"):
        provided_option("env:NO_TOKEN", "--read-token")
