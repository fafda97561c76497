# SPDX-License-Identifier: Apache-2.0
"""What is to run: a release of this checkout, named in each way that there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from derive.deploy.target import aim, find_deployed
from derive.errors import InputErrors
from derive.releases.find import find_release
from derive.render.chosen import Chosen
from support.cli import CHECKOUT

_SITE = str(CHECKOUT / "fabric/examples/triangle.toml")


def _message(error: InputErrors) -> str:
    return error.problems()[0].message


@pytest.mark.parametrize(
    "form", ["{name}", "release:{name}", "{hex}", "{short}", "sha256:{hex}", "release:sha256:{hex}"]
)
def test_a_release_is_named_by_name_or_digest(form: str) -> None:
    known = find_release(CHECKOUT, "probe-1")
    text = form.format(name=known.name, hex=known.digest.hex, short=known.digest.hex[:12])
    assert find_deployed(CHECKOUT, text).name == "probe-1"


@pytest.mark.parametrize("form", ["{}", "sha256:{}", "image:{}", "image:sha256:{}"])
def test_an_image_names_the_one_release_that_has_it(form: str) -> None:
    image = find_release(CHECKOUT, "probe-1").release.images["linux/arm64"].digest
    assert find_deployed(CHECKOUT, form.format(image.hex)).name == "probe-1"


def test_a_digest_of_nothing_is_said() -> None:
    with pytest.raises(InputErrors) as caught:
        find_deployed(CHECKOUT, "0" * 64)
    assert "no release and no image of one" in _message(caught.value)


def test_what_is_to_run_is_the_bundle_that_the_release_recorded(tmp_path: Path) -> None:
    aimed = aim(CHECKOUT, "probe-1", Chosen(shape="triangle", site=_SITE), {}, tmp_path)
    served = aimed.target.served
    assert served.shape_bundle == aimed.known.release.shapes["triangle"].bundle
    assert served.launch_bundle == aimed.target.bundle.launch
    assert [launch.node for launch in aimed.target.bundle.launches] == [one.name for one in aimed.site.site.nodes]


def test_without_a_site_file_no_machine_is_meant(tmp_path: Path) -> None:
    with pytest.raises(InputErrors) as caught:
        aim(CHECKOUT, "probe-1", Chosen(shape="triangle"), {"XDG_CONFIG_HOME": str(tmp_path)}, tmp_path)
    assert "no site file" in _message(caught.value)


def test_an_image_of_another_platform_than_the_shape_runs_is_refused(tmp_path: Path) -> None:
    image = find_release(CHECKOUT, "probe-1").release.images["linux/amd64"].digest
    with pytest.raises(InputErrors) as caught:
        aim(CHECKOUT, f"image:{image.hex}", Chosen(shape="triangle", site=_SITE), {}, tmp_path)
    assert "runs the image for linux/arm64" in _message(caught.value)


def test_a_shape_that_the_release_has_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputErrors) as caught:
        aim(CHECKOUT, "probe-1", Chosen(shape="pentagon", site=_SITE), {}, tmp_path)
    assert "has no shape" in _message(caught.value)
