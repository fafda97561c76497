# SPDX-License-Identifier: Apache-2.0
"""Reading the entries of a lock of kind ``upstreams``.

Core: no IO. Imports no pydantic: every plan reads locks.
"""

from __future__ import annotations

import re

from derive.canonical import Digest, unescape
from derive.errors import expected_got
from derive.git.model import GitPin, SubmodulePin
from derive.huggingface.model import HfFile, Kind
from derive.images.oci import Descriptor
from derive.lock.json_table import Table
from derive.lock.upstreams.entries import (
    GitEntry,
    HuggingFaceEntry,
    OciEntry,
    Pick,
    Upstream,
    UpstreamsLock,
    UrlEntry,
    WatchEntry,
)
from derive.oci.model import OciImage, OciPin

_NAME = re.compile(r"[a-z0-9][a-z0-9._+-]*")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+~_/-]*")
_LINE = re.compile(r"[^\x00-\x1f\x7f]{1,1000}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_REF = re.compile(r"[^\x00-\x20\x7f~^:?*\[\\]+")
_FILE = re.compile(r"[^\x00-\x1f\x7f/]{1,255}")
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
_PLATFORM = re.compile(r"linux/[a-z0-9]+(/[a-z0-9]+)?")
_MEDIA_TYPE = re.compile(r"[a-z]+/[A-Za-z0-9.+-]+")
_PATH = re.compile(r"[^\x00-\x1f\x7f]{1,4096}")


def read_upstreams(top: Table, name: str, wish: Digest) -> UpstreamsLock:
    """Read what is left of a lock's top table: its entries."""
    upstreams: list[Upstream] = []
    watched: list[WatchEntry] = []
    keys: list[tuple[str, ...]] = []
    for table in top.tables("entries"):
        entry: Upstream | WatchEntry
        match table.take("type"):
            case "git":
                entry = _git(table)
            case "url":
                entry = _url(table)
            case "oci":
                entry = _oci(table)
            case "huggingface":
                entry = _huggingface(table)
            case "watch":
                entry = _watch(table)
            case other:
                table.problem("type", "no such type in a set of upstreams", [f"got       {other!r}"])
                continue
        table.end()
        keys.append(entry.key)
        if isinstance(entry, WatchEntry):
            watched.append(entry)
        else:
            upstreams.append(entry)
    if keys != sorted(set(keys)):
        top.problem("entries", "out of order, or the same entry twice")
    return UpstreamsLock(set=name, wish=wish, upstreams=tuple(upstreams), watched=tuple(watched))


def _git(table: Table) -> GitEntry:
    name, version, licence, asked, unpinned = _common(table)
    commit = _nullable(table, "commit", _COMMIT)
    pin = None if unpinned is not None else _git_pin(table, name, commit or "")
    picks = []
    for inner in table.tables("picks") if "picks" in table.names() else ():
        found, patch = inner.text("commit", _COMMIT), inner.take("patch")
        inner.end()
        try:
            picks.append(Pick(commit=found, patch=unescape(str(patch))))
        except ValueError as error:
            inner.problem("patch", str(error))
    return GitEntry(
        name=name,
        version=version,
        licence=licence,
        asked=asked,
        unpinned=unpinned,
        commit=commit,
        pin=pin,
        picks=tuple(picks),
    )


def _git_pin(table: Table, name: str, commit: str) -> GitPin | None:
    tree, nar, size = table.text("tree", _COMMIT), table.digest("nar"), table.integer("size")
    tag, tag_object = _nullable(table, "tag", _REF), _nullable(table, "tag-object", _COMMIT)
    branch = _nullable(table, "branch", _REF)
    modules = []
    for inner in table.tables("submodules"):
        modules.append((inner.text("path", _PATH), inner.text("commit", _COMMIT), inner.text("tree", _COMMIT)))
        inner.end()
    lfs = table.take("lfs")
    try:
        return GitPin(
            name=name,
            commit=commit,
            tree=tree,
            nar=nar,
            size=size,
            tag=tag,
            tag_object=tag_object,
            branch=branch,
            submodules=tuple(SubmodulePin(path=path, commit=one, tree=own) for path, one, own in modules),
            lfs=tuple(str(path) for path in lfs) if isinstance(lfs, list) else (),
        )
    except ValueError as error:
        table.problem("", str(error))
        return None


def _url(table: Table) -> UrlEntry:
    name, version, licence, asked, unpinned = _common(table)
    file, size = table.text("file", _FILE), table.integer("size")
    sha256 = _optional_digest(table, "sha256")
    if sha256 is None and unpinned is None:
        table.problem("sha256", "absent, and no reason is given as unpinned")
    return UrlEntry(
        name=name,
        version=version,
        licence=licence,
        asked=asked,
        unpinned=unpinned,
        file=file,
        size=size,
        sha256=sha256,
    )


def _oci(table: Table) -> OciEntry:
    name, version, licence, asked, unpinned = _common(table)
    repository = table.text("repository", _REPOSITORY)
    pin = None
    if unpinned is None:
        tag, index = _nullable(table, "tag", _REF), _optional_digest(table, "index")
        images = tuple(_image(inner) for inner in table.tables("images"))
        pin = OciPin(repository=repository, tag=tag, index=index, images=images)
        if [image.platform for image in images] != sorted({image.platform for image in images}):
            table.problem("images", "not sorted by platform, or a platform twice")
    return OciEntry(
        name=name, version=version, licence=licence, asked=asked, unpinned=unpinned, repository=repository, pin=pin
    )


def _image(table: Table) -> OciImage:
    found = OciImage(
        platform=table.text("platform", _PLATFORM),
        manifest=_descriptor(table.table("manifest")),
        config=_descriptor(table.table("config")),
        layers=tuple(_descriptor(inner) for inner in table.tables("layers")),
    )
    table.end()
    return found


def _descriptor(table: Table) -> Descriptor:
    found = Descriptor(
        media_type=table.text("media-type", _MEDIA_TYPE), digest=table.digest("sha256"), size=table.integer("size")
    )
    table.end()
    return found


def _huggingface(table: Table) -> HuggingFaceEntry:
    name, version, licence, asked, unpinned = _common(table)
    repository = table.text("repository", _REPOSITORY)
    contents: Kind = "dataset" if table.text("contents", re.compile("model|dataset")) == "dataset" else "model"
    revision = _nullable(table, "revision", _COMMIT)
    files: tuple[HfFile, ...] | None = None
    if "files" in table.names() and table.peek("files") is not None:
        files = tuple(_file(inner) for inner in table.tables("files"))
        if [file.path for file in files] != sorted({file.path for file in files}):
            table.problem("files", "not sorted by path, or a path twice")
    else:
        table.take("files")
    known: dict[str, Digest] = {}
    if "known" in table.names():
        inner = table.table("known")
        known = {path: inner.digest(path) for path in inner.names()}
    open_files = files is None or revision is None or any(file.sha256 is None for file in files)
    if open_files and unpinned is None:
        table.problem("files", "a file without its hash, and no reason is given as unpinned")
    return HuggingFaceEntry(
        name=name,
        version=version,
        licence=licence,
        asked=asked,
        unpinned=unpinned,
        repository=repository,
        contents=contents,
        revision=revision,
        files=files,
        known=known,
    )


def _file(table: Table) -> HfFile:
    found = HfFile(
        path=table.text("path", _PATH),
        size=table.integer("size"),
        sha256=_optional_digest(table, "sha256"),
        blob_id=_nullable(table, "blob-id", _COMMIT),
    )
    parts = found.path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        table.problem("path", "not a path below the top", expected_got("folder/file", found.path))
    table.end()
    return found


def _watch(table: Table) -> WatchEntry:
    return WatchEntry(
        name=table.text("name", _NAME),
        branch=table.text("branch", _REF),
        commit=table.text("commit", _COMMIT),
        tag=_nullable(table, "tag", _REF),
    )


def _common(table: Table) -> tuple[str, str, str, Digest, str | None]:
    return (
        table.text("name", _NAME),
        table.text("version", _VERSION),
        table.text("licence", _LINE),
        table.digest("asked", tagged=True),
        table.optional("unpinned", _LINE),
    )


def _nullable(table: Table, key: str, pattern: re.Pattern[str]) -> str | None:
    if table.peek(key) is None:
        table.take(key)
        return None
    return table.text(key, pattern)


def _optional_digest(table: Table, key: str) -> Digest | None:
    if table.peek(key) is None:
        table.take(key)
        return None
    return table.digest(key)
