"""The OpenAPI 3.1 document, made from the table of routes: what is described is what is routed and checked."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tenure import __version__
from tenure.serve.candidacy import State
from tenure.serve.fields import Field
from tenure.serve.routes import Access, Route

_PATH_NAME: Final = re.compile(r"\{(\w+)\+?\}")
_ERROR: Final = {"$ref": "#/components/schemas/Error"}
_PATH_ABOUT: Final = {
    "election": "The name of the election. Slashes in it may be sent as they are, or as %2F.",
    "name": "The name.",
    "lock": "The name of the lock, with slashes as elections have them; or, to give it back, its id.",
    "id": "What standing, or locking, has answered.",
}
_NULLABLE_TEXT: Final = {"type": ["string", "null"]}
_SCHEMAS: Final[Mapping[str, Any]] = {
    "Error": {
        "type": "object",
        "required": ["error", "detail"],
        "properties": {
            "error": {"type": "string", "description": "What is wrong, in a word for programs."},
            "detail": {"type": "string", "description": "The same in words for people."},
            "fix": {"type": "string", "description": "What to do about it."},
            "field": {"type": "string", "description": "Which field of the body or the query it is."},
            "near": {"type": "array", "items": {"type": "string"}, "description": "Names that may have been meant."},
        },
    },
    "Candidacy": {
        "type": "object",
        "required": ["id", "kind", "election", "state", "reason", "token", "fence", "holder", "valid_for_s", "keep_s"],
        "properties": {
            "id": {"type": "string"},
            "kind": {"type": "string", "enum": ["candidacy", "lock"]},
            "election": {"type": "string"},
            "state": {"type": "string", "enum": [state.value for state in State]},
            "reason": {**_NULLABLE_TEXT, "description": "Why it was lost or has ended."},
            "token": {"type": ["integer", "null"], "description": "The number that everything is to be written with."},
            "fence": {**_NULLABLE_TEXT, "description": "The name under which sinks keep the highest token."},
            "holder": {"type": "string"},
            "valid_for_s": {
                "type": "number",
                "description": "For how long to believe that the office is held, from when the request was sent.",
            },
            "keep_s": {"type": "number"},
        },
    },
}
_OF_CANDIDACIES: Final = frozenset({"stand", "look", "heartbeat", "resign", "lock", "unlock"})


def document_of(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the document."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = _PATH_NAME.sub(r"{\1}", route.path)
        known = paths.setdefault(path, {})
        known[route.method.lower()] = _operation(route)
        if route.method == "GET" and route.access is Access.PROBE:
            known["head"] = _operation(route) | {"operationId": f"{route.name}_head"}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tenure serve",
            "version": __version__,
            "summary": "Elections over HTTP.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": dict(_SCHEMAS),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.about,
        "parameters": [*_of_path(route.path), *map(_of_query, route.query)],
        "responses": {str(status): _response(route, status, about) for status, about in _answers(route).items()},
    }
    if route.access is Access.TOKEN:
        shown["security"] = [{"token": []}]
    if route.body is not None:
        required = any(field.required for field in route.body)
        shown["requestBody"] = {"required": required, "content": {"application/json": {"schema": _object(route.body)}}}
    return shown


def _of_path(path: str) -> Iterable[dict[str, Any]]:
    for name in _PATH_NAME.findall(path):
        schema = {"type": "string", "minLength": 1}
        yield {"name": name, "in": "path", "required": True, "schema": schema, "description": _PATH_ABOUT[name]}


def _of_query(field: Field) -> dict[str, Any]:
    shown = {"name": field.name, "in": "query", "required": field.required, "schema": field.schema}
    return {**shown, "description": field.about}


def _object(fields: Sequence[Field]) -> dict[str, Any]:
    properties = {field.name: {**field.schema, "description": field.about} for field in fields}
    required = [field.name for field in fields if field.required]
    shown: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**shown, "required": required} if required else shown


def _answers(route: Route) -> dict[int, str]:
    found = dict(route.answers)
    found.setdefault(400, "The request cannot be read.")
    found.setdefault(403, "The Host is not one of this sidecar, or it is read-only.")
    found[431] = "The head is too large."
    if "{" in route.path:
        found.setdefault(404, "There is no such thing.")
    if route.access is not Access.PROBE:
        found.setdefault(429, "Too many requests: Retry-After says when to come again.")
    if route.access is Access.TOKEN:
        found.setdefault(401, "The token is missing or wrong.")
    if route.body is not None:
        found |= {408: "The body came too slowly.", 413: "The body is too large.", 415: "The body is not JSON."}
    if route.body is not None or route.query:
        found.setdefault(422, "A field is not what it must be.")
    found.setdefault(503, "Not now: Retry-After says when to ask again.")
    return dict(sorted(found.items()))


def _response(route: Route, status: int, about: str) -> dict[str, Any]:
    is_probe = route.access is Access.PROBE and status == 503  # noqa: PLR2004  (a "no", and no error)
    if status < 300 or is_probe:  # noqa: PLR2004
        schema: dict[str, Any] = {}
        if route.kind == "application/json":
            is_candidacy = route.name in _OF_CANDIDACIES
            schema = {"$ref": "#/components/schemas/Candidacy"} if is_candidacy else {"type": "object"}
        return {"description": about, "content": {route.kind: {"schema": schema}}}
    return {"description": about, "content": {"application/json": {"schema": _ERROR}}}
