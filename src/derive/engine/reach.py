# SPDX-License-Identifier: Apache-2.0
"""How an engine in the outer sandbox reaches what this machine reaches: mirrors, proxies, certificates.

Edge: the environment, the settings of apt and pip through derive.lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from derive.errors import HostRefuses
from derive.lock import mirrors as names

if TYPE_CHECKING:
    from derive.net.places import Mirror, MirrorSource

_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """This machine's network, as an engine is told of it: variables, and a bundle of certificates where one is set."""

    environment: Mapping[str, str]
    certificates: Path | None


def own_network(mirrors: MirrorSource, environ: Mapping[str, str] = os.environ) -> Network:
    """Return this machine's network; raises InputErrors where its settings are wrong."""
    bundle = next((Path(environ[name]) for name in _BUNDLES if environ.get(name)), None)
    return Network(
        environment={**_served(mirrors), **_proxies(environ)},
        certificates=bundle if bundle is not None and bundle.is_file() else None,
    )


def _served(mirrors: MirrorSource) -> dict[str, str]:
    """Return the variables that say where this machine is told that things are served."""
    asked = {
        names.DEBIAN_VARIABLE: (mirrors.debian, mirrors.security),
        names.PYTHON_VARIABLE: (mirrors.python,),
        names.GIT_VARIABLE: (mirrors.git,),
        names.OCI_VARIABLE: (mirrors.oci,),
        names.HF_VARIABLE: (mirrors.huggingface,),
    }
    found = {name: " ".join(one.url for ask in asks for one in _told(ask)) for name, asks in asked.items()}
    return {name: urls for name, urls in found.items() if urls}


def _proxies(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for each in _PROXIES for name in (each, each.upper()) if environ.get(name)}


def _told(ask: Callable[[], tuple[Mirror, ...]]) -> tuple[Mirror, ...]:
    try:
        return ask()
    except HostRefuses:  # nothing names any
        return ()
