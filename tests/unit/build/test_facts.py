# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from pathlib import Path

import pytest

from derive.build.builders.facts import build
from derive.build.context import Context
from derive.build.fetching import StoreFetch
from derive.derivations.model import FlatOutput, ResolvedDerivation, TreeOutput
from derive.errors import Corrupt
from derive.sandbox.probe import find_sandbox
from derive.store.local import LocalStore
from derive.trees.listing import EMPTY
from support.archives import put


def test_facts_of_a_tree_that_are_damaged_are_not_united(tmp_path: Path) -> None:
    with LocalStore(tmp_path) as store:
        facts = put(store, b'{"derive":"facts/2","files":{}}')
        path = store.blob_path(facts)
        path.chmod(0o600)
        path.write_bytes(b'{"derive":"facts/2","files":{"a":1}}')
        request = ResolvedDerivation(
            builder="facts",
            version=1,
            build="any",
            host="any",
            arguments={"kind": "union"},
            inputs={"facts.0000": FlatOutput(facts), "root": TreeOutput(store.add_listing(EMPTY))},
        )
        context = Context(
            name="it",
            labels=(),
            store=store,
            fetch=StoreFetch(offline=True),
            sandbox=find_sandbox,
            log=lambda _: None,
            log_bytes=lambda _: None,
            jobs=1,
            scratch=store.staging.new_path(),
            cancel=threading.Event(),
            timeout_s=None,
        )
        with pytest.raises(Corrupt, match=f"the bytes of blob {facts.short} no longer have its digest"):
            build(request, context)
