# SPDX-License-Identifier: Apache-2.0
"""Which outputs a step can give, by name and kind: known before it runs, whoever says what they are.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias

from derive.derivations.model import Derivation, FlatOutput, Output
from derive.images.split import BASE, own_output, shared_output

Kind: TypeAlias = Literal["nar", "facts", "flat"]

_BY_IDENTITY = frozenset({"unpack", "install-wheel", "patch", "compose", "record"})
"""Builders whose tree is named as the argument ``identity`` says."""
_FLAT = frozenset({"facts", "layer", "image"})


def fits(derivation: Derivation, outputs: Mapping[str, Output]) -> bool:
    """Say whether outputs have the names and kinds that a step gives; of a fetch, whether it is what is fetched."""
    return (derivation.fixed is None or outputs.get("out") == derivation.fixed) and has_shape(derivation, outputs)


def has_shape(derivation: Derivation, outputs: Mapping[str, Output]) -> bool:
    """Say whether outputs have the names and kinds that a step gives, whatever is in them."""
    if not _are_names(derivation, outputs.keys()):
        return False
    return all(_kind(output) == _kind_of(derivation, name) for name, output in outputs.items())


def _kind(output: Output) -> Kind:
    return "flat" if isinstance(output, FlatOutput) else output.identity


def _kind_of(derivation: Derivation, name: str) -> Kind:
    if derivation.fixed is not None:
        return _kind(derivation.fixed) if name == "out" else "flat"
    if derivation.builder in _FLAT:
        return "flat"
    if derivation.builder == "split":
        return "facts"
    by_facts = derivation.builder in _BY_IDENTITY and derivation.arguments.get("identity") == "facts"
    return "facts" if by_facts else "nar"


def _are_names(derivation: Derivation, names: Collection[str]) -> bool:
    match derivation.builder:
        case "image":
            return _are_of_image(derivation, set(names))
        case "fetch-oci":
            return set(names) == {"out", "config", *_layers(_length(derivation, "layers"))}
        case "fetch-git":
            return set(names) == {"out", "proof"}
        case "layer":
            return set(names) == {"out", "descriptor"}
        case "split" if derivation.arguments.get("by") == "package":
            return set(names) == _packages(derivation)
        case _:
            return set(names) == {"out"}


def _are_of_image(derivation: Derivation, names: set[str]) -> bool:
    """Compare with manifest, config and layers: how many a base has is not known, nor which optional ones are empty."""
    count = len(names) - 2
    most = derivation.arguments.get("layers")
    assert isinstance(most, int)
    if count < most - _length(derivation, "optional") or (count > most and "base" not in derivation.inputs):
        return False
    return names == {"out", "config", *_layers(count)}


def _layers(count: int) -> set[str]:
    return {f"layer.{index}" for index in range(count)}


def _packages(derivation: Derivation) -> set[str]:
    own, shared = derivation.arguments.get("own"), derivation.arguments.get("shared")
    assert isinstance(own, list | tuple)
    assert isinstance(shared, int)
    return {BASE, *(own_output(str(one)) for one in own), *(shared_output(at) for at in range(1, shared + 1))}


def _length(derivation: Derivation, argument: str) -> int:
    value = derivation.arguments.get(argument, ())
    assert isinstance(value, list | tuple)
    return len(value)
