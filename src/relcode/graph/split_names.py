"""What the splits of a dataset are called. A module of its own: listing datasets needs no more, and need not wait for torch."""

from __future__ import annotations

SPLITS = ("train", "valid", "test")
