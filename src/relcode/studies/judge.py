"""Can a person read the codes? A blind test: questions about the dimensions, with a key that the reader does not see.

Three kinds of question, after Chang et al. 2009 ("Reading tea leaves: how humans interpret topic models"):

- *intruder*: four of the strongest relations of a dimension and one that lives elsewhere; which does not belong? Chance is 1/5.
- *name*: the name that the program gives a dimension and four lists of three relations, each of another dimension; which does it fit? Chance is
  1/4. A name is made of words of relations, so finding its words again would be no test: of the six strongest relations of each dimension, those
  that hold no word of the name are shown first, and the key says in how many of the right list a word is left to be found.
- *grade*: a name and the six strongest relations of its dimension; is it right, partly right or wrong?

A relation lives on a dimension where at least a tenth of its code lies there; a relation and its inverse count as one, by the larger share. Whatever
can be guessed from directions, lengths of names or frequent words is measured by a control: the same questions of codes whose rows were dealt anew
among the relations (each with its inverse), so that every dimension keeps its shares and loses its meaning. Both are asked mixed, and the sheet does
not tell which is which.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

import torch

from relcode.analysis.codes import LARGE, RelationCodes, describe_dimensions
from relcode.analysis.words import bare, words_of
from relcode.errors import SettingError

KINDS = ("intruder", "name", "grade")
GRADES = ("right", "partly", "wrong")
LETTERS = "ABCDE"
SEPARATOR = "; "  # between relations of a list
MEMBERS = 4  # relations of the dimension beside an intruder
LISTS = 4  # that a name may fit
LISTED = 3  # relations in each
STRONGEST = 6  # relations that stand for a dimension
FEWEST_GRADED = 2  # relations that a name must fit

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question and its answer."""

    kind: str
    control: bool  # of codes dealt anew
    dimension: int  # from 1
    name: str  # of the dimension; empty where its relations share no word
    choices: tuple[str, ...]
    correct: str | None  # a letter; a grade has none
    relations: tuple[str, ...] = ()  # that are graded
    words_left: int = 0  # relations of the right list that hold a word of the name


@dataclass(frozen=True)
class Sheet:
    """Questions in the order they are asked; ``identity`` tells sheets apart."""

    questions: tuple[Question, ...]
    seed: int

    @property
    def identity(self) -> str:
        """Return eight characters that depend on all questions."""
        text = json.dumps([asdict(one) for one in self.questions], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def numbers(self) -> tuple[str, ...]:
        """Return what each question is called: the sheet's identity and a number from 1."""
        identity = self.identity
        return tuple(f"{identity}-{number:03d}" for number in range(1, len(self.questions) + 1))

    def key(self, source: str) -> dict[str, Any]:
        """Return the key as plain values; ``source`` says where the codes came from."""
        about = {"study": "judge", "sheet": self.identity, "seed": self.seed, "source": source}
        return about | {"questions": [asdict(one) for one in self.questions]}


def make_sheet(codes: RelationCodes, seed: int = 0, kinds: Sequence[str] = KINDS) -> Sheet:
    """Make as many questions as the dimensions allow, and as many of the control; kinds one after the other, each in random order."""
    generator = torch.Generator().manual_seed(seed)
    dealt = deal_anew(codes, generator)
    made = [one for codes_now, control in ((codes, False), (dealt, True)) for one in _questions(codes_now, control, generator)]
    asked = [one for kind in KINDS if kind in kinds for one in shuffled([one for one in made if one.kind == kind], generator)]
    if not asked:
        raise SettingError(
            f"no question of kind {' or '.join(kinds)} can be made of {codes.num_dimensions} dimensions and {codes.num_relations} relations:"
            f" intruders need two dimensions and {MEMBERS} relations on one, names {LISTS} dimensions with {LISTED} relations; give codes of more"
        )
    return Sheet(tuple(asked), seed)


def deal_anew(codes: RelationCodes, generator: torch.Generator) -> RelationCodes:
    """Return the same codes with rows dealt anew among the relations, each with its inverse's."""
    deal_R = torch.randperm(codes.num_relations, generator=generator)
    deal_S = torch.cat([deal_R, deal_R + codes.num_relations])
    return replace(codes, code_SC=codes.code_SC[deal_S], share_SC=codes.share_SC[deal_S])


def shuffled(items: Sequence[Item], generator: torch.Generator) -> list[Item]:
    """Return the items in random order."""
    return [items[place] for place in torch.randperm(len(items), generator=generator).tolist()]


@dataclass(frozen=True)
class Lives:
    """Who lives on each dimension: directed relations, strongest first, a relation or its inverse; ``words`` are the dimensions' names."""

    codes: RelationCodes
    members: tuple[tuple[int, ...], ...]
    words: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, codes: RelationCodes) -> Lives:
        """Find them; ties go to the larger code, then by name, so that the order of relations in a file does not matter."""
        members = []
        for dimension in range(codes.num_dimensions):
            share_S, code_S = codes.share_SC[:, dimension].tolist(), codes.code_SC[:, dimension].tolist()
            large = [one for one in range(len(share_S)) if share_S[one] >= LARGE]
            order = sorted(large, key=lambda one: (-share_S[one], -code_S[one], codes.names[one]))
            once = {one % codes.num_relations: one for one in reversed(order)}  # the stronger of both directions is written last
            members.append(tuple(one for one in order if once[one % codes.num_relations] == one))
        return cls(codes, tuple(members), tuple(one.words for one in describe_dimensions(codes)))

    def strangers(self, dimension: int, other: int, most: int) -> list[int]:
        """Return the strongest of another dimension, ``most`` at most, without those that live on this one in either direction."""
        here = {one % self.codes.num_relations for one in self.members[dimension]}
        return [one for one in self.members[other][:most] if one % self.codes.num_relations not in here]

    def others(self, dimension: int, generator: torch.Generator) -> list[int]:
        """Return the other dimensions in random order."""
        return shuffled([one for one in range(len(self.members)) if one != dimension], generator)

    def short(self, relations: Sequence[int]) -> tuple[str, ...]:
        """Return the relations as people read them."""
        return tuple(self.codes.short[one] for one in relations)


def _questions(codes: RelationCodes, control: bool, generator: torch.Generator) -> list[Question]:
    """Return all questions that these codes allow."""
    lives = Lives.of(codes)
    made = []
    for dimension in range(codes.num_dimensions):
        for ask in (intruder_question, name_question, grade_question):
            question = ask(lives, dimension, generator)
            if question is not None:
                made.append(replace(question, control=control))
    return made


def intruder_question(lives: Lives, dimension: int, generator: torch.Generator) -> Question | None:
    """Ask for the intruder: one of the four strongest of a random other dimension that does not live on this one."""
    members = lives.members[dimension][:MEMBERS]
    pools = [pool for other in lives.others(dimension, generator) if (pool := lives.strangers(dimension, other, MEMBERS))]
    if len(members) < MEMBERS or not pools:
        return None
    intruder = shuffled(pools[0], generator)[0]
    choices = shuffled([*members, intruder], generator)
    return _question("intruder", lives, dimension, choices=lives.short(choices), correct=LETTERS[choices.index(intruder)])


def name_question(lives: Lives, dimension: int, generator: torch.Generator) -> Question | None:
    """Ask which list of relations the name of a dimension fits."""
    words = {bare(word) for word in lives.words[dimension]}
    right = _without_words(lives, list(lives.members[dimension][:STRONGEST]), words)
    lists = [right]
    for other in lives.others(dimension, generator):
        taken = {one % lives.codes.num_relations for some in lists for one in some}
        pool = [one for one in lives.strangers(dimension, other, STRONGEST) if one % lives.codes.num_relations not in taken]
        if len(pool) >= LISTED and len(lists) < LISTS:
            lists.append(_without_words(lives, pool, words))
    if not words or len(right) < LISTED or len(lists) < LISTS:
        return None
    order = shuffled(range(LISTS), generator)
    choices = tuple(SEPARATOR.join(lives.short(lists[place])) for place in order)
    left = sum(bool(words.intersection(words_of(name))) for name in lives.short(right))
    return _question("name", lives, dimension, choices=choices, correct=LETTERS[order.index(0)], words_left=left)


def grade_question(lives: Lives, dimension: int, generator: torch.Generator) -> Question | None:
    """Ask how well the name of a dimension fits its strongest relations; nothing is drawn."""
    members = lives.members[dimension][:STRONGEST]
    if not lives.words[dimension] or len(members) < FEWEST_GRADED:
        return None
    return _question("grade", lives, dimension, choices=GRADES, correct=None, relations=lives.short(members))


def _question(
    kind: str,
    lives: Lives,
    dimension: int,
    *,
    choices: tuple[str, ...],
    correct: str | None,
    relations: tuple[str, ...] = (),
    words_left: int = 0,
) -> Question:
    """Make the record of a question; whether it is of the control is said later."""
    name = " ".join(lives.words[dimension])
    return Question(
        kind=kind,
        control=False,
        dimension=dimension + 1,
        name=name,
        choices=choices,
        correct=correct,
        relations=relations,
        words_left=words_left,
    )


def _without_words(lives: Lives, relations: list[int], words: set[str]) -> list[int]:
    """Return three of the relations, those first that hold none of the words, else as they come."""
    return sorted(relations, key=lambda one: bool(words.intersection(words_of(lives.codes.short[one]))))[:LISTED]
