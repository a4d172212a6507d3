"""The routes of ``/api/v1``: each reads and bounds its arguments, and calls one function."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from relcode import __version__
from relcode.explore.questions import Question, Wish, ask
from relcode.explore.reasons import explain as explain_fact
from relcode.graph.compositions import MIN_JACCARD, MIN_PAIRS
from relcode.web.limits import (
    MOST_ANSWERS,
    MOST_FOUND,
    MOST_LABELS,
    MOST_REASONS,
    NAME_LETTERS,
    PATH_LETTERS,
    PATH_STEPS,
    SEARCH_LETTERS,
    check_steps,
)
from relcode.web.service import Service

Name = Annotated[str, Query(min_length=1, max_length=NAME_LETTERS)]
Entity = Annotated[str, Query(min_length=1, max_length=NAME_LETTERS, description="An entity's name, or a label that only one entity has.")]
Relation = Annotated[str, Query(min_length=1, max_length=NAME_LETTERS, description="A relation's name; ^ before it for the inverse.")]
Path = Annotated[str, Query(min_length=1, max_length=PATH_LETTERS, description=f"A path r1/^r2/r3 of at most {PATH_STEPS} steps.")]
Search = Annotated[str, Query(max_length=SEARCH_LETTERS, description="A part of a name or label; nothing for the most frequent.")]
Top = Annotated[int, Query(ge=1, le=MOST_ANSWERS, description="How many, at most.")]
Reasons = Annotated[int, Query(ge=1, le=MOST_REASONS, description="How many of each kind, at most.")]
Found = Annotated[int, Query(ge=1, le=MOST_FOUND, description="How many, at most.")]
WithReasons = Annotated[bool, Query(description="Add the best supporting path to each.")]
AnyType = Annotated[bool, Query(description="Consider every entity, not only those like the relation's heads and tails.")]
New = Annotated[bool, Query(description="Leave out what the facts say already.")]

names = APIRouter(tags=["names"])
questions = APIRouter(tags=["questions"])
meaning = APIRouter(tags=["meaning"])


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


@names.get("/about", summary="What is served")
async def about(request: Request) -> Response:
    """Tell the data, the model, and some questions to begin with."""
    service = _service(request)
    return await service.quick(lambda: {"version": __version__} | service.browser.about())


@names.get("/entities", summary="Find entities")
async def entities(request: Request, q: Search = "", top: Found = 10) -> Response:
    """Find entities by a part of their name or label: equal ones first, then those that begin so, then by words and parts."""
    service = _service(request)
    return await service.quick(lambda: service.browser.entities(q, top))


@names.get("/relations", summary="Find relations")
async def relations(request: Request, q: Search = "", entity: Entity | None = None, top: Found = 10) -> Response:
    """Find directed relations, ^ marking inverses; with an entity, those that it has come first, ``has`` telling how many facts."""
    service = _service(request)
    return await service.quick(lambda: service.browser.relations(q, entity, top))


@names.get("/labels", summary="Labels of names")
async def labels(request: Request, name: Annotated[list[Name], Query(max_length=MOST_LABELS)]) -> Response:
    """Return the labels of entities, those left out that have none or that nobody knows."""
    service = _service(request)
    return await service.quick(lambda: service.browser.labels(name))


@names.get("/facts", summary="Facts of an entity")
async def facts(request: Request, entity: Entity, top: Top = 20) -> Response:
    """Return the known facts of an entity by directed relation, at most ``top`` of each."""
    service = _service(request)
    return await service.quick(lambda: service.browser.facts(entity, top))


@names.get("/neighbours", summary="Entities alike")
async def neighbours(request: Request, entity: Entity, top: Top = 10) -> Response:
    """Return the entities whose vectors are most like this one's."""
    service = _service(request)
    return await service.quick(lambda: service.browser.neighbours(entity, top))


@questions.get("/predict", summary="Answer a question")
async def predict(
    request: Request,
    head: Entity | None = None,
    relation: Relation | None = None,
    tail: Entity | None = None,
    path: Path | None = None,
    top: Top = 10,
    new: New = False,
) -> Response:
    """Answer: head and relation ask for tails, tail and relation for heads, head and path for the path's ends, head and tail for relations."""
    service = _service(request)

    question = Question(head=head, relation=relation, tail=tail, path=path)
    if relation is not None:
        return await service.predict(Wish(question, top, new))

    def answer() -> object:
        if path is not None:
            check_steps(service.model, path)
        return ask(service.model, question, top, new).to_json()

    return await service.quick(answer)


@questions.get("/suggest", summary="Facts that an entity may lack")
async def suggest(request: Request, entity: Entity, top: Reasons = 10, reasons: WithReasons = False, any_type: AnyType = False) -> Response:
    """Return the most probable facts that are not known, with the entity as head or as tail."""
    service = _service(request)
    return await service.slow(lambda: service.browser.suggestions(entity, top, reasons=reasons, any_type=any_type))


@questions.get("/explain", summary="Why a fact is believed")
async def explain(request: Request, head: Entity, relation: Relation, tail: Entity, top: Reasons = 5) -> Response:
    """Return the grounded paths and similar facts that speak for a fact, and what speaks against it."""
    service = _service(request)
    return await service.slow(lambda: explain_fact(service.model, head, relation, tail, top).to_json())


@meaning.get("/codes", summary="Codes of all relations")
async def codes(request: Request, top: Reasons = 5) -> Response:
    """Return how sparse the codes are, what each dimension stands for, and the code of every directed relation."""
    service = _service(request)
    return await service.once(("codes", top), lambda: service.browser.codes(top))


@meaning.get("/relation", summary="One relation")
async def relation(request: Request, relation: Relation, top: Reasons = 8) -> Response:
    """Return a relation's code, its nearest relations, and some of its facts."""
    service = _service(request)
    return await service.slow(lambda: service.browser.relation(relation, top))


@meaning.get("/compositions", summary="Compositions found")
async def compositions(
    request: Request,
    min_pairs: Annotated[int, Query(ge=1, le=10**9, description="Pairs that path and relation must share.")] = MIN_PAIRS,
    min_jaccard: Annotated[float, Query(ge=0.05, le=1, description="Their Jaccard similarity at least.")] = MIN_JACCARD,
    filter: Annotated[Literal["all", "not-same", "not-inverse", "paper"], Query(description="Which trivial ones are left out.")] = "paper",
    relation: Relation | None = None,
    propose: Annotated[int, Query(ge=0, le=MOST_REASONS, description="How many more to show that the model proposes; takes long.")] = 0,
) -> Response:
    """Return the compositions r1/r2 = r3 that the training facts support, with the place that the model's matrices give r3; all, or a relation's."""
    service = _service(request)
    asked = (min_pairs, min_jaccard, filter, relation, propose)
    return await service.once(("compositions", *asked), lambda: service.browser.compositions(*asked))


@meaning.get("/composition", summary="Groundings of one composition")
async def composition(request: Request, path: Path, relation: Relation, top: Top = 10) -> Response:
    """Return pairs that a path r1/r2 joins: examples that the relation joins too, and counter-examples."""
    service = _service(request)
    return await service.slow(lambda: service.browser.composition(path, relation, top))


@meaning.get("/map", summary="Relations or entities in the plane")
async def plane(request: Request, kind: Literal["relations", "entities"] = "relations") -> Response:
    """Return points that are near each other where the model holds them alike (UMAP)."""
    service = _service(request)
    return await service.map(kind)
