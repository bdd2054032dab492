"""How well commands are followed is read from the right columns, whatever is hidden from the policy."""

from __future__ import annotations

import csv

import pytest
import torch

from flashsac.config.schema import EnvConfig
from flashsac.sims.make import make_env
from tests.helpers import from_file, tiny_run

pytestmark = pytest.mark.slow

pytest.importorskip("envpool")
followed = from_file("benchmarks/commands_followed.py")
QUIET = ("noise_level=0",)


@pytest.mark.parametrize(("robot", "command"), [("Go1", slice(45, 48)), ("G1", slice(9, 12))])
def test_the_same_for_a_blind_policy(robot, command):
    task = f"playground:{robot}JoystickFlatTerrain"
    envs = [make_env(task, EnvConfig(num_envs=2, options=QUIET, blind=blind)) for blind in (False, True)]
    for env in envs:
        env.reset(1)
    action = torch.full((2, envs[0].spec.action_dim), 0.3)
    sighted, blind = (env.step(action).final_obs for env in envs)
    assert blind["actor"].shape[1] == sighted["actor"].shape[1] - 3
    seen = sighted["actor"]
    expected = torch.cat([seen[:, :2], seen[:, 5:6]], 1)  # velocity comes first, then angular velocity
    for env, obs in zip(envs, (sighted, blind), strict=True):
        asked, done = followed.asked_and_done(obs["critic"], env.spec, task)
        torch.testing.assert_close(asked, seen[:, command])
        torch.testing.assert_close(done, expected, atol=1e-5, rtol=0.0)
        env.close()
    assert asked.abs().max() > 0
    assert done.abs().max() > 0.05


def test_a_run_without_privileged_observations(tmp_path, monkeypatch):
    monkeypatch.setattr(followed, "STEPS", 20)
    env = dict(num_envs=2, blind=True, privileged=False, options=QUIET)
    run = tiny_run(tmp_path / "run", "playground:Go1JoystickFlatTerrain", steps=150, eval=dict(every=0), env=env)
    followed.main(str(run), str(tmp_path / "new" / "commands.csv"))
    rows = list(csv.DictReader((tmp_path / "new" / "commands.csv").open()))
    assert [row["direction"] for row in rows] == ["forwards", "sideways", "turning"]
    assert rows[0]["samples"] == str(16 * 20)
