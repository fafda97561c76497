# SPDX-License-Identifier: Apache-2.0
"""What a release derives from: every artifact that was fetched for its images and its engine, and every document.

Core: no IO.

Inputs are read off the release's facts, so that nothing needs to be evaluated to know what a release takes: years
later, too, when the engine at hand would evaluate otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from derive.canonical import Digest, sha256
from derive.capsule.model import CONTENT, FACTS, RECORD, RELEASE, ROOT, Use
from derive.derivations.model import Output, Platform
from derive.releases.facts import Facts, Realised

GIT, OCI, ENGINE = "fetch-git", "fetch-oci", "fetch-engine"
RELEASE_FILE, FACTS_FILE = "release.json", "facts.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """An artifact: its use, and what it is by hash."""

    use: Use
    output: Output

    @property
    def digest(self) -> Digest:
        """The digest by which it is known."""
        return self.output.digest

    @property
    def is_commit(self) -> bool:
        """Say whether it is a git commit's tree, which is kept with the proof that it is."""
        return self.use.kind == GIT

    @property
    def is_image(self) -> bool:
        """Say whether it is a manifest, which is kept with the blobs that it names."""
        return self.use.kind == OCI


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Everything that a capsule of one release holds: artifacts, and documents by their use."""

    name: str
    release: Digest
    platforms: tuple[Platform, ...]
    engine: tuple[Platform, ...]
    inputs: tuple[Input, ...]
    texts: Mapping[Use, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "texts", MappingProxyType(dict(self.texts)))


def inputs_of(facts: Facts, platforms: Iterable[Platform], engine: Iterable[Platform]) -> tuple[Input, ...]:
    """Return the artifacts of a release's images and of its engine, for some platforms each; sorted, each use once."""
    found: dict[tuple[Use, Digest], Input] = {}
    for platform in platforms:
        for one in _fetched(facts.images[platform].derivations):
            found.setdefault((one.use, one.digest), one)
    for platform in engine:
        root = facts.engine[platform]
        for one in _fetched(root.derivations):
            found.setdefault((one.use, one.digest), one)
        if root.output is not None:
            use = Use(kind=ROOT, name=platform)
            found[use, root.output.digest] = Input(use=use, output=root.output)
    return tuple(found[key] for key in sorted(found))


def texts_of(
    release: bytes, facts: bytes, records: Mapping[str, bytes], files: Mapping[str, bytes]
) -> dict[Use, bytes]:
    """Return the documents of a release by their use; ``records`` by file name, ``files`` by path in the project."""
    found = {Use(kind=RELEASE, name=RELEASE_FILE): release, Use(kind=FACTS, name=FACTS_FILE): facts}
    found |= {Use(kind=RECORD, name=name): data for name, data in records.items()}
    return found | {Use(kind=CONTENT, name=path): data for path, data in files.items()}


def text_digests(texts: Mapping[Use, bytes]) -> dict[Use, Digest]:
    """Return the digests of documents by their use."""
    return {use: sha256(data) for use, data in texts.items()}


def _fetched(derivations: Mapping[Digest, Realised]) -> Iterator[Input]:
    for one in derivations.values():
        builder = one.builder.partition("/")[0]
        if builder.startswith("fetch-"):
            yield Input(use=Use(kind=builder, name=one.name), output=one.outputs["out"])
