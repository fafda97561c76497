# SPDX-License-Identifier: Apache-2.0
"""``fetch-deb``, ``fetch-source``, ``fetch-wheel``: one locked artifact, by hash. Page: docs/builders/fetch.md.

Edge: the network, through the context.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.build.context import Context
from derive.derivations.model import FlatOutput, Output, ResolvedDerivation


def build(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
    """Fetch; the output is the artifact's file."""
    return {"out": FlatOutput(context.fetch(request, context.store))}
