# SPDX-License-Identifier: Apache-2.0
"""``install-wheel``: an unpacked wheel laid out as installed. Page: docs/builders/install-wheel.md.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.build.context import Context
from derive.derivations.model import Output, ResolvedDerivation, TreeOutput
from derive.wheels.install import Scheme, install_wheel


def build(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
    """Install to the one prefix; only locations move, but for scripts' first lines and what is generated."""
    store = context.store
    python = str(request.arguments["python"])
    scheme = Scheme(python=python, interpreter=f"/usr/bin/python{python}")  # a root need not have /usr/bin/python3
    installed = install_wheel(store, store.listing(request.tree("wheel")), name=context.labels[0], scheme=scheme)
    for line in installed.log:
        context.log(line)
    return {"out": TreeOutput(store.add_listing(installed.listing))}
