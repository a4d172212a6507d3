"""What the demonstration shows, as records: how good the model is, what it predicts, which compositions it found, what its codes mean."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from relcode.analysis.codes import RelationCodes
from relcode.analysis.discovery import FoundCompositions, found_compositions
from relcode.config import Settings
from relcode.evaluation.baseline import most_frequent_answers
from relcode.evaluation.report import Report, evaluate
from relcode.explore.model import Model
from relcode.explore.new_facts import NewFact, new_facts
from relcode.graph.dataset import Dataset
from relcode.recipes import default

DATASET = "world"
PREDICTED = 10
MOST_COMPOSITIONS = 12
MINUTES = 2.25  # on a slow or busy machine training ends here, its rates annealed to the clock, so that the whole stays within three minutes
QUICK = {"model.dim": 32, "training.epochs": 3, "training.validations": 1}


@dataclass(frozen=True, eq=False)
class Findings:
    """All that the demonstration shows of a trained model; ``codes`` is None where the recipe has no autoencoder."""

    report: Report
    baseline: Report
    new_facts: tuple[NewFact, ...]
    compositions: FoundCompositions
    codes: RelationCodes | None


def demo_settings(quick: bool = False) -> Settings:
    """Return the settings of the demonstration; ``quick`` only shows that everything runs."""
    return default().with_values({"training.minutes": MINUTES, **(QUICK if quick else {})})


def fresh_folder(parent: Path = Path("runs")) -> Path:
    """Return a folder that does not exist yet: runs/demo-1, runs/demo-2, …"""
    number = 1
    while (folder := parent / f"demo-{number}").exists():
        number += 1
    return folder


def baseline_report(dataset: Dataset) -> Report:
    """Measure the most-frequent-answer baseline on test."""
    return evaluate(most_frequent_answers(dataset), dataset, "test")


def findings(model: Model) -> Findings:
    """Look at a trained model from all sides."""
    return Findings(
        report=model.evaluate("test"),
        baseline=baseline_report(model.dataset),
        new_facts=tuple(new_facts(model, PREDICTED)),
        compositions=found_compositions(model.scorer, model.dataset, top=MOST_COMPOSITIONS),
        codes=model.codes() if model.has_codes else None,
    )
