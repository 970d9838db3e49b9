"""``python -m livesvm.service.demo`` runs the demonstration."""

import sys

from livesvm.service.demo.main import main

sys.exit(main())
