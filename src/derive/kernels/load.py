# SPDX-License-Identifier: Apache-2.0
"""The kernels of a project, with everything that is wrong with their files.

Core: no IO. Imports pydantic through the declarations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from keyword import iskeyword
from typing import NamedTuple

from derive.errors import Problem
from derive.kernels.declarations import KERNEL, KernelDecl, parse_kernel

FOLDER = "kernels"
"""The root folder that kernels lie in."""

FILE = "kernel.toml"
"""What says of a folder that it is a kernel."""

SOURCE = "kernel.py"
"""The code of a kernel: what is compiled."""


class Loaded(NamedTuple):
    """The kernels that are right, what is wrong, and the names of all, right or wrong."""

    kernels: Mapping[str, KernelDecl]
    problems: list[Problem]
    names: frozenset[str]


def load_kernels(files: Mapping[str, bytes]) -> Loaded:
    """Read every kernel below ``kernels/``; a folder without a kernel.toml holds what kernels share."""
    found: dict[str, KernelDecl] = {}
    names = {path.partition("/")[0] for path in files if path.count("/") == 1 and path.endswith(f"/{FILE}")}
    problems = list(_folder_problems(files, names))
    for name in sorted(names):
        kernel, wrong = parse_kernel(files[f"{name}/{FILE}"], f"{FOLDER}/{name}/{FILE}")
        problems.extend(wrong)
        if kernel is not None:
            found[name] = kernel
    return Loaded(found, problems, frozenset(names))


def source_path(kernel: str) -> str:
    """Return where a kernel's code lies in the project."""
    return f"{FOLDER}/{kernel}/{SOURCE}"


def _folder_problems(files: Mapping[str, bytes], names: set[str]) -> Iterator[Problem]:
    apart = [path.partition("/") for path in files if path.count("/") == 1]
    shared = {file.removesuffix(".py") for folder, _, file in apart if folder not in names and file.endswith(".py")}
    for name in sorted(names):
        where = f"{FOLDER}/{name}"
        if not KERNEL.fullmatch(name):
            hint = "use lower-case letters, digits and _: it becomes a module of the wheel"
            yield Problem(where=where, message="not a name for a kernel", hint=hint)
        elif iskeyword(name) or name in shared:
            message = "a word of Python" if iskeyword(name) else "the name of a module that kernels share"
            yield Problem(where=where, message=message, hint="choose another: it becomes a module of the wheel")
        data = files.get(f"{name}/{SOURCE}")
        if data is None:
            yield Problem(where=where, message=f"no file {SOURCE}", hint="it holds the functions that are compiled")
        else:
            yield from _text_problems(data, source_path(name))
    for path in files:
        folder, _, rest = path.partition("/")
        if rest == SOURCE and folder not in names:
            yield Problem(where=f"{FOLDER}/{folder}", message=f"no file {FILE}", hint="it says what is compiled")
        if path.rpartition("/")[2] == "__init__.py":
            hint = "remove it: what the wheel needs of the kind is made with the wheel"
            yield Problem(where=f"{FOLDER}/{path}", message="a package, and content is none", hint=hint)


def _text_problems(data: bytes, where: str) -> Iterator[Problem]:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        yield Problem(where=where, message=f"not UTF-8, at byte {error.start}")
