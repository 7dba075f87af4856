"""Write docs/attributes.md from the code: `python scripts/write_attributes_page.py`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ridgeline.api.attributes import attributes_of
from ridgeline.api.support.attribute import Attribute, Scope

PAGE = Path(__file__).parents[1] / "docs" / "attributes.md"
HEAD = """# Attributes

Made from the code by `python scripts/write_attributes_page.py`.
`ridgeline library --attributes` shows the same. Attributes belong to the platform: they say how an
application is run, not what it computes. How they are given
from outside: [configuration.md](guide/configuration.md).

A duration is a number of seconds, or a text such as `"500ms"`, `"1s"`, `"5m"`: from a millisecond to a year.
What is not given to an operator is taken from its application, where that has the attribute. A port takes it
from its operator, and a unifier from its operator or application. Whatever would have no effect is a fault.

The ports and streams of modules are named from outside as those of operators are: `clean.port.quotes.NAME`,
`stream.clean.raw.NAME`.

Operators read theirs: `self.context.attributes["partitions"]`, `self.context.port_attributes["data"]`.
"""
HOW = {
    Scope.APPLICATION: "`Application(name, NAME=VALUE)`, `--attribute NAME=VALUE`",
    Scope.OPERATOR: "`add_operator(name, operator, NAME=VALUE)`, `app.set_attribute(operator, NAME=VALUE)`,\n"
    "`--attribute OPERATOR.NAME=VALUE`",
    Scope.INPUT_PORT: "`app.set_attribute(operator.port, NAME=VALUE)`, "
    "`--attribute OPERATOR.port.PORT.NAME=VALUE`",
    Scope.OUTPUT_PORT: "`app.set_attribute(operator.port, NAME=VALUE)`, "
    "`--attribute OPERATOR.port.PORT.NAME=VALUE`",
    Scope.UNIFIER: "`app.set_attribute(operator.port, unifier=True, NAME=VALUE)`, "
    "`--attribute OPERATOR.unifier.PORT.NAME=VALUE`",
    Scope.STREAM: '`add_stream(name, source, sink, NAME=VALUE)`, `app.set_attribute("name", NAME=VALUE)`,\n'
    "`--attribute stream.STREAM.NAME=VALUE`",
}
APEX = "\n## All attributes of Apache Apex\n"
"""What follows is kept as it is: the code knows nothing of it."""


def render() -> str:
    """The page's text."""
    text = HEAD
    for scope in Scope:
        text += f"\n## Of {_plural(scope)}\n\n{HOW[scope]}\n\n{_table(attributes_of(scope))}"
    return text + APEX + PAGE.read_text().partition(APEX)[2]


def _plural(scope: Scope) -> str:
    return f"an {scope}" if scope[0] in "aeio" else f"a {scope}"


def _table(attributes: Mapping[str, Attribute]) -> str:
    rows = [
        f"| `{name}` | {one.takes} | {one.default_text} | {one.help} |"
        for name, one in sorted(attributes.items())
    ]
    return "| attribute | takes | default | what it does |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render())
