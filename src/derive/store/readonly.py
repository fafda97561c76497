# SPDX-License-Identifier: Apache-2.0
"""The database of a store that cannot be written: another user's, or one on a medium that is read-only.

Edge: SQLite.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from pathlib import Path
from urllib.parse import quote

from derive.store.database import _SCHEMA_VERSION, Database


class ReadOnlyDatabase(Database):
    """Answers as :class:`Database` does; what would write is refused.

    SQLite reads a database in WAL mode only where it can make files beside it, or where they lie there already, or
    when it is told that nobody writes. What fits none of these, or is of an earlier version, is read from a copy.
    """

    def _open(self) -> sqlite3.Connection:
        for options in ("mode=ro", "mode=ro&immutable=1"):
            if "immutable" in options and _size(Path(f"{self._path}-wal")):
                continue  # rows that only the log holds would not be seen
            url = f"file:{quote(str(self._path))}?{options}"
            try:
                connection = sqlite3.connect(url, uri=True, isolation_level=None, check_same_thread=False)
                version = connection.execute("PRAGMA user_version").fetchone()[0]
            except sqlite3.OperationalError:
                continue
            if version == _SCHEMA_VERSION:
                return connection
            connection.close()
        return self._open_copy()

    def _open_copy(self) -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        with tempfile.TemporaryDirectory(prefix="derive-") as folder:
            copy = Path(folder) / "derive.sqlite"
            for suffix in ("", "-wal"):
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(f"{self._path}{suffix}", f"{copy}{suffix}")
            opened = Database(copy)
            try:
                with opened.cursor() as cursor:
                    cursor.connection.backup(connection)
            finally:
                opened.close()
        connection.execute("PRAGMA query_only=ON")
        return connection


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
