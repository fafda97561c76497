# SPDX-License-Identifier: Apache-2.0
"""A launch's variables as a file for ``docker run --env-file``.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping


def environment_file(environment: Mapping[str, str]) -> bytes:
    """Return a line for each variable, sorted by name; the empty text is a value.

    There is no quoting in such a file. :func:`derive.render.faults.launch_problems` says what no line can hold.
    """
    return "".join(f"{name}={value}\n" for name, value in sorted(environment.items())).encode("utf-8")
