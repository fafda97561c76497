# SPDX-License-Identifier: Apache-2.0
"""From an operand to an image with everything that is said of it.

Edge: the store, and the project when the operand needs it. A name means what the project makes of it now, and is
evaluated and never remembered: the fetches of its closure are then exactly its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import assert_never, cast

from derive.attest.check import attached
from derive.attest.facts import ImageFacts, Parameters, licences_of
from derive.attest.provenance import resolved_id
from derive.attest.sets import lock_sets
from derive.build.engine import engine_digest
from derive.canonical import Digest, sha256
from derive.derivations.evaluate import Evaluator
from derive.derivations.model import Platform, parse_output
from derive.derivations.scope import load_scope
from derive.errors import InputErrors, Missing
from derive.images.oci import named_blobs
from derive.images.referrers import read_whole
from derive.lock.documents import Lock
from derive.lock.read import require_lock
from derive.operands import ByDigest, Named, Released, Working, parse_operand
from derive.project import Project
from derive.store.local import LocalStore
from derive.why.find import Finder, FoundBlob, FoundDerivation
from derive.why.graph import Built, Graph, titled


def image_facts(
    store: LocalStore, project: Callable[[], Project], text: str | None, platform: Platform | None
) -> ImageFacts:
    """Return what is known of an image: of one by name as the project means it now, of one by digest as it was derived.

    Raises:
        InputErrors: when no image, or more than one, is meant.
        Missing: when it was not derived into this store, or the store does not know all that it came from.
    """
    finder = Finder(store, project, platform)
    operand = _operand(finder, text, platform)
    if isinstance(operand, ByDigest):
        found, parameters = _stored(finder, operand, project), None
        locks = _locks_here(project)
    else:
        known = project()
        name, said = _meant(operand, known.settings.default_image, platform)
        scope = load_scope(known)
        found = finder.with_store(Evaluator(scope).image(name, said))
        locks = tuple(scope.locks.values())
        parameters = _parameters(known, lock_sets(scope, name))
    image, resolved = _require_whole(found), _resolved(store, found)
    return ImageFacts(
        image=image,
        layers=tuple(one.digest for one in named_blobs(read_whole(store, image))[1:]),
        derivation=found.id,
        graph=found.graph,
        resolved=resolved,
        engine=_engine(store, resolved[found.id]),
        licences={key: licence for lock in locks for key, licence in licences_of(lock).items()},
        parameters=parameters,
    )


def image_here(
    store: LocalStore, project: Callable[[], Project], text: str | None, platform: Platform | None
) -> tuple[Digest, ImageFacts | None]:
    """Return an image's digest and, where the store knows how it came to be, what :func:`image_facts` does.

    Raises:
        InputErrors, Missing: as :func:`image_facts`, but for an image that is here and known by its digest alone.
    """
    try:
        facts = image_facts(store, project, text, platform)
    except Missing:
        finder = Finder(store, project, platform)
        operand = _operand(finder, text, platform)
        found = finder.find(operand) if isinstance(operand, ByDigest) else None
        if isinstance(found, FoundBlob):
            return found.digest, None
        if isinstance(found, FoundDerivation) and "out" in found.graph.outputs.get(found.id, {}):
            return parse_output(found.graph.outputs[found.id]["out"]).digest, None
        raise
    return facts.image, facts


def _operand(finder: Finder, text: str | None, platform: Platform | None) -> Working | Named | ByDigest:
    """Return what a text means, a release's image by its digest; raises Missing when that is not here."""
    said = parse_operand(text or ".", platform)
    operand = finder.as_digest(said)
    if (
        isinstance(said, Released)
        and isinstance(operand, ByDigest)
        and not finder.store.has_blob(Digest(operand.prefix))
    ):
        hint = f"lay its content out, and derive it there: derive records checkout {said.name} --output then"
        detail = [f"image     sha256:{operand.prefix}"]
        raise Missing(f"the image of {said} was not derived into this store", detail=detail, hint=hint)
    return operand


def _meant(operand: Working | Named, default: str, platform: Platform | None) -> tuple[str, Platform | None]:
    match operand:
        case Working():
            return default, platform
        case Named(kind="any" | "image", name=name, platform=said):
            return name, said
        case Named():
            raise InputErrors.one(f"{str(operand)!r} names no image", hint="name an image: derive show lists them")
        case _:
            assert_never(operand)


def _stored(finder: Finder, operand: ByDigest, project: Callable[[], Project]) -> FoundDerivation:
    try:
        found = finder.derivation(operand)
    except Missing as error:
        raise _said_by_others(finder, operand) or error from None
    if found.node.builder != "image":
        raise InputErrors.one(f"{operand} is no image, but {found.node.title}", hint="what there is: derive show")
    if not found.graph.is_whole(found.id):
        return _declared(finder, found, project)
    graph = finder.with_fetches(found.graph, found.graph.fixed(found.id))
    below = Graph(
        nodes={node.id: node for node in graph.closure(found.id)}, fetches=graph.fetches, outputs=graph.outputs
    )
    return FoundDerivation(finder.labelled(below), found.id)


def _said_by_others(finder: Finder, operand: ByDigest) -> Missing | None:
    """Return the error for an image that came with statements about it, and of which nothing else is known here."""
    found = finder.find(operand)
    statements = attached(finder.store, found.digest) if isinstance(found, FoundBlob) else ()
    if not isinstance(found, FoundBlob) or not statements:
        return None
    return Missing(
        f"how the image {found.digest.short} came to be is not known to this store, which has what others say of it",
        detail=[f"{kind:<12}{blob}" for kind, blob in statements],
        hint=f"derive attest {found.digest} --check, or find the file to read: derive store path {statements[0][1]}",
    )


def _declared(finder: Finder, found: FoundDerivation, project: Callable[[], Project]) -> FoundDerivation:
    """Return an image of which the store does not know all as the project here has it, when that is the same one."""
    with suppress(InputErrors):
        target = Evaluator(load_scope(project())).image(found.node.name, cast("Platform", found.node.host))
        if target.id == found.id:
            return finder.with_store(target)
    return found


def _require_whole(found: FoundDerivation) -> Digest:
    """Return the image's digest; raises Missing when what it came from, or what its layers are, is not known."""
    name = titled(found.node.name, found.node.host)
    given = found.graph.output(Built(found.id, "out"))
    if given is None:
        hint = f"derive image {found.node.name} --platform {found.node.host}"
        raise Missing(f"the image {name} was not derived into this store", hint=hint)
    layers = [one for role, one in found.node.inputs.items() if role.startswith("blob.")]
    if not found.graph.is_whole(found.id) or None in map(found.graph.output, layers):
        hint = "derive it here, by the project that declares it; what came from a cache too: derive image --check"
        raise Missing(f"this store does not know all that {name} came from", hint=hint)
    return parse_output(given).digest


def _resolved(store: LocalStore, found: FoundDerivation) -> dict[Digest, Digest]:
    """Return the resolved ids of the steps of which it is known what they gave."""
    nodes = [node for node in found.graph.closure(found.id) if node.id in found.graph.outputs]
    # Of what was brought from elsewhere, the store knows the id and not what it was resolved from.
    known = store.database.resolved_ids(node.id for node in nodes)
    ids = {node.id: resolved_id(found.graph, node) or known.get(node.id) for node in nodes}
    return {key: resolved for key, resolved in ids.items() if resolved is not None}


def _locks_here(project: Callable[[], Project]) -> tuple[Lock, ...]:
    """Return the locks of the project here; none where no project is, or its locks cannot be read."""
    try:
        files = project().below("lock").items()
        return tuple(require_lock(data, f"lock/{name}") for name, data in files if name.endswith(".lock.json"))
    except InputErrors:
        return ()


def _parameters(project: Project, sets: Iterable[str]) -> Parameters:
    files = [f"lock/{name}.lock.json" for name in sets]
    return Parameters(content=project.digest(), locks={file: sha256(project.files[file]) for file in files})


def _engine(store: LocalStore, image: Digest) -> Digest:
    """Return the digest of the engine that wrote the image; of one that was imported without saying, our own."""
    row = store.database.realisation(image)
    try:
        return Digest(row.engine if row is not None else "")
    except ValueError:
        return engine_digest()
