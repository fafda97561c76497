# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.derivations.evaluate import Evaluator
from derive.derivations.model import Derivation
from derive.derivations.scope import load_scope
from derive.errors import InputErrors
from support.projects import FILES, project

IMAGE = str(FILES["images/image.toml"])


def image(more: str) -> Derivation:
    changes: dict[str, str | bytes | None] = {"images/image.toml": IMAGE + more}
    return Evaluator(load_scope(project(changes))).image("image", "linux/amd64")


def refused(more: str) -> list[str]:
    with pytest.raises(InputErrors) as caught:
        image(more)
    return [f"{one.where}: {one.message}" + (f" ({one.hint})" if one.hint else "") for one in caught.value.problems()]


def labels(target: Derivation) -> object:
    config = target.arguments["config"]
    assert isinstance(config, dict)
    return config["labels"]


def test_an_image_names_its_capabilities_in_a_label_sorted() -> None:
    found = image(
        '[capabilities]\nzz = { from = "script", doc = "z" }\nguard = { patch = "b/0001-a.patch", doc = "g" }\n'
        'wheel = { wheel = "a", file = "/a", doc = "w" }\ndeb = { package = "a", file = "/b", doc = "d" }\n'
    )
    assert labels(found) == {"io.derive.capabilities": "deb guard wheel zz"}
    assert found.arguments["needed"] == {"wheel": "a", "deb": "b"}


def test_an_image_without_capabilities_is_the_image_that_it_was() -> None:
    assert image("") == image("[capabilities]\n")
    assert labels(image("")) == {}


def test_a_file_that_a_capability_needs_is_asked_of_the_image() -> None:
    found = image('[capabilities]\nguard = { from = "script", file = "/usr/libexec/x y", doc = "g" }\n')
    assert found.arguments["needed"] == {"guard": "usr/libexec/x y"}


def test_a_capability_whose_provider_is_not_in_the_image_is_refused_with_what_is_near() -> None:
    so = "so nothing gives it this capability"
    assert refused(
        '[capabilities]\none = { from = "scrip", doc = "d" }\ntwo = { patch = "b/0002-x.patch", doc = "d" }\n'
        'three = { wheel = "zz", file = "/z", doc = "d" }\n'
    ) == [
        f"images/image.toml: capabilities.{key}: no {kind} {name!r} is in this image, {so}{hint}"
        for key, kind, name, hint in (
            ("one.from", "derivation", "scrip", " (did you mean script?)"),
            ("three.wheel", "wheel", "zz", ""),
            ("two.patch", "patch", "b/0002-x.patch", " (did you mean b/0001-a.patch?)"),
        )
    ]


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ('x = { doc = "d" }', "name one provider"),
        ('x = { from = "script", wheel = "a", doc = "d" }', "name one provider"),
        ('x = { wheel = "a", doc = "d" }', "say with the key file"),
        ('x = { package = "a", doc = "d" }', "say with the key file"),
        ('x = { from = "script", file = "usr/x", doc = "d" }', "x.file: not the absolute path of a file in the image"),
        ('x = { from = "script", file = "/", doc = "d" }', "x.file: not the absolute path of a file in the image"),
        ('x = { from = "script", file = "/usr/../x", doc = "d" }', "x.file: not a path inside a tree: usr/../x"),
        ('x = { from = "script", file = "/usr//x", doc = "d" }', "x.file: not a path inside a tree: usr//x"),
        ('x = { from = "script", file = "/usr/x/", doc = "d" }', "x.file: not a path inside a tree: usr/x/"),
        ('x = { from = "script" }', "this key is missing"),
        ('x = { from = "script", doc = "" }', "at least 1 character"),
        ('"X y" = { from = "script", doc = "d" }', "pattern"),
    ],
)
def test_a_capability_that_says_too_little_or_too_much_is_refused(entry: str, why: str) -> None:
    assert why in "\n".join(refused(f"[capabilities]\n{entry}\n"))


def test_the_label_of_capabilities_is_written_by_nobody_else() -> None:
    (message,) = refused('[config]\nlabels = { "io.derive.capabilities" = "all" }\n')
    assert "is written from capabilities" in message


def test_what_an_image_is_only_made_with_gives_it_nothing() -> None:
    """The root of the script is where its programs come from; nothing of it is in an image without that root."""
    changes: dict[str, str | bytes | None] = {
        "images/image.toml": IMAGE.replace('from = ["root"]', 'from = ["script"]').replace('"all", "code"', '"patched"')
        + '[capabilities]\nx = { from = "root", doc = "d" }\ny = { package = "a", file = "/x", doc = "d" }\n'
        + 'z = { from = "source", doc = "d" }\n'
    }
    with pytest.raises(InputErrors) as caught:
        Evaluator(load_scope(project(changes))).image("image", "linux/amd64")
    found = [problem.where.rpartition("capabilities.")[2] for problem in caught.value.problems()]
    assert found == ["x.from", "y.package"]


def test_a_capability_says_which_variables_must_be_set_for_it() -> None:
    more = '[capabilities]\nx = { from = "script", environment = { A = "1", B = "2" }, doc = "d" }\n'
    image(more + '[config]\nenvironment = { A = "1", B = "2", C = "3" }\n')
    assert refused(more + '[config]\nenvironment = { B = "" }\n') == [
        "images/image.toml: capabilities.x.environment.A: the image's configuration does not set this variable so",
        "images/image.toml: capabilities.x.environment.B: the image's configuration does not set this variable so",
    ]
