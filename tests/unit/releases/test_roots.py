# SPDX-License-Identifier: Apache-2.0
"""What a store keeps of a release."""

from __future__ import annotations

from pathlib import Path

from derive.releases.roots import keep_release, kept_content
from derive.store.inventory import Root, read_roots, roots_named
from derive.store.local import LocalStore
from support.reported import release, word

FILES = {"lock/a.toml": b"a wish\n"}


def test_a_release_is_kept_as_images_and_content_and_the_last_of_a_name_counts(tmp_path: Path) -> None:
    found, _ = release("demo")
    with LocalStore(tmp_path / "store") as store:
        keep_release(store, "demo-1", found, {"lock/a.toml": b"before"})
        keep_release(store, "demo-1", found, FILES)
        kept = {name: digest for kind, name, digest in store.database.roots() if kind == "release"}
        assert {f"demo-1 {platform}": one.digest for platform, one in found.images.items()}.items() <= kept.items()
        hashes = {path: word("x") for path in FILES}
        assert dict(kept_content(store, "demo-1", hashes)) == {}
        assert {root.title for root in read_roots(store)} == {
            "release demo-1@content",
            "release demo-1@engine",
            "release demo-1@linux/amd64",
            "release demo-1@linux/arm64",
        }


def test_letting_a_release_go_does_not_take_the_name_of_an_image_that_is_called_like_it() -> None:
    kept = Root(kind="release", name="demo-1 linux/amd64", digest=word("image"))
    image = Root(kind="image", name="demo-1 linux/amd64", digest=word("image"))
    assert image.tag == "demo-1-amd64"
    assert kept.tag != image.tag
    assert roots_named([kept, image], ["demo-1@linux/amd64"]) == (image,)
    assert roots_named([kept, image], ["release demo-1@linux/amd64"]) == (kept,)
