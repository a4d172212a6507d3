"""How long it takes, from the start of the process, to train a model that reaches a test MRR: start, reading, compilation and validations included.

    python benchmarks/time_to_accuracy.py fb15k-237 base --target .332 --device cuda [--set training.epochs=60 …] > benchmarks/results/NAME.json

Runs ``relcode train`` as a process of its own and takes the time from its start to its end, when its weights lie on disk; then ``relcode evaluate``
measures them on test, once. Ranks of some queries are compared with the plain definition in double precision. Prints one JSON line, which also tells
when each validation was reached, in seconds of training.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from relcode.evaluation.protocol import REALISTIC
from relcode.evaluation.ranking import known_answers, rank_facts
from relcode.model.parameters import scorer_of
from relcode.ops.diagonal import whole
from relcode.runs.environment import environment
from relcode.runs.run import Run, open_run

CHECKED = 40  # facts whose ranks are compared with the definition
SLACK = 1e-3  # candidates whose scores are nearer than this may change places by rounding


def check_agreement(run: Run) -> int:
    """Compare fast ranks with counting in double precision on some test facts; return how many queries were compared."""
    dataset = run.load_dataset()
    scorer = scorer_of(run.load_parameters("cpu"), run.settings, dataset.seen_E)
    known, facts_N3 = known_answers(dataset), dataset.test[:: max(1, len(dataset.test) // CHECKED)]
    ranks = rank_facts(scorer, dataset, facts_N3, known, REALISTIC)
    R = dataset.num_relations
    asked = [*facts_N3.tolist(), *([t, r + R, h] for h, r, t in facts_N3.tolist())]
    for (head, relation, gold), rank in zip(asked, ranks.realistic_N.tolist(), strict=True):
        score_E = scorer.head_ED[head].double() @ whole(scorer.matrix_SDD[relation]).double() @ scorer.tail_ED.double().T
        rival_E = torch.ones(len(score_E), dtype=torch.bool)
        rival_E[known.of(head, relation)] = False
        low = 1 + int((score_E[rival_E] > score_E[gold] + SLACK).sum())
        high = 1 + int((score_E[rival_E] >= score_E[gold] - SLACK).sum())
        if not low <= rank <= high:
            raise SystemExit(f"rank {rank} of {(head, relation, gold)} is not within {low} and {high}, the definition's")
    return len(asked)


def relcode(*words: str) -> tuple[str, float]:
    """Run a command of relcode as a process; return what it printed and how many seconds it took from start to end."""
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "relcode", *words], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"relcode {words[0]} failed with exit code {done.returncode}")
    return done.stdout, time.perf_counter() - began


def main() -> None:
    """Train, measure, check, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset")
    parser.add_argument("recipe")
    parser.add_argument("--target", type=float, required=True, help="test MRR to reach")
    parser.add_argument("--protocol", default="paper", choices=["paper", "realistic"])
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        options = ["--recipe", given.recipe, "--device", given.device, "--seed", str(given.seed), *(f"--set={each}" for each in given.set)]
        _, seconds = relcode("train", given.dataset, *options, "--out", str(out))
        text, evaluation_seconds = relcode("evaluate", str(out), "--split", "test", "--protocol", given.protocol, "--json")
        run, log = open_run(out), [json.loads(line) for line in (out / "log.jsonl").read_text(encoding="utf-8").splitlines()]
        compared = check_agreement(run)
    report = json.loads(text)
    validations = [{key: line[key] for key in ("epoch", "seconds", "mrr", "mr")} for line in log if line.get("event") == "validated"]
    record = {"benchmark": "time to accuracy", "dataset": given.dataset, "recipe": given.recipe, "seed": given.seed, "protocol": given.protocol}
    record |= {"target_mrr": given.target, "test_mrr": report["mrr"], "test_mr": report["mr"], "test_hits@10": report["hits@10"]}
    record |= {"reached": report["mrr"] >= given.target, "seconds_from_start_to_weights_on_disk": round(seconds, 2)}
    record |= {"seconds_of_training": round(run.status.seconds, 2), "seconds_of_evaluation_process": round(evaluation_seconds, 2)}
    record |= {"validations": validations, "ranks_compared": compared, "settings": json.loads(run.settings.to_json())}
    device = "cuda" if torch.cuda.is_available() and given.device != "cpu" else "cpu"
    print(json.dumps({**record, "environment": environment(device)}))


if __name__ == "__main__":
    main()
