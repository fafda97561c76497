# SPDX-License-Identifier: Apache-2.0
"""What a Debian root has beyond its packages, as a value and as the builder's arguments.

Core: no IO.

Paths are bytes, relative to the root; :func:`root_path` makes them of the absolute paths that people write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from derive.canonical import CanonicalError, Json, escape, unescape
from derive.errors import InputErrors, Problem
from derive.trees.listing import ListingError, check_path

_T = TypeVar("_T")
_ACCOUNT = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_LIST_FIELD = "a list of objects"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A line of ``/etc/passwd`` beyond those of base-passwd. No field holds a colon or a line break."""

    name: str
    uid: int
    gid: int
    gecos: str = ""
    home: str = "/nonexistent"
    shell: str = "/usr/sbin/nologin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A line of ``/etc/group`` beyond those of base-passwd."""

    name: str
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """A link that update-alternatives would have made: ``link`` -> ``/etc/alternatives/<its name>`` -> ``target``."""

    link: bytes
    target: bytes

    @property
    def name(self) -> bytes:
        """The name below ``/etc/alternatives``: the last component of the link."""
        return self.link.rpartition(b"/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFile:
    """A file written as declared, 0644; it takes the place of a package's file of that path, and the log says so."""

    path: bytes
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaces:
    """Where packages give one path differently, the package whose file is kept."""

    path: bytes
    package: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Excuse:
    """Why the scripts that match a pattern need not run. The pattern is matched against ``package.script``."""

    pattern: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RootDeclaration:
    """Everything that decides a root, packages apart. Lists are in canonical order: by name, path or pattern.

    ``architecture`` is dpkg's native one (amd64, arm64). ``covered`` scripts do what this declaration or the builder
    does in their place; ``waived`` ones do what nobody needs here.
    """

    architecture: str
    accounts: tuple[Account, ...] = ()
    groups: tuple[Group, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    files: tuple[TextFile, ...] = ()
    replaces: tuple[Replaces, ...] = ()
    covered: tuple[Excuse, ...] = ()
    waived: tuple[Excuse, ...] = ()


def root_path(text: str) -> bytes:
    """Return the path below the root that an absolute path names.

    Raises:
        ValueError: when it is not absolute, or not in its plain form.
    """
    path = text.encode("utf-8")
    if not path.startswith(b"/") or path == b"/":
        raise ValueError(f"not an absolute path: {text!r}")
    try:
        check_path(path[1:])
    except ListingError as error:
        raise ValueError(str(error)) from error
    return path[1:]


def to_document(declaration: RootDeclaration) -> dict[str, Json]:
    """Return the declaration as JSON values, in canonical order whatever the order of the value's tuples."""
    return {
        "architecture": declaration.architecture,
        "accounts": [
            {"gecos": a.gecos, "gid": a.gid, "home": a.home, "name": a.name, "shell": a.shell, "uid": a.uid}
            for a in sorted(declaration.accounts, key=lambda a: a.name)
        ],
        "groups": [{"gid": g.gid, "name": g.name} for g in sorted(declaration.groups, key=lambda g: g.name)],
        "alternatives": [
            {"link": escape(a.link), "target": escape(a.target)}
            for a in sorted(declaration.alternatives, key=lambda a: a.link)
        ],
        "files": [{"path": escape(f.path), "text": f.text} for f in sorted(declaration.files, key=lambda f: f.path)],
        "replaces": [
            {"package": r.package, "path": escape(r.path)} for r in sorted(declaration.replaces, key=lambda r: r.path)
        ],
        "covered": _excuses(declaration.covered),
        "waived": _excuses(declaration.waived),
    }


def from_document(document: Mapping[str, Json], *, where: str = "arguments") -> RootDeclaration:
    """Read what :func:`to_document` wrote; every problem at once.

    Raises:
        InputErrors: on unknown or absent keys, wrong types, names and paths that no root can have, duplicates.
    """
    reader = _Reader(where)
    declaration = RootDeclaration(
        architecture=reader.text(document, "architecture", where),
        accounts=reader.items(document, "accounts", _account, lambda a: a.name),
        groups=reader.items(document, "groups", _group, lambda g: g.name),
        alternatives=reader.items(document, "alternatives", _alternative, lambda a: a.name),
        files=reader.items(document, "files", _file, lambda f: f.path),
        replaces=reader.items(document, "replaces", _replaces, lambda r: r.path),
        covered=reader.items(document, "covered", _excuse, lambda e: e.pattern),
        waived=reader.items(document, "waived", _excuse, lambda e: e.pattern),
    )
    reader.known(document, set(RootDeclaration.__dataclass_fields__), where)
    if reader.problems:
        raise InputErrors(reader.problems)
    return declaration


def _excuses(excuses: Iterable[Excuse]) -> list[Json]:
    return [{"pattern": e.pattern, "reason": e.reason} for e in sorted(excuses, key=lambda e: e.pattern)]


class _Reader:
    """Takes typed values out of JSON, and collects what is wrong instead of stopping."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.problems: list[Problem] = []

    def wrong(self, where: str, message: str) -> None:
        self.problems.append(Problem(where=where, message=message))

    def known(self, document: Mapping[str, Json], keys: set[str], where: str) -> None:
        for key in sorted(set(document) - keys):
            self.wrong(f"{where}.{key}", "an unknown key")

    def text(self, document: Mapping[str, Json], key: str, where: str) -> str:
        value = document.get(key)
        if not isinstance(value, str):
            self.wrong(f"{where}.{key}", "a text is needed")
            return ""
        return value

    def line(self, document: Mapping[str, Json], key: str, where: str) -> str:
        value = self.text(document, key, where)
        if ":" in value or not value.isprintable():
            self.wrong(f"{where}.{key}", "a field of a passwd line holds no colon and no line break")
        return value

    def number(self, document: Mapping[str, Json], key: str, where: str) -> int:
        value = document.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**32 - 1:
            self.wrong(f"{where}.{key}", "a number from 0 to 4294967294 is needed")
            return 0
        return value

    def path(self, document: Mapping[str, Json], key: str, where: str) -> bytes:
        try:
            path = unescape(self.text(document, key, where))
            check_path(path)
        except (CanonicalError, ListingError) as error:
            self.wrong(f"{where}.{key}", str(error))
            return b"?"
        if not path:
            self.wrong(f"{where}.{key}", "a path below the root is needed")
        return path

    def items(
        self,
        document: Mapping[str, Json],
        key: str,
        parse: Callable[[_Reader, Mapping[str, Json], str], _T],
        identity: Callable[[_T], object],
    ) -> tuple[_T, ...]:
        values = document.get(key)
        if not isinstance(values, list | tuple):
            self.wrong(f"{self._where}.{key}", f"{_LIST_FIELD} is needed")
            return ()
        found: list[_T] = []
        for index, value in enumerate(values):
            where = f"{self._where}.{key}[{index}]"
            if not isinstance(value, Mapping):
                self.wrong(where, "an object is needed")
                continue
            item = parse(self, value, where)
            if identity(item) in {identity(other) for other in found}:
                self.wrong(where, "given twice")
            found.append(item)
        return tuple(found)


def _account(reader: _Reader, value: Mapping[str, Json], where: str) -> Account:
    reader.known(value, set(Account.__dataclass_fields__), where)
    name = reader.line(value, "name", where)
    if not _ACCOUNT.fullmatch(name):
        reader.wrong(f"{where}.name", "not the name of an account")
    return Account(
        name=name,
        uid=reader.number(value, "uid", where),
        gid=reader.number(value, "gid", where),
        gecos=reader.line(value, "gecos", where),
        home=reader.line(value, "home", where),
        shell=reader.line(value, "shell", where),
    )


def _group(reader: _Reader, value: Mapping[str, Json], where: str) -> Group:
    reader.known(value, set(Group.__dataclass_fields__), where)
    name = reader.line(value, "name", where)
    if not _ACCOUNT.fullmatch(name):
        reader.wrong(f"{where}.name", "not the name of a group")
    return Group(name=name, gid=reader.number(value, "gid", where))


def _alternative(reader: _Reader, value: Mapping[str, Json], where: str) -> Alternative:
    reader.known(value, set(Alternative.__dataclass_fields__), where)
    return Alternative(link=reader.path(value, "link", where), target=reader.path(value, "target", where))


def _file(reader: _Reader, value: Mapping[str, Json], where: str) -> TextFile:
    reader.known(value, set(TextFile.__dataclass_fields__), where)
    return TextFile(path=reader.path(value, "path", where), text=reader.text(value, "text", where))


def _replaces(reader: _Reader, value: Mapping[str, Json], where: str) -> Replaces:
    reader.known(value, set(Replaces.__dataclass_fields__), where)
    return Replaces(path=reader.path(value, "path", where), package=reader.text(value, "package", where))


def _excuse(reader: _Reader, value: Mapping[str, Json], where: str) -> Excuse:
    reader.known(value, set(Excuse.__dataclass_fields__), where)
    excuse = Excuse(pattern=reader.text(value, "pattern", where), reason=reader.text(value, "reason", where))
    if not excuse.reason.strip():
        reader.wrong(f"{where}.reason", "a reason is needed")
    return excuse
