# SPDX-License-Identifier: Apache-2.0
"""From an operand to what it names: a derivation with all below it, a tree, or a blob.

Edge: the store; the project, loaded only when an operand needs it. A project that did not change since it was last
asked is not evaluated again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from derive.canonical import Digest
from derive.derivations.model import PLATFORMS, Derivation, Platform, closure
from derive.errors import DeriveError, InputErrors, Missing
from derive.operands import ByDigest, Named, NameKind, Operand, Released, Working
from derive.project import Project
from derive.store import graph as stored
from derive.store.local import LocalStore
from derive.why.blobs import image_derivation
from derive.why.evaluated import find_cutoffs, memo_key
from derive.why.graph import Fixed, Graph, Node, graph_of, node_of, subject, variant
from derive.why.latest import latest

_LIST = "what there is: derive show"


@dataclass(frozen=True, slots=True)
class FoundDerivation:
    """A derivation. ``evaluated`` is there when the project's content was asked for it."""

    graph: Graph
    id: Digest
    evaluated: Derivation | None = None

    @property
    def node(self) -> Node:
        """The derivation itself."""
        return self.graph.nodes[self.id]


@dataclass(frozen=True, slots=True)
class FoundTree:
    """A tree of the store."""

    digest: Digest


@dataclass(frozen=True, slots=True)
class FoundBlob:
    """A blob of the store, which may be an image's manifest whose derivation nobody knows."""

    digest: Digest


Found: TypeAlias = FoundDerivation | FoundTree | FoundBlob


@dataclass(slots=True)
class Finder:
    """Finds what operands name. ``project`` is called at most once; ``platform`` is what names are for by default."""

    store: LocalStore
    project: Callable[[], Project]
    platform: Platform | None = None
    _project: Project | None = field(default=None, init=False)
    _seen: Graph = field(default_factory=lambda: Graph(nodes={}), init=False)

    def derivation(self, operand: Operand) -> FoundDerivation:
        """Return the derivation that an operand names, or that gave what it names.

        Raises:
            InputErrors: when nothing, or more than one thing, is meant.
            Missing: when no derivation is known that gave it.
        """
        return self._giver(self.find(operand), operand)

    def current(self, operand: Operand) -> FoundDerivation:
        """Return what :meth:`derivation` does; a name that no project here has is looked for in the store.

        Raises:
            InputErrors, Missing: as :meth:`derivation`.
        """
        try:
            return self.derivation(operand)
        except InputErrors:
            if not isinstance(operand, Named) or self._declares(operand.name):
                raise
            try:
                return self._giver(self.last(operand), operand)
            except Missing:
                pass
            raise

    def derivations(self, first: Operand, second: Operand) -> tuple[FoundDerivation, FoundDerivation]:
        """Return what :meth:`pair` does, or the derivations that gave it.

        Raises:
            InputErrors, Missing: as :meth:`pair`; and when no derivation is known.
        """
        one, two = self.pair(first, second)
        return self._giver(one, first), self._giver(two, second)

    def find(self, operand: Operand) -> Found:
        """Return what one operand names; ``.`` alone is the project's default image.

        Raises:
            InputErrors: when nothing, or more than one thing, is meant.
        """
        match operand:
            case Working():
                return self._evaluated(self._loaded().settings.default_image, "image", self.platform)
            case Named():
                return self._named(operand)
            case ByDigest():
                return self._by_digest(operand)
            case Released():
                return self.released(operand)

    def meant(self, operand: Operand) -> Operand:
        """Return the release where a bare name is that of one; anything else as it is.

        Raises:
            InputErrors: when the name is that of an image or a derivation, too.
        """
        from derive.why.released import is_release

        if not isinstance(operand, Named) or operand.kind != "any" or not self._has_project():
            return operand
        if not is_release(self._loaded().root, operand.name):
            return operand
        kinds = self._kinds(operand.name)
        if kinds:
            detail = [f"may be    {kind}:{operand}" for kind in (*kinds, "release")]
            hint = f"say {kinds[0]}:{operand} or release:{operand}"
            raise InputErrors.one(f"{str(operand)!r} has several meanings", detail=detail, hint=hint)
        return Released(operand.name, operand.platform)

    def as_digest(self, operand: Operand) -> Working | Named | ByDigest:
        """Return the image's digest where an operand is a release; anything else as it is."""
        if not isinstance(operand, Released):
            return operand
        from derive.why.released import find, image_of

        known = find(self.root, operand)
        _, image = image_of(known, self.root, operand.platform or self.platform, self.store.root)
        return ByDigest(image.digest.hex, "image")

    @property
    def root(self) -> Path:
        """The project's folder."""
        return self.working_project.root

    @property
    def working_project(self) -> Project:
        """The project here."""
        return self._loaded()

    def released(self, operand: Released) -> FoundDerivation:
        """Return a release's image; raises as :func:`derive.why.released.released_image`."""
        from derive.why.released import released_image

        return released_image(self, operand)

    def pair(self, first: Operand, second: Operand) -> tuple[Found, Found]:
        """Return what two operands name.

        Beside ``.``, which is what the working tree makes of the other, a name means what was derived of it last.

        Raises:
            InputErrors, Missing: as :meth:`find`; and when both are ``.``.
        """
        if isinstance(first, Working) and isinstance(second, Working):
            raise InputErrors.one("the working tree beside itself", hint="name what to compare it with")
        if isinstance(second, Working):
            other = self.last(first)
            return other, self.working(self._giver(other, first))
        if isinstance(first, Working):
            other = self.last(second)
            return self.working(self._giver(other, second)), other
        return self.find(first), self.find(second)

    def last(self, operand: Operand) -> Found:
        """Return what was derived last of a name, whatever the project says now; anything else as :meth:`find`."""
        operand = self.meant(operand)
        if not isinstance(operand, Named):
            return self.find(operand)
        wanted = operand.platform or self.platform
        rows = [row for row in stored.named(self.store.database, operand.name) if wanted in (None, row.host)]
        rows = rows or [row for row in stored.named(self.store.database, operand.name) if row.host == "any"]
        images = [row for row in rows if row.builder.startswith("image/")]
        if operand.kind == "any" and 0 < len(images) < len(rows):
            hint = f"say image:{operand} or drv:{operand}"
            raise InputErrors.one(f"{str(operand)!r} was an image and a derivation", hint=hint)
        rows = images if images and operand.kind != "drv" else [row for row in rows if row not in images]
        rows = rows if images or operand.kind != "image" else []
        if not rows:
            hint = "without the . it means what the project makes of that name now"
            raise Missing(f"nothing named {operand} was derived into this store", hint=hint)
        return self.stored(latest(self.store.database, self.closure, rows).id)

    def working(self, other: FoundDerivation) -> FoundDerivation:
        """Return what the working tree makes of the same thing: by its name and platform, or what it is about.

        Raises:
            InputErrors: when the project has no such thing now, or is wrong.
        """
        candidates = self._same_name(other.node) or self._same_subject(other.node)
        if not candidates:
            raise InputErrors.one(f"the project has no {other.node.title} now", hint=_LIST)
        if any(one.id == other.id for one in candidates):
            return next(one for one in candidates if one.id == other.id)
        made_for = variant(other.graph.closure(other.id))
        alike = [one for one in candidates if variant(one.graph.closure(one.id)) == made_for]
        return (alike or candidates)[0]

    def stored(self, key: Digest) -> FoundDerivation:
        """Return a derivation of the store; raises Missing when it has no row."""
        graph = self.closure([key])
        if key not in graph.nodes:
            raise Missing(f"derivation {key.short} is not known to this store", detail=[f"derivation  {key}"])
        return FoundDerivation(graph, key)

    def closure(self, targets: Iterable[Digest]) -> Graph:
        """Return a graph with all that the store knows of some derivations and what is below them, fetches left out."""
        rows = stored.load_closure(self.store.database, targets, self._seen.nodes)
        if rows:
            nodes = {key: node_of(key, row.name, row.document) for key, row in rows.items()}
            self._seen |= Graph(nodes=nodes, outputs=stored.outputs(self.store.database, rows.values()))
        return self._seen

    def with_fetches(self, graph: Graph, wanted: Iterable[Fixed]) -> Graph:
        """Return a graph in which more of the fetches that give these inputs are known."""
        missing = {one.output for one in wanted} - graph.fetches.keys()
        if not missing:
            return graph
        names = [
            node.name.removesuffix(" unpacked")
            for node in graph.nodes.values()
            if any(isinstance(given, Fixed) and given.output in missing for given in node.inputs.values())
        ]
        rows = stored.fetches(self.store.database, (output.rpartition(":")[2] for output in missing), names)
        nodes = {key: node_of(row.id, row.name, row.document) for key, row in rows.items()}
        known = {output: nodes[output.rpartition(":")[2]] for output in missing if output.rpartition(":")[2] in nodes}
        return Graph(nodes=graph.nodes, fetches={**known, **graph.fetches}, outputs=graph.outputs)

    def labelled(self, graph: Graph, contents: Iterable[Mapping[str, bytes]] = ()) -> Graph:
        """Return a graph whose patches have the names of those files of the project that say the same.

        Without a project here, or with one whose patches cannot be read, it is returned as it is. What is found in
        ``contents``, those of releases, goes before.
        """
        from derive.why.series import patch_labels, with_labels

        labels: dict[Digest, str] = {}
        for content in (*([self._loaded().files] if self._has_project() else []), *contents):
            with contextlib.suppress(DeriveError):
                labels |= patch_labels(
                    {path[8:]: data for path, data in content.items() if path.startswith("patches/")}
                )
        if not labels:
            return graph
        named = {key: with_labels(node, labels) for key, node in graph.nodes.items() if node.builder == "patch"}
        return graph | Graph(nodes=named)

    def _named(self, operand: Named) -> FoundDerivation:
        meant = self.meant(operand)
        if isinstance(meant, Released):
            return self.released(meant)
        return self._evaluated(operand.name, operand.kind, operand.platform or self.platform)

    def _has_project(self) -> bool:
        try:
            self._loaded()
        except DeriveError:
            return False
        return True

    def _declares(self, name: str) -> bool:
        """Say whether the project has a name, or cannot be read; False where there is no project."""
        try:
            return bool(self._kinds(name))
        except InputErrors:
            return self._has_project()

    def _kinds(self, name: str) -> tuple[str, ...]:
        """Return as what the project declares a name; raises InputErrors when it cannot be read."""
        from derive.derivations.scope import load_scope

        scope = load_scope(self._loaded())
        known = (("image", name in scope.images), ("drv", name in scope.declared))
        return tuple(kind for kind, there in known if there)

    def _loaded(self) -> Project:
        if self._project is None:
            self._project = self.project()
        return self._project

    def _evaluated(self, name: str, kind: NameKind, platform: Platform | None) -> FoundDerivation:
        """Return what the project makes of a name; from the store alone when that was found before."""
        memo = memo_key(self._loaded(), name, kind, platform)
        known = self.store.database.memo(memo)
        if known is not None:
            graph = self.closure([Digest(known)])
            if graph.is_whole(Digest(known)):
                return FoundDerivation(graph, Digest(known))
        from derive.build.service import evaluate

        target = evaluate(self._loaded(), name if kind == "any" else f"{kind}:{name}", platform)
        found = self.with_store(target)
        if target.id in self.store.database.resolved_ids([target.id]):
            with contextlib.suppress(DeriveError):  # a store that is only read
                self.store.database.set_memo(memo, target.id.hex)
        return found

    def with_store(self, target: Derivation) -> FoundDerivation:
        """Return a derivation of the project, with what the store knows of the steps below it."""
        order = closure(target)
        rows = stored.derivations(self.store.database, [one.id for one in order])
        outputs = dict(stored.outputs(self.store.database, rows.values()))
        find_cutoffs(self.store, order, outputs)
        graph = graph_of(order)
        return FoundDerivation(Graph(nodes=graph.nodes, fetches=graph.fetches, outputs=outputs), target.id, target)

    def _same_name(self, node: Node) -> list[FoundDerivation]:
        """Return what an image's or a declaration's name means, for each platform that the node may be for."""
        from derive.derivations.evaluate import Evaluator
        from derive.derivations.scope import load_scope

        scope = load_scope(self._loaded())
        names, evaluator = scope.images if node.builder == "image" else scope.declared, Evaluator(scope)
        if node.name not in names:
            return []
        make = evaluator.image if node.builder == "image" else evaluator.derivation
        found = []
        refusal: InputErrors | None = None
        for platform in PLATFORMS[1:]:
            if node.host in (platform, "any"):
                try:
                    found.append(self.with_store(make(node.name, platform)))
                except InputErrors as error:
                    refusal = refusal or error
        if refusal is not None and not found:
            raise refusal
        return found

    def _same_subject(self, node: Node) -> list[FoundDerivation]:
        """Look through every image for a step without a name of its own."""
        from derive.derivations.evaluate import Evaluator
        from derive.derivations.scope import load_scope

        scope = load_scope(self._loaded())
        wanted, evaluator = subject(node), Evaluator(scope)
        found: dict[Digest, Derivation] = {}
        for name, image in scope.images.items():
            for platform in image.platforms:
                for one in closure(evaluator.image(name, platform)):
                    about = graph_of([one]).nodes[one.id] if one.host == node.host else None
                    if about is not None and subject(about) == wanted:
                        found[one.id] = one
        return [self.with_store(one) for one in found.values()]

    def _by_digest(self, operand: ByDigest) -> Found:
        database, prefix = self.store.database, operand.prefix
        rows = [] if operand.kind == "tree" else stored.by_prefix(database, prefix)
        things: dict[Digest, str] = {row.id: f"derivation of {row.name}" for row in rows}
        if operand.kind != "drv":
            for digest in stored.outputs_like(database, prefix):
                things.setdefault(digest, "output")
            for folder, suffix, kind in (("blobs/sha256", "", "blob"), ("listings", ".json", "tree")):
                if operand.kind in ("any", kind) or (operand.kind, kind) == ("image", "blob"):
                    found = (self.store.root / folder).glob(f"{prefix}*{suffix}")
                    things |= {Digest(path.stem): kind for path in found if len(path.stem) == 64}
        if len(things) > 1:
            detail = [f"may be    {kind} {digest}" for digest, kind in sorted(things.items())]
            raise InputErrors.one(f"{operand} is ambiguous", detail=detail, hint="give more digits")
        if not things:
            raise InputErrors.one(f"nothing that this store knows is {operand}", hint=_LIST)
        (digest,) = things
        return self._thing(digest, operand)

    def _thing(self, digest: Digest, operand: ByDigest) -> Found:
        if digest in stored.derivations(self.store.database, [digest]):
            return self.stored(digest)
        if operand.kind != "tree" and (giver := image_derivation(self.store, digest)) is not None:
            with contextlib.suppress(Missing):
                return self.stored(giver)
        if (self.store.root / "listings" / f"{digest.hex}.json").exists():
            return FoundTree(digest)
        return FoundBlob(digest) if self.store.has_blob(digest) else self._giver(FoundBlob(digest), operand)

    def _giver(self, found: Found, operand: Operand) -> FoundDerivation:
        """Return the derivation, or the latest one that gave this tree or blob."""
        if isinstance(found, FoundDerivation):
            return found
        rows = stored.givers(self.store.database, found.digest)
        if not rows:
            hint = "derive diff compares what no derivation is known of"
            raise Missing(f"no derivation that this store knows gave {operand}", hint=hint)
        return self.stored(rows[-1].id)
