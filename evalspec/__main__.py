"""``python -m evalspec``."""

from __future__ import annotations

from evalspec.cli import main

if __name__ == "__main__":
    main()
