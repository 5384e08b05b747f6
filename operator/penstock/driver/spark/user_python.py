"""Python code of a stream: the functions of transform and sink, a data source's class."""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import traceback
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.api.v1alpha1.base import PythonFunction
from penstock.driver.failures import DriverError, Failure
from penstock.driver.secret_values import read

_OF_TEXT = "__penstock_text__"
"""In a module that was made of one."""
FAILED = "PythonFailed"


def check_text(function: PythonFunction, texts: Path) -> None:
    """Raises DriverError if a ConfigMap that the function names is missing."""
    ref = function.config_map
    if ref is not None and not (texts / ref.name / ref.key).is_file():
        raise DriverError(
            Failure(
                "ConfigMapMissing",
                f"The ConfigMap {ref.name} has no key {ref.key}, or does not exist. Create it in "
                "the stream's namespace, and the stream starts by itself.",
                permanent=True,
                recoverable=True,
            )
        )


def load_function(function: PythonFunction, texts: Path) -> Any:
    """What the spec names; `texts` is the ConfigMaps' folder."""
    module, _, name = function.function.partition(":")
    if function.inline is not None:
        return _member(_from_text(module, function.inline, "inline"), name)
    if function.config_map is not None:
        check_text(function, texts)
        file = texts / function.config_map.name / function.config_map.key
        return _member(_from_text(module, file.read_text(), file.name), name)
    return load_member(function.function)


def load_member(path: str) -> Any:
    """`module:name`, imported from the image."""
    module, _, name = path.partition(":")
    _forget_text(module)
    try:
        imported = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise python_error(error, f"import of {module}") from error
    return _member(imported, name)


def with_secret_options(source: type[Any], name: str, files: str) -> type[Any]:
    """A subclass of a data source whose options have the values of Secrets.

    `name` is the option with the paths of their files, as JSON, and `files` its value. A file that
    goes holds what it holds now: Spark makes a sink anew for each batch. The class is pickled by
    value, imports nothing of Penstock's, and has a name of its own, since the other end of a stream
    may have the data source without secret options.
    """
    contents = {path: read(Path(path)) for path in json.loads(files).values()}

    def value(path: str) -> str:
        try:
            # Without the line break that an editor leaves at the end.
            return Path(path).read_bytes().decode().rstrip("\r\n")
        except FileNotFoundError:
            return contents[path]

    def begin(self: Any, options: Any) -> None:
        resolved = options.copy()
        paths = json.loads(resolved.pop(name))
        resolved.update({option: value(path) for option, path in paths.items()})
        source.__init__(self, resolved)

    names = {
        "__init__": begin,
        "__module__": "__main__",
        "name": classmethod(lambda cls: f"{source.name()}_with_secrets"),
    }
    return type(source.__name__, (source,), names)


def python_error(error: BaseException, what: str) -> DriverError:
    """The failure for an exception of the user's Python: the same code would raise it again.

    The code runs while the query is planned, before any record is read, so its message can be
    shown.
    """
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    words = str(error).splitlines()[:1]
    return DriverError(
        Failure(
            FAILED,
            f"{what} failed: {': '.join([type(error).__name__, *words])}{where}",
            permanent=True,
        )
    )


def _from_text(name: str, text: str, origin: str) -> types.ModuleType:
    """A module made of a text. Executors cannot import it, so its members are pickled by value."""
    from pyspark import cloudpickle

    module = types.ModuleType(name)
    module.__file__ = origin
    module.__dict__[_OF_TEXT] = True
    before = sys.modules.get(name)
    sys.modules[name] = module  # where its own classes look for it (dataclasses, typing)
    try:
        exec(compile(text, origin, "exec"), module.__dict__)  # noqa: S102 - this is the feature
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before
        raise python_error(error, f"the module {name}") from error
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module


@contextlib.contextmanager
def without_effect() -> Iterator[None]:
    """Undoes in the end what the block makes of texts: those of an edit that is only judged."""
    from pyspark import cloudpickle

    before = dict(sys.modules)
    try:
        yield
    finally:
        after = list(sys.modules.items())
        made = {name for name, it in after if _is_of_text(it) and before.get(name) is not it}
        for name in made:
            _forget_text(name)
        for name, module in before.items():
            if name in made or (_is_of_text(module) and sys.modules.get(name) is not module):
                sys.modules[name] = module
                if _is_of_text(module):
                    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _is_of_text(module: types.ModuleType | None) -> bool:
    return isinstance(module, types.ModuleType) and _OF_TEXT in module.__dict__


def _forget_text(name: str) -> None:
    """Forgets a module of this name that an earlier spec, or an edit, has made of a text."""
    from pyspark import cloudpickle

    module = sys.modules.get(name)
    if module is not None and _is_of_text(module):
        cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]
        del sys.modules[name]


def _member(module: types.ModuleType, name: str) -> Any:
    try:
        return getattr(module, name)
    except AttributeError as error:
        raise DriverError(
            Failure(FAILED, f"the module {module.__name__} has no {name}", permanent=True)
        ) from error
