# SPDX-License-Identifier: Apache-2.0
"""References without hosts."""

from __future__ import annotations

import pytest

from derive.canonical import Digest
from derive.errors import InputErrors
from derive.oci.reference import Reference, parse_reference, parse_repository, parse_target
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
