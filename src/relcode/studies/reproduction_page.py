"""The page that sets the paper's figures beside ours, rendered from the records alone: whoever has them gets the same page."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from relcode.studies.reproduction_choice import Choice, Figure, Ours, choose, chosen_rows, criteria, our_constraints, ours
from relcode.studies.reproduction_plan import ABLATIONS, CONSTRAINT_DEVIATIONS, MAIN_DATASETS, TABLES, TITLES, Figures, Row
from relcode.studies.reproduction_record import Record, read_files

THREE = " | ".join(f"{name} paper | ours | difference" for name in ("MR", "MRR", "H@10"))
HEAD = (f"| model | {THREE} | reaches the paper | realistic: MR, MRR, H@10 | seeds |", "|---|" + "--:|" * 9 + "---|---|--:|")
INTRODUCTION = """# Reproduction

The figures of *Interpretable and Compositional Relation Learning by Joint Training with an Autoencoder* (ACL 2018) beside ours. This page is
rendered by `relcode reproduce` from the records in [{results}]({link}): edit the [notes](reproduction-notes.md), never this page.

"Paper" and "ours" are under protocol `paper` (optimistic ties, candidates seen in training, unseen entities as the paper's appendix says), with
`realistic` (ties count half, all entities are candidates) beside it. Hits are in per cent; ± is the standard deviation over seeds. A row reaches the
paper where MR ≤ paper × 1.05, MRR ≥ paper − .005 and H@10 ≥ paper − 1.0; what fails is struck through. Where several settings of a row were run, it
shows those with the best MRR on **valid**: the test split has no part in any choice made here. A training that diverged is named and never ranked.
"""


def whole(value: float) -> str:
    """Write a mean rank: no digits after the point from 10 on."""
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.1f}"


def reciprocal(value: float) -> str:
    """Write an MRR as the paper does: .336."""
    return f"{value:.3f}".replace("0.", ".", 1)


def fine(value: float) -> str:
    """Write a small MRR with one digit more."""
    return f"{value:.4f}".replace("0.", ".", 1)


def share(value: float) -> str:
    """Write per cent."""
    return f"{value:.1f}"


Writer = Callable[[float], str]


def cells(paper: float | None, found: Figure | None, write: Writer, told: str) -> list[str]:
    """Return paper, ours and the difference; ``told`` stands for a figure that is missing."""
    if found is None:
        return ["–" if paper is None else write(paper), told, ""]
    written = write(found.mean) + (f" ± {write(found.deviation)}" if found.deviation is not None else "")
    difference = "" if paper is None else ("+" if found.mean >= paper else "−") + write(abs(found.mean - paper))
    return ["–" if paper is None else write(paper), written, difference]


def row_line(row: Row, choice: Choice) -> str:
    """Return the line of a row in the tables of completion."""
    found, beside = ours(choice, row.split, "paper", row.adjusted), ours(choice, row.split, "realistic", row.adjusted)
    told = "diverged" if choice.diverged else "not run"
    parts = [row.label or row.variant, *cells(row.paper.mr, found.mr if found else None, whole, told)]
    parts += cells(row.paper.mrr, found.mrr if found else None, reciprocal, "" if found is None else told)
    parts += cells(row.paper.hits10, found.hits10 if found else None, share, "" if found is None else told)
    parts += [reached(row, found), "" if beside is None else f"{whole(beside.mr.mean)}, {reciprocal(beside.mrr.mean)}, {share(beside.hits10.mean)}"]  # type: ignore[union-attr]
    return "| " + " | ".join([*parts, seeds_told(choice)]) + " |"


def reached(row: Row, found: Ours | None) -> str:
    """Say which criteria hold, those that fail struck through."""
    return "" if found is None else " ".join(name if holds else f"~~{name}~~" for name, holds in criteria(row, found).items())


def seeds_told(choice: Choice) -> str:
    """Say how many seeds stand behind a row, and how many diverged."""
    if not choice.finished and not choice.diverged:
        return ""
    return f"{len(choice.finished)}" + (f", {len(choice.diverged)} diverged" if choice.diverged else "")


def summary(rows: Iterable[tuple[Row, Choice]]) -> str:
    """Say on how many rows each criterion holds."""
    rows = list(rows)
    held = [criteria(row, found) for row, choice in rows if (found := ours(choice, row.split, "paper", row.adjusted)) is not None]
    parts = [
        f"{name} on {sum(each[name] for each in held if name in each)} of {sum(name in each for each in held)}" for name in ("MR", "MRR", "H@10")
    ]
    return f"{len(held)} of {len(rows)} rows are run; the paper is reached by {', '.join(parts)}."


def completion_section(name: str, records: Sequence[Record]) -> list[str]:
    """Return the section of a table of completion figures."""
    table = TABLES[name]
    rows = chosen_rows(table, records)
    lines = [f"## `{name}`: {table.title}", "", f"`relcode reproduce {name}`. {summary(rows)}", ""]
    for dataset in table.datasets:
        if len(table.datasets) > 1:
            lines += [f"### {TITLES.get(dataset, dataset)}", ""]
        lines += [*HEAD, *(row_line(row, choice) for row, choice in rows if row.dataset == dataset), ""]
    return lines


def others_section(records: Sequence[Record]) -> list[str]:
    """Return the rows of datasets that the paper does not have."""
    pairs = sorted({(record["dataset"], record["variant"]) for record in records if record["dataset"] not in MAIN_DATASETS})
    if not pairs:
        return []
    rows = [
        (Row(*pair, Figures(), label=" ".join(pair)), choose(each for each in records if (each["dataset"], each["variant"]) == pair))
        for pair in pairs
    ]
    return ["## Datasets the paper does not have, test", "", *HEAD, *(row_line(row, choice) for row, choice in rows), ""]


def constraints_section(records: Sequence[Record]) -> list[str]:
    """Return the section of the compositional constraints, on the paper's list and on the one with three more relations."""
    table = TABLES["constraints"]
    lines = [
        f"## `constraints`: {table.title}",
        "",
        "`relcode reproduce constraints`. Lower MR and higher MRR are better; chance is MR 237.5 among 474 relations.",
        "",
    ]
    lines += [
        "| matrices | MR paper | MR ours | difference | MRR paper | MRR ours | difference | 194 list: MR, MRR | seeds |",
        "|---|" + "--:|" * 6 + "---|--:|",
    ]
    for row, choice in chosen_rows(table, records):
        random = row.label.startswith("random")
        found, more = our_constraints(choice, random=random), our_constraints(choice, "not-inverse", random)
        mr_deviation, mrr_deviation = CONSTRAINT_DEVIATIONS[row.label]
        told = "diverged" if choice.diverged else "not run"
        mr = cells(row.paper.mr, found.mr if found else None, whole, told)
        mrr = cells(row.paper.mrr, found.mrr if found else None, fine, "")
        mr[0], mrr[0] = f"{mr[0]} ± {mr_deviation}", f"{mrr[0]} ± {fine(mrr_deviation)}"
        parts = [row.label, *mr, *mrr, "" if more is None else f"{whole(more.mr.mean)}, {fine(more.mrr.mean)}", seeds_told(choice)]
        lines.append("| " + " | ".join(parts) + " |")
    return [*lines, ""]


MRR_NOISE, MR_NOISE = 0.002, 0.02  # differences no larger than these say nothing: seeds alone differ by .001 and, of MR, half a per cent


def claims_section(records: Sequence[Record]) -> list[str]:
    """Return what the paper claims, and whether our figures say so too."""
    lines = ["## The paper's claims", ""]
    lines += [f"Differences in MRR of at most {MRR_NOISE:.3f}".replace("0.", ".") + f" and in MR of at most {MR_NOISE:.0%} count as none.", ""]
    lines += ["| claim | ours | holds |", "|---|---|---|"]
    for claim, told, verdict in (*_comp_claims(records), _path_claim(records), *_ablation_claims(records), *_constraint_claims(records)):
        lines.append(f"| {claim} | {told} | {verdict or 'not measured'} |")
    return [*lines, ""]


Claim = tuple[str, str, str]  # what the paper says, our figures, whether it holds ("" where it was not measured)


def _test_mrr(records: Sequence[Record], dataset: str, variant: str) -> Ours | None:
    return ours(choose(each for each in records if (each["dataset"], each["variant"]) == (dataset, variant)), "test", "paper")


def _comp_claims(records: Sequence[Record]) -> Iterable[Claim]:
    for dataset in MAIN_DATASETS:
        joint, base = (_test_mrr(records, dataset, variant) for variant in ("joint+comp", "base+comp"))
        told, verdict = "", ""
        if joint and base:
            told, more = f"MRR {reciprocal(joint.mrr.mean)} and {reciprocal(base.mrr.mean)}", joint.mrr.mean - base.mrr.mean
            verdict = "yes, better" if more > MRR_NOISE else "**no**" if more < -MRR_NOISE else "yes, alike"
        yield f"joint+comp is at least as good as base+comp: {TITLES[dataset]}", told, verdict


def _path_claim(records: Sequence[Record]) -> Claim:
    means = [_test_mrr(records, "fb15k-237", variant) for variant in ("base", "base+comp@0.5", "base+comp")]
    ranks = [each.mr.mean for each in means if each is not None]
    falls = [after < before * (1 - MR_NOISE) for before, after in itertools.pairwise(ranks)]
    verdict = "" if len(ranks) < 3 else "yes" if all(falls) else "from 0 to 0.5 alone" if falls[0] else "**no**"
    return "MR falls as λ rises (base, test, λ = 0, 0.5, 1)", ", ".join(whole(rank) for rank in ranks), verdict


def _ablation_claims(records: Sequence[Record]) -> Iterable[Claim]:
    found = {row.variant: ours(choice, "valid", "paper") for row, choice in chosen_rows(TABLES["ablation"], records)}
    base = found["base"]
    for variant in ABLATIONS:
        one, told, verdict = found[variant.name], "", ""
        if one and base:
            told = f"valid: {_against(one, base, reciprocal)}"
            in_mrr, in_mr = base.mrr.mean - one.mrr.mean > MRR_NOISE, one.mr.mean > base.mr.mean * (1 + MR_NOISE)
            verdict = "yes" if in_mrr and in_mr else "in MRR alone" if in_mrr else "in MR alone" if in_mr else "**no**"
        yield f"worse in MR and MRR: {variant.name}", told, verdict


def _against(one: Ours, other: Ours, write: Writer) -> str:
    """Set two rows side by side."""
    return f"MRR {write(one.mrr.mean)} against {write(other.mrr.mean)}, MR {whole(one.mr.mean)} against {whole(other.mr.mean)}"


def _constraint_claims(records: Sequence[Record]) -> Iterable[Claim]:
    rows = {row.label: our_constraints(choice, random=row.label.startswith("random")) for row, choice in chosen_rows(TABLES["constraints"], records)}
    joint = rows["joint+comp"]
    for label in ("base+comp", "random M_2 in joint+comp"):
        other = rows[label]
        told, verdict = "", ""
        if joint and other:
            told = _against(joint, other, fine)
            apart = all(
                abs(one.mean - two.mean) > (one.deviation or 0) + (two.deviation or 0) for one, two in ((joint.mr, other.mr), (joint.mrr, other.mrr))
            )
            verdict = "**no**, alike" if not apart else "yes" if joint.mrr.mean > other.mrr.mean and joint.mr.mean < other.mr.mean else "**no**"
        yield f"joint+comp finds constraints better than {label}", told, verdict


def records_section(files: Mapping[str, Record], link: str) -> list[str]:
    """Return where each training was made, how long it took, and the commands."""
    lines = ["## The trainings", "", "Edges/s is over all of training, validations and checkpoints included; peak memory is the device's.", ""]
    lines += [
        "| training | epochs | training s | edges/s | evaluation s | peak MB | two largest of a code; relations without one | device | commit |",
        "|---|" + "--:|" * 6 + "---|---|",
    ]
    ordered = sorted(files.items(), key=lambda item: (item[1]["dataset"], item[1]["variant"], item[1]["seed"], item[1]["environment"]["made"]))
    for name, record in ordered:
        place = record["environment"]
        codes = "" if not record.get("codes") else "{two_largest:.0%}; {zero_codes} of {relations}".format(**record["codes"])
        figures = [f"{record['epochs']:.0f}", f"{record['training_seconds']:.0f}", f"{record['edges_per_second'] or 0:,.0f}"]
        figures += [f"{record['evaluation_seconds']:.2f}" if "evaluation_seconds" in record else record["status"]]
        figures += [f"{record['peak_bytes'] / 1e6:,.0f}", codes, place["device"], place["commit"]]
        lines.append(f"| [{record['dataset']} {record['variant']} s{record['seed']}]({link}/{name}) | " + " | ".join(figures) + " |")
    commands = dict.fromkeys(record["environment"]["command"] for _, record in ordered)
    return [*lines, "", "Commands:", "", "```sh", *commands, "```", ""]


def render(files: Mapping[str, Record], notes: str, results: str, link: str) -> str:
    """Return the page of records by file name; ``results`` is their folder as a person names it, ``link`` the way to it from the page."""
    records = list(files.values())
    lines = [INTRODUCTION.format(results=results, link=link)]
    if notes.strip():
        lines += [notes.strip(), ""]
    for name in ("main", "adjusted", "ablation", "paths"):
        lines += completion_section(name, records)
    lines += [*constraints_section(records), *claims_section(records), *others_section(records)]
    if records:
        lines += records_section(files, link)
    return "\n".join(lines).rstrip() + "\n"


def render_folder(folder: Path, page: Path) -> str:
    """Return the page of a folder's records, with the notes that lie beside the page."""
    notes = page.with_name("reproduction-notes.md")
    link = Path(os.path.relpath(folder, page.parent)).as_posix()
    return render(read_files(folder), notes.read_text(encoding="utf-8") if notes.exists() else "", folder.name, link)
