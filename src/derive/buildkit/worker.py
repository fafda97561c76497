# SPDX-License-Identifier: Apache-2.0
"""What a person is told of the worker that ran a step.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping


def worker_text(facts: Mapping[str, str]) -> str:
    """Return a worker's facts, as they stand beside a realisation, in one line."""
    words = [f"builder {facts['builder']}" if facts.get("builder") else "a builder"]
    words += [f"{label} {facts[key]}" for key, label in _LABELS if facts.get(key)]
    return ", ".join(words)


_LABELS = (("driver", "driver"), ("node", "node"), ("version", "BuildKit"), ("kernel", "kernel"))
