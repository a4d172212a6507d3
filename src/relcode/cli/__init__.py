"""The command line: read arguments, call one public function, print one record."""

from __future__ import annotations

from relcode.cli.app import main

__all__ = ["main"]
