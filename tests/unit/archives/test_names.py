# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.archives.names import (
    DEFAULT_LIMITS,
    Admission,
    Limits,
    Stripper,
    check_links,
    link_target,
    member_path,
    merged,
    resolve,
    through_link,
)
from derive.errors import InputErrors
from support.archives import said

MERGE = {b"lib": b"usr/lib", b"bin": b"usr/bin"}


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b"a", b"a"),
        (b"./a/b", b"a/b"),
        (b"./", b""),
        (b".", b""),
        (b"./a/", b"a"),
        (b"a/", b"a"),
        (b"\xff\xe4/a b", b"\xff\xe4/a b"),
        (b"x" * 255, b"x" * 255),
        (b"..a/...", b"..a/..."),
    ],
)
def test_a_name_becomes_a_path_of_the_tree(raw: bytes, path: bytes) -> None:
    assert member_path("x.tar", raw, DEFAULT_LIMITS) == path


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "without a name"),
        (b"/etc/passwd", "absolute"),
        (b"//etc", "absolute"),
        (b"../a", "climbs out"),
        (b"./../a", "climbs out"),
        (b"a/../../b", "climbs out"),
        (b"a/..", "climbs out"),
        (b"a//b", "empty or . component"),
        (b"a/./b", "empty or . component"),
        (b"a\0b", "zero byte"),
        (b"x" * 256, "256 bytes"),
        (b"/".join([b"x" * 200] * 30), "more than 4096"),
    ],
)
def test_a_name_that_no_archive_may_hold_is_refused(raw: bytes, why: str) -> None:
    with pytest.raises(InputErrors) as caught:
        member_path("x.tar", raw, DEFAULT_LIMITS)
    assert why in said(caught.value)
    assert "x.tar" in said(caught.value)


@pytest.mark.parametrize(("target", "why"), [(b"", "without a target"), (b"a\0", "zero byte"), (b"x" * 5000, "5000")])
def test_a_link_target_that_is_none_is_refused(target: bytes, why: str) -> None:
    with pytest.raises(InputErrors) as caught:
        link_target("x.tar", b"l", target)
    assert why in said(caught.value)


def test_a_path_through_a_merging_link_lies_behind_it_and_the_link_stays() -> None:
    assert merged(b"lib/aarch64-linux-gnu/libc.so.6", MERGE) == b"usr/lib/aarch64-linux-gnu/libc.so.6"
    assert merged(b"lib", MERGE) == b"lib"
    assert merged(b"libexec/x", MERGE) == b"libexec/x"
    assert merged(b"usr/lib/x", MERGE) == b"usr/lib/x"


def test_the_first_path_through_a_link_is_found() -> None:
    links = {b"x": b"/etc", b"a/y": b".."}
    assert through_link([b"x", b"z", b"x/passwd", b"a/y/b/c"], links) == (b"a/y/b/c", b"a/y")
    assert through_link([b"x", b"z"], links) is None


@pytest.mark.parametrize("target", [b"/etc", b"../x", b"b/../../x", b"..", b"b/up/x"])
def test_a_link_that_leaves_the_tree_is_refused_inside(target: bytes) -> None:
    links = {b"a": target, b"b/up": b"../.."}
    with pytest.raises(InputErrors) as caught:
        check_links("x.tar", links, links, "inside")
    assert "x.tar: a: a symbolic link that leads out of the tree" in said(caught.value)


@pytest.mark.parametrize("target", [b"b", b"./b/c", b"b/../c", b"nowhere/at/all", b"."])
def test_a_link_within_the_tree_is_fine_inside_whether_it_leads_anywhere_or_not(target: bytes) -> None:
    check_links("x.tar", [b"a"], {b"a": target}, "inside")


@pytest.mark.parametrize("target", [b"/etc/x", b"../../../etc"])
def test_in_a_root_absolute_and_climbing_targets_stay_in_the_root(target: bytes) -> None:
    check_links("x.deb", [b"a"], {b"a": target}, "root")


@pytest.mark.parametrize(
    "links",
    [{b"a": b"a"}, {b"a": b"b", b"b": b"a"}, {b"a": b"a/x"}, {b"d/a": b"../d/a/../a"}, {b"a": b"/b", b"b": b"/a"}],
)
def test_a_link_that_loops_is_refused_under_both_rules(links: dict[bytes, bytes]) -> None:
    with pytest.raises(InputErrors) as caught:
        check_links("x.tar", links, links, "root")
    assert "a symbolic link that loops" in said(caught.value)


def test_a_chain_as_long_as_linux_follows_is_no_loop() -> None:
    links = {b"l%d" % n: b"l%d" % (n + 1) for n in range(40)}
    check_links("x.tar", links, links, "inside")


def test_long_links_through_long_links_end_soon() -> None:
    """Forty hops of two thousand components each would take hours for a small archive of many links."""
    links = {b"l%d" % n: b"x/../" * 700 + b"l%d" % (n + 1) for n in range(30)}
    with pytest.raises(InputErrors):
        check_links("x.tar", links, links, "inside")


def test_resolving_follows_links_from_the_root() -> None:
    links = {b"bin": b"usr/bin", b"usr/bin/awk": b"/etc/alternatives/awk", b"etc/alternatives/awk": b"/bin/mawk"}
    assert resolve(b"bin/awk", links) == b"usr/bin/mawk"
    assert resolve(b"a/../../b", links) == b"b"
    assert resolve(b"loop", {b"loop": b"loop"}) is None


def test_stripping_drops_the_same_folders_of_every_member() -> None:
    strip = Stripper("x.tar", 1)
    assert strip(b"", folder=True) is None
    assert strip(b"top", folder=True) == b""
    assert strip(b"top/a/b", folder=False) == b"a/b"


def test_stripping_two_passes_over_the_folder_above() -> None:
    strip = Stripper("x.tar", 2)
    assert strip(b"top", folder=True) is None
    assert strip(b"top/in", folder=True) == b""
    assert strip(b"top/in/a", folder=False) == b"a"


@pytest.mark.parametrize(
    ("paths", "why"),
    [
        ([b"top/a", b"other/b"], "outside top/"),
        ([b"top/a", b"b"], "leaves nothing"),
        ([b"top"], "leaves nothing"),
    ],
)
def test_stripping_refuses_what_lies_elsewhere(paths: list[bytes], why: str) -> None:
    strip = Stripper("x.tar", 1)
    with pytest.raises(InputErrors) as caught:
        _ = [strip(path, folder=False) for path in paths]
    assert why in said(caught.value)


def test_limits_grow_with_the_archive_between_two_bounds() -> None:
    limits = Limits(ratio=10, free_bytes=1000, total_bytes=5000)
    assert [limits.allowed(size) for size in (1, 100, 300, 10_000)] == [1000, 1000, 3000, 5000]


def test_implied_folders_count_and_known_ones_count_once() -> None:
    admit = Admission("x.tar", Limits(entries=5))
    for path in (b"a/b/c", b"a/b/d", b"a/b/d"):
        admit(path)
    with pytest.raises(InputErrors) as caught:
        admit(b"e")
    assert "more than 5 paths" in said(caught.value)


def test_deep_paths_cannot_name_gigabytes() -> None:
    admit = Admission("x.tar", Limits(names_bytes=1 << 20))
    with pytest.raises(InputErrors) as caught:
        admit(b"a/" * 2047 + b"a")
    assert "bytes together" in said(caught.value)
