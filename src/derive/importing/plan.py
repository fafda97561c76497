# SPDX-License-Identifier: Apache-2.0
"""An import as a value: the recipe's text, a site's for each node map, and the account of every key.

Core: no IO.

What is written is read back as recipes and sites are, every shape resolved, and held against what was imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from derive.canonical import Json
from derive.errors import InputErrors, Problem, expected_got
from derive.fabric.catalogue import load_fabric
from derive.fabric.load import load_site
from derive.importing.account import FINDINGS, Account, Row, told_once
from derive.importing.cluster import Draft, Known, draft
from derive.importing.forms import shapes_of
from derive.importing.held import differences
from derive.importing.nodes import NodeMap, read_nodes
from derive.importing.pins import known_pins
from derive.importing.read import leaves, parse_json
from derive.importing.share import recipe_document
from derive.importing.sites import site_document
from derive.importing.trace import in_clusters, in_map
from derive.recipes.forms import NAME
from derive.recipes.load import Recipe, read_recipe
from derive.recipes.resolve import resolve
from derive.toml_text import toml_text

_MEMORY = "the files say nothing of it, and without it nobody can say whether the shape fits: docs/memory.md"
_RECIPE_HEADING = """\
Imported by derive import. What the keys mean is on docs/recipes.md; values that follow from others are not written.
"""
_SITE_HEADING = """\
Imported by derive import: the machines of one place and their cables. It belongs outside version control.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file to import, and what a person calls the shape in it, where it was said."""

    file: str
    data: bytes
    shape: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked for: ``image`` and ``model`` are names of the project, ``model`` None where mounts say it."""

    name: str
    image: str
    clusters: tuple[Source, ...]
    maps: tuple[Source, ...] = ()
    site: str = "site"
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What came of it: texts of the recipe and of each site (by the site's name), the account, and notes."""

    name: str
    recipe: str
    sites: Mapping[str, str]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether the recipe says all that the files said."""
        return not any(row.state in FINDINGS for row in self.rows)


def import_files(request: Request, files: Mapping[str, bytes]) -> Imported:
    """Import cluster files and node maps into a project, whose files by their path are given.

    Raises:
        InputErrors: with everything that is wrong in any of them; and when what would be written is no recipe or site.
    """
    if not NAME.accepts(request.name):
        detail = expected_got(NAME.expects, request.name)
        raise InputErrors.one("not a name for a recipe", where="--name", detail=detail)
    problems: list[Problem] = []
    rows: list[Row] = []
    known = Known(pins=tuple(known_pins(files)), fabric=load_fabric(files), model=request.model)
    drafts, default = _drafts(request, known, rows, problems)
    maps = _maps(request, rows, problems)
    sites = _sites(request, drafts, maps, problems)
    if problems:
        raise InputErrors(problems)
    document = recipe_document(drafts, request.image, default or drafts[0].name)
    text = toml_text(document, _RECIPE_HEADING)
    recipe = _read_back(request, text, files, rows, drafts)
    for one in drafts:
        rows += differences(one, resolve(recipe, one.name))
        rows.append(Row(file=one.file, key="memory", state="to be added", note=_MEMORY))
    texts = {name: toml_text(site, _SITE_HEADING) for name, (site, _) in sites.items()}
    for (name, site), nodes in zip(texts.items(), maps, strict=True):
        _read_site(f"{name}.toml", site, nodes, rows)
    return Imported(
        name=request.name,
        recipe=text,
        sites=texts,
        rows=told_once(rows),
        notes=(
            *_unchecked(request.image, files),
            *(note for _, notes in sites.values() for note in notes),
            *_left_in(drafts, maps),
        ),
    )


def _drafts(request: Request, known: Known, rows: list[Row], problems: list[Problem]) -> tuple[list[Draft], str | None]:
    drafts: list[Draft] = []
    default = None
    for source in request.clusters:
        document, wrong = parse_json(source.data, source.file)
        if wrong:
            problems += wrong
            continue
        shapes, said, wrong = shapes_of(document, source.shape, source.file)
        default = default or said
        problems += wrong
        for shape in shapes:
            account = Account(source.file, shape.name if shape.own else None, shape.own)
            found, wrong = draft(shape.document, shape.name, account, known)
            problems += wrong
            rows += account.rows
            drafts += [] if found is None else [found]
        rows += [
            Row(file=source.file, key=key, state="placed", place="default-shape")
            for key in ("default_shape", "default-shape")
            if key in document
        ]
    problems += _named_twice(drafts)
    return drafts, default


def _named_twice(drafts: Sequence[Draft]) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for one in drafts:
        if one.name in seen:
            hint = f"name it, as in NAME={one.file}"
            detail = (f"also      {seen[one.name]}",)
            yield Problem(where=one.file, message=f"a second shape {one.name}", detail=detail, hint=hint)
        seen.setdefault(one.name, one.file)


def _maps(request: Request, rows: list[Row], problems: list[Problem]) -> list[NodeMap]:
    maps = []
    for source in request.maps:
        document, wrong = parse_json(source.data, source.file)
        account = Account(source.file)
        found = None
        if not wrong:
            found, wrong = read_nodes(document, account)
        problems += wrong
        rows += account.rows
        maps += [] if found is None else [found]
    return maps


def _sites(
    request: Request, drafts: Sequence[Draft], maps: Sequence[NodeMap], problems: list[Problem]
) -> dict[str, tuple[dict[str, Json], list[str]]]:
    found = {}
    for nodes in maps:
        count = len(nodes.nodes)
        here = [one for one in drafts if one.nodes == count]
        if not here:
            counts = ", ".join(f"{one.name} has {one.nodes}" for one in drafts)
            detail = (f"nodes     {count}", f"shapes    {counts or 'none could be read'}")
            message = "no shape is for this many nodes"
            problems.append(Problem(where=nodes.file, message=message, detail=detail))
            continue
        name = request.site if len(maps) == 1 else f"{request.site}-{here[0].cabling}"
        if name in found:
            problems.append(
                Problem(where=nodes.file, message=f"a second map of {count} nodes", hint="import one site at once")
            )
            continue
        document, assumed, wrong = site_document(nodes, here, request.name, name)
        problems += wrong
        found[name] = (document, assumed)
    return found


def _unchecked(image: str, files: Mapping[str, bytes]) -> Iterator[str]:
    """Yield that nothing tells whether an image has vLLM, and these options: that of another service has not."""
    file = f"recipes/{image}.schema.json"
    if file not in files:
        yield f"the service is vLLM, and nothing says that image {image} has it: there is no {file}"


def _left_in(drafts: Sequence[Draft], maps: Sequence[NodeMap]) -> Iterator[str]:
    """Yield values of recipes that a site should say: they would be wrong at any other."""
    said = {node.address for nodes in maps for node in nodes.nodes}
    said |= {one.site[key] for one in drafts for key in ("head", "home") if key in one.site}
    for key, text in dict.fromkeys(pair for one in drafts for pair in _texts(one.tables)):
        for value in sorted(one for one in said if one in text):
            yield f"{key} holds {value}, which is this site's alone"


def _texts(tables: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    for key, value in leaves(tables):
        yield from ((key, text) for text in (value if isinstance(value, list) else [value]) if isinstance(text, str))


def _read_back(
    request: Request, text: str, files: Mapping[str, bytes], rows: Sequence[Row], drafts: Sequence[Draft]
) -> Recipe:
    recipe, problems = read_recipe({**files, f"recipes/{request.name}.toml": text.encode()}, request.name)
    if recipe is None or problems:
        shapes = {one.name: one.file for one in drafts}
        raise InputErrors(in_clusters(problems, request.name, rows, shapes, drafts[0].file))
    return recipe


def _read_site(file: str, text: str, nodes: NodeMap, rows: Sequence[Row]) -> None:
    try:
        load_site(text.encode(), file)
    except InputErrors as error:
        raise InputErrors(in_map(error.problems(), file, nodes, rows)) from None
