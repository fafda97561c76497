# SPDX-License-Identifier: Apache-2.0
"""A request becomes a specification, and a specification becomes bubblewrap's arguments: both are reviewed as text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from derive.canonical import encode, escape
from derive.errors import InputErrors
from derive.sandbox.request import FIXED_ENVIRONMENT, Program, RootFile, RootFolder, RootLink, SandboxRequest, Script
from derive.sandbox.spec import (
    DEVICES,
    Bind,
    DeviceBind,
    MakeFile,
    ReadOnlyBind,
    SandboxSpec,
    Seal,
    bwrap_arguments,
    sandbox_settings,
    sandbox_spec,
)
from support.golden import check_golden

REQUEST = SandboxRequest(
    root=b"/store/trees/caf\xe9 root",
    root_entries=(
        RootFolder(name=b"usr", empty=False),
        RootLink(name=b"bin", target=b"usr/bin"),
        RootFolder(name=b"dev", empty=True),
        RootFolder(name=b"home", empty=True),
        RootFile(name=b"notes"),
        RootFolder(name=b"proc", empty=True),
        RootFolder(name=b"tmp", empty=True),
    ),
    inputs={"src": b"/store/trees/src", "a.tar": b"/store/blobs/a b"},
    work=b"/store/tmp/1/work",
    out=b"/store/tmp/1/out",
    command=Script(text="make\nmake install DESTDIR=$DERIVE_OUT\n"),
    environment={"CC": "gcc", "NOTE": "two\nlines, é"},
    jobs=4,
)


def printed(spec: SandboxSpec) -> str:
    """Each option on its line with its values, as a person reviews them."""
    descriptors = range(10, 10 + len(spec.files))
    lines: list[str] = []
    for word in map(escape, bwrap_arguments(spec, descriptors)):
        if word.startswith("--"):
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    lines += [f"{number}: {escape(file.contents)}" for number, file in zip(descriptors, spec.files, strict=True)]
    return "\n".join([*lines, f"stdin {escape(spec.standard_input)}", f"argv {' '.join(spec.argv)}", ""])


def test_golden_arguments_of_a_script() -> None:
    check_golden("sandbox/script.txt", printed(sandbox_spec(REQUEST)))


def test_golden_arguments_of_a_program_with_private_devices() -> None:
    request = replace(
        REQUEST, command=Program(argv=("/usr/bin/python3", "-I", "x")), devices=b"/store/tmp/1/dev", inputs={}
    )
    check_golden("sandbox/program.txt", printed(sandbox_spec(request)))


def test_golden_settings_that_stand_in_every_identity() -> None:
    check_golden("sandbox/settings.json", encode(sandbox_settings()).decode() + "\n")


def test_the_number_of_jobs_is_a_variable_and_no_setting() -> None:
    assert dict(sandbox_spec(REQUEST).environment)["DERIVE_JOBS"] == "4"
    assert "JOBS" not in encode(sandbox_settings()).decode()


def test_order_of_entries_inputs_and_variables_changes_nothing() -> None:
    other = replace(
        REQUEST,
        root_entries=REQUEST.root_entries[::-1],
        inputs=dict(sorted(REQUEST.inputs.items(), reverse=True)),
        environment=dict(sorted(REQUEST.environment.items(), reverse=True)),
    )
    assert sandbox_spec(other) == sandbox_spec(REQUEST)


def test_only_work_and_out_are_writable_places_of_the_host() -> None:
    binds = [mount for mount in sandbox_spec(REQUEST).mounts if isinstance(mount, Bind)]
    assert binds == [Bind(b"/store/tmp/1/work", b"/build"), Bind(b"/store/tmp/1/out", b"/out")]


def test_no_device_of_the_host_without_being_asked_for() -> None:
    assert not [mount for mount in sandbox_spec(REQUEST).mounts if isinstance(mount, DeviceBind)]
    mounts = sandbox_spec(replace(REQUEST, devices=b"/d")).mounts
    assert [mount.source for mount in mounts if isinstance(mount, DeviceBind)] == [b"/d/" + name for name in DEVICES]


def test_everything_is_sealed_after_the_last_mount_point_is_made() -> None:
    mounts = sandbox_spec(REQUEST).mounts
    assert mounts[-1] == Seal(b"/")
    assert Seal(b"/proc") in mounts
    assert Seal(b"/dev") in mounts


def test_reserved_folders_of_the_root_are_not_mounted() -> None:
    targets = [mount.target for mount in sandbox_spec(REQUEST).mounts if isinstance(mount, ReadOnlyBind)]
    assert targets == [b"/home", b"/notes", b"/usr", b"/in/a.tar", b"/in/src"]


def test_a_script_lies_in_a_file_with_exactly_its_text() -> None:
    spec = sandbox_spec(replace(REQUEST, command=Script(text="echo é\r\n")))
    assert spec.files == (MakeFile(b"echo \xc3\xa9\r\n", b"/in/.derive-script"),)
    assert spec.argv == ("/bin/sh", "-eu", "/in/.derive-script")


def test_everything_wrong_is_said_at_once() -> None:
    request = replace(
        REQUEST,
        root_entries=(RootFile(name=b"in"),),
        inputs={"..": b"/x"},
        environment={"HOME": "/"},
        command=Program(argv=("sh",)),
        jobs=0,
    )
    with pytest.raises(InputErrors) as caught:
        sandbox_spec(request)
    assert [problem.where for problem in caught.value.problems()] == [
        "command",
        "environment.HOME",
        "inputs...",
        "jobs",
        "root: /in",
    ]


def test_every_file_needs_its_descriptor() -> None:
    with pytest.raises(ValueError, match="1 files need as many descriptors, got 0"):
        bwrap_arguments(sandbox_spec(REQUEST))


def test_the_documented_environment_is_the_one_that_is_set() -> None:
    page = (Path(__file__).parents[3] / "docs/sandbox.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    for name, value in FIXED_ENVIRONMENT.items():
        assert any(f"`{name}`" in row and f"`{value}`" in row for row in rows), name
    for path in ("/build", "/out", "/tmp", "/proc", "/dev", "/in/.derive-script"):
        assert any(f"`{path}`" in row for row in rows), path
