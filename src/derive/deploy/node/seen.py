# SPDX-License-Identifier: Apache-2.0
"""The effect that says how a service's guards are: asked for again and again, and so by itself.

Edge: the node: processes, files below ``/run/derive``. Runs there: Python 3.8, standard library only.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from derive.deploy.node.guarded import guards_of, is_halted, place_of, read_text, started_at, supervised
from derive.deploy.node.units import unit_states

PHASES = ("startup", "steady")


def guard_seen(given: dict[str, Any]) -> Any:
    """Return how a service's guards are, whoever runs them; nothing is changed, and no rights are needed.

    ``units`` are those of its guards as systemd has them; ``supervised`` is what its supervisor last wrote down, and
    ``alive`` says whether that one lives.
    """
    service = str(given["service"])
    place = place_of(service)
    known = supervised(place)
    has_systemd = Path("/run/systemd/system").is_dir()
    running = guards_of(service)
    names = [f"derive-{service}-guard-{phase}.service" for phase in PHASES]
    return {
        "systemd": has_systemd,
        "units": unit_states({"names": names}) if has_systemd else {},
        "running": running,
        "halted": sorted(phase for phase, pid in running.items() if is_halted(pid)),
        "says": {phase: read_text(place / f"guard-{phase}").strip() or None for phase in PHASES},
        "supervised": known,
        "now_ns": time.monotonic_ns(),
        "alive": known is not None and started_at(known["pid"]) == known["started"],
    }
