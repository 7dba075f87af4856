"""The OpenAPI 3.1 description of the web service, made from its endpoints and the types of answers."""

from __future__ import annotations

import builtins
import inspect
import re
import types
import typing
from collections.abc import Iterable
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

from ridgeline.service.http.answers import ErrorAnswer
from ridgeline.service.http.endpoint import Endpoint, Parameter

Schema = dict[str, Any]
"""A JSON schema."""
_PRIMITIVES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


class _Components:
    """The schemas of answers: each `TypedDict` is a named component, the rest stands where it is used."""

    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = {}

    def schema(self, kind: Any) -> Schema:
        """The schema of a type: a scalar, `Any`, a list, a mapping, a `TypedDict`, and unions of them.

        Raises TypeError for a type that JSON has no form for.
        """
        if kind is Any:
            return {}
        if kind in _PRIMITIVES:
            return {"type": _PRIMITIVES[kind]}
        return self._reference(kind) if is_typeddict(kind) else self._composed(kind)

    def _composed(self, kind: Any) -> Schema:
        """The schema of a type that is made of others."""
        arguments = get_args(kind)
        match get_origin(kind):
            case typing.Annotated:
                return {**self.schema(arguments[0]), "description": arguments[1]}
            case typing.NotRequired:
                return self.schema(arguments[0])
            case builtins.list:
                return {"type": "array", "items": self.schema(arguments[0])}
            case builtins.dict:
                return {"type": "object", "additionalProperties": self.schema(arguments[1])}
            case typing.Union | types.UnionType:
                return _either([self.schema(argument) for argument in arguments])
        msg = f"`{kind}` has no form in JSON; answer with a `TypedDict`, a list, a mapping or a scalar"
        raise TypeError(msg)

    def _reference(self, kind: type) -> Schema:
        """A reference to a `TypedDict`'s component, which is made when it is first met."""
        name = component_name(kind)
        if name not in self.schemas:
            self.schemas[name] = {}  # it may hold itself
            hints = get_type_hints(kind, include_extras=True)
            self.schemas[name] = {
                "type": "object",
                "description": inspect.cleandoc(kind.__doc__ or ""),
                "properties": {field: self.schema(hint) for field, hint in hints.items()},
                "required": [
                    field for field, hint in hints.items() if get_origin(hint) is not typing.NotRequired
                ],
            }
        return {"$ref": f"#/components/schemas/{name}"}


def _either(forms: list[Schema]) -> Schema:
    """The schema of a union: one list of types where all of them are scalars."""
    if all(set(form) == {"type"} for form in forms):
        return {"type": [form["type"] for form in forms]}
    return {"anyOf": forms}


def component_name(kind: type) -> str:
    """The name by which the description knows a `TypedDict`: `LatencyAnswer` is `Latency`."""
    return kind.__name__.removesuffix("Answer")


_DESCRIPTION = (
    "Figures of a running application. POST asks it to change, or to record tuples. Paths and field names "
    "follow Apache Apex's STRAM where it has them. Numbers are JSON numbers, times of day are seconds since "
    "1970, unknown is null."
)
_BRACES = re.compile(r"\{(\w+)(?::\w+)?\}")


def openapi_path(path: str) -> str:
    """A route's path as OpenAPI writes it: without converters."""
    return _BRACES.sub(r"{\1}", path)


def describe(endpoints: Iterable[Endpoint], version: str) -> Schema:
    """The OpenAPI document. Its schemas are made from the types of the endpoints' answers."""
    components = _Components()
    paths: Schema = {}
    for endpoint in endpoints:
        of_path = paths.setdefault(openapi_path(endpoint.path), {})
        of_path[endpoint.method.lower()] = _operation(endpoint, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Ridgeline", "version": version, "description": _DESCRIPTION},
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": components.schemas,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Needed if the service has a token, and for every POST.",
                }
            },
        },
    }


def _operation(endpoint: Endpoint, components: _Components) -> Schema:
    """The description of an endpoint."""
    described: Schema = {
        "operationId": ("post_" if endpoint.method == "POST" else "")
        + (re.sub(r"\W+", "_", openapi_path(endpoint.path)).strip("_") or "index"),
        "summary": endpoint.summary,
        "tags": [endpoint.tag],
        "parameters": [
            *(_parameter(parameter, "path") for parameter in endpoint.path_parameters),
            *(_parameter(parameter, "query") for parameter in endpoint.query),
        ],
        "responses": {
            "200": _response("What is asked for.", endpoint.media_type, components.schema(endpoint.answer))
        },
    }
    error = components.schema(ErrorAnswer)
    if endpoint.method == "POST":
        properties = {
            one.name: {**_parameter(one, "query")["schema"], "description": one.help} for one in endpoint.body
        }
        body: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        if endpoint.entries:
            body = {"type": "object", "description": endpoint.entries, "additionalProperties": True}
        described["requestBody"] = {"content": {"application/json": {"schema": body}}}
        described["responses"]["409"] = _response(
            "It is refused; `error` says why.", "application/json", error
        )
    if endpoint.path_parameters or endpoint.query or endpoint.body or endpoint.entries:
        described["responses"]["400"] = _response("A parameter is wrong.", "application/json", error)
        described["responses"]["404"] = _response(
            "There is no such thing; `hint` says which there are.", "application/json", error
        )
    if endpoint.open:
        described["security"] = [{}]
    else:
        described["responses"]["401"] = _response("The token is missing or wrong.", "application/json", error)
        if endpoint.method == "POST":
            described["responses"]["403"] = _response("The token is one to read.", "application/json", error)
    return described


def _response(text: str, media_type: str, schema: Schema) -> Schema:
    return {"description": text, "content": {media_type: {"schema": schema}}}


def _parameter(parameter: Parameter, place: str) -> Schema:
    """The description of a parameter; `place` is `path` or `query`."""
    schema: Schema = {} if parameter.kind == "any" else {"type": parameter.kind}
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
