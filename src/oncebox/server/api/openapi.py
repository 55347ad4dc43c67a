"""OpenAPI 3.1 document, generated from the route tables and schemas."""

import ast
import asyncio
import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import takewhile
from typing import Any

import msgspec

from oncebox.schemas.problems import Problem
from oncebox.server.api.service_info import release
from oncebox.server.http.routing import ANY_KEY, EVENT_STREAM, ApiCall, Route, Routes

_REFERENCE = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{(\w+)\}")
_PROBLEM = {"$ref": "#/components/responses/Problem"}
_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": True,
    "description": "A new key for every new object; a repeat gets the first response for 24 hours.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
_OPTIONAL = {
    "required": False,
    "description": "Identifies repeats of this call, if the body does not.",
}
_REQUEST_ID = {
    "description": "Identifies this request; a valid one sent by the client is used.",
    "schema": {"type": "string"},
}

Json = dict[str, Any]


def openapi_route(routes: Sequence[Route]) -> Route:
    """Return the route that serves the description of the others."""
    table = Routes()

    @table("GET", "/openapi.json", "getOpenapi", scopes=ANY_KEY, opened_by="public_docs")
    async def describe(_call: ApiCall) -> bytes:
        """Get this description."""
        return await asyncio.to_thread(_encoded_document, tuple(routes))  # slow the first time

    return table[0]


def openapi_document(routes: Iterable[Route]) -> Json:
    """Return the description of some routes."""
    routes = list(routes)
    known = schemas(routes)
    paths: Json = {}
    for each in routes:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, known)
    queries = {each.query.__name__ for each in routes if each.query is not None}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Oncebox",
            "version": release(),
            "description": "Mail and webhooks arrive at least once. "
            "Oncebox makes the effect happen once.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": {name: known[name] for name in sorted(known) if name not in queries},
            "responses": {"Problem": _response("An error, in the format of RFC 9457.", Problem)},
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "An API key."}
            },
        },
        "security": [{"key": []}],
    }


@cache
def _encoded_document(routes: tuple[Route, ...]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(openapi_document(routes)), indent=2)


def schemas(routes: Sequence[Route]) -> Json:
    """Return the schemas of all types, with descriptions of their fields."""
    types = {Problem, *(kind for each in routes for kind in (each.query, each.body, each.answer))}
    wanted = sorted((kind for kind in types if kind is not None), key=lambda kind: kind.__name__)
    _, found = msgspec.json.schema_components(wanted, ref_template=_REFERENCE)
    for kind in _all_types(wanted):
        for name, meaning in _field_descriptions(kind):
            properties = found[kind.__name__].get("properties", {})
            if name in properties:
                properties[name] = {"description": meaning, **properties[name]}
    return found


def _operation(each: Route, known: Json) -> Json:
    operation: Json = {
        "operationId": each.name,
        "summary": each.summary,
        "tags": [_tag(each.path)],
        "parameters": [*_path_parameters(each), *_query_parameters(each, known)],
        "responses": {str(each.status): _success(each), "default": _PROBLEM},
    }
    for status in each.statuses:
        operation["responses"][str(status)] = _success(each)
    if each.creates or each.keyed:
        operation["parameters"].append(_IDEMPOTENCY_KEY | ({} if each.creates else _OPTIONAL))
    if each.streamer is not None:
        operation["responses"][str(each.status)]["content"][EVENT_STREAM] = {
            "schema": {"type": "string"}
        }
    if each.body is not None:
        operation["requestBody"] = {
            "required": _is_required(each.body),
            "content": _json(each.body),
        }
    if each.is_open:
        operation["security"] = []
    elif each.opened_by:
        operation["security"] = [{"key": []}, {}]
    else:
        scopes = sorted({"admin", *each.scopes})
        operation["description"] = f"Scopes: {', '.join(scopes)}."
    return operation


def _path_parameters(each: Route) -> Iterator[Json]:
    for name in _PARAMETER.findall(each.path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _query_parameters(each: Route, known: Json) -> Iterator[Json]:
    if each.query is None:
        return
    described = known[each.query.__name__]
    required = described.get("required", ())
    for name, schema in described.get("properties", {}).items():
        yield {"name": name, "in": "query", "required": name in required, "schema": schema}


def _success(each: Route) -> Json:
    if each.answer is not None:
        return _response(_first_line(each.answer), each.answer)
    if each.status == 204:  # noqa: PLR2004 - the status without a body
        return {"description": "Done.", "headers": {"X-Request-Id": _REQUEST_ID}}
    media = each.media.partition(";")[0]
    kind = "object" if media == "application/json" else "string"
    return {"description": each.summary, "content": {media: {"schema": {"type": kind}}}}


def _response(description: str, kind: type[msgspec.Struct]) -> Json:
    media = "application/problem+json" if kind is Problem else "application/json"
    return {
        "description": description,
        "headers": {"X-Request-Id": _REQUEST_ID},
        "content": {media: {"schema": {"$ref": _REFERENCE.format(name=kind.__name__)}}},
    }


def _json(kind: type[msgspec.Struct]) -> Json:
    return {"application/json": {"schema": {"$ref": _REFERENCE.format(name=kind.__name__)}}}


def _is_required(kind: type[msgspec.Struct]) -> bool:
    return any(field.required for field in msgspec.structs.fields(kind))


def _tag(path: str) -> str:
    parts = path.strip("/").split("/")
    return parts[1] if parts[0] == "v1" else "about"


# field descriptions


def _all_types(kinds: Iterable[type]) -> set[type[msgspec.Struct]]:
    """Return struct types and all struct types that they contain."""
    found: set[type[msgspec.Struct]] = set()
    waiting = [info for kind in kinds for info in [msgspec.inspect.type_info(kind)]]
    while waiting:
        info: Any = waiting.pop()
        if isinstance(info, msgspec.inspect.StructType) and info.cls not in found:
            found.add(info.cls)
            waiting += [field.type for field in info.fields]
        waiting += [
            inner
            for name in ("types", "item_types")
            for inner in getattr(info, name, ())
        ]  # fmt: skip
        waiting += [
            getattr(info, name)
            for name in ("item_type", "value_type", "type")
            if isinstance(getattr(info, name, None), msgspec.inspect.Type)
        ]
    return found


def _field_descriptions(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the fields of a type and its bases, with the ``#:`` lines above them."""
    for each in kind.__mro__:
        if issubclass(each, msgspec.Struct) and each is not msgspec.Struct:
            yield from _own_field_descriptions(each)


@cache
def _own_field_descriptions(kind: type) -> list[tuple[str, str]]:
    try:
        lines = inspect.getsource(kind).splitlines()
    except OSError:  # the package comes without its source
        return []
    (body,) = ast.parse("\n".join(lines)).body
    found = []
    for node in getattr(body, "body", ()):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            above = (line.strip() for line in reversed(lines[: node.lineno - 1]))
            comments = [line[3:] for line in takewhile(lambda line: line.startswith("#: "), above)]
            if comments:
                found.append((node.target.id, " ".join(reversed(comments)).replace("``", "`")))
    return found


def _first_line(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0]
