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
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from derive.trees.materialise import remove_folder
from support.cli import CHECKOUT, derive
from support.derived import PLATFORMS, Derived
from support.engine import BuiltEngine, build_engine
from support.mirror import Mirror, mirror_of
from support.variants import copy_checkout, copy_store

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

# Started in the background, the suite may have been told to ignore Ctrl-C, and so would every program that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("DERIVE_HYPOTHESIS", "fixed"))

# What takes longest, first: a worker that begins with one of these at the end would leave the others idle. A line is
# a group for one worker, as its files wait for the same thing.
_FIRST = (
    ("sandbox/test_kernel_bytes", "sandbox/test_mma_formats", "e2e/test_kernel_commands"),
    ("e2e/test_lab",),
    ("e2e/test_distribution", "e2e/test_guard_starved", "e2e/test_node_engines", "e2e/test_supervised"),
    ("e2e/test_reproducible",),
    ("e2e/test_check",),
    ("e2e/test_bootstrap",),
    ("e2e/test_audit",),
    ("e2e/test_memory_guard",),
    ("e2e/test_witnesses",),
    ("e2e/test_killed",),
)
# Those that share something, and take no long time.
_TOGETHER = (("unit/deploy/test_effects", "unit/deploy/test_held", "unit/deploy/test_remote"),)
_GROUPS = {
    name: (min(number, len(_FIRST)), names[0]) for number, names in enumerate((*_FIRST, *_TOGETHER)) for name in names
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files; mark what derives the project's own image, or the engine: their sources come from registries."""
    items.sort(key=lambda item: _group(item.nodeid)[0])
    for item in items:
        if {"derived", "built_engine"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.network)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Give each worker whole files, so that what a file's tests share is made once, and groups of files likewise."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)[1]

    return Groups(config, log)


def _group(nodeid: str) -> tuple[int, str]:
    """Return where a test's group stands in the order, and its name."""
    file = nodeid.partition("::")[0].removeprefix("tests/").removesuffix(".py")
    return _GROUPS.get(file, (len(_FIRST), file))


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
