"""Write docs/attributes.md from the code: `python scripts/write_attributes_page.py`."""

from __future__ import annotations

from pathlib import Path

from ridgeline.api.attributes import ATTRIBUTES
from ridgeline.api.support.attribute import Scope

PAGE = Path(__file__).parents[1] / "docs" / "attributes.md"
HEAD = """# Attributes

```
ridgeline library --attributes
ridgeline run app.py --attribute window=500ms --attribute book.partitions=3
```

Attributes belong to the platform: they say how an application is run, not what it computes. This page is made
from the code by `python scripts/write_attributes_page.py`. Files of configuration give them, too:
[configuration.md](guide/configuration.md).

A duration is a number of seconds, or a text such as `"500ms"`, `"1s"`, `"5m"`: from a millisecond to a year.
What is not given to an operator is taken from its application, where that has the attribute. A port takes it
from its operator, and a unifier from its operator or application. Whatever would have no effect is a fault.

The ports and streams of modules are named from outside as those of operators are: `clean.port.quotes.NAME`,
`stream.clean.raw.NAME`. Operators read theirs: `self.context.attributes["partitions"]`,
`self.context.port_attributes["data"]`.

| of | given by |
|---|---|
"""
HOW = {
    Scope.APPLICATION: "`Application(name, NAME=VALUE)`, `--attribute NAME=VALUE`",
    Scope.OPERATOR: "`add_operator(name, operator, NAME=VALUE)`, `app.set_attribute(operator, NAME=VALUE)`, "
    "`--attribute OPERATOR.NAME=VALUE`",
    Scope.INPUT_PORT: "`app.set_attribute(operator.port, NAME=VALUE)`, "
    "`--attribute OPERATOR.port.PORT.NAME=VALUE`",
    Scope.OUTPUT_PORT: "the same",
    Scope.UNIFIER: "`app.set_attribute(operator.port, unifier=True, NAME=VALUE)`, "
    "`--attribute OPERATOR.unifier.PORT.NAME=VALUE`",
    Scope.STREAM: '`add_stream(name, source, sink, NAME=VALUE)`, `app.set_attribute("name", NAME=VALUE)`, '
    "`--attribute stream.STREAM.NAME=VALUE`",
}
TABLE = """
| attribute | of | takes | default | what it does |
|---|---|---|---|---|
"""
APEX = "\n## All attributes of Apache Apex\n"
"""What follows is kept as it is: the code knows nothing of it."""


def render() -> str:
    """The page's text."""
    how = "".join(f"| {_article(scope)} | {HOW[scope]} |\n" for scope in Scope)
    rows = "".join(map(_row, sorted(ATTRIBUTES)))
    return HEAD + how + TABLE + rows + APEX + PAGE.read_text().partition(APEX)[2]


def _article(scope: Scope) -> str:
    return f"an {scope}" if scope[0] in "aeio" else f"a {scope}"


def _row(name: str) -> str:
    one = ATTRIBUTES[name]
    scopes = ", ".join(scope for scope in Scope if scope in one.scopes)
    return f"| `{name}` | {scopes} | {one.takes} | {one.default_text} | {one.help} |\n"


if __name__ == "__main__":
    PAGE.write_text(render())
