# SPDX-License-Identifier: Apache-2.0
"""All records of a project held together: against their own digests, and against git; what builds on them asks first.

Edge: reads the project's records, and git.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from derive.errors import CheckFailed, InputErrors, Problem
from derive.project import published_branch
from derive.records.chain import FOLDER, Chain, chain_problems, read_chain
from derive.records.documents import document_problems
from derive.records.folder import read_files
from derive.records.history import History, against_git, branch_files
from derive.trust.folder import history_problems
from derive.trust.history import FOLDER as KEYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The records of releases as they were read, and what is wrong: with records, with documents, and by git.

    ``records`` are faults of the chain and of the events of keys; each fault stands in one of the three alone.
    """

    files: Mapping[str, bytes]
    chain: Chain
    records: tuple[Problem, ...]
    documents: tuple[Problem, ...]
    history: History

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that is wrong."""
        return (*self.records, *self.documents, *self.history.problems)


class NotHeld(CheckFailed):
    """Records on which an answer would rest are not as they were written: the answer is no, with every fault."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("records are not as they were written")
        self._problems = tuple(problems)

    def problems(self) -> tuple[Problem, ...]:
        """Return every fault, in the order in which it was found."""
        return self._problems


def hold(root: Path, since: str | None = None) -> Held:
    """Read everything and hold it against all that is known; ``since`` as :func:`against_git` takes it.

    Raises:
        InputErrors: when there is no commit of the name ``since``.
    """
    files, unread = read_files(root)
    chain = read_chain(files)
    told = {one.where for one in unread}
    records = [*unread, *_untold(chain_problems(chain, files, _published(root, files)), told), *history_problems(root)]
    documents = _untold(document_problems(chain, files), told)
    told |= {one.where for one in records if one.where.startswith(f"{KEYS}/")}
    history = against_git(root, files, chain, since)
    found = tuple(one for one in history.problems if one.where not in told)
    return Held(
        files=files,
        chain=chain,
        records=tuple(records),
        documents=tuple(documents),
        history=History(
            commits=history.commits, problems=found, refused=history.refused, is_partial=history.is_partial
        ),
    )


def _published(root: Path, files: Mapping[str, bytes]) -> frozenset[str] | None:
    """Name the records that the published branch has as they are here; None where none is named, or git cannot say."""
    try:
        branch = published_branch(root)
    except InputErrors:  # told by whatever reads the project
        return None
    there = None if branch is None else branch_files(root, branch)
    return None if there is None else frozenset(name for name, data in there.items() if files.get(name) == data)


def require_held(root: Path) -> None:
    """Refuse to write after records that are not as they were written or committed.

    Raises:
        InputErrors: with every fault; a release that was not finished is none.
    """
    found = hold(root)
    if found.records or found.history.problems:
        raise InputErrors([*found.records, *found.history.problems])


def vouched(root: Path) -> str | None:
    """Refuse to vouch, or to count who did, on records that are not as they were written or committed.

    Returns why nothing was held against git, None where it was.

    Raises:
        NotHeld: with every fault; documents are held where they are read.
    """
    found = hold(root)
    if found.records or found.history.problems:
        raise NotHeld([*found.records, *found.history.problems])
    return found.history.refused


def keys_held(root: Path) -> str | None:
    """Do as :func:`vouched` for the events of keys alone."""
    history = against_git(root, {}, Chain(entries=()), folders=(KEYS,))
    own = history_problems(root)
    told = {one.where for one in own}
    problems = [*own, *(one for one in history.problems if one.where not in told)]
    if problems:
        raise NotHeld(problems)
    return history.refused


def _untold(problems: Sequence[Problem] | Iterator[Problem], told: set[str]) -> list[Problem]:
    """Leave out that a file is absent which is there, and no file: that is told by itself."""
    numbers = {where.removeprefix(f"{FOLDER}/")[:4] for where in told}
    absent = {f"no record has the number {number}, and later ones are there" for number in numbers}
    return [one for one in problems if one.where not in told and one.message not in absent]
