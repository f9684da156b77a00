"""Where the simulated management cluster is known to differ from the real one, and why it stays so."""

from __future__ import annotations

# A check's name (`module::test[parameters]`, without the side) and the reason.
DIFFERS: dict[str, str] = {}
