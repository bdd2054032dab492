"""Names that are not in tasks.csv: which are for a simulator to judge, and which are mistakes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flashsac.errors import FlashSACError, UnknownTask, UnsupportedSpace
from flashsac.sims.catalog import check_task, find_task, suites, tasks
from flashsac.sims.envs.maniskill import _registered
from flashsac.sims.envs.mjlab import _check_trainable
from flashsac.sims.registry import simulators


@pytest.mark.parametrize("suite", [name for name, suite in suites().items() if suite.has_more])
def test_simulators_with_more_tasks_than_we_list_are_asked(suite):
    found = find_task(f"{suite}:Somebodys-Robot-v0")
    assert found is not None
    assert (found.full_name, found.own_id, found.engines) == (
        f"{suite}:Somebodys-Robot-v0",
        "Somebodys-Robot-v0",
        (suite,),
    )
    assert found.obs is found.action is None
    assert suite in simulators()[found.engines[0]].packages
    check_task(f"{suite}:Somebodys-Robot-v0")


@pytest.mark.parametrize(
    "task",
    [
        "mujoco:HalfCheetah-v9",
        "playground:G1Joystick",
        "genesis:go3-walk",
        "maniskill:",
        "isaaclab:somebodys_module:Isaac-Velocity-Flat-G1-v0",  # Gymnasium would import the module
    ],
)
def test_elsewhere_the_table_is_complete(task):
    assert find_task(task) is None
    with pytest.raises(UnknownTask, match="flashsac list"):
        check_task(task)


def test_what_is_no_task_of_ours():
    assert find_task("dmc:walker-walk") == tasks()["dmc:walker-walk"]
    for other in ("gym:Acrobot-v1", "my_module:make_env", lambda: None, [], None):
        assert find_task(other) is None


def test_maniskill_names_the_nearest_and_what_has_no_reward():
    entry = lambda *modes: SimpleNamespace(cls=SimpleNamespace(SUPPORTED_REWARD_MODES=modes))
    known = {"PullCube-v1": entry("normalized_dense", "none"), "Empty-v1": entry("none")}
    assert _registered("PullCube-v1", known) is known["PullCube-v1"]
    with pytest.raises(UnknownTask, match="Did you mean maniskill:PullCube-v1"):
        _registered("PullCub-v1", known)
    with pytest.raises(FlashSACError, match="no reward"):
        _registered("Empty-v1", known)


@pytest.mark.parametrize("name", ["Somebodys-Robot", "Somebodys-Robot-FlashSAC"])
def test_mjlab_tasks_that_cannot_be_trained_by_name(name):
    task = find_task(f"mjlab:{name}")
    assert task is not None
    groups = SimpleNamespace(obs_groups={"actor": ("actor",)})
    still, tracking = (
        SimpleNamespace(commands={"motion": SimpleNamespace(motion_file=file)}) for file in ("a.npz", "")
    )
    _check_trainable(task, still, groups)
    with pytest.raises(UnsupportedSpace, match="obs_groups"):
        _check_trainable(task, still, SimpleNamespace())
    with pytest.raises(FlashSACError, match="train Somebodys-Robot-FlashSAC --env.commands.motion.motion-file"):
        _check_trainable(task, tracking, groups)
