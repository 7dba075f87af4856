"""Secrets by provider: real variables and files, and errors that show none of them."""

import pickle
from secrets import token_hex

import pytest
from pydantic import Field, SecretBytes, SecretStr

from ridgeline import Application, InputOperator, OutputPort, RidgelineError
from ridgeline.api.support.masking import mask, mask_text, secrets_in
from ridgeline.api.support.secrets.providers import (
    provided,
    provided_option,
    provided_settings,
)
from ridgeline.cli.remote.client import Client
from ridgeline.connect import secret_value
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


def application(**properties):
    return in_a_row(Application("tables"), table=Table(**properties), sink=CollectorSink())


def operator(properties):
    return plan_application(application(), properties).logical.operators[0].operator


def test_each_provider_gives_a_property_its_secret(tmp_path, monkeypatch):
    secret = token_hex()
    monkeypatch.setenv("TABLE_PASSWORD", secret)
    (tmp_path / "blob").write_text(f"{secret}\n")
    given = {
        "table.password": "env:TABLE_PASSWORD",
        "table.blob": f"file:{tmp_path / 'blob'}",
        "table.several": {"a": "env:TABLE_PASSWORD", "b": "plain"},
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


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("env:NO_SUCH_VARIABLE", "environment variable `NO_SUCH_VARIABLE` is not set"),
        ("file:/no/such/file", "file `/no/such/file` cannot be read"),
        ("file:/dev/zero", "file `/dev/zero` has more than 65,536 bytes"),
        ("command:vault read x", "`command:` is no place of a secret; run it before"),
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
    monkeypatch.setenv("TABLE_PASSWORD", "file:/etc/passwd")
    assert secret_value(operator({"table.password": "env:TABLE_PASSWORD"}).password, "password") == (
        "file:/etc/passwd"
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


def test_a_token_of_no_or_two_lines_is_refused_and_not_shown(tmp_path, monkeypatch):
    (tmp_path / "token").write_text("the-first-line\n\n")
    with pytest.raises(RidgelineError, match="`file:` names is not one line") as refused:
        Client("http://127.0.0.1:9", f"file:{tmp_path / 'token'}").get("/info")
    assert "the-first" not in str(refused.value)
    monkeypatch.setenv("NO_TOKEN", "")
    with pytest.raises(RidgelineError, match="`--read-token`: what `env:` names is empty"):
        provided_option("env:NO_TOKEN", "--read-token")
