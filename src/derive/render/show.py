# SPDX-License-Identifier: Apache-2.0
"""A rendering as people and programs are told about it: rows of a table, lines, the body of a record, the files.

Core: no IO. Standard library only, and nothing of what renders: an answer may have been given before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from derive.canonical import Json, encode, sha256
from derive.images.documents import exact, items, mapping, text, text_map, texts
from derive.words import size_text

if TYPE_CHECKING:
    from derive.render.bundle import Bundle
    from derive.render.inputs import Inputs

HEAD = ("node", "rank", "address", "files", "size", "writable")
RIGHT = frozenset({1, 3, 4})
"""The columns that are aligned to the right."""
_TEXTS = ("nodes", "notes", "reasons")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is said of a rendering. ``reasons`` stand against a deploy; ``files`` are a bundle's, all of them text."""

    subject: str
    site_file: str
    nodes: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    facts: tuple[tuple[str, ...], ...]
    body: Mapping[str, Json]
    files: Mapping[str, str]
    notes: tuple[str, ...]
    reasons: tuple[str, ...]

    def part(self, node: str | None) -> dict[str, bytes]:
        """Return all files, or only those of one node and of the launch itself."""
        others = {name for name in self.nodes if node is not None} - {node}
        return {path: data.encode() for path, data in self.files.items() if path.partition("/")[0] not in others}

    def body_of(self, node: str | None) -> dict[str, Json]:
        """Return the body of a record about all nodes, or about one."""
        nodes = [one for one in items(self.body, "nodes") if node in (None, mapping(one, "nodes")["node"])]
        return {**self.body, "nodes": nodes}

    def to_bytes(self) -> bytes:
        """Return the answer as bytes that :meth:`from_document` reads, once they are JSON again."""
        return encode(
            {
                "subject": self.subject,
                "site-file": self.site_file,
                "rows": self.rows,
                "facts": self.facts,
                "body": self.body,
                "files": self.files,
                **{name: getattr(self, name) for name in _TEXTS},
            }
        )

    @classmethod
    def from_document(cls, document: Json) -> Answer:
        """Read what :meth:`to_bytes` wrote; raises DocumentError on anything else."""
        keys = ("subject", "site-file", "rows", "facts", "body", "files", *_TEXTS)
        found = exact(document, keys=keys, what="answer")
        return cls(
            subject=text(found, "subject"),
            site_file=text(found, "site-file"),
            nodes=texts(found, "nodes"),
            rows=tuple(texts({"row": row}, "row") for row in items(found, "rows")),
            facts=tuple(texts({"fact": fact}, "fact") for fact in items(found, "facts")),
            body=mapping(found["body"], "body"),
            files=text_map(found, "files"),
            notes=texts(found, "notes"),
            reasons=texts(found, "reasons"),
        )


def answer_of(found: Bundle, inputs: Inputs) -> Answer:
    """Return what is said of a bundle."""
    return Answer(
        subject=f"{found.resolved.recipe}:{found.resolved.shape}",
        site_file=inputs.site_file,
        nodes=tuple(launch.node for launch in found.launches),
        rows=(HEAD, *_rows(found)),
        facts=_facts(found),
        body=_body(found),
        files={path: data.decode() for path, data in found.files.items()},
        notes=inputs.notes,
        reasons=tuple(found.judgement.reasons()),
    )


def _rows(found: Bundle) -> list[tuple[str, ...]]:
    lines: list[tuple[str, ...]] = []
    for launch in found.launches:
        files = found.node(launch.node)
        writable = [mount.source for mount in launch.mounts if not mount.read_only]
        lines.append(
            (
                launch.node,
                str(launch.rank),
                found.site.nodes[launch.rank].address,
                str(len(files)),
                size_text(sum(map(len, files.values()))),
                " ".join(writable) or "nothing",
            )
        )
    return lines


def _facts(found: Bundle) -> tuple[tuple[str, str], ...]:
    """Return what is the same on all nodes, each with its name."""
    model = found.resolved.model
    return (
        ("shape", f"{found.resolved.recipe} {found.resolved.shape}"),
        ("site", found.site.name),
        ("model", "no model" if model is None else f"{model.repository} {model.revision or 'unpinned'}"),
        ("image", f"{found.image}"),
        ("shape bundle", f"{found.shape}"),
        ("launch bundle", f"{found.launch}"),
        ("deployable", "yes" if found.judgement.deployable else "no"),
    )


def _body(found: Bundle) -> dict[str, Json]:
    from derive.render.documents import launch_document

    nodes: list[Json] = [
        {
            "node": launch.node,
            "rank": launch.rank,
            "container": launch_document(launch),
            "files": {path: str(sha256(data)) for path, data in found.node(launch.node).items()},
        }
        for launch in found.launches
    ]
    return {
        "recipe": found.resolved.recipe,
        "shape": found.resolved.shape,
        "site": found.site.name,
        "image": str(found.image),
        "shape-bundle": str(found.shape),
        "launch-bundle": str(found.launch),
        **found.judgement.to_document(),
        "nodes": nodes,
    }
