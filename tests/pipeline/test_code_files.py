"""Files that count as a model's own code: not those of the interpreter, wherever its links lead."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import importlib.util, sys, sysconfig
from pathlib import Path
from evalspec.pipeline import code_files

library, own = Path(sys.argv[1]), Path(sys.argv[2])
paths = sysconfig.get_paths()
sysconfig.get_paths = lambda: paths | {"stdlib": str(library), "platstdlib": str(library)}
watch = code_files.CodeFiles([own])
with watch.watching():
    for path in (library / "sitecustomize.py", library / "site-packages" / "linked.py", own / "model.py"):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
for path in watch.digests():
    if str(own.parent) in path:
        sys.stdout.write(Path(path).name + "\\n")
"""


def test_a_link_from_the_standard_library_is_the_interpreters_and_one_from_site_packages_is_not(
    tmp_path: Path,
) -> None:
    """Debian keeps ``sitecustomize`` under /etc; a package that is installed by a link is worked on where it lies."""
    library, own, elsewhere = tmp_path / "library", tmp_path / "own", tmp_path / "elsewhere"
    for folder in (library / "site-packages", own, elsewhere):
        folder.mkdir(parents=True)
    for path in (elsewhere / "sitecustomize.py", elsewhere / "linked.py", own / "model.py"):
        path.write_text("ONE = 1\n")
    (library / "sitecustomize.py").symlink_to(elsewhere / "sitecustomize.py")
    (library / "site-packages" / "linked.py").symlink_to(elsewhere / "linked.py")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, library, own], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == ["linked.py", "model.py"]
