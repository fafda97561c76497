# SPDX-License-Identifier: Apache-2.0
"""Whether a machine is the one that the recipe's ``[host]`` asks for, and whether all machines are alike.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from derive.deploy.machine_values import MEMORY_SAVER, PACKING, Machine
from derive.deploy.preflight_finding import Finding, OneNode
from derive.errors import expected_got
from derive.recipes.resolved import HostPolicy
from derive.words import binary_size

_PYTHON = (3, 8)
_SYSTEMD = 249
_SKEW_NS = 2_000_000_000
_ARCHITECTURES = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}


def host_findings(given: OneNode) -> Iterator[Finding]:
    """Yield in what a machine is not what the recipe asks for, or what a deploy needs of every machine."""
    policy, machine = given.target.bundle.resolved.host, given.machine
    for key, expected, got in _wanted(policy, machine):
        if expected is not None and expected != got:
            fix = _FIXES.get(key, f"the recipe's host.{key} says so")
            said = expected_got(expected, "not known" if got is None else got)
            yield given.error(f"host.{key}", f"{_NAMES[key]} is another than the recipe asks for", said, fix)
    yield from _swap(given, policy)
    yield from _saver(given, policy)
    yield from _means(given)
    yield from _memory(given)


_NAMES = {
    "kernel": "the kernel",
    "page-size": "the page size",
    "driver": "NVIDIA's driver",
    "transparent-huge-pages": "the setting of transparent huge pages",
    "min-free-kbytes": "vm.min_free_kbytes",
    "platform": "the machine's kind",
}
_FIXES = {
    "kernel": "boot that kernel: docs/setup.md",
    "page-size": "boot the kernel with these pages: docs/setup.md",
    "driver": "install that driver, and boot: docs/setup.md",
    "transparent-huge-pages": "write it to /sys/kernel/mm/transparent_hugepage/enabled, and for good: docs/setup.md",
    "min-free-kbytes": "set it with sysctl, and for good: docs/setup.md",
    "platform": "deploy to the machines that the image is for",
}


def _wanted(policy: HostPolicy, machine: Machine) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield what is asked for as text, and what is there; None: it may be anything, or nobody knows."""
    yield "kernel", policy.kernel, machine.kernel
    yield (
        "page-size",
        None if policy.page_size is None else binary_size(policy.page_size),
        binary_size(machine.page_size),
    )
    yield "driver", policy.driver, machine.driver
    yield "transparent-huge-pages", policy.transparent_huge_pages, machine.transparent_huge_pages
    least = policy.min_free_kbytes
    yield "min-free-kbytes", _text(least), _text(machine.min_free_kbytes)


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)


def _swap(given: OneNode, policy: HostPolicy) -> Iterator[Finding]:
    swap, wanted = given.machine.swap, policy.swap_bytes
    fix = "make it, and for good: docs/setup.md"
    if wanted is not None:
        got = None if swap is None else sum(swap.values())
        # The first page of a swap file holds its header, and does not count.
        if got is None or not wanted - (1 << 20) <= got <= wanted:
            said = expected_got(binary_size(wanted), "not known" if got is None else binary_size(got))
            yield given.error("host.swap", "there is another amount of swap than the recipe asks for", said, fix)
    if policy.swap_file is not None and (swap is None or policy.swap_file not in swap):
        said = expected_got(policy.swap_file, "not known" if swap is None else ", ".join(swap) or "none")
        yield given.error("host.swap-file", "swap is not where the recipe asks for it", said, fix)


def _saver(given: OneNode, policy: HostPolicy) -> Iterator[Finding]:
    """Yield what is wrong with the memory saver: whether it is loaded, which one, and whether it does anything.

    The version is its package's, of which the kernel does not know: what is loaded is told by the srcversion.
    """
    module = given.machine.modules.get(MEMORY_SAVER)
    packs = None if module is None else module.parameters.get(PACKING)
    if policy.memory_saver is False and packs is not None:
        fix = "remove it, and boot: docs/setup.md"
        yield given.error("host.memory-saver", f"the memory saver is loaded, as {MEMORY_SAVER}", fix=fix)
    if policy.memory_saver is True and module is None:
        fix = f"load it: sudo modprobe {MEMORY_SAVER}; docs/setup.md"
        yield given.error("host.memory-saver", f"{MEMORY_SAVER} is not loaded, which the memory saver is", fix=fix)
    if policy.memory_saver is True and module is not None:
        if packs not in ("Y", "1"):
            got = "no such parameter: it is not the memory saver's" if packs is None else packs
            said = expected_got(f"{PACKING} Y", got)
            fix = "install the memory saver for this kernel, and boot: docs/setup.md"
            yield given.error("host.memory-saver", f"{MEMORY_SAVER} does not save memory", said, fix)
        wanted = policy.memory_saver_srcversion
        if wanted is not None and wanted != module.srcversion:
            said = expected_got(wanted, module.srcversion or "not known")
            fix = f"install version {policy.memory_saver_version or 'that is meant'}, and boot: docs/setup.md"
            message = f"{MEMORY_SAVER} is another than the recipe asks for"
            yield given.error("host.memory-saver-srcversion", message, said, fix)
        if wanted is None and policy.memory_saver_version is not None:
            message = f"whether the memory saver is version {policy.memory_saver_version} cannot be told"
            fix = "name its host.memory-saver-srcversion in the recipe"
            yield given.warn("host.memory-saver-version", message, fix=fix)
    unit = policy.memory_unit
    if unit is not None and given.machine.units.get(unit) != "active":
        said = expected_got("active", given.machine.units.get(unit) or "not there")
        yield given.error("host.memory-unit", f"{unit} is not active", said, f"sudo systemctl enable --now {unit}")


def _means(given: OneNode) -> Iterator[Finding]:
    """Yield what a deploy itself lacks on the machine."""
    machine = given.machine
    wanted = _ARCHITECTURES.get(given.target.bundle.resolved.platform)
    if wanted is not None and machine.architecture != wanted:
        message = "the image is for machines of another kind"
        yield given.error("host.platform", message, expected_got(wanted, machine.architecture), _FIXES["platform"])
    if machine.python < _PYTHON:
        said = expected_got("3.8 or newer", ".".join(map(str, machine.python)) or "none")
        yield given.error("host.python", "Python is too old", said, "install a newer python3")
    if machine.systemd is not None and machine.systemd < _SYSTEMD:
        said = expected_got(f"{_SYSTEMD} or newer", machine.systemd)
        yield given.error("host.systemd", "systemd is too old for the units", said, "install a newer system")
    if not machine.sudo:
        fix = f"let {machine.user or 'the user'} do so: sudo visudo -f /etc/sudoers.d/derive; docs/setup.md"
        yield given.error("host.sudo", "sudo asks for a password, or is not allowed: units and guards need it", fix=fix)
    if abs(machine.skew_ns) > _SKEW_NS:
        seconds = machine.skew_ns / 1e9
        told = f"{abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} this machine's"
        yield given.warn(
            "host.clock", f"its clock is {told}", fix="let it follow a time server: timedatectl set-ntp true"
        )


def _memory(given: OneNode) -> Iterator[Finding]:
    """Yield where a guard would kill whatever it saw: its floor is never available, or not now."""
    total, available = given.machine.memory_total, given.machine.memory_available
    floors = {one.phase: one.floor_bytes for one in given.launch.guard}
    if not floors:
        return
    highest = max(floors.values())
    if total is None or available is None:
        yield given.error("host.memory", "how much memory there is cannot be read", fix="see what /proc/meminfo says")
    elif highest >= total:
        said = expected_got(f"more than {binary_size(highest)}", f"{total >> 20}MiB")
        yield given.error("host.memory", "the guard's floor is more than the machine has", said, "deploy another shape")
    elif given.containers is not None and not given.ending() and available < floors.get("startup", highest):
        said = expected_got(f"{binary_size(floors.get('startup', highest))} or more", f"{available >> 20}MiB")
        fix = "end what takes it: ps -eo rss,args --sort -rss"
        yield given.error(
            "host.available", "less memory is available than the guard's floor: nothing could start", said, fix
        )


def _srcversions(one: Machine) -> str | None:
    found = [f"{name} {module.srcversion}" for name, module in sorted(one.modules.items()) if name.startswith("nvidia")]
    return ", ".join(found) or None


_ALIKE: Mapping[str, tuple[str, Callable[[Machine], str | None]]] = {
    "kernel": ("kernel", lambda one: one.kernel),
    "page-size": ("page size", lambda one: binary_size(one.page_size)),
    "driver": ("NVIDIA driver", lambda one: one.driver),
    "srcversions": ("loaded NVIDIA modules", _srcversions),
    "transparent-huge-pages": ("transparent huge pages", lambda one: one.transparent_huge_pages),
    "min-free-kbytes": ("vm.min_free_kbytes", lambda one: _text(one.min_free_kbytes)),
    "platform": ("kind of machine", lambda one: one.architecture),
}


def unlike_findings(machines: Mapping[str, Machine], asked: HostPolicy) -> Iterator[Finding]:
    """Yield in what the machines of a site differ from each other; what the recipe asks of each is told of each."""
    said = {key for key, value in asked.by_key().items() if value is not None}
    for key, (name, read) in _ALIKE.items():
        by_value: dict[str, list[str]] = {}
        for node, one in machines.items():
            by_value.setdefault(read(one) or "none", []).append(node)
        if len(by_value) > 1 and key not in said:
            width = max(map(len, by_value))
            detail = tuple(f"{value.ljust(width)}  {', '.join(nodes)}" for value, nodes in by_value.items())
            message, fix = f"the nodes differ in their {name}", "make them alike: docs/setup.md"
            yield Finding(node="", id=f"alike.{key}", severity="error", message=message, detail=detail, fix=fix)
