# SPDX-License-Identifier: Apache-2.0
"""A series as an upstream takes it: a branch of the work tree, and a mailbox for ``git am``, without fields of ours.

Edge: git.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from derive.errors import CheckFailed, InputErrors
from derive.patches.apply import try_patch
from derive.patches.edit import find_patch, settled
from derive.patches.message import author_of, upstream_message
from derive.patches.model import Patch, hunks_of
from derive.patches.publish import SeriesFiles
from derive.patches.repository import NewCommit
from derive.patches.trail import Files, paths_read
from derive.patches.worktree import WorkTree, require_tree, tree_lock

_DATE = re.compile(rb"^Date: .*\n", re.MULTILINE)
_MAIL = re.compile(rb"^From [0-9a-f]{40} Mon Sep 17 00:00:00 2001$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What was made: the mailbox, the branch and its commit, the patches; ``has_cr`` when lines of them end in CRLF."""

    mailbox: bytes
    branch: str
    commit: str
    patches: tuple[str, ...]
    has_cr: bool


def export(
    series: SeriesFiles, root: Path, *, patches: Sequence[str], onto: str | None, branch: str | None
) -> Exported:
    """Make a branch with patches of a series, all or those named, on the source or on another commit of the work tree.

    Raises:
        InputErrors: without a work tree, or when it does not know the commit.
        CheckFailed: when a patch does not apply there; nothing has changed.
    """
    chosen = [find_patch(series, text) for text in patches] or list(series.loaded.series.names)
    picked = [patch for patch in series.loaded.patches if patch.name in chosen]
    if not picked:
        raise InputErrors.one("the series is empty", where=series.where)
    with tree_lock(root):
        tree = settled(require_tree(root, series.upstream), series)
        base = tree.state.base if onto is None else tree.repository.resolve(onto)
        if base is None:
            hint = f"fetch it into the work tree first: git -C {root} fetch URL"
            raise InputErrors.one(f"the work tree knows no commit {onto!r}", where=str(root), hint=hint)
        if onto is None and tree.state.series != str(series.digest):
            hint = f"open it again: derive patches edit {series.upstream}"
            raise InputErrors.one("the series has changed since the work tree was made", where=series.where, hint=hint)
        tip = _commits(tree, base, picked, onto or "the source")
        name = branch or f"send/{series.upstream}"
        _set_branch(tree, name, tip)
        mailbox = tree.repository.git(
            *("format-patch", "--stdout", "--zero-commit", "--no-signature", "--full-index"),
            *("--no-renames" if _no_moves(picked) else "--find-renames", "--text", f"{base}..{tip}"),
        )
    return Exported(
        mailbox=_undated(mailbox),
        branch=name,
        commit=tip,
        patches=tuple(patch.name for patch in picked),
        has_cr=any(
            line.content.endswith(b"\r\n")
            for one in picked
            for op in one.operations
            for h in hunks_of(op)
            for line in h.lines
        ),
    )


def _commits(tree: WorkTree, base: str, patches: Sequence[Patch], where: str) -> str:
    files = Files(tree.repository, base)
    files.fetch(paths_read(patches))
    commits: list[NewCommit] = []
    for patch in patches:
        tried = try_patch(patch.operations, files.read)
        if tried.refused:
            problems = [refused.problem(patch.name) for refused in tried.refused]
            detail = [row for one in problems for row in (f"{one.where}: {one.message}", *one.detail)]
            hint = f"carry the series over first: derive patches rebase {tree.state.upstream} --onto ..."
            raise CheckFailed(f"{patch.name} does not apply on {where}", detail=detail, hint=hint)
        files.write(tried.after)
        message = upstream_message(patch.name, patch.header.text)
        commits.append(NewCommit(changes=tried.after, author=author_of(patch.header.text), message=message))
    return tree.repository.import_commits(base, commits)[-1]


def _set_branch(tree: WorkTree, name: str, commit: str) -> None:
    """Point a branch at the commits; never the one that is checked out."""
    valid = tree.repository.run(("check-ref-format", "--branch", name), codes=(0, 1, 128)).returncode == 0
    current = tree.repository.git("symbolic-ref", "--quiet", "HEAD", codes=(0, 1)).decode().strip()
    if not valid or f"refs/heads/{name}" == current:
        message = "not a name for a branch" if not valid else "this branch is checked out"
        raise InputErrors.one(f"{message}: {name}", where=str(tree.root), hint="name another with --branch")
    tree.repository.set_ref(f"refs/heads/{name}", commit)


def _no_moves(patches: Sequence[Patch]) -> bool:
    from derive.patches.model import Copy, Rename

    return not any(isinstance(operation, Rename | Copy) for patch in patches for operation in patch.operations)


def _undated(mailbox: bytes) -> bytes:
    """Drop the dates: those of our commits are one constant, and git takes the day on which a mail is applied."""
    heads = [match.start() for match in _MAIL.finditer(mailbox)]
    mails = [mailbox[start:end] for start, end in zip(heads, [*heads[1:], len(mailbox)], strict=True)]
    return b"".join(
        _DATE.sub(b"", head, count=1) + b"\n\n" + body for head, _, body in (mail.partition(b"\n\n") for mail in mails)
    )
