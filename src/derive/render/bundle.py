# SPDX-License-Identifier: Apache-2.0
"""The two bundles: a shape's, which belongs to no place, and a launch's, with every file of every node.

Core: no IO. Both documents are specified on docs/formats/bundle.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from derive.canonical import Digest, Json, digest_document, encode, sha256
from derive.errors import InputErrors
from derive.fabric.abstract import abstract_site
from derive.fabric.site import Site
from derive.fabric.transports import Fabric
from derive.recipes.resolved import Resolved
from derive.render import RENDERER
from derive.render.documents import launch_document
from derive.render.faults import launch_problems
from derive.render.forms import labelled_files, plain_files
from derive.render.judgement import Judgement
from derive.render.launch import Launch
from derive.render.manifest import (
    file_digests,
    host_document,
    manifest_facts,
    model_document,
    with_manifests,
)
from derive.render.manifest_names import MANIFEST, MANIFEST_TAG
from derive.render.plan import LAUNCH_BUNDLE_LABEL, SHAPE_BUNDLE_LABEL, labelled, launches
from derive.render.templates import TEMPLATES, Templates, path_of

SHAPE_TAG = "shape-bundle/1"
LAUNCH_TAG = "launch-bundle/1"
SHAPE_FILE = "shape-bundle.json"
LAUNCH_FILE = "launch-bundle.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A launch of a shape at a site, whole.

    ``files`` are all files by their path: ``NODE/run``, and three of the launch: the manifest, and the two documents
    whose SHA-256 are ``shape`` and ``launch``.
    """

    resolved: Resolved
    site: Site
    image: Digest
    judgement: Judgement
    shape: Digest
    launch: Digest
    launches: tuple[Launch, ...]
    files: Mapping[str, bytes]

    def node(self, name: str) -> Mapping[str, bytes]:
        """Return the files of one node, by their path below its folder."""
        prefix = f"{name}/"
        return {path.removeprefix(prefix): data for path, data in self.files.items() if path.startswith(prefix)}


def shape_document(resolved: Resolved, image: Digest, fabric: Fabric, files: Mapping[str, bytes]) -> dict[str, Json]:
    """Return the shape bundle: what every node is told, with the keys of a site file where a site would speak."""
    plans = launches(resolved, abstract_site(resolved.cabling), image, fabric)
    return {
        "derive": SHAPE_TAG,
        "renderer": RENDERER,
        "recipe": resolved.recipe,
        "shape": resolved.shape,
        "platform": resolved.platform,
        "image": str(image),
        "model": model_document(resolved.model),
        "host": host_document(resolved.host),
        "templates": {name: str(sha256(files[path_of(name)])) for name in TEMPLATES if path_of(name) in files},
        "launches": [launch_document(launch) for launch in plans],
    }


def bundle(
    resolved: Resolved,
    site: Site,
    image: Digest,
    fabric: Fabric,
    files: Mapping[str, bytes],
    judgement: Judgement,
) -> Bundle:
    """Render every file of a launch; ``files`` are the project's, of which the templates are read.

    Raises:
        InputErrors: when a template is missing or says too much, or a launch says what not every form could.
    """
    shape = shape_document(resolved, image, fabric, files)
    shape_digest = digest_document(shape)
    plans = [
        labelled(launch, {SHAPE_BUNDLE_LABEL: str(shape_digest)}) for launch in launches(resolved, site, image, fabric)
    ]
    problems = [problem for launch in plans for problem in launch_problems(launch, resolved)]
    if problems:
        raise InputErrors(problems)
    templates = Templates(files)
    plain = {plan.node: plain_files(plan, site, templates) for plan in plans}
    by_node = {plan.node: {**plain[plan.node], **labelled_files(plan, templates)} for plan in plans}
    launch = launch_document_of(by_node, shape_digest)
    launch_digest = digest_document(launch)
    final = tuple(labelled(plan, {LAUNCH_BUNDLE_LABEL: str(launch_digest)}) for plan in plans)
    by_node = {plan.node: {**plain[plan.node], **labelled_files(plan, templates)} for plan in final}
    facts = manifest_facts(resolved, site, image, shape_digest, launch_digest, judgement)
    top = {SHAPE_FILE: encode(shape), LAUNCH_FILE: encode(launch)}
    return Bundle(
        resolved=resolved,
        site=site,
        image=image,
        judgement=judgement,
        shape=shape_digest,
        launch=launch_digest,
        launches=final,
        files=dict(sorted(with_manifests(facts, final, by_node, top).items())),
    )


def launch_document_of(by_node: Mapping[str, Mapping[str, bytes]], shape: Digest) -> dict[str, Json]:
    """Return the launch bundle: the digest of every file of every node, rendered without the label that names it."""
    return {
        "derive": LAUNCH_TAG,
        "renderer": RENDERER,
        "shape-bundle": str(shape),
        "nodes": {node: file_digests(files) for node, files in by_node.items()},
    }


__all__ = ["MANIFEST", "MANIFEST_TAG", "Bundle", "bundle", "shape_document"]
