"""
`make bench`: runs each measurement of this folder, one after the other, and prints what it says.

Names narrow it, and what begins with a dash goes to each of them: `python -m bench p1 p3 --large`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main(arguments: list[str]) -> int:
    split = next((index for index, word in enumerate(arguments) if word.startswith("-")), len(arguments))
    names, options = arguments[:split], arguments[split:]
    scripts = sorted((*HERE.glob("p[0-9]*.py"), HERE / "plane.py"), key=_order)
    chosen = [path for path in scripts if not names or path.stem.partition("_")[0] in names or path.stem in names]
    if not chosen:
        print(f"There is no measurement of that name. There are: {', '.join(path.stem for path in scripts)}.", file=sys.stderr)
        return 2
    broken = []
    for path in chosen:
        print(f"== {path.stem}", flush=True)
        if subprocess.run([sys.executable, str(path), *options], check=False).returncode != 0:
            broken.append(path.stem)
        print(flush=True)
    if broken:
        print(f"Not measured: {', '.join(broken)}.", file=sys.stderr)
    return 1 if broken else 0


def _order(path: Path) -> tuple[int, str]:
    number = path.stem.partition("_")[0].removeprefix("p")
    return (int(number) if number.isdecimal() else 0, path.stem)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
