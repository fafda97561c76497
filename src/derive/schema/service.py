# SPDX-License-Identifier: Apache-2.0
"""Argument schemas on disk: pinned files read, and written anew from what their derivations give.

Edge: the store, the project's folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from derive.errors import InputErrors
from derive.infile import LARGEST, read_plain
from derive.schema.model import Schema, load_schema, render_schema
from derive.schema.pin import content_digest, file_of
from derive.words import near

if TYPE_CHECKING:
    from derive.build.execute import Progress
    from derive.build.service import Options
    from derive.project import Project
    from derive.store.local import LocalStore


def pinned_images(root: Path) -> list[str]:
    """Return the images of a project whose schemas are pinned."""
    return sorted(path.name.removesuffix(".schema.json") for path in (root / "recipes").glob("*.schema.json"))


def read_pinned(root: Path, image: str) -> Schema:
    """Return the pinned schema of an image.

    Raises:
        InputErrors: when there is none, or it is no schema.
    """
    file = file_of(image)
    try:
        data = read_plain(root / file, LARGEST)[0]
    except FileNotFoundError:
        known = ", ".join(pinned_images(root)) or "none"
        detail = (f"pinned    {known}",)
        hint = near(image, pinned_images(root)) or f"read it from the image's sources: derive schema {image} --write"
        message = f"no argument schema is pinned for image {image}"
        raise InputErrors.one(message, where=file, detail=detail, hint=hint) from None
    return load_schema(data, file)


def write_pinned(
    project: Project, image: str, store: LocalStore, options: Options, progress: Progress | None = None
) -> bool:
    """Derive an image's schema and pin it; say whether the file changed.

    Raises:
        InputErrors, Unavailable, BuildFailed: as deriving anything.
    """
    from derive.build.service import plan_for, realise
    from derive.outfile import open_output
    from derive.schema.merge import merge
    from derive.schema.pin import parts_of, target

    derivation = target(project, image)
    outputs = realise(plan_for(derivation, store, project.root), store, options, progress)
    folder = store.folder(outputs["out"].digest)
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    document = merge(
        files,
        image=image,
        platform=", ".join(sorted({reference.derivation.host for reference in derivation.inputs.values()})),
        derivation=str(derivation.id),
        parts=parts_of(derivation),
        content=content_digest(project.files, project.settings.build_platform).hex,
    )
    data, path = render_schema(document), project.root / file_of(image)
    if path.is_file() and path.read_bytes() == data:
        return False
    with open_output(path) as file:
        file.write(data)
    return True
