"""Make the pictures of docs/gallery.md: each by the command printed under it.

    python scripts/make_gallery.py world                     trains small models of the bundled facts first (some minutes on two cores)
    python scripts/make_gallery.py fb15k-237 --run default=RUN --run joint+comp=RUN …       pictures of runs that are there
    … --discovery FOLDER --options "--recipe default"        and of a study that is there, with the options it was begun with

Pictures go to docs/images/gallery-DATASET-*.png; the page's part about the dataset is printed, ready to be pasted into docs/gallery.md.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
WORLD = {
    "joint+comp": "train world --recipe joint+comp --dim 64 --code-dim 8 --epochs 80",
    "base+comp": "train world --recipe base+comp --dim 64 --epochs 80",
    "joint": "train world --recipe joint --dim 64 --code-dim 8 --epochs 80",
    "base": "train world --recipe base --dim 64 --epochs 80",
}
WORLD_DISCOVERY = "--recipe joint+comp --dim 64 --epochs 60 --set model.code_dim=8"


@dataclass(frozen=True)
class Picture:
    """One picture: its file's name, what it shows, and the arguments of relcode that make it."""

    name: str
    text: str
    arguments: tuple[str, ...]


def folder_of(dataset: str, recipe: str) -> str:
    """Return where a run of the gallery lies, as it is written in the page."""
    return f"runs/gallery-{dataset}-{recipe.replace('+', '-')}"


def pictures(dataset: str, recipes: list[str]) -> list[Picture]:
    """Return the pictures of a dataset: the codes of the first recipe that has some, relations of all recipes, entities of the first."""
    coded = [recipe for recipe in recipes if not recipe.startswith("base")]
    runs = [folder_of(dataset, recipe) for recipe in recipes]
    found = []
    for recipe in coded[:1]:
        found.append(Picture("codes", "The codes of relations: a row is a relation, a column a dimension.", ("codes", folder_of(dataset, recipe))))
    found.append(Picture("map", "Relations, near each other where their matrices are alike; one panel a model.", ("map", *runs)))
    found.append(Picture("entities", "Entities by their vectors.", ("map", runs[0], "--entities")))
    what = "What an answer loses without the facts that carry it, against as many random facts of the same entities; a point is a fact."
    found.append(Picture("necessity", what, ("study", "necessity", runs[0])))
    return found


def discovery(dataset: str, folder: str, options: str) -> Picture:
    """Return the picture of held-out discovery; a study that is in the folder is not done again."""
    what = "Compositions found again after the pairs that would let one count them were taken out of training."
    return Picture("discovery", what, ("study", "discovery", dataset, "--out", folder, *shlex.split(options)))


def relcode(arguments: list[str]) -> None:
    """Run a command of relcode from the repository's root."""
    print(f"# relcode {shlex.join(arguments)}", file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "relcode", *arguments], cwd=ROOT, check=True, stdout=sys.stderr)


def main() -> None:
    """Train where nothing is given, draw, and print the page's part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", help="world, or the name of the dataset that the runs given were trained on")
    parser.add_argument(
        "--run", action="append", default=[], metavar="RECIPE=RUN", help="a run that is there, linked into runs/; the first is shown alone"
    )
    parser.add_argument("--discovery", default="", metavar="FOLDER", help="the folder of a study of held-out discovery")
    parser.add_argument("--options", default="", help="the options that study was begun with")
    arguments = parser.parse_args()
    given = dict(text.split("=", 1) for text in arguments.run)
    if not given and arguments.dataset != "world":
        parser.error("only world is trained here: give the runs of another dataset with --run RECIPE=RUN")
    recipes = list(given) or list(WORLD)
    (ROOT / "runs").mkdir(exist_ok=True)
    for recipe in recipes:
        folder = ROOT / folder_of(arguments.dataset, recipe)
        if folder.exists():
            continue
        if recipe in given:
            folder.symlink_to(Path(given[recipe]).resolve(), target_is_directory=True)
        else:
            relcode([*WORLD[recipe].split(), "--out", folder_of(arguments.dataset, recipe)])
    drawn = pictures(arguments.dataset, recipes)
    if arguments.dataset == "world" and not arguments.discovery:
        drawn.append(discovery("world", "runs/gallery-world-discovery", WORLD_DISCOVERY))
    elif arguments.discovery:
        drawn.append(discovery(arguments.dataset, arguments.discovery, arguments.options))
    for picture in drawn:
        name = f"docs/images/gallery-{arguments.dataset}-{picture.name}.png"
        relcode([*picture.arguments, "--png", name])
        shown = shlex.join([*picture.arguments, "--png", f"{picture.name}.png"])
        print(f"![{picture.text}](images/{Path(name).name})\n\n*{picture.text}*\n\n```sh\nrelcode {shown}\n```\n")


if __name__ == "__main__":
    main()
