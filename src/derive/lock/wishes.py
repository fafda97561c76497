# SPDX-License-Identifier: Apache-2.0
"""What stands in ``lock/<set>.toml``: what a set tracks, before anything is found for it.

Core: no IO. Imports pydantic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias, assert_never

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from derive.canonical import Digest, Json, digest_document, encode
from derive.content import Keyed, parse_model, parse_toml
from derive.errors import InputErrors, Problem
from derive.lock.upstreams.wishes import UpstreamsWish, decisive
from derive.net.names import normalise

Architecture: TypeAlias = Literal["amd64", "arm64"]

_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+(:(?P<architecture>[a-z0-9]+))?(=[A-Za-z0-9.+:~-]+)?")


def _package(text: str) -> str:
    if not _PACKAGE.fullmatch(text):
        raise ValueError("not a package name, as in name, name:arm64 or name=1.0-1")
    return text


def _requirement(text: str) -> str:
    try:
        found = Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(f"not a requirement: {str(error).splitlines()[0]}") from error
    if any(not specifier.version for specifier in found.specifier):
        raise ValueError("not a requirement: an operator without a version")  # some releases of packaging let it pass
    if found.url:
        raise ValueError("a requirement names no URL: the lock holds what an index serves")
    return text


def _version(text: str) -> str:
    try:
        return str(Version(text))
    except InvalidVersion as error:
        raise ValueError("not a version") from error


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    twice = sorted({str(value) for value in values if values.count(value) > 1})
    if twice:
        raise ValueError(f"named twice: {', '.join(twice)}")
    return values


def _some(values: tuple[Any, ...]) -> tuple[Any, ...]:
    # Not pydantic's min_length, which adds its complaint to that about a wrong element.
    if not values:
        raise ValueError("name at least one")
    return _distinct(values)


def _distinct_names(values: tuple[SourceDecl, ...]) -> tuple[SourceDecl, ...]:
    _some(tuple(value.name for value in values))
    return values


Architectures: TypeAlias = Annotated[tuple[Architecture, ...], AfterValidator(_some)]
Package: TypeAlias = Annotated[str, AfterValidator(_package)]
Packages: TypeAlias = Annotated[tuple[Package, ...], AfterValidator(_distinct)]
SuiteName: TypeAlias = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")]
Word: TypeAlias = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")]


class KeyringDecl(Keyed):
    """The .deb that holds the archive's public keys, by hash, and the file inside it that signatures are checked by."""

    locator: str = Field(pattern=r"^pool(/[A-Za-z0-9][A-Za-z0-9.+~_-]*)+\.deb$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(gt=0)
    member: str = Field(pattern=r"^[^/].*\.(pgp|gpg)$")


class ClosureDecl(Keyed):
    """Packages resolved with all that they depend on, once for each architecture, each alone.

    ``foreign`` architectures are resolved in the same root; ``essential`` adds every essential package.
    """

    architectures: Architectures
    foreign: Annotated[tuple[Architecture, ...], AfterValidator(_distinct)] = ()
    essential: bool = False
    packages: Packages = ()

    @model_validator(mode="after")
    def _architectures_fit(self) -> ClosureDecl:
        both = sorted(set(self.architectures) & set(self.foreign))
        if both:
            raise ValueError(f"both native and foreign: {', '.join(both)}")
        if not self.packages and not self.essential:
            raise ValueError("a closure of nothing: name packages, or set essential")
        known = {*self.architectures, *self.foreign, "all", None}
        strange = [p for p in self.packages if (m := _PACKAGE.fullmatch(p)) and m["architecture"] not in known]
        if strange:
            raise ValueError(f"of an architecture that the closure does not declare: {', '.join(strange)}")
        return self


class SourceDecl(Keyed):
    """A source package; without a version, the newest in the suites."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9+.-]+$")
    version: str | None = Field(default=None, pattern=r"^[A-Za-z0-9.+:~-]+$")


class SourcesDecl(Keyed):
    """The source packages of a set."""

    packages: Annotated[tuple[Annotated[SourceDecl, BeforeValidator(_named)], ...], AfterValidator(_distinct_names)]


class DebianWish(Keyed):
    """A set from a Debian archive. ``suites`` are searched besides ``suite``; ``security`` adds its security suite."""

    kind: Literal["debian"]
    suite: SuiteName
    suites: Annotated[tuple[SuiteName, ...], AfterValidator(_distinct)] = ()
    security: bool = False
    components: Annotated[tuple[Word, ...], AfterValidator(_some)] = ("main",)
    keyring: KeyringDecl
    closures: dict[Word, ClosureDecl] = Field(default_factory=dict)
    sources: SourcesDecl | None = None

    @model_validator(mode="after")
    def _wants_something(self) -> DebianWish:
        if not self.closures and self.sources is None:
            raise ValueError("nothing is wanted: name a closure or sources")
        return self

    @property
    def all_suites(self) -> tuple[str, ...]:
        """Every suite that is searched, the set's own first."""
        security = (f"{self.suite}-security",) if self.security else ()
        return tuple(dict.fromkeys((self.suite, *self.suites, *security)))


class OverrideDecl(Keyed):
    """A version taken against what other packages declare, and why."""

    version: Annotated[str, AfterValidator(_version)]
    reason: str = Field(min_length=1)


class PythonWish(Keyed):
    """A set of wheels. ``glibc`` is that of the root they run in; nothing uploaded after ``exclude-newer`` is taken."""

    kind: Literal["python"]
    pythons: Annotated[tuple[Annotated[str, Field(pattern=r"^3\.[0-9]+$")], ...], AfterValidator(_some)]
    architectures: Architectures
    glibc: str = Field(pattern=r"^2\.[0-9]+$")
    exclude_newer: str = Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$")
    requirements: Annotated[tuple[Annotated[str, AfterValidator(_requirement)], ...], AfterValidator(_some)]
    overrides: dict[str, OverrideDecl] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _overrides_are_distinct(self) -> PythonWish:
        names = [normalise(name) for name in self.overrides]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"overridden twice: {', '.join(twice)}")
        return self


Wish: TypeAlias = DebianWish | PythonWish | UpstreamsWish

_KINDS: Mapping[str, type[DebianWish | PythonWish | UpstreamsWish]] = {
    "debian": DebianWish,
    "python": PythonWish,
    "upstreams": UpstreamsWish,
}


def parse_wish(data: bytes, file: str) -> tuple[Wish | None, list[Problem]]:
    """Read a wish file, or say everything that is wrong with it."""
    table, problems = parse_toml(data, file)
    if table is None:
        return None, problems
    kind = table.get("kind")
    hint = "debian, python or upstreams"
    if kind is None:
        return None, [Problem(where=f"{file}: kind", message="this key is missing", hint=hint)]
    if kind not in _KINDS:
        return None, [Problem(where=f"{file}: kind", message=f"no such kind: {kind!r}", hint=hint)]
    return parse_model(_KINDS[kind], table, file)


def require_wish(data: bytes, file: str) -> Wish:
    """Read a wish file; raises InputErrors with everything that is wrong with it."""
    wish, problems = parse_wish(data, file)
    if wish is None or problems:
        raise InputErrors(problems)
    return wish


def wish_digest(wish: Wish) -> Digest:
    """Return the digest of what is wanted: layout, comments, the order of lists and reasons are not in it."""
    if isinstance(wish, UpstreamsWish):
        return digest_document({"derive": "wish/1", "kind": wish.kind, **decisive(wish)})
    found: dict[str, Any] = wish.model_dump(by_alias=True, exclude_defaults=True)
    match wish:
        case DebianWish():
            pass
        case PythonWish():
            found["overrides"] = {normalise(name): item.version for name, item in wish.overrides.items()}
        case _:
            assert_never(wish)
    return digest_document({"derive": "wish/1", **{key: _sorted(value) for key, value in found.items()}})


def _sorted(value: Any) -> Json:
    if isinstance(value, Mapping):
        return {str(key): _sorted(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return sorted((_sorted(item) for item in value), key=encode)
    result: Json = value
    return result
