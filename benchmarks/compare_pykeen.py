"""PyKEEN's RESCAL and ComplEx beside relcode's default recipe: same data, size of vectors, device and evaluator; accuracy against seconds.

    python benchmarks/compare_pykeen.py umls --dim 64 --epochs 20 [--device cpu] [--plot FILE.png] > FILE.jsonl     # needs: pip install pykeen

PyKEEN is trained the way its users get the best figures from bilinear models, not with its defaults: all entities as candidates (LCWA), cross
entropy, inverse relations, Adagrad at 0.1, batches of as many questions as relcode takes, and for ComplEx the N3 penalty (Lacroix et al., 2018; 0.05
for FB15k-237, 0.1 for WN18RR, 0.01 elsewhere, as there for the small KBs). Its vectors are then brought into relcode's form, u_h M_r v_t, and ranked
by relcode's evaluator under the protocol ``realistic``; first it is checked that both give the same scores. Every side is looked at after each
epoch on valid and once, at its end, on test. One JSON line a side.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from relcode.evaluation.report import evaluate
from relcode.graph.dataset import Dataset, load_dataset
from relcode.model.parameters import scorer_of
from relcode.model.score import Scorer
from relcode.recipes import recipe
from relcode.runs.environment import environment
from relcode.training.advance import advance, initial_state, make_trainer
from relcode.training.fit import fit_settings

N3_WEIGHT = {"wn18rr": 0.1, "fb15k-237": 0.05}  # as published
N3_ELSEWHERE, RATE = 0.01, 0.1
SPREAD = 0.01  # of ComplEx's first values; with PyKEEN's own default, 1, it learns ten times as slowly
Look = tuple[float, float, Scorer]  # epoch, seconds of training, what scores


def relcode_side(dataset: Dataset, dim: int, epochs: int, device: torch.device) -> Iterator[Look]:
    """Train the default recipe, looking once an epoch."""
    settings = recipe("default").with_values({"model.dim": dim, "training.epochs": epochs, "training.device": device.type})
    trainer = make_trainer(dataset, settings, device)
    state, seconds = initial_state(dataset, trainer.settings, device), 0.0
    for epoch in range(1, epochs + 1):
        began = time.perf_counter()
        state, _ = advance(state, trainer.stream.steps_per_epoch, trainer, epochs * trainer.stream.steps_per_epoch)
        seconds += time.perf_counter() - began
        yield epoch, seconds, scorer_of(state.parameters, trainer.settings, dataset.seen_E)


def pykeen_side(name: str, dataset: Dataset, dim: int, epochs: int, device: torch.device) -> Iterator[Look]:
    """Train a model of PyKEEN's, looking once an epoch."""
    from pykeen.losses import CrossEntropyLoss
    from pykeen.models import RESCAL, ComplEx
    from pykeen.regularizers import NoRegularizer, PowerSumRegularizer
    from pykeen.training import LCWATrainingLoop
    from pykeen.triples import CoreTriplesFactory

    facts = CoreTriplesFactory(dataset.train, num_entities=dataset.num_entities, num_relations=dataset.num_relations, create_inverse_triples=True)
    start = partial(torch.nn.init.normal_, std=dim**-0.5 if name == "RESCAL" else SPREAD)
    shared: dict[str, Any] = {"triples_factory": facts, "loss": CrossEntropyLoss(), "random_seed": 0}
    shared |= {"entity_initializer": start, "relation_initializer": start}
    if name == "RESCAL":
        model: Any = RESCAL(embedding_dim=dim, regularizer=NoRegularizer(), **shared)  # its default penalty lets all vectors shrink to nothing
    else:
        penalty = PowerSumRegularizer(weight=N3_WEIGHT.get(dataset.name, N3_ELSEWHERE), p=3.0, normalize=False)
        model = ComplEx(embedding_dim=dim // 2, regularizer=penalty, **shared)
    model = model.to(device)
    loop = LCWATrainingLoop(model=model, triples_factory=facts, optimizer=torch.optim.Adagrad(model.parameters(), lr=RATE))
    questions, seconds = fit_settings(recipe("default"), dataset).softmax.questions, 0.0
    for epoch in range(1, epochs + 1):
        began = time.perf_counter()
        loop.train(
            facts, num_epochs=epoch, batch_size=questions, use_tqdm=False, use_tqdm_batch=False, only_size_probing=False, continue_training=True
        )
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds += time.perf_counter() - began
        scorer = as_scorer(model, dataset)
        if epoch == 1:
            check_agreement(model, scorer, dataset)
        yield epoch, seconds, scorer


def as_scorer(model: Any, dataset: Dataset) -> Scorer:
    """Bring PyKEEN's vectors into the form u_h M_r v_t; it numbers a relation 2r and its inverse 2r + 1, relcode r and r + R.

    ComplEx, Re Σ h r t̄, is the bilinear form with M = [[Re r, Im r], [−Im r, Re r]] (diagonal blocks) between real and imaginary parts side by side.
    """
    entity_ED, relation_S = model.entity_representations[0]().detach(), model.relation_representations[0]().detach()
    relation_S = torch.cat([relation_S[0::2], relation_S[1::2]])
    if entity_ED.is_complex():
        entity_ED = torch.cat([entity_ED.real, entity_ED.imag], dim=1)
        real, imaginary = torch.diag_embed(relation_S.real), torch.diag_embed(relation_S.imag)
        relation_S = torch.cat([torch.cat([real, imaginary], dim=2), torch.cat([-imaginary, real], dim=2)], dim=1)
    return Scorer(entity_ED, entity_ED, relation_S.contiguous(), dataset.seen_E.to(entity_ED.device)).with_unseen_zero()


def check_agreement(model: Any, scorer: Scorer, dataset: Dataset) -> None:
    """Stop where PyKEEN's own scores of some facts differ from ours of the same vectors."""
    facts_N3 = dataset.train[:64].to(scorer.device)
    theirs = model.score_hrt(torch.stack([facts_N3[:, 0], 2 * facts_N3[:, 1], facts_N3[:, 2]], dim=1))[:, 0].detach()
    torch.testing.assert_close(scorer.score_facts(facts_N3), theirs, rtol=1e-3, atol=1e-3)


def measure(side: str, looks: Iterator[Look], dataset: Dataset, arguments: argparse.Namespace) -> dict[str, Any]:
    """Follow one side to its end and return its record."""
    history: list[dict[str, float]] = []
    scorer: Scorer | None = None
    for epoch, seconds, scorer in looks:
        valid = evaluate(scorer, dataset, "valid").to_json()
        history.append({"epoch": epoch, "training_seconds": seconds, "mrr": float(str(valid["mrr"])), "hits@10": float(str(valid["hits@10"]))})
        print(f"{side}  epoch {epoch}  {seconds:.1f} s  valid MRR {valid['mrr']:.4f}", file=sys.stderr)
    assert scorer is not None, "there is at least one epoch"
    test = evaluate(scorer, dataset, "test").to_json()
    return {
        "side": side,
        "dataset": dataset.name,
        "dim": arguments.dim,
        "epochs": len(history),
        "seed": 0,
        "seconds_per_epoch": history[-1]["training_seconds"] / len(history),
        "history": history,
        "test": {name: test[name] for name in ("mrr", "mr", "hits@1", "hits@10")},
        "environment": environment(scorer.device) | ({"pykeen": pykeen_version()} if side != "relcode default" else {}),
    }


def pykeen_version() -> str:
    """Return PyKEEN's version."""
    from pykeen.version import get_version

    return str(get_version())


def plot(records: list[dict[str, Any]], path: str) -> None:
    """Draw valid MRR against seconds of training, a line for each side."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for record, colour, marker in zip(records, ("#0072B2", "#D55E00", "#009E73"), "osD", strict=False):
        x, y = ([look[name] for look in record["history"]] for name in ("training_seconds", "mrr"))
        axes.plot(x, y, color=colour, marker=marker, markersize=3, label=f"{record['side']} (test MRR {record['test']['mrr']:.3f})")
    axes.set(xscale="log", xlabel="seconds of training", ylabel="MRR on valid", title=f"{records[0]['dataset']}, d = {records[0]['dim']}")
    axes.legend(loc="lower right")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def table(records: list[dict[str, Any]]) -> str:
    """Return a line for each side: seconds an epoch and in all, and what it is worth on test."""
    lines = [f"{'side':18} {'s/epoch':>8} {'seconds':>8} {'test MRR':>8} {'H@10':>6}"]
    for record in records:
        seconds, test = record["history"][-1]["training_seconds"], record["test"]
        lines.append(f"{record['side']:18} {record['seconds_per_epoch']:8.3f} {seconds:8.1f} {test['mrr']:8.4f} {test['hits@10']:6.3f}")
    return "\n".join(lines)


def read_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Read the arguments, the command line's unless some are given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset")
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--pykeen-epochs", type=int, help="epochs of PyKEEN's models, where they need more  [default: as many]")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cpu", "cuda"])
    parser.add_argument("--plot", help="a picture of accuracy against seconds")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> None:
    """Train all sides one after the other, print a line for each and a table."""
    arguments = read_arguments(words)
    dataset, device = load_dataset(arguments.dataset), torch.device(arguments.device)
    sides = {"relcode default": relcode_side(dataset, arguments.dim, arguments.epochs, device)}
    sides |= {
        f"PyKEEN {name}": pykeen_side(name, dataset, arguments.dim, arguments.pykeen_epochs or arguments.epochs, device)
        for name in ("RESCAL", "ComplEx")
    }
    records = []
    for side, looks in sides.items():
        records.append(measure(side, looks, dataset, arguments))
        print(json.dumps(records[-1]), flush=True)
    print(table(records), file=sys.stderr)
    if arguments.plot:
        plot(records, arguments.plot)


if __name__ == "__main__":
    main()
