"""What a reader's answers say: how many are right on the codes and on the control, and what chance would give.

Chance for one kind of question is exact: with n questions of which k are right, p = Σ_{i≥k} C(n,i) q^i (1-q)^(n-i), q = 1/choices. Whether the
codes are read better than the control is Fisher's exact test, one-sided: the chance of so many right answers among the real questions, had all
right answers been dealt out among real and control ones alike. Beside both stands what a reader would reach who only finds equal words and
understands none of them: for an intruder the relation that shares the fewest words with the others, for a name the list that holds its words
most often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from math import comb
from typing import Any

from relcode.analysis.words import bare, words_of
from relcode.studies.judge import GRADES, LETTERS, SEPARATOR, Question, Sheet

NO_WORDS = "name, no word to find"  # name questions whose right list holds no word of the name


@dataclass(frozen=True, slots=True)
class Judged:
    """One question with the reader's answer; ``right`` of a grade says that the name was found right."""

    question: str
    kind: str
    control: bool
    dimension: int
    name: str
    answer: str
    correct: str | None
    right: bool
    grade: str | None
    words_left: int
    by_words: float | None  # the chance of a right answer for who only finds equal words; a grade has none


@dataclass(frozen=True, slots=True)
class Tally:
    """How many questions of a kind were answered rightly; None where a figure does not exist."""

    kind: str
    control: bool
    asked: int
    right: int
    share: float | None
    chance: float | None  # a grade has none
    p_value: float | None  # of so many right by chance
    by_words: float | None  # the share that equal words alone would get right


@dataclass(frozen=True, slots=True)
class OfDimension:
    """What was found of one dimension; None where it was not asked."""

    dimension: int
    control: bool
    name: str
    intruder: bool | None
    name_found: bool | None
    grade: str | None


@dataclass(frozen=True)
class JudgeReport:
    """All answers, and what they add up to."""

    sheet: str
    seed: int
    source: str
    rows: tuple[Judged, ...]

    def tallies(self) -> tuple[Tally, ...]:
        """Return one tally for each kind, the real codes' before the control's."""
        chance = {"intruder": Fraction(1, 5), "name": Fraction(1, 4), NO_WORDS: Fraction(1, 4)}
        found = []
        for kind in ("intruder", "name", NO_WORDS, "grade"):
            for control in (False, True):
                rows = self._of(kind, control)
                right = sum(row.right for row in rows)
                share = right / len(rows) if rows else None
                by_chance = chance.get(kind)
                p_value = binomial_tail(len(rows), right, by_chance) if rows and by_chance is not None else None
                words = [row.by_words for row in rows if row.by_words is not None]
                by_words = sum(words) / len(words) if words else None
                found.append(Tally(kind, control, len(rows), right, share, None if by_chance is None else float(by_chance), p_value, by_words))
        return tuple(found)

    def against_control(self) -> dict[str, float]:
        """Return for each kind asked of both the chance that real questions do so much better than those of the control."""
        found = {}
        for kind in ("intruder", "name", NO_WORDS, "grade"):
            real, control = self._of(kind, False), self._of(kind, True)
            if real and control:
                found[kind] = fisher_tail(sum(row.right for row in real), len(real), sum(row.right for row in control), len(control))
        return found

    def grades(self, control: bool) -> dict[str, int]:
        """Return how often each grade was given."""
        given = [row.grade for row in self._of("grade", control)]
        return {grade: given.count(grade) for grade in GRADES}

    def dimensions(self) -> tuple[OfDimension, ...]:
        """Return what was found of each dimension, the real ones first."""
        found = []
        for control, number in sorted({(row.control, row.dimension) for row in self.rows}):
            rows = {row.kind: row for row in self.rows if (row.control, row.dimension) == (control, number)}
            right = {kind: row.right for kind, row in rows.items()}
            grade = rows["grade"].grade if "grade" in rows else None
            found.append(OfDimension(number, control, next(iter(rows.values())).name, right.get("intruder"), right.get("name"), grade))
        return tuple(found)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        about = {"study": "judge", "sheet": self.sheet, "seed": self.seed, "source": self.source}
        summed = {"tallies": [asdict(one) for one in self.tallies()], "against_control": self.against_control()}
        graded = {"grades": {"real": self.grades(False), "control": self.grades(True)}}
        return about | summed | graded | {"dimensions": [asdict(one) for one in self.dimensions()], "rows": [asdict(row) for row in self.rows]}

    def _of(self, kind: str, control: bool) -> list[Judged]:
        """Return the answers of a kind."""
        rows = [row for row in self.rows if row.control == control and row.kind == kind.partition(",")[0]]
        return [row for row in rows if not row.words_left] if kind == NO_WORDS else rows


def score(sheet: Sheet, answers: Sequence[str], source: str = "") -> JudgeReport:
    """Compare a letter for each question with the key."""
    rows = tuple(_judge(*one) for one in zip(sheet.numbers, sheet.questions, answers, strict=True))
    return JudgeReport(sheet.identity, sheet.seed, source, rows)


def _judge(number: str, one: Question, answer: str) -> Judged:
    """Compare one answer with the key."""
    grade = one.choices[LETTERS.index(answer)] if one.kind == "grade" else None
    right = grade == GRADES[0] if grade is not None else answer == one.correct
    return Judged(number, one.kind, one.control, one.dimension, one.name, answer, one.correct, right, grade, one.words_left, by_words(one))


def by_words(question: Question) -> float | None:
    """Return the chance that the right choice is taken by who only finds equal words and guesses among equals; None for a grade."""
    if question.correct is None:
        return None
    if question.kind == "name":
        words = {bare(word) for word in question.name.split()}
        fit = [sum(len(words.intersection(words_of(relation))) for relation in choice.split(SEPARATOR)) for choice in question.choices]
    else:
        held = [set(words_of(choice)) for choice in question.choices]
        fit = [-sum(len(one & other) for other in held) + len(one) for one in held]  # itself is among the others
    best = [letter for letter, value in zip(LETTERS, fit, strict=False) if value == max(fit)]
    return (question.correct in best) / len(best)


def binomial_tail(asked: int, right: int, chance: Fraction) -> float:
    """Return the probability of at least so many right among independent questions with this chance each, exactly."""
    return float(sum(comb(asked, one) * chance**one * (1 - chance) ** (asked - one) for one in range(right, asked + 1)))


def fisher_tail(right: int, asked: int, control_right: int, control_asked: int) -> float:
    """Return the probability that at least ``right`` of all right answers fall on the first ``asked`` questions, were they dealt out alike."""
    every = right + control_right
    ways = sum(comb(asked, one) * comb(control_asked, every - one) for one in range(right, min(asked, every) + 1))
    return float(Fraction(ways, comb(asked + control_asked, every)))
