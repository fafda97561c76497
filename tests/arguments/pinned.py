# SPDX-License-Identifier: Apache-2.0
"""Says whether options that were derived from nothing are those of the pinned schema.

Edge: files, standard streams.

    pinned.py DERIVED PINNED
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

KEYS = ("configs", "enums", "options", "positional")


def main(derived: Path, pinned: Path) -> int:
    """Compare what only vLLM's sources decide; 1 when it differs."""
    ours, theirs = json.loads(derived.read_bytes()), json.loads(pinned.read_bytes())
    differ = [key for key in KEYS if ours[key] != theirs[key]]
    said = f"differ in {', '.join(differ)}" if differ else "are the same"
    sys.stderr.write(f"what was derived from nothing and what is pinned {said}\n")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
