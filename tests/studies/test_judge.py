from __future__ import annotations

from dataclasses import asdict, replace
from fractions import Fraction

import pytest
import torch

from relcode.analysis.codes import RelationCodes, codes_of
from relcode.errors import SettingError
from relcode.graph.vocab import Vocab
from relcode.studies.judge import GRADES, LETTERS, Lives, Question, Sheet, deal_anew, grade_question, intruder_question, make_sheet, name_question
from relcode.studies.judge_score import NO_WORDS, binomial_tail, by_words, fisher_tail, score

TOPICS = ("film", "city", "team", "song")
PROPERTIES = ("country", "owner", "year", "size", "colour")


def blocks(topics: int = 4, each: int = 5) -> RelationCodes:
    """Return codes with a dimension for each topic; forward relations live there, inverses are zeros; the first is the strongest."""
    names = [f"{topic}_{word}" for topic in TOPICS[:topics] for word in PROPERTIES[:each]]
    code_SC = torch.zeros(2 * len(names), topics)
    for row in range(len(names)):
        code_SC[row, row // each] = 10 - row % each
    return codes_of(code_SC, Vocab(names, "relation"))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_who_lives_on_a_dimension_by_hand() -> None:
    """The inverse of a is stronger than a and stands for both; b and c tie in share, c has the larger code; d has a crumb only."""
    code_SC = torch.tensor([[3.0, 7], [2, 2], [4, 4], [0.9, 9.1], [8, 2], [0, 1], [0, 0], [0, 1]])
    lives = Lives.of(codes_of(code_SC, Vocab(["a", "b", "c", "d"], "relation")))
    assert lives.short(lives.members[0]) == ("^a", "c", "b")
    assert lives.short(lives.members[1]) == ("^b", "^d", "a", "c")  # ^b and ^d are equal in share and code, and go by name
    assert lives.short(lives.strangers(0, 1, 4)) == ("^d",)
    assert lives.short(lives.strangers(0, 1, 1)) == ()


def test_an_intruder_lives_elsewhere_and_the_others_are_the_strongest() -> None:
    lives = Lives.of(blocks())
    for seed in range(20):
        question = intruder_question(lives, 1, generator(seed))
        assert question is not None and question.dimension == 2 and question.correct is not None
        intruder = question.choices[LETTERS.index(question.correct)]
        assert set(question.choices) - {intruder} == {f"city_{word}" for word in PROPERTIES[:4]}
        assert not intruder.startswith("city") and intruder.split("_")[1] in PROPERTIES[:4]


def test_a_name_is_shown_with_lists_that_hold_its_words_least() -> None:
    names = [f"{topic}_{word}" for topic in TOPICS for word in PROPERTIES] + ["actor_age", "director_home", "studio_chief"]
    code_SC = torch.zeros(2 * len(names), 4)
    for row in range(20):
        code_SC[row, row // 5] = 10 - row % 5
    code_SC[20:23, 0] = 20
    lives = Lives.of(codes_of(code_SC, Vocab(names, "relation")))
    assert lives.words[0] == ("film→",)
    question = name_question(lives, 0, generator())
    assert question is not None and question.correct is not None and len(question.choices) == 4
    assert question.choices[LETTERS.index(question.correct)] == "actor_age; director_home; studio_chief" and question.words_left == 0
    others = [choice for choice in question.choices if "actor" not in choice]
    assert sorted(others) == [f"{topic}_country; {topic}_owner; {topic}_year" for topic in sorted(("city", "team", "song"))]
    second = name_question(lives, 1, generator())
    assert second is not None and second.words_left == 3  # there every relation holds the word


def test_a_grade_shows_the_six_strongest() -> None:
    question = grade_question(Lives.of(blocks(each=5)), 2, generator())
    assert question is not None and question.choices == GRADES and question.correct is None
    assert question.relations == tuple(f"team_{word}" for word in PROPERTIES) and question.name == "team→"


def test_the_control_keeps_every_dimension_s_shares_and_pairs_of_inverses() -> None:
    codes = blocks()
    dealt = deal_anew(codes, generator())
    assert dealt.names == codes.names and not torch.equal(dealt.code_SC, codes.code_SC)
    assert torch.equal(dealt.share_SC.sort(dim=0).values, codes.share_SC.sort(dim=0).values)
    rows = {tuple(row) for row in torch.cat([codes.code_SC[:20], codes.code_SC[20:]], dim=1).tolist()}
    assert {tuple(row) for row in torch.cat([dealt.code_SC[:20], dealt.code_SC[20:]], dim=1).tolist()} == rows


def test_a_sheet_repeats_by_its_seed_and_mixes_codes_with_the_control() -> None:
    sheet = make_sheet(blocks(), seed=3)
    assert sheet == make_sheet(blocks(), seed=3) and sheet.identity == make_sheet(blocks(), seed=3).identity
    assert sheet.identity != make_sheet(blocks(), seed=4).identity
    kinds = [one.kind for one in sheet.questions]
    assert kinds == sorted(kinds, key=("intruder", "name", "grade").index)
    intruders = [one for one in sheet.questions if one.kind == "intruder"]
    assert sorted((one.control, one.dimension) for one in intruders) == [(control, number) for control in (False, True) for number in (1, 2, 3, 4)]
    assert sheet.numbers[0] == f"{sheet.identity}-001" and len(set(sheet.numbers)) == len(sheet.questions)
    assert {one.kind for one in make_sheet(blocks(), kinds=("name",)).questions} == {"name"}


def test_what_cannot_be_asked_is_left_out() -> None:
    """One dimension has no elsewhere, but its name can be graded; three relations cannot hide an intruder; three dimensions make no four lists."""
    one = Lives.of(blocks(topics=1))
    assert intruder_question(one, 0, generator()) is None and name_question(one, 0, generator()) is None
    assert intruder_question(Lives.of(blocks(each=3)), 0, generator()) is None
    assert name_question(Lives.of(blocks(topics=3)), 0, generator()) is None
    with pytest.raises(SettingError, match=r"no question of kind intruder .* 1 dimensions and 5 relations"):
        make_sheet(blocks(topics=1), kinds=("intruder",))
    with pytest.raises(SettingError, match="no question"):
        make_sheet(codes_of(torch.zeros(4, 3), Vocab(["a", "b"], "relation")))


def test_nothing_depends_on_the_order_of_relations() -> None:
    codes = blocks()
    order = torch.arange(20).flip(0)
    turned = codes_of(codes.code_SC[torch.cat([order, order + 20])], Vocab([codes.names[one] for one in order.tolist()], "relation"))
    assert [Lives.of(turned).short(some) for some in Lives.of(turned).members] == [Lives.of(codes).short(some) for some in Lives.of(codes).members]


@pytest.mark.parametrize(("asked", "right", "p_value"), [(2, 2, 1 / 25), (2, 1, 9 / 25), (2, 0, 1.0), (0, 0, 1.0), (3, 3, 1 / 125)])
def test_chance_by_hand(asked: int, right: int, p_value: float) -> None:
    assert binomial_tail(asked, right, Fraction(1, 5)) == pytest.approx(p_value, rel=1e-15)


def test_chance_of_many_questions_does_not_overflow() -> None:
    assert binomial_tail(3000, 3000, Fraction(1, 5)) == 0.0 and binomial_tail(3000, 600, Fraction(1, 5)) == pytest.approx(0.5, abs=0.02)


def test_fisher_s_tail_by_hand() -> None:
    """Fisher's lady: three of four cups right, and one of the other four: (4·4 + 1)/70."""
    assert fisher_tail(3, 4, 1, 4) == pytest.approx(17 / 70, rel=1e-15)
    assert fisher_tail(4, 4, 0, 4) == pytest.approx(1 / 70, rel=1e-15)
    assert fisher_tail(0, 4, 0, 4) == fisher_tail(0, 4, 4, 4) == fisher_tail(4, 4, 4, 4) == 1


def test_a_reader_of_equal_words_by_hand() -> None:
    about = {"control": False, "dimension": 1, "name": "film→ →song"}
    intruder = Question(kind="intruder", choices=("film_a1", "^film_year", "film_song", "song_owner", "car_size"), correct="E", **about)
    assert by_words(intruder) == 1.0  # film_a1 shares film twice, film_song three words, song_owner one, car_size none
    assert by_words(replace(intruder, correct="D")) == 0.0
    assert by_words(replace(intruder, choices=("aa", "bb", "cc", "dd", "ee"))) == 0.2
    name = Question(kind="name", choices=("film_year; car", "song; rain", "film; song", "car; rain"), correct="C", **about)
    assert by_words(name) == 1.0
    assert by_words(replace(name, choices=("film; x1", "rain", "song", "car"))) == 0.5
    assert by_words(Question(kind="grade", choices=GRADES, correct=None, **about)) is None


def test_answers_are_tallied_by_kind_and_control() -> None:
    def ask(kind: str, control: bool, correct: str | None, words_left: int = 0) -> Question:
        choices = GRADES if kind == "grade" else ("a", "b", "c", "d", "e")[: 5 if kind == "intruder" else 4]
        return Question(kind=kind, control=control, dimension=1, name="film→", choices=choices, correct=correct, words_left=words_left)

    real = [ask("intruder", False, "A"), ask("name", False, "B", 2), ask("grade", False, None)]
    control = [ask("intruder", True, "C"), ask("name", True, "D"), ask("grade", True, None)]
    report = score(Sheet((*real, *control), 0), ["A", "B", "A", "A", "D", "C"], "a run")
    found = {(one.kind, one.control): (one.right, one.asked, one.share, one.p_value) for one in report.tallies()}
    assert found["intruder", False] == (1, 1, 1.0, 0.2) and found["intruder", True] == (0, 1, 0.0, 1.0)
    assert found["name", False] == found["name", True] == (1, 1, 1.0, 0.25)
    assert found[NO_WORDS, False] == (0, 0, None, None) and found[NO_WORDS, True] == (1, 1, 1.0, 0.25)
    assert found["grade", False] == (1, 1, 1.0, None)
    assert report.grades(False) == {"right": 1, "partly": 0, "wrong": 0} and report.grades(True) == {"right": 0, "partly": 0, "wrong": 1}
    assert report.against_control() == {"intruder": 0.5, "name": 1.0, "grade": 0.5}
    first, second = report.dimensions()
    assert asdict(first) == {"dimension": 1, "control": False, "name": "film→", "intruder": True, "name_found": True, "grade": "right"}
    assert (second.control, second.intruder, second.name_found, second.grade) == (True, False, True, "wrong")


def test_a_perfect_reader_of_clear_topics_is_right_on_the_codes_alone() -> None:
    """Whoever goes by the topic in the name finds every real intruder, and about one in five of the control's."""
    real, control = [], []
    for seed in range(10):
        for one in make_sheet(blocks(), seed=seed, kinds=("intruder",)).questions:
            topics = [choice.split("_")[0].lstrip("^") for choice in one.choices]
            answer = LETTERS[min(range(5), key=lambda place: topics.count(topics[place]))]
            (control if one.control else real).append(answer == one.correct)
    assert all(real) and sum(control) / len(control) < 0.6
