"""The OpenAPI description, with examples taken from the run that is served: what it shows can be asked as it stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from relcode.explore.questions import Question, ask
from relcode.explore.reasons import explain
from relcode.web.service import Service

SHOWN = 2  # answers in an example
PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "examples": ["urn:relcode:unknown-name"]},
        "title": {"type": "string", "examples": ["Not Found"]},
        "status": {"type": "integer", "examples": [404]},
        "detail": {"type": "string", "examples": ["unknown entity 'Bilbo': did you mean 'Bilbao'?"]},
        "kind": {"type": "string", "description": "of an unknown name: entity or relation"},
        "name": {"type": "string", "description": "the unknown name"},
        "suggestions": {"type": "array", "items": {"type": "string"}, "description": "known names close to an unknown one"},
        "column": {"type": "integer", "description": "where a path does not parse, from 1"},
        "errors": {"type": "array", "items": {"type": "object"}, "description": "arguments that are missing or out of bounds"},
    },
}
PROBLEMS = {
    "404": "A name that nobody knows, or something that this run does not have.",
    "422": "Arguments that are missing, out of bounds or do not parse.",
    "503": "Too many questions at once; Retry-After tells when to ask again.",
}


def describe(app: FastAPI, service: Service) -> dict[str, Any]:
    """Return the description of the API of one run."""
    description: dict[str, Any] = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    description.setdefault("components", {}).setdefault("schemas", {})["Problem"] = PROBLEM
    arguments, answers = _examples(service)
    for path, operations in description["paths"].items():
        if path.startswith("/api/"):
            name = path.rpartition("/")[2]
            _complete(operations["get"], arguments.get(name, {}), answers.get(name))
    description["components"]["schemas"].pop("HTTPValidationError", None)
    description["components"]["schemas"].pop("ValidationError", None)
    return description


def _complete(operation: dict[str, Any], arguments: Mapping[str, Any], answer: Any) -> None:
    """Add to one operation its problems and its examples."""
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    operation["responses"] |= {status: {"description": said, "content": content} for status, said in PROBLEMS.items()}
    sent: dict[str, Any] = {"schema": {"type": "object"}}
    operation["responses"]["200"] = {"description": "The record, as the command line prints it with --json.", "content": {"application/json": sent}}
    if answer is not None:
        sent["example"] = answer
    for parameter in operation.get("parameters", ()):
        if parameter["name"] in arguments:
            parameter["example"] = arguments[parameter["name"]]


def _examples(service: Service) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Return, by the last word of a route, example arguments and what they are answered with (the quick ones)."""
    browser, model = service.browser, service.model
    if not len(model.dataset.train):
        return {}, {}
    h, r, t = model.dataset.train[0].tolist()
    head, relation, tail = model.dataset.entities[h], model.names.path_text((r,)), model.dataset.entities[t]
    path = model.names.path_text((r, r + model.dataset.num_relations))
    arguments: dict[str, dict[str, Any]] = {
        "entities": {"q": head[:3], "top": SHOWN},
        "relations": {"q": model.dataset.relations[r][:3], "entity": head, "top": SHOWN},
        "labels": {"name": [head]},
        "facts": {"entity": head, "top": SHOWN},
        "neighbours": {"entity": head, "top": SHOWN},
        "predict": {"head": head, "relation": relation, "top": SHOWN},
        "suggest": {"entity": head, "top": SHOWN},
        "explain": {"head": head, "relation": relation, "tail": tail, "top": SHOWN},
        "relation": {"relation": relation, "top": SHOWN},
        "composition": {"path": path, "relation": relation, "top": SHOWN},
    }
    answers = {
        "about": browser.about(),
        "entities": browser.entities(head[:3], SHOWN),
        "relations": browser.relations(model.dataset.relations[r][:3], head, SHOWN),
        "labels": browser.labels([head]),
        "facts": browser.facts(head, SHOWN),
        "neighbours": browser.neighbours(head, SHOWN),
        "predict": ask(model, Question(head=head, relation=relation), SHOWN).to_json(),
        "suggest": browser.suggestions(head, SHOWN),
        "explain": explain(model, head, relation, tail, SHOWN).to_json(),
        "relation": browser.relation(relation, SHOWN),
    }
    return arguments, answers
