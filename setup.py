"""Build step of the wheel: it carries notebooks/, studies/ and the example run, from which `loadbook init` copies, and
the documentation as a site, which `loadbook docs` shows.

Everything else of the build is in pyproject.toml. An editable installation (`pip install -e .`) copies nothing: there
`loadbook init` reads the clone itself.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CLONE = Path(__file__).parent
SHIPPED_FOLDERS = ("notebooks", "studies", "data/example", "data/example-sizes")  # the same as in lib/loadbook/cli/studies.py
IGNORED_NAMES = shutil.ignore_patterns(".ipynb_checkpoints", "__pycache__", ".ingest")


class BuildWithProjectFiles(build_py):
    """Build the package, then copy the shipped folders and the documentation into `loadbook/project`."""

    def run(self) -> None:
        """Copy them as they are now; what an earlier build left is removed."""
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib) / "loadbook" / "project"
        shutil.rmtree(target, ignore_errors=True)
        for folder in SHIPPED_FOLDERS:
            shutil.copytree(CLONE / folder, target / folder, ignore=IGNORED_NAMES)
        with tempfile.TemporaryDirectory() as cache:
            sphinx = [sys.executable, "-m", "sphinx", "-q", "-d", cache, "-c", str(CLONE / "docs")]
            subprocess.run([*sphinx, str(CLONE), str(target / "docs")], check=True)


setup(cmdclass={"build_py": BuildWithProjectFiles})
