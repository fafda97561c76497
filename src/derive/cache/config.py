# SPDX-License-Identifier: Apache-2.0
"""Which caches a user has: ``[caches.NAME]`` of ``config.toml``, read, and written into the text that is there.

Core: no IO.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from derive.cache.editing import without_table
from derive.errors import InputErrors, Problem
from derive.net.places import display
from derive.oci.reference import names_host, parse_repository
from derive.toml import key_path, read_settings
from derive.toml_text import toml_line

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
PATIENCE_S = 10
LONGEST_PATIENCE_S = 3600
LARGEST_ORDER = 2**31 - 1
NO_ORDER = f"not a whole number from {-LARGEST_ORDER} to {LARGEST_ORDER}"
NO_PATIENCE = f"not a whole number of seconds from 1 to {LONGEST_PATIENCE_S}"
_KEYS = {"registry", "repository", "order", "patience"}
_FORM = "write it as http://127.0.0.1:5000/team/cache, or as team/cache with --registry URL"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheConfig:
    """One cache: a repository of a registry, whose URL may hold a login. Lower ``order`` is asked first.

    ``patience_s``: for how long it may say nothing before it counts as down for the run.
    """

    name: str
    registry: str
    repository: str
    order: int = 0
    patience_s: int = PATIENCE_S

    @property
    def place(self) -> str:
        """What the cache is known by here: its URL without a login."""
        return f"{display(self.registry)}/{self.repository}"


def parse_place(text: str, registry: str | None) -> tuple[str, str]:
    """Return registry and repository of ``http://host:port/repository``, or of a repository of a given registry.

    Raises:
        InputErrors: when it is neither.
    """
    scheme, separator, rest = text.partition("://")
    if not separator:
        if names_host(text):
            shown = display(f"http://{text}")
            hint = f"write {shown}, or https:// where the registry speaks TLS"
            raise InputErrors.one(f"neither http:// nor https:// before {shown.partition('://')[2]!r}", hint=hint)
        if registry is None:
            raise InputErrors.one(f"no registry is named for {text!r}", hint=_FORM)
        return registry.rstrip("/"), parse_repository(text)
    host, _, path = rest.partition("/")
    url = f"{scheme}://{host}"
    if registry is not None:
        raise InputErrors.one("the registry is named twice", where="--registry", hint=_FORM)
    if not _is_registry(url):
        raise InputErrors.one(f"not an http or https URL of a registry: {display(url)!r}", hint=_FORM)
    if not path.strip("/"):
        hint = f"write {display(url)}/team/cache: a cache is one repository of a registry"
        raise InputErrors.one(f"no repository after {display(url)}", hint=hint)
    return url, parse_repository(path.rstrip("/"))


def is_order(number: int) -> bool:
    """Whether a cache can have a number as its place among others."""
    return -LARGEST_ORDER <= number <= LARGEST_ORDER


def is_patience(number: int) -> bool:
    """Whether a number of seconds can be a cache's patience."""
    return 1 <= number <= LONGEST_PATIENCE_S


def parse_caches(data: bytes, file: str) -> tuple[CacheConfig, ...]:
    """Read the caches, in the order in which they are asked; other tables are not looked at.

    Raises:
        InputErrors: for every key and value that is wrong.
    """
    tables = read_settings(data, file).get("caches", {})
    if not isinstance(tables, dict):
        raise InputErrors.one("not a table of caches", where=f"{file}: caches")
    problems: list[Problem] = []
    read = [_cache(name, table, f"{file}: {_path_of(name)}", problems) for name, table in tables.items()]
    found = [one for one in read if one is not None]
    places: dict[str, str] = {}
    for one in found:
        first = places.setdefault(_same(one), one.name)
        if first != one.name:
            message = f"the same place as {_path_of(first)}: {one.place}"
            problems.append(
                Problem(where=f"{file}: {_path_of(one.name)}", message=message, hint="leave one of them out")
            )
    if problems:
        raise InputErrors(problems)
    return tuple(sorted(found, key=lambda one: (one.order, one.name)))


def with_cache(data: bytes, file: str, cache: CacheConfig) -> bytes:
    """Return a ``config.toml`` with one more cache at its end; all else stays as it is, comments too.

    Raises:
        InputErrors: when the file is wrong, or has a cache of that name.
    """
    if not _is_registry(cache.registry):
        raise InputErrors.one(f"not an http or https URL of a registry: {display(cache.registry)!r}", hint=_FORM)
    known = parse_caches(data, file)
    if any(one.name == cache.name for one in known):
        hint = f"take it away first: derive cache remove {cache.name}; or name this one: NAME=REF"
        raise InputErrors.one(f"there is a cache named {cache.name!r} already", where=file, hint=hint)
    for one in known:
        if _same(one) == _same(cache):
            message = f"this place has a name already, {one.name}: {one.place}"
            hint = f"use that, or take it away first: derive cache remove {one.name}"
            raise InputErrors.one(message, where=f"{file}: {_path_of(one.name)}", hint=hint)
    rows = [f"[caches.{cache.name}]", toml_line("registry", cache.registry), toml_line("repository", cache.repository)]
    rows += [toml_line("order", cache.order)] if cache.order else []
    rows += [toml_line("patience", cache.patience_s)] if cache.patience_s != PATIENCE_S else []
    text = data.decode()
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return _checked(data, (text + gap + "\n".join(rows) + "\n").encode(), file, {*known, cache})


def without_cache(data: bytes, file: str, name: str) -> bytes:
    """Return a ``config.toml`` without a cache; all else stays as it is.

    Raises:
        InputErrors: when there is none of that name, or it stands in a form that only a person can cut out.
    """
    known = parse_caches(data, file)
    if all(one.name != name for one in known):
        names = ", ".join(one.name for one in known) or "none"
        raise InputErrors.one(f"there is no cache named {name!r}", where=file, detail=[f"there are {names}"])
    edited = without_table(data.decode(), ("caches", name)).encode()
    return _checked(data, edited, file, {one for one in known if one.name != name})


def _checked(before: bytes, edited: bytes, file: str, wanted: set[CacheConfig]) -> bytes:
    """Return the edited text where it has the caches that it is to have, and all else is as before."""
    try:
        is_right = set(parse_caches(edited, file)) == wanted and _beside(edited, file) == _beside(before, file)
    except InputErrors:
        is_right = False
    if not is_right:
        raise InputErrors.one("its caches stand in a form that is not edited here", where=file, hint="edit it by hand")
    return edited


def _beside(data: bytes, file: str) -> Mapping[str, object]:
    return {key: value for key, value in read_settings(data, file).items() if key != "caches"}


def _path_of(name: str) -> str:
    return key_path(("caches", name))


def _same(cache: CacheConfig) -> str:
    """What is equal for two caches of one place."""
    parts = urlsplit(cache.registry)
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.scheme}://{parts.hostname}:{port}{parts.path.rstrip('/')}/{cache.repository}"


def _cache(name: str, table: object, where: str, problems: list[Problem]) -> CacheConfig | None:
    before = len(problems)
    if not NAME.fullmatch(name):
        problems.append(Problem(where=where, message="not a name of letters, digits, '_' and '-'"))
    if not isinstance(table, dict):
        problems.append(Problem(where=where, message="not a table"))
        return None
    problems += [Problem(where=key_path((key,), where), message="unknown key") for key in sorted(table.keys() - _KEYS)]
    registry, repository = table.get("registry"), table.get("repository")
    if not isinstance(registry, str) or not _is_registry(registry):
        problems.append(Problem(where=f"{where}.registry", message="not an http or https URL of a registry"))
    try:
        parse_repository(repository if isinstance(repository, str) else "", where=f"{where}.repository")
    except InputErrors as error:
        problems.extend(error.problems())
    order, patience = table.get("order", 0), table.get("patience", PATIENCE_S)
    if isinstance(order, bool) or not isinstance(order, int) or not is_order(order):
        problems.append(Problem(where=f"{where}.order", message=NO_ORDER))
    if isinstance(patience, bool) or not isinstance(patience, int) or not is_patience(patience):
        problems.append(Problem(where=f"{where}.patience", message=NO_PATIENCE))
    if len(problems) > before:
        return None
    return CacheConfig(
        name=name, registry=str(registry).rstrip("/"), repository=str(repository), order=order, patience_s=patience
    )


def _is_registry(url: str) -> bool:
    if not url.isprintable() or set(url) & set(" ?#"):  # the reader of URLs drops ends of lines
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
