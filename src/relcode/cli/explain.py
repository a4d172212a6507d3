"""``relcode explain``: why a run believes a fact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from relcode.cli.ask import DeviceOption, JsonOption, RunArgument
from relcode.cli.show import heading, notice, print_json, print_table, say

if TYPE_CHECKING:
    from relcode.explore.reason_records import Arm, Explanation, Path, Verification


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(explain)


def explain(
    run: RunArgument,
    head: Annotated[str, typer.Option(help="The head: an entity's name, or a label that only one has.")],
    relation: Annotated[str, typer.Option(help="The relation; ^R for its inverse.")],
    tail: Annotated[str, typer.Option(help="The tail.")],
    top: Annotated[int, typer.Option(help="How many reasons of each kind.")] = 5,
    verify: Annotated[bool, typer.Option("--verify", help="Remove the facts that carry it, fit both entities again, and compare.")] = False,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Show what supports a fact and what speaks against it.

    Facts of the two entities that carry it, paths of known facts from head to tail, similar facts, similar relations. The fact itself is never
    counted among its reasons.
    """
    from relcode.explore.model import Model
    from relcode.explore.reasons import explain as explain_fact

    explanation = explain_fact(Model.open(run, device), head, relation, tail, top, verify)
    if json:
        print_json(explanation.to_json())
        return
    print_explanation(explanation)
    if explanation.verification is not None:
        print_verification(explanation.verification)
    elif verify:
        notice("nothing to verify: no fact of the head or the tail carries it")


def print_explanation(found: Explanation) -> None:
    """Print an explanation, part by part; empty parts are left out."""
    if found.note:
        notice(found.note)
    say(f"{found.head}  {found.relation}  {found.tail}{'  (known)' if found.known else ''}")
    probable = "" if found.probability is None else f"probability {found.probability:.3f}, "
    places = f"rank {found.rank:g} as tail, {found.head_rank:g} as head"
    say(f"{probable}score {found.score:.3f}, {found.above_mean:+.3f} against the mean candidate; {places}")
    if found.facts:
        heading("What carries it: facts of the two (fall: of the answer's log-odds without it, estimated)")
        print_table(("fall", "fact"), [(one.fall, f"{one.head} {one.relation} {one.tail}") for one in found.facts], right=("fall",))
    if found.paths:
        heading("Paths for it (cosine with the relation's matrix; adds: part of the score, parts overlap; carries: fall without its facts)")
        rows = [row for one in found.paths for row in _path_rows(one)]
        print_table(("path", "cosine", "adds", "carries", "found", "facts"), rows, right=("cosine", "adds", "carries", "found"))
    if found.similar:
        heading("Similar facts, by vectors")
        alike = [(one.head, one.relation, one.tail, one.head_cosine, one.tail_cosine) for one in found.similar]
        print_table(("head", "relation", "tail", "head cosine", "tail cosine"), alike, right=("head cosine", "tail cosine"))
    if found.codes:
        heading(f"Relations of {found.head} with similar codes")
        lines = [(one.relation, one.code_cosine, one.matrix_cosine, ", ".join(one.answers)) for one in found.codes]
        print_table(("relation", "codes", "matrices", "leads to"), lines, right=("codes", "matrices"))
    heading("Against it")
    say(*(found.against or ("nothing found",)))
    if found.rivals:
        print_table(("scores above it", "score", "known"), [(one.entity, one.score, one.known) for one in found.rivals], right=("score",))


def print_verification(found: Verification) -> None:
    """Print the arms of the necessity test."""
    heading("Is it needed? Both entities fitted again without the facts that carry it, the rest frozen")
    rows = [(arm.arm, f"{arm.removed:g} of {found.available}", arm.score, arm.rank, arm.likelihood) for arm in _arms(found)]
    print_table(("removed", "facts", "score", "rank", "likelihood"), rows, right=("facts", "score", "rank", "likelihood"))
    if found.emptied:
        say(f"(every fact of {' and of '.join(found.emptied)} carries it, so a random choice takes the same ones; a smaller --top leaves some)")


def _arms(found: Verification) -> tuple[Arm, ...]:
    """Return the arms to show."""
    return found.nothing, found.explanation, found.random


def _path_rows(path: Path) -> Iterator[tuple[object, ...]]:
    """Go through the rows of a path, one for each grounding shown; its figures stand on the first."""
    for number, facts in enumerate(path.facts):
        figures = ("",) * 5 if number else (path.path, path.cosine, path.adds, "" if path.carries is None else path.carries, path.groundings)
        yield (*figures, ", ".join(" ".join(fact) for fact in facts))
