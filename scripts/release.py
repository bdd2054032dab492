"""Build a release into dist/: sdist, wheel, a bill of materials (CycloneDX), checksums. `make release` runs it in
.venv.

The wheel is tried in an environment of its own. Into it come only files whose hashes were verified, and torch; what is
installed there in the end is what the bill of materials lists.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
PIP = [sys.executable, "-m", "pip", "--quiet"]
HASHED = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--requirement"]


def main() -> None:
    """All steps in turn; the first that fails ends it."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "hatchling", "build", "--directory", DIST)
    version = ProjectMetadata(str(ROOT), PluginManager()).version
    with tempfile.TemporaryDirectory() as folder:
        check_sdist(Path(folder), version)
        python = install_wheel(Path(folder), version)
        try_wheel(python, version)
        bill_of_materials(Path(folder), python, version)
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(DIST.iterdir())]
    (DIST / "SHA256SUMS").write_text("".join(sums))
    print(*sorted(file.name for file in DIST.iterdir()), sep="\n")


def check_sdist(folder: Path, version: str) -> None:
    """The sdist alone must give the same wheel."""
    shutil.unpack_archive(DIST / f"flashsac-{version}.tar.gz", folder, filter="data")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder / "again"]
    run(*build, cwd=folder / f"flashsac-{version}")
    ours, again = (sums_inside(next(place.glob("*.whl"))) for place in (DIST, folder / "again"))
    if different := sorted({name for name, _ in ours ^ again}):
        sys.exit(f"the sdist gives another wheel; these files differ: {', '.join(different)}")


def sums_inside(wheel: Path) -> set[tuple[str, int]]:
    """Names and checksums of the files in a wheel, but not of the list of them."""
    with zipfile.ZipFile(wheel) as archive:
        return {(file.filename, file.CRC) for file in archive.infolist() if not file.filename.endswith("/RECORD")}


def install_wheel(folder: Path, version: str) -> Path:
    """The wheel with all its extras in an environment of its own; returns its Python."""
    wheels, scratch = folder / "wheels", folder / "scratch"
    run(*PIP, "download", "--dest", wheels, "--constraint", ROOT / "constraints.txt", "torch")
    run(*PIP, "download", "--dest", wheels, *HASHED, ROOT / "requirements.lock")
    venv.create(scratch, symlinks=True)
    python = scratch / "bin" / "python"
    offline = ["--no-index", "--find-links", wheels, "--find-links", DIST]
    run(*PIP, "--python", python, "install", *offline, f"flashsac[all]=={version}")
    return python


def try_wheel(python: Path, version: str) -> None:
    """The commands that need nothing but the wheel, away from the sources."""
    run(*PIP, "--python", python, "check")
    command = python.with_name("flashsac")
    said = run(command, "--version", cwd=python.parent)
    if said != f"flashsac {version}\n":
        sys.exit(f"the wheel says that it is {said!r}, not {version}")
    if "mujoco" not in run(command, "list", cwd=python.parent):
        sys.exit("the wheel lists no tasks")


def bill_of_materials(folder: Path, python: Path, version: str) -> None:
    """What is installed beside the wheel. The same environment gives the same file."""
    tools, out = folder / "tools", DIST / f"flashsac-{version}.cdx.json"
    venv.create(tools, symlinks=True)
    run(*PIP, "--python", tools / "bin" / "python", "install", *HASHED, ROOT / "constraints" / "release.lock")
    options = ["--pyproject", ROOT / "pyproject.toml", "--output-format", "JSON", "--output-reproducible"]
    run(tools / "bin" / "cyclonedx-py", "environment", *options, "--output-file", out, python)
    content = json.loads(out.read_text())
    content["metadata"]["component"]["version"] = version  # pyproject.toml does not hold it
    out.write_text(json.dumps(content, indent=2) + "\n")


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


if __name__ == "__main__":
    main()
