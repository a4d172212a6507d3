"""A new file or folder, put in place whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from relcode.errors import CannotWrite, ExistsAlready


@contextmanager
def new_place(out: Path) -> Iterator[Path]:
    """Yield a draft beside ``out`` to be made a file or folder, and rename it at the end; what exists already is never written over."""
    if os.path.lexists(out):
        raise ExistsAlready(out)
    draft = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        yield draft
        os.replace(draft, out)
    except OSError as error:
        raise CannotWrite(out, error) from None
    finally:
        if draft.is_dir():
            shutil.rmtree(draft, ignore_errors=True)
        else:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
