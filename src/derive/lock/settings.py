# SPDX-License-Identifier: Apache-2.0
"""Reading the places where people and systems say what serves them: variables, ``config.toml``, apt, pip.

Core: no IO.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from derive.errors import InputErrors, Problem
from derive.net.places import Mirror

MIRROR_KEYS = ("debian", "debian-security", "python", "git", "oci", "hf")
"""Keys of ``[mirrors]`` in the user's ``config.toml``."""

TARGET_FORMAT = "$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(METAKEY)|$(FILENAME)"
"""What apt is asked to print of each index that it knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AptTarget:
    """An index that apt knows. What apt has read of its release lies in files whose names begin with ``lists``."""

    url: str
    release: str
    component: str
    lists: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOwner:
    """Whose a release is, as its signed file says."""

    origin: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PipSettings:
    """The indices that pip is set to use; ``index`` is None where pip's own default holds."""

    index: str | None
    extra: tuple[str, ...]
    no_index: bool


def parse_urls(text: str, where: str) -> tuple[Mirror, ...]:
    """Read URLs separated by blanks; raises InputErrors for what no HTTP client can fetch from."""
    return _mirrors(text.split(), where)


def split_security(mirrors: Iterable[Mirror]) -> tuple[tuple[Mirror, ...], tuple[Mirror, ...]]:
    """Part archives from security archives, which are known by the last part of their path."""
    every = tuple(mirrors)
    security = tuple(mirror for mirror in every if _is_security(mirror.url))
    return tuple(mirror for mirror in every if mirror not in security), security


def parse_config(data: bytes, file: str) -> Mapping[str, tuple[Mirror, ...]]:
    """Read ``[mirrors]`` of a user's ``config.toml``; its other tables are not looked at.

    Raises:
        InputErrors: for every key and value that is wrong.
    """
    try:
        table = tomllib.loads(data.decode("utf-8")).get("mirrors", {})
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputErrors.one(f"not valid TOML: {error}", where=file) from error
    if not isinstance(table, dict):
        raise InputErrors.one("not a table", where=f"{file}: mirrors")
    problems: list[Problem] = []
    found: dict[str, tuple[Mirror, ...]] = {}
    for key, value in table.items():
        where = f"{file}: mirrors.{key}"
        urls = [value] if isinstance(value, str) else value
        if key not in MIRROR_KEYS:
            problems.append(Problem(where=where, message="unknown key", hint=f"one of {', '.join(MIRROR_KEYS)}"))
        elif not isinstance(urls, list) or not all(isinstance(url, str) for url in urls):
            problems.append(Problem(where=where, message="not a URL, nor an array of URLs"))
        else:
            try:
                found[key] = _mirrors(urls, where)
            except InputErrors as error:
                problems.extend(error.problems())
    if problems:
        raise InputErrors(problems)
    return found


def parse_targets(text: str) -> tuple[AptTarget, ...]:
    """Read what ``apt-get indextargets`` printed in :data:`TARGET_FORMAT`."""
    found = []
    for line in text.splitlines():
        parts = line.split("|")
        if len(parts) == 5:
            url, release, component, key, file = parts
            found.append(
                AptTarget(
                    url=url.rstrip("/").removeprefix("tor+"),
                    release=release,
                    component=component,
                    lists=file.removesuffix(key.replace("/", "_")),
                )
            )
    return tuple(dict.fromkeys(found))


def parse_owner(text: str) -> ReleaseOwner:
    """Read whose a release is from the beginning of its Release or InRelease file."""
    fields = dict(re.findall(r"^(Origin|Label): *(.*?) *$", text, re.MULTILINE))
    return ReleaseOwner(origin=fields.get("Origin", ""), label=fields.get("Label", ""))


def debian_archives(
    targets: Iterable[tuple[AptTarget, ReleaseOwner | None]],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the URLs of real Debian archives, and of security archives; another distribution's do not count.

    The owner is None where apt has not read the release yet.
    """
    real = [(target, owner) for target, owner in targets if _is_debian(target, owner)]
    security = {target.url: None for target, owner in real if _serves_security(target, owner)}
    archives = {target.url: None for target, _ in real if target.url not in security}
    return tuple(archives), tuple(security)


def parse_apt_options(text: str) -> Mapping[str, str]:
    """Read what ``apt-config dump`` printed; a list keeps its last value."""
    return {
        match[1]: match[2] for match in re.finditer(r'^([A-Za-z0-9:._/-]+) "(.*)";$', text, re.MULTILINE) if match[2]
    }


def parse_mirror_list(text: str) -> tuple[str, ...]:
    """Read a ``mirror+file:`` list as apt does: a URL first on each line, then words about it."""
    lines = (line.split("#")[0].split() for line in text.splitlines())
    return tuple(words[0].rstrip("/") for words in lines if words)


def parse_pip_config(text: str) -> PipSettings:
    """Read what ``pip config list`` printed: variables win over the command's section, that over the global one."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, separator, value = line.partition("=")
        if separator:
            try:
                values[key.strip()] = str(ast.literal_eval(value.strip()))
            except (ValueError, SyntaxError):
                continue

    def find(name: str) -> str | None:
        return next(
            (values[f"{part}.{name}"] for part in (":env:", "install", "global") if f"{part}.{name}" in values), None
        )

    index = find("index-url")
    return PipSettings(
        index=index.rstrip("/") if index else None,
        extra=tuple(url.rstrip("/") for url in (find("extra-index-url") or "").split()),
        no_index=(find("no-index") or "").lower() in ("1", "true", "yes", "on"),
    )


def parse_pip_default(text: str) -> str | None:
    """Find pip's own default index in the help text of ``pip download``."""
    match = re.search(r"--index-url\b[^(]*\(default:? (\S+?)/?\)", " ".join(text.split()))
    return match[1] if match else None


def is_http(url: str) -> bool:
    """Say whether an HTTP client can fetch from a URL."""
    parts = urlsplit(url)
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _mirrors(urls: Iterable[str], where: str) -> tuple[Mirror, ...]:
    problems = [Problem(where=where, message=f"not an http or https URL: {url!r}") for url in urls if not is_http(url)]
    if problems:
        raise InputErrors(problems)
    return tuple(Mirror(url=url.rstrip("/")) for url in dict.fromkeys(urls))


def _is_security(url: str) -> bool:
    return urlsplit(url).path.rstrip("/").endswith("-security")


def _is_debian(target: AptTarget, owner: ReleaseOwner | None) -> bool:
    if owner is not None:
        return owner.origin == "Debian" and owner.label in ("Debian", "Debian-Security")
    # The release is not read yet, as in a container whose lists were removed: go by what archives look like.
    parts = urlsplit(target.url).path.split("/")
    return target.component == "main" and bool({"debian", "debian-security"} & set(parts))


def _serves_security(target: AptTarget, owner: ReleaseOwner | None) -> bool:
    labelled = owner is not None and owner.label == "Debian-Security"
    return labelled or target.release.endswith("-security") or _is_security(target.url)
