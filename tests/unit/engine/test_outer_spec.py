# SPDX-License-Identifier: Apache-2.0
"""The outer sandbox as a value: what an engine is given, and what it is not."""

from __future__ import annotations

from dataclasses import replace

from derive.engine.outer_spec import OuterRequest, engine_spec, python_of
from derive.sandbox.request import RootFolder, RootLink
from derive.sandbox.spec import Bind, Dev, DeviceBind, ReadOnlyBind, SandboxSpec, Seal, bwrap_arguments
from support.golden import check_golden

REQUEST = OuterRequest(
    root=b"/engine",
    root_entries=(
        RootLink(name=b"bin", target=b"usr/bin"),
        *(RootFolder(name=name, empty=False) for name in (b"etc", b"proc", b"tmp", b"usr")),
    ),
    python="/usr/bin/python3.13",
    project=b"/somewhere/project",
    store=b"/somewhere/store",
    out=b"/somewhere/out",
    archive=b"/somewhere/capsule",
)


def sources(spec: SandboxSpec) -> list[bytes]:
    return [mount.source for mount in spec.mounts if isinstance(mount, Bind | ReadOnlyBind)]


def test_the_outer_sandbox_as_bubblewrap_is_told_it() -> None:
    spec = engine_spec(REQUEST, ("image", "probe"))
    words = [word.decode() for word in (*bwrap_arguments(spec), b"--", *map(str.encode, spec.argv))]
    check_golden(
        "sandbox/outer.txt", "".join(f" {w}" if not w.startswith("--") else f"\n{w}" for w in words)[1:] + "\n"
    )


def test_of_the_host_there_is_what_was_given_and_proc() -> None:
    places = {b"/engine/etc", b"/engine/usr", b"/proc", REQUEST.project, REQUEST.store, REQUEST.out, REQUEST.archive}
    assert set(sources(engine_spec(REQUEST, ()))) == places


def test_store_and_out_alone_can_be_written() -> None:
    spec = engine_spec(REQUEST, ())
    writable = {mount.source for mount in spec.mounts if isinstance(mount, Bind)}
    assert writable == {b"/proc", REQUEST.store, REQUEST.out}
    assert spec.mounts[-1] == Seal(b"/")


def test_without_a_network_there_is_none_and_with_it_names_are_found() -> None:
    assert "net" in engine_spec(REQUEST, ()).namespaces
    open_spec = engine_spec(replace(REQUEST, network=True), ())
    assert "net" not in open_spec.namespaces
    assert b"/etc/resolv.conf" in sources(open_spec)
    assert b"/etc/resolv.conf" not in sources(engine_spec(REQUEST, ()))


def test_private_device_nodes_lie_over_the_host_s() -> None:
    mounts = engine_spec(replace(REQUEST, devices=b"/own"), ()).mounts
    assert mounts.index(DeviceBind(b"/own/null", b"/dev/null")) > mounts.index(Dev(b"/dev"))
    assert not any(isinstance(mount, DeviceBind) for mount in engine_spec(REQUEST, ()).mounts)


def test_certificates_that_are_given_are_those_that_are_trusted() -> None:
    spec = engine_spec(replace(REQUEST, network=True, certificates=b"/etc/own.crt"), ())
    assert ReadOnlyBind(b"/etc/own.crt", b"/work/certificates.crt") in spec.mounts
    environment = dict(spec.environment)
    assert {environment[name] for name in ("GIT_SSL_CAINFO", "REQUESTS_CA_BUNDLE")} == {"/work/certificates.crt"}


def test_the_variables_that_are_fixed_cannot_be_given_otherwise() -> None:
    spec = engine_spec(replace(REQUEST, environment={"HOME": "/root", "DERIVE_MIRROR_GIT": "x"}), ())
    environment = dict(spec.environment)
    assert environment["HOME"] == "/work/home"
    assert environment["DERIVE_MIRROR_GIT"] == "x"
    assert environment["DERIVE_ARCHIVES"] == "/work/capsule"


def test_an_archive_of_one_file_keeps_the_name_of_one() -> None:
    spec = engine_spec(replace(REQUEST, archive_is_file=True), ())
    assert dict(spec.environment)["DERIVE_ARCHIVES"] == "/work/capsule.tar"


def test_the_python_is_the_highest_of_the_root_whatever_the_engine_s_time() -> None:
    assert (
        python_of(["python3.9", "python3", "python3.13", "python3.14-config", "python2.7", "pydoc3.15"]) == "python3.13"
    )
    assert python_of(["python3.14", "python3.13"]) == "python3.14"
    assert python_of(["python3", "dash"]) is None
    assert engine_spec(replace(REQUEST, python="/usr/bin/python3.14"), ()).argv[0] == "/usr/bin/python3.14"


def test_builds_may_still_make_no_sandboxes_of_their_own() -> None:
    assert b"--disable-userns" not in bwrap_arguments(engine_spec(REQUEST, ()))
    assert b"--disable-userns" in bwrap_arguments(SandboxSpec(mounts=(), environment=(), argv=("/x",)))
