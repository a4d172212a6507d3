"""``relcode codes``, ``relcode constraints`` and ``relcode map``: what the relations of a run, and the facts, look like."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relcode.cli.ask import DeviceOption, JsonOption, RunArgument
from relcode.cli.show import console, heading, notice, print_json, print_table, print_tsv, say
from relcode.errors import SettingError

if TYPE_CHECKING:
    from relcode.analysis.codes import RelationCodes
    from relcode.analysis.discovery import GroundedPair
    from relcode.analysis.maps import MapData, PointMap
    from relcode.analysis.matching import CodeMatch
    from relcode.analysis.topics import TopicTest
    from relcode.explore.compositions import Constraints, NamedComposition
    from relcode.explore.model import Model

TERMINAL_ROWS = 60  # relations in a terminal's heatmap; pictures hold more
PIPE_COLUMNS = 100  # width of a heatmap where there is no terminal
PngOption = Annotated[Path | None, typer.Option(help="Draw it into this file (png, svg or pdf).")]
HtmlOption = Annotated[Path | None, typer.Option(help="Write it as an interactive page.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(codes)
    app.command()(constraints)
    app.command("map")(draw_map)


def codes(
    run: RunArgument,
    top: Annotated[int, typer.Option(help="How many relations describe a dimension.")] = 5,
    png: PngOption = None,
    html: HtmlOption = None,
    against: Annotated[Path | None, typer.Option(metavar="RUN2", help="Match the dimensions with those of another run.")] = None,
    json: JsonOption = False,
) -> None:
    """Show the relations' codes and what they mean.

    Prints the heatmap, how sparse the codes are, what each dimension stands for and whether it is one topic, and relations whose codes agree
    while their matrices differ.
    """
    from relcode.analysis.codes import alike_codes, describe_dimensions, dimension_lines, sparsity
    from relcode.explore.asking import check_top
    from relcode.explore.model import Model

    check_top(top)
    check_files(png, html)
    model = Model.open(run, "cpu")
    found = model.codes()
    match = match_runs(found, against) if against is not None else None
    save_pictures(found, model, png, html)
    dimensions, topics = describe_dimensions(found, top), topics_of(found, model)
    alike = alike_codes(found, model.scorer.matrix_SDD, top=top)
    if json:
        described = {"dimensions": [asdict(one) for one in dimensions], "relations": found.table().to_pylist()}
        tested = {"topics": _finite(asdict(topics) | {"significant": topics.significant}), "alike": [asdict(one) for one in alike]}
        print_json({"sparsity": _finite(asdict(sparsity(found))), **described, **tested, **({"against": asdict(match)} if match else {})})
        return
    print_codes(found)
    heading("What each dimension stands for (words shared; film→ leads from films, →film to films: strongest relations)")
    say(*dimension_lines(dimensions))
    heading("Is a dimension one topic? (domain: the first part of a relation's name)")
    if topics.tells:
        columns = ("of", "pairs alike", "by chance", "p")
        rows = [(one.number, f"{one.domain} {one.holders}", one.relations, one.agreement, one.chance, one.p_value) for one in topics.topics]
        print_table(("dimension", "most frequent domain", *columns), rows, right=("dimension", *columns))
    say(f"{topics}.")
    if alike:
        heading("Codes alike, matrices not (cosines)")
        pairs = [(one.left_name, one.right_name, one.code_cosine, one.matrix_cosine) for one in alike]
        print_table(("relation", "and", "codes", "matrices"), pairs, right=("codes", "matrices"))
    if match is not None:
        _print_match(match, run, Path(str(against)))


def check_files(png: Path | None, html: Path | None = None) -> None:
    """Refuse a file of another kind than its option says, before any work is done."""
    from relcode.plots.heatmap import check_picture

    if png is not None:
        check_picture(png)
    if html is not None and html.suffix.lower() not in (".html", ".htm"):
        raise SettingError(f"--html cannot be {html}: it must end in .html")


def topics_of(found: RelationCodes, model: Model) -> TopicTest:
    """Test whether dimensions are topics; chance is drawn with a fixed seed."""
    import torch

    from relcode.analysis.topics import topic_test

    return topic_test(found, model.dataset.relations, torch.Generator().manual_seed(0))


def match_runs(found: RelationCodes, other: Path) -> CodeMatch:
    """Match codes with those of another run; chance is drawn with a fixed seed."""
    import torch

    from relcode.analysis.matching import match_codes
    from relcode.explore.model import Model

    return match_codes(found, Model.open(other, "cpu").codes(), torch.Generator().manual_seed(0))


def save_pictures(found: RelationCodes, model: Model, png: Path | None, html: Path | None) -> None:
    """Write the files asked for and say so."""
    title = f"Relation codes of {model.dataset.name}, {model.settings.recipe}"
    if png is not None:
        from relcode.plots.heatmap import save_codes

        save_codes(found, png, title=title)
        notice(f"wrote {png}")
    if html is not None:
        from relcode.plots.page import codes_page, save_page

        save_page(codes_page(found, title=title), html)
        notice(f"wrote {html}")


def print_codes(found: RelationCodes, most: int = TERMINAL_ROWS) -> None:
    """Print the heatmap and how sparse the codes are."""
    from relcode.analysis.codes import sparsity
    from relcode.plots.heatmap import caption
    from relcode.plots.terminal import CodeHeatmap, heatmap_lines

    screen = console()
    if screen.is_terminal:
        screen.print(CodeHeatmap(found, most))
    else:
        say(*heatmap_lines(found, min(screen.width, PIPE_COLUMNS), most))
    say(f"{caption(sparsity(found))}.")


def _print_match(match: CodeMatch, run: Path, other: Path) -> None:
    """Print how well two runs' codes agree."""
    heading(f"Against {other} ({match.relations} directed relations in both)")
    rows = list(zip(match.dimension_a, match.dimension_b, match.similarity, strict=True))
    print_table((str(run), str(other), "similarity"), rows, right=(str(run), str(other), "similarity"))
    say(f"agreement {match.agreement:.3f}; of shuffled relations {match.chance_mean:.3f} ± {match.chance_std:.3f} (p = {match.p_value:.3g})")
    say(f"cosine of a relation's two codes {match.relation_agreement:.3f}; same largest dimension {match.same_dominant:.0%}")


def _finite(values: dict[str, object]) -> dict[str, object]:
    """Return the values with None for NaN, which JSON does not have."""
    return {name: None if isinstance(value, float) and value != value else value for name, value in values.items()}


def constraints(
    where: Annotated[list[str], typer.Argument(metavar="DATASET_OR_RUN...", help="A dataset, or a run's folder; with --evaluate one run or more.")],
    min_pairs: Annotated[int, typer.Option(help="Pairs that path and relation must share.")] = 50,
    min_jaccard: Annotated[float, typer.Option(help="Their Jaccard similarity at least.")] = 0.4,
    filter_name: Annotated[str, typer.Option("--filter", "--list", help="all, not-same, not-inverse or paper.")] = "paper",
    examples: Annotated[int, typer.Option(help="Show so many pairs for and against each.")] = 0,
    propose: Annotated[int, typer.Option(help="Of a run: show so many that it proposes and the facts do not support.")] = 5,
    nearest: Annotated[int | None, typer.Option(help="Of a run: print for every r1/r2 so many nearest relations (tab-separated).")] = None,
    evaluate: Annotated[bool, typer.Option("--evaluate", help="The paper's evaluation of one run or more: MR and MRR of r3.")] = False,
    rules: Annotated[str | None, typer.Option(help="Write rules in the form of amie or anyburl.")] = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """List compositions r1/r2 = r3 that the facts support.

    For a run, each comes with the place that its matrices give r3 (by cosine with M1·M2 among all directed relations), and with what the model
    proposes beyond the facts.
    """
    from relcode.explore.compositions import constraints as find

    if sum((rules is not None, json, nearest is not None)) > 1:
        raise SettingError("--rules, --json and --nearest are forms of output: choose one")
    if evaluate:
        evaluate_runs(where, filter_name, min_pairs, min_jaccard, device, json)
        return
    if len(where) > 1:
        raise SettingError(f"constraints takes one dataset or run, not {len(where)}; several runs are compared with --evaluate")
    found = find(where[0], min_pairs, min_jaccard, filter_name, device)
    if rules is not None:
        for line in found.rule_lines(rules):
            print(line)
    elif nearest is not None:
        print_tsv([("r1", "r2", "nearest", "place", "cosine")])
        print_tsv((row["r1"], row["r2"], row["nearest"], row["place"], f"{row['cosine']:.4f}") for row in found.nearest(nearest).to_pylist())
    elif json:
        about = {"dataset": found.dataset.name, "filter": filter_name, "min_pairs": min_pairs, "min_jaccard": min_jaccard}
        listed = {"compositions": [one.to_json() for one in found.named(examples)]}
        print_json(about | listed | ({"proposed": [asdict(one) for one in found.proposed(propose)]} if found.model is not None else {}))
    else:
        print_constraints(found, examples, propose)


def print_constraints(found: Constraints, examples: int, propose: int) -> None:
    """Print the compositions that the facts support, and those that a run proposes."""
    named, about = found.named(examples), f"filter {found.filter_name}, {found.min_pairs} pairs, Jaccard {found.min_jaccard:g}"
    say(f"{len(named)} compositions in the training facts of {found.dataset.name} ({about})")
    columns = ("shared", "jaccard", "confidence", "coverage") + (("rank", "cosine") if found.model is not None else ())
    rows = [[_cell(one, name) for name in ("path", "relation", *columns)] for one in named]
    if rows:
        print_table(("path", "relation", *columns), rows, right=columns)
    else:
        wider = "" if found.filter_name == "all" else ", or take --filter all"
        say(f"to find some, lower --min-pairs (here {found.min_pairs}) or --min-jaccard (here {found.min_jaccard:g}){wider}")
    ranks = [one.rank for one in named if one.rank is not None]
    if ranks:
        mean, reciprocal = sum(ranks) / len(ranks), sum(1 / rank for rank in ranks) / len(ranks)
        say(f"mean rank of the relation {mean:.1f} among {found.dataset.num_directed}, mean of 1/rank {reciprocal:.3f}")
    for one in named if examples else ():
        heading(f"{one.path} = {one.relation}")
        say(*(f"  for      {_pair(pair)}" for pair in one.examples), *(f"  against  {_pair(pair)}" for pair in one.counter_examples))
    if found.model is None or not propose:
        return
    notice("looking for what the model proposes: all pairs of relations that some entity joins")
    proposed = found.proposed(propose)
    if not proposed:
        say(f"the model proposes no other whose path joins {found.min_pairs} pairs or more (--min-pairs)")
        return
    heading("Proposed by the model, not supported by the facts (yet): r3 is nearest to M1·M2 in both directions")
    columns = ("cosine", "gain", "pairs", "known")
    rows = [[new.path, new.target, new.cosine, new.gain, new.counts.path_pairs, new.counts.shared] for new in proposed]
    print_table(("path", "relation", *columns), rows, right=columns)
    looked = [(pair.head, new.target, pair.tail, pair.middle) for new in proposed for pair in new.new]
    if looked:
        heading("Facts that would follow, the likeliest of each")
        print_table(("head", "relation", "tail", "by way of"), looked)


def _pair(pair: GroundedPair) -> str:
    """Write a pair with the entity between."""
    return f"{pair.head} – {pair.middle} – {pair.tail}"


def evaluate_runs(where: list[str], filter_name: str, min_pairs: int, min_jaccard: float, device: str, json: bool) -> None:
    """Print the paper's evaluation of several runs."""
    from relcode.explore.compositions import FIGURES, evaluate_constraints
    from relcode.explore.model import Model

    found = evaluate_constraints([Model.open(run, device) for run in where], filter_name, min_pairs, min_jaccard)
    if json:
        print_json(found.to_json())
        return
    about = f"list {filter_name}, {min_pairs} pairs, Jaccard {min_jaccard:g}"
    say(f"{found.compositions} compositions of {found.dataset} ({about}): rank of M3 by cosine with M1·M2 among {found.relations} directed relations")
    rows: list[tuple[object, ...]] = [(run.run, *_figures(run.mr, run.mrr, run.random_mr, run.random_mrr)) for run in found.runs]
    if len(rows) > 1:
        mean, off = found.mean, found.deviation
        rows.append((f"mean of {len(rows)}", *_figures(*(mean[name] for name in FIGURES))))
        rows.append(("± deviation", *_figures(*(off[name] or 0.0 for name in FIGURES))))
    rows.append(("chance", *_figures(found.chance_mr, found.chance_mrr), "", ""))
    columns = ("MR", "MRR", "MR random M2", "MRR random M2")
    print_table(("run", *columns), rows, right=columns)


def _figures(*values: float) -> tuple[str, ...]:
    """Write mean ranks and means of 1/rank in turn, with digits enough for small ones."""
    return tuple(f"{value:.1f}" if place % 2 == 0 else f"{value:.4f}" for place, value in enumerate(values))


def _cell(one: NamedComposition, name: str) -> object:
    """Return what a column shows of a composition; a rank without needless digits."""
    value: object = getattr(one, "head_coverage" if name == "coverage" else name)
    return f"{value:g}" if name == "rank" else value


def draw_map(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs, drawn side by side; or files that --points wrote.")],
    png: PngOption = None,
    html: HtmlOption = None,
    entities: Annotated[bool, typer.Option("--entities", help="Map the entities, not the relations.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the layout.")] = 0,
    points: Annotated[Path | None, typer.Option(help="Only write what one run's map is made of, to be laid out elsewhere (.safetensors).")] = None,
    json: JsonOption = False,
) -> None:
    """Draw relations (or entities) as points on a map.

    Points are near each other where the model holds them alike. How low-dimensional they are is told beside the picture.
    """
    if points is not None:
        save_points(runs, entities, points)
        return
    if png is None and html is None and not json:
        raise SettingError("say where to draw the map: --png FILE, --html FILE or both; --json prints the points")
    check_files(png, html)
    maps = lay_out(runs, entities, seed)
    if png is not None:
        from relcode.plots.map import save_maps

        save_maps(maps, png)
        notice(f"wrote {png}")
    if html is not None:
        from relcode.plots.page import maps_page, save_page

        save_page(maps_page(maps), html)
        notice(f"wrote {html}")
    figures = ("participation_ratio", "most_ratio", "dimensions_90")
    if json:
        names = ("title", "kind", "method", *figures)
        about = [{"run": str(run)} | {name: getattr(one, name) for name in names} for run, one in zip(runs, maps, strict=True)]
        print_json([record | {"points": one.table().to_pylist()} for record, one in zip(about, maps, strict=True)])
        return
    columns = ("points", "participation ratio", "at most", "dimensions with 90 %")
    rows = [(str(run), one.title, len(one.names), *(getattr(one, name) for name in figures)) for run, one in zip(runs, maps, strict=True)]
    print_table(("run", "data, recipe", *columns), rows, right=columns)


def map_data(run: Path, entities: bool) -> MapData:
    """Return what the map of a run is made of, or what a file holds of one."""
    from relcode.analysis.maps import MapData, entity_data, relation_data
    from relcode.explore.model import Model

    if run.is_file():
        return MapData.load(run)
    model = Model.open(run, "cpu")
    return (entity_data if entities else relation_data)(model.scorer, model.dataset, title=f"{model.dataset.name}, {model.settings.recipe}")


def save_points(runs: list[Path], entities: bool, points: Path) -> None:
    """Write what the map of one run is made of."""
    if len(runs) > 1 or points.suffix != ".safetensors":
        raise SettingError("--points takes one run and a file that ends in .safetensors")
    map_data(runs[0], entities).save(points)
    notice(f"wrote {points}; draw it with: relcode map {points} --png FILE")


def lay_out(runs: list[Path], entities: bool, seed: int) -> list[PointMap]:
    """Lay out each run, saying so on standard error: UMAP is slow to load, and slow the first time."""
    maps = []
    for number, run in enumerate(runs, start=1):
        data = map_data(run, entities)
        slow = " (UMAP takes a while to load)" if number == 1 else ""
        notice(f"laying out {len(data.names):,} points of {run}, {number} of {len(runs)}{slow}")
        maps.append(data.lay_out(seed))
    return maps
