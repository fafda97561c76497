# SPDX-License-Identifier: Apache-2.0
"""Records of an invented project, in memory: a chain with every kind, reports beside it. For what a report shows.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.canonical import Digest, Json, encode, sha256
from derive.records.chain import file_name
from derive.records.model import Record
from derive.releases.document import Release, ReleasedEngine, ReleasedImage, ReleasedShape
from derive.releases.facts import Facts, ImageFacts, LayerFact, UpstreamFact

DAY = 86_400
START = 1_795_000_000
"""2026-11-18, in seconds since 1970."""


def word(text: str) -> Digest:
    """Return a digest that stands for something."""
    return sha256(text.encode())


class Records:
    """Files below ``records/``, of which those of the chain follow each other."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.previous: Digest | None = None
        self.number = 0

    def append(self, kind: str, subject: str, body: Mapping[str, Json], suffix: str | None = None) -> None:
        """Add a record to the chain."""
        record = Record(kind=kind, subject=subject, previous=self.previous, body=body)
        self.number += 1
        self.files[f"releases/{file_name(self.number, subject, suffix)}"] = record.encoded() + b"\n"
        self.previous = record.digest

    def beside(self, path: str, kind: str, subject: str, body: Mapping[str, Json]) -> None:
        """Add a record that is in no chain."""
        self.files[path] = encode(Record(kind=kind, subject=subject, previous=None, body=body).document()) + b"\n"

    def historical(self, name: str, day: str | None = None, **more: Json) -> None:
        """Add a historical release; ``more`` takes the place of what its body is without."""
        body: dict[str, Json] = {
            "derivable": False,
            "why_not": "what it was built from is not known",
            "deployment": "elder",
            "known_from": ["its README"],
            "date": None if day is None else {"first": day, "last": day, "source": "readme"},
            "kernel_backend": None,
            "identities": {},
            "shapes": {},
            "figures": [],
            "changes": [],
        }
        self.append("historical", name, {**body, **more})

    def candidate(
        self,
        name: str,
        release: Release,
        facts: Facts,
        day: int,
        previous: str | None,
        why: str,
        texts: Mapping[str, Json] | None = None,
    ) -> None:
        """Add a release with its documents, made so many days after START; ``texts`` are its recipes' digests."""
        self.files[f"releases/{name}/release.json"] = release.encoded()
        self.files[f"releases/{name}/facts.json"] = facts.encoded()
        documents = {"release.json": str(sha256(release.encoded())), "facts.json": str(sha256(facts.encoded()))}
        body: dict[str, Json] = {
            "release": str(release.digest),
            "documents": documents,
            "images": {platform: str(one.digest) for platform, one in release.images.items()},
            "previous_release": previous,
            "made_by": "Ada",
            "made_s": START + day * DAY,
            "why": why,
            "commit": None,
            "modified": False,
            "texts": texts or {},
            "evidence": [],
            "cost": {"duration_ns": None, "store_bytes": None},
        }
        self.append("candidate", name, body)

    def promoted(self, name: str, release: Release, shape: str, day: int, evidence: list[Json]) -> None:
        """Add the promotion of a shape."""
        image = next(iter(release.images.values())).digest
        body: dict[str, Json] = {
            "release": str(release.digest),
            "shape": shape,
            "image": str(image),
            "shape_bundle": str(release.shapes[shape].bundle),
            "by": "Grace",
            "why": "it was measured",
            "promoted_s": START + day * DAY,
            "checked": ["the image was derived here, each step twice"],
            "unchecked": ["no machine of the site was asked"],
            "evidence": evidence,
            "certificates": [],
            "facts_age_s": None,
        }
        self.append("promoted", name, body, shape)


def release(image: str, *, moved: str = "", sizes: tuple[int, ...] = (12_000_000, 31_000_000)) -> tuple[Release, Facts]:
    """Return a release and its facts; ``moved`` says what of it is other."""
    platforms = ("linux/amd64", "linux/arm64")
    found = Release(
        recipe=image,
        recipe_digest=word(f"recipe {moved}" if "recipe" in moved else "recipe"),
        images={
            "linux/amd64": ReleasedImage(
                name=image, digest=word(f"amd64 {image} {moved}"), derivation=word(f"a{moved}")
            ),
            "linux/arm64": ReleasedImage(
                name=image, digest=word(f"arm64 {image} {moved}"), derivation=word(f"b{moved}")
            ),
        },
        build_platform="linux/amd64",
        default_image=image,
        lock={"lock/wheels.lock.json": word(f"lock {moved}" if "lock" in moved else "lock")},
        content={
            "patches/tool/series": word("series"),
            "patches/tool/0001-first.patch": word(f"patch {moved}" if "patch" in moved else "patch"),
        },
        recipes={image: word("recipe file")},
        model=None,
        shapes={
            "ring": ReleasedShape(bundle=word(f"ring {moved}"), deployable=True, needs=()),
            "triangle": ReleasedShape(bundle=word("triangle"), deployable=False, needs=("disk-engram",)),
        },
        engine=ReleasedEngine(
            digest=word("engine"),
            version="0.1.0",
            source=word("engine source"),
            derivations={platform: word(f"engine {platform}") for platform in ("linux/amd64", "linux/arm64")},
        ),
    )
    layers = {
        platform: tuple(
            LayerFact(
                name=f"layer-{index}",
                digest=word(f"layer {platform} {index} {size}"),
                size_bytes=size + (1_500_000 if platform == "linux/arm64" else 0),
                diff_id=word(f"tar {platform} {index} {size}"),
            )
            for index, size in enumerate(sizes)
        )
        for platform in platforms
    }
    facts = Facts(
        release=found.digest,
        images={
            "linux/amd64": ImageFacts(config=word("c"), layers=layers["linux/amd64"], capabilities=(), derivations={}),
            "linux/arm64": ImageFacts(config=word("d"), layers=layers["linux/arm64"], capabilities=(), derivations={}),
        },
        upstreams=(),
        kernels=(),
        engine={},
    )
    return found, facts


__all__ = ["DAY", "START", "Records", "UpstreamFact", "release", "word"]


def everything() -> dict[str, bytes]:
    """Return records of every kind: two elder releases, three of ours, promotions, scores, an audit, a benchmark."""
    records = Records()
    figure: dict[str, Json] = {
        "name": "decode step",
        "case": "prose",
        "shape": "ring",
        "streams": "1",
        "about": False,
        "source": "readme",
        "note": None,
        "against": None,
        "value_ms": {"decimal": "31.59"},
    }
    sources: dict[str, Json] = {"tool": {"repository": "example/tool", "revision": {"sha1": "a" * 40}}}
    records.historical("e1", "2026-11-02", figures=[{**figure, "value_ms": {"decimal": "38.20"}}])
    records.historical(
        "e2", identities={"sources": sources}, changes=[{"text": "a new <b>tool</b>", "source": "readme"}]
    )
    records.historical(
        "e3",
        "2026-11-09",
        identities={"sources": {"tool": {"repository": "example/tool", "revision": {"sha1": "b" * 40}}}},
        figures=[figure, {**figure, "case": "code", "value_ms": None, "low_ms": 33, "high_ms": {"decimal": "35.5"}}],
    )
    first = release("demo")
    second = release("demo", moved="lock and patch", sizes=(12_000_000, 33_400_000, 900_000))
    third = release("demo", moved="recipe")
    records.candidate("demo-1", *first, 0, None, "the first")
    records.append(
        "experiment",
        "wider-windows",
        {
            "hypothesis": "wider windows cost nothing",
            "variable": "window",
            "acceptance": "the same step time",
            "rollback": "2% slower",
            "base": "demo-1",
            "candidate": None,
            "result": None,
        },
    )
    records.promoted(
        "demo-1",
        first[0],
        "ring",
        1,
        [
            {
                "kind": "waiver",
                "digest": None,
                "file": None,
                "shape": "ring",
                "reason": "no Spark here",
                "expires_s": START + 4 * DAY,
            },
        ],
    )
    records.candidate("demo-2", *second, 6, "demo-1", "newer wheels")
    records.promoted(
        "demo-2",
        second[0],
        "ring",
        7,
        [
            {
                "kind": "waiver",
                "digest": None,
                "file": None,
                "shape": "ring",
                "reason": "no Spark here",
                "expires_s": START + 40 * DAY,
            },
        ],
    )
    records.append(
        "retired",
        "demo-1",
        {"release": "demo-1", "shape": None, "by": "Grace", "why": "demo-2 is there", "retired_s": START + 7 * DAY},
    )
    records.candidate("demo-3", *third, 9, "demo-2", "a longer window")
    records.beside(
        "derivability/0001-demo-1.json", "derivability", "demo-1", _score(10_000, START + DAY, store=40, archive=12)
    )
    records.beside(
        "derivability/0002-demo-1.json",
        "derivability",
        "demo-1",
        _score(9_615, START + 8 * DAY, store=38, archive=12, nowhere=2),
    )
    records.beside("derivability/0003-demo-2.json", "derivability", "demo-2", _score(10_000, START + 8 * DAY, store=55))
    records.beside(
        "audits/0001-demo-1.json",
        "audit",
        "demo-1",
        {"outcome": "same", "platforms": ["linux/amd64", "linux/arm64"], "moved": [], "audited_s": START + 8 * DAY},
    )
    records.beside(
        "benchmarks/demo-2-ring.json",
        "benchmark",
        "demo-2",
        {
            "started_s": START + 6 * DAY,
            "points": [
                {
                    "case": "prose",
                    "shape": "ring",
                    "metric": "decode step",
                    "n": 8,
                    "median_ms": {"decimal": "30.10"},
                    "low_ms": {"decimal": "29.8"},
                    "high_ms": {"decimal": "30.5"},
                },
                {
                    "case": "code",
                    "shape": "ring",
                    "metric": "decode step",
                    "n": 8,
                    "median_ms": {"decimal": "33.02"},
                    "low_ms": {"decimal": "32.4"},
                    "high_ms": {"decimal": "33.7"},
                },
            ],
        },
    )
    return records.files


def _score(score_bp: int, checked_s: int, **counts: int) -> dict[str, Json]:
    nowhere = counts.pop("nowhere", 0)
    lost: list[Json] = [
        {"kind": "wheel", "name": f"lost-{number}", "digest": str(word(str(number)))} for number in range(nowhere)
    ]
    total: Json = {"inputs": 52, "held": dict(counts), "nowhere": nowhere}
    return {"score_bp": score_bp, "checked_s": checked_s, "total": total, "nowhere": lost}
