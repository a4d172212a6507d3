from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from family import family_facts

import relcode
from relcode import experiment
from relcode.errors import OutputError, RelcodeError, SettingError
from relcode.experiment import Advanced, Event, Finished, Started, Validated
from relcode.explore.training import LinePrinter, describe_event, dotted, duration, smoothed, training_events
from relcode.graph.dataset import Dataset
from relcode.recipes import recipe

QUICK = {"dim": 4, "code_dim": 2, "epochs": 2, "edges": 64, "tile": 8, "noise_draws": 4, "device": "cpu"}


def test_training_returns_a_model_and_keeps_the_run(family: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = relcode.train(family, out=tmp_path / "run", settings={"training.validations": 2}, **QUICK)
    assert (model.settings.model.dim, model.settings.training.epochs, model.settings.recipe) == (4, 2, "default")
    assert model.run.status.state == "complete"
    assert len(model.predict_tails("Ada_4", "parent", top=3)) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("training default on family") and "valid MRR" in captured.err and "done after" in captured.err


def test_facts_in_memory_and_another_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = relcode.train(family_facts()["train"], "base", out=tmp_path / "run", progress=False, **QUICK)
    assert model.settings.recipe == "base" and not len(model.dataset.test)
    assert capsys.readouterr().err == ""


def test_the_default_folder_is_under_runs(family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert relcode.train(family, progress=False, **QUICK).folder == Path("runs/family-default")
    assert relcode.train(family, progress=False, settings=recipe("base"), **QUICK).folder == Path("runs/family-base")


def test_progress_may_be_a_function(family: Dataset, tmp_path: Path) -> None:
    events: list[Event] = []
    relcode.train(family, out=tmp_path / "run", progress=events.append, **QUICK)
    kinds = [type(event) for event in events]
    assert kinds[0] is Started and kinds[-1] is Finished and Advanced in kinds and Validated in kinds


def test_short_names_of_settings() -> None:
    assert dotted({"dim": 3, "epochs": 5}) == {"model.dim": 3, "training.epochs": 5}
    with pytest.raises(SettingError, match=r"'noises' could be sampling.noises or coder.noises"):
        dotted({"noises": 3})
    with pytest.raises(SettingError, match=r"unknown setting 'epoch': did you mean 'epochs'"):
        dotted({"epoch": 3})


def test_an_existing_folder_is_not_touched(family: Dataset, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("mine")
    with pytest.raises(OutputError, match="exists already: choose another folder with --out"):
        list(training_events(family, recipe("base"), tmp_path / "run"))
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(("error", "shown"), [(RuntimeError("can't allocate memory"), RelcodeError), (KeyboardInterrupt(), KeyboardInterrupt)])
def test_what_fails_before_the_first_step_leaves_no_folder(
    family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, shown: type[BaseException]
) -> None:
    def fail(*_: object) -> None:
        assert (tmp_path / "run").exists()
        raise error

    monkeypatch.setattr("relcode.runs.run.Run.save", fail)
    with pytest.raises(shown):
        list(training_events(family, recipe("base").with_values(dotted(QUICK)), tmp_path / "run"))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_no_folder(family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("relcode.runs.files.save_file", full)
    with pytest.raises(OutputError, match="No space left on device"):
        list(training_events(family, recipe("base").with_values(dotted(QUICK)), tmp_path / "run"))
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_does_not_fit_is_refused_before_anything_is_written(family: Dataset, tmp_path: Path) -> None:
    with pytest.raises(RelcodeError, match=r"not enough memory for model.dim=9000000"):
        list(training_events(family, recipe("base").with_values({"model.dim": 9_000_000}), tmp_path / "run"))
    assert list(tmp_path.iterdir()) == []


def advanced(seconds: float, speed: float = 100.0, left: float = 60.0) -> Advanced:
    return Advanced(1, 10, 0.1, 1, seconds, left, speed, 1.25, None)


def test_lines_are_rare() -> None:
    lines: list[str] = []
    show = LinePrinter(lines.append)
    for seconds in (1, 5, 9.9, 10.1, 12, 20, 20.2):
        show(advanced(seconds))
    assert len(lines) == 2
    show(Validated(0.5, 21, 12.0, 0.5, 0.75, True))
    assert lines[-1] == "epoch 0.5 · valid MRR 0.500, MR 12.0, H@10 0.750 (kept: the best so far)"
    assert lines[0] == "epoch 0.1/1 · 100 edges/s · loss 1.250 · 1:00 left"


@pytest.mark.parametrize(
    ("best", "codes", "said"),
    [
        (True, None, " (kept: the best so far)"),
        (True, True, " (kept: the best so far with codes)"),
        (False, True, ""),
        (False, None, ""),
        (False, False, " (not kept: there are no codes yet)"),
    ],
)
def test_a_validation_says_whether_it_is_kept_and_why_not(best: bool, codes: bool | None, said: str) -> None:
    line = describe_event(Validated(0.5, 21, 12.0, 0.5, 0.75, best, codes))
    assert line == f"epoch 0.5 · valid MRR 0.500, MR 12.0, H@10 0.750{said}"


def test_speed_and_time_left_are_running_means() -> None:
    # Steps 1, 2, 4 of 10 after 1, 3 and 4 seconds: 2 s a step and 8 steps to go, then 1 s a step and 6 to go.
    looks = [Advanced(step, 10, 0.1, 1, seconds, 99.0, speed, 1.0, None) for step, seconds, speed in ((1, 1.0, 10.0), (2, 3.0, 30.0), (4, 4.0, 20.0))]
    events = [event for event in smoothed(looks) if isinstance(event, Advanced)]
    assert [(event.edges_per_second, event.seconds_left) for event in events] == [(10, 99), (20, 16), (20, 6)]


def test_the_time_left_knows_the_limit_in_minutes(family_run: Path) -> None:
    run = relcode.load(family_run).run
    run = replace(run, settings=run.settings.with_values({"training.minutes": 0.1}), status=replace(run.status, seconds=0.0))
    *_, last = smoothed([Started(run, "cpu", 0, 100), Advanced(1, 100, 0.1, 1, 2.0, 4.0, 10.0, 1.0, None)])
    assert isinstance(last, Advanced) and last.seconds_left == pytest.approx(4)


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "0 s"), (59.4, "59 s"), (60, "1:00"), (3599, "59:59"), (3661, "1:01:01")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_an_interrupted_training_can_be_resumed_to_the_same_end(family: Dataset, tmp_path: Path) -> None:
    settings = recipe("joint+comp").with_values(dotted({**QUICK, "epochs": 6}))
    whole = relcode.train(family, settings=settings, out=tmp_path / "whole", progress=False)

    def interrupt(event: Event) -> None:
        if isinstance(event, Advanced) and event.step >= 5:
            import signal

            signal.raise_signal(signal.SIGINT)

    parts = relcode.train(family, settings=settings, out=tmp_path / "parts", progress=interrupt)
    assert parts.run.status.state == "stopped" and parts.run.status.step < whole.run.status.step
    finished = [event for event in experiment.resume(tmp_path / "parts") if isinstance(event, Finished)]
    assert finished[0].run.status.step == whole.run.status.step
    end = finished[0].run.load_state(torch.device("cpu")).parameters.tensors()
    expected = whole.run.load_state(torch.device("cpu")).parameters.tensors()
    assert all(torch.equal(end[name], expected[name]) for name in expected)
    assert json.loads((tmp_path / "parts" / "run.json").read_text())["status"]["state"] == "complete"


def test_events_are_said_in_one_line(family_run: Path) -> None:
    run = relcode.load(family_run).run
    assert "joint+comp on family (" in describe_event(Started(run, "cpu", 0, 10))
    assert "from step 1,234" in describe_event(Started(run, "cpu", 1234, 2000))
    assert describe_event(Finished(run, "because")).endswith(": because")
