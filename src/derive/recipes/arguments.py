# SPDX-License-Identifier: Apache-2.0
"""All words that a shape's process gets on every node; each node's own come after them.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from derive.recipes.resolved import Resolved
from derive.recipes.values import argument_words


def words(resolved: Resolved) -> tuple[str, ...]:
    """Return the positional arguments, then every option by name: an unquoted word each."""
    options = (argument_words(name, resolved.arguments[name]) for name in sorted(resolved.arguments))
    return (*resolved.positional, *(word for option in options for word in option))
