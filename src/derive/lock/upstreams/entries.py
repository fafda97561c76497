# SPDX-License-Identifier: Apache-2.0
"""What a lock of kind ``upstreams`` holds, as values: what each upstream was when it was locked.

Core: no IO. Imports no pydantic: every plan reads locks.

An entry without its pin is **unpinned**: it says why, and whatever needs its contents is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias, TypeVar

from derive.canonical import Digest, Json, escape
from derive.errors import InputErrors
from derive.git.model import GitPin
from derive.huggingface.model import HfFile, Kind
from derive.images.oci import Descriptor
from derive.oci.model import OciPin


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """A cherry-picked upstream commit (40 hex digits), and what it changes, as a git patch without its message."""

    commit: str
    patch: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Upstream:
    """What every entry has. ``asked`` is the digest of what the wish asked of it; ``unpinned`` why there is no pin."""

    name: str
    version: str
    licence: str
    asked: Digest
    unpinned: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GitEntry(_Upstream):
    """A git repository. ``commit`` is what the wish names where nothing is pinned."""

    type: ClassVar[str] = "git"
    commit: str | None
    pin: GitPin | None
    picks: tuple[Pick, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return 0 if self.pin is None else self.pin.size

    @property
    def key(self) -> tuple[str, ...]:
        """What entries are sorted by."""
        return (self.name, self.type, "", self.version, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlEntry(_Upstream):
    """A file at a URL, which stands in the wish alone."""

    type: ClassVar[str] = "url"
    file: str
    size: int
    sha256: Digest | None

    @property
    def key(self) -> tuple[str, ...]:
        """What entries are sorted by."""
        return (self.name, self.type, "", self.version, self.file)


@dataclass(frozen=True, slots=True, kw_only=True)
class OciEntry(_Upstream):
    """An image of a registry."""

    type: ClassVar[str] = "oci"
    repository: str
    pin: OciPin | None

    @property
    def size(self) -> int:
        """Bytes of the images for all platforms."""
        return 0 if self.pin is None else sum(image.size for image in self.pin.images)

    @property
    def key(self) -> tuple[str, ...]:
        """What entries are sorted by."""
        return (self.name, self.type, "", self.version, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class HuggingFaceEntry(_Upstream):
    """A model or data set. ``revision`` and ``files`` are None where they are not known.

    ``known`` has hashes of files, by path, that stand in the wish: all that an unpinned one can give.
    """

    type: ClassVar[str] = "huggingface"
    repository: str
    contents: Kind
    revision: str | None
    files: tuple[HfFile, ...] | None
    known: Mapping[str, Digest] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files or ())

    @property
    def key(self) -> tuple[str, ...]:
        """What entries are sorted by."""
        return (self.name, self.type, "", self.version, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEntry:
    """A watched repository as it was last seen: the tip of its branch, and its newest tag."""

    type: ClassVar[str] = "watch"
    licence: ClassVar[str] = ""
    size: ClassVar[int] = 0
    unpinned: ClassVar[str | None] = None
    name: str
    branch: str
    commit: str
    tag: str | None

    @property
    def version(self) -> str:
        """What it is called in tables."""
        return self.tag or self.commit[:12]

    @property
    def key(self) -> tuple[str, ...]:
        """What entries are sorted by."""
        return (self.name, self.type, "", "", "")


E = TypeVar("E", bound=_Upstream)

Upstream: TypeAlias = GitEntry | UrlEntry | OciEntry | HuggingFaceEntry
UpstreamEntry: TypeAlias = Upstream | WatchEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamsLock:
    """A locked set of upstreams."""

    kind: ClassVar[str] = "upstreams"
    set: str
    wish: Digest
    upstreams: tuple[Upstream, ...]
    watched: tuple[WatchEntry, ...] = ()

    @property
    def entries(self) -> tuple[UpstreamEntry, ...]:
        """Every entry, sorted."""
        return tuple(sorted((*self.upstreams, *self.watched), key=lambda entry: entry.key))

    def upstream(self, name: str, kind: type[E], *, where: str = "") -> E:
        """Return a pinned upstream of one type.

        Raises:
            InputErrors: when the set has none of that name and type, or it is not pinned.
        """
        entry = self.find(name, kind, where=where)
        if entry.unpinned is not None:
            raise self.not_pinned(entry, where=where)
        return entry

    def not_pinned(self, entry: _Upstream, *, where: str, what: str = "") -> InputErrors:
        """Return the error for whatever needs what is not pinned; ``what`` names a part of it."""
        return InputErrors.one(
            f"{what or 'the upstream ' + entry.name} is not pinned",
            where=where,
            detail=[f"reason    {entry.unpinned}"],
            hint=f"where it can be reached, run: derive lock {self.set} --update {entry.name}",
        )

    def find(self, name: str, kind: type[E], *, where: str = "") -> E:
        """Return an upstream of one type, pinned or not; raises InputErrors when there is none."""
        found: Mapping[str, Upstream] = {entry.name: entry for entry in self.upstreams}
        entry = found.get(name)
        if entry is None:
            known = ", ".join(sorted(found)) or "none"
            raise InputErrors.one(
                f"the set {self.set} has no upstream {name}", where=where, detail=[f"known     {known}"]
            )
        if not isinstance(entry, kind):
            raise InputErrors.one(f"the upstream {name} is of another type: {entry.type}", where=where)
        return entry


def entry_json(entry: UpstreamEntry) -> dict[str, Json]:
    """Return an entry as it stands in a lock file."""
    if isinstance(entry, WatchEntry):
        return {
            "type": entry.type,
            "name": entry.name,
            "branch": entry.branch,
            "commit": entry.commit,
            "tag": entry.tag,
        }
    found: dict[str, Json] = {
        "type": entry.type,
        "name": entry.name,
        "version": entry.version,
        "licence": entry.licence,
        "asked": str(entry.asked),
    }
    if entry.unpinned is not None:
        found["unpinned"] = entry.unpinned
    match entry:
        case GitEntry(commit=commit, pin=pin, picks=picks):
            found["commit"] = commit
            found |= {} if pin is None else _git_json(pin)
            if picks:
                found["picks"] = [{"commit": pick.commit, "patch": escape(pick.patch)} for pick in picks]
        case UrlEntry(file=file, size=size, sha256=sha256):
            found |= {"file": file, "size": size, "sha256": None if sha256 is None else sha256.hex}
        case OciEntry(repository=repository, pin=oci):
            found["repository"] = repository
            found |= {} if oci is None else _oci_json(oci)
        case HuggingFaceEntry(repository=repository, contents=contents, revision=revision, files=files):
            found |= {"repository": repository, "contents": contents, "revision": revision}
            found["files"] = None if files is None else [_file_json(file) for file in files]
            if entry.known:
                found["known"] = {path: digest.hex for path, digest in entry.known.items()}
    return found


def _git_json(pin: GitPin) -> dict[str, Json]:
    return {
        "tree": pin.tree,
        "nar": pin.nar.hex,
        "size": pin.size,
        "tag": pin.tag,
        "tag-object": pin.tag_object,
        "branch": pin.branch,
        "submodules": [{"path": one.path, "commit": one.commit, "tree": one.tree} for one in pin.submodules],
        "lfs": list(pin.lfs),
    }


def _oci_json(pin: OciPin) -> dict[str, Json]:
    return {
        "tag": pin.tag,
        "index": None if pin.index is None else pin.index.hex,
        "images": [
            {
                "platform": image.platform,
                "manifest": descriptor_json(image.manifest),
                "config": descriptor_json(image.config),
                "layers": [descriptor_json(layer) for layer in image.layers],
            }
            for image in pin.images
        ],
    }


def descriptor_json(descriptor: Descriptor) -> dict[str, Json]:
    """Return a blob of an image as it stands in a lock file."""
    return {"media-type": descriptor.media_type, "sha256": descriptor.digest.hex, "size": descriptor.size}


def _file_json(file: HfFile) -> dict[str, Json]:
    sha256 = None if file.sha256 is None else file.sha256.hex
    return {"path": file.path, "size": file.size, "sha256": sha256, "blob-id": file.blob_id}
