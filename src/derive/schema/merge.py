# SPDX-License-Identifier: Apache-2.0
"""From what each derivation read to one document: options as they are, variables with everyone who reads them.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from derive.canonical import Json, decode
from derive.schema.model import TAG

OPTIONS = "schema/options.json"
VARIABLES = "schema/variables/"


def merge(
    files: Mapping[str, bytes], *, image: str, platform: str, derivation: str, parts: Mapping[str, str], content: str
) -> dict[str, Json]:
    """Return the document to pin.

    ``files`` are those of the union of all parts, by path; ``parts`` the derivations' ids by name; ``content`` is the
    digest of what they follow from.
    """
    options: Any = decode(files[OPTIONS])
    variables: dict[str, dict[str, Json]] = {}
    readers: dict[str, Json] = {}
    for path, data in sorted(files.items()):
        if not path.startswith(VARIABLES):
            continue
        said: Any = decode(data)
        readers[said["wheel"]] = said["version"]
        for name, file in said["variables"].items():
            variables.setdefault(name, {})[said["wheel"]] = file
    own: dict[str, Json] = {}
    for name, entry in options["variables"].items():
        variables.setdefault(name, {}).setdefault("vllm", "vllm/envs.py")
        own[name] = {key: value for key, value in entry.items() if (key, value) not in _UNSAID}
    return {
        "derive": TAG,
        "image": image,
        "platform": platform,
        "program": "vllm",
        "derivation": derivation,
        "parts": dict(parts),
        "content": content,
        "readers": readers,
        "own": {name: entry for name, entry in own.items() if entry},
        "variables": variables,
        **{key: options[key] for key in ("configs", "enums", "options", "positional")},
    }


_UNSAID = (("kind", "text"), ("exact", True))
"""What an entry says where it says nothing."""
