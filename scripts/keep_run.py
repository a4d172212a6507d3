"""Make the small run of this version that the tests keep: ``python scripts/keep_run.py`` writes tests/data/runs/v<version>/stopped.

Done once for each version, before it is released: later versions must open, measure and resume it (tests/runs/test_survival.py). The run is on the
generated family tree, d = 4, and was interrupted after its first validation; only the checkpoint in force is kept, for its size.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from family import family_dataset  # noqa: E402
from runs.short import ended, short  # noqa: E402

import relcode  # noqa: E402
from relcode import experiment  # noqa: E402


def main() -> None:
    """Train, interrupt, and keep what is needed."""
    folder = ROOT / "tests" / "data" / "runs" / f"v{relcode.__version__}" / "stopped"
    sys.argv = ["relcode", "train", "family"]  # run.json keeps the command; no place on this machine belongs there
    experiment.CHUNK_SECONDS = 0.0
    settings = short("joint+comp", model__dim=4)
    events = experiment.train(family_dataset(), settings, folder)
    for event in events:
        if isinstance(event, experiment.Advanced) and event.epoch >= 3.2:
            signal.raise_signal(signal.SIGINT)
            break
    run = ended(events)
    for path in (folder / "checkpoints").iterdir():
        if path.name != run.status.checkpoint:
            path.unlink()
    print(folder)


if __name__ == "__main__":
    main()
