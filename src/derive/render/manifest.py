# SPDX-License-Identifier: Apache-2.0
"""What lies in a rendered folder and what it follows from: a manifest for each node, and one for the launch.

Core: no IO. Standard library only. The document is specified on docs/formats/bundle.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from derive.canonical import Digest, Json, sha256
from derive.fabric.site import Site
from derive.recipes.resolved import HostPolicy, ModelPin, Resolved
from derive.render import RENDERER
from derive.render.documents import laid_out
from derive.render.judgement import Judgement
from derive.render.launch import Launch
from derive.render.manifest_names import MANIFEST, MANIFEST_TAG
from derive.render.site_digest import site_digest


def manifest_facts(
    resolved: Resolved, site: Site, image: Digest, shape: Digest, launch: Digest, judgement: Judgement
) -> dict[str, Json]:
    """Return what every manifest of a launch says; ``shape`` and ``launch`` are the digests of the two bundles."""
    return {
        "derive": MANIFEST_TAG,
        "renderer": RENDERER,
        "recipe": resolved.recipe,
        "shape": resolved.shape,
        "image": str(image),
        "image-name": resolved.image,
        "platform": resolved.platform,
        "model": model_document(resolved.model),
        "host": host_document(resolved.host),
        "site": {"name": site.name, "digest": str(site_digest(site)), "example": site.example},
        "shape-bundle": str(shape),
        "launch-bundle": str(launch),
        **judgement.to_document(),
    }


def with_manifests(
    facts: Mapping[str, Json],
    launches: Sequence[Launch],
    by_node: Mapping[str, Mapping[str, bytes]],
    top: Mapping[str, bytes],
) -> dict[str, bytes]:
    """Return all files of a launch by their path: each node's, those of the launch itself, and the manifests."""
    files = dict(top)
    nodes: dict[str, Json] = {}
    for launch in launches:
        own = by_node[launch.node]
        digests = file_digests(own)
        nodes[launch.node] = {"rank": launch.rank, "files": digests}
        files |= {f"{launch.node}/{path}": data for path, data in own.items()}
        files[f"{launch.node}/{MANIFEST}"] = laid_out({**facts, **_own(launch), "files": digests})
    files[MANIFEST] = laid_out({**facts, "nodes": nodes, "files": file_digests(top)})
    return files


def model_document(pin: ModelPin | None) -> Json:
    """Return a checkpoint's pin, whose revision is null while nobody has pinned it."""
    if pin is None:
        return None
    return {"name": pin.name, "repository": pin.repository, "revision": pin.revision}


def host_document(policy: HostPolicy) -> Json:
    """Return what the machine must be: null for each of the first four that may be anything, no key for the rest."""
    always = ("kernel", "page-size", "memory-saver", "driver")
    in_bytes = {"page-size": "page-size-bytes", "swap": "swap-bytes"}
    said = {key: value for key, value in policy.by_key().items() if key in always or value is not None}
    return {in_bytes.get(key, key): value for key, value in said.items()}


def file_digests(files: Mapping[str, bytes]) -> dict[str, Json]:
    """Return the digest of each file by its path."""
    return {path: str(sha256(data)) for path, data in files.items()}


def _own(launch: Launch) -> dict[str, Json]:
    writable: list[Json] = [
        {"source": mount.source, "target": mount.target} for mount in launch.mounts if not mount.read_only
    ]
    return {"node": launch.node, "rank": launch.rank, "writable-mounts": writable}
