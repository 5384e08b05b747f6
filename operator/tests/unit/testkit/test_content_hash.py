"""A content hash changes with the content and with nothing else."""

import os
from pathlib import Path

import pytest

from testkit.content_hash import build_once, content_hash


def _tree(root: Path) -> Path:
    (root / "sub").mkdir(parents=True)
    (root / "a.txt").write_text("a")
    (root / "sub" / "b.txt").write_text("b")
    return root


def test_equal_content_has_an_equal_hash_at_any_place_and_time(tmp_path: Path) -> None:
    one, two = _tree(tmp_path / "one"), _tree(tmp_path / "two")
    os.utime(one / "a.txt", (0, 0))
    assert content_hash("x", one) == content_hash("x", two)


def test_the_caches_of_python_do_not_count(tmp_path: Path) -> None:
    tree = _tree(tmp_path / "one")
    before = content_hash(tree)
    (tree / "__pycache__").mkdir()
    (tree / "__pycache__" / "a.cpython-311.pyc").write_bytes(b"x")
    assert content_hash(tree) == before


def test_content_names_and_modes_count(tmp_path: Path) -> None:
    names = {content_hash(_tree(tmp_path / "same"))}
    changed = _tree(tmp_path / "changed")
    (changed / "a.txt").write_text("A")
    names.add(content_hash(changed))
    renamed = _tree(tmp_path / "renamed")
    (renamed / "a.txt").rename(renamed / "c.txt")
    names.add(content_hash(renamed))
    executable = _tree(tmp_path / "executable")
    (executable / "a.txt").chmod(0o755)
    names.add(content_hash(executable))
    assert len(names) == 4


def test_the_boundaries_of_texts_count() -> None:
    assert content_hash("ab", "c") != content_hash("a", "bc")
    assert content_hash(["ab", "c"]) != content_hash(["a", "bc"])


def test_a_failed_build_leaves_nothing_and_can_be_repeated(tmp_path: Path) -> None:
    target = tmp_path / "made"

    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        build_once(target, fail)
    assert list(tmp_path.iterdir()) == []
    build_once(target, lambda folder: (folder / "whole").touch())
    assert (target / "whole").exists()


def test_a_folder_is_built_once(tmp_path: Path) -> None:
    made: list[Path] = []
    for _ in range(2):
        build_once(tmp_path / "made", made.append)
    assert len(made) == 1
