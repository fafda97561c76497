# SPDX-License-Identifier: Apache-2.0
"""Processes that build in a store and others that collect it, at once; each says what it did, and may be killed.

Edge: everything.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from derive.build.execute import is_present
from derive.store.collect import collect
from derive.store.local import LocalStore
from derive.store.protocol import read_all
from derive.store.reach import Level
from support.stored import Made, fetched, image, tree


def build(root: Path, seed: int, seconds: float) -> None:
    """Build one image after another from few sources, and find that nothing of it went while it was built."""
    chance = random.Random(seed)
    end = time.monotonic() + seconds
    turns = 0
    while time.monotonic() < end:
        with LocalStore(root) as store:
            store.protect([])
            made = [_deb(store, chance.randrange(6)) for _ in range(3)]
            made += [tree(store, b"tree of %d" % chance.randrange(6), one) for one in list(made)]
            folder = store.folder(made[-1].digest)
            time.sleep(chance.random() * 0.02)
            assert [one for one in made if not is_present(store, one.output)] == [], "gone while it was built"
            for one in made[3:]:
                for _, file in store.listing(one.digest).files():
                    assert read_all(store, file)
            assert folder.joinpath("usr", "file").read_bytes()
            if chance.random() < 0.3:
                done = image(store, f"image-{seed}", *made[3:])
                assert is_present(store, done.output)
        turns += 1
    sys.stdout.write(f"{turns}\n")


def _deb(store: LocalStore, number: int) -> Made:
    return fetched(store, b"archive %d" % number, f"p{number}")


def sweep(root: Path, seed: int, seconds: float) -> None:
    """Collect again and again."""
    end = time.monotonic() + seconds
    turns = 0
    while time.monotonic() < end:
        with LocalStore(root) as store:
            collect(store, list(Level)[seed % 3])
        turns += 1
    sys.stdout.write(f"{turns}\n")


if __name__ == "__main__":
    {"build": build, "sweep": sweep}[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
