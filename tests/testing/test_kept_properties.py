"""Properties given from outside are kept in the checkpoint: a restart without them goes on with them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, SecretStr

from ridgeline import (
    Application,
    CheckpointError,
    InputPort,
    Operator,
    OutputPort,
    ValidationError,
)
from ridgeline.engine.driver.checkpoint.journal import Journal
from ridgeline.engine.driver.checkpoint.manifest import Properties
from ridgeline.engine.driver.checkpoint.planning import read_last
from ridgeline.engine.files.storage import LocalStorage, MemoryStorage
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deeper
from support.testing.dying import Dying


def read_kept(storage: Any, application: str) -> Properties:
    """The properties that a checkpoint keeps now."""
    last = read_last(storage, application)
    return {} if last is None else last.properties


class Number(NamedTuple):
    value: int


class Login(BaseModel):
    user: str = "ann"
    pin: SecretStr = SecretStr("0")


class Limited(Operator):
    """Emits its own limit, its options and who logs in, for each tuple."""

    data = InputPort(Number)
    output = OutputPort(object)

    limit: int = 1
    options: dict[str, str] = {}  # noqa: RUF012  a property's default
    code: SecretStr = SecretStr("none")
    login: Login = Login()

    @data.process
    def process(self, _number: Number) -> None:
        self.output.emit((self.limit, dict(self.options), self.code.get_secret_value(), self.login.user))


def application(limited: Any = None, **properties: Any) -> Application:
    app = Application("limits", window="1s")
    source = app.add_operator("source", ListInput(Number, [Number(1), END_WINDOW] * 40))
    limited = app.add_operator("sum", limited or Limited(**properties))
    app.add_stream("in", source.output, limited.data)
    app.add_stream("out", limited.output, app.add_operator("sink", CollectorSink(object)).input)
    return app


def seen(storage: Any, app: Application | None = None, windows: int = 1, **given: Any) -> Any:
    """What the operator saw in the last window of a run of the checkpoint."""
    return run_local(app or application(), checkpoint=storage, windows=windows, **given).collected("sink")[-1]


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.mark.guide("002", "Properties")
@pytest.mark.parametrize("kind", ["memory", "local"])
def test_a_restart_goes_on_with_what_the_run_before_was_given(kind: str, tmp_path: Any) -> None:
    storage = MemoryStorage() if kind == "memory" else LocalStorage(str(tmp_path))
    assert seen(storage, properties={"sum.limit": "5"})[0] == 5
    assert seen(storage)[0] == 5
    assert seen(storage, application(limit=2), windows=20)[0] == 5, "they win over the application's own"
    assert seen(storage, properties={"sum.limit": "6"})[0] == 6
    assert seen(storage)[0] == 6
    assert seen(storage, reset_properties=True)[0] == 1
    assert seen(storage)[0] == 1, "they are forgotten"


@pytest.mark.parametrize(
    ("name", "value", "at"),
    [
        ("sum.code", "hush", 2),
        ("sum.options.password", "hush", 1),
        ("sum.options", '{"password": "hush"}', 1),
        ("sum.options.url", "https://ann:hush@host/", 1),
        ("sum.login.pin", "hush", 3),
        ("sum.login", '{"user": "bob", "pin": "hush"}', 3),
    ],
)
def test_a_secret_is_never_kept_and_must_be_given_anew(name: str, value: str, at: int, tmp_path: Any) -> None:
    storage = LocalStorage(str(tmp_path))
    first = seen(storage, properties={name: value, "sum.limit": "5"}, windows=3)
    assert not any(b"hush" in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    with pytest.raises(CheckpointError) as error:
        seen(storage)
    for said in (f"`{name}`: a secret, or no JSON value", f"-D {name}=...", "--reset-properties"):
        assert said in str(error.value)
    assert seen(storage, properties={name: value})[at] == first[at]
    assert seen(storage, properties={name: value})[0] == 5
    assert seen(storage, reset_properties=True)[0] == 1
    assert seen(storage)[at] != first[at] or name == "sum.login.pin"


def test_a_harmless_entry_beside_a_secret_is_kept(storage: Any) -> None:
    seen(
        storage, properties={"sum.options.password": "hush", "sum.options.topic": "a", "sum.login.user": "b"}
    )
    assert read_kept(storage, "limits") == {
        "sum.options.topic": ["a"],
        "sum.options.password": [],
        "sum.login.user": [],
    }, "a model that holds a secret does not show its parts"


@pytest.mark.parametrize("value", [object(), {1: "a"}, {"a": {1, 2}}])
def test_what_has_no_json_form_must_be_given_anew(value: Any) -> None:
    class Taking(Limited):
        any: object = None

    storage = MemoryStorage()
    seen(storage, application(Taking()), properties={"sum.any": value})
    with pytest.raises(CheckpointError, match=r"`sum\.any`: a secret, or no JSON value"):
        seen(storage, application(Taking()))


def test_a_kept_property_that_fits_no_more_is_a_fault_that_says_so(storage: Any) -> None:
    class Other(Operator):
        data = InputPort(Number)
        output = OutputPort(object)
        limit: str = "none"
        needed: int

        @data.process
        def process(self, _number: Number) -> None: ...

    seen(storage, properties={"sum.limit": "5", "sum.options.topic": "a"})
    with pytest.raises(ValidationError) as error:
        seen(storage, application(Other()))  # type: ignore[call-arg]
    own, kept = sorted(error.value.faults, key=lambda fault: fault.where)
    remedy = (
        "; the checkpoint keeps it from the run before: `-D` gives another value, "
        "`--reset-properties` takes the application's own"
    )
    assert own.where == "sum.needed"
    assert not own.remedy.endswith(remedy)
    assert (kept.where, kept.remedy.endswith(remedy)) == ("sum.options.topic", True)
    assert seen(storage)[0] == 5, "nothing is lost by the attempt"


def test_a_damaged_checkpoint_is_reported_before_anything_is_planned(tmp_path: Any) -> None:
    storage = LocalStorage(str(tmp_path))
    seen(storage, properties={"sum.limit": "5"})
    for damaged in ("run.json", f"journal/{storage.names('journal')[-1]}"):
        data = storage.read(damaged)
        (tmp_path / damaged).write_bytes(data[:20] + b"?" + data[21:])
        with pytest.raises(CheckpointError, match=damaged.replace(".", r"\.")):
            seen(storage)
        (tmp_path / damaged).write_bytes(data)
    with pytest.raises(CheckpointError, match="belongs to application `limits`; this is `other`"):
        read_kept(storage, "other")
    assert seen(storage)[0] == 5


def deaths() -> Iterator[Any]:
    """All while properties are set, every second one while they are reset.

    Nothing done of an operation leaves what the one before it has done leaves.
    """
    ways: list[dict[str, Any]] = [{"properties": {"sum.limit": "6"}}, {"reset_properties": True}]
    for given, at, done in product(ways, range(1, 9), (True, False)):
        usual = ("properties" in given or at % 2 == 0) if done else at == 1
        yield pytest.param(given, at, done, marks=() if usual else deeper)


@pytest.mark.parametrize(("given", "at", "done"), [*deaths()])
def test_a_death_at_any_file_operation_leaves_what_the_last_window_was_computed_with(
    given: dict[str, Any], at: int, done: bool
) -> None:
    storage = Dying(at, done=done)
    seen(storage, properties={"sum.limit": "5"}, windows=2)
    storage.armed = True
    with contextlib.suppress(CheckpointError):
        seen(storage, windows=3, **given)
    storage.armed = False
    last = Journal(storage, json.loads(storage.read("run.json"))["run_id"], appends=False).last
    assert last is not None
    expected = 5 if last.window_id == 1 else 6 if "properties" in given else 1
    assert seen(storage)[0] == expected
