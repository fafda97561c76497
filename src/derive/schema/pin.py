# SPDX-License-Identifier: Apache-2.0
"""Whether a pinned schema is what the working tree's derivations give, said without building anything.

Core: no IO. Imports pydantic, through the declarations, only where the quick answer is not a yes.

Quick: a digest over all content from which the derivations' ids follow. Where it moved, the ids themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from derive.build.builders import VERSIONS
from derive.canonical import Digest, Json, digest_document, sha256
from derive.errors import InputErrors, Problem
from derive.sandbox.spec import sandbox_settings
from derive.schema.model import Schema

if TYPE_CHECKING:
    from derive.derivations.model import Derivation
    from derive.project import Project

ROOTS = ("derivations/", "lock/", "patches/")


def file_of(image: str) -> str:
    """Return the path of an image's pinned schema, below the project."""
    return f"recipes/{image}.schema.json"


def derivation_of(image: str) -> str:
    """Return the name of the derivation that an image's schema is read by: a union of all parts."""
    return f"{image}-schema"


def content_digest(files: Mapping[str, bytes], build_platform: str) -> Digest:
    """Return the digest of all that the ids of an image's schema can follow from."""
    settings: dict[str, Json] = dict(sandbox_settings())
    return digest_document(
        {
            "derive": "schema-content/1",
            "build-platform": build_platform,
            "builders": dict(VERSIONS),
            "files": {path: sha256(data).hex for path, data in files.items() if path.startswith(ROOTS)},
            "sandbox": settings,
        }
    )


def target(project: Project, image: str) -> Derivation:
    """Return the derivation that an image's schema is read by.

    Raises:
        InputErrors: when the project has no such image or derivation, or something in it is wrong.
    """
    from derive.derivations.evaluate import Evaluator
    from derive.derivations.scope import absent, load_scope

    scope = load_scope(project)
    declared = scope.images.get(image)
    if declared is None:
        raise InputErrors([absent("images/", "image", image, scope.images, "what there is: derive show")])
    name = derivation_of(image)
    if name not in scope.declared:
        message = f"nothing says how the arguments of {image} are read"
        hint = f"declare {name} in derivations/{name}.toml: docs/arguments.md"
        raise InputErrors([Problem(where="derivations/", message=message, hint=hint)])
    return Evaluator(scope).derivation(name, declared.default_platform)


def parts_of(derivation: Derivation) -> dict[str, str]:
    """Return the ids of what the union is made of, by name."""
    return {name: str(reference.derivation.id) for name, reference in sorted(derivation.inputs.items())}


def stale(project: Project, schema: Schema) -> tuple[str, ...]:
    """Return the parts that moved since a schema was pinned; none when it is up to date.

    Raises:
        InputErrors: as :func:`target`.
    """
    if content_digest(project.files, project.settings.build_platform).hex == schema.content:
        return ()
    derivation = target(project, schema.image)
    if str(derivation.id) == schema.derivation:
        return ()
    now = parts_of(derivation)
    moved = [name for name in sorted({*now, *schema.parts}) if now.get(name) != schema.parts.get(name)]
    return tuple(moved or [derivation_of(schema.image)])
