"""``python -m jfstat`` is the command line."""

import sys

from jfstat.commandline import main

sys.exit(main())
