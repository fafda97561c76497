# SPDX-License-Identifier: Apache-2.0
"""What all rings share: the project's own image, derived once from a cold store, and a mirror that serves its sources.

Property tests look at the same examples every time, unless asked to explore:

    DERIVE_HYPOTHESIS=explore .venv/bin/python -m pytest tests/property
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from derive.trees.materialise import remove_folder
from support.cli import CHECKOUT, derive
from support.derived import PLATFORMS, Derived
from support.engine import BuiltEngine, build_engine
from support.mirror import Mirror, mirror_of
from support.variants import copy_checkout, copy_store

# Started in the background, the suite may have been told to ignore Ctrl-C, and so would every program that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("DERIVE_HYPOTHESIS", "fixed"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what derives the project's own image, or the engine: their sources come from the registries."""
    for item in items:
        if {"derived", "built_engine"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.network)


@pytest.fixture(scope="session")
def derived(tmp_path_factory: pytest.TempPathFactory) -> Derived:
    """Derive the image ``probe`` of this checkout for both platforms; DERIVE_TEST_STORE names a store to keep."""
    kept = os.environ.get("DERIVE_TEST_STORE")
    base = tmp_path_factory.getbasetemp()
    # Workers of one run share the store: deriving one image in several processes at once builds each thing once.
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    store = Path(kept) if kept else shared / "derived-store"
    digests = {
        platform: derive("image", "probe", "--platform", platform, "--store", str(store)).answer
        for platform in PLATFORMS
    }
    return Derived(store, digests)


@pytest.fixture(scope="session")
def built_engine(tmp_path_factory: pytest.TempPathFactory) -> BuiltEngine:
    """Derive the engine itself; its root is read-only, and the store is no test's to change. Kept beside the other."""
    kept = os.environ.get("DERIVE_TEST_STORE")
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return build_engine(Path(f"{kept}-engine") if kept else shared / "engine-store")


@pytest.fixture(scope="session")
def mirror(derived: Derived) -> Iterator[Mirror]:
    """Serve the locked artifacts on loopback, so that cold stores fill without the network."""
    with mirror_of(CHECKOUT, derived.store) as running:
        yield running


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of this checkout's content that a test may change."""
    return copy_checkout(tmp_path / "check out")  # with a space, as people have them


@pytest.fixture
def warm(derived: Derived, tmp_path: Path) -> Iterator[Path]:
    """A store of its own that holds what the session's store holds; blobs and trees are hard links."""
    target = copy_store(derived.store, tmp_path / "warm")
    yield target
    remove_folder(target)
