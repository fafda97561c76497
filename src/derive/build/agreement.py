# SPDX-License-Identifier: Apache-2.0
"""Two things are said of what one step gives: an alarm, which names who says what, and what to do.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from derive.canonical import Digest
from derive.derivations.model import Output
from derive.errors import Contradicted

HERE = "this machine"
HINT = (
    "one builder is broken, owned, or the step is not deterministic: build it where nobody else has hands, in a store "
    "of its own (derive build STEP --no-cache --on here --check --store fresh); a key that lied is revoked: "
    "derive key revoke KEY --record --why TEXT"
)


def contradicted(name: str, resolved: Digest, said: Sequence[tuple[str, Mapping[str, Output]]]) -> Contradicted:
    """Return the alarm for a step; ``said`` are who says something, and the outputs that they name."""
    rows = [f"{who:<12}  {text}" for who, outputs in said for text in _lines(outputs)]
    return Contradicted(
        f"{name}: trusted builders contradict each other"
        if all(who != HERE for who, _ in said)
        else f"{name}: this machine and trusted builders contradict each other",
        detail=[f"{'resolved':<12}  {resolved}", *rows],
        hint=HINT,
    )


def _lines(outputs: Mapping[str, Output]) -> Sequence[str]:
    return [f"{name} {value}" for name, value in sorted(outputs.items())] or ["no outputs"]
