# SPDX-License-Identifier: Apache-2.0
"""Writes the variables of a table that people keep, in the form of those that are read from wheels.

declared.py TABLE FOLDER
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path


def main(table: Path, folder: Path) -> None:
    """Write one document for each reader of the table."""
    for reader, said in tomllib.loads(table.read_text(encoding="utf-8")).items():
        variables = dict.fromkeys(sorted(said["variables"]), said["source"])
        document = {"declared": True, "version": "", "wheel": reader, "variables": variables}
        text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=True) + "\n"
        (folder / f"{reader}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
