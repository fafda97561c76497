# SPDX-License-Identifier: Apache-2.0
"""Asks a worker of BuildKit on what kernel it runs steps: a step reads it there, as every other step would.

Edge: the clients of BuildKit, the store that the root of the step is in.

Which machine a kernel runs on is not among what a step can see, so nothing is said of it.
"""

from __future__ import annotations

import os
from functools import cache

from derive.build.builders.script import run_step
from derive.build.context import Context
from derive.build.fetching import StoreFetch
from derive.buildkit.run import BuildKitExecutor
from derive.canonical import Digest
from derive.certificates.host import cpu_of, hidden, memory_of
from derive.certificates.model import Maker
from derive.derivations.model import Output, Platform, ResolvedDerivation
from derive.errors import HostRefuses
from derive.sandbox.probe import find_sandbox
from derive.sandbox.request import Script
from derive.schedule.guards import watched
from derive.store.local import LocalStore
from derive.trees.listing import File

_TIME_S = 60.0
_BOOT = "sys/kernel/random/boot_id"
_ARCHITECTURE, _KERNEL = "sys/kernel/arch", "sys/kernel/osrelease"
_READ = (_BOOT, _ARCHITECTURE, _KERNEL, "cpuinfo", "meminfo")
_SCRIPT = "".join(
    # A shell's own words alone: the root may have no other program.
    f"if [ -r /proc/{path} ]; then while IFS= read -r line; do printf '%s\\n' \"$line\"; done < /proc/{path}"
    f' > "$DERIVE_OUT/{number}"; fi\n'
    for number, path in enumerate(_READ)
)


def ask_worker(store: LocalStore, builder: str, root: Output, platform: Platform, salt: Digest, *, steps: int) -> Maker:
    """Return what a worker says of itself; ``root`` is a tree with a shell, ``steps`` how many steps it ran.

    Raises:
        HostRefuses: when nothing there tells one start of its kernel from another, or its guard lets nothing run.
        Unavailable: when it does not answer.
    """
    request = ResolvedDerivation(
        builder="script", version=1, build=platform, host=platform, arguments={}, inputs={"root": root}
    )
    worker: dict[str, str] = {}
    with watched((builder,), os.environ) as stop:
        context = Context(
            name="what its kernel is",
            labels=(),
            store=store,
            fetch=StoreFetch(offline=True),
            sandbox=cache(find_sandbox),
            log=lambda _: None,
            log_bytes=lambda _: None,
            jobs=1,
            scratch=store.staging.new_path(),
            cancel=stop,
            timeout_s=_TIME_S,
            executor=BuildKitExecutor(builders=(builder,)),
            ran_by=worker.update,
        )
        listing = run_step(request, context, Script(text=_SCRIPT), {}, {})
    told = {}
    for number, path in enumerate(_READ):
        file = listing.get(str(number).encode())
        data = b"".join(store.read(file)) if isinstance(file, File) else b""
        told[path] = os.fsdecode(data).strip()
    if not told[_BOOT]:
        raise HostRefuses(
            "nothing tells one start of its kernel from another",
            where=f"builder {builder}: /proc/{_BOOT}",
            hint="let its steps see /proc: who certifies says on which kernels",
        )
    return Maker(
        buildkit=worker.get("version") or "unknown",
        boot=hidden("boot", told[_BOOT], salt),
        architecture=told[_ARCHITECTURE] or "unknown",
        cpu=cpu_of(told["cpuinfo"]),
        cores=told["cpuinfo"].count("processor\t"),
        memory_bytes=memory_of(told["meminfo"]),
        kernel=told[_KERNEL] or "unknown",
        steps=steps,
    )
