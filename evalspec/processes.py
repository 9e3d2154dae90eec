"""What every child process of ours needs: to find this package, and to end when its parent does."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import sysconfig
from pathlib import Path

PR_SET_PDEATHSIG = 1


def import_path() -> dict[str, str]:
    """The environment in which a child finds this very package, also when it is not installed."""
    here = Path(__file__).resolve().parents[1]
    # Where it is installed the child finds it anyway, and its folder must not come before the standard library's.
    if here in (Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")):
        return {}
    return {"PYTHONPATH": os.pathsep.join([str(here), *filter(None, [os.environ.get("PYTHONPATH")])])}


def die_with_parent(parent: int) -> None:
    """Ask Linux to kill this process when its parent ends; elsewhere a closed channel has to end it."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
