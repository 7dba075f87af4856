"""The plans of a running application, as the service answers them."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import RenderableType
from rich.text import Text

from ridgeline.cli.tables import Columns, fitted
from ridgeline.measure.answers.operators import PortRefAnswer
from ridgeline.service.http.answers import (
    LogicalPlanAnswer,
    LogicalPlanOperatorAnswer,
    LogicalPortRefAnswer,
    PhysicalPlanAnswer,
)


def logical_plan(plan: LogicalPlanAnswer, width: int) -> list[RenderableType]:
    """Operators with class and connected ports, then streams."""
    operators, streams = plan["operators"], plan["streams"]
    columns: Columns = {
        "operator": [Text(operator["name"], "bold") for operator in operators],
        "class": [Text(operator["class"].rpartition(".")[2]) for operator in operators],
        "inputs": [Text(_ports(operator, "input")) for operator in operators],
        "outputs": [Text(_ports(operator, "output")) for operator in operators],
        "partitions": [Text(str(operator["attributes"].get("partitions") or 1)) for operator in operators],
    }
    flows: Columns = {
        "stream": [Text(stream["name"], "bold") for stream in streams],
        "from": [Text(_end(stream["source"])) for stream in streams],
        "to": [Text(", ".join(map(_end, stream["sinks"]))) for stream in streams],
        "locality": [Text(stream.get("locality") or "") for stream in streams],
    }
    if not any(stream.get("locality") for stream in streams):
        del flows["locality"]
    left = ("operator", "class", "inputs", "outputs", "stream", "from", "to", "locality")
    return [
        fitted(columns, width, ("class", "partitions"), left=left),
        Text(),
        fitted(flows, width, ("locality",), left=left),
    ]


def physical_plan(plan: PhysicalPlanAnswer, width: int) -> list[RenderableType]:
    """Physical operators with container and stage, then who reads from whom."""
    operators = plan["operators"]
    titles = {operator["id"]: operator["operator"] for operator in operators}
    columns: Columns = {
        "id": [Text(str(operator["id"])) for operator in operators],
        "operator": [Text(operator["operator"], "bold") for operator in operators],
        "class": [Text(operator["className"].rpartition(".")[2]) for operator in operators],
        "kind": [Text("unifier" if operator["unifierClass"] else operator["kind"]) for operator in operators],
        "stage": [Text(str(operator["stage"])) for operator in operators],
        "container": [Text(str(operator["container"])) for operator in operators],
    }
    streams = plan["streams"]
    flows: Columns = {
        "stream": [Text(stream["logicalName"], "bold") for stream in streams],
        "from": [Text(_physical_end(stream["source"], titles)) for stream in streams],
        "to": [
            Text(", ".join(_physical_end(sink, titles) for sink in stream["sinks"])) for stream in streams
        ],
    }
    left = ("operator", "class", "kind", "stream", "from", "to")
    return [fitted(columns, width, ("class", "kind"), left=left), Text(), fitted(flows, width, left=left)]


def _ports(operator: LogicalPlanOperatorAnswer, kind: str) -> str:
    return ", ".join(
        port["name"] for port in operator["ports"] if port["type"] == kind and port.get("connected", True)
    )


def _end(end: LogicalPortRefAnswer) -> str:
    return f"{end['operatorName']}.{end['portName']}"


def _physical_end(end: PortRefAnswer, titles: Mapping[int, str]) -> str:
    return f"{titles.get(end['operatorId'], end['operatorId'])}.{end['portName']}"
