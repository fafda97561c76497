# SPDX-License-Identifier: Apache-2.0
"""The programs that run inside the sandbox of a kernel, read as text by the engine, and how they are called.

Edge: reads its own package's files.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.canonical import Json

ENVIRONMENT: Mapping[str, str] = {"PYTHONDONTWRITEBYTECODE": "1"}
"""What the sandbox of a kernel has beside the variables of every sandbox; the builder's version covers it."""


def driver(part: str) -> bytes:
    """Return the program of a part, ``device`` or ``host``."""
    from importlib.resources import files

    return files(__name__).joinpath(f"{part}.py").read_bytes()


def command(arguments: Mapping[str, Json]) -> tuple[str, ...]:
    """Return the command to run in the sandbox for a part with these arguments."""
    python = (f"/usr/bin/python{arguments['python']}", "-B")
    if arguments["part"] == "host":
        return (*python, "/in/driver/host.py", "/in/device", str(arguments["machine"]), "/out")
    return (*python, "/in/unit/device.py", "/in/unit", "/out")
