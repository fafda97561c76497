# SPDX-License-Identifier: Apache-2.0
"""Modules that decide do no IO, and modules that act decide nothing: each says which it is, and its imports agree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"

FORBIDDEN = frozenset(
    """
    asyncio ctypes fcntl getpass glob grp http io locale mmap multiprocessing os pathlib platform pty pwd random
    requests resource secrets select selectors shutil socket socketserver sqlite3 ssl subprocess tempfile termios
    threading time urllib.request uuid
    """.split()  # noqa: SIM905 - a list of words
)
ALLOWED_NAMES = frozenset({"pathlib.PurePath", "pathlib.PurePosixPath", "io.BytesIO"})
"""Values that these modules define: a path as a name, and bytes that can be read like a file."""
FORBIDDEN_CALLS = frozenset({"breakpoint", "input", "open", "print"})


@dataclass(frozen=True, slots=True)
class Module:
    """One module of the engine, parsed."""

    name: str
    tree: ast.Module
    is_package: bool

    @property
    def kind(self) -> str | None:
        """Return ``Core`` or ``Edge``, as the docstring says, or None."""
        lines = (ast.get_docstring(self.tree) or "").splitlines()
        said = {word for word in ("Core", "Edge") if any(line.startswith((f"{word}:", f"{word} ")) for line in lines)}
        return said.pop() if len(said) == 1 else None


def parse(name: str, text: str, *, is_package: bool = False) -> Module:
    return Module(name, ast.parse(text), is_package)


@pytest.fixture(scope="module")
def all_modules() -> dict[str, Module]:
    """Every module of the engine, by name."""
    found = {}
    for path in sorted((SOURCE / "derive").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        found[name] = parse(name, path.read_text(), is_package=is_package)
    return found


def imports(module: Module) -> Iterator[tuple[int, str]]:
    """Yield the line and full name of everything that is imported when code runs, inside functions too."""
    waiting: list[ast.AST] = [module.tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            waiting.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.name.split(".")[: len(module.name.split(".")) - node.level + module.is_package]
                base = ".".join([*package, *([base] if base else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        waiting.extend(ast.iter_child_nodes(node))


def calls(module: Module) -> Iterator[tuple[int, str]]:
    """Yield the line and name of each function that is called by a bare name."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.lineno, node.func.id


def violations(module: Module, modules: dict[str, Module]) -> Iterator[str]:
    """Yield what a core module does and may not."""
    for line, name in imports(module):
        parents = {".".join(name.split(".")[:depth]) for depth in range(1, name.count(".") + 2)}
        if parents & FORBIDDEN and name not in ALLOWED_NAMES:
            yield f"{module.name}:{line}: imports {name}"
        target = modules.get(name) or modules.get(name.rpartition(".")[0])
        if target is not None and target.kind == "Edge":
            yield f"{module.name}:{line}: imports {target.name}, which is an edge"
    for line, name in calls(module):
        if name in FORBIDDEN_CALLS:
            yield f"{module.name}:{line}: calls {name}"


def test_every_module_says_whether_it_is_core_or_edge(all_modules: dict[str, Module]) -> None:
    silent = [name for name, module in all_modules.items() if module.kind is None]
    assert silent == [], "a line of the docstring begins with Core: or Edge:, and says what it touches"


def test_core_modules_do_no_io_and_import_no_edge(all_modules: dict[str, Module]) -> None:
    core = [module for module in all_modules.values() if module.kind == "Core"]
    found = [text for module in core for text in violations(module, all_modules)]
    assert found == [], "\n".join(found)


def test_the_engine_has_both_kinds(all_modules: dict[str, Module]) -> None:
    kinds = [module.kind for module in all_modules.values()]
    assert kinds.count("Core") > 20
    assert kinds.count("Edge") > 20


MODULES = {
    "derive.core": parse("derive.core", '"""A.\n\nCore: no IO.\n"""'),
    "derive.edge": parse("derive.edge", '"""A.\n\nEdge: the disk.\n"""'),
    "derive.pack": parse("derive.pack", '"""A.\n\nCore: no IO.\n"""', is_package=True),
    "derive.pack.edge": parse("derive.pack.edge", '"""A.\n\nEdge: the disk.\n"""'),
}


@pytest.mark.parametrize(
    "code",
    [
        "import os",
        "import os.path as p",
        "import json, time",
        "from os import path",
        "from pathlib import Path",
        "import pathlib",
        "def f():\n    import socket",
        "class A:\n    def f(self):\n        from subprocess import run",
        "try:\n    import threading\nexcept ImportError:\n    pass",
        "import urllib.request",
        "from urllib import request",
        "if TYPE_CHECKING:\n    pass\nelse:\n    import os",
        "import derive.edge",
        "from derive import edge",
        "from derive.edge import thing",
        "from derive.pack import edge",
        "from derive.pack.edge import thing",
        "from . import edge",
        "from .pack.edge import thing",
        "def f():\n    return open('x')",
        "print(1)",
        "f = lambda: input()",
    ],
)
def test_each_breach_is_found(code: str) -> None:
    assert len(list(violations(parse("derive.user", code), MODULES))) == 1


@pytest.mark.parametrize(
    "code",
    [
        "import json, hashlib, re, zlib",
        "from pathlib import PurePath, PurePosixPath",
        "from urllib.parse import quote",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import threading\n    from derive.edge import thing",
        "import typing\nif typing.TYPE_CHECKING:\n    from pathlib import Path",
        "from derive.core import thing",
        "from derive.pack import thing",
        "def f(store):\n    return store.open('x')",
    ],
)
def test_what_is_no_breach_is_let_through(code: str) -> None:
    assert list(violations(parse("derive.user", code), MODULES)) == []


@pytest.mark.parametrize(
    ("docstring", "kind"),
    [
        ("One idea.\n\nCore: no IO.\n", "Core"),
        ("One idea.\n\nEdge: the network.\n", "Edge"),
        ("One idea.\n\nCore: no IO.\nEdge: the network.\n", None),
        ("One idea about Core: and Edge: things.\n", None),
        ("Corely.\n", None),
        ("", None),
    ],
)
def test_the_kind_is_what_one_line_of_the_docstring_says(docstring: str, kind: str | None) -> None:
    assert parse("m", f'"""{docstring}"""').kind == kind
