# SPDX-License-Identifier: Apache-2.0
"""Lay the folders of kernels/ out as the package ds41_kernels: layout.py SOURCES TARGET.

A folder with a kernel.toml becomes a subpackage, without its tests; what ds41_kernels/ holds becomes the package's own
modules, init.py its __init__.py. Content has no __init__.py of its own, so those of kernels are made here.
"""

from __future__ import annotations

import shutil
import sys
import tomllib
from pathlib import Path

PACKAGE = "ds41_kernels"


def lay_out(sources: Path, target: Path) -> None:
    """Write the package into ``target/ds41_kernels``."""
    package = target / PACKAGE
    package.mkdir(parents=True)
    for file in sorted((sources / PACKAGE).glob("*.py")):
        shutil.copyfile(file, package / ("__init__.py" if file.name == "init.py" else file.name))
    for declaration in sorted(sources.glob("*/kernel.toml")):
        folder = declaration.parent
        summary = tomllib.loads(declaration.read_text("utf-8"))["summary"]
        (package / folder.name).mkdir()
        text = f"# SPDX-License-Identifier: Apache-2.0\n{_docstring(summary)}\n"
        (package / folder.name / "__init__.py").write_text(text, encoding="utf-8")
        for file in sorted(path for path in folder.iterdir() if path.is_file()):
            shutil.copyfile(file, package / folder.name / file.name)


def _docstring(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"""{escaped}"""'


if __name__ == "__main__":
    lay_out(Path(sys.argv[1]), Path(sys.argv[2]))
