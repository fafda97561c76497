# SPDX-License-Identifier: Apache-2.0
"""The project's own image, derived once from a cold store for all tests here, and a mirror that serves its sources."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.cli import CHECKOUT, derive
from support.mirror import Mirror, mirror_of

PLATFORMS = ("linux/amd64", "linux/arm64")


@dataclass(frozen=True, slots=True)
class Derived:
    """What ``derive image`` gave: the store that it filled, and the digest printed for each platform."""

    store: Path
    digests: dict[str, str]


@pytest.fixture(scope="session")
def derived(tmp_path_factory: pytest.TempPathFactory) -> Derived:
    """Derive the image ``probe`` of this checkout for both platforms; DERIVE_TEST_STORE names a store to keep."""
    kept = os.environ.get("DERIVE_TEST_STORE")
    store = Path(kept) if kept else tmp_path_factory.mktemp("derived") / "store"
    digests = {
        platform: derive("image", "probe", "--platform", platform, "--store", str(store)).answer
        for platform in PLATFORMS
    }
    return Derived(store, digests)


@pytest.fixture(scope="session")
def mirror(derived: Derived) -> Iterator[Mirror]:
    """Serve the locked artifacts on loopback, so that cold stores fill without the network."""
    with mirror_of(CHECKOUT, derived.store) as running:
        yield running


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of this checkout's content that a test may change."""
    target = tmp_path / "check out"  # with a space, as people have them
    target.mkdir()
    for name in ("lock", "patches", "derivations", "images"):
        shutil.copytree(CHECKOUT / name, target / name)
    shutil.copy(CHECKOUT / "pyproject.toml", target / "pyproject.toml")
    return target


@pytest.fixture
def warm(derived: Derived, tmp_path: Path) -> Iterator[Path]:
    """A store of its own that holds what the session's store holds; blobs are hard links, the rest is copied."""
    target = tmp_path / "warm"
    trees = derived.store / "trees"  # made again when a sandbox asks for them
    shutil.copytree(derived.store, target, copy_function=_link, ignore=lambda folder, _: _all_of(folder, trees))
    yield target
    shutil.rmtree(target, ignore_errors=True)


def _link(source: str, target: str) -> None:
    if "/blobs/" in source:
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def _all_of(folder: str, excluded: Path) -> list[str]:
    return [path.name for path in excluded.iterdir()] if Path(folder) == excluded else []
