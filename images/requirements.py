"""Print what the package and one of its extras require, one requirement a line.

An image can so install the requirements in a layer of their own, before the package.
Usage: requirements.py PYPROJECT EXTRA
"""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(sys.argv[1]).read_text())["project"]
wanted = [*project["dependencies"], *project["optional-dependencies"][sys.argv[2]]]
sys.stdout.writelines(f"{requirement}\n" for requirement in wanted)
