"""What `penstock-streams[driver]` installs is enough for pyspark's own modules."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

# Spark Connect and pipelines (a client of another Spark), PyTorch and plots: no stream needs them.
_LEFT_OUT = {"grpc", "matplotlib", "torch", "yaml"}

_IMPORT_ALL = """
import importlib, json, pkgutil, sys, warnings
import pyspark

def modules(package):
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        # The shell starts a JVM; the tests are Spark's own.
        if module.name == "pyspark.shell" or module.name.endswith((".tests", ".__main__")):
            continue
        yield module.name
        if module.ispkg and (imported := sys.modules.get(module.name)):
            yield from modules(imported)

missing = {}
warnings.simplefilter("ignore")
for name in modules(pyspark):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing[name] = error.name
    except ImportError as error:  # of pyspark, which names the package that it needs
        missing[name] = "grpc" if "grpcio" in str(error) else str(error)
json.dump(missing, sys.stdout)
"""


def test_every_module_of_pyspark_that_a_stream_may_use_can_be_imported(tmp_path: Path) -> None:
    """transformWithStateInPandas needs protobuf in Spark's workers, where nothing names it."""
    file = tmp_path / "import_all.py"  # a main module without a file is a doctest to pyspark
    file.write_text(_IMPORT_ALL)
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=True)
    missing: dict[str, str] = json.loads(done.stdout)
    assert {name: module for name, module in missing.items() if module not in _LEFT_OUT} == {}
