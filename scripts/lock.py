"""Write the lock files: the versions of constraints.txt, with the hashes of all their files in the public registry.

Run it after a change of constraints.txt or of a dependency in pyproject.toml: python scripts/lock.py (needs uv: pip
install uv). Each lock holds for Python 3.11 and later, on every system.

requirements.lock           the main environment, for `make setup`
constraints/release.lock    what makes the SBOM, for `make release`
constraints/docs.lock       what builds the documentation, for `make docs`, in the versions of constraints/docs.txt
"""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
RELEASE_TOOLS = "cyclonedx-bom==7.5.0"
HEADER = "# Written by scripts/lock.py; do not edit. Installed with: pip install --require-hashes --no-deps -r {name}\n"
NO_TORCH = """\
# torch is not in here. Machines need different builds of it (CPU, CUDA, ROCm), most of them not from the public registry, so that
# no list of hashes fits all. It is installed after these, by its version in constraints.txt. Its own dependencies are in here, but
# for the CUDA libraries.
"""


def main() -> None:
    """Resolve all three environments again."""
    if shutil.which("uv") is None:
        sys.exit("uv was not found: pip install uv")
    with tempfile.TemporaryDirectory() as folder:
        beside = Path(folder, "beside.in")
        beside.write_text("\n".join(torch_requirements()))
        without = Path(folder, "without-torch.txt")
        without.write_text("torch; sys_platform == 'never'\n")
        lock(
            ROOT / "requirements.lock",
            NO_TORCH,
            [ROOT / "pyproject.toml", beside],
            ["--extra", "dev", "--constraint", ROOT / "constraints.txt", "--override", without],
        )
        tools = Path(folder, "tools.in")
        tools.write_text(RELEASE_TOOLS)
        lock(ROOT / "constraints" / "release.lock", "", [tools], [])
        docs = Path(folder, "docs.in")
        docs.write_text("\n".join(extra("docs")))
        pins = ROOT / "constraints" / "docs.txt"
        lock(ROOT / "constraints" / "docs.lock", "", [docs], ["--constraint", pins])


def extra(name: str) -> list[str]:
    """Return the requirements of an optional part of the package, without those of the package itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project["optional-dependencies"][name]


def torch_requirements() -> list[str]:
    """What the installed torch needs besides the CUDA libraries, which come with its CUDA build only."""
    needs = importlib.metadata.requires("torch") or []
    return [need for need in needs if "extra ==" not in need and not re.match(r"nvidia|cuda|triton", need)]


def lock(out: Path, note: str, sources: list[Path], options: list[str | Path]) -> None:
    """Resolve `sources` into a file."""
    command = [
        "uv",
        "pip",
        "compile",
        *sources,
        *options,
        "--universal",
        "--python-version",
        "3.11",
        "--generate-hashes",
    ]
    command += ["--no-emit-package", "torch", "--no-header", "--no-annotate", "--no-emit-index-url", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    out.write_text(HEADER.format(name=out.relative_to(ROOT)) + note + done.stdout)
    print(f"wrote {out.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
