import json
from dataclasses import replace

import pytest

from ridgeline.engine.driver.checkpoint.manifest import Manifest, SourceOffsets, digest
from ridgeline.plan.protocol import OperatorReport, WindowReport, WindowRequest
from support.stram.plans import container_window

MANIFEST = Manifest(
    7,
    2,
    0,
    {"sum/0/1": ("a", "b"), "sündig}/1/2": ()},
    ["in/0/1"],
    {"sink": {"text": 'ä"}', "n": [1, None, 1.5]}},
    False,
    "0badcafe",
)


@pytest.mark.parametrize("offsets", [None, SourceOffsets(["in"], "v1\n{}", "{}", {"0/0": 7}, {"0/0": "ä"})])
def test_a_manifest_comes_back_from_json(offsets):
    manifest = replace(MANIFEST, offsets=offsets)
    assert Manifest.of(json.loads(json.dumps(manifest.picture()))) == manifest


def test_a_picture_is_json_whatever_publishers_keep():
    picture = replace(MANIFEST, publishers={"sink": {1: (2, 3)}}).picture()
    assert picture["publishers"] == {"sink": {"1": [2, 3]}}
    assert picture["states"]["sum/0/1"] is MANIFEST.states["sum/0/1"]


def test_the_digest_depends_on_what_was_counted_and_not_on_the_order():
    request = WindowRequest(7, 0, 1)
    source, sink = OperatorReport.begun(request, 1), OperatorReport.begun(request, 2)
    source.window.tuples_out, sink.window.tuples_in = {"out": 3}, {"data": 3}
    one = WindowReport(container_window(request, 0, "t1"), [source])
    two = WindowReport(container_window(request, 1, "t2"), [sink])
    other = replace(two, window=container_window(request, 1, "t3"))
    assert digest([one, two]) == digest([two, one]) != digest([one, other])
    assert len(digest([])) == 8
