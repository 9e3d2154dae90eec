"""``python -m evalspec``."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # `-m` looks for modules in the folder that the user stands in before all others: a file there called as a module
    # that is imported later would run without --trust.
    if not sys.flags.safe_path and sys.path and os.path.realpath(sys.path[0]) == os.path.realpath(os.getcwd()):
        del sys.path[0]

    from evalspec.cli import main

    main()
