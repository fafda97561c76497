# SPDX-License-Identifier: Apache-2.0
"""What an image is made of, as a CycloneDX document: a function of its closure, with no time and no random number.

Core: no IO. The format is on docs/formats/sbom.md. The document is made by the package ``cyclonedx-python-lib``, and
written canonically.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from derive import __version__
from derive.attest.contents import Applied, Contents, LayerContents, OwnPart, Package, contents_of
from derive.attest.facts import UNKNOWN_LICENCE, ImageFacts
from derive.attest.purl import locator_of, purl_of
from derive.attest.statement import SBOM_TYPE, statement
from derive.canonical import Digest, Json, decode, encode

if TYPE_CHECKING:
    from cyclonedx.model import HashType, Property
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, Pedigree
    from cyclonedx.model.license import License

_OWN_LICENCE = re.compile(r"LicenseRef-[A-Za-z0-9.-]+")


def sbom(facts: ImageFacts) -> bytes:
    """Return the bill of materials, CycloneDX 1.6 as JSON."""
    return encode(bill(facts))


def sbom_statement(facts: ImageFacts) -> bytes:
    """Return the statement that says it of an image, in-toto version 1, as canonical bytes."""
    return statement(facts.name, facts.image, SBOM_TYPE, bill(facts))


def bill(facts: ImageFacts) -> Mapping[str, Json]:
    """Return the bill of materials as a document."""
    from cyclonedx.output.json import JsonV1Dot6

    document = decode(JsonV1Dot6(_bom(facts)).output_as_string().encode())
    assert isinstance(document, dict)
    metadata = document["metadata"]
    assert isinstance(metadata, dict)
    del metadata["timestamp"]  # the library's own clock; its serial number is random
    return {**document, "serialNumber": f"urn:uuid:{serial_number(facts.image)}"}


def serial_number(image: Digest) -> str:
    """Return the UUID of an image's bill: version 8 of RFC 9562, over the first bits of the image digest."""
    text = image.hex
    variant = "89ab"[int(text[16], 16) & 3]
    return f"{text[:8]}-{text[8:12]}-8{text[13:16]}-{variant}{text[17:20]}-{text[20:32]}"


def _bom(facts: ImageFacts) -> Bom:
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType

    contents = contents_of(facts.graph, facts.derivation, facts.layers)
    image = _image(facts)
    packages = {output: _package(facts, one) for output, one in contents.packages.items()}
    own = {key: _own_part(facts, one, contents) for key, one in contents.own.items()}
    layers = [(_layer(one), one) for one in contents.layers]
    bom = Bom(components=[*packages.values(), *own.values(), *(component for component, _ in layers)])
    bom.metadata.component = image
    bom.metadata.tools.components.add(
        Component(type=ComponentType.APPLICATION, name="derive", version=__version__, bom_ref="derive")
    )
    bom.register_dependency(image, [component for component, _ in layers])
    for component, layer in layers:
        inside = [*(packages[output] for output in layer.packages), *(own[key] for key in layer.own)]
        bom.register_dependency(component, inside)
    for key, part in contents.own.items():
        bom.register_dependency(own[key], [packages[output] for output in part.sources if output in packages])
    return bom


def _image(facts: ImageFacts) -> Component:
    from cyclonedx.model.component import Component, ComponentType
    from packageurl import PackageURL

    architecture = facts.platform.partition("/")[2]
    return Component(
        type=ComponentType.CONTAINER,
        name=facts.name,
        version=str(facts.image),
        bom_ref=f"image:{facts.image}",
        purl=PackageURL("oci", None, facts.name, str(facts.image), {"arch": architecture}),
        hashes=_hashes(facts.image.hex),
        properties=_properties({"derive:derivation": str(facts.derivation), "derive:platform": facts.platform}),
    )


def _layer(layer: LayerContents) -> Component:
    from cyclonedx.model.component import Component, ComponentType

    return Component(
        type=ComponentType.FILE,
        name=layer.name,
        bom_ref=f"layer:{layer.name}",
        hashes=_hashes(layer.blob.rpartition(":")[2]),
    )


def _package(facts: ImageFacts, package: Package) -> Component:
    from cyclonedx.model.component import Component, ComponentType

    fetch = package.fetch
    flat = package.output.startswith("flat:")
    hashes = _hashes(package.hex) if flat else []
    facts_of: dict[str, str] = {} if flat else {"derive:output": package.output}
    if fetch is None:
        return Component(type=ComponentType.FILE, name=package.hex, bom_ref=package.output, hashes=hashes)
    locator = locator_of(fetch)
    if locator:
        facts_of["derive:file"] = locator.rpartition("/")[2]
    purl = purl_of(fetch)
    return Component(
        type=ComponentType.LIBRARY,
        name=purl.name,
        version=purl.version,
        bom_ref=package.output if fetch.builder == "fetch-source" else purl.to_string(),
        purl=purl,
        hashes=hashes,
        licenses=_licences(facts.licences.get(package.hex)),
        properties=_properties(facts_of),
        pedigree=_pedigree(package.patches, ()),
    )


def _own_part(facts: ImageFacts, part: OwnPart, contents: Contents) -> Component:
    from cyclonedx.model.component import Component, ComponentType

    output = {"derive:output": part.output} if part.output else {}
    sources = [_package(facts, contents.sources[output]) for output in part.sources if output in contents.sources]
    return Component(
        type=ComponentType.LIBRARY,
        name=part.node.name,
        bom_ref=f"derivation:{part.node.id.hex}",
        properties=_properties({"derive:derivation": str(part.node.id), **output}),
        pedigree=_pedigree(part.patches, sources),
    )


def _pedigree(patches: Iterable[Applied], ancestors: Iterable[Component]) -> Pedigree | None:
    from cyclonedx.model import XsUri
    from cyclonedx.model.component import Diff, Patch, PatchClassification, Pedigree

    # The format gives a patch no name and no hash: the file's name is a reference, the identity its fragment.
    applied = [
        Patch(type=PatchClassification.UNOFFICIAL, diff=Diff(url=XsUri(f"{one.file}#{one.identity}")))
        for one in patches
    ]
    made_from = list(ancestors)
    return Pedigree(patches=applied, ancestors=made_from) if applied or made_from else None


def _licences(text: str | None) -> list[License]:
    from cyclonedx.contrib.license.factories import LicenseFactory
    from cyclonedx.model.license import LicenseExpression

    if text is None or text == UNKNOWN_LICENCE:
        return []
    if _OWN_LICENCE.fullmatch(text):  # an expression too, though of a licence that SPDX does not list
        return [LicenseExpression(text)]
    return [LicenseFactory().make_from_string(text)]


def _hashes(sha256: str) -> list[HashType]:
    from cyclonedx.model import HashAlgorithm, HashType

    return [HashType(alg=HashAlgorithm.SHA_256, content=sha256)]


def _properties(values: Mapping[str, str]) -> list[Property]:
    from cyclonedx.model import Property

    return [Property(name=name, value=value) for name, value in values.items()]
