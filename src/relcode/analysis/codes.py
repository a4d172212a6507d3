"""The codes of relations, made readable: how sparse they are, what each dimension means, which relations share one, and whether seeds agree.

    c_r = ReLU(A m_r)        share_r = c_r / Σ_j c_rj

c_r is the code by the plain ReLU (Takahashi et al. 2018, section 3; training may use a smoothed one), share_r is a row of the paper's heatmap.
Dimensions are numbered from 1 wherever a person reads them, from 0 in tensors.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import torch
from torch import Tensor

from relcode.analysis.names import directed_names, short_directed_names
from relcode.analysis.words import relation_forms, telling_words, words_of
from relcode.config import Settings
from relcode.errors import NotFinite, RelcodeError
from relcode.graph.vocab import Vocab
from relcode.model.autoencoder import codes as plain_codes
from relcode.model.autoencoder import flatten_matrices
from relcode.model.parameters import Parameters, coder_in_force

LARGE = 0.1  # an entry counts as large from this share on


class NoAutoencoder(RelcodeError):
    """A run that has no codes, since no autoencoder was trained in it."""

    def __init__(self, recipe: str) -> None:
        """Say that a run of this recipe has no codes, and which has."""
        super().__init__(
            f"this run (recipe {recipe}) has no autoencoder, so its relations have no codes: train with the default recipe, joint or joint+comp"
        )


class NotBegun(NoAutoencoder):
    """A run that was stopped before its autoencoder began."""

    def __init__(self, start: float) -> None:
        """Say when it begins."""
        RelcodeError.__init__(
            self,
            f"this run was stopped before its autoencoder began (coder.start={start:g} of the run), so there are no codes yet: resume it",
        )


@dataclass(frozen=True, eq=False)
class RelationCodes:
    """The codes of all 2R directed relations, r before R and its inverse at r + R."""

    names: tuple[str, ...]  # as paths that can be typed: country_of_film, ^country_of_film
    short: tuple[str, ...]  # the same, shortened without becoming ambiguous
    code_SC: Tensor
    share_SC: Tensor  # rows sum to 1; a code of zeros stays zeros
    num_relations: int

    @property
    def num_dimensions(self) -> int:
        """Return C, the size of a code."""
        return self.code_SC.shape[1]

    @property
    def dominant_S(self) -> Tensor:
        """Return the dimension with the largest entry of each code, counted from 0, and -1 for a code of zeros."""
        best_S = self.share_SC.argmax(dim=1)
        return torch.where(self.share_SC.any(dim=1), best_S, -1)

    def table(self) -> pa.Table:
        """Return one row a directed relation: names, the dominant dimension (from 1; null for zeros), code and share as lists."""
        dominant = [number + 1 if number >= 0 else None for number in self.dominant_S.tolist()]
        return pa.table(
            {
                "relation": pa.array(self.names, pa.utf8()),
                "short": pa.array(self.short, pa.utf8()),
                "dominant": pa.array(dominant, pa.int64()),
                "code": pa.array(self.code_SC.tolist(), pa.list_(pa.float64())),
                "share": pa.array(self.share_SC.tolist(), pa.list_(pa.float64())),
            }
        )


def scale_to_share(code_SC: Tensor) -> Tensor:
    """Return each row divided by its sum; a row of zeros stays zeros."""
    total_S1 = code_SC.sum(dim=1, keepdim=True)
    return torch.where(total_S1 > 0, code_SC / total_S1.clamp_min(torch.finfo(code_SC.dtype).tiny), 0)


def relation_codes(parameters: Parameters, settings: Settings, relations: Vocab) -> RelationCodes:
    """Read the codes out of a run's parameters; a run without an autoencoder raises :class:`NoAutoencoder`."""
    if parameters.encoder_CQ is None:
        raise NoAutoencoder(settings.recipe)
    if settings.coder.start > 0 and not bool(parameters.coder_count):
        raise NotBegun(settings.coder.start)
    encoder_CQ, _ = coder_in_force(parameters, settings.coder)
    return codes_of(plain_codes(parameters.matrix_SDD, encoder_CQ), relations)


def codes_of(code_SC: Tensor, relations: Vocab) -> RelationCodes:
    """Make the record of codes that are already computed, a row for each directed relation."""
    code_SC = code_SC.detach().cpu().double()
    if len(code_SC) != 2 * len(relations):
        raise ValueError(f"{len(relations)} relations have {2 * len(relations)} directed codes, not {len(code_SC)}")
    if not bool(code_SC.isfinite().all()):
        raise NotFinite("a relation's code is not finite: the run diverged; train again with a lower rate")
    return RelationCodes(directed_names(relations), short_directed_names(relations), code_SC, scale_to_share(code_SC), len(relations))


@dataclass(frozen=True, slots=True)
class Sparsity:
    """How sparse codes are; the first two are means over the codes that are not all zeros, NaN where none is."""

    two_largest: float  # the share that a code's two largest entries hold together
    over_tenth: float  # how many entries of a code hold more than a tenth
    zero_codes: int  # codes that are all zeros
    relations: int  # directed ones
    dimensions_used: int  # dimensions that are the largest of some code


def sparsity(codes: RelationCodes) -> Sparsity:
    """Measure how sparse the codes are (the paper: most relations have large values at two or three dimensions only)."""
    dominant_S = codes.dominant_S
    share_XC = codes.share_SC[dominant_S >= 0]
    two_X = share_XC.topk(min(2, codes.num_dimensions), dim=1).values.sum(dim=1)
    return Sparsity(
        two_largest=float(two_X.mean()),
        over_tenth=float((share_XC > LARGE).sum(dim=1).double().mean()),
        zero_codes=int((dominant_S < 0).sum()),
        relations=len(codes.names),
        dimensions_used=len(dominant_S[dominant_S >= 0].unique()),
    )


@dataclass(frozen=True, slots=True)
class StrongRelation:
    """A relation that is strong in a dimension."""

    relation: int  # directed number
    name: str
    short: str
    share: float
    code: float


@dataclass(frozen=True, slots=True)
class Dimension:
    """What one dimension of the codes stands for."""

    number: int  # from 1
    weight: float  # its part of all shares together
    strongest: tuple[StrongRelation, ...]
    words: tuple[str, ...]  # with an arrow where its relations lead from or to what the word names; none where they share no word

    def __str__(self) -> str:
        """Say it in one line: number, words where relations share some, strongest relations."""
        relations = ", ".join(f"{one.short} {one.share:.2f}" for one in self.strongest) or "no relation"
        return f"{self.number:>2}  {' '.join(self.words)}: {relations}" if self.words else f"{self.number:>2}  {relations}"


def describe_dimensions(codes: RelationCodes, top: int = 5) -> tuple[Dimension, ...]:
    """Describe each dimension by its strongest relations (largest share, then largest code) and the words that relations in it have in common.

    Words are those of the names, chosen by :func:`relcode.analysis.words.telling_words` among the relations with more than a tenth of their
    code here. Where these share none and one relation, both directions together, has more than half of their shares, they are that relation's words.
    """
    R = codes.num_relations
    named = [codes.short[number % R] for number in range(len(codes.names))]
    forms = [relation_forms(name, codes.names[number % R], number >= R) for number, name in enumerate(named)]
    part = {form: count / len(forms) for form, count in Counter(form for some in forms for form in some).items()}
    total = float(codes.share_SC.sum()) or 1.0
    found = []
    for number in range(codes.num_dimensions):
        share_S, code_S = codes.share_SC[:, number].tolist(), codes.code_SC[:, number].tolist()
        order = sorted(range(len(share_S)), key=lambda one: (-share_S[one], -code_S[one], codes.names[one]))
        strong = [StrongRelation(one, codes.names[one], codes.short[one], share_S[one], code_S[one]) for one in order[:top] if share_S[one] > 0]
        large = [one for one in order if share_S[one] >= LARGE]
        relations = [one % R for one in large]
        words = telling_words([share_S[one] for one in large], [forms[one] for one in large], relations, part, top)
        alone = _more_than_half([share_S[one] for one in large], relations) if not words else None
        words = words or list(words_of(named[alone]) if alone is not None else ())[:top]
        found.append(Dimension(number + 1, math.fsum(share_S) / total, tuple(strong), tuple(words)))
    return tuple(found)


def dimension_lines(dimensions: Sequence[Dimension]) -> list[str]:
    """Say each dimension in one line, and in one line more which have no relation with a tenth of its code: these stand for nothing."""
    idle = [one for one in dimensions if not one.strongest or one.strongest[0].share < LARGE]
    numbers = ", ".join(str(one.number) for one in idle)
    return [str(one) for one in dimensions if one not in idle] + ([f"no relation has a tenth of its code on: {numbers}"] if idle else [])


def _more_than_half(share_X: Sequence[float], relation_X: Sequence[int]) -> int | None:
    """Return the relation that has more than half of the shares, both directions together; None where none has."""
    mass: dict[int, float] = defaultdict(float)
    for share, relation in zip(share_X, relation_X, strict=True):
        mass[relation] += share
    return next((relation for relation, some in mass.items() if 2 * some > math.fsum(share_X)), None)


def dimensions_table(dimensions: Sequence[Dimension]) -> pa.Table:
    """Return one row a dimension; ``strongest`` is a list of relations with their shares."""
    strong = pa.list_(pa.struct([("relation", pa.utf8()), ("share", pa.float64())]))
    return pa.table(
        {
            "number": pa.array([one.number for one in dimensions], pa.int64()),
            "weight": pa.array([one.weight for one in dimensions], pa.float64()),
            "words": pa.array([list(one.words) for one in dimensions], pa.list_(pa.utf8())),
            "strongest": pa.array([[{"relation": each.name, "share": each.share} for each in one.strongest] for one in dimensions], strong),
        }
    )


def heatmap_order(codes: RelationCodes, per_dimension: int | None = None) -> list[int]:
    """Return the relations in the order of the heatmap: by dominant dimension, then by falling share in it, so that shared dimensions show as blocks.

    ``per_dimension`` keeps that many of each dimension; codes of zeros come last, and are left out where a number is given.
    """
    dominant = codes.dominant_S.tolist()
    groups: dict[int, list[int]] = defaultdict(list)
    for number, dimension in enumerate(dominant):
        groups[dimension].append(number)
    order: list[int] = []
    for dimension in sorted(set(groups) - {-1}):
        share_S = codes.share_SC[:, dimension].tolist()
        order += sorted(groups[dimension], key=lambda one: (-share_S[one], codes.names[one]))[:per_dimension]
    return order if per_dimension is not None else order + sorted(groups[-1], key=lambda one: codes.names[one])


@dataclass(frozen=True, slots=True)
class AlikePair:
    """Two relations whose codes agree while their matrices differ."""

    left: int
    right: int
    left_name: str
    right_name: str
    code_cosine: float
    matrix_cosine: float


def alike_codes(codes: RelationCodes, matrix_SDD: Tensor, *, top: int = 10, min_code_cosine: float = 0.9) -> tuple[AlikePair, ...]:
    """Find relations whose codes have a cosine of at least ``min_code_cosine`` while their matrices differ most; by falling difference of the two.

    The paper's example is producer_of_film and writer_of_film, codes .973, matrices .338: the autoencoder approximates, it does not equate. Of a
    pair and the pair of its inverses, which tell the same story, the one with the larger difference is listed.
    """
    code_SC = torch.nn.functional.normalize(codes.code_SC, dim=1)
    flat_SQ = torch.nn.functional.normalize(flatten_matrices(matrix_SDD.detach().cpu().float()), dim=1)
    code_SS, matrix_SS = code_SC @ code_SC.T, (flat_SQ @ flat_SQ.T).double()
    left_X, right_X = torch.triu_indices(len(code_SS), len(code_SS), offset=1)
    wanted_X = code_SS[left_X, right_X] >= min_code_cosine
    left_X, right_X = left_X[wanted_X], right_X[wanted_X]
    order_X = (code_SS - matrix_SS)[left_X, right_X].argsort(descending=True, stable=True)
    found: dict[frozenset[int], AlikePair] = {}
    for left, right in zip(left_X[order_X].tolist(), right_X[order_X].tolist(), strict=True):
        if len(found) == top:
            break
        inverses = frozenset((one + codes.num_relations) % len(codes.names) for one in (left, right))
        if inverses not in found:
            cosines = float(code_SS[left, right]), float(matrix_SS[left, right])
            found[frozenset((left, right))] = AlikePair(left, right, codes.names[left], codes.names[right], *cosines)
    return tuple(found.values())


def alike_table(pairs: Sequence[AlikePair]) -> pa.Table:
    """Return one row a pair: both names and both cosines."""
    text = {name: pa.array([getattr(one, f"{name}_name") for one in pairs], pa.utf8()) for name in ("left", "right")}
    return pa.table(text | {name: pa.array([getattr(one, name) for one in pairs], pa.float64()) for name in ("code_cosine", "matrix_cosine")})
