"""Files: checked before the work whose result goes there, written whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from flashsac.errors import FlashSACError


def check_writable(flag: str, path: Path) -> None:
    """Before the work whose result shall go there."""
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path.parent):
                pass
    except OSError as error:
        raise FlashSACError(f"{flag} {path} cannot be written ({error.strerror}). Name another file.") from None
