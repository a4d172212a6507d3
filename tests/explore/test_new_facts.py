from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from small_model import small_model

import relcode
from relcode.explore import new_facts as module
from relcode.explore.model import Model
from relcode.explore.new_facts import _Askers, new_facts


def test_the_likelihood_is_the_geometric_mean_of_both_shares() -> None:
    # Of r, heads in train are a and c, tails a and b; a r b, c r a and (valid) a r a are known, so only (c, r, b) is new.
    # u_c M_r = (1, 2): scores a 5, b 11, c -1, d 0.   u_b M_^r = (0, 1): a 2, b 4, c 0, d 0; the head c has 0.
    forwards = math.exp(11) / sum(math.exp(x) for x in (5, 11, -1, 0))
    backwards = math.exp(0) / sum(math.exp(x) for x in (2, 4, 0, 0))
    (found,) = [one for one in new_facts(small_model()) if one.relation == "r"]
    assert (found.head, found.tail, found.score) == ("c", "b", pytest.approx(11))
    assert found.likelihood == pytest.approx(math.sqrt(forwards * backwards), rel=1e-5)


def test_new_facts_agree_with_a_loop(family_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_NUMBERS", 300)  # several blocks
    model = relcode.load(family_run, device="cpu")
    expected = slow_new_facts(model)
    found = new_facts(model, count=100_000, most_of_one=100_000)
    assert {(one.head, one.relation, one.tail): pytest.approx(one.likelihood, rel=1e-3) for one in found} == expected
    assert [one.likelihood for one in found] == sorted((one.likelihood for one in found), reverse=True)


def slow_new_facts(model: Model) -> dict[tuple[str, str, str], float]:
    data, scorer = model.dataset, model.scorer
    facts = {tuple(fact) for split in (data.train, data.valid, data.test) for fact in split.tolist()}
    askers = _Askers.of(model)
    best: dict[tuple[int, int, int], float] = {}
    score_SEE = torch.einsum("hd,sde,te->sht", scorer.head_ED, scorer.matrix_SDD, scorer.tail_ED)
    share_SEE = score_SEE.softmax(dim=2)
    for r in range(data.num_relations):
        for h in askers.open_heads(r).tolist():
            for t in askers.open_heads(r + data.num_relations).tolist():
                if (h, r, t) not in facts and h != t:
                    best[h, r, t] = math.sqrt(share_SEE[r, h, t] * share_SEE[r + data.num_relations, t, h])
    names = data.entities, data.relations
    return {(names[0][h], names[1][r], names[0][t]): value for (h, r, t), value in best.items() if value >= best.get((t, r, h), 0)}


def test_none_of_them_is_in_the_data_and_no_relation_floods_the_list(family_run: Path) -> None:
    model = relcode.load(family_run, device="cpu")
    found = new_facts(model, count=6, most_of_one=2)
    assert 0 < len(found) <= 6
    assert not any(one.known for one in model.score_facts([(one.head, one.relation, one.tail) for one in found]))
    assert max(sum(one.relation == other.relation for other in found) for one in found) <= 2


def test_where_each_head_has_one_answer_only_those_like_them_without_one_are_asked() -> None:
    countries = [f"country{number}" for number in range(12)]
    facts = [(country, "capital", f"city{number}") for number, country in enumerate(countries)]
    facts += [(country, "continent", "Europe" if number % 2 else "Asia") for number, country in enumerate(countries[:-1])]
    data = relcode.dataset_from_facts(facts)
    model = small_model()
    model.dataset = data
    askers = _Askers.of(model)
    names = lambda numbers: [data.entities[number] for number in numbers.tolist()]  # noqa: E731
    continent = data.relations.index("continent")
    assert names(askers.open_heads(continent)) == ["country11"]
    assert names(askers.open_heads(continent + 2)) == ["Asia", "Europe"]  # a continent has many countries
