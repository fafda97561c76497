# SPDX-License-Identifier: Apache-2.0
"""Reading the places where people and systems say what serves them: variables, ``config.toml``, apt, pip.

Core: no IO.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from derive.errors import InputErrors, Problem
from derive.net.places import ArchiveFolder, ArchivePlace, ArchiveSite, ArchiveTar, Mirror, hide_credentials
from derive.toml import key_path, read_settings

MIRROR_KEYS = ("debian", "debian-security", "python", "git", "oci", "hf")
"""Keys of ``[mirrors]`` in the user's ``config.toml``."""

_HTTP = ("http", "https")
_GIT = (*_HTTP, "ssh", "git", "file")

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


@dataclass(frozen=True, slots=True, kw_only=True)
class UserConfig:
    """What derive reads of a user's ``config.toml``; ``mirrors`` by the keys of :data:`MIRROR_KEYS`."""

    mirrors: Mapping[str, tuple[Mirror, ...]]
    archives: tuple[ArchivePlace, ...]


def parse_urls(text: str, where: str) -> tuple[Mirror, ...]:
    """Read URLs separated by blanks; raises InputErrors for what no HTTP client can fetch from."""
    return _mirrors(text.split(), where, _HTTP)


def parse_git_urls(text: str, where: str) -> tuple[Mirror, ...]:
    """Read URLs separated by blanks; raises InputErrors for what git cannot fetch from."""
    return _mirrors(text.split(), where, _GIT)


def parse_places(text: str, where: str) -> tuple[ArchivePlace, ...]:
    """Read places that keep artifacts by hash, separated by blanks; raises InputErrors."""
    return _places(text.split(), where)


def split_security(mirrors: Iterable[Mirror]) -> tuple[tuple[Mirror, ...], tuple[Mirror, ...]]:
    """Part archives from security archives, which are known by the last part of their path."""
    every = tuple(mirrors)
    security = tuple(mirror for mirror in every if _is_security(mirror.url))
    return tuple(mirror for mirror in every if mirror not in security), security


def parse_config(data: bytes, file: str) -> UserConfig:
    """Read ``[mirrors]`` and ``[archives]`` of a user's ``config.toml``; its other tables are not looked at.

    Raises:
        InputErrors: for every key and value that is wrong.
    """
    document = read_settings(data, file)
    problems: list[Problem] = []
    mirrors: dict[str, tuple[Mirror, ...]] = {}
    archives: tuple[ArchivePlace, ...] = ()
    for where, key, texts in _texts(document, "mirrors", MIRROR_KEYS, file, problems):
        with _gathered(problems):
            mirrors[key] = _mirrors(texts, where, _GIT if key == "git" else _HTTP)
    for where, _, texts in _texts(document, "archives", ("places",), file, problems):
        with _gathered(problems):
            archives = _places(texts, where)
    if problems:
        raise InputErrors(problems)
    return UserConfig(mirrors=mirrors, archives=archives)


@contextmanager
def _gathered(problems: list[Problem]) -> Iterator[None]:
    try:
        yield
    except InputErrors as error:
        problems.extend(error.problems())


def _texts(
    document: Mapping[str, object], name: str, keys: Sequence[str], file: str, problems: list[Problem]
) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each known key of a table of texts: its place, its name, its texts."""
    table = document.get(name, {})
    if not isinstance(table, dict):
        problems.append(Problem(where=f"{file}: {name}", message="not a table"))
        return
    what = "place" if name == "archives" else "URL"
    for key, value in table.items():
        where = f"{file}: {key_path((name, key))}"
        texts = [value] if isinstance(value, str) else value
        if key not in keys:
            problems.append(Problem(where=where, message="unknown key", hint=f"one of {', '.join(keys)}"))
        elif not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            problems.append(Problem(where=where, message=f"not a {what}, nor an array of {what}s"))
        else:
            yield where, key, texts


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
    return _is_url(url, _HTTP)


def _is_url(url: str, schemes: Sequence[str]) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in schemes and bool(parts.path if parts.scheme == "file" else parts.hostname)
    except ValueError:  # half an IPv6 address
        return False


def _mirrors(urls: Iterable[str], where: str, schemes: Sequence[str]) -> tuple[Mirror, ...]:
    named = "an http or https URL" if schemes == _HTTP else f"a URL with one of {', '.join(schemes)}"
    problems = [
        Problem(where=where, message=f"not {named}: {hide_credentials(url)!r}")
        for url in urls
        if not _is_url(url, schemes)
    ]
    if problems:
        raise InputErrors(problems)
    return tuple(Mirror(url=url.rstrip("/")) for url in dict.fromkeys(urls))


def _places(texts: Iterable[str], where: str) -> tuple[ArchivePlace, ...]:
    problems: list[Problem] = []
    found: list[ArchivePlace] = []
    for text in dict.fromkeys(texts):
        if is_http(text):
            found.append(ArchiveSite(url=text.rstrip("/")))
        elif text.startswith("/") and "\0" not in text:
            kind = ArchiveTar if text.endswith(".tar") else ArchiveFolder
            found.append(kind(path=text.rstrip("/") or "/"))
        else:
            message = f"neither an absolute folder nor an http or https URL: {hide_credentials(text)!r}"
            problems.append(Problem(where=where, message=message))
    if problems:
        raise InputErrors(problems)
    return tuple(found)


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
