"""Try a wheel alone, in an empty environment and an empty folder: train, list, export, report.

    python scripts/try_wheel.py dist/flashsac-0.2.0-py3-none-any.whl --python python3.12

Prints the seconds that each command took. torch comes in the build that the package index serves for that Python. With
--installed-torch it is the one that this Python has already, such as a CPU build from a Linux distribution.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = (
    "--version",
    "list",
    "train gym:Pendulum-v1 --preset laptop --steps 8000 --run-dir runs/pendulum",
    "eval runs/pendulum --episodes 5",
    "export runs/pendulum --out runs/pendulum.onnx",
    "report runs/pendulum --out runs/curves",
)
EXPECTED = ("runs/pendulum/videos/final.mp4", "runs/pendulum.onnx", "runs/curves/gym-Pendulum-v1.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", default=sys.executable, help="the Python to try it with")
    parser.add_argument("--installed-torch", action="store_true", help="take the torch that this Python has already")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment, constraints = Path(folder) / "environment", Path(folder) / "constraints.txt"
        pins = (ROOT / "constraints.txt").read_text()
        if options.installed_torch:
            pins = re.sub(r"^torch==.*\n", "", pins, flags=re.MULTILINE)
        constraints.write_text(pins)
        run(options.python, "-m", "venv", *["--system-site-packages"] * options.installed_torch, environment)
        python = environment / "bin" / "python"
        pip = [python, "-m", "pip", "install", "--quiet", "--constraint", constraints]
        if not options.installed_torch:
            timed("install torch", *pip, "torch")
        timed("install the wheel", *pip, f"{options.wheel.resolve()}[gym,export]")
        versions = "import platform, torch; print('Python', platform.python_version(), 'with torch', torch.__version__)"
        print(run(python, "-c", versions).strip(), flush=True)
        place = Path(folder) / "empty"
        place.mkdir()
        for command in COMMANDS:
            timed(f"flashsac {command}", environment / "bin" / "flashsac", *command.split(), cwd=place)
        missing = [name for name in EXPECTED if not (place / name).exists()]
        if missing:
            sys.exit(f"the commands ended well, but did not write {', '.join(missing)}")
    print("the wheel works alone")


def timed(label: str, *command: str | Path, cwd: Path | None = None) -> None:
    start = time.monotonic()
    last = (run(*command, cwd=cwd).strip().splitlines() or [""])[-1]
    print(f"{time.monotonic() - start:6.1f} s  {label}  [{last[:80]}]", flush=True)


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a command away from the sources; the first that fails ends the script with its output."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


if __name__ == "__main__":
    main()
