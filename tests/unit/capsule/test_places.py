# SPDX-License-Identifier: Apache-2.0
"""A file that ends in .tar is an archive as a folder is."""

from __future__ import annotations

from derive.lock.settings import parse_places
from derive.net.places import ArchiveFolder, ArchiveSite, ArchiveTar


def test_a_path_that_ends_in_tar_is_an_archive_that_is_a_file_and_a_url_is_a_site() -> None:
    assert parse_places("/srv/kept /srv/r-1.tar https://a/r-1.tar", "here") == (
        ArchiveFolder(path="/srv/kept"),
        ArchiveTar(path="/srv/r-1.tar"),
        ArchiveSite(url="https://a/r-1.tar"),
    )
    assert str(ArchiveTar(path="/srv/caf\udce9.tar")) == "/srv/caf\\xe9.tar"
