"""Penstock's images. Their tags are hashes of the content that they are built from."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testkit.commands import print_progress
from testkit.content_hash import content_hash, files_under
from testkit.engine.container_engine import engine
from testkit.errors import ClusterError
from testkit.images.base_image import ensure_base
from testkit.paths import CHECKOUT, cache_dir
from testkit.tools.pins import debian_release

_KEPT = 3
# Engines also compare times when they decide whether a cached layer is still valid.
_FIXED_TIME = 1_577_836_800
_DIGEST = re.compile(r"^(FROM \S+)@sha256:[0-9a-f]{64}", re.MULTILINE)


@dataclass(frozen=True)
class _Recipe:
    dockerfile: str
    inputs: tuple[str, ...]
    blank: tuple[str, ...] = ()
    """Files that must exist but whose content does not matter."""


_CONNECTOR = ("connector/build", "connector/resources", "connector/src")
_PACKAGE = ("images/build-requirements.txt", "pyproject.toml", "operator/penstock")
_RECIPES = {
    "operator": _Recipe(
        "images/operator/Dockerfile", ("images/operator", *_PACKAGE), ("README.md",)
    ),
    "spark": _Recipe(
        "images/spark/Dockerfile", ("images/spark", *_CONNECTOR, *_PACKAGE), ("README.md",)
    ),
    "kafka": _Recipe(
        "testkit/kafka/image/Dockerfile",
        (
            "testkit/kafka/image/Dockerfile",
            "testkit/kafka/image/entrypoint.sh",
            "testkit/kafka/image/pom.xml",
            "operator/penstock/local/kafka/server.properties",
        ),
    ),
}


def image_names() -> list[str]:
    return list(_RECIPES)


def image_ref(name: str) -> str:
    """The reference of an image with the content of this checkout."""
    if name not in _RECIPES:
        raise ClusterError(f"There is no image {name}; known: {', '.join(_RECIPES)}")
    recipe = _RECIPES[name]
    inputs = [CHECKOUT / part for part in recipe.inputs]
    return f"localhost/penstock/{name}:{content_hash(recipe.dockerfile, *inputs)}"


def build_images(which: Sequence[str]) -> dict[str, str]:
    """Builds the images whose content is new, and returns the references of all."""
    refs = {name: image_ref(name) for name in which}
    missing = [name for name, ref in refs.items() if not engine().has_image(ref)]
    if missing:
        ensure_base(debian_release("images"))

    # Two at a time: a build mostly downloads, or unpacks on one core.
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: build_as(name, refs[name]), missing))
    _remove_old_images(missing)
    return refs


def example_names() -> list[str]:
    """The examples that need an image of their own."""
    return sorted(path.parent.name for path in (CHECKOUT / "examples").glob("*/Dockerfile"))


def build_example_images(spark: str) -> dict[str, str]:
    """Builds the examples' images on a Spark image, as their READMEs say; returns references."""
    refs = {}
    for name in example_names():
        folder = CHECKOUT / "examples" / name
        image = f"example-{name}"
        refs[name] = f"localhost/penstock/{image}:{content_hash(spark, folder)}"
        if not engine().has_image(refs[name]):
            ensure_base(debian_release("images"))
            print_progress(f"building {refs[name]}")
            engine().build(folder, folder / "Dockerfile", refs[name], SPARK_IMAGE=spark)
            _remove_old_images([image])
    return refs


def build_as(name: str, ref: str, *, base_by_digest: bool = False, **arguments: str) -> None:
    """Builds an image under this reference, with these values of its Dockerfile's ARGs.

    Tests take the base image by its tag: one that was built here has no such digest.
    """
    ensure_base(debian_release("images"))
    print_progress(f"building {ref}")
    with _context(_RECIPES[name]) as context:
        dockerfile = context / _RECIPES[name].dockerfile
        if not base_by_digest:
            dockerfile.write_text(_DIGEST.sub(r"\1", dockerfile.read_text()))
            os.utime(dockerfile, (_FIXED_TIME, _FIXED_TIME))
        engine().build(context, dockerfile, ref, **arguments)


@contextmanager
def _context(recipe: _Recipe) -> Iterator[Path]:
    """A folder with only the inputs, with fixed modes and times."""
    folder = Path(tempfile.mkdtemp(prefix="context-", dir=cache_dir("engine")))
    try:
        for part in recipe.inputs:
            for path in files_under(CHECKOUT / part):
                copy = folder / path.relative_to(CHECKOUT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)
        for part in recipe.blank:
            (folder / part).touch()
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
            os.utime(path, (_FIXED_TIME, _FIXED_TIME))
        yield folder
    finally:
        shutil.rmtree(folder)


def _remove_old_images(names: Sequence[str]) -> None:
    """Removes all but the newest images of each name, since each change of our code makes one."""
    for name in names:
        engine().remove_images(engine().images(f"localhost/penstock/{name}")[_KEPT:])
