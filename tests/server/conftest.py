from __future__ import annotations

from pathlib import Path

import pytest

from support.certificates import ServerFiles, write_certificate


@pytest.fixture
def server_files(tmp_path: Path) -> ServerFiles:
    return write_certificate(tmp_path / "server")
