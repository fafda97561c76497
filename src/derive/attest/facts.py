# SPDX-License-Identifier: Apache-2.0
"""An image with everything that is said of it: its digest, its closure with what each step gave, licences, locks.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from derive.canonical import Digest
from derive.lock.documents import Lock, SourceEntry
from derive.lock.upstreams.entries import GitEntry, HuggingFaceEntry, OciEntry, UrlEntry, WatchEntry
from derive.why.graph import Graph, Node

UNKNOWN_LICENCE = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What a project says beside the closure: the digest of its content, and of each lock that artifacts stand in."""

    content: Digest
    locks: Mapping[str, Digest]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFacts:
    """A derived image. Every node of its closure is in the graph, and every fixed input's fetch where it is known.

    A step that was not run here, since what is built of it was brought from elsewhere, has no outputs in the graph and
    no id in ``resolved``; the image and its layers have. ``layers`` are the blobs of those that the manifest names;
    ``engine`` is the digest of the engine that wrote the image; ``licences`` are those of artifacts, by the hash of
    each in hex; ``parameters`` are None for an image that no project at hand declares.
    """

    image: Digest
    layers: tuple[Digest, ...]
    derivation: Digest
    graph: Graph
    resolved: Mapping[Digest, Digest]
    engine: Digest
    licences: Mapping[str, str]
    parameters: Parameters | None

    @property
    def node(self) -> Node:
        """The image step."""
        return self.graph.nodes[self.derivation]

    @property
    def unknown(self) -> int:
        """The number of steps of which it is not known here what they gave."""
        return sum(node.id not in self.resolved for node in self.graph.closure(self.derivation))

    @property
    def name(self) -> str:
        """The image's name."""
        return self.node.name

    @property
    def platform(self) -> str:
        """The image's platform."""
        return self.node.host


def licences_of(lock: Lock) -> dict[str, str]:
    """Return the licences of a lock's artifacts, by the hash of each in hex."""
    found: dict[str, str] = {}
    for entry in lock.entries:
        hashes: Iterable[Digest | None]
        match entry:
            case SourceEntry(files=files):
                hashes = [file.sha256 for file in files]
            case GitEntry(pin=pin):
                hashes = [pin.nar if pin is not None else None]
            case OciEntry(pin=images):
                hashes = [image.manifest.digest for image in images.images] if images is not None else []
            case HuggingFaceEntry(files=parts):
                hashes = [file.sha256 for file in parts or ()]
            case WatchEntry():
                hashes = []
            case UrlEntry(sha256=sha256):
                hashes = [sha256]
            case _:
                hashes = [entry.sha256]
        found |= {one.hex: entry.licence for one in hashes if one is not None}
    return found
