# SPDX-License-Identifier: Apache-2.0
"""References without hosts."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable

import pytest

from derive.canonical import Digest
from derive.cli.registries import registries_of
from derive.errors import InputErrors
from derive.oci.reference import Reference, parse_platform, parse_reference, parse_repository, parse_target
from support.archives import said

HEX = "ab" * 32


@pytest.mark.parametrize(
    ("text", "repository", "tag", "digest"),
    [
        ("busybox:1.36", "busybox", "1.36", None),
        ("library/busybox:1.36-glibc", "library/busybox", "1.36-glibc", None),
        (f"a/b/c__d/e-f--g.h@sha256:{HEX}", "a/b/c__d/e-f--g.h", None, HEX),
        (f"a/b:_T@sha256:{HEX}", "a/b", "_T", HEX),
        ("nvidia/cuda:13.0.1-devel-ubuntu24.04", "nvidia/cuda", "13.0.1-devel-ubuntu24.04", None),
    ],
)
def test_a_reference_is_read_and_written_alike(text: str, repository: str, tag: str | None, digest: str | None) -> None:
    found = parse_reference(text)
    assert found == Reference(repository=repository, tag=tag, digest=Digest(digest) if digest else None)
    assert str(found) == text
    assert found.named == (f"sha256:{digest}" if digest else tag)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":1",
        "Busybox:1",
        "a//b:1",
        "/a:1",
        "a/:1",
        "a___b:1",
        "a..b:1",
        "a:" + "x" * 129,
        "a:-x",
        "a:1:2",
        "a: 1",
        "a:1\n",
        "a@sha512:" + "0" * 128,
        "a@sha256:" + "0" * 63,
        "a@",
        "x" * 256 + ":1",
        "a/b:1/c",
        "café:1",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InputErrors) as caught:
        parse_reference(text, where="lock/x.toml: image")
    assert said(caught.value).startswith("lock/x.toml: image: not an image reference")


@pytest.mark.parametrize("text", ["reg.test/a/b:1", "reg.test:5000/a/b:1", "localhost/a/b:1", "host:5000/a/b:1"])
def test_a_host_is_refused_with_what_to_write_instead(text: str) -> None:
    with pytest.raises(InputErrors) as caught:
        parse_reference(text)
    assert "a reference names no host" in said(caught.value)
    assert "write a/b:1, and say where images are served with DERIVE_MIRROR_OCI" in said(caught.value)


@pytest.mark.parametrize(
    ("read", "text", "better"),
    [
        (parse_reference, "reg.test/A/b:1", "name/repository:tag, or name/repository@sha256:<64 hex digits>"),
        (parse_reference, "reg.test:5000/", "name/repository:tag, or name/repository@sha256:<64 hex digits>"),
        (parse_reference, "reg.test/a/b", "a/b:<tag>"),
        (parse_target, "reg.test/a/b", "a/b"),
        (parse_target, f"reg.test/a/b@sha256:{HEX}", "a/b"),
        (parse_target, "A/b:1", "name/repository, or name/repository:tag"),
        (parse_repository, "reg.test/a/b:1", "a/b"),
        (parse_repository, "A", "name/repository"),
    ],
)
def test_a_hint_names_what_is_taken(read: Callable[[str], object], text: str, better: str) -> None:
    with pytest.raises(InputErrors) as caught:
        read(text)
    (problem,) = caught.value.problems()
    assert str(problem.hint).partition(", and say where")[0] == f"write {better}"


@pytest.mark.parametrize("text", ["foo", "", "linux/", "linux/arm64/", "Linux/arm64", "linux/arm64 ", "linux/a/b/c"])
def test_what_is_no_platform_is_refused(text: str) -> None:
    with pytest.raises(InputErrors) as caught:
        parse_platform(text)
    assert said(caught.value).startswith(f"--platform: not a platform: {text!r}")


def test_a_platform_is_taken_without_a_variant_that_goes_without_saying() -> None:
    assert [parse_platform(text) for text in ("linux/arm64/v8", "linux/arm/v7")] == ["linux/arm64", "linux/arm/v7"]


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:5000",
        "ftp://a",
        "http://",
        " ",
        "http://a:99999",
        "http://a:0",
        "http://a/?x=1",
        "http://a/#x",
        "http://[1",
    ],
)
def test_a_registry_that_is_no_url_of_one_is_refused(url: str) -> None:
    with pytest.raises(InputErrors) as caught:
        registries_of(Namespace(registry=url))
    assert said(caught.value).startswith("--registry: ")


def test_a_registry_may_have_a_path_and_a_port() -> None:
    found = registries_of(Namespace(registry="http://user:word@a:5000/path http://[::1]:5000"))
    assert [mirror.url for mirror in found] == ["http://user:word@a:5000/path", "http://[::1]:5000"]


def test_a_reference_says_what_is_meant_of_its_repository() -> None:
    with pytest.raises(InputErrors) as caught:
        parse_reference("library/busybox")
    assert "without a tag or a digest" in said(caught.value)
    assert "write library/busybox:<tag>" in said(caught.value)


def test_what_is_pushed_to_needs_no_tag_and_takes_no_digest() -> None:
    assert parse_target("a/b") == Reference(repository="a/b", tag=None, digest=None)
    assert parse_target("a/b:1").tag == "1"
    for text in (f"a/b@sha256:{HEX}", "reg.test/a/b:1", "", "A/b", "a/b:"):
        with pytest.raises(InputErrors):
            parse_target(text)


def test_a_repository_alone_has_neither_tag_nor_digest() -> None:
    assert parse_repository("a/b") == "a/b"
    for text in ("a/b:1", f"a/b@sha256:{HEX}", "reg.test/a"):
        with pytest.raises(InputErrors):
            parse_repository(text)
