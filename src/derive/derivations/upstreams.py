# SPDX-License-Identifier: Apache-2.0
"""From locked upstreams to derivations: git commits, files at URLs, images of registries, files of models.

Core: no IO. Imports pydantic through the wishes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from derive.canonical import Digest, Json
from derive.derivations import steps
from derive.derivations.model import Derivation, Platform
from derive.errors import InputErrors
from derive.lock.upstreams.entries import (
    GitEntry,
    HuggingFaceEntry,
    OciEntry,
    Pick,
    UpstreamsLock,
    UrlEntry,
    descriptor_json,
)
from derive.lock.upstreams.wishes import UpstreamsWish
from derive.patches.identity import series_document
from derive.patches.model import Patch
from derive.patches.parse import parse_patch


def git_tree(entry: GitEntry, wish: UpstreamsWish, *, where: str) -> Derivation:
    """Return a git upstream's tree, with what is picked on top of it."""
    fetch = fetch_git(entry, wish)
    if not entry.picks:
        return fetch
    patches = [_pick(entry, pick, where) for pick in entry.picks]
    labels = [f"{entry.name} commit {pick.commit}" for pick in entry.picks]
    return steps.patched(f"{entry.name} {entry.version} with picks", fetch, series_document(patches), labels)


def fetch_git(entry: GitEntry, wish: UpstreamsWish) -> Derivation:
    """Fetch a git upstream's commit, with its submodules."""
    pin = entry.pin
    assert pin is not None
    decl = wish.git[entry.name]
    arguments: dict[str, Json] = {
        "name": entry.name,
        "version": entry.version,
        "commit": pin.commit,
        "tree": pin.tree,
        "nar": pin.nar.hex,
        "size": pin.size,
        "tag": pin.tag,
        "tag-object": pin.tag_object,
        "branch": pin.branch,
        "submodules": [{"path": one.path, "commit": one.commit, "tree": one.tree} for one in pin.submodules],
    }
    places = (decl.url, *(f"{path}={url}" for path, url in sorted(decl.submodule_urls.items())))
    return steps.fetch(f"{entry.name} {entry.version}", "fetch-git", arguments, places=places)


def _pick(entry: GitEntry, pick: Pick, where: str) -> Patch:
    return parse_patch(pick.commit, pick.patch, where=f"{where}: {entry.name}.picks")


def fetch_url(entry: UrlEntry, wish: UpstreamsWish) -> Derivation:
    """Fetch the file at an upstream's URL."""
    assert entry.sha256 is not None
    arguments: dict[str, Json] = {
        "name": entry.name,
        "version": entry.version,
        "file": entry.file,
        "size": entry.size,
        "sha256": entry.sha256.hex,
    }
    return steps.fetch(entry.file, "fetch-url", arguments, places=(wish.url[entry.name].url,))


def oci_tree(entry: OciEntry, platform: Platform, *, where: str) -> Derivation:
    """Return the root of an upstream's image for a platform; raises InputErrors when it is not locked for it."""
    fetch = fetch_oci(entry, platform, where=where)
    return steps.unpacked(f"{fetch.name} unpacked", "oci", {"manifest": steps.reference(fetch)})


def fetch_oci(entry: OciEntry, platform: Platform, *, where: str) -> Derivation:
    """Fetch an upstream's image for a platform; raises InputErrors when it is not locked for it."""
    assert entry.pin is not None
    image = entry.pin.image(platform)
    if image is None:
        known = ", ".join(image.platform for image in entry.pin.images)
        message = f"the image {entry.name} is not locked for {platform}"
        raise InputErrors.one(message, where=where, detail=[f"known     {known}"])
    arguments: dict[str, Json] = {
        "name": entry.name,
        "version": entry.version,
        "repository": entry.repository,
        "tag": entry.pin.tag,
        "platform": image.platform,
        "size": image.size,
        "sha256": image.manifest.digest.hex,
        "manifest": descriptor_json(image.manifest),
        "config": descriptor_json(image.config),
        "layers": [descriptor_json(layer) for layer in image.layers],
    }
    return steps.fetch(f"{entry.name} {entry.version} {platform}", "fetch-oci", arguments)


def huggingface_tree(lock: UpstreamsLock, name: str, patterns: Sequence[str], *, where: str) -> Derivation:
    """Return the files of a model that fit patterns.

    Raises:
        InputErrors: for a pattern that no file fits; of an unpinned model, for all but files whose hash is known.
    """
    entry = lock.find(name, HuggingFaceEntry, where=where)
    files: dict[str, Digest | None] = {file.path: file.sha256 for file in entry.files or ()}
    sizes = {file.path: file.size for file in entry.files or ()}
    if entry.unpinned is not None:
        files = dict(entry.known) if entry.revision is not None else {}
    chosen: dict[str, Digest] = {}
    for pattern in patterns:
        fits = fitting(pattern, files)
        if entry.unpinned is not None and pattern not in files:
            raise lock.not_pinned(entry, where=where, what=f"{pattern!r} of {entry.repository}")
        if not fits:
            raise InputErrors.one(f"no file of {entry.repository} fits {pattern!r}", where=where)
        chosen |= fits
    parts = []
    for path in sorted(chosen):
        folder, _, name = path.rpartition("/")
        archive = _file(entry, path, chosen[path], sizes.get(path))
        tree = steps.unpacked(f"{entry.name}: {path}", "file", {"archive": steps.reference(archive)}, path=name)
        parts.append((path, folder, tree))
    return steps.composed(f"{entry.name} {entry.version[:12]}", parts, {})


def fitting(pattern: str, files: Mapping[str, Digest | None]) -> dict[str, Digest]:
    """Return the files whose paths fit a pattern: ``*`` and ``?`` stand for anything but ``/``."""
    text = "".join({"*": "[^/]*", "?": "[^/]"}.get(part, re.escape(part)) for part in re.split(r"([*?])", pattern))
    return {path: digest for path, digest in files.items() if digest is not None and re.fullmatch(text, path)}


def _file(entry: HuggingFaceEntry, path: str, digest: Digest, size: int | None) -> Derivation:
    arguments: dict[str, Json] = {
        "name": entry.name,
        "version": entry.version,
        "repository": entry.repository,
        "contents": entry.contents,
        "revision": entry.revision,
        "file": path,
        "size": size,
        "sha256": digest.hex,
    }
    return steps.fetch(f"{entry.name}: {path}", "fetch-huggingface", arguments)
