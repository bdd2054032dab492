"""python -m flashsac"""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the current directory, which `python -m` puts first: a numpy.py that lies there is not NumPy

from flashsac.cli.main import main

sys.exit(main())
