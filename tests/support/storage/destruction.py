"""Loss of the directory of a broker that was killed."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path


def destroy_store(store: Path) -> None:
    """Delete the directory of a broker that was killed; no file of it is left for the next one.

    The process that inspects a snapshot in it may outlive the broker for a moment, and add a file meanwhile. So the
    directory gets another name first. Raises ``FileNotFoundError`` without a directory.
    """
    gone = Path(tempfile.mkdtemp(prefix=f"{store.name}-gone-", dir=store.parent))
    store.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)
