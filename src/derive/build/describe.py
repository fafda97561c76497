# SPDX-License-Identifier: Apache-2.0
"""Describes what an operand names: the project, an image, a derivation, a tree, a blob.

Edge: the store.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from derive.build.execute import store_knowledge
from derive.build.knowledge import Known
from derive.buildkit.worker import worker_text
from derive.cache.rows import substitutions
from derive.canonical import Digest, Json, escape
from derive.derivations.model import Derivation, Platform
from derive.errors import InputErrors, Missing
from derive.operands import ByDigest, Named, Released, Working, parse_operand
from derive.project import Project
from derive.store.history import Source, sources_of
from derive.store.local import LocalStore
from derive.trees.listing import Directory, Entry, File, Symlink
from derive.words import duration_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What to show: facts as pairs, rows as a table, and all of it as a record's body."""

    kind: str
    subject: str
    facts: tuple[tuple[str, ...], ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    body: Mapping[str, Json]


def describe_project(project: Project) -> Description:
    """Describe everything that a project declares; raises InputErrors when something is wrong with it."""
    from derive.derivations.scope import load_scope
    from derive.kernels.units import units_of

    scope = load_scope(project)
    rows = [("image", name, f"images/{name}.toml", " ".join(image.platforms)) for name, image in scope.images.items()]
    rows += [("derivation", name, one.file, one.declaration.builder) for name, one in scope.declared.items()]
    rows += [("kernel", n, f"kernels/{n}", f"{len(units_of(n, one))} units") for n, one in scope.kernels.items()]
    rows += [("lock set", n, f"lock/{n}.lock.json", f"{len(lock.entries)} entries") for n, lock in scope.locks.items()]
    rows += [("series", n, f"patches/{n}", f"{len(s.patches)} patches") for n, s in scope.series.items()]
    body: dict[str, Json] = {
        "content": str(project.digest()),
        "default_image": project.settings.default_image,
        "declared": [{"kind": kind, "name": name, "file": file, "note": text} for kind, name, file, text in rows],
    }
    facts = (("content", str(project.digest())), ("default image", project.settings.default_image))
    return Description(kind="project", subject=project.root.name, facts=facts, rows=tuple(rows), body=body)


def describe(project: Callable[[], Project], store: LocalStore, operand: str, platform: Platform | None) -> Description:
    """Describe what an operand names; the project is loaded only when a name is meant.

    Raises:
        InputErrors: when nothing has that name.
    """
    wanted = parse_operand(operand, platform)
    match wanted:
        case ByDigest(prefix=prefix, kind="tree"):
            return _tree(store, _digest(store, prefix))
        case ByDigest(prefix=prefix):
            return _by_digest(store, prefix)
        case Working():
            return _evaluated(project(), store, Named(project().settings.default_image, "image", platform))
        case Named():
            return _evaluated(project(), store, wanted)
        case Released():
            return _released(project, store, wanted)
        case _:
            assert_never(wanted)


def _evaluated(project: Project, store: LocalStore, wanted: Named) -> Description:
    from derive.build.service import evaluate

    name = wanted.name if wanted.kind == "any" else f"{wanted.kind}:{wanted.name}"
    target = evaluate(project, name, wanted.platform)
    known = store_knowledge(store)
    resolved = known.resolved_ids([target.id]).get(target.id)
    found = known.realised([resolved]).get(resolved) if resolved is not None else None
    return _derivation(store, target.name, target.id, json.loads(target.encoded()), found, target)


def _released(project: Callable[[], Project], store: LocalStore, wanted: Released) -> Description:
    """Describe a release's image as it was derived."""
    from derive.why.find import Finder

    found = Finder(store, project, wanted.platform).released(wanted)
    rows = store.database.find_derivations(found.id.hex)
    if not rows:
        hint = f"lay its content out, and ask there: derive records checkout {wanted.name} --output then"
        raise Missing(f"the documents of {wanted} are not in this store", hint=hint)
    (name, key, resolved, document), *_ = rows
    known = store_knowledge(store).realised([resolved]).get(resolved)
    return _derivation(store, name, key, json.loads(document), known, None)


def _by_digest(store: LocalStore, prefix: str) -> Description:
    for name, key, resolved, document in store.database.find_derivations(prefix):
        found = store_knowledge(store).realised([resolved]).get(resolved)
        return _derivation(store, name, key, json.loads(document), found, None)
    digest = _digest(store, prefix)
    if store.has_blob(digest):
        size = store.blob_size(digest)
        path = store.blob_path(digest)
        facts: tuple[tuple[str, ...], ...] = (("blob", str(digest)), ("size", f"{size} bytes"), ("path", str(path)))
        sources = sources_of(store.database, [digest])
        facts += tuple(("from", source.place) for source in sources)
        body: dict[str, Json] = {"size_bytes": size, "path": escape(os.fsencode(path)), "sources": _places(sources)}
        return Description(kind="blob", subject=str(digest), facts=facts, body=body)
    return _tree(store, digest)


def _digest(store: LocalStore, text: str) -> Digest:
    """Return the digest that 12 or more digits abbreviate."""
    found = {path.name for path in store.root.glob(f"blobs/sha256/{text}*")}
    found |= {path.stem for path in store.root.glob(f"listings/{text}*.json")}
    if len(found) == 1:
        return Digest(found.pop())
    if found:
        raise InputErrors.one(f"{text} is ambiguous", detail=[f"may be    sha256:{name}" for name in sorted(found)])
    raise InputErrors.one(
        f"nothing in the store is {text!r}",
        hint="give 12 or more hex digits of a digest, or a name: derive show lists them",
    )


def _derivation(
    store: LocalStore,
    name: str,
    key: Digest,
    document: Mapping[str, Json],
    found: Known | None,
    target: Derivation | None,
) -> Description:
    facts = [("name", name), ("derivation", str(key))]
    facts += [(field, str(document[field])) for field in ("builder", "build", "host")]
    facts += [("capability", name) for name in _capabilities(document)]
    came = None
    worker: Mapping[str, str] = {}
    if found is not None:
        facts.append(("resolved", str(found.resolved)))
        facts += [(f"output {output}", str(value)) for output, value in sorted(found.outputs.items())]
        came = substitutions(store.database, [found.resolved]).get(found.resolved)
        if came is not None:
            facts.append(("came from", f"cache {came.cache}, vouched for by {', '.join(came.signers)}"))
        worker = store.database.worker(found.resolved)
        if worker:
            facts.append(("ran on", worker_text(worker)))
        if found.duration_ns:  # none is known of what was imported, or fetched while locking
            facts.append(("built in", duration_text(found.duration_ns)))
    else:
        facts.append(("output", "not built yet"))
    sources = sources_of(store.database, [one.digest for one in found.outputs.values()] if found is not None else [])
    facts += [("from", source.place) for source in sources]
    inputs = document["inputs"]
    assert isinstance(inputs, Mapping)
    names = {} if target is None else {role: one.derivation.name for role, one in target.inputs.items()}
    rows = [("input", role, names.get(role, ""), _reference(value)) for role, value in sorted(inputs.items())]
    outputs: Json = {} if found is None else {k: str(v) for k, v in found.outputs.items()}
    body: dict[str, Json] = {
        "derivation": str(key),
        "document": document,
        "outputs": outputs,
        "sources": _places(sources),
    }
    if worker:
        body["worker"] = dict(worker)
    if came is not None:
        body["came_from"] = {"cache": came.cache, "signers": {name: str(key) for name, key in came.signers.items()}}
    return Description(kind="derivation", subject=name, facts=tuple(facts), rows=tuple(rows), body=body)


def _capabilities(document: Mapping[str, Json]) -> list[str]:
    """Return what an image says it can do; nothing of any other derivation."""
    from derive.images.oci import CAPABILITIES_LABEL

    at: Json = document["arguments"]
    for key in ("config", "labels", CAPABILITIES_LABEL):
        at = at.get(key) if isinstance(at, Mapping) else None
    return at.split() if isinstance(at, str) else []


def _places(sources: Sequence[Source]) -> list[Json]:
    return [{"place": source.place, "fetched_s": source.fetched_s} for source in sources]


def _reference(value: Json) -> str:
    assert isinstance(value, Mapping)
    return str(value["fixed"]) if "fixed" in value else f"drv:{str(value['derivation'])[:12]}"


def _tree(store: LocalStore, digest: Digest) -> Description:
    listing = store.listing(digest)
    rows = tuple(_row(path, entry) for path, entry in listing.items())
    facts = (("tree", str(digest)), ("paths", str(len(listing))), ("size", f"{listing.size} bytes"))
    entries: list[Json] = [_entry(path, entry) for path, entry in listing.items()]
    return Description(kind="tree", subject=str(digest), facts=facts, rows=rows, body={"entries": entries})


def _row(path: bytes, entry: Entry) -> tuple[str, str, str, str]:
    name = escape(path) or "."
    match entry:
        case Directory():
            return ("folder", "", name, "")
        case Symlink(target):
            return ("link", "", name, f"-> {escape(target)}")
        case File(executable, size, sha256):
            return ("program" if executable else "file", str(size), name, sha256.short)


def _entry(path: bytes, entry: Entry) -> dict[str, Json]:
    name = escape(path)
    match entry:
        case Directory():
            return {"path": name, "type": "folder"}
        case Symlink(target):
            return {"path": name, "type": "link", "target": escape(target)}
        case File(executable, size, sha256):
            return {
                "path": name,
                "type": "file",
                "executable": executable,
                "size_bytes": size,
                "sha256": sha256.hex,
            }
