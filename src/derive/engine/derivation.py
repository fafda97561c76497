# SPDX-License-Identifier: Apache-2.0
"""The engine as a derivation: Debian's packages, wheels with byte code, and its own source, united to one root.

Edge: reads the running engine's own files, where no others are given. Page: docs/engine.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from derive.derivations import steps
from derive.engine.model import EngineSource, build_platform, carried, fetch_source, source_of
from derive.engine.source import engine_files

if TYPE_CHECKING:
    from derive.derivations.model import Derivation, Platform
    from derive.project import Project

PYTHON = "3.13"
PACKAGES = f"usr/local/lib/python{PYTHON}/dist-packages"
PACKAGE = f"{PACKAGES}/derive"
"""Where in the root the package lies."""

_BASE, _ROOT = "base", "root"


def engine_derivation(files: Mapping[str, bytes] | None, platform: Platform) -> Derivation:
    """Return what gives a root in which an engine runs: as :func:`engine_derivations`, for one platform."""
    return engine_derivations(files, (platform,))[platform]


def engine_derivations(files: Mapping[str, bytes] | None, platforms: Iterable[Platform]) -> dict[Platform, Derivation]:
    """Return, for each platform, what gives a root in which ``python3.13 -m derive`` is the engine.

    ``files`` are those of an engine's package by their path in it; None stands for the engine that runs. The project
    that they carry is evaluated with the builders of the engine that runs.

    Raises:
        InputErrors: when they are no engine, or carry no project that can be evaluated.
    """
    from derive.derivations.evaluate import Evaluator
    from derive.derivations.scope import load_scope

    given = engine_files() if files is None else files
    source = source_of(given)
    project = _project(carried(given))
    evaluator = Evaluator(load_scope(project))
    build = project.settings.build_platform
    root = evaluator.derivation(_ROOT, build)
    return {host: _united(evaluator.derivation(_BASE, host), root, source, build, host) for host in platforms}


def _project(content: Mapping[str, bytes]) -> Project:
    from derive.project import CONTENT_ROOTS, Project, Settings

    stated: Platform = "linux/arm64" if build_platform(content["pyproject.toml"]) == "linux/arm64" else "linux/amd64"
    files = {path: data for path, data in content.items() if path.startswith(tuple(f"{one}/" for one in CONTENT_ROOTS))}
    return Project(root=Path(), settings=Settings(default_image="", build_platform=stated), files=files)


def _united(base: Derivation, root: Derivation, source: EngineSource, build: Platform, host: Platform) -> Derivation:
    """Return the union of everything; the package's byte code is compiled where it will lie."""
    name, fetched = f"engine {source.version}", fetch_source(source)
    placed = steps.composed(f"{name} package", [("source", PACKAGE, fetched)], {})
    code = steps.bytecode(f"{name} byte code", placed, root, python=PYTHON, paths=[PACKAGE], exclude=(), build=build)
    parts = [("base", "", base), ("package", "", placed), ("bytecode", "", code)]
    inputs = {part: steps.reference(tree) for part, _, tree in parts}
    listed = [{"name": part, "at": at} for part, at, _ in parts]
    return steps.step(name, "compose", {"parts": listed, "wins": {}}, inputs, host=host)
