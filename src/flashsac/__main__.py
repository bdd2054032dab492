"""python -m flashsac"""

import sys

from flashsac.cli.main import main

sys.exit(main())
