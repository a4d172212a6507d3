from __future__ import annotations

import signal
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import relcode
from relcode.config import Settings
from relcode.errors import DataError, OutputError, RunError, SettingError
from relcode.experiment import Advanced, Event, Finished, resume, train
from relcode.explore.extending import extension_events, plan_extension, renamed, with_squares
from relcode.explore.model import Model
from relcode.graph.dataset import Dataset, dataset_from_facts
from relcode.recipes import recipe
from relcode.runs.run import Run, open_run

SIZES = {"model.dim": 8, "model.code_dim": 3, "softmax.questions": 64, "sampling.edges": 256, "sampling.tile": 8, "sampling.noise_draws": 8}
LENGTH = {"training.epochs": 6, "training.validations": 3, "training.patience": 0, "training.device": "cpu"}
NEW = [
    ("Zoe", "parent", "Ada_1"),
    ("Zoe", "gender", "female"),
    ("Zoe", "admires", "Bob_1"),
    ("Hal_2", "admires", "Zoe"),
    ("Ada_1", "gender", "female"),
]


def settings_of(name: str) -> Settings:
    return recipe(name).with_values({**SIZES, **LENGTH})


def ended(events: Iterable[Event]) -> Run:
    *_, last = events
    assert isinstance(last, Finished)
    return last.run


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def run(family: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a small run of the recipe default; tests only read it."""
    folder = tmp_path_factory.mktemp("extending") / "run"
    return ended(train(family, settings_of("default"), folder)).folder


@pytest.fixture(scope="module")
def extended(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Return it with some facts more."""
    before = bytes_of(run)
    model = relcode.extend(run, NEW, out=tmp_path_factory.mktemp("extending") / "more", epochs=2, progress=False)
    assert bytes_of(run) == before  # not a byte of the old run has changed
    return model


def test_what_joined_can_be_asked_and_what_was_there_keeps_its_number(run: Path, extended: Model, family: Dataset) -> None:
    assert extended.dataset.entities.names == (*family.entities.names, "Zoe")
    assert extended.dataset.relations.names == (*family.relations.names, "admires")
    assert torch.equal(extended.dataset.test, family.test) and torch.equal(extended.dataset.valid, family.valid)
    assert len(extended.dataset.train) == len(family.train) + 4  # the fifth fact was known
    answers = {answer.entity: answer for answer in extended.predict_tails("Zoe", "gender", top=70)}
    assert answers["female"].known and not answers["male"].known
    assert extended.run.status.state == "complete" and extended.run.status.seconds > 0
    assert extended.evaluate("test").both.n == 2 * len(family.test)


def test_a_new_relation_and_its_inverse_have_codes(extended: Model) -> None:
    codes = extended.codes()
    names = [row["relation"] for row in codes.table().to_pylist()]
    assert "admires" in names and "^admires" in names and len(names) == extended.dataset.num_directed
    assert extended.parameters.encoder_CQ is not None and bool(extended.parameters.encoder_CQ.isfinite().all())


def test_the_result_can_be_explained_exported_and_extended_again(extended: Model, tmp_path: Path) -> None:
    from relcode.explore.export import export
    from relcode.explore.reasons import explain

    export(extended, "npz", tmp_path / "model.npz")
    assert (tmp_path / "model.npz").stat().st_size > 1000
    assert explain(extended, "Zoe", "gender", "female").to_json()
    more = relcode.extend(extended, [("Yan", "spouse", "Zoe")], out=tmp_path / "again", epochs=1, progress=False)
    assert more.dataset.entities.names == (*extended.dataset.entities.names, "Yan")
    assert more.settings.training.epochs <= 4 and more.settings.softmax == extended.settings.softmax  # rates do not shrink from one to the next


def test_same_facts_same_result_and_an_interrupted_one_goes_on_to_it(run: Path, extended: Model, tmp_path: Path) -> None:
    plan = plan_extension(run, NEW, out=tmp_path / "cut", epochs=2)
    interrupted = False
    for event in extension_events(plan):
        if isinstance(event, Advanced) and not interrupted:
            interrupted = True
            signal.raise_signal(signal.SIGINT)
    assert open_run(plan.folder).status.state == "stopped"
    finished = ended(resume(plan.folder))
    assert finished.status.state == "complete" and finished.status.step == extended.run.status.step
    cpu = torch.device("cpu")
    one, other = (each.load_state(cpu).parameters.tensors() for each in (finished, extended.run))
    assert all(torch.equal(value, other[key]) for key, value in one.items())


@pytest.mark.parametrize("name", ["joint+comp", "base"])
def test_the_papers_recipes_are_extended_too(name: str, family: Dataset, tmp_path: Path) -> None:
    old = ended(train(family, settings_of(name), tmp_path / "old"))
    model = relcode.extend(old.folder, NEW, out=tmp_path / "new", epochs=1, progress=False)
    assert model.settings.recipe == name and model.dataset.entities.names[-1] == "Zoe"
    assert model.evaluate("test").both.mrr > 0


def test_facts_come_from_files_and_their_valid_and_test_join_too(run: Path, family: Dataset, tmp_path: Path) -> None:
    folder = tmp_path / "facts"
    folder.mkdir()
    for split, facts in {"train": NEW[:2], "valid": [("Zoe", "parent", "Bob_1")], "test": [("Zoe", "sibling", "Hal_2")]}.items():
        (folder / f"{split}.tsv").write_text("".join("\t".join(fact) + "\n" for fact in facts), encoding="utf-8")
    plan = plan_extension(run, folder, out=tmp_path / "out")
    sizes = [len(plan.joined.dataset.split(split)) for split in ("train", "valid", "test")]
    assert sizes == [len(family.train) + 2, len(family.valid) + 1, len(family.test) + 1]
    one_file = plan_extension(run, folder / "train.tsv", out=tmp_path / "out")
    assert one_file.joined.new_train.tolist() == plan.joined.new_train.tolist()
    assert plan.to_json() | {"new_facts": 2, "known_facts": 0, "new_entities": 1, "new_relations": 0} == plan.to_json()
    assert plan.describe() == f"2 new facts, 1 new entity, 0 new relations join {run}"
    assert not (tmp_path / "out").exists()


def test_names_of_rdf_are_written_with_the_prefixes_of_the_run() -> None:
    old = replace(dataset_from_facts([("ex:a", "ex:r", "http://lone.org/b")]), prefixes={"ex": "http://ex.org/"})
    new = replace(
        dataset_from_facts([("n:a", "n:r", "l:b"), ("n:new", "n:r", "n:deep/c")]), prefixes={"n": "http://ex.org/", "l": "http://lone.org/"}
    )
    named = renamed(new, old)
    assert set(named.entities) == {"ex:a", "http://lone.org/b", "ex:new", "ex:deep/c"} and set(named.relations) == {"ex:r"}
    whole = dataset_from_facts([("http://ex.org/a", "http://ex.org/r", "plain")])
    assert set(renamed(whole, old).entities) == {"ex:a", "plain"}
    assert renamed(whole, replace(old, prefixes={})) is whole


def test_the_best_parameters_go_on_with_the_last_squares(run: Path) -> None:
    opened = open_run(run)
    last, best = opened.load_state(torch.device("cpu")).parameters, opened.load_parameters("cpu")
    assert opened.status.best is not None
    moved = replace(opened, status=replace(opened.status, best={**opened.status.best, "step": -1}))  # as if valid had liked another step best
    found = with_squares(moved, torch.device("cpu"))
    assert torch.equal(found.head_ED, best.head_ED)
    assert last.head_square_ED is not None and found.head_square_ED is not None and torch.equal(found.head_square_ED, last.head_square_ED)


def test_minutes_bound_it(run: Path, tmp_path: Path) -> None:
    model = relcode.extend(run, NEW, out=tmp_path / "short", epochs=100_000, minutes=0.01, progress=False)
    assert model.run.status.reason == "the limit of 0.01 minutes is reached"


@pytest.mark.parametrize(
    ("facts", "error", "said"),
    [
        ([], DataError, "no facts"),
        ([NEW[4]], DataError, "knows all 1 facts given already"),
        ("nowhere.tsv", DataError, "nowhere.tsv"),
        ([("a", "b")], DataError, "three names"),
    ],
)
def test_bad_facts_are_refused_in_one_line(run: Path, tmp_path: Path, facts: object, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said) as caught:
        relcode.extend(run, facts, out=tmp_path / "out", progress=False)
    assert "\n" not in str(caught.value) and not (tmp_path / "out").exists()


def test_a_run_that_is_not_complete_a_folder_that_exists_and_no_epochs_are_refused(run: Path, family: Dataset, tmp_path: Path) -> None:
    events = train(family, settings_of("default"), tmp_path / "half")
    for event in events:
        if isinstance(event, Advanced):
            signal.raise_signal(signal.SIGINT)
            break
    list(events)
    with pytest.raises(RunError, match=r"is not complete.*relcode resume"):
        relcode.extend(tmp_path / "half", NEW, progress=False)
    with pytest.raises(OutputError, match="exists already"):
        relcode.extend(run, NEW, out=run, progress=False)
    with pytest.raises(SettingError, match="epochs cannot be 0"):
        relcode.extend(run, NEW, out=tmp_path / "x", epochs=0, progress=False)
    with pytest.raises(RunError, match="no run folder"):
        relcode.extend(tmp_path / "nothing", NEW, progress=False)
