# SPDX-License-Identifier: Apache-2.0
"""The other process of a proof: renders what it is asked on standard input, and answers with all files.

Edge: the project, the site's file, standard streams.

It is asked a JSON object of ``root``, ``recipe``, ``shape``, ``image`` and ``site`` (null: the example), and answers
with one of each file's path to its bytes in base64.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

from derive.canonical import Digest
from derive.fabric.places import VARIABLE
from derive.render.inputs import Chosen
from derive.render.service import render


def main() -> None:
    """Answer one question."""
    asked = json.loads(sys.stdin.buffer.read())
    image = Digest.parse(asked["image"])
    chosen = Chosen(recipe=asked["recipe"], shape=asked["shape"], site=asked["site"])
    # Where a user's files are is what the other process has found: an environment without any has the example.
    environ = {"XDG_CONFIG_HOME": "/nonexistent"} if asked["site"] is None else {VARIABLE: asked["site"]}
    files = render(Path(asked["root"]), chosen, environ, lambda _: image, asked["recipe"]).bundle.files
    answer = {path: base64.b64encode(data).decode() for path, data in files.items()}
    sys.stdout.buffer.write(json.dumps(answer).encode())


if __name__ == "__main__":
    main()
