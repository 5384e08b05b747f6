"""Names from content: equal inputs give an equal name, so nothing is built twice."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

_IGNORED = {"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"}


def files_under(root: Path) -> list[Path]:
    """Every input file below a folder (or the file itself), in a fixed order."""
    if root.is_file():
        return [root]
    found = (path for path in root.rglob("*") if path.is_file())
    return sorted(
        path
        for path in found
        if not _IGNORED.intersection(path.relative_to(root).parts)
        and not any(part.endswith(".egg-info") for part in path.relative_to(root).parts)
        and path.suffix not in (".pyc", ".jar")  # compiled
    )


def content_hash(*inputs: str | Path | Iterable[str]) -> str:
    """Twelve hex digits that change when any input changes: a text, a file, or a whole folder."""
    digest = hashlib.sha256()

    def add(tag: str, data: bytes) -> None:
        digest.update(f"{tag}:{len(data)}:".encode())
        digest.update(data)

    for item in inputs:
        if isinstance(item, Path):
            _add_path(item, add)
        elif isinstance(item, str):
            add("text", item.encode())
        else:
            add("list", "\0".join(item).encode())
    return digest.hexdigest()[:12]


def _add_path(root: Path, add: Callable[[str, bytes], None]) -> None:
    for path in files_under(root):
        name = path.name if path == root else path.relative_to(root).as_posix()
        mode = "x" if os.access(path, os.X_OK) else "-"
        add(f"file {name} {mode}", path.read_bytes())


def build_once(target: Path, build: Callable[[Path], None]) -> Path:
    """Makes the folder `target` with `build(folder)`, unless it exists; never an incomplete one.

    Two processes that build the same folder at once both succeed: the first result is kept.
    """
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        build(work)
        try:
            work.rename(target)
        except OSError:
            if not target.exists():
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target
