"""python -m flashsac"""

import sys

from flashsac.cli import main

sys.exit(main())
