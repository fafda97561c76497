# SPDX-License-Identifier: Apache-2.0
"""A project of some of the wheels of another one, as its image has them: their own layers, carried streams, byte code.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from derive.derivations.declarations import DebianRootDecl, WheelsDecl
from derive.derivations.model import DEBIAN_ARCHITECTURE
from derive.derivations.scope import Scope
from derive.lock.documents import PythonLock, render_lock, target_name
from derive.lock.wishes import parse_wish, wish_digest
from derive.project import Project

NAME = "measured"
"""What the image is called, its set of wheels, and that set's declaration with ``-wheels`` behind it."""

_NATIVE = ("*.a", "*.so", "*.so.*", "*/bin/*")


def some_wheels(scope: Scope, image: str, declaration: str, names: Collection[str]) -> Project:
    """Return a project of these wheels of a ``wheels`` declaration, for the platform that the image has as default."""
    decl, host = scope.declared[declaration].declaration, scope.images[image].default_platform
    assert isinstance(decl, WheelsDecl)
    root = scope.declared[decl.root]
    assert isinstance(root.declaration, DebianRootDecl)
    lock, architecture = scope.locks[decl.set], DEBIAN_ARCHITECTURE[host]
    assert isinstance(lock, PythonLock)
    wheels = tuple(one for one in lock.target(decl.python, architecture) if one.name in names)
    wish_file, lock_file = f"lock/{NAME}.toml", f"lock/{NAME}.lock.json"
    wish = _wish(decl.python, architecture, [f"{one.name}=={one.version}" for one in wheels])
    parsed, problems = parse_wish(wish, wish_file)
    assert parsed is not None, problems
    targets = {target_name(decl.python, architecture): tuple(sorted(one.file for one in wheels))}
    subset = PythonLock(set=NAME, wish=wish_digest(parsed), wheels=wheels, targets=targets)
    of_root = [root.file, *(f"lock/{root.declaration.set}{end}" for end in (".toml", ".lock.json"))]
    return Project(
        root=Path("made-up"),
        settings=replace(scope.project.settings, default_image=NAME),
        files={
            **{file: scope.project.files[file] for file in of_root},
            wish_file: wish,
            lock_file: render_lock(subset),
            f"derivations/{NAME}.toml": _declared(decl.python, decl.root),
            f"images/{NAME}.toml": _image(host, [one.name for one in wheels]),
        },
    )


def _wish(python: str, architecture: str, requirements: Collection[str]) -> bytes:
    return f"""\
kind = "python"
pythons = ["{python}"]
architectures = ["{architecture}"]
glibc = "2.41"
exclude-newer = "2026-01-01T00:00:00Z"
requirements = {_words(requirements)}
""".encode()


def _declared(python: str, root: str) -> bytes:
    return f"""\
[{NAME}-wheels]
builder = "wheels"
set = "{NAME}"
python = "{python}"
root = "{root}"
identity = "facts"
""".encode()


def _image(host: str, names: Collection[str]) -> bytes:
    return f"""\
platforms = ["{host}"]
default-platform = "{host}"
[[layers]]
name = "wheels"
from = ["{NAME}-wheels"]
[layers.split]
own = {_words(names)}
native = {_words(_NATIVE)}
[encoding]
name = "gzip-members/2"
""".encode()


def _words(words: Collection[str]) -> str:
    return "[" + ", ".join(f'"{word}"' for word in words) + "]"
