from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from relcode.analysis.codes import (
    NoAutoencoder,
    RelationCodes,
    alike_codes,
    alike_table,
    codes_of,
    describe_dimensions,
    dimension_lines,
    dimensions_table,
    heatmap_order,
    relation_codes,
    scale_to_share,
    sparsity,
)
from relcode.errors import NotFinite, RelcodeError
from relcode.graph.dataset import Dataset
from relcode.graph.vocab import Vocab
from relcode.model.parameters import initial_parameters
from relcode.recipes import recipe

FILMS = Vocab(["currency_of_film_budget", "currency_of_gdp", "language_of_film", "writer_of_film"], "relation")
#                      dimensions: currency, film, other
FILM_CODES = torch.tensor(
    [
        [2.0, 2.0, 0.0],  # currency_of_film_budget lies on both, as in the paper
        [3.0, 0.0, 0.0],
        [0.0, 4.0, 1.0],
        [0.0, 6.0, 0.0],
        [1.0, 1.0, 0.0],
        [4.0, 0.0, 0.0],
        [0.0, 3.0, 1.0],
        [0.0, 0.0, 0.0],
    ]
)


@pytest.fixture
def films() -> RelationCodes:
    return codes_of(FILM_CODES, FILMS)


def test_rows_sum_to_one_and_zeros_stay_zeros(films: RelationCodes) -> None:
    assert films.share_SC.sum(dim=1).tolist() == [1, 1, 1, 1, 1, 1, 1, 0]
    assert films.share_SC[2].tolist() == [0, 0.8, 0.2]
    assert films.dominant_S.tolist() == [0, 0, 1, 1, 0, 0, 1, -1]


def test_a_tiny_code_still_sums_to_one() -> None:
    assert scale_to_share(torch.tensor([[1e-300, 3e-300]], dtype=torch.float64)).tolist() == [[0.25, 0.75]]


def test_sparsity_by_hand(films: RelationCodes) -> None:
    figures = sparsity(films)
    assert figures.two_largest == 1
    assert figures.over_tenth == pytest.approx((2 + 1 + 2 + 1 + 2 + 1 + 2) / 7)
    assert (figures.zero_codes, figures.relations, figures.dimensions_used) == (1, 8, 2)


def test_sparsity_of_codes_spread_alike() -> None:
    figures = sparsity(codes_of(torch.ones(4, 16), Vocab(["a", "b"], "relation")))
    assert figures.two_largest == pytest.approx(2 / 16)
    assert figures.over_tenth == 0


def test_sparsity_where_every_code_is_zero_is_not_a_number() -> None:
    figures = sparsity(codes_of(torch.zeros(2, 3), Vocab(["a"], "relation")))
    assert math.isnan(figures.two_largest) and math.isnan(figures.over_tenth)
    assert figures.zero_codes == 2


def test_dimensions_are_described_by_what_their_relations_share(films: RelationCodes) -> None:
    currency, film, other = describe_dimensions(films, top=2)
    assert [one.name for one in currency.strongest] == ["^currency_of_gdp", "currency_of_gdp"]  # equal shares: the larger code first
    assert currency.words == ("currency",)
    assert film.strongest[0].name == "writer_of_film" and film.strongest[0].share == 1
    assert film.words == ("→film",)  # language_of_film and writer_of_film: read as they stand, from the language to the film
    assert currency.number == 1 and other.number == 3
    assert other.words == ("language", "film")  # one relation and its inverse share nothing with anybody: it is named itself
    assert sum(one.weight for one in (currency, film, other)) == pytest.approx(1)


def test_a_word_that_all_relations_hold_says_nothing() -> None:
    codes = codes_of(torch.eye(2).repeat(3, 1), Vocab(["x_a", "x_b", "x_c"], "relation"))
    assert all("x" not in one.words for one in describe_dimensions(codes))


def test_two_relations_without_a_word_in_common_leave_a_dimension_without_a_name() -> None:
    codes = codes_of(torch.tensor([[1.0, 0], [1, 0], [0, 1], [0, 0], [0, 0], [0, 0]]), Vocab(["a_big_house", "the_red_car", "rain"], "relation"))
    nameless, alone = describe_dimensions(codes)
    assert nameless.words == () and str(nameless) == " 1  a_big_house 1.00, the_red_car 1.00"
    assert alone.words == ("rain",)


def test_dimensions_that_stand_for_nothing_are_named_in_one_line() -> None:
    # The second has crumbs of a code, the fourth nothing at all.
    codes = codes_of(torch.tensor([[1.0, 0, 0, 0], [0, 0.05, 0.95, 0], [0, 0, 0, 0], [0.91, 0.09, 0, 0]]).double(), Vocab(["a", "b"], "relation"))
    lines = dimension_lines(describe_dimensions(codes))
    assert [line[:2] for line in lines[:-1]] == [" 1", " 3"] and lines[-1] == "no relation has a tenth of its code on: 2, 4"
    assert dimension_lines(describe_dimensions(codes)[:1]) == [str(describe_dimensions(codes)[0])]


def test_order_groups_relations_by_dominant_dimension(films: RelationCodes) -> None:
    names = [films.names[number] for number in heatmap_order(films)]
    assert names == [
        "^currency_of_gdp",
        "currency_of_gdp",
        "^currency_of_film_budget",
        "currency_of_film_budget",
        "writer_of_film",
        "language_of_film",
        "^language_of_film",
        "^writer_of_film",
    ]
    assert [films.names[number] for number in heatmap_order(films, per_dimension=1)] == ["^currency_of_gdp", "writer_of_film"]


def test_order_has_every_relation_once(films: RelationCodes) -> None:
    assert sorted(heatmap_order(films)) == list(range(8))


def turned(angle: float) -> Tensor:
    """Return a 2×2 rotation."""
    return torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


def test_alike_codes_with_different_matrices_are_found() -> None:
    relations = Vocab(["producer", "writer", "country"], "relation")
    code_SC = torch.tensor([[1.0, 0, 0], [1, 0.1, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 1, 0]])
    matrix_SDD = torch.stack([turned(0.0), turned(1.2), turned(0.0), turned(0.3), turned(0.3), turned(0.5)])
    pairs = alike_codes(codes_of(code_SC, relations), matrix_SDD, top=5)
    assert [(one.left_name, one.right_name) for one in pairs] == [("producer", "writer"), ("country", "^country")]
    assert pairs[0].code_cosine == pytest.approx(1 / math.sqrt(1.01))
    assert pairs[0].matrix_cosine == pytest.approx(math.cos(1.2))
    # ^producer and ^writer agree in both, and tell of the same two relations: they are not listed again.
    assert len(alike_codes(codes_of(code_SC, relations), matrix_SDD, top=1)) == 1


def test_zero_codes_are_not_alike() -> None:
    codes = codes_of(torch.zeros(4, 2), Vocab(["a", "b"], "relation"))
    assert alike_codes(codes, torch.randn(4, 3, 3, generator=torch.Generator().manual_seed(0))) == ()


def test_table_holds_everything(films: RelationCodes) -> None:
    table = films.table()
    assert table.column_names == ["relation", "short", "dominant", "code", "share"]
    assert table["dominant"].to_pylist() == [1, 1, 2, 2, 1, 1, 2, None]
    assert table["code"].to_pylist() == FILM_CODES.tolist()


def test_codes_of_a_run() -> None:
    settings = recipe("joint").with_values({"model.dim": 6, "model.code_dim": 4})
    parameters = initial_parameters(5, 8, settings, torch.Generator().manual_seed(0))
    codes = relation_codes(parameters, settings, FILMS)
    assert parameters.encoder_CQ is not None
    for number in range(8):
        flat = parameters.matrix_SDD[number].flatten()
        expected = (parameters.encoder_CQ @ (flat / flat.norm() * math.sqrt(6))).clamp_min(0)
        torch.testing.assert_close(codes.code_SC[number].float(), expected)


def test_a_run_without_an_autoencoder_says_so_in_one_line() -> None:
    settings = recipe("base").with_values({"model.dim": 4})
    parameters = initial_parameters(5, 8, settings, torch.Generator().manual_seed(0))
    with pytest.raises(NoAutoencoder, match=r"recipe base.*joint") as caught:
        relation_codes(parameters, settings, FILMS)
    assert isinstance(caught.value, RelcodeError) and "\n" not in str(caught.value)


def test_codes_that_are_not_finite_are_an_error() -> None:
    with pytest.raises(NotFinite):
        codes_of(torch.tensor([[1.0], [torch.nan]]), Vocab(["a"], "relation"))


def test_tables_of_dimensions_and_of_pairs_alike(films: RelationCodes) -> None:
    described = describe_dimensions(films, top=2)
    rows = dimensions_table(described).to_pylist()
    assert [row["number"] for row in rows] == [one.number for one in described]
    assert [[one["relation"] for one in row["strongest"]] for row in rows] == [[one.name for one in each.strongest] for each in described]
    matrix_SDD = torch.randn(len(films.names), 3, 3, generator=torch.Generator().manual_seed(0))
    pairs = alike_codes(films, matrix_SDD, min_code_cosine=0.0)
    assert pairs and alike_table(pairs).to_pylist()[0] == {
        "left": pairs[0].left_name,
        "right": pairs[0].right_name,
        "code_cosine": pairs[0].code_cosine,
        "matrix_cosine": pairs[0].matrix_cosine,
    }
    assert dimensions_table(()).num_rows == alike_table(()).num_rows == 0


def test_a_run_stopped_before_its_autoencoder_began_has_no_codes(family: Dataset) -> None:
    settings = recipe("default").with_values({"model.dim": 4, "model.code_dim": 3})
    parameters = initial_parameters(family.num_entities, family.num_directed, settings, torch.Generator().manual_seed(0))
    with pytest.raises(NoAutoencoder, match=r"before its autoencoder began \(coder\.start=0\.5"):
        relation_codes(parameters, settings, family.relations)
