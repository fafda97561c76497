# SPDX-License-Identifier: Apache-2.0
"""Brings what upstreams serve into the store: git commits, files at URLs, blobs of images, files of models.

Edge: the network, git, the store.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from derive.build.fetching import wanted
from derive.canonical import Digest, Json
from derive.derivations.model import FlatOutput, Output, ResolvedDerivation, TreeOutput
from derive.errors import Unavailable
from derive.images.oci import Descriptor
from derive.net.fetch import Fetcher
from derive.net.places import Mirror, MirrorSource
from derive.net.progress import Progress, Quiet
from derive.store.history import Source, add_source
from derive.store.local import LocalStore

if TYPE_CHECKING:
    from derive.git.model import FetchedGit, GitWanted
    from derive.git.program import Session
    from derive.huggingface.hubs import Hubs
    from derive.oci.registry import Registries


class UpstreamFetcher:
    """Upstreams for one run: one git session, and registries and hubs that remember who wanted which login."""

    def __init__(self, fetcher: Fetcher, mirrors: MirrorSource, progress: Progress | None, *, offline: bool) -> None:
        self._fetcher = fetcher
        self._mirrors = mirrors
        self._progress: Progress = progress or Quiet()
        self._offline = offline
        self._cancel = threading.Event()
        self._guard = threading.Lock()
        self._session: Session | None = None
        self._registries: Registries | None = None
        self._hubs: Hubs | None = None

    def stop(self) -> None:
        """End every transfer."""
        self._cancel.set()

    def fetch(self, request: ResolvedDerivation, store: LocalStore, places: Sequence[str]) -> Mapping[str, Output]:
        """Fetch what a step names; ``places`` are the URLs that its wish gives.

        Raises:
            UpstreamGone, Unavailable, Corrupt, HostRefuses: as whatever serves it.
        """
        match request.builder:
            case "fetch-git":
                return self._git(request.arguments, store, places)
            case "fetch-url":
                return {"out": FlatOutput(self._fetcher.fetch(wanted(request, places), reuse=False))}
            case "fetch-oci":
                return self._oci(request.arguments, store)
            case "fetch-huggingface":
                return {"out": FlatOutput(self._huggingface(request.arguments))}
            case "fetch-engine":
                return {"out": TreeOutput(self._engine(request.arguments, store))}
            case other:
                raise ValueError(f"no fetch of an upstream: {other}")

    def git_session(self) -> Session:
        """Return this run's git session."""
        from derive.git.program import Session

        with self._guard:
            if self._session is None:
                self._session = Session(progress=self._progress, cancel=self._cancel)
            return self._session

    def registries(self) -> Registries:
        """Return this run's registries; raises HostRefuses when none is configured."""
        from derive.oci.registry import Registries

        with self._guard:
            if self._registries is None:
                self._registries = Registries(
                    mirrors=self._mirrors.oci(),
                    client=self._fetcher.client,
                    progress=self._progress,
                    offline=self._offline,
                )
            return self._registries

    def hubs(self) -> Hubs:
        """Return this run's hubs; raises HostRefuses when none is configured."""
        from derive.huggingface.hubs import Hubs

        with self._guard:
            if self._hubs is None:
                self._hubs = Hubs(
                    mirrors=self._mirrors.huggingface(),
                    client=self._fetcher.client,
                    progress=self._progress,
                    offline=self._offline,
                )
            return self._hubs

    def _git(self, arguments: Mapping[str, Json], store: LocalStore, places: Sequence[str]) -> Mapping[str, Output]:
        from derive.git.fetch import fetch_git
        from derive.git.model import GitWanted, SubmodulePin

        modules = arguments["submodules"]
        assert isinstance(modules, list | tuple)
        pins = []
        for one in modules:
            assert isinstance(one, Mapping)
            pins.append(SubmodulePin(path=str(one["path"]), commit=str(one["commit"]), tree=str(one["tree"])))
        wanted = GitWanted(
            name=str(arguments["name"]),
            commit=str(arguments["commit"]),
            tree=str(arguments["tree"]),
            nar=Digest(str(arguments["nar"])),
            tag=_text(arguments["tag"]),
            tag_object=_text(arguments["tag-object"]),
            branch=_text(arguments["branch"]),
            submodules=tuple(pins),
        )
        fetched = self._git_archived(store, wanted) if self._offline else None
        if fetched is None:
            url, *overrides = places
            try:
                fetched = fetch_git(
                    store,
                    wanted,
                    (url,),
                    mirrors=bases(self._mirrors.git()),
                    submodule_urls=dict(one.split("=", 1) for one in overrides),
                    session=self.git_session(),
                )
            except Unavailable:
                if self._fetcher.archived_proof(wanted.nar) is None:
                    raise
                fetched = self._git_archived(store, wanted)
            else:
                _note(store, wanted.nar, fetched.url)
        return {"out": TreeOutput(fetched.tree), "proof": FlatOutput(fetched.proof)}

    def _git_archived(self, store: LocalStore, wanted: GitWanted) -> FetchedGit:
        from derive.git.archived import fetch_archived

        return fetch_archived(store, self._fetcher, wanted)

    def _oci(self, arguments: Mapping[str, Json], store: LocalStore) -> Mapping[str, Output]:
        from derive.oci.fetch import fetch_oci
        from derive.oci.model import OciImage, OciPin

        layers = arguments["layers"]
        assert isinstance(layers, list | tuple)
        image = OciImage(
            platform=str(arguments["platform"]),
            manifest=_descriptor(arguments["manifest"]),
            config=_descriptor(arguments["config"]),
            layers=tuple(_descriptor(layer) for layer in layers),
        )
        repository = str(arguments["repository"])
        pin = OciPin(repository=repository, tag=_text(arguments["tag"]), index=None, images=(image,))
        manifest = fetch_oci(
            store,
            self.registries(),
            self._fetcher,
            pin,
            image.platform,
            name=str(arguments["name"]),
            reuse=False,
        )
        blobs = {f"layer.{index}": layer for index, layer in enumerate(image.layers)} | {"config": image.config}
        return {"out": FlatOutput(manifest), **{role: FlatOutput(blob.digest) for role, blob in blobs.items()}}

    def _huggingface(self, arguments: Mapping[str, Json]) -> Digest:
        from derive.huggingface.fetch import fetch_hf_file
        from derive.huggingface.model import HfFile, HfPin

        size = arguments["size"]
        known = size if isinstance(size, int) else None  # of a file that is known by its hash alone
        file = HfFile(path=str(arguments["file"]), size=known or 0, sha256=Digest(str(arguments["sha256"])))
        pin = HfPin(
            repository=str(arguments["repository"]),
            kind="dataset" if arguments["contents"] == "dataset" else "model",
            revision=str(arguments["revision"]),
            files=(file,),
        )
        name, sized = str(arguments["name"]), known is not None
        return fetch_hf_file(self._fetcher, self.hubs(), pin, file, name=name, reuse=False, sized=sized)

    def _engine(self, arguments: Mapping[str, Json], store: LocalStore) -> Digest:
        from derive.engine.fetch import bring_source

        name = f"{arguments['name']} {arguments['version']}"
        return bring_source(self._fetcher, store, Digest(str(arguments["nar"])), name)


def _descriptor(document: Json) -> Descriptor:
    assert isinstance(document, Mapping)
    digest = Digest(str(document["sha256"]))
    return Descriptor(media_type=str(document["media-type"]), digest=digest, size=_size(document))


def bases(mirrors: Sequence[Mirror]) -> tuple[str, ...]:
    """Return the URLs of mirrors."""
    return tuple(mirror.url for mirror in mirrors)


def _note(store: LocalStore, digest: Digest, place: str) -> None:
    import time

    add_source(store.database, Source(digest=digest, place=place, fetched_s=int(time.time())))


def _text(value: Json) -> str | None:
    return None if value is None else str(value)


def _size(arguments: Mapping[str, Json]) -> int:
    size = arguments["size"]
    assert isinstance(size, int)
    return size
