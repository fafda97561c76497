# SPDX-License-Identifier: Apache-2.0
"""The checks of the project itself: settings, content, locks, series, records, and what git holds of it.

Core: no IO. Imports pydantic through the declarations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date, timedelta
from typing import TYPE_CHECKING

from derive.doctor.check import Answer, Check, Unknown
from derive.doctor.model import GitFacts, Unreadable
from derive.doctor.secrets import is_secret_name
from derive.errors import Problem, expected_got
from derive.lock.upstreams.entries import GitEntry, HuggingFaceEntry, UpstreamsLock
from derive.lock.upstreams.wishes import UpstreamsWish

if TYPE_CHECKING:
    from derive.doctor.case import Case

_COMMIT = re.compile(r"[0-9a-f]{40}")
_PATIENCE = timedelta(days=30)
_HINT_GIT = "run it where git is installed; in a project that git does not know yet: git init"


def _settings(case: Case) -> Iterator[Problem]:
    yield from (one for one in case.content.problems if one.where.startswith("pyproject.toml"))


def _content(case: Case) -> Iterator[Problem]:
    yield from (one for one in case.facts.reading if not one.where.startswith("pyproject.toml"))


def _untracked(case: Case) -> Iterator[Answer]:
    git = case.facts.git
    if isinstance(git, Unreadable):
        yield Unknown(where=git.where, reason=git.reason, fix=_HINT_GIT)
        return
    content = {*case.facts.launching, *(case.facts.project.files if case.facts.project is not None else ())}
    for path in sorted(content - git.tracked):
        yield Problem(where=path, message="counts as content, and git does not have it")


def _locks(case: Case) -> Iterator[Problem]:
    yield from (one for one in case.content.problems if one.where.startswith("lock/"))
    for name in case.content.laid_out_otherwise:
        hint = f"run: derive lock {name}"
        yield Problem(where=f"lock/{name}.lock.json", message="not laid out as derive lock writes it", hint=hint)


def _series(case: Case) -> Iterator[Problem]:
    yield from (one for one in case.content.problems if one.where.startswith("patches/"))


def _declared(case: Case) -> Iterator[Problem]:
    others = ("pyproject.toml", "lock/", "patches/")
    read = set(case.facts.reading)
    yield from (one for one in case.content.problems if not one.where.startswith(others) and one not in read)


def _of_upstreams(judge: Callable[[UpstreamsLock], Iterable[Problem]]) -> Callable[[Case], Iterator[Answer]]:
    """Return the judge of every set of upstreams; a lock that cannot be read may be one."""

    def judged(case: Case) -> Iterator[Answer]:
        yield from case.content.unread_locks
        for _, lock in sorted(case.content.locks.items()):
            if isinstance(lock, UpstreamsLock):
                yield from judge(lock)

    return judged


def _revisions(lock: UpstreamsLock) -> Iterator[Problem]:
    for entry in lock.upstreams:
        revision = {GitEntry: "commit", HuggingFaceEntry: "revision"}.get(type(entry))
        value = getattr(entry, revision) if revision is not None else None
        if value is not None and not _COMMIT.fullmatch(value):
            yield Problem(
                where=f"lock/{lock.set}.lock.json: {entry.name}.{revision}",
                message=f"{entry.name} is not named by a commit",
                detail=expected_got("40 hexadecimal digits", value),
                hint=f"give its commit in lock/{lock.set}.toml, and run: derive lock {lock.set}",
            )


def _pinned(lock: UpstreamsLock) -> Iterator[Problem]:
    for entry in lock.upstreams:
        if entry.unpinned is not None and not isinstance(entry, HuggingFaceEntry):
            yield Problem(
                where=f"lock/{lock.set}.lock.json: {entry.name}",
                message=f"{entry.name} has no pin, and what needs its contents is refused",
                detail=(f"reason    {entry.unpinned}",),
                hint=f"where it can be reached, run: derive lock {lock.set} --update {entry.name}",
            )


def _watched(case: Case) -> Iterator[Answer]:
    yield from case.content.unread_locks
    today = date.fromisoformat(case.facts.today)
    for name, wish in sorted(case.content.wishes.items()):
        lock = case.content.locks.get(name)
        if not isinstance(wish, UpstreamsWish) or not isinstance(lock, UpstreamsLock):
            continue
        seen = {entry.name for entry in lock.watched}
        for upstream, one in sorted(wish.watch.items()):
            where = f"lock/{name}.toml: watch.{upstream}"
            since = _date(one.since)
            if since is None or since > today:
                hint = "write the date on which it came on the list, as in 2026-11-30"
                yield Problem(where=f"{where}.since", message=f"{one.since} is no day that has been", hint=hint)
            elif upstream not in seen and today - since > _PATIENCE:
                days = (today - since).days
                message = f"on the watch list for {days} days, and nobody has looked at it yet"
                yield Problem(where=where, message=message)


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _of_git(judge: Callable[[GitFacts], Iterable[Answer]]) -> Callable[[Case], Iterator[Answer]]:
    def judged(case: Case) -> Iterator[Answer]:
        git = case.facts.git
        if isinstance(git, Unreadable):
            yield Unknown(where=git.where, reason=git.reason, fix=_HINT_GIT)
        else:
            yield from judge(git)

    return judged


def _secret_names(git: GitFacts) -> Iterator[Problem]:
    for path in sorted(git.tracked):
        if is_secret_name(path):
            yield Problem(where=path, message="called as files with secrets are, and git has it")


def _secret_contents(git: GitFacts) -> Iterator[Answer]:
    for one in sorted(set(git.secrets)):
        staged = ", as git would commit it" if one.staged else ""
        yield Problem(where=f"{one.path}: line {one.line}", message=f"looks like a secret{staged}: {one.kind}")
    yield from (Unknown(where=one.where, reason=one.reason) for one in git.unread)


CHECKS: tuple[Check, ...] = (
    Check(
        id="project.settings",
        severity="error",
        what="the project's settings can be read, and its default image is declared",
        why="settings decide which platform builds and which image is meant; a key that nobody reads decides nothing",
        how="[tool.derive] of pyproject.toml, key by key; the default image among images/*.toml",
        fix="write the keys that docs/development.md lists",
        place="pyproject.toml",
        judge=_settings,
    ),
    Check(
        id="project.content",
        severity="error",
        what="content is made of ordinary files that can be read",
        why="a link or an unreadable file is content on one machine and not on another",
        how="every file and folder of the content folders, hidden files and editors' backups left out",
        fix="put the file itself in its place, readable, with a name of printable characters",
        place="all content",
        judge=_content,
    ),
    Check(
        id="project.tracked",
        severity="warn",
        what="git has every file that counts as content",
        why="a file that lies in a content folder and not in git changes digests here, and nobody else can derive them",
        how="the files that the engine reads, against git's index; ignored files count too",
        fix="git add it, or move it away",
        place="all content",
        judge=_untracked,
    ),
    Check(
        id="sources.locks",
        severity="error",
        what="every lock is sound and fits its wish",
        why="a wish that changed without its lock says one thing and builds another",
        how="each lock/*.toml and lock/*.lock.json is read, and the digest of the wish compared; no mirror is asked",
        fix="run: derive lock",
        place="lock/",
        judge=_locks,
    ),
    Check(
        id="sources.series",
        severity="error",
        what="every series names patches that are there and can be read, and every patch is in a series",
        why="a patch outside a series is applied by nobody, and one outside its folder is reviewed by nobody",
        how="each patches/*/series and each patch is parsed, with the paths that it changes; whether it applies, "
        "derive patches status says",
        fix="see docs/patches.md",
        place="patches/",
        judge=_series,
    ),
    Check(
        id="sources.declared",
        severity="error",
        what="derivations, kernels and images are sound, and name only what there is",
        why="one wrong reference stops every build that needs it",
        how="everything that derivations/, kernels/ and images/ declare is parsed, and every name looked up; "
        "nothing is built",
        fix="see docs/declarations.md",
        place="derivations/ kernels/ images/",
        judge=_declared,
    ),
    Check(
        id="sources.revisions",
        severity="error",
        what="every upstream is named by a whole commit",
        why="a branch, a tag or a shortened commit is something else tomorrow",
        how="the commit of each git upstream and the revision of each model, as locked, where one is named at all",
        fix="name the commit in the wish, and lock again",
        place="lock/*.lock.json",
        judge=_of_upstreams(_revisions),
    ),
    Check(
        id="sources.pinned",
        severity="warn",
        what="the contents of every upstream that is built from are locked",
        why="what is not pinned cannot be fetched and checked, so whatever needs it is refused",
        how="the locked upstreams but for models, which model.pinned looks at where a recipe serves them",
        fix="where it can be reached, run: derive lock SET --update NAME",
        place="lock/*.lock.json",
        judge=_of_upstreams(_pinned),
    ),
    Check(
        id="sources.watched",
        severity="warn",
        what="every upstream on the watch list has been looked at",
        why="a list that nobody reads hides what moved",
        how="each watch entry of lock/*.toml, against today and what the lock says was seen: 30 days are given; "
        "whether an upstream moved since, derive lock watch says",
        fix="run: derive lock watch --seen",
        place="lock/*.toml",
        judge=_watched,
    ),
    Check(
        id="secrets.names",
        severity="error",
        what="no tracked file is called as files with secrets are",
        why="what was once committed is in every clone, also after it was deleted",
        how="the names that git has: .env, id_rsa, id_ed25519 and their like, credentials.json; *.pem, *.key, "
        "*.local.env, *.local.json, *.local.toml",
        fix="git rm --cached it, keep it outside the repository; replace the secret where it was pushed",
        place="tracked files",
        judge=_of_git(_secret_names),
    ),
    Check(
        id="secrets.contents",
        severity="error",
        what="no tracked file holds a private key or a token",
        why="what was once committed is in every clone, also after it was deleted",
        how="the contents of tracked files of 2 MiB at most, in the folder and as git would commit them: private keys, "
        "and tokens by the prefixes of their issuers",
        fix="take it out, and replace the secret: whoever has a clone has it",
        place="tracked files",
        judge=_of_git(_secret_contents),
    ),
)
