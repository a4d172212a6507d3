"""Showing training: a bar with a line beneath on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from relcode.cli.show import has_terminal, notice, notices
from relcode.experiment import Advanced, Event, Finished, Started, Validated
from relcode.explore.training import describe_event, describe_kept, describe_losses, describe_validation, duration, smoothed, watched


def shown(events: Iterable[Event]) -> Iterator[Event]:
    """Pass events on, showing them on standard error."""
    return _with_bar(smoothed(events)) if has_terminal() else watched(events, progress=True)


def _with_bar(events: Iterable[Event]) -> Iterator[Event]:
    """Show a bar with the time left, and beneath it speed, losses and the last validation, whatever the width of the window."""
    from rich.console import Group
    from rich.live import Live
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.text import Text

    bar = Progress(TextColumn("{task.description}"), BarColumn(bar_width=None), TaskProgressColumn(), TextColumn("{task.fields[left]}"), expand=True)
    task = bar.add_task("training", total=None, left="")
    lines = {"advance": "", "valid": ""}

    def view() -> Group:
        texts = (Text(line, no_wrap=True, overflow="ellipsis", style="dim") for line in lines.values() if line)
        return Group(bar, *texts)

    with Live(console=notices(), get_renderable=view, refresh_per_second=8, transient=True) as live:
        for event in events:
            if isinstance(event, Started):
                live.console.print(Text(describe_event(event)), soft_wrap=True)
                bar.update(task, total=event.total_steps, completed=event.step)
            elif isinstance(event, Advanced):
                # Where the clock ends training, the bar follows the clock.
                share = max(event.step / event.total_steps, event.seconds / max(event.seconds + event.seconds_left, 1e-9))
                bar.update(task, completed=share * event.total_steps, left=f"{duration(event.seconds_left)} left")
                lines["advance"] = f"epoch {event.epoch:.1f}/{event.epochs} · {describe_losses(event)}"
            elif isinstance(event, Validated):
                lines["valid"] = f"{describe_validation(event)} at epoch {event.epoch:.1f}{describe_kept(event)}"
            yield event
            if isinstance(event, Finished):
                break
    notice(describe_event(event))
