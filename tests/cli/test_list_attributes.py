"""`ridgeline list-attributes` shows the registry."""

import json

import pytest
from typer.testing import CliRunner

from ridgeline.api.attributes import ATTRIBUTES, attributes_of
from ridgeline.api.support.attribute import Scope
from ridgeline.cli.main import app


def shown(*words: str) -> str:
    result = CliRunner().invoke(app, ["list-attributes", *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_all_attributes_are_listed():
    assert [one["name"] for one in json.loads(shown("--json"))] == sorted(ATTRIBUTES)
    assert "partition_parallel (operator, input port): true, false; default: false" in shown()


@pytest.mark.parametrize("scope", Scope)
def test_those_of_a_scope(scope):
    for written in (scope.replace(" ", "-"), scope.replace(" ", "_"), str(scope), scope.upper()):
        listed = json.loads(shown("--json", "--scope", written))
        assert [one["name"] for one in listed] == sorted(attributes_of(scope))


def test_an_unknown_scope():
    result = CliRunner().invoke(app, ["list-attributes", "--scope", "operators"])
    assert result.exit_code != 0
    assert "there is no scope `operators`; did you mean `operator`?" in result.output
