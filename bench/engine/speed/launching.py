# SPDX-License-Identifier: Apache-2.0
"""How long it takes from a recipe to the launch files of all nodes, and to what else is answered from recipes alone.

Edge: processes, a store.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from speed.measure import Sample, command
from speed.measure import interleaved as take
from speed.scratch import Bench
from speed.table import AtMost, Row, Time, median_time

GROUP = "launch files"
_ROUNDS = 15
_RENDER = AtMost(Time(300_000_000))
_DIGEST = "sha256:" + "0" * 64


def run(setting: Bench, note: Callable[[str], None]) -> list[Row]:
    """Measure commands of the recipe ``ds41f``, which answer no where an image lacks something; beside Python alone."""
    recipe = "recipes/ds41f.toml"
    if recipe not in {path.relative_to(setting.root).as_posix() for path in setting.root.glob("recipes/*.toml")}:
        note(f"launching: not measured: this project has no {recipe}")
        return []
    folder = setting.new_path("launching")
    folder.mkdir()
    # Nobody's site: the example of the cabling. Byte code at hand, as an installed engine has it.
    own = {"DERIVE_STORE": folder / "store", "XDG_CONFIG_HOME": folder, "PYTHONPYCACHEPREFIX": folder / "bytecode"}
    kept = {key: value for key, value in os.environ.items() if key not in ("DERIVE_SITE", "PYTHONDONTWRITEBYTECODE")}
    env = kept | {key: str(path) for key, path in own.items()}
    derive = Path(sys.executable).with_name("derive")
    of_it = ("--recipe", "ds41f")

    def case(*argv: str) -> Callable[[], Sample]:
        return lambda: command([derive, *argv], env=env, cwd=setting.root, accept=(0, 1))

    texts = {
        "render": "derive render, all nodes of four",
        "why": "derive render --why KEY",
        "memory": "derive memory --all",
        "diff": "derive diff SHAPE SHAPE",
        "doctor": "derive doctor",
    }
    cases: dict[str, Callable[[], Sample]] = {
        "render": case("render", *of_it, "--image", _DIGEST),
        "why": case("render", *of_it, "--image", _DIGEST, "--why", "max-cudagraph-capture-size"),
        "memory": case("memory", *of_it, "--all"),
        "diff": case("diff", "shape:ds41f/tp4-ring", "shape:ds41f/tp3-triangle"),
        "doctor": case("doctor", *of_it),
        "pass": lambda: command([sys.executable, "-c", "pass"]),
    }
    for once in cases.values():
        once()  # untimed: byte code, page cache
    taken = take(cases, max(setting.rounds, _ROUNDS))
    alone = median_time(taken["pass"].wall_ns)
    return [
        Row(
            group=GROUP,
            what=what,
            amount=median_time(taken[name].wall_ns),
            beside="python -c pass",
            other=alone,
            target=_RENDER if name == "render" else None,
            samples=taken[name].wall_ns,
        )
        for name, what in texts.items()
    ]
