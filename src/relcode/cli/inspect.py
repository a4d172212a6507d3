"""``relcode codes``, ``relcode constraints`` and ``relcode map``: what the relations of a run, and the facts, look like."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relcode.cli.ask import JsonOption, RunArgument
from relcode.cli.show import console, heading, notice, print_json, print_table, say
from relcode.errors import SettingError

if TYPE_CHECKING:
    from relcode.analysis.codes import RelationCodes
    from relcode.analysis.matching import CodeMatch
    from relcode.explore.compositions import NamedComposition
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

    Prints the heatmap, how sparse the codes are, and what each dimension stands for.
    """
    from relcode.analysis.codes import describe_dimensions, sparsity
    from relcode.explore.asking import check_top
    from relcode.explore.model import Model

    check_top(top)
    model = Model.open(run, "cpu")
    found = model.codes()
    match = match_runs(found, against) if against is not None else None
    save_pictures(found, model, png, html)
    dimensions = describe_dimensions(found, top)
    if json:
        described = {"dimensions": [asdict(one) for one in dimensions], "relations": found.table().to_pylist()}
        print_json({"sparsity": _finite(asdict(sparsity(found))), **described, **({"against": asdict(match)} if match else {})})
        return
    print_codes(found)
    heading("What each dimension stands for (words shared: strongest relations)")
    say(*(str(one) for one in dimensions))
    if match is not None:
        _print_match(match, run, Path(str(against)))


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
    where: Annotated[str, typer.Argument(metavar="DATASET_OR_RUN", help="A dataset (its name, folder or file), or a run's folder.")],
    min_pairs: Annotated[int, typer.Option(help="Pairs that path and relation must share.")] = 50,
    min_jaccard: Annotated[float, typer.Option(help="Their Jaccard similarity at least.")] = 0.4,
    filter_name: Annotated[str, typer.Option("--filter", help="all, not-same, not-inverse or paper.")] = "paper",
    rules: Annotated[str | None, typer.Option(help="Write rules in the form of amie or anyburl.")] = None,
    json: JsonOption = False,
) -> None:
    """List compositions r1/r2 = r3 that the facts support.

    For a run, each comes with the place that its matrices give r3: by cosine with M1·M2 among all directed relations.
    """
    from relcode.explore.compositions import constraints as find

    if rules is not None and json:
        raise SettingError("--rules and --json are two forms of output: choose one")
    found = find(where, min_pairs, min_jaccard, filter_name)
    if rules is not None:
        for line in found.rule_lines(rules):
            print(line)
        return
    named = found.named()
    if json:
        print_json(
            {"dataset": found.dataset.name, "filter": filter_name, "min_pairs": min_pairs, "min_jaccard": min_jaccard}
            | {"compositions": [one.to_json() for one in named]}
        )
        return
    say(f"{len(named)} compositions in the training facts of {found.dataset.name} (filter {filter_name}, {min_pairs} pairs, Jaccard {min_jaccard:g})")
    columns = ("shared", "jaccard", "confidence") + (("rank", "cosine") if found.model is not None else ())
    rows = [[_cell(one, name) for name in ("path", "relation", *columns)] for one in named]
    print_table(("path", "relation", *columns), rows, right=columns)
    ranks = [one.rank for one in named if one.rank is not None]
    if ranks:
        mean, reciprocal = sum(ranks) / len(ranks), sum(1 / rank for rank in ranks) / len(ranks)
        say(f"mean rank of the relation {mean:.1f} among {found.dataset.num_directed}, mean of 1/rank {reciprocal:.3f}")


def _cell(one: NamedComposition, name: str) -> object:
    """Return what a column shows of a composition; a rank without needless digits."""
    value: object = getattr(one, name)
    return f"{value:g}" if name == "rank" else value


def draw_map(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs, drawn side by side.")],
    png: PngOption = None,
    html: HtmlOption = None,
    entities: Annotated[bool, typer.Option("--entities", help="Map the entities, not the relations.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the layout.")] = 0,
) -> None:
    """Draw relations (or entities) as points on a map.

    Points are near each other where the model holds them alike.
    """
    from relcode.analysis.maps import entity_map, relation_map
    from relcode.explore.model import Model

    if png is None and html is None:
        raise SettingError("say where to draw the map: --png FILE, --html FILE or both")
    place = entity_map if entities else relation_map
    models = [Model.open(run, "cpu") for run in runs]
    maps = [place(model.scorer, model.dataset, title=f"{model.dataset.name}, {model.settings.recipe}", seed=seed) for model in models]
    if png is not None:
        from relcode.plots.map import save_maps

        save_maps(maps, png)
        say(str(png))
    if html is not None:
        from relcode.plots.page import maps_page, save_page

        save_page(maps_page(maps), html)
        say(str(html))
