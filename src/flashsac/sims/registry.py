"""The simulators that are installed as plug-ins, ours and other people's, and the choice among them for a task."""

from __future__ import annotations

import functools
import sys
from importlib.metadata import EntryPoint, entry_points

from flashsac.config.schema import EnvConfig
from flashsac.errors import FlashSACError, MissingExtra
from flashsac.sims.simulator import Simulator, Task
from flashsac.system.suggest import did_you_mean

GROUP = "flashsac.simulators"
"""The entry-point group. Each entry names a `Simulator` record: hover = "flashsac_hover:SIMULATOR"."""
OURS = "flashsac"


@functools.cache
def simulators() -> dict[str, Simulator]:
    """All simulators by name, ours first. A plug-in of somebody else's that cannot be loaded is left out, with a
    note."""
    found: dict[str, Simulator] = {}
    homes: dict[str, str] = {}
    entries = [(entry.dist.name if entry.dist else entry.value, entry) for entry in entry_points(group=GROUP)]
    for home, entry in sorted(entries, key=lambda pair: (pair[0] != OURS, pair[1].name)):
        record = _load(entry, home)
        if record is None:
            continue
        if record.name in found:
            raise FlashSACError(
                f"two plug-ins bring a simulator called '{record.name}': {homes[record.name]} and {home}. Uninstall one of them."
            )
        found[record.name], homes[record.name] = record, home
    if OURS not in homes.values():
        raise FlashSACError(
            "the simulators that come with flashsac are not registered: it was installed before they were plug-ins. Install it "
            "again, in its directory: pip install -e ."
        )
    return found


def _load(entry: EntryPoint, home: str) -> Simulator | None:
    try:
        record = entry.load()
    except Exception as error:  # whatever somebody else's module does when it is imported
        if home == OURS:
            raise FlashSACError(
                f"flashsac's own simulator '{entry.name}' cannot be loaded ({error}). If the source code is newer than the "
                "installation, install it again, in its directory: pip install -e ."
            ) from error
        problem = f"{type(error).__name__}: {error}"
    else:
        if isinstance(record, Simulator):
            return record
        problem = f"{entry.value} is a {type(record).__name__}, not a flashsac.sims.simulator.Simulator"
    print(f"note: the simulator plug-in '{entry.name}' of the package {home} is left out: {problem}", file=sys.stderr)
    return None


def distributions() -> list[str]:
    """Packages of all simulators that may change a result."""
    return list(dict.fromkeys(name for simulator in simulators().values() for name in simulator.distributions))


def with_options() -> list[str]:
    """Names of the simulators that take `--env.options`."""
    return [name for name, simulator in simulators().items() if simulator.takes_options]


def choose_simulator(task: Task, config: EnvConfig) -> Simulator:
    """The simulator that `config.engine` names, or for "auto" the best that is installed."""
    known = simulators()
    if config.engine == "auto":
        # The fast one first; for a single environment the one that resumes exactly.
        order = sorted(task.engines, key=lambda name: known[name].preferred_for_one != (config.num_envs == 1))
    elif config.engine in task.engines:
        order = [config.engine]
    else:
        hint = "" if config.engine in known else did_you_mean(config.engine, known)
        raise FlashSACError(
            f"{task.full_name} does not run on {config.engine}; it runs on {', '.join(task.engines)}.{hint}"
        )
    for name in order:
        if known[name].packages[task.suite].installed:
            return known[name]
    packages = [known[name].packages[task.suite] for name in order]
    raise MissingExtra(
        f"{task.full_name} needs a package that is not installed ({' or '.join(package.module for package in packages)}). Install it "
        f"with: {' or '.join(package.install for package in packages)}"
    )
