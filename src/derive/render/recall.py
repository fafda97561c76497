# SPDX-License-Identifier: Apache-2.0
"""A rendering that was asked for before is recognised by the digests of all that it was made from.

Edge: the store, the project's files, the site's file. Imports nothing that renders.

The store is asked and told only where there is one already: rendering makes none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from derive.build.engine import engine_digest
from derive.canonical import Digest, Json, digest_document, escape, sha256
from derive.errors import DeriveError, InputErrors
from derive.fabric.site_file import find_site, read_site_file
from derive.project import load_launching
from derive.render.chosen import Chosen
from derive.render.show import Answer

if TYPE_CHECKING:
    from derive.store.local import LocalStore


def question(root: Path, chosen: Chosen, environ: Mapping[str, str], usual: str) -> Digest | None:
    """Return the digest of everything that is read for a rendering but the image; None where it cannot be read."""
    path = find_site(environ, chosen.site)
    try:
        site = None if path is None else read_site_file(path)[0]
        files = load_launching(root)
    except (OSError, InputErrors):
        return None  # whoever renders says what is wrong
    return digest_document(
        {
            "derive": "render-question/1",
            "engine": engine_digest().hex,
            "jinja2": _jinja2(),
            "files": {name: sha256(data).hex for name, data in files.items()},
            "site": None if site is None else [escape(os.fsencode(str(path))), sha256(site).hex],
            "recipe": chosen.recipe,
            "shape": chosen.shape,
            "usual": usual,
        }
    )


def answer_key(asked: Digest, image: Digest) -> Digest:
    """Return what an answer is remembered under."""
    return digest_document({"derive": "render-answer/1", "question": asked.hex, "image": image.hex})


def image_key(asked: Digest) -> Digest:
    """Return what the name and platform of a shape's image are remembered under."""
    return digest_document({"derive": "render-image/1", "question": asked.hex})


def recalled(store: LocalStore, key: Digest) -> Answer | None:
    """Return an answer that was given before, if it is still whole."""
    value = store.database.memo(key)
    if value is None:
        return None
    with suppress(DeriveError, OSError, ValueError):
        data = b"".join(store.read_blob(Digest(value)))
        if sha256(data).hex == value:
            document: Json = json.loads(data)
            return Answer.from_document(document)
    return None


def remember(store: LocalStore, asked: Digest, image: Digest, name: str, answer: Answer) -> None:
    """Keep an answer, until a collection takes it; where nothing can be kept, nothing is lost.

    ``name`` is the image's, with its platform where that is not the usual one.
    """
    if store.read_only:
        return
    with suppress(DeriveError, OSError):
        writer = store.blob_writer()
        writer.write(answer.to_bytes())
        store.database.set_memo(answer_key(asked, image), writer.commit().hex)
        store.database.set_memo(image_key(asked), name)


def _jinja2() -> Json:
    """Return what is installed of the template engine, which decides bytes: importing it would take long."""
    from importlib.util import find_spec

    found = find_spec("jinja2")
    if found is None or found.origin is None:
        return None
    return sorted(path.name for path in Path(found.origin).parent.parent.glob("[Jj]inja2-*"))
