# SPDX-License-Identifier: Apache-2.0
"""From operands to what they tell nodes: a project's shapes and recipes, files, sites, and rendered folders.

Edge: the project's files, files and folders that are named, the environment that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from derive.canonical import CanonicalError, Digest, Json, decode
from derive.errors import InputErrors, Missing
from derive.fabric.cabling import CABLINGS
from derive.fabric.examples import example, example_file
from derive.fabric.places import find_site, read_site
from derive.fabric.site import Site
from derive.images.documents import DocumentError
from derive.infile import read_plain
from derive.operands import Launching, Working
from derive.project import load_launching
from derive.recipes.load import FOLDER, Recipe, load_recipe, recipe_names
from derive.recipes.resolve import resolve
from derive.recipes.resolved import Resolved
from derive.render.bundle import MANIFEST, MANIFEST_TAG
from derive.render.documents import launch_from_document
from derive.render.inputs import Chosen, Inputs
from derive.render.launch import Launch
from derive.render.service import render
from derive.shapes.compare import compare_sides
from derive.shapes.model import ShapeComparison, Side, Sides
from derive.shapes.sides import as_folder, folder_side, rendered_side, shape_side, site_side
from derive.words import unreadable

_CONTAINER = "container.json"
_LARGEST = 16 << 20
"""No file of a rendering or recipe comes near it: what is larger is another thing."""


@dataclass(slots=True)
class Places:
    """Where operands are looked for. ``root`` and ``usual`` (a recipe's name) are asked for when a project is needed.

    ``image`` says which image the project makes now; ``site`` is the file of a site that a person named.
    """

    root: Callable[[], Path]
    usual: Callable[[], str]
    environ: Mapping[str, str]
    image: Callable[[Inputs], Digest]
    site: str | None = None
    _files: Mapping[str, bytes] = field(default_factory=dict, init=False)

    @property
    def files(self) -> Mapping[str, bytes]:
        """The project's files that decide launch files."""
        if not self._files:
            self._files = load_launching(self.root())
        return self._files


def compare_launching(first: Launching | Working, second: Launching | Working, places: Places) -> ShapeComparison:
    """Compare two of one kind; ``.`` beside one is what the working tree makes of the same.

    Raises:
        InputErrors: when they are of two kinds, or either is not there or wrong.
    """
    kinds = {one.kind for one in (first, second) if isinstance(one, Launching)}
    if len(kinds) != 1:
        hint = "compare two shapes, recipes, sites or rendered folders"
        raise InputErrors.one("these are of two kinds" if kinds else "the working tree beside itself", hint=hint)
    notes: list[str] = []
    if kinds == {"bundle"}:
        before, after = (_bundle(one, second if one is first else first, places, notes) for one in (first, second))
    else:
        of = {"shape": _shape, "recipe": _recipe, "site": _site}[kinds.pop()]
        before, after = (of(one, second if one is first else first, places) for one in (first, second))
    return compare_sides(before[1], after[1], (before[0], after[0]), notes)


def _other(one: Launching | Working) -> Launching:
    assert isinstance(one, Launching)
    return one


def _shape(one: Launching | Working, other: Launching | Working, places: Places) -> tuple[str, Sides]:
    if isinstance(one, Working):
        hint = "name another shape, or compare a recipe's file with the working tree: recipe:FILE ."
        raise InputErrors.one(f"{other} is of the working tree already", hint=hint)
    recipe = load_recipe(places.files, one.recipe or _recipe_of(one.name, places))
    side = shape_side(resolve(recipe, one.name), recipe.fabric)
    return f"shape {side.title}", {"": side}


def _recipe_of(shape: str, places: Places) -> str:
    """Return the one recipe that has a shape of this name."""
    usual, names = places.usual(), recipe_names(places.files)
    having = [name for name in names if shape in load_recipe(places.files, name).shapes]
    if len(having) == 1:
        return having[0]
    if not having:
        return usual if usual in names or not names else names[0]
    detail = [f"may be    shape:{name}/{shape}" for name in having]
    raise InputErrors.one(f"shape:{shape} is ambiguous", detail=detail, hint=f"say shape:{having[0]}/{shape}")


def _recipe(one: Launching | Working, other: Launching | Working, places: Places) -> tuple[str, Sides]:
    named = one.name if isinstance(one, Launching) else Path(_other(other).name).name.removesuffix(".toml")
    title, recipe = _read_recipe(named, places)
    shapes = {name: shape_side(resolve(recipe, name), recipe.fabric) for name in recipe.shapes}
    return f"recipe {title}", shapes


def _read_recipe(named: str, places: Places) -> tuple[str, Recipe]:
    if not named.endswith(".toml") and "/" not in named:
        return named, load_recipe(places.files, named)
    path = Path(named)
    try:
        data, _ = read_plain(path, _LARGEST)
    except (OSError, ValueError) as error:
        message = unreadable(error) if isinstance(error, OSError) else "cannot be read: no name of a file"
        raise InputErrors.one(message, where=named) from error
    name = path.name.removesuffix(".toml")
    return named, load_recipe({**places.files, f"{FOLDER}{name}.toml": data}, name)


def _site(one: Launching | Working, other: Launching | Working, places: Places) -> tuple[str, Sides]:
    site, file = _read_site(one, places)
    recipe = load_recipe(places.files, _picked_recipe(one, other, site, places))
    side = site_side(_fitting(recipe, site, file), site, file, recipe.fabric, places.files)
    return f"site {side.title}", {"": side}


def _read_site(one: Launching | Working, places: Places) -> tuple[Site, str]:
    if isinstance(one, Launching) and one.name in CABLINGS and not Path(one.name).exists():
        cabling = next(name for name in CABLINGS if name == one.name)
        return example(places.files, cabling), example_file(cabling)
    path = find_site(places.environ, one.name if isinstance(one, Launching) else places.site)
    if path is None:
        raise InputErrors.one("there is no site file to compare with", hint="write one: derive site init")
    given = read_site(path)
    return given.site, given.file


def _picked_recipe(one: Launching | Working, other: Launching | Working, site: Site, places: Places) -> str:
    """Return the recipe that both sites are compared by: the first that both have picked, else the usual one."""
    picked = {name for name, _ in site.shapes} & {name for name, _ in _read_site(other, places)[0].shapes}
    names = recipe_names(places.files)
    known = sorted(picked & set(names))
    del one
    return known[0] if known else places.usual()


def _fitting(recipe: Recipe, site: Site, file: str) -> Resolved:
    """Return the shape that a site has picked, else the first of its cabling, the default before others."""
    picked = dict(site.shapes).get(recipe.name)
    if picked is not None:
        return resolve(recipe, picked)
    for name in (recipe.default_shape, *sorted(recipe.shapes)):
        resolved = resolve(recipe, name)
        if resolved.cabling == site.cabling:
            return resolved
    raise InputErrors.one(f"no shape of {recipe.file} is for a {site.cabling}", where=file)


def _bundle(
    one: Launching | Working, other: Launching | Working, places: Places, notes: list[str]
) -> tuple[str, Sides]:
    if isinstance(one, Launching):
        _, side = read_folder(Path(one.name))
        return side.title, {"": side}
    folder = Path(_other(other).name)
    manifest, written = read_folder(folder)
    chosen = Chosen(recipe=_text(manifest, "recipe"), shape=_text(manifest, "shape"), site=places.site)

    def image(inputs: Inputs) -> Digest:
        try:
            return places.image(inputs)
        except Missing:
            notes.append(f"the image {inputs.resolved.image} is not derived here: the folder's is taken for it")
            return Digest.parse(_text(manifest, "image") or "")

    rendered = render(places.root(), chosen, places.environ, image, places.usual())
    fabric = rendered.inputs.fabric
    side = rendered_side(rendered.bundle, rendered.inputs.site_file, fabric, "the working tree")
    nodes = manifest.get("nodes")
    left_out = set(nodes if isinstance(nodes, Mapping) else ()) - {row.node for row in written.told}
    # A folder may have been written for some nodes alone.
    side = replace(side, told=tuple(row for row in side.told if row.node not in left_out))
    return side.title, {"": as_folder(side, rendered.bundle)}


def read_folder(folder: Path) -> tuple[Mapping[str, Json], Side]:
    """Read a rendered folder: its manifest, and what it tells each node that it holds.

    Raises:
        InputErrors: when it is none, or a file of it cannot be read.
    """
    manifest = _document(folder / MANIFEST)
    if manifest.get("derive") != MANIFEST_TAG:
        hint = "render one: derive render --out FOLDER"
        raise InputErrors.one("not a rendered folder", where=str(folder / MANIFEST), hint=hint)
    nodes = manifest.get("nodes")
    plans: dict[str, Launch] = {}
    files: dict[str, dict[str, bytes]] = {}
    for node in nodes if isinstance(nodes, Mapping) else ():
        if "/" not in node and node not in ("", ".", "..") and (folder / node).is_dir():
            files[node] = _files(folder / node)
            plans[node] = _launch(folder / node / _CONTAINER)
    return manifest, folder_side(manifest, plans, files, f"{folder}")


def _files(folder: Path) -> dict[str, bytes]:
    """Return a node's files; its manifest says the same of all of them, and is no fact of its own."""
    try:
        paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        return {
            path.relative_to(folder).as_posix(): read_plain(path, _LARGEST, follow=False)[0]
            for path in paths
            if path.name != MANIFEST
        }
    except OSError as error:
        raise InputErrors.one(unreadable(error), where=str(folder)) from error


def _launch(path: Path) -> Launch:
    try:
        return launch_from_document(_document(path))
    except DocumentError as error:
        raise InputErrors.one(f"not a launch: {error}", where=str(path)) from error


def _document(path: Path) -> Mapping[str, Json]:
    try:
        document = decode(read_plain(path, _LARGEST)[0])
    except OSError as error:
        raise InputErrors.one(unreadable(error), where=str(path)) from error
    except CanonicalError as error:
        raise InputErrors.one(str(error), where=str(path)) from error
    if not isinstance(document, Mapping):
        raise InputErrors.one("not a document of a rendering", where=str(path))
    return document


def _text(manifest: Mapping[str, Json], key: str) -> str | None:
    value = manifest.get(key)
    return value if isinstance(value, str) else None
