"""One function per published setting; a recipe is a name for settings, and nothing more."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from relcode.config import CoderSettings, ModelSettings, SamplingSettings, Settings, TrainingSettings, UpdateSettings
from relcode.errors import UnknownName


def base() -> Settings:
    """Return the paper's base model: single facts, no autoencoder.

    The objective is the paper's; it is climbed by Adagrad in large steps, against noises that many rows share (docs/model.md): how many depends on
    where training runs (:func:`fit_to_device`).
    """
    return Settings(
        recipe="base",
        model=ModelSettings(autoencoder=False),
        sampling=SamplingSettings(tile=None, noises=None, noise_draws=None, noise_sharing="batch"),
        updates=UpdateSettings(rule="adagrad", factor_limit=math.inf, saturation=math.inf),
        training=TrainingSettings(epochs=200),
    )


def joint() -> Settings:
    """Return base with the jointly trained relation autoencoder."""
    settings = base()
    return replace(settings, recipe="joint", model=replace(settings.model, autoencoder=True))


def with_paths(settings: Settings) -> Settings:
    """Add compositional training: walks of length 1 + Poisson(1), as in the paper's main table."""
    sampling, training = replace(settings.sampling, path_mean=1.0), replace(settings.training, epochs=120)
    return replace(settings, recipe=f"{settings.recipe}+comp", sampling=sampling, training=training)


SMALL_FACTS, MEDIUM_FACTS = 20_000, 50_000  # below these, vectors of size 64 and 128 are enough for whole matrices
LARGE_FACTS = 250_000  # from which the penalty of blocks is that of large KBs


def whole_dim(num_facts: int) -> int:
    """Return a size for vectors where matrices are whole: larger where there is more to learn."""
    if num_facts < MEDIUM_FACTS:
        return 64 if num_facts < SMALL_FACTS else 128
    return 256


def fit_to_data(settings: Settings, num_facts: int) -> Settings:
    """Fill in what is left open from the number of training facts, so that settings saved with a run are complete.

    A step takes about a thirtieth of an epoch, between 128 and 16,384 edges (512 and 4,096 where steps are counted, of which larger ones diverge):
    larger steps are faster, but a small KB would see too few of them.
    There are about 512 autoencoder updates an epoch (the released program has 531 on FB15k-237), as codes need many to become sparse.
    Where matrices begin near the identity, an autoencoder that leaves this open looks at what they have beside it. Its similarities begin at √(d/c),
    and a step moves a code by d times the rate: beyond d = 256 both are brought back to what they are there, or codes overshoot and fall to 0.
    """
    directed = 2 * num_facts
    least, most = (512, 4096) if settings.updates.rule == "counted" else (128, 16384)
    edges = settings.sampling.edges or min(most, max(least, 1 << round(math.log2(max(32, directed) / 32))))
    every = settings.coder.every or float(min(1024, max(16, round(directed / 512))))
    dim = settings.model.dim or whole_dim(num_facts)
    return replace(
        settings,
        model=replace(settings.model, dim=dim),
        sampling=replace(settings.sampling, edges=edges),
        coder=replace(
            settings.coder,
            every=every,
            traceless=settings.model.initial in ("identity", "leaning") if settings.coder.traceless is None else settings.coder.traceless,
            rate=settings.coder.rate or 0.25 * min(1.0, 256 / dim),
            scale=settings.coder.scale or round(min(1.0, math.sqrt(256 / dim)), 4),
        ),
        training=replace(settings.training, epochs=settings.training.epochs or 100),
    )


def fit_to_device(settings: Settings, cuda: bool) -> Settings:
    """Fill in what is left open by where training runs.

    On CUDA all rows of a step share 1,024 noises in one large product, and rows are sorted by relation. On the CPU that product would take four times
    what the matrices take; instead every 64 rows have 64 noises of their own, as many draws as rows, which rank as well (docs/performance.md).
    A matrix must be read from memory however few rows it has, so that a step on the CPU takes facts of a relation several at once.
    """
    sampling = settings.sampling
    noises, draws, rows, tile = (256, 1024, None, 1) if cuda else (64, 64, 64, max(1, (sampling.edges or 1) // 2048))
    return replace(
        settings,
        sampling=replace(
            sampling,
            tile=sampling.tile or tile,
            noises=sampling.noises or noises,
            noise_draws=sampling.noise_draws or draws,
            noise_rows=rows if sampling.noise_draws is None and sampling.noise_rows is None else sampling.noise_rows,
        ),
    )


def default() -> Settings:
    """Return what `relcode train` uses: the same score and autoencoder with one vector an entity, a full softmax and Adagrad (docs/beyond.md)."""
    return Settings(
        recipe="default",
        model=ModelSettings(objective="softmax", dim=None, block=None, shared=True, normalise=False, initial=None),
        coder=CoderSettings(start=0.5, begin="factors", draw="uniform", traceless=None, rate=None, scale=None, matrix_rate=2.0**-3, sparsity=0.15),
        training=TrainingSettings(epochs=None),
    )


@dataclass(frozen=True, slots=True)
class DataShape:
    """What the rules for open settings look at, over the training facts."""

    facts: int
    entities: int  # of all splits: the candidates
    relations: int
    pairs: int  # distinct pairs of entities joined by a fact, in either order
    questions: int  # distinct (h, r, ?) and (?, r, t)


LEAST_PENALTY = 0.002
CODER_UPDATES = 2  # autoencoder updates of a directed relation in an epoch
LEAST_EVERY = 128.0  # questions for each of them at least, or they take most of the time
FEW_RELATIONS, MANY_FACTS = 40, 2000  # relations, and facts of each, from which matrices begin near the identity
MANY_A_PAIR = 1.5  # facts of a pair of entities, on average, from which one of them often gives another away
MOST_SCORES = 1 << 28  # numbers of one table of scores, questions × candidates: 1 GiB in float32


def fitting_penalty(shape: DataShape, blocks: bool = False) -> float:
    """Return a weight for the lengths of vectors; ``blocks`` where matrices have blocks.

    It rises with the facts a relation has, and falls with the answers a question has: they hold each other back. Large KBs keep what was fitted
    before there were blocks, which falls with the facts a pair of entities has instead: where pairs are joined by several relations (FB15k, WN18),
    one fact of a pair gives the others away, and a model may follow the data closely. With blocks one rule passes into the other between 50,000 and
    250,000 facts. Constants and exponents are fits to the best penalties on the valid splits of nine KBs (docs/beyond.md).

        large = 0.0053 · (facts / relations)^0.45 · (facts / pairs)^−2.7
        small = 0.0038 · (facts / relations)^0.5 · (2 · facts / questions)^−1
        with blocks: λ = small^(1−w) · large^w, w = ln(facts / 50,000) / ln 5 between 0 and 1
        whole: λ = large, below 20,000 facts min(0.05, 0.32 · (facts / entities)^−0.54)
    """
    facts = max(1, shape.facts)
    per_relation = facts / max(1, shape.relations)
    large = 0.0053 * per_relation**0.45 * (facts / max(1, shape.pairs)) ** -2.7
    if blocks:
        small = 0.0038 * math.sqrt(per_relation) * shape.questions / (2 * facts)
        w = min(1.0, max(0.0, math.log(facts / MEDIUM_FACTS) / math.log(LARGE_FACTS / MEDIUM_FACTS)))
        penalty = small ** (1 - w) * large**w
    elif facts < SMALL_FACTS:
        penalty = min(0.05, 0.32 * (facts / max(1, shape.entities)) ** -0.54)
    else:
        penalty = large
    return max(LEAST_PENALTY, round(penalty, 4))


FEW_ENTITIES = 1000  # with which comparing is cheap, however long their vectors
BLOCK_DIM, WHOLE_DIM = 1024, 512  # sizes of vectors on CUDA, for matrices with blocks and for whole ones
MOST_VECTORS, MOST_MATRICES = 1 << 28, 75_000_000  # numbers of all vectors, and of all matrices, that such sizes may have
NUMBERS_A_FACT = 25.6  # of a relation's matrix for each fact it has
SMALL_BLOCK, FEWEST_BLOCKS = 4, 8  # size of blocks below MEDIUM_FACTS; a matrix of fewer blocks than these is whole


def fitting_sizes(shape: DataShape, cuda: bool, dim: int | None = None, block: int | None = None) -> tuple[int, int]:
    """Return d and b: the size of vectors, and of the blocks along a matrix's diagonal (0: it is whole); what is given stays.

    A matrix has d·b numbers. Blocks spend them better than a whole matrix of fewer rows: compositions are found far better, and FB15k and small KBs
    rank far better too (docs/beyond.md). Below 50,000 facts blocks of 4 are as good as any; beyond, a matrix has some 25 numbers for each fact of its
    relation, and where these are thousands (WordNet) it is whole. Long vectors cost time in the comparison with all entities, so that they are for
    CUDA, and for KBs of few entities.
    """
    if shape.facts < MEDIUM_FACTS:
        blocks_dim = 512 if shape.entities < FEW_ENTITIES else 128 if shape.facts < SMALL_FACTS else 256
        dim = dim or (whole_dim(shape.facts) if block == 0 else blocks_dim)
        fitting = fitting_block(0, dim)
    else:
        dim = dim or (large_dim(shape, block) if cuda else whole_dim(shape.facts))
        fitting = fitting_block(shape.facts / max(1, shape.relations), dim)
    chosen = fitting if block is None else block
    return dim, 0 if chosen == dim else chosen  # a single block, as large as the matrix, is a whole one


def large_dim(shape: DataShape, block: int | None) -> int:
    """Return the size of vectors on CUDA: the longest of which vectors and matrices are not too many numbers, else that of the CPU."""
    fitting = fitting_block(shape.facts / max(1, shape.relations), BLOCK_DIM) if block is None else block
    for dim, width in [(BLOCK_DIM, fitting)] * (fitting > 0) + [(WHOLE_DIM, WHOLE_DIM)]:
        if shape.entities * dim <= MOST_VECTORS and 2 * shape.relations * dim * width <= MOST_MATRICES:
            return dim
    return whole_dim(shape.facts)


def fitting_block(per_relation: float, dim: int) -> int:
    """Return the power of two near 25.6 · facts / d, at least 4, the facts being those of one relation.

    It is 0, a whole matrix, where there would be fewer than 8 blocks, or where they would not fill the diagonal.
    """
    block: int = max(SMALL_BLOCK, 1 << round(math.log2(max(1.0, NUMBERS_A_FACT * per_relation / dim))))
    return 0 if dim % block or dim < FEWEST_BLOCKS * block else block


def fit_nce(settings: Settings, shape: DataShape) -> Settings:
    """Fill in what the paper's objective leaves open where Adagrad climbs it, from the density of the data.

    The penalty follows the rule of the softmax objective. Vectors of entities with few facts must learn faster, matrices with few facts more slowly
    (see :func:`fit_softmax`), and at the scale of their numbers, which are about 1/√d. Constants and bounds were chosen on the valid splits of the
    paper's datasets.

        rate = 0.1 · clamp(√(10 · entities / facts), 1, 2)          matrix rate = 0.01 · √(256/d) · clamp(√(facts / relations / 1000), ½, 3)
    """
    updates, facts = settings.updates, max(1, shape.facts)
    if updates.rule == "counted":
        return settings
    rate = 0.1 * min(2.0, max(1.0, math.sqrt(10 * shape.entities / facts)))
    matrix_rate = 0.01 * math.sqrt(256 / settings.model.size) * min(3.0, max(0.5, math.sqrt(facts / max(1, shape.relations) / 1000)))
    return replace(
        settings,
        updates=replace(
            updates,
            adagrad_rate=updates.adagrad_rate or round(rate, 4),
            adagrad_matrix_rate=updates.adagrad_matrix_rate or round(matrix_rate, 5),
            penalty=fitting_penalty(shape) if updates.penalty is None else updates.penalty,
        ),
    )


def fitting_matrix_rate(shape: DataShape, dim: int, block: int) -> float:
    """Return Adagrad's rate for matrices.

    Its first step moves every number of a matrix by the whole rate, and a matrix with few facts never gets rid of that noise, from which composition
    suffers first. So the rate of whole matrices rises with the facts a relation has and falls with d beyond 256, as their numbers do. With blocks a
    row has b numbers, and there are as many as the facts can teach.

        rate = 0.1 · clamp(0.4 · √(facts / relations / 1000), 0.2, 1) · min(1, √(256/d)), with blocks min(0.1, 0.2 / √b)
    """
    if block:
        return round(min(0.1, 0.2 / math.sqrt(block)), 4)
    dense = min(1.0, max(0.2, 0.4 * math.sqrt(shape.facts / max(1, shape.relations) / 1000)))
    return round(0.1 * dense * min(1.0, math.sqrt(256 / dim)), 4)


def fit_softmax(settings: Settings, shape: DataShape, cuda: bool = False) -> Settings:
    """Fill in what the softmax objective leaves open, from the size and the density of the data (the penalty by :func:`fitting_penalty`).

    Vectors of a small KB learn at twice the rate, for fewer epochs, unless its entities are so few that an epoch is quick.
    The autoencoder speaks so often that each relation has its turn: on WN18RR, with 22 directed ones, a turn for every 128
    questions would let it rule the matrices.
    Where few relations have many facts each (WordNet), matrices begin near the identity: that ranks a little better, and hides compositions, of which
    there are hardly any among few relations. Images of whole matrices are held shorter where many relations join pairs that hardly another one joins
    (FB15k-237).
    """
    softmax, facts = settings.softmax, max(1, shape.facts)
    dim, block = fitting_sizes(shape, cuda, settings.model.dim, settings.model.block)
    questions = softmax.questions or min(1024, max(128, 1 << round(math.log2(max(64, facts) / 64))))
    penalty = fitting_penalty(shape, block > 0) if softmax.penalty is None else softmax.penalty
    hurried = facts < SMALL_FACTS and (shape.entities >= FEW_ENTITIES or not block)
    rate, epochs = softmax.rate or (0.2 if hurried else 0.1), settings.training.epochs or (36 if hurried else 60)
    answers = softmax.answers or (1 if 2 * facts < 2 * shape.questions else 4)  # sharing pays where most questions have several answers
    candidates = softmax.candidates
    if candidates is None and questions * shape.entities > MOST_SCORES:
        candidates = MOST_SCORES // questions
    asked = 2 * facts / min(answers, max(1.0, 2 * facts / max(1, shape.questions)))  # an epoch's questions, about
    every = settings.coder.every or max(LEAST_EVERY, round(asked / (2 * max(1, shape.relations) * CODER_UPDATES), 1))
    tiles = softmax.path_tiles or max(1, questions // (4 * softmax.path_tile))
    near_identity = shape.relations <= FEW_RELATIONS and facts >= MANY_FACTS * max(1, shape.relations)
    initial = settings.model.initial or ("identity" if near_identity else "small")
    single_pairs = facts >= SMALL_FACTS and facts < MANY_A_PAIR * shape.pairs
    image_share = (0.75 if single_pairs and not near_identity and not block else 0.5) if softmax.image_share is None else softmax.image_share
    return replace(
        settings,
        model=replace(settings.model, dim=dim, block=block, initial=initial),
        softmax=replace(
            softmax,
            questions=questions,
            question_tile=softmax.question_tile or (4 if block else 16),
            answers=answers,
            rate=rate,
            penalty=penalty,
            matrix_rate=softmax.matrix_rate or fitting_matrix_rate(shape, dim, block),
            image_share=image_share,
            candidates=candidates,
            path_tiles=tiles,
        ),
        coder=replace(settings.coder, every=every),
        training=replace(settings.training, epochs=epochs),
    )


RECIPES: dict[str, Callable[[], Settings]] = {
    "default": default,
    "base": base,
    "joint": joint,
    "base+comp": lambda: with_paths(base()),
    "joint+comp": lambda: with_paths(joint()),
}


def recipe(name: str) -> Settings:
    """Return the settings of the recipe called ``name``."""
    if name not in RECIPES:
        raise UnknownName("recipe", name, RECIPES)
    return RECIPES[name]()
