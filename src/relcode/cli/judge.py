"""``relcode study judge``: a blind test of whether a person can read the codes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relcode.cli.ask import JsonOption
from relcode.cli.show import heading, notice, print_json, print_table, say
from relcode.errors import SettingError

if TYPE_CHECKING:
    from relcode.analysis.codes import RelationCodes
    from relcode.studies.judge_score import JudgeReport

YES_OR_NO = {True: "yes", False: "no", None: ""}


def judge(
    key: Annotated[Path, typer.Option(help="The key (JSON): written with a sheet, read with its answers; not for the reader.")],
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="A run's folder; --codes and --answers need none.")] = None,
    codes: Annotated[Path | None, typer.Option(help="Codes as relcode codes RUN --json prints them, in place of a run.")] = None,
    sheet: Annotated[Path | None, typer.Option(help="Write the questions into this file (tab-separated).")] = None,
    answers: Annotated[Path | None, typer.Option(help="Score this file: the sheet with its column answer filled in.")] = None,
    kinds: Annotated[str, typer.Option(help="Kinds of questions, with commas between.")] = "intruder,name,grade",
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of the questions, their order and the control.")] = 0,
    json: JsonOption = False,
) -> None:
    """Test blind whether a person can read the codes.

    Writes a sheet of questions about the dimensions and their names, about half of them of codes dealt out anew, and a key; then scores the answers.
    """
    if (sheet is None) == (answers is None):
        raise SettingError("study judge takes either --sheet, to write questions, or --answers, to score them: give one of the two")
    if answers is not None:
        if run is not None or codes is not None:
            raise SettingError("answers are scored with the key alone: leave out the run and --codes")
        _score(answers, key, json)
        return
    from relcode.studies.judge import make_sheet
    from relcode.studies.judge_files import write_sheet

    wanted = _kinds(kinds)
    made = make_sheet(_codes(run, codes), seed, wanted)
    assert sheet is not None
    write_sheet(made, sheet, key, str(run or codes))
    counts = {kind: sum(one.kind == kind for one in made.questions) for kind in wanted}
    control = sum(one.control for one in made.questions)
    notice(
        f"wrote {len(made.questions)} questions into {sheet} ({', '.join(f'{count} {kind}' for kind, count in counts.items())}; {control} control)"
    )
    notice(f"give the reader {sheet} alone, and score with: relcode study judge --answers {sheet} --key {key}")
    if json:
        print_json({"study": "judge", "sheet": made.identity, "seed": seed, "questions": counts})


def _codes(run: Path | None, codes: Path | None) -> RelationCodes:
    """Return the codes of a run, or of a file."""
    if (run is None) == (codes is None):
        raise SettingError("study judge takes codes from either a run or a file (--codes): give one of the two")
    if codes is not None:
        from relcode.studies.judge_files import read_codes

        return read_codes(codes)
    from relcode.explore.model import Model

    assert run is not None
    return Model.open(run, "cpu").codes()


def _kinds(text: str) -> list[str]:
    """Read kinds with commas between."""
    from relcode.studies.judge import KINDS

    given = [part.strip() for part in text.split(",")]
    if not set(given) <= set(KINDS):
        raise SettingError(f"--kinds cannot be {text!r}: allowed are {', '.join(KINDS)}, with commas between")
    return [kind for kind in KINDS if kind in given]


def _score(answers: Path, key: Path, json: bool) -> None:
    """Score answers and print what they say."""
    from relcode.studies.judge_files import read_answers, read_key
    from relcode.studies.judge_score import score

    sheet, source = read_key(key)
    report = score(sheet, read_answers(answers, sheet), source)
    if json:
        print_json(report.to_json())
        return
    print_judged(report)


def print_judged(report: JudgeReport) -> None:
    """Print the shares of right answers, the grades, and each dimension of the real codes."""
    say(f"{len(report.rows)} answers to sheet {report.sheet} ({report.source})")
    columns = ("right", "of", "share", "chance", "p", "p against control", "by equal words")
    against, rows = report.against_control(), []
    for one in report.tallies():
        if one.kind != "grade" and one.asked:
            numbers = (one.share, one.chance, one.p_value, None if one.control else against.get(one.kind), one.by_words)
            rows.append((one.kind, "control" if one.control else "codes", one.right, one.asked, *map(_number, numbers)))
    print_table(("question", "asked of", *columns), rows, right=columns)
    say("(p: of so many right by chance; by equal words: the share that a reader gets right who only finds words again)")
    real, control = report.grades(False), report.grades(True)
    if sum(real.values()) + sum(control.values()):
        heading("Does the name fit?")
        print_table(("asked of", *real), [("codes", *real.values()), ("control", *control.values())], right=tuple(real))
        if "grade" in against:
            say(f"right more often than on the control with p = {against['grade']:.2g}")
    heading("Dimension by dimension")
    shown = [
        (one.dimension, one.name or "–", YES_OR_NO[one.intruder], YES_OR_NO[one.name_found], one.grade or "")
        for one in report.dimensions()
        if not one.control
    ]
    print_table(("dimension", "name", "intruder found", "name matched", "name is"), shown, right=("dimension",))


def _number(value: float | None) -> str:
    """Write a share or a probability; small ones keep their size."""
    if value is None:
        return ""
    return f"{value:.3f}" if value >= 0.001 or value == 0 else f"{value:.1e}"
