# SPDX-License-Identifier: Apache-2.0
"""GPU code: all that is in the image is for the machines' GPUs, and their driver is new enough for it.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from derive.canonical import Json
from derive.verify.architectures import GpuCode, usable
from derive.verify.drivers import compiling_driver, cuda_of, newest_ptx, oldest_driver, parse_driver
from derive.verify.facts import GpuFacts
from derive.verify.findings import Finding, Owner, Rule
from derive.verify.image import ImageTree

if TYPE_CHECKING:
    from derive.verify.declarations import VerifyDecl

_RUNTIME = "libcudart.so."


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRow:
    """One owner's GPU code: in how many files, how many codes, for what, and how many of them a GPU can use."""

    owner: Owner
    files: int
    codes: tuple[GpuCode, ...]
    count: int
    usable: Mapping[str, int]

    def document(self) -> dict[str, Json]:
        """Return the row as it stands in a record."""
        return {
            "owner": str(self.owner),
            "files": self.files,
            "architectures": [str(code) for code in self.codes],
            "codes": self.count,
            "usable": dict(self.usable),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverNeed:
    """The oldest driver that the image runs on, and the one that its PTX needs where nothing else can be used.

    ``cuda`` are the major releases of CUDA that files are linked to or made with.
    """

    cuda: tuple[int, ...]
    oldest: str | None
    ptx_used: str | None
    ptx_newest: str | None

    def document(self) -> dict[str, Json]:
        """Return it as it stands in a record."""
        return {
            "cuda": list(self.cuda),
            "oldest": self.oldest,
            "for_ptx_that_is_used": self.ptx_used,
            "for_all_ptx": self.ptx_newest,
        }


def gpu_table(image: ImageTree, declared: VerifyDecl) -> tuple[GpuRow, ...]:
    """Return the GPU code of an image by owner."""
    found: dict[Owner, list[GpuFacts]] = {}
    for path, gpu in _files(image):
        found.setdefault(image.owner(path), []).append(gpu)
    newest = _newest_ptx(declared)
    devices = declared.devices(image.platform)
    rows = []
    for owner, files in sorted(found.items(), key=lambda one: str(one[0])):
        units = [unit for gpu in files for unit in gpu.units]
        row = GpuRow(
            owner=owner,
            files=len(files),
            codes=tuple(sorted({code for codes, _ in units for code in codes}, key=_order)),
            count=sum(count for _, count in units),
            usable={
                f"sm_{device}": sum(count for codes, count in units if usable(codes, device, newest))
                for device in devices
            },
        )
        rows.append(row)
    return tuple(rows)


def gpu_findings(image: ImageTree, declared: VerifyDecl) -> Iterator[Finding]:
    """Yield files of whose GPU code nothing can be used on a GPU of the machines, whoever's they are."""
    newest, devices = _newest_ptx(declared), declared.devices(image.platform)
    separate = declared.serving.separate if declared.serving is not None else ()
    apart: dict[Owner, set[int]] = {}
    for path, gpu in _files(image):
        owner = image.owner(path)
        if not devices:
            what, hint = "GPU code, and no GPU to judge it by", "say in serving.devices which GPUs the machines have"
            yield image.finding(Rule.GPU, path, what, about="devices", got=_listed(gpu), hint=hint)
        lacking = [one for one in devices if not any(usable(codes, one, newest) for codes, _ in gpu.units)]
        if _is_among(owner, separate):
            apart.setdefault(owner, set()).update(set(devices) - set(lacking))
            lacking = lacking if len(lacking) == len(devices) else []
        for device in lacking:
            yield image.finding(
                Rule.GPU,
                path,
                f"no GPU code that sm_{device} can use",
                about=f"sm_{device}",
                expected=_wanted(device, newest),
                got=_listed(gpu),
                hint=_HINT,
            )
    for owner, found in sorted(apart.items(), key=lambda one: str(one[0])):
        for device in sorted(set(devices) - found):
            what = f"no file with GPU code that sm_{device} can use"
            yield Finding(
                rule=Rule.GPU,
                path="",
                owner=owner,
                what=what,
                about=f"sm_{device}",
                expected=_wanted(device, newest),
                hint=_HINT,
            )


def _listed(gpu: GpuFacts) -> str:
    return ", ".join(map(str, sorted(gpu.codes, key=_order)))


def _is_among(owner: Owner, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(owner.name, pattern) for pattern in patterns)


_HINT = "take a build for that GPU, or say in an exception what is used in its place"


def driver_need(image: ImageTree, declared: VerifyDecl) -> DriverNeed:
    """Compute the oldest driver, from what files are linked to and from the versions of PTX in them."""
    devices, newest = declared.devices(image.platform), _newest_ptx(declared)
    majors = {int(name.removeprefix(_RUNTIME)) for name in _linked(image) if name[len(_RUNTIME) :].isdecimal()}
    everything: set[tuple[int, int]] = set()
    used: set[tuple[int, int]] = set()
    for _, gpu in _files(image):
        everything |= {code.isa for code in gpu.codes if code.isa is not None}
        for codes, _ in gpu.units:
            for device in devices:
                used |= _compiled(codes, device, newest)
    majors |= {cuda_of(ptx)[0] for ptx in used}
    return DriverNeed(
        cuda=tuple(sorted(majors)),
        oldest=oldest_driver(majors),
        ptx_used=compiling_driver(max(used)) if used else None,
        ptx_newest=compiling_driver(max(everything)) if everything else None,
    )


def driver_findings(need: DriverNeed, image: ImageTree, declared: VerifyDecl) -> Iterator[Finding]:
    """Yield the driver that the machines run, where it is older than what the image needs."""
    runs = declared.driver.version
    if runs is None or need.oldest is None or parse_driver(need.oldest) <= parse_driver(runs):
        return
    yield Finding(
        rule=Rule.DRIVER,
        path="",
        owner=Owner(kind="image", name=image.name),
        what="the machines' driver is older than the image needs",
        expected=f"{need.oldest} or newer, for CUDA {need.cuda[-1]}",
        got=runs,
        hint="take builds for an older CUDA, or say in driver.version what the machines run",
    )


def _files(image: ImageTree) -> Iterator[tuple[bytes, GpuFacts]]:
    for path, _, facts in image.located:
        if facts.gpu is not None:
            yield path, facts.gpu


def _linked(image: ImageTree) -> set[str]:
    return {
        name for elf in image.elves.values() for name in (*elf.needed, elf.soname or "") if name.startswith(_RUNTIME)
    }


def _newest_ptx(declared: VerifyDecl) -> tuple[int, int] | None:
    return newest_ptx(parse_driver(declared.driver.version)) if declared.driver.version is not None else None


def _compiled(codes: Iterable[GpuCode], device: int, newest: tuple[int, int] | None) -> set[tuple[int, int]]:
    """Return the versions of PTX that the driver would compile for a GPU: of each code, where no machine code fits."""
    fitting = [code for code in codes if code.runs_on(device, newest)]
    if any(code.isa is None for code in fitting):
        return set()
    return {code.isa for code in fitting if code.isa is not None}


def _wanted(device: int, newest: tuple[int, int] | None) -> str:
    first = device // 10 * 10
    codes = f"sm_{device}, sm_{device}a" if device == first else f"sm_{first} to sm_{device}, sm_{device}a"
    return f"{codes}, or PTX{'' if newest is None else f' up to {newest[0]}.{newest[1]}'} for it or an older GPU"


def _order(code: GpuCode) -> tuple[bool, int, str, str]:
    return code.isa is not None, code.number, code.variant, str(code)
