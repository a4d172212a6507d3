"""Questions put as data: one record each, read from arguments or from lines of a file, answered by a model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from relcode.errors import DataError, RelcodeError, SettingError
from relcode.explore.model import Model
from relcode.explore.names import in_prefixes
from relcode.explore.records import Answer, Answers, RelationAnswer
from relcode.formats.reading import ReadOptions, Tally
from relcode.formats.sources import Source, form_of, read_source
from relcode.graph.facts import facts_from_blocks, names_of, read_facts
from relcode.graph.headers import roles_in
from relcode.graph.lines import Block, read_blocks, split_blocks

STANDARD_INPUT = "-"

NamedFact = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Question:
    """What is given of a fact or path; what is missing is asked for."""

    head: str | None = None
    relation: str | None = None
    tail: str | None = None
    path: str | None = None

    def __post_init__(self) -> None:
        """Refuse what is no question, saying which are."""
        given = tuple(name for name in ("head", "relation", "tail", "path") if getattr(self, name) is not None)
        if given not in (("head", "relation"), ("relation", "tail"), ("head", "tail"), ("head", "path")):
            what = f"only a {given[0]}" if len(given) == 1 else " and ".join(given) or "nothing"
            raise SettingError(
                f"given is {what}: a question gives a head and a relation, a tail and a relation, a head and a path, or a head and a tail"
            )


def ask(model: Model, question: Question, top: int = 10, new: bool = False) -> Answers[Answer] | Answers[RelationAnswer]:
    """Answer one question."""
    if question.path is not None and question.head is not None:
        return model.answer_path(question.head, question.path, top, new)
    if question.relation is None:
        return model.predict_relations(str(question.head), str(question.tail), top, new)
    if question.head is not None:
        return model.predict_tails(question.head, question.relation, top, new)
    return model.predict_heads(str(question.tail), question.relation, top, new)


@dataclass(frozen=True, slots=True)
class Wish:
    """A question, how many answers to it are wanted, and whether only new ones."""

    question: Question
    top: int = 10
    new: bool = False


def ask_together(model: Model, wishes: Sequence[Wish]) -> list[Answers[Answer] | Answers[RelationAnswer] | RelcodeError]:
    """Answer several questions at once; in the place of a question that cannot be answered stands the error that asking it alone raises.

    Those of one step share one product of queries and entities, whose vectors are then read once for all of them: that is what a question waits for.
    """
    found: dict[int, Answers[Answer] | Answers[RelationAnswer] | RelcodeError] = {}
    steps: dict[int, tuple[dict[str, str], int, int]] = {}
    for place, wish in enumerate(wishes):
        asked = wish.question
        try:
            if asked.relation is None:
                found[place] = ask(model, asked, wish.top, wish.new)
            else:
                steps[place] = (
                    model.asked("head", asked.head, asked.relation)
                    if asked.head is not None
                    else model.asked("tail", str(asked.tail), asked.relation)
                )
        except RelcodeError as error:
            found[place] = error
    if steps:
        scorer, parts = model.scorer, list(steps.values())
        score_BE = scorer.scores(torch.cat([scorer.path_queries(torch.tensor([head]), (step,)) for _, head, step in parts]))
        for (place, (question, head, step)), score_E in zip(steps.items(), score_BE, strict=True):
            try:
                found[place] = model.answers(question, head, (step,), wishes[place].top, wishes[place].new, score_E)
            except RelcodeError as error:
                found[place] = error
    return [found[place] for place in range(len(wishes))]


def read_questions(model: Model, source: str | Path) -> list[Question]:
    """Read a file of questions ("-": standard input), a line each: head, tab, relation or path. All names are looked up before any is answered."""
    questions = []
    for number, line in _lines(source):
        with _located(source, number):
            try:
                fields = line.decode("utf-8").split("\t")
            except UnicodeDecodeError:
                raise DataError("not UTF-8; save the file as UTF-8") from None
            if len(fields) != 2:
                raise DataError(f"{len(fields)} field(s); expected two: head, tab, relation or path")
            model.names.entity(fields[0])
            steps = model.names.path(fields[1])
            questions.append(Question(head=fields[0], relation=fields[1]) if len(steps) == 1 else Question(head=fields[0], path=fields[1]))
    if not questions:
        raise DataError(f"{_called(source)}: empty; expected a question on each line: head, tab, relation or path")
    return questions


def read_named_facts(model: Model, source: str | Path, say: Callable[[str], None] = lambda line: None) -> list[NamedFact]:
    """Read a file of facts ("-": standard input) whose names the model knows; the message about one it does not know says which fact it is.

    Tab-separated text is read as it is; every other form that ``relcode import`` reads (CSV, Parquet, Arrow, RDF) as it does there. ``say`` hears
    what was guessed or left out.
    """
    form, unit, first = None if str(source) == STANDARD_INPUT else _other_form(Path(source)), "line", 1
    if form is not None:
        facts, unit = _facts_in(model, Path(source), form, say), "fact"
    elif str(source) == STANDARD_INPUT:
        facts = list(names_of(facts_from_blocks(split_blocks(sys.stdin.buffer, _called(source)), _called(source))))
    else:
        facts = list(names_of(read_facts(Path(source))))
    roles = roles_in(facts[0]) if form is None and facts else {}
    if len(facts) > 1 and roles and facts[0][1] not in model.dataset.relations:
        say(f"the first line names the columns ({', '.join(facts[0])}) and is left out")
        facts, first = [(row[roles["head"]], row[roles["relation"]], row[roles["tail"]]) for row in facts[1:]], 2
    for number, (head, relation, tail) in enumerate(facts, start=first):
        with _located(source, number, unit):
            model.names.entity(head)
            model.names.relation(relation)
            model.names.entity(tail)
    return facts


def _other_form(path: Path) -> str | None:
    """Return the form of a file that is no tab-separated text; None for one that is, or that nobody can tell or open (reading it says why)."""
    try:
        form = form_of(path, ReadOptions())
    except DataError:
        return None
    return None if form == "tsv" else form


def _facts_in(model: Model, path: Path, form: str, say: Callable[[str], None]) -> list[NamedFact]:
    """Read the facts of a file of some form, in the names of the model: IRIs shortened as its data's were."""
    data, tally = model.dataset, Tally(str(path), form)
    rows = [row for batch in read_source(Source(path, form), tally, ReadOptions()) for row in batch.rows()]
    for line in (*tally.notes, *(f"skipped {entry.count:,}: {reason}" for reason, entry in tally.skipped.items())):
        say(line)
    if not rows:
        raise DataError(f"{path}: no facts")
    if not data.prefixes:
        return rows
    vocabs = (data.entities, data.relations, data.entities)
    columns = ([in_prefixes(iri, data.prefixes, known) for iri in column] for column, known in zip(zip(*rows, strict=True), vocabs, strict=True))
    return list(zip(*columns, strict=True))


def _lines(source: str | Path) -> Iterator[tuple[int, bytes]]:
    """Go through the numbered lines of a file or of standard input."""
    blocks: Iterable[Block] = split_blocks(sys.stdin.buffer, _called(source)) if str(source) == STANDARD_INPUT else read_blocks(Path(source))
    for block in blocks:
        yield from block.lines()


@contextmanager
def _located(source: str | Path, number: int, unit: str = "line") -> Iterator[None]:
    """Put the file and the number of the line (or fact) before the message of whatever goes wrong."""
    try:
        yield
    except RelcodeError as error:
        error.args = (f"{_called(source)}, {unit} {number}: {error}",)
        raise


def _called(source: str | Path) -> str:
    return "standard input" if str(source) == STANDARD_INPUT else str(source)
