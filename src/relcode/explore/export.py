"""Models out, in other programs' forms, and the authors' models in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from relcode.config import Settings
from relcode.errors import DataError, SettingError, suggestion
from relcode.explore.model import Model
from relcode.formats import authors
from relcode.formats.authors import AuthorsModel, decay
from relcode.formats.export import Vectors, write_npz, write_ntriples, write_parquet, write_projector, write_safetensors, write_word2vec
from relcode.graph.dataset import Dataset
from relcode.graph.paths import format_path
from relcode.graph.vocab import Vocab
from relcode.model.parameters import Parameters, coder_in_force
from relcode.recipes import fit_to_data, fit_to_device
from relcode.runs.run import create_run
from relcode.training.state import TrainState

FORMS = {
    "safetensors": "one file: head, tail, matrix (or block), code; names as JSON in its header",
    "npz": "one NumPy file: head, tail, matrix (or block), code, entities, relations",
    "parquet": "a folder: a table of entities, a table of relations",
    "projector": "a folder for TensorBoard's embedding projector",
    "word2vec": "one text file of entities' head vectors",
    "ntriples": "suggested facts as N-Triples, with their probability where the run is calibrated",
    "glimvec": "a folder as the paper's released program keeps a model",
}
WRITERS = {
    "safetensors": write_safetensors,
    "npz": write_npz,
    "parquet": write_parquet,
    "projector": write_projector,
    "word2vec": write_word2vec,
}
IMPORTED = "imported from the authors' program"


def export(
    model: Model, form: str, out: Path, *, relations: Sequence[str] = (), top: int = 100, min_probability: float = 0.0, base: str | None = None
) -> str:
    """Write a model in one of :data:`FORMS` to a new place and say what was written; the options are for suggested facts."""
    if form not in FORMS:
        raise SettingError(f"unknown format {form!r}{suggestion(form, FORMS)}")
    if form == "ntriples":
        from relcode.explore.suggest import suggest

        found = suggest(model, relations, top=top, min_probability=min_probability)
        facts = ((one.head, one.relation, one.tail, one.probability) for one in found)
        count = write_ntriples(facts, out, model.dataset.prefixes, base)
        return f"{count:,} suggested facts"
    if form == "glimvec":
        authors.write(authors_model(model), out)
    else:
        WRITERS[form](vectors_of(model), out)
    sizes = model.settings.model
    blocks = f", matrices of blocks of {sizes.block}×{sizes.block}" if sizes.block else ""
    return f"{model.dataset.num_entities:,} entities, {model.dataset.num_directed:,} directed relations, d = {sizes.dim}{blocks}"


def vectors_of(model: Model) -> Vectors:
    """Return what a model scores with, as arrays and names."""
    data, scorer = model.dataset, model.scorer
    code_SC = model.codes().code_SC.float().numpy() if model.has_codes else None
    about = {
        "recipe": model.settings.recipe,
        "dataset": data.name,
        "fingerprint": data.fingerprint,
        "relcode": model.run.about["environment"].get("relcode", ""),
    }
    return Vectors(
        entities=data.entities.names,
        relations=tuple(format_path((s,), data.relations) for s in range(data.num_directed)),
        labels=data.labels,
        head_ED=_array(scorer.head_ED),
        tail_ED=_array(scorer.tail_ED),
        matrix_SDD=_array(scorer.matrix_SDD),
        code_SC=code_SC,
        about=about,
    )


def authors_model(model: Model) -> AuthorsModel:
    """Return a model as the released program would have stored it: the entities of train, raw values that come out as those in force.

    Our counters may have fractions and theirs not, so raw values are made of what is in force and of the rounded counters.
    """
    data, scorer, parameters, options = model.dataset, model.scorer, model.parameters, model.settings
    seen_X = data.seen_E.nonzero()[:, 0]
    vector_el = options.updates.vector_rate * options.updates.vector_decay
    coder_el = options.coder.first_rate * options.coder.decay
    head_count, tail_count = (_counter(parameters, name, len(data.entities))[seen_X.numpy()] for name in ("head_count_E", "tail_count_E"))
    coder: dict[str, Any] = {}
    if parameters.encoder_CQ is not None and parameters.coder_count is not None:
        steps = max(0, round(float(parameters.coder_count)))
        rows = [_array(rows_CQ) * np.float32(decay(steps, coder_el)) for rows_CQ in coder_in_force(parameters, options.coder)]
        coder = {"encoder_CQ": rows[0], "decoder_CQ": rows[1], "coder_count": steps}
    entity_facts = torch.bincount(torch.cat([data.train[:, 0], data.train[:, 2]]), minlength=data.num_entities)[seen_X]
    relation_facts = torch.bincount(data.train[:, 1], minlength=data.num_relations)
    return AuthorsModel(
        entities=Vocab([data.entities[number] for number in seen_X.tolist()], "entity"),
        relations=data.relations,
        head_ED=(_array(scorer.head_ED[seen_X]) * decay(head_count, vector_el)[:, None]).astype(np.float32),
        tail_ED=(_array(scorer.tail_ED[seen_X]) * decay(tail_count, vector_el)[:, None]).astype(np.float32),
        matrix_SDD=_array(scorer.matrix_SDD),
        head_count_E=head_count,
        tail_count_E=tail_count,
        matrix_count_S=_counter(parameters, "matrix_count_S", data.num_directed),
        vector_rate=options.updates.vector_rate,
        matrix_rate=options.updates.matrix_rate,
        vector_decay_rate=vector_el,
        matrix_decay_rate=options.updates.matrix_rate * options.updates.matrix_decay,
        coder_decay_rate=coder_el,
        normalise=options.model.normalise,
        entity_facts_E=entity_facts.numpy().astype(np.uint64),
        relation_facts_R=relation_facts.numpy().astype(np.uint64),
        **coder,
    )


def import_authors(folder: Path, dataset: Dataset, out: Path, vocabulary: Path | None = None) -> Path:
    """Make a run of a model of the released program and the data it was trained on; entities it does not have get the zero vector."""
    model = authors.read(folder, vocabulary)
    for ours, theirs in ((dataset.entities, model.entities), (dataset.relations, model.relations)):
        strange = [name for name in theirs if name not in ours]
        if strange:
            raise DataError(
                f"{folder}: {len(strange):,} of its {theirs.kind} names are not in {dataset.name}, first {strange[0][:80]!r}: other data?"
            )
    if len(model.relations) != dataset.num_relations:
        raise DataError(f"{folder} knows {len(model.relations):,} relations, {dataset.name} has {dataset.num_relations:,}: other data?")
    C = 16 if model.encoder_CQ is None else len(model.encoder_CQ)
    values: dict[str, Any] = {"model.dim": model.dim, "model.code_dim": C, "model.autoencoder": model.encoder_CQ is not None}
    values |= {"updates.rule": "counted"}
    values |= {"updates.vector_rate": model.vector_rate, "updates.vector_decay": model.vector_decay_rate / model.vector_rate}
    values |= {"updates.matrix_rate": model.matrix_rate, "updates.matrix_decay": model.matrix_decay_rate / model.matrix_rate}
    base = Settings(recipe="base" if model.encoder_CQ is None else "joint")  # whose own values are those of counted steps
    values |= {"coder.decay": model.coder_decay_rate / base.coder.first_rate, "model.normalise": model.normalise, "training.validations": 0}
    settings = fit_to_device(fit_to_data(base.with_values(values), len(dataset.train)), cuda=False)
    state = TrainState(_parameters(model, dataset), 0, torch.Generator())
    run = create_run(out, dataset, settings, torch.device("cpu"), state)
    return run.with_status(state="complete", reason=IMPORTED).folder


def _parameters(model: AuthorsModel, dataset: Dataset) -> Parameters:
    """Put the program's rows where our names have their numbers."""
    entity = dataset.entities.indices(model.entities)
    relation = dataset.relations.indices(model.relations)
    directed = torch.cat([relation, relation + dataset.num_relations])

    def placed(rows: Any, where: torch.Tensor, size: int, kind: torch.dtype) -> torch.Tensor:
        values = torch.from_numpy(np.asarray(rows, dtype=np.float64 if kind == torch.float64 else np.float32))
        table = torch.zeros((size, *values.shape[1:]), dtype=kind)
        table[where] = values
        return table

    E, S = dataset.num_entities, dataset.num_directed
    coder: dict[str, Any] = {}
    if model.encoder_CQ is not None and model.decoder_CQ is not None:
        coder = {"encoder_CQ": torch.from_numpy(model.encoder_CQ.copy()), "decoder_CQ": torch.from_numpy(model.decoder_CQ.copy())}
        coder |= {"coder_count": torch.tensor(float(model.coder_count), dtype=torch.float64)}
    return Parameters(
        head_ED=placed(model.head_ED, entity, E, torch.float32),
        tail_ED=placed(model.tail_ED, entity, E, torch.float32),
        matrix_SDD=placed(model.matrix_SDD, directed, S, torch.float32),
        head_count_E=placed(model.head_count_E, entity, E, torch.float64),
        tail_count_E=placed(model.tail_count_E, entity, E, torch.float64),
        matrix_count_S=placed(model.matrix_count_S, directed, S, torch.float64),
        **coder,
    )


def _counter(parameters: Parameters, name: str, size: int) -> Any:
    """Return a counter rounded to whole steps; zeros where a model has none."""
    count = getattr(parameters, name, None)
    rounded = np.zeros(size) if count is None else count.detach().cpu().double().round().clamp(0, 2**62).numpy()
    return rounded.astype(np.uint64)


def _array(values: torch.Tensor) -> Any:
    return values.detach().cpu().float().contiguous().numpy()
