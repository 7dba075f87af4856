"""Damaged bytes of each format: an error of ours that says what is wrong, and no code is run."""

import contextlib
import json
import time

import pytest

from ridgeline import RidgelineError
from ridgeline.api.support.sealed import seal, unseal
from ridgeline.engine.driver.checkpoint import journal_record
from ridgeline.engine.driver.checkpoint.journal_record import Place
from ridgeline.engine.exchange.connection import hello, read_hello
from ridgeline.engine.exchange.frames import FrameDecoder, encode
from ridgeline.engine.exchange.network import Peer, RefusedError
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.engine.state import state_files
from ridgeline.packages.package import open_package
from ridgeline.plan.spec.form import Form, FormError
from ridgeline.plan.spec.texts import decode, read_document
from ridgeline.service.access.rules import read_rules
from ridgeline.service.event_log import head_of
from ridgeline.service.history.tail import read_run
from ridgeline.service.http.bodies import AnswerError, read_object
from ridgeline.service.http.changing import edits_of
from ridgeline.service.store.folder import decoded
from support.depth import deep
from support.mutating import mutated, no_code_is_run
from support.packages.wheels import build_shop
from support.service.history import events, write_log

SECONDS = 5.0
"""The longest that one input may take, on a busy machine too."""


def attack(name, samples, count, take, *refusals):
    """Hand damaged forms of the samples over; each is taken, or refused with one of these errors."""
    with no_code_is_run():
        for number, data in enumerate(mutated(samples, name, deep(count))):
            began, words = time.process_time(), "taken"
            try:
                take(data)
            except refusals as error:
                words = str(error)
            except BaseException as error:
                raise AssertionError(f"{name} {number}: {data[:300]!r}") from error
            assert words, f"{name} {number}: an error without words"
            assert time.process_time() - began < SECONDS, f"{name} {number}"


def test_frames():
    sample = b"".join(b"".join(encode(kind, b"head", [bytes(100)] * kind)) for kind in range(3))
    attack("frames", [sample], 4_000, lambda data: list(FrameDecoder(1 << 20).feed(data)), RefusedError)


def test_hellos():
    whole = hello(Peer(0), Peer(1))
    limit = len(whole)
    attack(
        "hellos",
        [whole],
        4_000,
        lambda data: list(map(read_hello, FrameDecoder(limit).feed(data))),
        RefusedError,
    )


def test_journals():
    place, data = Place(1), b""
    for number in range(3):
        record, place = journal_record.encode(
            "run", place, b"state", {"picture": {"n": number}, "after": None}
        )
        data += record
    attack(
        "journals",
        [data],
        2_000,
        lambda found: list(journal_record.decode("run", 1, found, "j")),
        RidgelineError,
    )


def test_sealed_files_and_entries():
    sample = seal("run.json", {"format": 1, "id": "x"})
    attack("sealed", [sample], 2_000, lambda data: unseal("run.json", data, "`x`", 1), RidgelineError)
    attack(
        "entries",
        [b'{"id": "x-1", "name": "a", "state": "running"}'],
        500,
        lambda data: decoded("a", data),
        ValueError,
    )


def test_state_files():
    storage = MemoryStorage()
    sample, _ = state_files.encode("s", {"op": {"total": (7,)}})

    def take(data):
        storage.write("state/s", data)
        with contextlib.suppress(FileNotFoundError):
            state_files.read(storage, "s", "op")

    attack("state", [sample], 2_000, take, RidgelineError)


@pytest.mark.parametrize("form", list(Form))
def test_specifications(form):
    samples = {
        Form.JSON: b'{"application": "a", "operators": {"x": {"class": "C", "properties": {"n": [1, 2]}}}}',
        Form.YAML: b"application: a\noperators:\n  x: &x {class: m.C, properties: {n: [1, 2.5]}}\n  y: *x\n",
        Form.PROPERTIES: b"apex.operator.x.classname=m.C\napex.operator.x.n=\\u0041\n",
    }
    attack(form.value, [samples[form]], 500, lambda data: read_document(decode(data), form), FormError)


def test_bodies_and_edits():
    def take(data):
        body = read_object(data, "application/json")
        with contextlib.suppress(AnswerError):
            edits_of(body.get("edits", ()) if isinstance(body.get("edits"), list) else [body])

    sample = {"edits": [{"do": "set-property", "operator": "x", "name": "n", "value": [1, {"a": 2}]}]}
    attack("bodies", [json.dumps(sample).encode()], 1_500, take, AnswerError)


def test_tokens_files():
    sample = b"ann operate sha256:" + b"06" * 32 + b" application=q* expires=2027-02-25\ngroup:o read\n"
    sample += b'"claim:team=Data Ops" read\n'
    attack("tokens", [sample], 1_500, lambda data: read_rules(data.decode(errors="replace")), ValueError)


def test_event_logs(tmp_path):
    file = tmp_path / "run.jsonl"
    sample = write_log(tmp_path / "real.jsonl", events(2))
    lines = sample.read_bytes()

    def take(data):
        file.write_bytes(data)
        head_of(file)
        list(read_run(str(file)))

    attack("event logs", [lines], 300, take, RidgelineError)
    with pytest.raises(RidgelineError, match="maximum recursion depth"):
        take(lines + b"[" * 3_000 + b"\n" + lines)


def test_packages(tmp_path):
    sample = build_shop(tmp_path)
    file = tmp_path / "hostile" / sample.name
    file.parent.mkdir()

    def take(data):
        file.write_bytes(data)
        open_package(file)

    attack("packages", [sample.read_bytes()], 200, take, RidgelineError)
