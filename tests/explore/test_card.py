from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import pytest

from relcode.cli import main
from relcode.errors import DataError
from relcode.explore.card import WORLD, _changed, _code, _plain, card
from relcode.explore.model import Model
from relcode.graph.dataset import Dataset, dataset_from_facts
from relcode.recipes import recipe
from relcode.training.fit import fit_settings


@pytest.fixture(scope="module")
def model(family_run: Path) -> Model:
    return Model.open(family_run, "cpu")


def test_the_card_tells_what_was_measured(model: Model) -> None:
    text = card(model, name="family tree", licence="mit")
    report = model.evaluate("test")
    assert f"| this model, both questions | {report.both.mrr:.3f} |" in text and "most frequent answer" in text
    for part in ("## Data", "## Training", "## How good it is", "## Codes", "## How to use it", "## Limits", "## Licence"):
        assert part in text
    assert model.dataset.fingerprint in text and "`joint+comp`" in text and "Model: mit." in text and "424" in text
    assert str(model.folder) not in text, "no place on this machine"


def test_the_head_is_yaml_that_hubs_read(model: Model) -> None:
    """Each line is a key, or a key and a value that is a JSON text, a number or a plain word; so whatever a name holds, it stays a value."""
    text = card(model, name='a "name": with\n---\ntraps', licence="cc-by-4.0")
    assert text.startswith("---\n")
    head = text.split("\n---\n")[0].splitlines()[1:]
    shape = re.compile(r"(?P<indent> *(- )?)(?P<key>[a-z_-]+:)?( ?)(?P<value>\"(?:[^\"\\]|\\.)*\"|-?[0-9.]+|[a-z -]+)?")
    found = [shape.fullmatch(line) for line in head]
    assert all(found), [line for line, match in zip(head, found, strict=True) if not match]
    values = [json.loads(match["value"]) for match in found if match and (match["value"] or "").startswith('"')]
    assert 'a "name": with\n---\ntraps' in values and "cc-by-4.0" in values and {"mrr", "mr", "hits@1", "hits@3", "hits@10"} <= set(values)
    measured = float(head[head.index('    - type: "mrr"') + 1].removeprefix("      value: "))
    assert measured == pytest.approx(model.evaluate("test").both.mrr, abs=1e-4)


def test_the_snippet_runs(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(model.folder.parent)
    (snippet,) = re.findall(r"```python\n(.*?)```", card(model), re.DOTALL)
    exec(compile(snippet, "card", "exec"), {})


def test_without_test_facts_another_split_is_asked_for(tmp_path: Path) -> None:
    from runs.short import ended, short

    from relcode.experiment import train

    facts = dataset_from_facts([("a", "r", "b"), ("b", "r", "c"), ("</script>", "`|#", "a")], name="x|y`z")
    run = ended(train(facts, short("base"), tmp_path / "run"))
    with pytest.raises(DataError, match="has no facts in its test split to measure with: choose another with --split"):
        card(Model.open(run.folder, "cpu"))
    text = card(Model.open(run.folder, "cpu"), split="train")
    assert "## Codes" not in text and "unknown; ask whoever made them" in text


@pytest.mark.parametrize("text", ["a|b", "`", "``", "a`b``c", "<b>", "# x", "*_~[]", "a\nb"])
def test_names_stay_text_in_markdown(text: str) -> None:
    assert "\n" not in _code(text) and "\n" not in _plain(text)
    assert not re.search(r"(?<!\\)[|<>#*_~\[\]`]", _plain(text)) and not re.search(r"(?<!\\)\|", _code(text))


def test_the_command_prints_or_writes(family_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["card", str(family_run), "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("---\nlibrary_name: relcode\n")
    assert main(["card", str(family_run), "--device", "cpu", "--out", str(tmp_path / "README.md")]) == 0
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == printed
    assert main(["card", str(family_run), "--out", str(tmp_path / "README.md")]) == 2
    assert json.dumps("family") in printed


def test_the_licence_of_the_facts_is_said_where_the_maker_states_none(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "dataset", replace(model.dataset, source="bundled with relcode"))
    text = card(model)
    head = text.split("\n---\n")[0]
    assert "license: other" in head and 'license_name: "not stated by its maker"' in head and "facts: GeoNames: CC BY 4.0" in head
    assert "unknown" not in text
    readme = (files("relcode") / "data" / "world" / "README.md").read_text(encoding="utf-8")
    for source, licence in (part.split(": ") for part in WORLD.split("; ")):
        (row,) = [line for line in readme.splitlines() if line.startswith(f"| {source} |") and licence in line]
        assert row


def test_settings_that_training_never_read_are_not_listed(family: Dataset) -> None:
    changed, run = {"sampling.edges": 7, "softmax.questions": 9, "model.dim": 3}, SimpleNamespace(about={"environment": {"device": "cpu"}})
    for name, unread in (("default", "sampling.edges"), ("joint", "softmax.questions")):
        settings = fit_settings(recipe(name).with_values(changed), family)
        named = {key.strip("`") for key, _ in _changed(SimpleNamespace(settings=settings, dataset=family, run=run))}  # type: ignore[arg-type]
        assert set(changed) - named == {unread}
        follow = {"training.epochs", "updates.penalty", "softmax.penalty", "softmax.rate", "softmax.matrix_rate", "coder.every"}
        assert not named & follow  # chosen from the data


def test_sizes_that_cuda_chose_are_not_listed() -> None:
    medium = dataset_from_facts(sorted({(f"e{n * n % 2003}", f"r{n % 60}", f"e{n * 7 % 2999}") for n in range(60_000)}))
    settings = fit_settings(recipe("default").with_values({"training.device": "cuda"}), medium)
    assert settings.model.dim == 1024
    settings = replace(settings, training=replace(settings.training, device="auto"))
    for device, listed in (("NVIDIA H200", set()), ("cpu", {"`model.dim`"})):  # the block follows from d
        run = SimpleNamespace(about={"environment": {"device": device}})
        found = dict(_changed(SimpleNamespace(settings=settings, dataset=medium, run=run)))  # type: ignore[arg-type]
        assert set(found) == listed


def test_a_block_is_listed_where_it_does_not_follow_from_the_size_of_vectors(family: Dataset) -> None:
    run = SimpleNamespace(about={"environment": {"device": "cpu"}})
    for given, listed in (({"model.dim": 16}, {"`model.dim`"}), ({"model.dim": 64, "model.block": 8}, {"`model.dim`", "`model.block`"})):
        settings = fit_settings(recipe("default").with_values(given), family)
        assert set(dict(_changed(SimpleNamespace(settings=settings, dataset=family, run=run)))) == listed  # type: ignore[arg-type]
