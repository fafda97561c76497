# SPDX-License-Identifier: Apache-2.0
"""The two documents of a release: their form as reviewed, and the same bytes in another folder, order and locale.

What the small project's root is made of comes from this machine, and its templates from the checkout: of hashes only
the form is kept.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from derive.records.chain import DOCUMENTS
from support.cli import derive
from support.golden import check_golden
from support.releasing import released_project

ADVICE = "where the form moved, the document needs another version, and docs/formats/release.md the same change"


def formed(value: Any) -> Any:
    """Return a document without its hashes; of derivations, the first of each builder, with its inputs by name."""
    if isinstance(value, dict) and value and all(re.fullmatch(r"[0-9a-f]{64}", key) for key in value):
        names = [value[key]["name"] for key in sorted(value)]
        named = [{**row, "inputs": sorted(f"place of {names[at]}" for at in row["inputs"])} for row in value.values()]
        rows = sorted(named, key=lambda row: (row["builder"], row["name"]), reverse=True)
        return [formed(row) for row in {row["builder"]: row for row in rows}.values()]
    if isinstance(value, dict):
        return {key: formed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [formed(item) for item in value]
    return re.sub(r"[0-9a-f]{64}", "<64 hex>", value) if isinstance(value, str) else value


def without_the_checkout(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document of the small project without the names that come from the checkout, which move alone."""
    if "content" in document:
        own = {
            path: found for path, found in document["content"].items() if not path.startswith(("fabric/", "render/"))
        }
        return {**document, "content": own, "engine": {**document["engine"], "version": "<version>"}}
    engine = {name: {**one, "derivations": "<as of images>"} for name, one in document["engine"].items()}
    return {**document, "engine": engine}


def test_a_release_has_the_form_that_was_reviewed_and_the_same_bytes_wherever_it_is_derived(tmp_path: Path) -> None:
    written = []
    for name, shuffled, locale in (("here", False, "C.UTF-8"), ("elsewhere/ä b", True, "tr_TR.UTF-8")):
        place = tmp_path / name
        place.mkdir(parents=True)
        with released_project(place, repository=False) as small:
            env = {**small.environment, "LC_ALL": locale, "TZ": "Asia/Tokyo" if shuffled else "UTC"}
            arguments = ("release", name[:4], "--recipe", "serve", "--write-to", str(place / "out"))
            ran = derive(*arguments, env=env, cwd=small.root, shuffled=shuffled)
            assert ran.code == 0, ran.err
            assert not (small.root / "records").exists()
        written.append({file: (place / "out" / file).read_bytes() for file in DOCUMENTS})
    assert written[0] == written[1]
    for file, data in written[0].items():
        document = formed(without_the_checkout(json.loads(data)))
        check_golden(f"releases/{file}", json.dumps(document, indent=1, ensure_ascii=False) + "\n", advice=ADVICE)
