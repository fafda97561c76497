# SPDX-License-Identifier: Apache-2.0
"""Which of an index's files is newer."""

from __future__ import annotations

from derive.lock.outdated import newest_wheel
from derive.lock.tags import ranks
from derive.net.simple import SimpleFile

ACCEPTED = ranks("3.13", "arm64", "2.41")


def file(version: str, tag: str = "py3-none-any", *, needs: str | None = None, yanked: bool = False) -> SimpleFile:
    name = f"x-{version}-{tag}.whl"
    return SimpleFile(file=name, url=f"http://h/{name}", requires_python=needs, yanked=yanked)


def newest(*files: SimpleFile) -> str | None:
    return newest_wheel(files, "1.5", "3.13", ACCEPTED)


def test_the_newest_version_is_told_as_versions_compare() -> None:
    assert newest(file("1.9"), file("1.10"), file("1.4")) == "1.10"
    assert newest(file("1.5"), file("1.4")) is None


def test_what_cannot_be_installed_does_not_count() -> None:
    assert (
        newest(
            file("2.0rc1"),
            file("2.1", yanked=True),
            file("2.2", "cp313-cp313-win_amd64"),
            file("2.3", needs=">=3.14"),
            file("2.4", needs="nonsense"),
            SimpleFile(file="x-3.0.tar.gz", url="http://h/x-3.0.tar.gz"),
        )
        is None
    )


def test_a_minimum_within_the_python_counts() -> None:
    assert newest(file("2.0", needs=">=3.13.2")) == "2.0"
