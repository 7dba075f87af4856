"""The OpenAPI 3.1 description of the web service, made from its endpoints and the types of answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema
from typing_extensions import get_type_hints

from ridgeline.service.http.answers import ErrorAnswer
from ridgeline.service.http.endpoint import Endpoint, Parameter

Schema = dict[str, Any]
"""A JSON schema."""


class _Schemas(GenerateJsonSchema):
    """JSON schemas without titles; `LatencyAnswer` is the component `Latency`."""

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        """The schema of a `TypedDict`; a field is described by the text that its type is annotated with."""
        made = super().typed_dict_schema(schema)
        del made["title"]
        for name, hint in get_type_hints(schema["cls"], include_extras=True).items():
            made["properties"][name]["description"] = hint.__metadata__[0]
        return made

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def normalize_name(self, name: str) -> str:
        return super().normalize_name(name).removesuffix("Answer")


_DESCRIPTION = (
    "Figures of a running application. POST asks it to change, or to record tuples. Paths and field names "
    "follow Apache Apex's STRAM where it has them. Numbers are JSON numbers, times of day are seconds since "
    "1970, unknown is null. Where decoupled streams divide the application into regions, ids of operators, "
    "containers, changes and decisions are those of their region, plus its number times 1,000,000; "
    "windows are of a region, which `region` names."
)
_BRACES = re.compile(r"\{(\w+)(?::\w+)?\}")


def openapi_path(path: str) -> str:
    """A route's path as OpenAPI writes it: without converters."""
    return _BRACES.sub(r"{\1}", path)


def describe(endpoints: Sequence[Endpoint], version: str) -> Schema:
    """The OpenAPI document. Its schemas are made from the types of the endpoints' answers.

    Raises pydantic.PydanticUserError for a type that JSON has no form for.
    """
    answers = [endpoint.answer for endpoint in endpoints]
    schemas, definitions = TypeAdapter.json_schemas(
        [(place, "validation", TypeAdapter(answer)) for place, answer in enumerate([*answers, ErrorAnswer])],
        ref_template="#/components/schemas/{model}",
        schema_generator=_Schemas,
        union_format="primitive_type_array",
    )
    paths: Schema = {}
    for place, endpoint in enumerate(endpoints):
        of_path = paths.setdefault(openapi_path(endpoint.path), {})
        of_path[endpoint.method.lower()] = _operation(endpoint, schemas[place, "validation"])
    return {
        "openapi": "3.1.0",
        "info": {"title": "Ridgeline", "version": version, "description": _DESCRIPTION},
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": definitions["$defs"],
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Needed if the service has a token, and for every POST.",
                }
            },
        },
    }


def _operation(endpoint: Endpoint, answer: Schema) -> Schema:
    """The description of an endpoint; `answer`: the schema of its answer."""
    posts = endpoint.method == "POST"
    has_parameters = endpoint.path_parameters or endpoint.query or endpoint.body
    refusals = {
        "409": "It is refused; `error` says why." if posts or endpoint.needs_run else "",
        "400": "A parameter is wrong." if has_parameters else "",
        "404": "There is no such thing; `hint` says which there are." if has_parameters else "",
        "503": endpoint.unavailable,
        "401": "" if endpoint.open else "The token is missing or wrong.",
        "403": "The token is one to read." if posts and not endpoint.open else "",
    }
    error = {"$ref": "#/components/schemas/Error"}
    described: Schema = {
        "operationId": ("post_" if posts else "")
        + (re.sub(r"\W+", "_", openapi_path(endpoint.path)).strip("_") or "index"),
        "summary": endpoint.summary,
        "tags": [endpoint.tag],
        "parameters": [
            *(_parameter(parameter, "path") for parameter in endpoint.path_parameters),
            *(_parameter(parameter, "query") for parameter in endpoint.query),
        ],
        "responses": {
            "200": _response("What is asked for.", endpoint.media_type, answer),
            **{code: _response(text, "application/json", error) for code, text in refusals.items() if text},
        },
    }
    if endpoint.needs is not None and not endpoint.open:
        described["x-ridgeline-role"] = endpoint.needs.word
    if posts:
        properties = {
            one.name: {**_parameter(one, "query")["schema"], "description": one.help} for one in endpoint.body
        }
        body: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        described["requestBody"] = {"content": {"application/json": {"schema": body}}}
    if endpoint.open:
        described["security"] = [{}]
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
