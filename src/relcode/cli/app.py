"""The command ``relcode``: its subcommands, and what becomes of errors.

A mistake of the user's is one line on standard error and exit code 2 (1 for a model that diverged, 130 after Ctrl-C); a traceback is a defect.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from relcode import __version__
from relcode.cli import (
    ask,
    calibrate,
    card,
    data,
    demo,
    download,
    explain,
    export,
    extend,
    importing,
    inspect,
    reproduce,
    serve,
    study,
    suggest,
    training,
)
from relcode.errors import RelcodeError

INTERRUPTED = 130
BROKEN_PIPE = 1

app = typer.Typer(
    name="relcode",
    help="Complete a knowledge base with relations people can read: train, evaluate, ask.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: it looks the same in a pipe, in a narrow window and on a console without box characters
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"relcode {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")] = False,
) -> None:
    """Complete a knowledge base with relations people can read: train, evaluate, ask."""


for module in (demo, training, extend, ask, suggest, calibrate, explain, inspect, data, importing, download, export, card, reproduce, study, serve):
    module.register(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with the arguments given (those of the process by default) and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8")  # whatever the system's code page: names of entities are UTF-8
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # large pages for torch, which reads this when it is loaded (docs/performance.md)
    try:
        result = app(args=None if arguments is None else list(arguments), prog_name="relcode", standalone_mode=False, windows_expand_args=False)
        sys.stdout.flush()
    except RelcodeError as error:
        return _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:  # whoever reads us has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left of it would fail again at the end
        return _fail(f"the output could not be written: {error.strerror}", 1)
    except Exception as error:
        usage = getattr(error, "format_message", None)  # a mistake in the arguments, whichever version of typer finds it
        if usage is None:
            raise
        context = getattr(error, "ctx", None)
        if type(error).__name__ == "NoArgsIsHelpError" and context is not None:
            print(context.get_help(), file=sys.stderr)
            return 2
        command = context.command_path if context is not None else "relcode"
        message = usage().rstrip(".")
        return _fail(f"{message}{'' if message.endswith('?') else ';'} see {command} --help", getattr(error, "exit_code", 2))
    if result == INTERRUPTED:  # some versions of typer turn Ctrl-C into an exit code
        return _fail("interrupted", INTERRUPTED)
    return result if isinstance(result, int) else 0


def _fail(message: str, code: int) -> int:
    """Say what went wrong in one line and return the exit code."""
    print(f"relcode: {' '.join(message.split())}", file=sys.stderr)
    return code
