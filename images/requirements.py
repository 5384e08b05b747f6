"""Prints the requirements of the package and of one extra, one per line.

So an image can install the requirements in a layer before the package.
Usage: requirements.py PYPROJECT EXTRA
"""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(sys.argv[1]).read_text())["project"]
wanted = [*project["dependencies"], *project["optional-dependencies"][sys.argv[2]]]
sys.stdout.writelines(f"{requirement}\n" for requirement in wanted)
