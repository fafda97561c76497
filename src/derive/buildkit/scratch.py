# SPDX-License-Identifier: Apache-2.0
"""Folders beside the store's own, by paths that a client of BuildKit can be told.

Edge: the file system.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from derive.trees.materialise import remove_folder

_PLAIN = re.compile(r"[A-Za-z0-9/._=+ -]+")


@contextlib.contextmanager
def scratch_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Lend a new folder in another one; at the end nothing of it is left.

    buildx reads ``@`` and ``:`` in the path of a layout as its end, and ``,`` as the end of a result's: where there is
    any such sign, the folder is lent by a link without.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent)).absolute()
    try:
        if _PLAIN.fullmatch(str(folder)):
            yield folder
        else:
            with tempfile.TemporaryDirectory(prefix="derive-buildx-") as beside:
                link = Path(beside) / "scratch"
                link.symlink_to(folder)
                yield link
    finally:
        remove_folder(folder)
