# SPDX-License-Identifier: Apache-2.0
"""Verifies an image: derives it if need be, has its files probed, reads their facts, and judges.

Edge: the store, through the services below it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derive.build.execute import Progress, is_present, known_of
from derive.build.images import derive_image
from derive.build.memo import keep_recalled, memo_key, recall, remember
from derive.build.service import Options, plan_for, realise
from derive.canonical import Digest, digest_document
from derive.derivations.evaluate import Evaluator
from derive.derivations.model import Derivation, Output, Platform
from derive.derivations.scope import load_scope
from derive.derivations.steps import image_facts
from derive.errors import Missing
from derive.images.modes import ModeTable
from derive.images.referrers import read_whole
from derive.project import Project
from derive.store.local import LocalStore
from derive.store.protocol import read_all
from derive.trees.listing import File, Symlink
from derive.verify.closure import RECORDED, config_of, parts_of, resolution_of, root_of, to_probe
from derive.verify.declarations import FOLDER, VerifyDecl, verify_decl
from derive.verify.facts import FileFacts, read_facts
from derive.verify.image import ImageTree
from derive.verify.judge import Report, judge
from derive.verify.rules.config import GROUPS, USERS, Accounts, names_accounts


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedImage:
    """An image's name and digest, and what was found: a report's document, read back as what it is written as."""

    name: str
    manifest: Digest
    body: Mapping[str, Any]


def verify_image(
    project: Project, name: str, platform: Platform | None, store: LocalStore, options: Options, progress: Progress
) -> VerifiedImage:
    """Verify an image without running it.

    Raises:
        InputErrors: everything wrong with the project, or with the image's verify file.
        DeriveError: what deriving the image raises.
    """
    declared = verify_decl(project, name)
    manifest = _derived(project, name, platform, store, options, progress)
    # All that decides the answer; the image itself only where outputs came by the word of others.
    asked = memo_key(project, name, platform)
    key = digest_document({"derive": "verify-memo/2", "image": asked.hex, "manifest": manifest.hex})
    known = store.database.memo(key)
    if known is None:
        known = json.dumps(_report(project, name, platform, store, options, progress, declared).document())
        if not store.read_only:
            store.database.set_memo(key, known)
    return VerifiedImage(name=name, manifest=manifest, body=json.loads(known))


def _report(
    project: Project,
    name: str,
    platform: Platform | None,
    store: LocalStore,
    options: Options,
    progress: Progress,
    declared: VerifyDecl,
) -> Report:
    scope = load_scope(project)
    target = Evaluator(scope).image(name, platform)
    root = root_of(target)
    parts = parts_of(root)
    trees = to_probe(parts, lambda tree: (output := _output(store, tree)) is not None and is_present(store, output))
    outputs = realise(plan_for(image_facts(name, root, trees), store, project.root), store, options, progress)
    document = json.loads(read_whole(store, outputs["out"].digest))
    facts = {key: read_facts(value) for key, value in document["files"].items()}
    image = _tree(store, name, target, Digest(document["tree"]), facts, parts)
    return judge(
        image,
        declared,
        resolution_of(scope, name),
        ModeTable.from_document(target.arguments["modes"]),
        file=f"{FOLDER}/{name}.toml",
        accounts=_accounts(store, image),
    )


def _derived(
    project: Project, name: str, platform: Platform | None, store: LocalStore, options: Options, progress: Progress
) -> Digest:
    key = memo_key(project, name, platform)
    manifest = recall(store, key, project.root)
    if manifest is not None:
        keep_recalled(store, name, manifest)
        return manifest
    manifest = derive_image(project, name, platform, store, options, progress).manifest
    remember(store, key, project.root, manifest)
    return manifest


def _tree(
    store: LocalStore,
    name: str,
    target: Derivation,
    tree: Digest,
    facts: dict[str, FileFacts],
    parts: Sequence[Derivation],
) -> ImageTree:
    # Wheels' and packages' own lists know most paths; what the builder of a root writes itself is the derivation's.
    listed = [part for part in parts if part.builder not in RECORDED]
    return ImageTree(
        name=name,
        platform=target.host,
        listing=store.listing(tree),
        facts=facts,
        parts=[(part.name, _paths(store, part)) for part in listed],
        config=config_of(target),
    )


def _accounts(store: LocalStore, image: ImageTree) -> Accounts:
    """Read an image's accounts, where its config names one."""
    contents = {}
    for path in (USERS, GROUPS) if names_accounts(image.config.user) else ():
        real = image.real(path)
        file = image.listing.get(real) if real is not None else None
        if isinstance(file, File):
            contents[path] = read_all(store, file)
    return Accounts.read(contents)


def _paths(store: LocalStore, part: Derivation) -> frozenset[bytes]:
    output = _output(store, part)
    if output is None:
        raise Missing(f"{part.name} is not in the store")
    listing = store.listing(output.digest)
    return frozenset(path for path, entry in listing.items() if isinstance(entry, File | Symlink))


def _output(store: LocalStore, tree: Derivation) -> Output | None:
    """Return what a derivation gave, as far as the store knows."""
    if tree.fixed is not None:
        return tree.fixed
    resolved = store.database.resolved_ids([tree.id]).get(tree.id)
    row = store.database.realisation(resolved) if resolved is not None else None
    return known_of(row).outputs["out"] if row is not None else None
