# SPDX-License-Identifier: Apache-2.0
"""References as they are written: ``name/repository:tag@sha256:...``, never with a host.

Core: no IO.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from derive.canonical import Digest
from derive.errors import InputErrors

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_PLATFORM = re.compile(r"[a-z0-9]+/[a-z0-9_]+(?:/[a-z0-9.]+)?")
_LONGEST = 255  # what registries allow for a repository's name


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A repository, and what is meant of it: a tag, a digest, or both; then the digest decides."""

    repository: str
    tag: str | None
    digest: Digest | None

    @property
    def named(self) -> str:
        """What a registry is asked for: the digest when there is one."""
        return str(self.digest or self.tag)

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.repository}{tag}@{self.digest}" if self.digest else f"{self.repository}{tag}"


def parse_reference(text: str, *, where: str = "") -> Reference:
    """Read a reference.

    Raises:
        InputErrors: when it is none, names a host, or names neither tag nor digest; with ``where``.
    """
    found = _parsed(text, where, "name/repository:tag, or name/repository@sha256:<64 hex digits>")
    if found.tag is None and found.digest is None:
        message = f"a reference without a tag or a digest: {text!r}"
        raise InputErrors.one(message, where=where, hint=f"write {found.repository}:<tag>")
    return found


def parse_target(text: str, *, where: str = "") -> Reference:
    """Read where to push: ``repository`` or ``repository:tag``.

    Raises:
        InputErrors: when it is neither, or names a host or a digest; with ``where``.
    """
    found = _parsed(text, where, "name/repository, or name/repository:tag")
    if found.digest is not None:
        hint = f"write {found.repository} or {found.repository}:<tag>, and the image after it"
        raise InputErrors.one(f"what is pushed to names no digest: {text!r}", where=where, hint=hint)
    return found


def parse_repository(text: str, *, where: str = "") -> str:
    """Read the name of a repository alone; raises InputErrors, with ``where``."""
    found = _parsed(text, where, "name/repository")
    if found.tag is not None or found.digest is not None:
        raise InputErrors.one(f"not a repository alone: {text!r}", where=where, hint=f"write {found.repository}")
    return found.repository


def parse_platform(text: str) -> str:
    """Return a platform as an index of images names it, without a variant that goes without saying.

    Raises:
        InputErrors: when it is none.
    """
    if not _PLATFORM.fullmatch(text):
        hint = "write os/architecture, such as linux/arm64 or linux/arm/v7"
        raise InputErrors.one(f"not a platform: {text!r}", where="--platform", hint=hint)
    return {"linux/arm64/v8": "linux/arm64", "linux/amd64/v1": "linux/amd64"}.get(text, text)


def names_host(text: str) -> bool:
    """Say whether what stands before the first slash is a host, as other tools write references, and no repository."""
    first = text.partition("/")[0]
    return first == "localhost" or "." in first or ":" in first


def _parsed(text: str, where: str, form: str) -> Reference:
    name, at, digest_text = text.partition("@")
    _, slash, rest = name.partition("/")
    if slash and names_host(name):
        better = _or_none(f"{rest}{at}{digest_text}", form)
        hint = f"write {better or form}, and say where images are served with DERIVE_MIRROR_OCI"
        raise InputErrors.one(f"a reference names no host: {text!r}", where=where, hint=hint)
    repository, colon, tag = name.partition(":")
    if not _REPOSITORY.fullmatch(repository) or len(repository) > _LONGEST:
        raise _fault(text, f"not a repository: {repository!r}", where, form)
    if colon and not _TAG.fullmatch(tag):
        raise _fault(text, f"not a tag: {tag!r}", where, form)
    digest = None
    if at:
        try:
            digest = Digest.parse(digest_text)
        except ValueError as error:
            raise _fault(text, str(error), where, form) from error
    return Reference(repository=repository, tag=tag or None, digest=digest)


def _or_none(text: str, form: str) -> str | None:
    """Return what may be written in place of a reference with a host, None where it would be refused again."""
    try:
        found = _parsed(text, "", form)
    except InputErrors:
        return None
    takes_digest, takes_tag = "@" in form, ":" in form
    if (found.digest and not takes_digest) or (found.tag and not takes_tag):
        return found.repository
    if takes_digest and not found.tag and not found.digest:
        return f"{found.repository}:<tag>"
    return text


def _fault(text: str, why: str, where: str, form: str) -> InputErrors:
    return InputErrors.one(f"not an image reference: {text!r}", where=where, detail=[why], hint=f"write {form}")
