"""``python -m relcode`` is the command ``relcode``."""

import sys

from relcode.cli import main

if __name__ == "__main__":
    sys.exit(main())
