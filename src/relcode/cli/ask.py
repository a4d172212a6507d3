"""``relcode evaluate``, ``relcode predict`` and ``relcode score``: what a run is worth, and what it says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from relcode.cli.show import heading, notice, print_json, print_table, print_tsv, say
from relcode.errors import SettingError, counted

if TYPE_CHECKING:
    from relcode.evaluation.metrics import Metrics
    from relcode.evaluation.report import Report
    from relcode.explore.model import Model
    from relcode.explore.path_answers import PathAnswers
    from relcode.explore.records import Answers

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")]
MemoryOption = Annotated[str | None, typer.Option(help="Bound on the memory that ranking takes, such as 2GB.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (evaluate, predict, score):
        app.command()(command)


def evaluate(
    run: RunArgument,
    split: Annotated[str, typer.Option(help="train, valid or test.")] = "test",
    protocol: Annotated[str, typer.Option(help="realistic or paper.")] = "realistic",
    memory: MemoryOption = None,
    relations: Annotated[bool, typer.Option("--relations", help="Show each relation too.")] = False,
    paths: Annotated[bool, typer.Option("--paths", help="Ask paths of two and three steps instead, whose answers need a fact of the split.")] = False,
    questions: Annotated[int, typer.Option(help="How many path questions of each length.")] = 1000,
    beam: Annotated[int, typer.Option(help="How many entities the beam keeps at each step of a path.")] = 32,
    seed: Annotated[int, typer.Option(help="Seed of the path questions.")] = 0,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Measure a run on a split by filtered ranks."""
    from relcode.explore.model import Model

    model = Model.open(run, device)
    if paths:
        if relations or protocol != "realistic":
            raise SettingError("--paths has one protocol and no rows by relation: leave out --protocol and --relations")
        _evaluate_paths(model, split, questions, seed, beam, json)
        return
    report = model.evaluate(split, protocol, memory)
    if json:
        print_json(report.to_json(relations))
        return
    facts = len(model.dataset.split(split))
    say(f"{model.dataset.name} {split}, protocol {report.protocol.name}: {counted(facts, 'fact')}, each asked for its head and its tail")
    print_report(report, relations)


def _evaluate_paths(model: Model, split: str, count: int, seed: int, beam: int, json: bool) -> None:
    """Measure path questions and print a row for each length and way."""
    from relcode.evaluation.path_questions import evaluate_paths

    report = evaluate_paths(model.scorer, model.dataset, split, count, seed, beam)
    if json:
        print_json(report.to_json())
        return
    say(f"{model.dataset.name} {split}: questions along paths whose answer needs a fact of {split}, filtered; seed {seed}, beam {beam}")
    ways = {"composed": "composed matrices", "beam": "through entities (beam)"}
    rows = [(f"{row.length} steps", ways[row.way], row.mrr, *row.hits.values(), row.n) for row in report.rows]
    print_table(("path", "answered by", "MRR", "H@1", "H@3", "H@10", "n"), rows, right=("MRR", "H@1", "H@3", "H@10", "n"))


def print_report(report: Report, relations: bool = False) -> None:
    """Print the rows of a report."""
    rows = {"both": report.both, "head": report.head, "tail": report.tail}
    if report.both.unseen:
        rows["seen only"] = report.seen_only
        holds = "holds" if report.both.unseen == 1 else "hold"
        notice(f"{counted(report.both.unseen, 'fact')} {holds} an entity never trained; the last row leaves these out")
    print_metrics("queries", rows)
    ties = report.both.ties
    if ties.mrr_optimistic - ties.mrr_pessimistic > 5e-4:
        mrr = f"MRR between {ties.mrr_pessimistic:.3f} and {ties.mrr_optimistic:.3f}"
        say(f"ties: {mrr}, MR between {ties.mr_optimistic:,.1f} and {ties.mr_pessimistic:,.1f}")
    if relations:
        heading("by relation")
        print_metrics("relation", {name: directions.both for name, directions in report.per_relation().items()})


def print_metrics(what: str, rows: dict[str, Metrics]) -> None:
    """Print a row of metrics for each name."""
    columns = ("MRR", "MR", "H@1", "H@3", "H@10", "AMRI", "n")
    lines = [(name, m.mrr, f"{m.mr:,.1f}", m.hits[1], m.hits[3], m.hits[10], m.amri, m.n) for name, m in rows.items()]
    print_table((what, *columns), lines, right=columns)


def predict(
    run: RunArgument,
    head: Annotated[str | None, typer.Option(help="The head: an entity's name, or a label that only one has.")] = None,
    relation: Annotated[str | None, typer.Option(help="The relation; ^R for its inverse.")] = None,
    tail: Annotated[str | None, typer.Option(help="The tail, where heads are asked for; with --head, relations are.")] = None,
    path: Annotated[str | None, typer.Option(help="A path in place of a relation: r1/^r2/r3, <a/b> for a name with a slash.")] = None,
    queries: Annotated[
        str | None, typer.Option(metavar="FILE", help="Many questions, a line each: head, tab, relation or path (-: standard input).")
    ] = None,
    top: Annotated[int, typer.Option(help="How many answers.")] = 10,
    new: Annotated[bool, typer.Option("--new", help="Leave out the answers that the facts give already.")] = False,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Answer questions: tails, heads, relations or paths.

    Give --head and --relation for tails, --tail and --relation for heads, --head and --path for a path's ends, --head and --tail for relations.
    """
    from relcode.explore.model import Model
    from relcode.explore.questions import Question, ask, read_questions

    if queries is not None:
        if any(part is not None for part in (head, relation, tail, path)):
            raise SettingError("--queries brings its own heads and relations: leave out --head, --relation, --tail and --path")
        model = Model.open(run, device)
        for number, question in enumerate(read_questions(model, queries)):
            _print_many(ask(model, question, top, new), json, first=number == 0)
        return
    question = Question(head=head, relation=relation, tail=tail, path=path)
    model = Model.open(run, device)
    answers = ask(model, question, top, new)
    if json:
        print_json(answers.to_json())
        return
    print_answers(answers)
    if path is None and len(answers):
        say_calibration(model)


def _print_many(answers: Answers[Any], json: bool, first: bool) -> None:
    """Print the answers to one of many questions: a line of JSON, or rows of tab-separated text under one header."""
    if json:
        print_json(answers.to_json())
        return
    if answers.note:
        notice(answers.note)
    if first:
        print_tsv([("head", "path", "rank", "entity", "label", "score", "known", "probability")])
    asked = (answers.question["head"], answers.question.get("relation") or answers.question["path"])
    print_tsv(
        (*asked, str(one.rank), one.entity, one.label, f"{one.score:.6g}", "known" if one.known else "", probability_text(one.probability))
        for one in answers
    )


def print_answers(answers: Answers[Any]) -> None:
    """Print answers as a table; known ones are marked."""
    from relcode.explore.path_answers import PathAnswers

    if answers.note:
        notice(answers.note)
    question = answers.question
    say(f"{question.get('head', '?')}  {question.get('relation') or question.get('path') or '?'}  {question.get('tail', '?')}")
    if not len(answers):
        say("no answers")
        return
    is_path = isinstance(answers, PathAnswers) and len(answers.beam) > 0
    if is_path:
        say("by composed matrices")
    names = ["rank", "entity", "label", "relation", "score", "probability", "known"]
    names = [name for name in names if name in answers.table().column_names and _tells(name, answers)]
    rows = [["known" if name == "known" and one.known else "" if name == "known" else getattr(one, name) for name in names] for one in answers]
    print_table(names, rows, right=("rank", "score", "probability"), styles=["dim" if one.known else None for one in answers])
    if isinstance(answers, PathAnswers) and is_path:
        print_beam(answers)


def _tells(name: str, answers: Answers[Any]) -> bool:
    """Say whether a column holds something: labels that are not the names, probabilities that there are."""
    if name == "label":
        return any(one.label != one.entity for one in answers)
    return name != "probability" or any(one.probability is not None for one in answers)


def print_beam(answers: PathAnswers) -> None:
    """Print where the best entities on the way lead, with those on the likeliest walk; a step that no fact states is marked."""
    heading("through the best entities on the way (chance of all walks that end there; ?: a step that no fact states)")
    labelled = any(one.label != one.entity for one in answers.beam)
    rows = []
    for one in answers.beam:
        stops = [*one.through, one.entity]
        walk = " ".join(f"{'→' if stated else '→?'} {stop}" for stated, stop in zip(one.stated, stops, strict=True))
        rows.append((one.rank, one.entity, *([one.label] if labelled else []), one.chance, walk, "known" if one.known else ""))
    columns = ("rank", "entity", *(["label"] if labelled else []), "chance", "likeliest walk", "known")
    print_table(columns, rows, right=("rank", "chance"), styles=["dim" if one.known else None for one in answers.beam])


def say_calibration(model: Model) -> None:
    """Say what probabilities are calibrated against, or how to get them."""
    from relcode.explore.probability import how_to_calibrate

    if model.calibration is None:
        notice(how_to_calibrate(model.folder))
    else:
        say(f"({model.calibration.against})")


def probability_text(probability: float | None) -> str:
    """Write a probability for tab-separated text; nothing where there is none."""
    return "" if probability is None else f"{probability:.6g}"


def score(
    run: RunArgument,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Facts, a line each: head, tab, relation, tab, tail (-: standard input); or CSV, Parquet, RDF, …")
    ],
    memory: MemoryOption = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Score and rank each fact of a file.

    Prints tab-separated text, or with --json a line of JSON for each fact: scores and filtered ranks of the tail and of the head.
    """
    from relcode.explore.model import Model
    from relcode.explore.questions import read_named_facts

    model = Model.open(run, device)
    scores = model.score_facts(read_named_facts(model, file, notice), memory)
    if json:
        for one in scores:
            print_json(one.to_json())
        return
    for note in dict.fromkeys(one.note for one in scores if one.note):
        notice(note)
    print_tsv([("head", "relation", "tail", "score", "rank", "head_score", "head_rank", "known", "probability")])
    print_tsv(
        (
            one.head,
            one.relation,
            one.tail,
            f"{one.score:.6g}",
            f"{one.rank:g}",
            f"{one.head_score:.6g}",
            f"{one.head_rank:g}",
            "known" if one.known else "",
            probability_text(one.probability),
        )
        for one in scores
    )
