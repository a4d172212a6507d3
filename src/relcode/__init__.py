"""relcode: knowledge-base completion that people can understand."""

from __future__ import annotations

__version__ = "0.1.0"
