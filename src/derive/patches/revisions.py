# SPDX-License-Identifier: Apache-2.0
"""Another revision of the git upstream that a series is applied to, fetched without a change to any lock.

Edge: git, the network, the store.
"""

from __future__ import annotations

import re
from dataclasses import replace

from derive.canonical import Digest
from derive.derivations.declarations import GitFrom, PatchDecl, SourceDecl
from derive.derivations.scope import Scope, load_scope
from derive.errors import InputErrors, UpstreamGone
from derive.git.model import GitPin, GitRequest
from derive.lock.upstreams.wishes import GitDecl, UpstreamsWish
from derive.project import Project
from derive.store.protocol import Store

PREFIX = "git:"


def revision_tree(project: Project, store: Store, upstream: str, revision: str) -> Digest:
    """Return the tree of a commit (40 hexadecimal digits), tag or branch of a series' upstream, in the store then.

    What the wish picks on top of its own commit is not in it: a newer revision may have that already.

    Raises:
        InputErrors: when the series is not applied to a git upstream, or a revision cannot be called that.
        UpstreamGone: when the upstream has no such revision.
    """
    from derive.git.fetch import resolve_git

    request = _request(load_scope(project), upstream)
    try:
        if re.fullmatch(r"[0-9a-f]{40}", revision):
            return resolve_git(store, replace(request, commit=revision)).nar
        return _named(store, request, revision).nar
    except ValueError as error:
        raise InputErrors.one(str(error), where=PREFIX + revision) from error


def _named(store: Store, request: GitRequest, revision: str) -> GitPin:
    from derive.git.fetch import resolve_git

    try:
        return resolve_git(store, replace(request, tag=revision))
    except UpstreamGone as gone:
        try:
            return resolve_git(store, replace(request, branch=revision))
        except UpstreamGone:
            raise UpstreamGone(
                f"{request.name} has no tag and no branch {revision}", detail=gone.detail, hint=gone.hint
            ) from gone


def _request(scope: Scope, upstream: str) -> GitRequest:
    from derive.lock.mirrors import SystemMirrors

    for one in scope.declared.values():
        if not isinstance(one.declaration, PatchDecl) or one.declaration.series != upstream:
            continue
        source = scope.declared[one.declaration.source].declaration
        if isinstance(source, SourceDecl) and isinstance(source.source, GitFrom):
            name = source.source.git
            wish = scope.wishes[source.source.set]
            decl = wish.wanted[name] if isinstance(wish, UpstreamsWish) else None
            assert isinstance(decl, GitDecl)
            return GitRequest(
                name=name,
                urls=(decl.url,),
                submodules=decl.submodules,
                submodule_urls=decl.submodule_urls,
                mirrors=tuple(mirror.url for mirror in SystemMirrors().git()),
            )
    hint = "name a folder, an archive, tree:DIGEST or a declared derivation instead"
    raise InputErrors.one(f"the series {upstream} is not applied to a git upstream", hint=hint)
