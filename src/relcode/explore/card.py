"""A model card: what a run is, how good it was measured to be, and what it is not good for; Markdown with a YAML head, as model hubs read it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from relcode.analysis.codes import sparsity
from relcode.errors import DataError
from relcode.evaluation.baseline import most_frequent_answers
from relcode.evaluation.report import Report, evaluate
from relcode.explore.memory import parse_memory
from relcode.explore.model import Model
from relcode.graph.known_datasets import KNOWN
from relcode.graph.split_names import SPLITS
from relcode.recipes import RECIPES, recipe
from relcode.training.fit import fit_settings

WORLD = "GeoNames: CC BY 4.0; airportsdata: MIT; Unicode CLDR: Unicode License V3; tz database: public domain"
UNREAD = {"nce": ("softmax",), "softmax": ("sampling",)}  # settings that training by an objective has no use for
SIZES = ("model.dim", "model.block")  # a choice from the data that other choices follow
UNSTATED = "not stated by its maker (`relcode card --licence` states it)"
FEWEST = 10  # facts of a relation from which on its metrics are worth naming
WEAKEST = 5
PAPER = "Interpretable and Compositional Relation Learning by Joint Training with an Autoencoder (Takahashi, Tian and Inui, ACL 2018)"


def card(model: Model, name: str | None = None, licence: str | None = None, split: str = "test", memory: int | str | None = None) -> str:
    """Return the card of a model; its metrics are measured here and now on ``split``."""
    title = name or model.folder.resolve().name
    if not len(model.dataset.split(split)):
        raise DataError(f"{model.dataset.name} has no facts in its {split} split to measure with: choose another with --split")
    report = model.evaluate(split, "realistic", memory)
    baseline = evaluate(most_frequent_answers(model.dataset), model.dataset, split, "realistic", parse_memory(memory), model.known)
    parts = (
        _head(model, title, licence, report),
        f"# {_plain(title)}\n\n{_summary(model)}",
        _data(model),
        _recipe(model),
        _metrics(model, report, baseline, split),
        _codes(model),
        _use(model, title),
        _limits(model, report),
        f"## Licence\n\nModel: {_plain(licence) if licence else UNSTATED}. Facts: {_plain(data_licence(model))}.",
    )
    return "\n\n".join(part for part in parts if part) + "\n"


def data_licence(model: Model) -> str:
    """Return what is known about the licence of the facts: of the bundled ones and of benchmarks, recognised by name and counts."""
    data = model.dataset
    if data.source == "bundled with relcode":
        return WORLD
    known = KNOWN.get(data.name)
    counts = tuple(len(data.split(split)) for split in SPLITS)
    if known and counts == (known.train.facts, known.valid.facts, known.test.facts) and data.num_entities == known.entities:
        return known.licence
    return "unknown; ask whoever made them"


def _head(model: Model, title: str, licence: str | None, report: Report) -> str:
    """Return the YAML head. Texts are written as JSON strings, which YAML reads as they are."""
    dataset = [f"      type: {_text(model.dataset.name)}", f"      name: {_text(model.dataset.name)}", f"      split: {_text(report.split)}"]
    values = {"mrr": report.both.mrr, "mr": report.both.mr, **{f"hits@{most}": share for most, share in report.both.hits.items()}}
    metrics = [line for kind, value in values.items() for line in (f"    - type: {_text(kind)}", f"      value: {round(value, 4)}")]
    lines = [
        "---",
        "library_name: relcode",
        *_licence_lines(model, licence),
        "pipeline_tag: graph-ml",
        "tags:",
        *(f"- {tag}" for tag in ("knowledge-graph", "knowledge-base-completion", "link-prediction", "interpretability")),
        "datasets:",
        f"- {_text(model.dataset.name)}",
        "model-index:",
        f"- name: {_text(title)}",
        "  results:",
        "  - task:",
        "      type: graph-ml",
        "      name: link prediction",
        "    dataset:",
        *dataset,
        "    metrics:",
        *metrics,
        "---",
    ]
    return "\n".join(lines)


def _licence_lines(model: Model, licence: str | None) -> list[str]:
    """Return the head's lines on the licence: the model's where its maker stated one, else that of the facts, in the form hubs have for that."""
    if licence:
        return [f"license: {_text(licence)}"]
    return ["license: other", 'license_name: "not stated by its maker"', f"license_details: {_text(f'facts: {data_licence(model)}')}"]


def _summary(model: Model) -> str:
    data, sizes = model.dataset, model.settings.model
    blocks = f" of {sizes.size // sizes.width} blocks of {sizes.width}×{sizes.width} along its diagonal" if sizes.block else ""
    coded = f", and each relation has a code of {sizes.code_dim} numbers" if sizes.autoencoder else ""
    return (
        f"Completes the knowledge base {_code(data.name)}: it ranks answers to (head, relation, ?) and (?, relation, tail) "
        f"among {data.num_entities:,} entities. "
        f"A relation is a {sizes.dim}×{sizes.dim} matrix{blocks}; r1, then r2, is the product of two{coded}. Made with relcode, after *{PAPER}*."
    )


def _data(model: Model) -> str:
    data = model.dataset
    rows = [(split, f"{len(data.split(split)):,}") for split in SPLITS]
    unseen = int((~data.seen_E).sum())
    text = f"{data.num_entities:,} entities ({unseen:,} never in train), {data.num_relations:,} relations, {len(data.labels):,} labels."
    return f"## Data\n\n{text}\n\n{_table(('split', 'facts'), rows)}\n\nFingerprint of names and facts: {_code(data.fingerprint)}."


def _recipe(model: Model) -> str:
    status, where = model.run.status, model.run.about["environment"]
    changed = _changed(model)
    texts = [f"Recipe {_code(model.settings.recipe)}, seed {model.settings.training.seed}"]
    texts.append(f"{status.epoch:.1f} epochs ({status.step:,} steps) in {status.seconds:,.0f} s of training")
    texts.append(f"The run is {status.state}: {_plain(status.reason)}")
    texts.append(", ".join(f"{key} {_plain(str(where[key]))}" for key in ("relcode", "torch", "device", "cpu", "threads", "commit") if key in where))
    table = f"\n\nSettings that differ from the recipe's own:\n\n{_table(('setting', 'value'), changed)}" if changed else ""
    return f"## Training\n\n{'. '.join(texts)}.{table}"


def _changed(model: Model) -> list[tuple[str, str]]:
    """Return the settings that are not those of the recipe's name, where there is such a recipe.

    What the recipe leaves open is compared with what would be chosen for the data; what the objective never reads is left out.
    """
    name, mine = model.settings.recipe, _flat(json.loads(model.settings.to_json()))
    if name not in RECIPES:
        return []
    own = _flat(json.loads(recipe(name).to_json()))
    given = {key: value for key, value in mine.items() if own.get(key, value) not in (value, None)}
    device = "cpu" if model.run.about["environment"].get("device", "cpu") == "cpu" else "cuda"

    def chosen(values: dict[str, Any]) -> dict[str, Any]:
        settings = recipe(name).with_values({**values, "training.device": device})
        return own | _flat(json.loads(fit_settings(settings, model.dataset).to_json())) | {key: own[key] for key in (*given, "training.device")}

    usual = chosen({**given, **{key: mine[key] for key in SIZES}})  # other choices follow from the sizes, and the block from d
    usual |= {"model.dim": chosen(given)["model.dim"], "model.block": chosen({**given, "model.dim": mine["model.dim"]})["model.block"]}
    unread = UNREAD[model.settings.model.objective]
    return [(_code(key), _code(str(value))) for key, value in mine.items() if usual[key] != value and key.partition(".")[0] not in unread]


def _flat(tree: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{section}.{key}": value for section, values in tree.items() if isinstance(values, dict) for key, value in values.items()}


def _metrics(model: Model, report: Report, baseline: Report, split: str) -> str:
    rows = [
        ("this model, both questions", report.both),
        ("… heads", report.head),
        ("… tails", report.tail),
        ("most frequent answer", baseline.both),
    ]
    table = _table(
        ("", "MRR", "MR", "Hits@1", "Hits@3", "Hits@10", "queries"),
        [(name, f"{m.mrr:.3f}", f"{m.mr:,.1f}", *(f"{m.hits[most]:.3f}" for most in (1, 3, 10)), f"{m.n:,}") for name, m in rows],
    )
    rule = "Filtered ranks over all entities, both directions; ties count half; entities never in train have the zero vector (protocol `realistic`)."
    unseen = f" {report.both.unseen:,} of the facts hold such an entity." if report.both.unseen else ""
    return f"## How good it is\n\nMeasured on the {split} split. {rule}{unseen}\n\n{table}"


def _codes(model: Model) -> str:
    if not model.has_codes:
        return ""
    found = sparsity(model.codes())
    return (
        f"## Codes\n\nThe two largest entries of a relation's code hold {100 * found.two_largest:.0f} % of it, "
        f"{found.over_tenth:.1f} entries exceed 10 %; {found.dimensions_used} dimensions are the largest of some relation, "
        f"{found.zero_codes} codes are zero."
    )


def _use(model: Model, title: str) -> str:
    data = model.dataset
    head, relation = (data.train[0, 0], data.train[0, 1]) if len(data.train) else (0, 0)
    asked = f"model.predict_tails({_text(data.entities[int(head)])}, {_text(model.names.path_text((int(relation),)))}, top=10)"
    folder = re.sub(r"[^\w./-]+", "-", title) or "run"
    return (
        "## How to use it\n\n"
        f'```python\nimport relcode\n\nmodel = relcode.load("{folder}")  # the folder with run.json\n{asked}\nmodel.evaluate("test")\n```\n\n'
        f"```sh\nrelcode evaluate {folder}\nrelcode export {folder} --format safetensors --out vectors.safetensors\n```"
    )


def _limits(model: Model, report: Report) -> str:
    calibrated = getattr(model, "calibration", None) is not None
    lines = [
        "Answers are guesses from the facts above, with their gaps, errors and biases; a high rank is no proof. Check before anyone relies on one.",
        "Scores can be compared between answers to one question. "
        + ("Probabilities are calibrated on the valid split." if calibrated else "They are not probabilities."),
        "It knows the entities and relations it was trained on, and no others; nothing in it has a date.",
    ]
    weak = sorted(((part.both.mrr, name, part.both.n // 2) for name, part in report.per_relation().items() if part.both.n >= 2 * FEWEST))[:WEAKEST]
    text = "## Limits\n\n" + "\n".join(f"- {line}" for line in lines)
    if not weak:
        return text
    rows = [(_code(name), f"{mrr:.3f}", f"{count:,}") for mrr, name, count in weak]
    table = _table(("relation", "MRR", "facts"), rows)
    return f"{text}\n\nIt is weakest at these relations (of those with {FEWEST} facts or more to measure with):\n\n{table}"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _text(value: str) -> str:
    """Return a text as a JSON string, which YAML and Python read as the same text."""
    return json.dumps(value)


def _plain(value: str) -> str:
    """Return a text that is only text in Markdown: names come from anybody's data."""
    return re.sub(r"([\\`*_{}\[\]<>#|!~])", r"\\\1", " ".join(value.split()))[:500]


def _code(value: str) -> str:
    """Return a name as code, in which only the mark that ends it needs care; a bar would end a cell of a table."""
    plain = " ".join(value.split())[:200].replace("|", "\\|")
    mark = "``" if "`" in plain else "`"
    return f"{mark}{' ' if mark == '``' else ''}{plain.replace('``', '` `')}{' ' if mark == '``' else ''}{mark}"
