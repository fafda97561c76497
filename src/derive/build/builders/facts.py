# SPDX-License-Identifier: Apache-2.0
"""``facts``: what the files of a tree are, for those who verify images. Page: docs/builders/facts.md.

Edge: the store.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from derive.build.context import Context
from derive.canonical import Json, encode
from derive.derivations.model import FlatOutput, Output, ResolvedDerivation
from derive.images.referrers import read_whole


def build(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
    """Probe the files of a tree or, with ``kind`` ``union``, unite the facts of the trees that an image is made of."""
    document = _union(request, context) if request.arguments["kind"] == "union" else _scanned(request, context)
    with context.store.blob_writer() as writer:
        writer.write(encode(document))
        return {"out": FlatOutput(writer.commit())}


def _scanned(request: ResolvedDerivation, context: Context) -> Mapping[str, Json]:
    from derive.verify.scan import scan

    scratch = Path(context.scratch).parent
    found = scan(context.store, context.store.listing(request.tree("tree")), scratch, jobs=context.jobs)
    context.log(f"{len(found)} files of which there is something to say")
    return {"derive": "facts/2", "files": {key: facts.document() for key, facts in found.items()}}


def _union(request: ResolvedDerivation, context: Context) -> Mapping[str, Json]:
    files: dict[str, Json] = {}
    for role in sorted(request.inputs):
        if role != "root":
            files |= json.loads(read_whole(context.store, request.file(role)))["files"]
    return {"derive": "image-facts/1", "tree": request.tree("root").hex, "files": files}
