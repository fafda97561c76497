# SPDX-License-Identifier: Apache-2.0
"""A release's content as a project: the working tree where it has that content, else a checkout that goes again.

Edge: the project's files, the store, a folder for temporary files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from derive.canonical import Json
from derive.errors import InputErrors
from derive.infile import read_plain
from derive.project import Project, load_project
from derive.recipes import check
from derive.recipes.build import promotion_of
from derive.recipes.forms import removal
from derive.recipes.load import FOLDER
from derive.recipes.merge import merge, prune
from derive.releases.checkout import checkout
from derive.releases.describe import all_files
from derive.releases.document import Release
from derive.releases.find import Known
from derive.releases.shapes import Served, content_hashes, lock_hashes, read_served
from derive.toml import parse_toml
from derive.words import unreadable

_LARGEST = 1 << 22
_KEY = "promotion"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A project whose content is a release's. ``files`` are all that decide a byte, ``served`` its recipe.

    ``here`` says that it is the working tree; else it was laid out for as long as it is needed.
    """

    project: Project
    files: Mapping[str, bytes]
    served: Served
    here: bool


@contextmanager
def content_of(root: Path, known: Known, store: Path) -> Iterator[Content]:
    """Yield a release's content.

    Raises:
        Missing, InputErrors: when the working tree has another, and parts of the release's are nowhere.
    """
    working = _working(root, known.release)
    if working is not None:
        yield working
        return
    with tempfile.TemporaryDirectory(prefix="derive-release-") as folder:
        place = Path(folder) / known.name
        checkout(known, place, root, store=store)
        found = _read(place, known.release)
        yield Content(project=found.project, files=found.files, served=found.served, here=False)


def with_todays_promotion(content: Content, root: Path) -> Content:
    """Return a content in which each shape's promotion keys are those of a project's recipe as it is now.

    They are in no digest, so that a release says nothing of them. Where the project has no such recipe any more, what
    it said then stands.

    Raises:
        InputErrors: when the recipe cannot be read, or its promotion keys are not as they may be.
    """
    file = f"{FOLDER}{content.served.recipe.name}.toml"
    try:
        data, _ = read_plain(root / file, _LARGEST)
    except FileNotFoundError:
        return content
    except OSError as error:
        raise InputErrors.one(unreadable(error), where=file) from error
    table, problems = parse_toml(data, file)
    if table is None:
        raise InputErrors(problems)
    wrong = [fault.problem for fault in check.faults(table, file) if _KEY in (fault.path[:1] + fault.path[2:3])]
    if wrong:
        raise InputErrors(wrong)
    own = table.get("shapes")
    shapes = {}
    for name, judged in content.served.shapes.items():
        keys = prune(merge(_promotion(table), _promotion(own.get(name) if isinstance(own, dict) else None)))
        promotion = promotion_of(keys, judged.resolved.promotion.planned)
        shapes[name] = replace(judged, resolved=replace(judged.resolved, promotion=promotion))
    return replace(content, served=replace(content.served, shapes=shapes))


def _promotion(tables: object) -> Mapping[str, Json]:
    found = tables.get(_KEY) if isinstance(tables, dict) else None
    return found if isinstance(found, dict) and removal(found) is None else {}


def _working(root: Path, release: Release) -> Content | None:
    try:
        found = _read(root, release)
    except InputErrors:
        return None
    settings = (found.project.settings.build_platform, found.project.settings.default_image)
    same = (
        settings == (release.build_platform, release.default_image)
        and lock_hashes(found.files) == release.lock
        and content_hashes(found.files) == release.content
        and found.served.digests == release.recipes
    )
    return found if same else None


def _read(root: Path, release: Release) -> Content:
    project = load_project(root)
    files = all_files(project)
    return Content(project=project, files=files, served=read_served(files, release.recipe), here=True)
