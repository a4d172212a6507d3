"""relcode: knowledge-base completion that people can understand.

    import relcode

    model = relcode.train("world", dim=64, epochs=60)
    model.predict_tails("Lyon", "city_country")
    model = relcode.load("runs/world-joint-comp")

Names are looked up when they are first used, so that importing the package (and ``relcode --help``) does not wait for torch.
"""

from __future__ import annotations

__version__ = "0.1.0"

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relcode.errors import RelcodeError
    from relcode.explore.extending import extend
    from relcode.explore.model import Model
    from relcode.explore.training import train
    from relcode.formats.importing import import_facts
    from relcode.formats.pykeen import to_pykeen
    from relcode.formats.splitting import split_sources
    from relcode.graph.dataset import Dataset, dataset_from_facts, load_dataset
    from relcode.graph.download import download

    load = Model.open

__all__ = [
    "Dataset",
    "Model",
    "RelcodeError",
    "__version__",
    "dataset_from_facts",
    "download",
    "extend",
    "import_facts",
    "load",
    "load_dataset",
    "split_sources",
    "to_pykeen",
    "train",
]

_HOMES = {
    "Dataset": "relcode.graph.dataset",
    "dataset_from_facts": "relcode.graph.dataset",
    "download": "relcode.graph.download",
    "extend": "relcode.explore.extending",
    "import_facts": "relcode.formats.importing",
    "load_dataset": "relcode.graph.dataset",
    "split_sources": "relcode.formats.splitting",
    "to_pykeen": "relcode.formats.pykeen",
    "Model": "relcode.explore.model",
    "train": "relcode.explore.training",
    "RelcodeError": "relcode.errors",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name == "load":
        return __getattr__("Model").open
    if name not in _HOMES:
        raise AttributeError(f"module 'relcode' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return __all__
