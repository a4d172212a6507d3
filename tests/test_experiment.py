from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
import torch
from family import family_facts
from runs.short import CPU, STILL, ended, lasting, logged, short

import relcode
from relcode import experiment
from relcode.config import Settings, settings_from_json
from relcode.errors import DataError, DeviceError, NotFinite, OutputError, RunError
from relcode.experiment import Advanced, Event, Finished, Started, Validated, choose_device, resume, train
from relcode.graph.dataset import Dataset, dataset_from_facts
from relcode.model import softmax
from relcode.ops.workers import both
from relcode.recipes import RECIPES
from relcode.runs.run import open_run
from relcode.training.advance import parameters_finite


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Put torch back, whatever a test did to it."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)


def interrupted_at(step: int, events: Iterator[Event]) -> Finished:
    """Press Ctrl-C at the first look at or after ``step`` and return the last event."""
    for event in events:
        if isinstance(event, Advanced) and event.step >= step:
            signal.raise_signal(signal.SIGINT)
            break
    *_, last = events
    assert isinstance(last, Finished)
    return last


# -- the story


def test_events_come_in_order_and_the_run_is_complete(family: Dataset, tmp_path: Path) -> None:
    states = []
    events = []
    for event in train(family, short(), tmp_path / "run"):
        events.append(event)
        states.append(open_run(tmp_path / "run").status.state)
    assert isinstance(events[0], Started) and isinstance(events[-1], Finished) and (events[0].step, events[0].device) == (0, "cpu")
    total = events[0].total_steps
    middle = events[1:-1]
    assert {type(event) for event in middle} == {Advanced, Validated}
    steps = [event.step for event in middle if isinstance(event, Advanced)]
    assert steps == sorted(set(steps)) and steps[-1] == total
    validations = [(before.step, event) for before, event in pairwise(middle) if isinstance(event, Validated)]
    assert [step for step, _ in validations] == [total // 3, 2 * total // 3, total] and [event.epoch for _, event in validations] == [2, 4, 6]
    assert states[:-2] == ["running"] * len(states[:-2]) and states[-1] == "complete"
    assert all(event.total_steps == total and event.loss > 0 and event.coder_loss is not None for event in middle if isinstance(event, Advanced))


def test_the_best_parameters_are_those_of_the_best_validation(family: Dataset, tmp_path: Path) -> None:
    seen: list[tuple[float, torch.Tensor]] = []
    for event in train(family, short(updates__adagrad_rate=3.0, training__seed=0), tmp_path / "run"):  # rates at which it gets worse again
        if isinstance(event, Validated):
            assert event.best == (event.mrr > max((mrr for mrr, _ in seen), default=0))
            run = open_run(tmp_path / "run")
            seen.append((event.mrr, run.load_state(CPU).parameters.head_ED))  # a validation is said once its checkpoint is there
    run = open_run(tmp_path / "run")
    best = max(range(len(seen)), key=lambda number: seen[number][0])
    assert best < len(seen) - 1, "a seed at which the last is not the best shows more"
    assert torch.equal(run.load_parameters().head_ED, seen[best][1]) and not torch.equal(run.load_parameters().head_ED, seen[-1][1])
    assert run.status.best is not None and run.status.best["mrr"] == run.status.best_mrr == seen[best][0]


def test_base_has_no_loss_of_codes(family: Dataset, tmp_path: Path) -> None:
    advanced = [event for event in train(family, short("base"), tmp_path / "run") if isinstance(event, Advanced)]
    assert all(event.coder_loss is None for event in advanced)


def test_every_line_of_the_log_is_json(family: Dataset, tmp_path: Path) -> None:
    validated = [event for event in train(family, short(), tmp_path / "run") if isinstance(event, Validated)]
    lines = logged(tmp_path / "run")
    assert [line["event"] for line in lines] == ["advanced", "validated"] * 3
    assert [(line["mr"], line["mrr"], line["best"]) for line in lines[1::2]] == [(event.mr, event.mrr, event.best) for event in validated]
    assert all(line["loss"] > 0 and line["step"] > 0 and line["edges_per_second"] > 0 for line in lines[::2])


@pytest.mark.parametrize("name", ["joint", "joint+comp"])
def test_the_same_seed_gives_the_same_bits_and_another_does_not(family: Dataset, tmp_path: Path, name: str) -> None:
    first = ended(train(family, short(name), tmp_path / "first"))
    saved = settings_from_json((tmp_path / "first" / "settings.json").read_text(encoding="utf-8"))
    torch.rand(3)  # the global random stream plays no part
    torch.set_num_threads(2)
    ended(train(first.load_dataset(), saved, tmp_path / "again"))
    ended(train(family, short(name, training__seed=1), tmp_path / "other"))
    assert lasting(tmp_path / "again") == lasting(tmp_path / "first")
    assert lasting(tmp_path / "other")["files"]["best.safetensors"] != lasting(tmp_path / "first")["files"]["best.safetensors"]


BLOCKS = {"model__dim": 64, "model__block": 4}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="deterministic algorithms on CUDA need CUDA")
@pytest.mark.parametrize("changes", [{"model__dim": 64}, BLOCKS], ids=["whole", "blocks"])
@pytest.mark.parametrize("name", RECIPES)
def test_deterministic_training_on_cuda_gives_the_same_bits(family: Dataset, tmp_path: Path, name: str, changes: dict[str, int]) -> None:
    if changes == BLOCKS and name != "default":
        pytest.skip("the paper's objective has whole matrices")
    settings = short(name, training__device="cuda", training__deterministic=True, **changes)
    for folder in ("first", "again"):
        ended(train(family, settings, tmp_path / folder))
    assert lasting(tmp_path / "again") == lasting(tmp_path / "first")


def test_looking_more_or_less_often_changes_nothing(family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended(train(family, short(), tmp_path / "seldom"))
    monkeypatch.setattr(experiment, "CHUNK_SECONDS", 0.0)
    monkeypatch.setattr(experiment, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(experiment, "SAVING_SHARE", 1e9)
    ended(train(family, short(), tmp_path / "often"))
    assert lasting(tmp_path / "often") == lasting(tmp_path / "seldom")


def test_two_checkpoints_are_kept_at_most(family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(experiment, "SAVING_SHARE", 1e9)
    counts = [len(list((tmp_path / "run" / "checkpoints").iterdir())) for _ in train(family, short(), tmp_path / "run")]
    assert set(counts) == {1, 2} and counts[-1] == 2


# -- when it ends


def test_all_epochs_are_done(family: Dataset, tmp_path: Path) -> None:
    *_, last = train(family, short(training__epochs=2), tmp_path / "run")
    assert isinstance(last, Finished) and last.reason == last.run.status.reason == "all 2 epochs done" and last.run.status.epoch == 2


def test_patience_ends_where_neither_mr_nor_mrr_improves(family: Dataset, tmp_path: Path) -> None:
    events = list(train(family, short(training__validations=6, training__patience=2, **STILL), tmp_path / "run"))
    status = open_run(tmp_path / "run").status
    assert [type(event) for event in events].count(Validated) == 3, "one to begin with, two that are no better"
    assert status.state == "complete" and status.reason == "neither MR nor MRR on valid improved in 2 validations"
    assert (status.epoch, status.stale_validations) == (3, 2) and status.best is not None and status.best["epoch"] == 1


def test_without_patience_it_goes_on(family: Dataset, tmp_path: Path) -> None:
    run = ended(train(family, short(training__validations=6, training__patience=0, **STILL), tmp_path / "run"))
    assert run.status.reason == "all 6 epochs done" and run.status.stale_validations == 5


@pytest.mark.parametrize(("metrics", "last"), [([(9, 0.1), (8, 0.1), (7, 0.1), (6, 0.1)], 4), ([(9, 0.1), (9, 0.2), (9, 0.3), (9, 0.4)], 4)])
def test_one_of_mr_and_mrr_improving_is_enough(
    family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metrics: list[tuple[float, float]], last: int
) -> None:
    measure(monkeypatch, metrics)
    run = ended(train(family, short(training__validations=4, training__epochs=4, training__patience=1), tmp_path / "run"))
    assert run.status.epoch == last and run.status.stale_validations == 0


def test_an_improvement_too_small_to_mean_anything_does_not_count(family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measure(monkeypatch, [(9, 0.1), (8.999, 0.10001), (8.998, 0.10002), (8.997, 0.10003)])
    run = ended(train(family, short(training__validations=4, training__epochs=4, training__patience=2), tmp_path / "run"))
    assert run.status.epoch == 3 and run.status.stale_validations == 2
    assert run.status.best is not None and run.status.best["epoch"] == 3, "the best is kept all the same"


def measure(monkeypatch: pytest.MonkeyPatch, metrics: list[tuple[float, float]]) -> None:
    """Let validations find the MR and MRR given, one after the other."""
    found = iter(metrics)

    def evaluate(*_: object, **__: object) -> object:
        mr, mrr = next(found)
        return type("Report", (), {"both": type("Metrics", (), {"mr": mr, "mrr": mrr, "hits": {10: 0.0}})})

    monkeypatch.setattr(experiment, "evaluate", evaluate)


def tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a hundredth of a second pass at each look at the clock, and look at every step."""
    looks = count()
    monkeypatch.setattr(experiment, "time", SimpleNamespace(perf_counter=lambda: next(looks) / 100))
    monkeypatch.setattr(experiment, "CHUNK_SECONDS", 0.0)


def test_minutes_end_it_and_the_last_state_is_validated(family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tick(monkeypatch)
    events = list(train(family, short(training__epochs=10**6, training__minutes=0.01), tmp_path / "run"))
    status = open_run(tmp_path / "run").status
    assert [type(event) for event in events] == [Started, *[Advanced] * status.step, Validated, Finished]
    assert status.reason == "the limit of 0.01 minutes is reached" and status.state == "complete" and 0.6 <= status.seconds < 0.7
    assert status.best is not None and status.best["step"] == status.step > 3


def test_minutes_count_over_all_sittings(family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tick(monkeypatch)
    settings = short(training__epochs=10**6, training__minutes=0.01)
    whole = ended(train(family, settings, tmp_path / "whole")).status
    first = interrupted_at(5, train(family, settings, tmp_path / "run")).run.status
    assert first.state == "stopped" and 0 < first.seconds < 0.6
    events = list(resume(tmp_path / "run"))
    seconds = [event.seconds for event in events if isinstance(event, Advanced)]
    assert first.seconds < seconds[0] < 0.6 and abs(open_run(tmp_path / "run").status.step - whole.step) <= 1
    assert [event.seconds_left for event in events if isinstance(event, Advanced)] == pytest.approx([max(0, 0.6 - second) for second in seconds])


@pytest.mark.parametrize("how", ["validations off", "no valid facts"])
def test_without_validation_the_last_parameters_count(family: Dataset, tmp_path: Path, how: str) -> None:
    settings, data = short(training__patience=1), family
    if how == "validations off":
        settings = short(training__validations=0, training__patience=1)
    else:
        data = dataset_from_facts({"train": family_facts()["train"], "test": family_facts()["test"]}, name="family")
    events = list(train(data, settings, tmp_path / "run"))
    run = open_run(tmp_path / "run")
    assert not any(isinstance(event, Validated) for event in events) and run.status.state == "complete" and run.status.best is None
    assert torch.equal(run.load_parameters().matrix_SDD, run.load_state(CPU).parameters.matrix_SDD)
    assert not list(run.folder.glob("best*")) and run.load_state(CPU).step == run.status.step > 0


def test_at_most_so_many_facts_are_validated_and_always_the_same(family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[torch.Tensor] = []
    evaluate = experiment.evaluate

    def listen(scorer: Any, part: Dataset, *arguments: Any, **options: Any) -> Any:
        measured.append(part.valid)
        return evaluate(scorer, part, *arguments, **options)

    monkeypatch.setattr(experiment, "evaluate", listen)
    ended(train(family, short(training__validation_facts=5), tmp_path / "run"))
    assert len(measured) == 3 and all(torch.equal(part, measured[0]) for part in measured) and len(measured[0]) == 5
    assert {tuple(fact) for fact in measured[0].tolist()} < {tuple(fact) for fact in family.valid.tolist()}


# -- stop and go on


@pytest.mark.parametrize("name", ["joint", "joint+comp"])
def test_an_interrupted_run_goes_on_to_the_same_bits(family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(experiment, "CHUNK_SECONDS", 0.0)  # a look at every step
    whole = ended(train(family, short(name), tmp_path / "whole"))
    expected = lasting(tmp_path / "whole")
    for step in (1, 2, whole.status.step // 2, whole.status.step - 1):
        folder = tmp_path / str(step)
        last = interrupted_at(step, train(family, short(name), folder))
        status = open_run(folder).status
        assert (status.state, status.reason, last.reason) == ("stopped", "interrupted", "interrupted") and step == status.step
        events = resume(folder)
        started = next(events)
        assert isinstance(started, Started) and started.step == status.step and open_run(folder).status.state == "running"
        ended(events)
        assert lasting(folder) == expected


def test_a_run_may_be_interrupted_at_every_look(family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "CHUNK_SECONDS", 0.0)
    ended(train(family, short("joint+comp"), tmp_path / "whole"))
    last = interrupted_at(1, train(family, short("joint+comp"), tmp_path / "run"))
    sittings = 1
    while last.run.status.state == "stopped":
        last = interrupted_at(0, resume(tmp_path / "run"))
        sittings += 1
    assert sittings > 10 and lasting(tmp_path / "run") == lasting(tmp_path / "whole")


def test_an_interruption_where_patience_is_lost_ends_the_run(family: Dataset, tmp_path: Path) -> None:
    """Stopped there and resumed, it would go on for another validation, which a run left alone never sees."""
    settings = short(training__validations=6, training__patience=2, **STILL)
    whole = ended(train(family, settings, tmp_path / "whole"))
    last = interrupted_at(whole.status.step, train(family, settings, tmp_path / "run"))
    assert last.run.status.state == "complete" and "neither MR nor MRR" in last.reason
    assert lasting(tmp_path / "run") == lasting(tmp_path / "whole")


def test_ctrl_c_works_as_before_after_training_and_the_second_time(family: Dataset, tmp_path: Path) -> None:
    calls: list[int] = []

    def mine(number: int, frame: FrameType | None) -> None:
        calls.append(number)

    before = signal.signal(signal.SIGINT, mine)
    try:
        events = train(family, short(), tmp_path / "run")
        while not isinstance(next(events), Advanced):
            pass
        signal.raise_signal(signal.SIGINT)
        assert calls == []
        signal.raise_signal(signal.SIGINT)
        assert calls == [signal.SIGINT], "the second one is not held back"
        assert ended(events).status.state == "stopped" and signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_polite_kill_saves_too(family: Dataset, tmp_path: Path) -> None:
    for event in (events := train(family, short(), tmp_path / "run")):
        if isinstance(event, Advanced):
            signal.raise_signal(signal.SIGTERM)
            break
    assert ended(events).status.state == "stopped"


def test_training_works_in_a_thread(family: Dataset, tmp_path: Path) -> None:
    runs: list[str] = []
    thread = threading.Thread(target=lambda: runs.append(ended(train(family, short(), tmp_path / "run")).status.state))
    thread.start()
    thread.join()
    assert runs == ["complete"]


def test_who_stops_listening_can_go_on_later(family: Dataset, tmp_path: Path) -> None:
    ended(train(family, short(), tmp_path / "whole"))
    for event in train(family, short(), tmp_path / "run"):
        if isinstance(event, Validated):
            break
    assert open_run(tmp_path / "run").status.stale_validations == 0 and open_run(tmp_path / "run").status.step > 0
    ended(resume(tmp_path / "run"))
    assert lasting(tmp_path / "run") == lasting(tmp_path / "whole")


def test_a_complete_run_is_not_resumed(family: Dataset, tmp_path: Path) -> None:
    ended(train(family, short(), tmp_path / "run"))
    before = (tmp_path / "run" / "run.json").read_bytes()
    with pytest.raises(RunError, match=r"is complete \(all 6 epochs done\): nothing is left to do; relcode evaluate"):
        list(resume(tmp_path / "run"))
    assert (tmp_path / "run" / "run.json").read_bytes() == before


def test_a_run_beyond_its_epochs_is_not_resumed(family: Dataset, tmp_path: Path) -> None:
    interrupted_at(12, train(family, short(), tmp_path / "run"))
    fewer = open_run(tmp_path / "run").settings.with_values({"training.epochs": 2})
    (tmp_path / "run" / "settings.json").write_text(fewer.to_json(), encoding="utf-8")
    with pytest.raises(RunError, match="has done all of its 2 epochs"):
        list(resume(tmp_path / "run"))


def test_training_into_an_existing_run_says_what_can_be_done_with_it(family: Dataset, tmp_path: Path) -> None:
    interrupted_at(2, train(family, short(), tmp_path / "run"))
    with pytest.raises(OutputError, match=r"exists already: go on with relcode resume .*run, or choose another folder with --out"):
        list(train(family, short(), tmp_path / "run"))
    ended(resume(tmp_path / "run"))
    before = lasting(tmp_path / "run")
    with pytest.raises(
        OutputError, match=r"holds a complete run \(all 6 epochs done\), which relcode evaluate .*run measures; choose another folder"
    ):
        list(train(family, short(), tmp_path / "run"))
    assert lasting(tmp_path / "run") == before


def test_a_damaged_checkpoint_is_not_resumed(family: Dataset, tmp_path: Path) -> None:
    status = interrupted_at(2, train(family, short(), tmp_path / "run")).run.status
    (tmp_path / "run" / "checkpoints" / status.checkpoint).write_bytes(b"")
    with pytest.raises(RunError, match=f"{status.checkpoint} is damaged"):
        list(resume(tmp_path / "run"))
    assert open_run(tmp_path / "run").status == status


class Killed(BaseException):
    """Stands for a process that ends here."""


@pytest.mark.parametrize(
    "settings",
    [short(training__epochs=3, sampling__edges=512), short(training__epochs=3, training__patience=1, sampling__edges=512, **STILL)],
    ids=["learning", "patience"],
)
def test_killed_around_any_writing_a_run_is_whole_and_goes_on_to_the_same_bits(
    family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """Every file is put in place by a rename: the process ends right before or right after each of them."""
    best: dict[float, torch.Tensor] = {}
    for event in train(family, settings, tmp_path / "whole"):
        if isinstance(event, Validated) and event.best:
            best[event.epoch] = open_run(tmp_path / "whole").load_state(CPU).parameters.head_ED
    expected = lasting(tmp_path / "whole")
    put, moment, renames = os.replace, 0, 0

    def replace_or_die(source: Path, target: Path) -> None:
        nonlocal renames
        renames += 1
        if renames == moment // 2 and moment % 2 == 0:
            raise Killed
        put(source, target)
        if renames == moment // 2:
            raise Killed

    monkeypatch.setattr(os, "replace", replace_or_die)
    with_run = 0
    for moment in range(2, 1000):
        folder, renames = tmp_path / "run", 0
        try:
            ended(train(family, settings, folder))
        except Killed:
            if folder.exists():  # else it never began
                with_run += 1
                run = open_run(folder)
                weights = run.load_parameters().head_ED
                assert run.status.best is None or torch.equal(weights, best[run.status.best["epoch"]])
                renames = -1000
                if run.status.state == "running":
                    ended(resume(folder))
                else:
                    run.settle_best()  # killed as its very last act, it has them under the name they were written to
        assert not folder.exists() or lasting(folder) == expected
        if renames >= 0 and renames < moment // 2:
            break
        shutil.rmtree(folder, ignore_errors=True)
    assert moment < 999 and with_run >= 10


KILLED_PROGRAM = """
import sys, time
from pathlib import Path
from family import family_dataset
from runs.short import short
from relcode import experiment
experiment.CHUNK_SECONDS, experiment.CHECKPOINT_SECONDS, experiment.SAVING_SHARE = 0.0, 0.0, 1e9  # writing all the time
folder = Path(sys.argv[1])
settings = short("joint+comp", training__epochs=12, training__validations=6)
for event in experiment.resume(folder) if folder.exists() else experiment.train(family_dataset(), settings, folder):
    step = getattr(event, "step", 0)
    print(step, flush=True)
    if step > int(sys.argv[2]) + 5:
        time.sleep(600)  # not to the end, however long the kill takes
"""


def test_a_process_killed_at_any_moment_goes_on_to_the_same_bits(family: Dataset, tmp_path: Path) -> None:
    settings = short("joint+comp", training__epochs=12, training__validations=6)
    total = ended(train(family, settings, tmp_path / "whole")).status.step
    places = os.pathsep.join([str(Path(relcode.__file__).parents[1]), str(Path(__file__).parent)])
    environment = {**os.environ, "PYTHONPATH": places, "OMP_NUM_THREADS": "1"}
    for share in (0.3, 0.7):
        command = [sys.executable, "-c", KILLED_PROGRAM, str(tmp_path / "run"), str(round(share * total))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
            assert process.stdout is not None
            while int(process.stdout.readline()) < share * total:
                pass
            process.kill()  # wherever it is by now
        assert process.returncode not in (0, 1)
        run = open_run(tmp_path / "run")
        assert run.status.state == "running" and run.status.step >= share * total - 1 and parameters_finite(run.load_parameters())
    ended(resume(tmp_path / "run"))
    assert lasting(tmp_path / "run") == lasting(tmp_path / "whole") and not list((tmp_path / "run").rglob("*.part"))


# -- what goes wrong


def poisoned(monkeypatch: pytest.MonkeyPatch, at: int, **values: float) -> None:
    """Let the ``at``-th step fill the parameters named with the values given."""
    from relcode.training import advance

    take_step, taken = advance.take_step, 0

    def poison(parameters: Any, *arguments: Any) -> Any:
        nonlocal taken
        taken += 1
        result = take_step(parameters, *arguments)
        for name, value in values.items() if taken == at else ():
            getattr(parameters, name).fill_(value)
        return result

    monkeypatch.setattr(advance, "take_step", poison)


@pytest.mark.parametrize(
    "values",
    [{"head_ED": float("nan")}, {"matrix_SDD": float("inf")}, {"encoder_CQ": float("nan")}, {"tail_count_E": float("nan")}],
    ids=["vectors", "matrices", "codes", "counters"],
)
def test_what_is_not_finite_stops_training_with_the_last_good_state(
    family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: dict[str, float]
) -> None:
    poisoned(monkeypatch, 14, **values)
    with pytest.raises(NotFinite, match=r"a loss or parameter is not finite.*keeps the last good state, step 8") as caught:
        list(train(family, short(), tmp_path / "run"))
    assert caught.value.exit_code == 1 and "\n" not in str(caught.value)
    run = open_run(tmp_path / "run")
    assert run.status.state == "stopped" and "not finite" in run.status.reason and run.status.step == 8
    assert run.load_state(CPU).step == 8 and parameters_finite(run.load_state(CPU).parameters) and parameters_finite(run.load_parameters())


def test_scores_that_are_not_finite_stop_training_too(family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters may be finite and their products not: the validation finds out."""
    poisoned(monkeypatch, 16, matrix_SDD=1e25, tail_ED=1e25)
    with pytest.raises(NotFinite, match="keeps the last good state, step 8"):
        list(train(family, short(model__normalise=False), tmp_path / "run"))
    run = open_run(tmp_path / "run")
    assert run.status.state == "stopped" and run.status.step == 8 and parameters_finite(run.load_state(CPU).parameters)


def test_a_run_that_diverged_by_chance_goes_on_to_the_same_bits(family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended(train(family, short(), tmp_path / "whole"))
    with monkeypatch.context() as patched:
        poisoned(patched, 20, head_ED=float("nan"))
        with pytest.raises(NotFinite):
            list(train(family, short(), tmp_path / "run"))
    ended(resume(tmp_path / "run"))
    assert lasting(tmp_path / "run") == lasting(tmp_path / "whole")


def test_rates_without_bounds_diverge_and_are_caught(family: Dataset, tmp_path: Path) -> None:
    with pytest.raises(NotFinite):
        list(train(family, short(model__normalise=False, updates__adagrad_rate=1e30), tmp_path / "run"))
    assert open_run(tmp_path / "run").status.state == "stopped" and parameters_finite(open_run(tmp_path / "run").load_parameters())


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_cuda_where_there_is_none(family: Dataset, tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"device cuda was asked for.*use --device cpu or auto"):
        list(train(family, short(training__device="cuda"), tmp_path / "run"))
    assert list(tmp_path.iterdir()) == []
    interrupted_at(2, train(family, short(), tmp_path / "run"))
    moved = open_run(tmp_path / "run").settings.with_values({"training.device": "cuda"})
    (tmp_path / "run" / "settings.json").write_text(moved.to_json(), encoding="utf-8")
    with pytest.raises(DeviceError):
        list(resume(tmp_path / "run"))
    assert open_run(tmp_path / "run").status.state == "stopped" and choose_device("auto") == CPU


def test_no_facts_to_train_on(family: Dataset, tmp_path: Path) -> None:
    empty = replace(family, train=family.train[:0], name="nothing")
    with pytest.raises(DataError, match="dataset nothing has no training facts"):
        list(train(empty, short(), tmp_path / "run"))
    assert list(tmp_path.iterdir()) == []


# -- torch is left as it was


def numerics() -> tuple[int, bool, str]:
    return torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision()


@pytest.mark.parametrize("end", ["complete", "raises", "abandoned", "refused"])
def test_threads_and_determinism_are_put_back(family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    torch.set_num_threads(2)
    before = numerics()
    during = []
    if end == "raises":
        poisoned(monkeypatch, 3, head_ED=float("nan"))
    if end == "refused":
        (tmp_path / "run").mkdir()
    try:
        for event in train(family, short(), tmp_path / "run"):
            during.append(numerics())
            if end == "abandoned" and isinstance(event, Advanced):
                break
    except (NotFinite, OutputError):
        pass
    assert numerics() == before == (2, False, before[2])
    assert set(during) == (set() if end == "refused" else {(1, True, before[2])})


def test_vectors_large_enough_use_all_threads(family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(2)
    monkeypatch.setattr(experiment, "LARGE_DIM", 8)
    assert {torch.get_num_threads() for _ in train(family, short(training__epochs=1), tmp_path / "run")} == {2}
    monkeypatch.setattr(experiment, "LARGE_DIM", 9)
    assert {torch.get_num_threads() for _ in train(family, short(training__epochs=1), tmp_path / "one")} == {1}


@pytest.mark.parametrize(("threads", "numbers_more", "expected"), [(2, 0, True), (1, 0, False), (2, -1, False)])
def test_few_vectors_have_a_second_thread_for_halves_where_there_are_two(
    family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int, numbers_more: int, expected: bool
) -> None:
    torch.set_num_threads(threads)
    monkeypatch.setattr(experiment, "CACHED_VECTORS", family.num_entities * 8 + numbers_more)

    def beside() -> bool:
        meeting = threading.Barrier(2)
        try:
            both(lambda: meeting.wait(timeout=2 if expected else 0.1), lambda: meeting.wait(timeout=2))  # passes only where two are there together
        except threading.BrokenBarrierError:
            return False
        return True

    assert {beside() for _ in train(family, short("default", training__epochs=1), tmp_path / "run")} == {expected}
    assert not beside()


def test_one_core_and_two_give_the_same_bits(family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(softmax, "WORTH_SHARING", 1)
    settings = short("default", training__epochs=2, coder__start=0.5)
    for threads in (1, 2):
        torch.set_num_threads(threads)
        ended(train(family, settings, tmp_path / str(threads)))
    assert lasting(tmp_path / "1") == lasting(tmp_path / "2")


def test_nothing_is_best_and_patience_is_not_lost_before_the_autoencoder_begins(family: Dataset, tmp_path: Path) -> None:
    settings = short("default", training__epochs=8, training__validations=8, training__patience=1, coder__start=0.5)
    events = list(train(family, settings, tmp_path / "run"))
    validated = [event for event in events if isinstance(event, Validated)]
    assert len(validated) >= 5 and not any(event.best for event in validated[:3])
    assert [event.codes for event in validated] == [False] * 4 + [True] * (len(validated) - 4)
    best = open_run(tmp_path / "run").load_parameters()
    assert best.coder_count is not None and float(best.coder_count) > 0
