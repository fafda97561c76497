# SPDX-License-Identifier: Apache-2.0
"""What every resolver is handed.

Edge: hands on the network and the store, and does nothing itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from derive.canonical import Digest
from derive.git.model import FetchedGit
from derive.net.fetch import Fetcher
from derive.net.places import MirrorSource
from derive.net.progress import Progress, Quiet
from derive.store.protocol import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The store that artifacts are fetched into while locking, what fetches them, and who is told.

    ``git`` gathers, by tree digest, what locking fetched of git upstreams: no build needs to fetch it again.
    """

    store: Store
    fetcher: Fetcher
    mirrors: MirrorSource
    progress: Progress = field(default_factory=Quiet)
    git: dict[Digest, FetchedGit] = field(default_factory=dict)
