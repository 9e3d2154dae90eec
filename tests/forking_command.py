"""``evalspec`` in a process of its own, whose children are forked off the server of a test (`tests.forked`).

    python -P forking_command.py ADDRESS ARGUMENT...

For tests of what commands say that a page shows; how processes start and end is tested with real ones.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[1]))

    from evalspec import processes
    from evalspec.cli import main
    from tests import forked

    forked.join(sys.argv.pop(1))
    vars(processes)["subprocess"] = forked
    sys.argv[0] = "evalspec"
    main()
