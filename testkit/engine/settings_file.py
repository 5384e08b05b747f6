"""Settings files that processes share: another one may read or mount such a file right now."""

import tempfile
from pathlib import Path

from testkit.file_lock import file_lock


def write_settings(path: Path, text: str) -> None:
    """Writes a settings file, unless it has this text already.

    The file is never half written. Nor is an equal file replaced: an image build mounts it, and
    Linux mounts no file that has lost its name (ENOENT).
    """
    with file_lock("settings"):
        if path.exists() and path.read_text() == text:
            return
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as draft:
            draft.write(text)
        Path(draft.name).replace(path)
