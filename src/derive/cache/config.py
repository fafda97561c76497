# SPDX-License-Identifier: Apache-2.0
"""Which caches a user has: ``[caches.NAME]`` of ``config.toml``, read, and written into the text that is there.

Core: no IO.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from derive.errors import InputErrors, Problem
from derive.net.places import display
from derive.oci.reference import parse_repository
from derive.toml_text import toml_line

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
PATIENCE_S = 10
_KEYS = {"registry", "repository", "order", "patience"}
_FORM = "write it as http://127.0.0.1:5000/team/cache, or as team/cache with --registry URL"
_HEADING = re.compile(r"^\s*\[")


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
        if registry is None:
            raise InputErrors.one(f"no registry is named for {text!r}", hint=_FORM)
        return registry.rstrip("/"), parse_repository(text)
    host, _, path = rest.partition("/")
    url = f"{scheme}://{host}"
    if registry is not None:
        raise InputErrors.one("the registry is named twice", where="--registry", hint=_FORM)
    if not _is_registry(url):
        raise InputErrors.one(f"not an http or https URL of a registry: {display(url)!r}", hint=_FORM)
    return url, parse_repository(path.rstrip("/"))


def parse_caches(data: bytes, file: str) -> tuple[CacheConfig, ...]:
    """Read the caches, in the order in which they are asked; other tables are not looked at.

    Raises:
        InputErrors: for every key and value that is wrong.
    """
    document = _document(data, file)
    tables = document.get("caches", {})
    if not isinstance(tables, dict):
        raise InputErrors.one("not a table of caches", where=f"{file}: caches")
    problems: list[Problem] = []
    found = [_cache(name, table, f"{file}: caches.{name}", problems) for name, table in tables.items()]
    if problems:
        raise InputErrors(problems)
    return tuple(sorted((one for one in found if one is not None), key=lambda one: (one.order, one.name)))


def with_cache(data: bytes, file: str, cache: CacheConfig) -> bytes:
    """Return a ``config.toml`` with one more cache at its end; all else stays as it is, comments too.

    Raises:
        InputErrors: when the file is wrong, or has a cache of that name.
    """
    known = parse_caches(data, file)
    if any(one.name == cache.name for one in known):
        hint = f"take it away first: derive cache remove {cache.name}; or name this one: NAME=REF"
        raise InputErrors.one(f"there is a cache named {cache.name!r} already", where=file, hint=hint)
    rows = [f"[caches.{cache.name}]", toml_line("registry", cache.registry), toml_line("repository", cache.repository)]
    rows += [toml_line("order", cache.order)] if cache.order else []
    rows += [toml_line("patience", cache.patience_s)] if cache.patience_s != PATIENCE_S else []
    text = data.decode()
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return _checked((text + gap + "\n".join(rows) + "\n").encode(), file, {*known, cache})


def without_cache(data: bytes, file: str, name: str) -> bytes:
    """Return a ``config.toml`` without a cache; all else stays as it is.

    Raises:
        InputErrors: when there is none of that name, or it stands in a form that only a person can cut out.
    """
    known = parse_caches(data, file)
    if all(one.name != name for one in known):
        names = ", ".join(one.name for one in known) or "none"
        raise InputErrors.one(f"there is no cache named {name!r}", where=file, detail=[f"there are {names}"])
    kept: list[str] = []
    inside = False
    for row in data.decode().splitlines(keepends=True):
        if _HEADING.match(row):
            inside = re.match(rf"\s*\[\s*caches\s*\.\s*(\"?){re.escape(name)}\1\s*\]", row) is not None
        if not inside:
            kept.append(row)
    return _checked("".join(kept).encode(), file, {one for one in known if one.name != name})


def _checked(data: bytes, file: str, wanted: set[CacheConfig]) -> bytes:
    if set(parse_caches(data, file)) != wanted:
        raise InputErrors.one("its caches stand in a form that is not edited here", where=file, hint="edit it by hand")
    return data


def _document(data: bytes, file: str) -> Mapping[str, object]:
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputErrors.one(f"not valid TOML: {error}", where=file) from error


def _cache(name: str, table: object, where: str, problems: list[Problem]) -> CacheConfig | None:
    before = len(problems)
    if not NAME.fullmatch(name):
        problems.append(Problem(where=where, message="not a name of letters, digits, '_' and '-'"))
    if not isinstance(table, dict):
        problems.append(Problem(where=where, message="not a table"))
        return None
    problems += [Problem(where=f"{where}.{key}", message="unknown key") for key in sorted(table.keys() - _KEYS)]
    registry, repository = table.get("registry"), table.get("repository")
    if not isinstance(registry, str) or not _is_registry(registry):
        problems.append(Problem(where=f"{where}.registry", message="not an http or https URL"))
    try:
        parse_repository(repository if isinstance(repository, str) else "", where=f"{where}.repository")
    except InputErrors as error:
        problems.extend(error.problems())
    order, patience = table.get("order", 0), table.get("patience", PATIENCE_S)
    for key, value, least in (("order", order, -(2**31)), ("patience", patience, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            what = "not a whole number" if key == "order" else "not a whole number of seconds above 0"
            problems.append(Problem(where=f"{where}.{key}", message=what))
    if len(problems) > before:
        return None
    return CacheConfig(
        name=name, registry=str(registry).rstrip("/"), repository=str(repository), order=order, patience_s=patience
    )


def _is_registry(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query and parts.port != 0
    except ValueError:
        return False
