# SPDX-License-Identifier: Apache-2.0
"""How long an image takes when its sources are there and nothing else, and after one changed patch.

Edge: processes, a copy of the project.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from derive.project import CONTENT_ROOTS
from derive.trees.materialise import remove_folder
from speed.measure import CannotMeasureError, Sample, Samples, settled, watched
from speed.memory import LIMIT
from speed.scratch import Bench, cold_store
from speed.table import AtMost, Row, Size, Time, median_time

GROUP = "a whole image"
_COLD_NS = 180_000_000_000
_PRINTS = re.compile(rb'^(\+\s*printf\(")', re.MULTILINE)


def run(setting: Bench, note: Callable[[str], None]) -> list[Row]:
    """Derive from nothing but the fetches; then change a text that a patched program prints, and derive again."""
    copy = setting.new_path("project")
    copy_content(setting.root, copy)
    cold: list[Sample] = []
    changed: list[Sample] = []
    for turn in range(max(1, setting.rounds // 3)):
        store = cold_store(setting)
        note(f"image: deriving {setting.name} from its fetches")
        cold.append(settled(partial(_derive, setting, setting.root, store)))
        note("image: deriving it again with one patch changed")
        change_a_patch(copy, turn)
        changed.append(settled(partial(_derive, setting, copy, store)))
        remove_folder(store)
    first, second = Samples(tuple(cold)), Samples(tuple(changed))
    return [
        Row(
            group=GROUP,
            what=f"derive image {setting.name}, fetches present",
            amount=median_time(first.wall_ns),
            target=AtMost(Time(_COLD_NS)),
            samples=first.wall_ns,
        ),
        Row(group=GROUP, what="the engine's peak memory", amount=Size(first.peak_bytes), target=LIMIT),
        Row(
            group=GROUP,
            what="the same after one changed patch",
            amount=median_time(second.wall_ns),
            beside="fetches present",
            other=median_time(first.wall_ns),
            samples=second.wall_ns,
        ),
    ]


def change_a_patch(root: Path, turn: int) -> None:
    """Change a text that an added line of some patch prints, each turn to another one.

    Raises:
        CannotMeasureError: when no patch of the project adds a line that prints.
    """
    for path in sorted((root / "patches").rglob("*.patch")):
        data = path.read_bytes()
        changed = _PRINTS.sub(rb"\g<1>%d" % turn, data, count=1)
        if changed != data:
            path.write_bytes(changed)
            return
    raise CannotMeasureError("no patch of this project adds a line that prints")


def copy_content(root: Path, copy: Path) -> None:
    """Copy all of a project that can decide a byte."""
    copy.mkdir()
    shutil.copy(root / "pyproject.toml", copy)
    for name in CONTENT_ROOTS:
        if (root / name).exists():
            shutil.copytree(root / name, copy / name)


def _derive(setting: Bench, project: Path, store: Path) -> Sample:
    derive = Path(sys.executable).with_name("derive")
    where: list[str | Path] = ["--project", project, "--store", store]
    return watched([derive, "image", setting.name, "--offline", "--jobs", str(setting.jobs), *where])
