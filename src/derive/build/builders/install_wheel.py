# SPDX-License-Identifier: Apache-2.0
"""``install-wheel``: an unpacked wheel laid out as installed. Page: docs/builders/install-wheel.md.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.build.context import Context
from derive.derivations.model import Output, ResolvedDerivation
from derive.wheels.install import Scheme, install_wheel


def build(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
    """Install to the one prefix; only locations move, but for scripts' first lines and what is generated.

    With an input ``patched`` its tree is installed, and ``wheel`` is what RECORD speaks of.
    """
    store = context.store
    python = str(request.arguments["python"])
    scheme = Scheme(python=python, interpreter=f"/usr/bin/python{python}")  # a root need not have /usr/bin/python3
    wheel = store.listing(request.tree("wheel"))
    patched = store.listing(request.tree("patched")) if "patched" in request.inputs else None
    drop = request.arguments.get("drop", ())
    assert isinstance(drop, list | tuple)
    dropped = tuple(str(pattern) for pattern in drop)
    installed = install_wheel(store, wheel, name=context.labels[0], scheme=scheme, patched=patched, drop=dropped)
    for line in installed.log:
        context.log(line)
    return {"out": context.tree(request, installed.listing)}
