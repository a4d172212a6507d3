"""The paper's tables beside ours: figures, which trainings they need, records, rows run as processes, and the page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relcode.cli import main
from relcode.errors import DataError, UnknownName
from relcode.evaluation.report import evaluate
from relcode.experiment import Finished, train
from relcode.graph.dataset import Dataset
from relcode.model.parameters import scorer_of
from relcode.recipes import fit_to_data, recipe
from relcode.studies.reproduction_choice import Choice, choose, choose_ablation, chosen_rows, criteria, our_constraints, ours
from relcode.studies.reproduction_page import claims_section, render, render_folder
from relcode.studies.reproduction_plan import TABLES, VARIANTS, Figures, Row, table_named, trainings
from relcode.studies.reproduction_record import (
    file_name,
    identity,
    identity_of,
    make_record,
    merge,
    plain_settings,
    read_bundle,
    read_records,
    write_bundle,
    write_record,
)
from relcode.studies.reproduction_rows import missing
from relcode.training.fit import fit_settings

ROOT = Path(__file__).parents[2]
SMALL = {
    "model.dim": "8",
    "model.code_dim": "4",
    "sampling.edges": "256",
    "training.epochs": "2",
    "training.validations": "1",
    "training.device": "cpu",
}

# Typed again from the paper, as text, by table: what the plan says must read the same.
PAPER_MAIN = """
joint       277 - 95.8   53 - 82.5   4233 .461 53.4   212 .336 52.3
base        286 - 95.8   53 - 82.5   4371 .459 52.9   215 .337 52.3
joint+comp  191 - 94.8   53 - 69.7   2268 .343 54.8   197 .331 51.6
base+comp   195 - 94.8   54 - 69.4   2447 .310 54.1   203 .328 51.5
"""
PAPER_ADJUSTED = {"joint": (3317, 0.493, 57.2), "base": (3435, 0.492, 56.7), "joint+comp": (1507, 0.367, 58.7), "base+comp": (1629, 0.332, 58.0)}
PAPER_ABLATION = [(214, 0.338, 52.5), (309, 0.326, 49.9), (400, 0.328, 51.3), (221, 0.336, 52.1), (215, 0.324, 50.6)]
PAPER_JOINT_PATHS = {("0", "test"): (212, 0.336, 52.3), ("1", "test"): (197, 0.331, 51.6), ("0.5", "valid"): (201, 0.339, 52.3)}
PAPER_BASE_PATHS = {("0", "valid"): (209, 0.341, 52.9), ("0.5", "test"): (211, 0.332, 51.7), ("1", "valid"): (191, 0.334, 52.0)}
PAPER_CONSTRAINTS = [(130, 0.0481), (150, 0.0280), (181, 0.0356)]


def three(row: Row) -> tuple[float | None, float | None, float | None]:
    return (row.paper.mr, row.paper.mrr, row.paper.hits10)


def test_the_main_table_is_the_papers() -> None:
    wanted = {}
    for line in PAPER_MAIN.strip().splitlines():
        model, *words = line.split()
        numbers = [None if word == "-" else float(word) for word in words]
        for place, dataset in enumerate(("wn18", "fb15k", "wn18rr", "fb15k-237")):
            wanted[dataset, model] = tuple(numbers[3 * place : 3 * place + 3])
    assert {(row.dataset, row.variant): three(row) for row in TABLES["main"].rows} == wanted


def test_the_other_tables_are_the_papers() -> None:
    assert {row.variant: three(row) for row in TABLES["adjusted"].rows} == PAPER_ADJUSTED
    assert [three(row) for row in TABLES["ablation"].rows] == PAPER_ABLATION
    assert [(row.paper.mr, row.paper.mrr) for row in TABLES["constraints"].rows] == PAPER_CONSTRAINTS
    paths = {row.label: three(row) for row in TABLES["paths"].rows}
    assert len(paths) == 12
    for model, wanted in (("base", PAPER_BASE_PATHS), ("joint", PAPER_JOINT_PATHS)):
        for (mean, split), figures in wanted.items():
            assert paths[f"λ = {mean}, {model}, {split}"] == pytest.approx(figures)


def test_tables_share_their_trainings() -> None:
    made = {name: {(one.dataset, one.settings) for one in trainings(TABLES[name], {}, seeds=1)} for name in TABLES}
    assert len(made["main"]) == 16 and made["adjusted"] < made["main"] and made["constraints"] < made["main"]
    assert len(made["paths"]) == 6 and len(made["paths"] & made["main"]) == 4
    assert len(made["ablation"]) == 5 and len(made["ablation"] & made["main"]) == 1
    assert len(trainings(TABLES["constraints"], {})) == 10


def test_each_ablation_changes_one_setting_of_base() -> None:
    base = plain_settings(VARIANTS["base"].settings("fb15k-237", 0, {}))
    flat = {f"{section}.{name}": value for section, part in base.items() if isinstance(part, dict) for name, value in part.items()}
    for name in TABLES["ablation"].variants[1:]:
        changed = plain_settings(VARIANTS[name].settings("fb15k-237", 0, {}))
        ((section, _, option),) = [
            key.partition(".") for key, value in flat.items() if changed[key.partition(".")[0]][key.partition(".")[2]] != value
        ]
        assert f"{section}.{option}" in VARIANTS[name].changes


def test_what_is_given_wins_over_the_recipe_but_not_over_what_makes_the_row() -> None:
    given = {"training.epochs": "7", "sampling.noise": "uniform"}
    (one,) = trainings(TABLES["ablation"], given, variants=["base@unigram-noise"])
    assert (one.settings.training.epochs, one.settings.sampling.noise) == (7, "unigram")


def test_unknown_tables_and_rows_are_named() -> None:
    with pytest.raises(UnknownName, match="did you mean 'main'"):
        table_named("mian")
    with pytest.raises(UnknownName, match="base\\+comp"):
        trainings(TABLES["main"], {}, variants=["base+cmop"])


def test_identity_is_data_settings_and_seed() -> None:
    settings = plain_settings(fit_to_data(recipe("base"), 1000))
    same = json.loads(json.dumps(settings))
    same["training"]["device"], same["recipe"] = "cuda", "another name"
    assert identity("a", same) == identity("a", settings) != identity("b", settings)
    del same["model"]["initial"]  # a record from before this option
    assert identity("a", same) == identity("a", settings)
    for section, name, value in (("training", "seed", 1), ("training", "epochs", 101), ("model", "dim", 128)):
        other = json.loads(json.dumps(settings))
        other[section][name] = value
        assert identity("a", other) != identity("a", settings)


def fake(variant: str = "base", seed: int = 0, mrr: float = 0.3, epochs: int = 100, status: str = "finished", **changes: Any) -> dict[str, Any]:
    """Return a record with made-up figures: MR is 100·mrr, test MRR is 0.01 below valid's, and hits follow."""
    settings = plain_settings(VARIANTS[variant].settings("fb15k-237", seed, {"training.epochs": epochs, **changes}))
    record: dict[str, Any] = {
        "format": 1,
        "dataset": "fb15k-237",
        "variant": variant,
        "recipe": settings["recipe"],
        "seed": seed,
        "settings": settings,
    }
    record |= {"status": status, "epochs": epochs, "training_seconds": 2.0, "edges_per_second": 5.0, "peak_bytes": 1, "fingerprint": ""}
    record["environment"] = {"device": "cpu", "commit": "abc", "command": "relcode reproduce main", "made": "2026-01-01T00:00:00+00:00"}
    if status == "finished":
        for split, value in (("valid", mrr), ("test", mrr - 0.01)):
            metrics = {"mr": 100 * value, "mrr": value, "hits@10": value + 0.1}
            seen = {"mr": 50 * value, "mrr": value + 0.2, "hits@10": value + 0.3}
            record[split] = {protocol: {**metrics, "seen_only": seen} for protocol in ("paper", "realistic")}
        ranks = {"mr": 100.0 + seed, "mrr": mrr, "random_mr": 200.0, "random_mrr": mrr / 2}
        record |= {"constraints": {"paper": ranks, "not-inverse": ranks}, "codes": None, "evaluation_seconds": 1.0}
    return record


def test_settings_are_chosen_on_valid_and_never_on_test() -> None:
    good, better = fake(mrr=0.3, epochs=100), fake(mrr=0.4, epochs=200)
    better["test"]["realistic"]["mrr"] = better["test"]["paper"]["mrr"] = 0.01
    assert choose([good, better]) == Choice((better,), (), 1)


def test_seeds_of_the_same_settings_stand_together_and_those_that_diverged_apart() -> None:
    records = [fake(seed=2, mrr=0.5), fake(seed=0, mrr=0.3), fake(seed=1, status="diverged")]
    found = choose(records)
    assert [record["seed"] for record in found.finished] == [0, 2] and [record["seed"] for record in found.diverged] == [1]
    figures = ours(found, "test", "paper")
    assert figures is not None and figures.mrr.mean == pytest.approx(0.39) and figures.mrr.deviation == pytest.approx(0.02**0.5)
    assert choose([fake(status="diverged", epochs=3), fake(mrr=0.1)]).finished, "a finished training is chosen before one that diverged"
    assert ours(choose([fake(status="diverged")]), "test", "paper") is None


def test_seeds_stand_together_whatever_settings_have_no_part_in_them() -> None:
    older = fake(seed=1, mrr=0.32)  # of a version with an option that the paper's objective never read
    older["settings"] = json.loads(json.dumps(older["settings"]))
    older["settings"]["softmax"] |= {"image_share": 0.25, "an_option_of_old": 1}
    choice = choose([fake(mrr=0.30), older])
    assert [record["seed"] for record in choice.finished] == [0, 1] and choice.others == 0


def test_constraints_want_the_most_seeds() -> None:
    records = [fake("joint+comp", seed, 0.3) for seed in range(5)] + [fake("joint+comp", 0, 0.4, epochs=200)]
    rows = {row.label: choice for row, choice in chosen_rows(TABLES["constraints"], records)}
    assert len(rows["joint+comp"].finished) == 5 and not rows["base+comp"].finished
    found, random = our_constraints(rows["joint+comp"]), our_constraints(rows["joint+comp"], random=True)
    assert found is not None and random is not None and (found.mr.mean, random.mr.mean) == (102, 200)


def test_the_ablation_compares_rows_that_differ_in_one_setting() -> None:
    equal = [fake(mrr=0.30), fake("base@unigram-noise", mrr=0.29), fake("base@no-normalisation", mrr=0.28)]
    longer = [fake(mrr=0.50, epochs=900)]
    found = choose_ablation([*longer, *equal], "fb15k-237")
    assert found["base"].finished == (equal[0],) and found["base@unigram-noise"].finished == (equal[1],)
    assert found["base@gaussian-init"] == Choice()


def test_criteria_by_hand() -> None:
    row = Row("fb15k-237", "base", Figures(100, 0.300, 50.0))
    just, no_more = fake(), fake()
    just["test"]["paper"] |= {"mr": 105.0, "mrr": 0.2951, "hits@10": 0.4901}
    no_more["test"]["paper"] |= {"mr": 105.1, "mrr": 0.2949, "hits@10": 0.4899}
    assert criteria(row, ours(Choice((just,)), "test", "paper")) == {"MR": True, "MRR": True, "H@10": True}  # type: ignore[arg-type]
    assert criteria(row, ours(Choice((no_more,)), "test", "paper")) == {"MR": False, "MRR": False, "H@10": False}  # type: ignore[arg-type]
    only_mr = Row("wn18", "base", Figures(100))
    assert criteria(only_mr, ours(Choice((just,)), "test", "paper")) == {"MR": True}  # type: ignore[arg-type]


def test_the_page_says_paper_ours_and_difference() -> None:
    records = [fake(seed=seed, mrr=0.35 + 0.001 * seed) for seed in range(2)] + [fake("joint", status="diverged")]
    page = render({f"{place}.json": record for place, record in enumerate(records)}, "## Notes\n\nHonest words.", "here", "there")
    assert "| base | 215 | 34 ± 0.1 | −181 | .337 | .340 ± .001 | +.003 | 52.3 | 44.0 ± 0.1 | −8.2 | MR MRR ~~H@10~~ | 34, .340, 44.0 | 2 |" in page
    assert "| joint | 212 | diverged |" in page and "0, 1 diverged |" in page
    assert "| λ = 0, base, valid | 209 | 35 ± 0.1 | −174 |" in page
    assert "| joint+comp | 197 | not run |" in page and "Honest words." in page
    assert "1 of 16 rows are run; the paper is reached by MR on 1 of 1, MRR on 1 of 1, H@10 on 0 of 1." in page
    assert "[fb15k-237 base s1](there/1.json)" in page


@pytest.mark.parametrize(("joint", "verdict"), [(0.310, "yes, better"), (0.301, "yes, alike"), (0.299, "yes, alike"), (0.29, "**no**")])
def test_small_differences_say_nothing_of_the_papers_claims(joint: float, verdict: str) -> None:
    claims = "\n".join(claims_section([fake("base+comp", mrr=0.3), fake("joint+comp", mrr=joint)]))
    assert f"FB15k-237 | MRR {joint - 0.01:.3f} and .290 | {verdict} |".replace("MRR 0", "MRR ") in claims
    assert "joint+comp is at least as good as base+comp: WN18 |  | not measured |" in claims


def test_seeds_say_which_constraints_are_found_better() -> None:
    def told(*joint: float) -> str:
        base = [fake("base+comp", seed, 0.30 + 0.01 * seed) for seed in range(2)]
        records = base + [fake("joint+comp", seed, mrr) for seed, mrr in enumerate(joint)]
        for record in records[2:]:
            record["constraints"] = {"paper": {**record["constraints"]["paper"], "mr": 10.0}}
        (line,) = [line for line in claims_section(records) if "better than base+comp" in line]
        return line.split("|")[-2].strip()

    assert told(0.40, 0.41) == "yes" and told(0.31, 0.32) == "**no**, alike" and told(0.20, 0.21) == "**no**"


def test_the_committed_page_is_that_of_the_committed_records() -> None:
    folder, page = ROOT / "benchmarks" / "results" / "reproduction", ROOT / "docs" / "reproduction.md"
    assert page.read_text(encoding="utf-8") == render_folder(folder, page), "relcode reproduce (without a table) renders it again"


def test_a_record_holds_the_figures_of_the_training(family: Dataset, tmp_path: Path) -> None:
    settings = fit_settings(VARIANTS["joint+comp"].settings("family", 3, SMALL), family)
    record = make_record(family, "joint+comp", settings, "relcode reproduce main")
    (run,) = [event.run for event in train(family, settings, tmp_path / "run") if isinstance(event, Finished)]
    scorer = scorer_of(run.load_parameters("cpu"), run.settings, family.seen_E)
    for split in ("valid", "test"):
        for protocol in ("paper", "realistic"):
            assert record[split][protocol] == json.loads(json.dumps(evaluate(scorer, family, split, protocol).to_json()))
    assert record["status"] == "finished" and record["codes"]["relations"] == family.num_directed
    assert record["constraints"]["paper"]["n"] > 0 and record["constraints"]["paper"]["draws"] == 5
    assert record["settings"] == plain_settings(settings) and record["epochs"] == 2 and record["edges_per_second"] > 0
    write_record(tmp_path / "records", record)
    assert read_records(tmp_path / "records") == {identity("family", plain_settings(settings)): json.loads(json.dumps(record))}


def test_a_training_that_diverges_is_recorded_without_figures(family: Dataset) -> None:
    wild = SMALL | {"updates.adagrad_rate": "1e30"}
    record = make_record(family, "base", VARIANTS["base"].settings("family", 0, wild), "relcode reproduce main")
    assert record["status"] == "diverged" and "not finite" in record["reason"]
    assert "test" not in record and "valid" not in record


def test_merging_takes_what_is_missing_and_what_is_newer(tmp_path: Path) -> None:
    old, new, other = fake(mrr=0.3), fake(mrr=0.4), fake(seed=1)
    new["environment"] = {**new["environment"], "made": "2026-02-01T00:00:00+00:00"}
    write_record(tmp_path / "here", new)
    write_bundle(tmp_path / "bundle.jsonl", [old, other])
    assert merge(tmp_path / "here", [tmp_path / "bundle.jsonl"]) == 1
    assert read_records(tmp_path / "here") == {identity_of(new): new, identity_of(other): other}
    assert merge(tmp_path / "here", [tmp_path / "bundle.jsonl"]) == 0
    (tmp_path / "bad.jsonl").write_text('{"dataset": "x"}\n')
    with pytest.raises(DataError, match=r"bad\.jsonl is no record"):
        merge(tmp_path / "here", [tmp_path / "bad.jsonl"])


def test_a_record_replaces_one_of_the_same_training_under_another_name(tmp_path: Path) -> None:
    record = fake()
    path = write_record(tmp_path, record)
    path.rename(tmp_path / f"{path.stem[:-12]}000000000000.json")
    assert write_record(tmp_path, record) == path and [each.name for each in tmp_path.iterdir()] == [file_name(record)]


@pytest.mark.slow
def test_rows_run_as_processes_resume_and_render(family: Dataset, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data, results, bundle = tmp_path / "family", tmp_path / "results", tmp_path / "all.jsonl"
    write_facts(family, data)
    options = [f"--set={key}={value}" for key, value in SMALL.items() if key != "training.device"]
    command = ["reproduce", "main", "--datasets", str(data), "--device", "cpu", "--results", str(results), *options]
    assert main([*command, "--recipes", "base", "--bundle", str(bundle)]) == 0
    ((path, before),) = [(path, path.read_text()) for path in results.glob("*.json")]
    assert [record["variant"] for record in read_bundle(bundle)] == ["base"]
    done = subprocess.run([sys.executable, "-m", "relcode", *command, "--recipes", "base,joint", "--jobs", "2"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "1 of 2 rows have their records already; 1 to run" in done.stderr
    assert path.read_text() == before and len(list(results.glob("*.json"))) == 2
    records = read_records(results).values()
    assert {record["environment"]["command"] for record in records if record["variant"] == "joint"} == {
        f"relcode reproduce main --datasets {data} --device cpu {' '.join(options)} --recipes base,joint --jobs 2"
    }
    asked = trainings(TABLES["main"], SMALL, [str(data)], ["base", "joint", "base+comp"])
    assert [str(one.variant) for one in missing(asked, results)] == ["base+comp"]
    assert "| family base |" in (results / "reproduction.md").read_text(encoding="utf-8")
    capfd.readouterr()
    assert main(["reproduce", "main", "--datasets", str(data), "--recipes", "base", "--results", str(results), "--set", "model.dmi=3"]) == 2
    assert "did you mean 'model.dim'" in capfd.readouterr().err


def test_a_row_that_cannot_run_says_why_in_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    row = {"dataset": str(tmp_path / "absent"), "variant": "base", "settings": plain_settings(recipe("base")), "command": ""}
    assert main(["reproduce", "--results", str(tmp_path / "results"), "--row", json.dumps(row)]) == 2
    assert main(["reproduce", "--results", str(tmp_path / "results"), "--row", "{"]) == 2
    assert main(["reproduce", "--results", str(tmp_path / "results")]) == 2
    assert "name a table (main, adjusted, ablation, paths, constraints)" in capfd.readouterr().err


def write_facts(dataset: Dataset, folder: Path) -> None:
    """Write a dataset as files, as people have them."""
    folder.mkdir()
    for split in ("train", "valid", "test"):
        lines = (f"{dataset.entities[h]}\t{dataset.relations[r]}\t{dataset.entities[t]}\n" for h, r, t in dataset.split(split).tolist())
        (folder / f"{split}.txt").write_text("".join(lines), encoding="utf-8")
