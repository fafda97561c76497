# SPDX-License-Identifier: Apache-2.0
"""Byte code of a tree's sources: what to compile, how to run the compiler in a sandbox, how to read its answer.

Edge: reads its own script, ``compile_bytecode.py``, from the package.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from derive.canonical import escape
from derive.errors import BuildFailed
from derive.trees.listing import Listing

SCRIPT = "compile_bytecode.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A source that does not compile, and why."""

    path: bytes
    reason: str


def script() -> bytes:
    """Return the compiler script, which is to lie in the sandbox under any name."""
    from importlib.resources import files

    return files("derive.wheels").joinpath(SCRIPT).read_bytes()


def command(*, python: str, script: str, worklist: str, tree: str, out: str, jobs: int) -> tuple[str, ...]:
    """Return the command to run in the sandbox; all paths as seen there. ``jobs`` changes no byte."""
    return (python, script, worklist, tree, out, str(jobs))


def sources(listing: Listing, paths: Iterable[bytes] = (b"",), exclude: Iterable[str] = ()) -> tuple[bytes, ...]:
    """Return the ``.py`` files at or below ``paths``, sorted bytewise, but for those whose path matches ``exclude``.

    Patterns are matched against the escaped path from the root, without a leading slash; ``*`` spans slashes.
    """
    tops = tuple(paths)
    patterns = tuple(exclude)
    return tuple(
        sorted(
            path
            for path, _ in listing.files()
            if path.endswith(b".py")
            and b"__pycache__" not in path.split(b"/")
            and any(not top or path == top or path.startswith(top + b"/") for top in tops)
            and not any(fnmatchcase(escape(path), pattern) for pattern in patterns)
        )
    )


def worklist(paths: Iterable[bytes]) -> bytes:
    """Return the work list that the script reads."""
    return b"".join(path + b"\0" for path in paths)


def byte_code_path(source: bytes, python: str) -> bytes:
    """Return where the byte code of a source lies, for CPython ``X.Y``."""
    folder, slash, name = source.rpartition(b"/")
    tag = "cpython-" + python.replace(".", "")
    return folder + slash + b"__pycache__/" + name.removesuffix(b".py") + b"." + tag.encode() + b".pyc"


def read_report(paths: tuple[bytes, ...], output: bytes) -> tuple[Skipped, ...]:
    """Read what the script printed.

    Raises:
        BuildFailed: when it is not what the script prints.
    """
    skipped: list[Skipped] = []
    for line in output.decode("ascii", "replace").splitlines():
        number, _, reason = line.partition(" ")
        if not number.isdigit() or int(number) >= len(paths):
            raise BuildFailed(f"the byte-code compiler printed something else than its report: {line[:80]!r}")
        skipped.append(Skipped(path=paths[int(number)], reason=reason))
    return tuple(skipped)
