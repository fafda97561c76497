# SPDX-License-Identifier: Apache-2.0
"""One faulty image for each thing that must hold of every image."""

from __future__ import annotations

from typing import Any

import pytest

from derive.images.modes import ModeTable, Rule
from derive.images.oci import ImageConfig
from derive.verify.judge import judge
from derive.verify.rules.config import GROUPS, USERS, Accounts
from derive.verify.rules.wheels import Resolution
from support.archives import ar
from support.elves import AARCH64, elf, fatbin
from support.verifying import SITE, SOUND, deb, declared, findings, image, verified, wheel

LIB = "usr/lib/x86_64-linux-gnu"
EXTENSION = f"{SITE}/pkg/_c.so"

SERVING = '[serving.devices]\n"linux/amd64" = ["sm_90", "sm_121"]\n'


def test_a_sound_image_has_no_findings() -> None:
    assert findings(image({**SOUND, **wheel("pkg", files=("pkg/__init__.py",)), **deb("d", "usr/bin/env")})) == []


# ELF files and the platform


def test_an_elf_file_for_another_machine_is_found() -> None:
    assert findings(image({**SOUND, EXTENSION: elf(AARCH64)})) == [("platform", f"/{EXTENSION}", "machine 183")]


def test_an_elf_file_that_cannot_be_read_is_found() -> None:
    assert findings(image({**SOUND, EXTENSION: elf()[:30]})) == [("platform", f"/{EXTENSION}", "")]


def test_an_object_for_another_machine_in_a_static_archive_is_found() -> None:
    members = (
        (b"/", b"symbols"),
        (b"a.o/", elf()),
        (b"b.o/", elf(AARCH64)),
        (b"c.o/", elf(AARCH64)),
        (b"d.bc/", b"BC"),
    )
    files = {**SOUND, "opt/libx.a": ar(*members), "opt/liby.a": ar(*members[:2]), "opt/libz.a": ar()[:8] + b"cut"}
    assert findings(image(files)) == [("platform", "/opt/libx.a", "machine 183"), ("platform", "/opt/libz.a", "")]


# libraries


def test_a_library_that_is_nowhere_is_found() -> None:
    files = {**SOUND, EXTENSION: elf(needed=("libx.so.1",))}
    assert findings(image(files)) == [("library", f"/{EXTENSION}", "libx.so.1")]


@pytest.mark.parametrize(
    ("more", "at"),
    [
        ({"runpath": "$ORIGIN/../pkg.libs"}, f"{SITE}/pkg.libs/libx.so.1"),
        ({"rpath": "${ORIGIN}/lib"}, f"{SITE}/pkg/lib/libx.so.1"),
        ({"runpath": "/opt/x/lib"}, "opt/x/lib/libx.so.1"),
        ({}, f"{LIB}/libx.so.1"),
        ({}, "usr/lib/libx.so.1"),
    ],
)
def test_a_library_is_found_where_the_loader_looks(more: dict[str, str], at: str) -> None:
    links = {"lib": "usr/lib"}
    files = {**SOUND, EXTENSION: elf(needed=("libx.so.1",), **more), at: elf(soname="libx.so.1")}  # type: ignore[arg-type]
    assert findings(image(files, links)) == []


def test_a_library_is_found_through_links_and_by_the_image_s_variable() -> None:
    files = {**SOUND, EXTENSION: elf(needed=("libx.so.1",)), "opt/x/libx.so.1.2": elf(soname="libx.so.1")}
    links = {"opt/x/libx.so.1": "libx.so.1.2", "opt/lib": "x"}
    tree = image(files, links, environment={"LD_LIBRARY_PATH": "/opt/lib"})
    assert findings(tree) == []


def test_a_library_for_another_machine_is_passed_over_as_the_loader_does() -> None:
    files = {**SOUND, EXTENSION: elf(needed=("libx.so.1",)), f"{LIB}/libx.so.1": elf(AARCH64)}
    assert ("library", f"/{EXTENSION}", "libx.so.1") in findings(image(files))


def test_a_folder_of_ld_so_conf_counts_only_where_there_is_a_cache_of_it() -> None:
    files = {**SOUND, EXTENSION: elf(needed=("libx.so.1",)), "usr/local/lib/libx.so.1": elf()}
    assert len(findings(image(files))) == 1
    assert findings(image({**files, "etc/ld.so.cache": b"a cache"})) == []


def test_what_the_driver_mounts_need_not_be_in_the_image() -> None:
    assert findings(image({**SOUND, EXTENSION: elf(needed=("libcuda.so.1", "libnvidia-ml.so.1"))})) == []


def test_a_library_that_was_loaded_before_counts_for_whom_it_is_declared_and_where_it_is_there() -> None:
    text = '[[loaded]]\nby = "t"\nlibraries = ["libt*.so"]\nfor = ["pkg"]\nreason = "imported first"\n'
    files = {
        **SOUND,
        **wheel("pkg", files=("pkg/_c.so",)),
        EXTENSION: elf(needed=("libt_cpu.so", "libt_gone.so")),
        f"{SITE}/other/_c.so": elf(needed=("libt_cpu.so",), runpath="/opt"),
        f"{SITE}/t/lib/libt_cpu.so": elf(soname="libt_cpu.so"),
    }
    assert findings(image(files), text) == [
        ("library", f"/{SITE}/other/_c.so", "libt_cpu.so"),
        ("library", f"/{EXTENSION}", "libt_gone.so"),
    ]


def test_a_program_whose_loader_is_absent_is_found() -> None:
    files = {**SOUND, "usr/bin/p": elf(interpreter="/lib64/ld-linux-x86-64.so.2")}
    assert findings(image(files)) == [("library", "/usr/bin/p", "/lib64/ld-linux-x86-64.so.2")]


# symbol versions


def test_a_symbol_version_that_the_library_does_not_define_is_found() -> None:
    files = {**SOUND, EXTENSION: elf(needed=("libc.so.6",), needs={"libc.so.6": ("GLIBC_2.17", "GLIBC_2.42")})}
    (found,) = verified(image(files)).findings
    assert (found.rule.value, found.about, found.expected) == ("symbol-version", "libc.so.6", "GLIBC_2.42")
    assert found.got == "3 versions, the last GLIBC_2.34"


# GPU code and driver


def test_a_file_without_code_for_a_gpu_of_the_machines_is_found() -> None:
    files = {**SOUND, **wheel("pkg", files=("pkg/_c.so",)), EXTENSION: elf(gpu=fatbin("sm_80", "sm_120f"))}
    assert findings(image(files), SERVING) == [("gpu", f"/{EXTENSION}", "sm_90")]


def test_ptx_that_the_machines_driver_is_too_old_for_is_no_code() -> None:
    files = {**SOUND, **wheel("pkg", files=("pkg/_c.so",)), EXTENSION: elf(gpu=fatbin("compute_90/9.3"))}
    assert findings(image(files), SERVING) == []
    assert findings(image(files), '[driver]\nversion = "580.95.05"\n' + SERVING) == [
        ("gpu", f"/{EXTENSION}", "sm_121"),
        ("gpu", f"/{EXTENSION}", "sm_90"),
    ]


def test_where_each_gpu_has_files_of_its_own_every_file_is_for_one_and_every_gpu_has_one() -> None:
    text = '[serving]\nseparate = ["pkg"]\n' + SERVING
    names = ("pkg/a.so", "pkg/b.so")
    files = {**SOUND, **wheel("pkg", files=names), f"{SITE}/pkg/a.so": elf(gpu=fatbin("sm_121a"))}
    files[f"{SITE}/pkg/b.so"] = elf(gpu=fatbin("sm_90a"))
    assert findings(image(files), text) == []
    files[f"{SITE}/pkg/b.so"] = elf(gpu=fatbin("sm_80"))
    assert findings(image(files), text) == [
        ("gpu", "", "sm_90"),
        ("gpu", f"/{SITE}/pkg/b.so", "sm_121"),
        ("gpu", f"/{SITE}/pkg/b.so", "sm_90"),
    ]


def test_gpu_code_is_judged_whoever_has_it_and_excepted_by_name_for_each_gpu() -> None:
    files = {**SOUND, **wheel("aside", files=("aside/_c.so",)), f"{SITE}/aside/_c.so": elf(gpu=fatbin("sm_80"))}
    files["opt/nobody.so"] = elf(gpu=fatbin("sm_90"))
    aside, nobody = f"/{SITE}/aside/_c.so", "/opt/nobody.so"
    found = [("gpu", nobody, "sm_121"), ("gpu", aside, "sm_121"), ("gpu", aside, "sm_90")]
    assert findings(image(files), SERVING) == found
    known = '[[exceptions]]\nrule = "gpu"\nowner = "aside"\nabout = "sm_121"\nreason = "not run there"\n'
    report = verified(image(files), SERVING + known)
    assert [(one.path, one.about) for one in report.findings] == [(nobody, "sm_121"), (aside, "sm_90")]
    assert [row.usable for row in report.gpu if row.owner.name == "aside"] == [{"sm_90": 0, "sm_121": 0}]


def test_gpu_code_without_a_gpu_to_judge_it_by_is_found() -> None:
    files = {**SOUND, EXTENSION: elf(gpu=fatbin("sm_121"))}
    assert findings(image(files)) == [("gpu", f"/{EXTENSION}", "devices")]
    assert findings(image(files), SERVING.replace("amd64", "arm64")) == [("gpu", f"/{EXTENSION}", "devices")]


def test_the_oldest_driver_follows_from_the_cuda_that_files_are_linked_to() -> None:
    files = {
        **SOUND,
        EXTENSION: elf(needed=("libcudart.so.13",)),
        f"{LIB}/libcudart.so.13": elf(soname="libcudart.so.13"),
    }
    report = verified(image(files), '[driver]\nversion = "575.51.03"\n')
    assert report.driver.oldest == "580.65.06"
    assert [one.rule.value for one in report.findings] == ["driver"]


# wheels


def requirement(text: str) -> dict[str, bytes]:
    return wheel("pkg", more=f"License: MIT\nRequires-Dist: {text}\n")


@pytest.mark.parametrize(
    ("text", "is_met"),
    [
        ("other>=1", True),
        ("other>=2", False),
        ("absent", False),
        ('absent; platform_machine == "aarch64"', True),
        ('absent; python_version < "3.13"', True),
        ('absent; extra == "all"', True),
        ("not a requirement !", False),
    ],
)
def test_every_requirement_holds_for_the_platform(text: str, is_met: bool) -> None:
    found = findings(image({**SOUND, **requirement(text), **wheel("other", "1.5")}))
    assert [rule for rule, _, _ in found] == ([] if is_met else ["requirement"])


def test_an_extra_counts_where_something_asks_for_it() -> None:
    files = {
        **SOUND,
        **wheel("pkg", more="License: MIT\nRequires-Dist: other[all]\n"),
        **wheel("other", more='License: MIT\nRequires-Dist: absent; extra == "all"\n'),
    }
    assert [about for _, _, about in findings(image(files))] == ["absent"]


def test_an_override_and_what_is_left_out_are_no_findings() -> None:
    files = {**SOUND, **wheel("pkg", more="License: MIT\nRequires-Dist: other==1\nRequires-Dist: gone\n")}
    files |= wheel("other", "2.0")
    tree = image(files)
    assert len(findings(tree)) == 2
    resolution = Resolution(overrides={"other": ("2.0", "newer")}, without={"gone": "not needed"})
    assert findings(tree, resolution=resolution) == []


def test_a_wheel_for_another_python_is_found() -> None:
    files = {**SOUND, **wheel("pkg", more="License: MIT\nRequires-Python: <3.13\n")}
    assert [about for _, _, about in findings(image(files))] == ["python"]


def test_a_copy_inside_another_wheel_is_no_wheel_of_the_image() -> None:
    inner = {
        f"{SITE}/pkg/_vendor/{path.removeprefix(SITE + '/')}": data for path, data in requirement("absent").items()
    }
    assert findings(image({**SOUND, **inner})) == []


# owners, scripts, links, privileges


def test_a_path_that_two_packages_claim_is_found() -> None:
    files = {**SOUND, **wheel("one", files=("x/a.py",)), **wheel("two", files=("x/a.py",))}
    assert findings(image(files)) == [("two-owners", f"/{SITE}/x/a.py", "wheel two")]


def test_a_file_that_a_record_lists_and_the_image_does_not_have_is_found() -> None:
    files = {**SOUND, **wheel("pkg", files=("pkg/a.py", "pkg/b.py"))}
    del files[f"{SITE}/pkg/b.py"]
    assert findings(image(files)) == [("record", f"/{SITE}/pkg/b.py", "")]


def test_a_folder_that_two_packages_have_is_nobody_s() -> None:
    assert findings(image({**SOUND, **deb("d", "usr/bin", "usr/bin/env"), **wheel("one", files=("x/a.py",))})) == []


@pytest.mark.parametrize(
    ("line", "is_there"),
    [
        (b"#!/usr/bin/python3.13", True),
        (b"#! /usr/bin/python3 -I", True),
        (b"#!/usr/bin/env python3", True),
        (b"#!/usr/bin/env -S python3 -I", True),
        (b"#!/usr/bin/python3.13\t-I ", True),
        (b"#!/usr/bin/python3.13\r", False),
        (b"#!/usr/bin/env python3\r", False),
        (b"#!/usr/bin/perl -w", False),
        (b"#!/usr/bin/env ruby", False),
        (b"#!", False),
    ],
)
def test_an_interpreter_is_there_through_links_and_the_path(line: bytes, is_there: bool) -> None:
    tree = image({**SOUND, "usr/bin/s": line + b"\n"}, {"usr/bin/python3": "python3.13"})
    assert [rule for rule, _, _ in findings(tree)] == ([] if is_there else ["interpreter"])


def test_the_first_line_of_a_file_that_is_no_program_is_of_no_concern() -> None:
    assert findings(image({**SOUND, "usr/lib/s": b"#!/usr/bin/perl\n"}, plain=("usr/lib/s",))) == []


def test_links_lead_somewhere() -> None:
    links = {"a": "usr/bin/env", "b": "gone", "c": "c", "d": "/proc/mounts", "e/f": "../usr", "g": "e/f/bin/env"}
    assert findings(image(SOUND, links)) == [("link", "/b", "gone"), ("link", "/c", "c")]


def test_a_set_id_bit_of_the_mode_table_is_found() -> None:
    modes = ModeTable((Rule(path=b"usr/bin/env", mode=0o4755),))
    assert findings(image(SOUND), modes=modes) == [("privilege", "/usr/bin/env", "")]


# the config


def configured(**said: Any) -> list[tuple[str, str]]:
    """Return (about, what) of what is found of a config."""
    accounts = Accounts.read({USERS: b"root:x:0:0::/root:/bin/sh\n# old:\n", GROUPS: b"staff:x:50:\n"})
    files = {**SOUND, "opt/run": b"\x7f", "opt/notes": b""}
    links = {"bin": "usr/bin", "opt/python": "../bin/python3.13", "work": "opt"}
    tree = image(files, links, plain=("opt/notes",), config=ImageConfig(**said))
    found = judge(tree, declared(), Resolution(), ModeTable(), file="f", accounts=accounts).findings
    assert all((one.rule.value, str(one.owner)) == ("config", "file images/x.toml") for one in found)
    return [(one.about, one.what) for one in found]


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"entrypoint": ("/opt/python",), "command": ("gone",)},
        {"command": ("env",)},
        {"entrypoint": ("python3.13",), "environment": {"PATH": "/opt:/bin"}},
        {"entrypoint": ("./run",), "working_folder": "/work"},
        {"user": "0:0"},
        {"user": "65534"},
        {"user": "root:staff"},
        {"working_folder": "/"},
        {"working_folder": "/run/x"},
    ],
)
def test_what_a_config_names_is_there_through_links_and_the_path(said: dict[str, Any]) -> None:
    assert configured(**said) == []


@pytest.mark.parametrize(
    ("said", "about", "what"),
    [
        ({"entrypoint": ("/opt/gone",)}, "/opt/gone", "the program of entrypoint is not in the image"),
        ({"command": ("/opt/notes",)}, "/opt/notes", "the program of command is no executable file"),
        ({"command": ("/opt",)}, "/opt", "the program of command is no executable file"),
        ({"entrypoint": ("run",)}, "run", "the program of entrypoint is in no folder of PATH"),
        (
            {"entrypoint": ("./run",), "working_folder": "/bin"},
            "./run",
            "the program of entrypoint is not in the image",
        ),
        ({"user": "old"}, "old", "the user old is not in the image's /etc/passwd"),
        ({"user": "0:wheel"}, "wheel", "the group wheel is not in the image's /etc/group"),
        ({"working_folder": "/gone"}, "/gone", "the working folder /gone is not in the image"),
        ({"working_folder": "/opt/run"}, "/opt/run", "the working folder /opt/run is not in the image"),
        ({"environment": {"PATH": "/bin:/gone"}}, "/gone", "PATH has /gone, which is no folder of the image"),
        ({"environment": {"PATH": "/bin:bin"}}, "bin", "PATH has a folder that is not absolute"),
    ],
)
def test_what_a_config_names_and_the_image_does_not_have_is_found(said: dict[str, Any], about: str, what: str) -> None:
    ((found, text),) = configured(**said)
    assert found == about
    assert text.startswith(what)


# licences


def test_a_package_that_states_no_licence_is_found_and_an_exception_says_which_it_is() -> None:
    tree = image({**SOUND, **wheel("pkg", more=""), **deb("d", "usr/bin/env", licence=None)})
    assert [rule for rule, _, _ in findings(tree)] == ["licence", "licence"]
    text = "".join(
        f'[[exceptions]]\nrule = "licence"\nowner = "{name}"\nlicence = "MIT"\nreason = "its file"\n'
        for name in ("pkg", "d")
    )
    report = verified(tree, text)
    assert report.findings == ()
    assert {owner.name: licence for owner, licence in report.licences.items()} == {"pkg": "MIT", "d": "MIT"}
