"""Specifications on the command line."""

import json

import pytest

OPERATORS = """
from ridgeline import InputOperator, InputPort, Operator, OutputPort


class Numbers(InputOperator):
    output = OutputPort(object)
    count: int = 3


class Print(Operator):
    data = InputPort(object)

    @data.process
    def show(self, number):
        print(number)
"""
YAML = """
application: numbers
operators:
  numbers: {class: specified_here.Numbers, properties: {count: 5}}
  print: {class: specified_here.Print}
streams:
  numbers: {from: numbers.output, to: print.data}
"""


@pytest.fixture
def specification(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "specified_here.py").write_text(OPERATORS)
    (tmp_path / "sub" / "app.yaml").write_text(YAML)
    return "sub/app.yaml"


@pytest.mark.guide("002", "JSON File DAG Specification")
@pytest.mark.guide("002", "Properties File DAG Specification")
def test_what_takes_an_application_takes_a_specification(ridgeline_command, specification):
    assert ridgeline_command("validate", specification).stdout == (
        "application numbers is valid: 2 operators, 1 stream\n"
    )
    before = json.loads(ridgeline_command("plan", specification, "--json").stdout)
    for name in ("sub/b.json", "sub/b.toml", "sub/b.properties", "sub/b.yml"):
        written = ridgeline_command("plan", specification, "--spec", name)
        assert written.stdout == f"application numbers is in {name}\n"
        assert json.loads(ridgeline_command("plan", name, "--json").stdout) == before


def test_a_property_from_the_command_line_wins(ridgeline_command, specification):
    plan = json.loads(ridgeline_command("plan", specification, "--json", "-D", "numbers.count=7").stdout)
    assert plan["logical"]["operators"][0]["properties"] == {"count": 7}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["plan", "sub/app.yaml", "--spec", "a.xml"], "`--spec a.xml` names no form; end it in `.json`"),
        (["plan", "sub/app.yaml", "--spec", "no/a.json"], "`no/a.json` cannot be written: No such file"),
        (
            ["validate", "sub/app.yaml:name"],
            "is a specification, which has one application; leave `:name` out",
        ),
        (["validate", "sub/app.yaml", "--number", "5"], "unknown option `--number`"),
        (["validate", "sub/ap.yaml"], "there is no file `sub/ap.yaml`; did you mean `sub/app.yaml`?"),
        (["validate", "none.json"], "there is no file `none.json`; give a file"),
    ],
)
def test_what_the_command_refuses(ridgeline_command, specification, words, text):
    result = ridgeline_command(*words)
    assert result.exit_code == 2
    assert text in result.stderr
