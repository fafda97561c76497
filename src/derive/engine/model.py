# SPDX-License-Identifier: Apache-2.0
"""An engine's source as a value: its tree digest, its version, and the project that it carries for its own root.

Core: no IO. Files are given: path in the package ``derive``, with ``/``, to bytes.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from derive.canonical import Digest, Json, digest_document, sha256
from derive.derivations import steps
from derive.derivations.model import Derivation
from derive.errors import InputErrors, Problem
from derive.trees.listing import File, Listing
from derive.trees.nar import nar_digest
from derive.trees.pack import NewFile

PROJECT = "engine/project/"
"""Where in the package its project lies."""

_VERSION = re.compile(rb'^__version__ = "([0-9A-Za-z.+!_-]+)"$', re.MULTILINE)
_NO_ROOT = "derive it with its own release of derive"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSource:
    """What an engine's source is known by.

    ``nar`` is the digest of the package as a tree, no file of it executable; ``digest`` is the one that realisations
    and releases name (``derive.build.engine.engine_digest``); ``size`` is that of all files, in bytes.
    """

    version: str
    nar: Digest
    digest: Digest
    size: int


def source_of(files: Mapping[str, bytes]) -> EngineSource:
    """Return what a source is known by.

    Raises:
        InputErrors: when the files are no engine: nothing in them states a version.
    """
    stated = _VERSION.search(files.get("__init__.py", b""))
    if stated is None:
        raise InputErrors.one("not the source of an engine: it states no version", where="derive/__init__.py")
    hashes = {path: sha256(data) for path, data in files.items()}
    listing = Listing.of({path.encode(): File(False, len(files[path]), hashes[path]) for path in files})
    return EngineSource(
        version=stated[1].decode(),
        nar=nar_digest(listing, lambda path, _: (files[path.decode()],)),
        digest=digest_document({"derive": "engine/1", "files": {path: one.hex for path, one in hashes.items()}}),
        size=sum(len(data) for data in files.values()),
    )


def members(files: Mapping[str, bytes]) -> Iterator[tuple[bytes, NewFile]]:
    """Yield the files as members of a new tree."""
    for path, data in sorted(files.items()):
        yield path.encode(), NewFile(False, (data,))


def fetch_source(source: EngineSource) -> Derivation:
    """Return the step that brings an engine's source, known by its tree digest."""
    arguments: dict[str, Json] = {
        "name": "derive",
        "version": source.version,
        "nar": source.nar.hex,
        "size": source.size,
    }
    return steps.fetch(f"derive {source.version} source", "fetch-engine", arguments)


def carried(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the content of the project that an engine carries, by path in the project.

    Raises:
        InputErrors: when it carries none: it is older than this.
    """
    content = {path.removeprefix(PROJECT): data for path, data in files.items() if path.startswith(PROJECT)}
    if "pyproject.toml" not in content:
        raise InputErrors.one("this engine does not say what it runs on", where=f"derive/{PROJECT}", hint=_NO_ROOT)
    return content


def build_platform(pyproject: bytes) -> str:
    """Return the platform on which programs run that make the engine's root, as its project states it.

    Raises:
        InputErrors: when it states none.
    """
    where = f"derive/{PROJECT}pyproject.toml"
    try:
        document = tomllib.loads(pyproject.decode())
        platform = document["tool"]["derive"]["build-platform"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        problem = Problem(where=where, message="it states no build platform", hint=_NO_ROOT)
        raise InputErrors([problem]) from error
    return str(platform)
