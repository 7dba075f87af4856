"""The OpenAPI 3.1 description of the web service, made from the table of its endpoints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ridgeline.service.http.endpoint import Endpoint, Parameter

Schema = dict[str, Any]

_PRIMITIVES = {"str": "string", "int": "integer", "num": "number", "bool": "boolean", "obj": "object"}


def schema_of(text: str) -> Schema:
    """The JSON schema of a short form: `str`, `int`, `num`, `bool`, `obj`, the name of a schema; `?` or null, `[]` a list, `{}` a mapping.

    >>> schema_of("num?")
    {'type': ['number', 'null']}
    >>> schema_of("Operator[]")
    {'type': 'array', 'items': {'$ref': '#/components/schemas/Operator'}}
    """
    if text.endswith("[]"):
        return {"type": "array", "items": schema_of(text[:-2])}
    if text.endswith("{}"):
        return {"type": "object", "additionalProperties": schema_of(text[:-2])}
    if text.endswith("?"):
        inner = schema_of(text[:-1])
        return (
            {"type": [inner["type"], "null"]}
            if set(inner) == {"type"}
            else {"anyOf": [inner, {"type": "null"}]}
        )
    if text == "any":
        return {}
    return {"type": _PRIMITIVES[text]} if text in _PRIMITIVES else {"$ref": f"#/components/schemas/{text}"}


def _fields(text: str) -> dict[str, str]:
    return dict(part.split(":") for part in text.split())


_OPERATOR_TIMES = "operator:str id:int name:str latencyMs:num? computeMs:num? waitMs:num? transferMs:num? averageMs:num? p50Ms:num? p99Ms:num?"
_SUMMARY = (
    "windowId:int attempts:int triggeredAt:num committedAt:num latencyMs:num lateMs:num criticalPathMs:num path:str[] tuplesIn:int"
    " tuplesOut:int phases:num{}"
)
_AGES = "minMs:num? maxMs:num? avgMs:num? p50Ms:num? p90Ms:num? p99Ms:num? p999Ms:num? oldestMs:num?"
_AGGREGATED = "tuplesProcessedPSMA tuplesEmittedPSMA cpuPercentageMA latencyMA failureCount stateBytes lastHeartbeat recoveryWindowId currentWindowId"

SCHEMAS: Mapping[str, dict[str, str] | str] = {
    "Error": _fields("error:str hint:str"),
    "Index": _fields("name:str version:str links:str{}"),
    "Version": _fields("version:str"),
    "Health": _fields("status:str"),
    "Description": "obj",
    "Info": _fields(
        "id:str name:str user:str? version:str? checkpoint:str? master:str? startTime:num elapsedTime:num state:str windowSeconds:num"
        " attributes:any{} stats:Stats"
    ),
    "Stats": _fields(
        "allocatedContainers:int plannedContainers:int failedContainers:int numOperators:int latency:num? criticalPath:str[]"
        " windowLatency:num? windowStartMillis:num? currentWindowId:int? recoveryWindowId:int? windowsCommitted:int windowsRetried:int"
        " tasksRetried:int"
        " tuplesProcessedPSMA:num totalTuplesProcessed:int tuplesEmittedPSMA:num totalTuplesEmitted:int heartbeatsReceived:int"
        " heartbeatsRejected:int clockSkew:num{}"
    ),
    "Attributes": "any{}",
    "Properties": "any{}",
    "LogicalPlan": _fields("operators:LogicalPlanOperator[] streams:LogicalStream[] attributes:any{}"),
    "LogicalPlanOperator": _fields(
        "name:str class:str attributes:any{} properties:any{} ports:LogicalPort[]"
    ),
    "LogicalPort": _fields("name:str type:str connected:bool schema:str? attributes:any{}"),
    "LogicalPorts": _fields("ports:LogicalPort[]"),
    "LogicalStream": _fields(
        "name:str source:LogicalPortRef sinks:LogicalPortRef[] locality:str? schema:str"
    ),
    "LogicalPortRef": _fields("operatorName:str portName:str"),
    "LogicalOperators": _fields("operators:LogicalOperator[]"),
    "LogicalOperator": _fields(
        "name:str className:str totalTuplesProcessed:num? totalTuplesEmitted:num? tuplesProcessedPSMA:num? tuplesEmittedPSMA:num?"
        " cpuPercentageMA:num? latencyMA:num? status:int{} lastHeartbeat:num? failureCount:int? recoveryWindowId:int? currentWindowId:int?"
        " containerIds:int[] partitions:int[] unifiers:int[] hosts:str[]"
    ),
    "Aggregate": _fields("min:num? max:num?"),
    "Aggregation": _fields("name:str " + " ".join(f"{name}:Aggregate" for name in _AGGREGATED.split())),
    "PhysicalPlan": _fields("operators:Operator[] streams:Stream[]"),
    "Operators": _fields("operators:Operator[]"),
    "Operator": _fields(
        "id:int operator:str name:str logicalName:str className:str container:int host:str? pid:int? stage:int partition:int"
        " unifierClass:str? kind:str status:str currentWindowId:int? recoveryWindowId:int? totalTuplesProcessed:int totalTuplesEmitted:int"
        " tuplesProcessedPSMA:num tuplesEmittedPSMA:num cpuPercentageMA:num? latencyMA:num? latencyMs:num? computeMs:num? waitMs:num?"
        " transferMs:num? p50Ms:num? p99Ms:num? windowsBehind:int failureCount:int lastHeartbeat:num? stateBytes:int errors:int"
        " errorTuples:str[] droppedWindows:int queueSizeMA:num? ports:Port[]"
    ),
    "Port": _fields("name:str type:str totalTuples:int tuplesPSMA:num queueSizeMA:num?"),
    "Ports": _fields("ports:Port[]"),
    "Streams": _fields("streams:Stream[]"),
    "Stream": _fields("logicalName:str source:PortRef sinks:PortRef[]"),
    "PortRef": _fields("operatorId:int portName:str"),
    "Containers": _fields("containers:Container[]"),
    "Container": _fields(
        "id:int stage:int host:str? pid:int? jvmName:str? state:str operators:str{} numOperators:int lastHeartbeat:num?"
        " heartbeatAgeSeconds:num? startedTime:num? stack:str? bytesOut:int lastWindowId:int?"
    ),
    "StackTrace": _fields("id:int host:str? pid:int? lastHeartbeat:num? stack:str? fresh:str?"),
    "Latency": _fields("windowId:int? operators:OperatorLatency[] logical:LogicalLatency[] clamps:int"),
    "OperatorLatency": _fields(f"{_OPERATOR_TIMES} windowsBehind:int estimated:bool"),
    "LogicalLatency": _fields(
        "operator:str latencyMs:num? averageMs:num? computeMs:num? waitMs:num? transferMs:num?"
    ),
    "CriticalPath": _fields(
        "windowId:int? latencyMs:num? path:PathStep[] slack:num{} blame:BlameStep[] average:AveragePath share:num{} windowLatencyMs:num?"
        " explained:obj"
    ),
    "PathStep": _fields("operator:str id:int latencyMs:num? computeMs:num? transferMs:num?"),
    "BlameStep": _fields("what:str operator:str ms:num"),
    "AveragePath": _fields("latencyMs:num? path:str[]"),
    "RecordAges": _fields("operators:RecordAge[]"),
    "RecordAge": _fields(f"operator:str id:int at:str level:str {_AGES} count:int negative:int"),
    "Progress": _fields(
        "windowId:int? running:bool elapsedSeconds:num? operators:obj[] containers:obj[] window:obj sources:obj[] application:Backlog"
    ),
    "Backlog": _fields(
        "backlogRecords:num? backlogSeconds:num? basis:str caughtUpAt:num? asOf:num? unreachable:str[] verdict:str windowsBehind:int?"
    ),
    "Windows": _fields("windows:WindowSummary[]"),
    "WindowSummary": _fields(_SUMMARY),
    "Window": _fields(f"{_SUMMARY} blame:BlameStep[] operators:OperatorLatency[]"),
    "Throughput": _fields("operators:obj[]"),
    "Frame": _fields(
        "windowId:int? at:num info:Info latency:Latency criticalPath:CriticalPath recordAge:RecordAges progress:Progress"
        " operators:Operator[]"
    ),
    "Exposition": "str",
}
"""What is answered, by name: the fields that are always there in short form (see `schema_of`); more may come."""

_DESCRIPTION = (
    "Figures of a running application. Read only. Paths and field names follow Apache Apex's STRAM where it has them; numbers are JSON"
    " numbers, times of day seconds since 1970, unknown is null."
)
_BRACES = re.compile(r"\{(\w+)(?::\w+)?\}")


def openapi_path(path: str) -> str:
    """A route's path as OpenAPI writes it: without converters."""
    return _BRACES.sub(r"{\1}", path)


def describe(endpoints: Iterable[Endpoint], version: str) -> dict[str, Any]:
    """The OpenAPI document."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Ridgeline", "version": version, "description": _DESCRIPTION},
        "security": [{}, {"token": []}],
        "paths": {openapi_path(endpoint.path): {"get": _operation(endpoint)} for endpoint in endpoints},
        "components": {
            "schemas": {name: _component(form) for name, form in SCHEMAS.items()},
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Needed if the service has a token.",
                }
            },
        },
    }


def _component(form: dict[str, str] | str) -> Schema:
    if isinstance(form, str):
        return schema_of(form)
    return {
        "type": "object",
        "properties": {name: schema_of(kind) for name, kind in form.items()},
        "required": list(form),
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", openapi_path(endpoint.path)).strip("_") or "index",
        "summary": endpoint.summary,
        "tags": [endpoint.tag],
        "parameters": [
            *(_parameter(parameter, "path") for parameter in endpoint.path_parameters),
            *(_parameter(parameter, "query") for parameter in endpoint.query),
        ],
        "responses": {
            "200": _response("What is asked for.", endpoint.media_type, schema_of(endpoint.schema))
        },
    }
    error = schema_of("Error")
    if endpoint.path_parameters or endpoint.query:
        described["responses"]["400"] = _response("A parameter is wrong.", "application/json", error)
        described["responses"]["404"] = _response(
            "There is no such thing; `hint` says which there are.", "application/json", error
        )
    if endpoint.open:
        described["security"] = [{}]
    else:
        described["responses"]["401"] = _response("The token is missing or wrong.", "application/json", error)
    return described


def _response(text: str, media_type: str, schema: Schema) -> dict[str, Any]:
    return {"description": text, "content": {media_type: {"schema": schema}}}


def _parameter(parameter: Parameter, place: str) -> dict[str, Any]:
    schema: Schema = {"type": parameter.kind}
    if parameter.least is not None:
        schema["minimum"] = parameter.least
    if parameter.most is not None:
        schema["maximum"] = parameter.most
    return {
        "name": parameter.name,
        "in": place,
        "required": place == "path",
        "description": parameter.help,
        "schema": schema,
    }
