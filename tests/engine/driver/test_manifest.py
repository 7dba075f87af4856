import json
import zlib
from dataclasses import replace

import pytest

from ridgeline import CheckpointError
from ridgeline.engine.driver.manifest import FORMAT, Manifest, digest
from ridgeline.plan.protocol import OperatorReport, WindowReport, WindowRequest
from support.stram.plans import container_window

MANIFEST = Manifest(
    7,
    2,
    0,
    {"sum/0/1": ["a", "b"], "sündig}/1/2": []},
    ["in/0/1"],
    {"sink": {"text": 'ä"}', "n": [1, None, 1.5]}},
    False,
    "0badcafe",
)


def test_a_manifest_comes_back():
    assert Manifest.decode(MANIFEST.encode("run"), "run", 7, "here") == MANIFEST


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"null", b"\xff\xfe", b'{"crc32":1,"manifest":{}}', b'"manifest":}']
)
def test_what_is_no_manifest_is_corrupt(data):
    with pytest.raises(CheckpointError, match=r"^manifest `here` is corrupt: .*; restore it from a copy$"):
        Manifest.decode(data, "run", 7, "here")


def test_any_cut_or_flipped_bit_is_found():
    data = MANIFEST.encode("run")
    for position in range(len(data) - 2):
        with pytest.raises(CheckpointError, match="manifest `here` is corrupt"):
            Manifest.decode(data[: position + 1], "run", 7, "here")
    body = data.index(b'"manifest":') + len(b'"manifest":')
    for position in range(body, len(data) - 2):
        with pytest.raises(CheckpointError, match="manifest `here` is corrupt"):
            Manifest.decode(
                data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :], "run", 7, "here"
            )


def test_a_later_format_is_refused():
    data = replace(MANIFEST, format=FORMAT + 1).encode("run")
    with pytest.raises(
        CheckpointError,
        match=r"^manifest `here` has format 4; this version reads 3; run it with the version that wrote it$",
    ):
        Manifest.decode(data, "run", 7, "here")


def test_a_later_format_may_look_otherwise():
    body = json.dumps({"format": 9, "new": 1})
    data = f'{{"crc32":{zlib.crc32(body.encode())},"manifest":{body}}}'.encode()
    with pytest.raises(CheckpointError, match="has format 9"):
        Manifest.decode(data, "run", 7, "here")


def test_the_digest_depends_on_what_was_counted_and_not_on_the_order():
    request = WindowRequest(7, 0, 1)
    source, sink = OperatorReport.begun(request, 1), OperatorReport.begun(request, 2)
    source.window.tuples_out, sink.window.tuples_in = {"out": 3}, {"data": 3}
    one = WindowReport(container_window(request, 0, "t1"), {}, [source])
    two = WindowReport(container_window(request, 1, "t2"), {0: "t1"}, [sink])
    other = replace(two, window=container_window(request, 1, "t3"))
    assert digest([one, two]) == digest([two, one]) != digest([one, other])
    assert len(digest([])) == 8
