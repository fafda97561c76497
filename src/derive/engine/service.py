# SPDX-License-Identifier: Apache-2.0
"""What commands ask of the engine as a derivation: its root in a store, and where it lies unpacked.

Edge: the store, the network and the sandbox, through the services of derive.build.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from derive.derivations.model import Platform, TreeOutput
from derive.errors import HostRefuses, expected_got

if TYPE_CHECKING:
    from derive.build.execute import Progress
    from derive.build.service import Options
    from derive.net.places import MirrorSource
    from derive.store.local import LocalStore

_MACHINES: Mapping[str, Platform] = {"x86_64": "linux/amd64", "aarch64": "linux/arm64"}


def own_platform() -> Platform:
    """Return the platform of this machine, which an engine that is to run here must be for.

    Raises:
        HostRefuses: on a machine for which no engine is made.
    """
    machine = os.uname().machine
    if machine not in _MACHINES:
        detail = expected_got(" or ".join(_MACHINES), machine)
        raise HostRefuses("no engine is made for this machine", detail=detail)
    return _MACHINES[machine]


def derive_engine(
    files: Mapping[str, bytes],
    platform: Platform,
    store: LocalStore,
    options: Options,
    progress: Progress | None = None,
) -> TreeOutput:
    """Derive the root of the engine that has these files, where the store does not have it, and return its tree.

    The files go into the store first: whoever edits them meanwhile changes nothing. Raises what the steps raise.
    """
    from derive.build.service import plan_for, realise
    from derive.engine.derivation import engine_derivation
    from derive.engine.fetch import keep_source

    engine = engine_derivation(files, platform)
    keep_source(store, files)
    output = realise(plan_for(engine, store, options.root), store, options, progress)["out"]
    assert isinstance(output, TreeOutput)
    return output


def local_archive(mirrors: MirrorSource) -> Path | None:
    """Return the first archive of this machine that is a folder or a file."""
    from derive.net.places import ArchiveSite

    return next((Path(one.path) for one in mirrors.archives() if not isinstance(one, ArchiveSite)), None)
