# SPDX-License-Identifier: Apache-2.0
"""What a report is made from: every file of ``records/``, the recipes' texts at hand, and the page's template.

Edge: reads a project and its git history, and this package.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from derive.canonical import Digest, escape, sha256
from derive.errors import InputErrors, Problem
from derive.infile import read_plain
from derive.words import unreadable

FOLDER = "records"
_LARGEST = 64 << 20
_TEMPLATE = "page.html.j2"


def files_of_records(root: Path) -> dict[str, bytes]:
    """Return every ``.json`` file of a project's records by its path below ``records/``; hidden ones are none.

    Raises:
        InputErrors: for each that is no ordinary file, or cannot be read.
    """
    files: dict[str, bytes] = {}
    problems: list[Problem] = []
    for path in sorted(_below(root / FOLDER)):
        name = escape(os.fsencode(path.relative_to(root / FOLDER)))
        try:
            files[name] = read_plain(path, _LARGEST, follow=False)[0]
        except OSError as error:
            problems.append(Problem(where=f"{FOLDER}/{name}", message=unreadable(error)))
    if problems:
        raise InputErrors(problems)
    return files


def texts_at_hand(root: Path, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the texts of recipes that records of releases name and that working tree or git have, by SHA-256 in hex.

    A release whose texts are those of the one before it is not asked for again.
    """
    from derive.records.chain import FOLDER as CHAIN
    from derive.records.chain import read_chain
    from derive.releases.content import WorkingTree
    from derive.releases.past import GitHistory
    from derive.report.recipes import text_digests

    inside = CHAIN.removeprefix(f"{FOLDER}/") + "/"
    chain = read_chain({path.removeprefix(inside): data for path, data in files.items() if path.startswith(inside)})
    found: dict[str, bytes] = {}
    for entry in chain.entries:
        if entry.record.kind != "candidate":
            continue
        commit = entry.record.body.get("commit")
        wanted = {path: digest for path, digest in text_digests(entry.record).items() if digest not in found}
        for source in (WorkingTree(root), GitHistory(root, commit if isinstance(commit, str) else None)):
            left = {path: Digest(digest) for path, digest in wanted.items() if digest not in found and _is_hex(digest)}
            for path, data in source.find(left) if left else ():
                if sha256(data) == left.get(path):
                    found[wanted[path]] = data
    return found


def _is_hex(digest: str) -> bool:
    try:
        Digest(digest)
    except ValueError:
        return False
    return True


def page_template() -> str:
    """Return the template of the page."""
    from importlib.resources import files

    return files("derive.report").joinpath(_TEMPLATE).read_text("utf-8")


def _below(folder: Path) -> Iterator[Path]:
    for above, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(above, name) for name in names if name.endswith(".json") and not name.startswith("."))
