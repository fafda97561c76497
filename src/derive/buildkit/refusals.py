# SPDX-License-Identifier: Apache-2.0
"""What a builder's words mean that no other attempt would change: the root's program cannot run, or the builder is old.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Sequence

from derive.canonical import escape
from derive.errors import BuildFailed, DeriveError, HostRefuses

_OLD = ("oci-layout", "OCI exporter is not supported", "unknown exporter", "invalid progress mode")


def refusal_of(error: str, words: Sequence[str], builder: str) -> DeriveError | None:
    """Return the error for a step that can never run there, None where it may: ``error`` is the step's own."""
    said = tuple(line for line in words if line.startswith("ERROR"))
    if "exec format error" in error:
        return HostRefuses(
            f"builder {builder} cannot run the root's programs: they are for another architecture",
            detail=(error[:300],),
            hint="use a builder with a node of the build platform",
        )
    if "unable to start container process" in error and "permission denied" in error:
        return BuildFailed("the root's program is not executable", detail=(error[:300],))
    if "unable to start container process" in error and "no such file or directory" in error:
        return BuildFailed(
            "the root's program cannot run",
            detail=(error[:300],),
            hint="add the package that holds it, and its program interpreter, to the root",
        )
    if any(word in line for line in words for word in _OLD):
        return HostRefuses(
            f"builder {builder}, or this machine's buildx, is too old for contexts and results by digest",
            detail=said[-1:],
            hint="buildx 0.13 or newer and a BuildKit as new; an engine of Docker needs its containerd image store",
        )
    return None


def sockets_left(name: str, paths: Sequence[bytes]) -> BuildFailed:
    """Return the error for an output with sockets in it, as this machine's sandbox says it."""
    detail = [f"{escape(path)}: a socket, which no tree can hold" for path in sorted(paths)]
    return BuildFailed(f"the output of {name} is no tree", detail=detail)
