"""`ridgeline list-attributes` shows the registry."""

import json

from typer.testing import CliRunner

from ridgeline.api.attributes import ATTRIBUTES
from ridgeline.cli.main import app


def shown(*words: str) -> str:
    result = CliRunner().invoke(app, ["list-attributes", *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_all_attributes_are_listed():
    assert [one["name"] for one in json.loads(shown("--json"))] == sorted(ATTRIBUTES)
    assert "partition_parallel (operator, input port): true, false; default: false" in shown()


def test_an_unknown_scope():
    result = CliRunner().invoke(app, ["list-attributes", "--scope", "operators"])
    assert result.exit_code != 0
    assert "there is no scope `operators`; did you mean `operator`?" in result.output
