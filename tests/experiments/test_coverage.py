"""Coverage against NumPy's histogram and values worked out by hand."""

from __future__ import annotations

import json
import math
import shutil

import numpy as np
import pytest
import torch

from flashsac.cli.main import main
from flashsac.errors import FlashSACError, UsageError
from flashsac.experiments.coverage import (
    Column,
    ReplayReader,
    coverage,
    default_pairs,
    densities,
    entropy,
    parse_column,
    roll_out,
    support,
)
from flashsac.policies.find import locate_policy
from flashsac.training.hooks import Hooks
from tests import toy_envs
from tests.helpers import StopAt, tiny_run

OBS, ACTION = Column("obs", 0), Column("action", 1)


class Recorder(Hooks):
    """The replay of a run, as sampling sees it at the end."""

    def after_save(self, trainer, checkpoint):
        replay = trainer.session.agent.replay
        steps = torch.arange(replay.tail, replay.head) % replay.slots
        valid = (replay.flags[steps] & 4 == 0).flatten()
        parts = [replay.obs[group][steps].flatten(0, 1) for group in ("actor",) if group in replay.obs]
        self.rows = torch.cat([*parts, replay.action[steps].flatten(0, 1)], 1)[valid].numpy()


def test_figures_of_merit_by_hand():
    even = np.full((4, 5), 1 / 20)
    assert support(even) == 19 / 20, "95% of equal bins"
    assert entropy(even) == pytest.approx(math.log(20))
    one = np.zeros((4, 5))
    one[2, 3] = 1.0
    assert support(one) == 1 / 20
    assert entropy(one) == 0.0
    uneven = np.array([[0.5, 0.3], [0.16, 0.04]])
    assert support(uneven) == 3 / 4, "0.5 + 0.3 + 0.16 is the first sum of 0.95 or more"
    assert entropy(uneven) == pytest.approx(-sum(p * math.log(p) for p in (0.5, 0.3, 0.16, 0.04)))


def test_densities_equal_numpys_on_the_same_axes():
    random = np.random.default_rng(0)
    wide = np.stack([random.normal(0, 3, 20_000), random.uniform(-1, 1, 20_000)], 1)
    narrow = np.stack([random.normal(2, 0.5, 20_000), random.uniform(-0.2, 0.2, 20_000)], 1)
    pair = densities(OBS, ACTION, wide, narrow)
    low, high = np.quantile(np.concatenate([wide[:, 0], narrow[:, 0]]), (0.001, 0.999))
    assert pair.x_edges == pytest.approx(np.linspace(low, high, 23)), "22 x 22 bins hold 41 each"
    assert pair.y_edges == pytest.approx(np.linspace(-1, 1, 23)), "actions lie in [-1, 1]"
    for density, rows in ((pair.replay, wide), (pair.policy, narrow)):
        expected, _, _ = np.histogram2d(rows[:, 0], rows[:, 1], bins=[pair.x_edges, pair.y_edges], density=True)
        assert density == pytest.approx(expected)
        assert pair.mass(density).sum() == pytest.approx(1)
    out = pair.as_json()
    assert out["support_replay"] > 3 * out["support_policy"]
    assert out["entropy_replay"] > out["entropy_policy"] + 1


@pytest.mark.parametrize(("transitions", "bins"), [(100, 10), (40_000, 32), (1_000_000, 50)])
def test_the_bins_grow_with_the_transitions(transitions, bins):
    rows = np.random.default_rng(0).uniform(-1, 1, (transitions, 2))
    assert densities(OBS, ACTION, rows, rows).replay.shape == (bins, bins)


def test_a_number_that_never_changes_lies_in_one_column_of_bins():
    rows = np.stack([np.full(1000, 3.0), np.linspace(-1, 1, 1000)], 1)
    pair = densities(OBS, ACTION, rows, rows)
    assert (pair.replay.sum(1) > 0).sum() == 1
    assert (pair.x_edges[0], pair.x_edges[-1]) == (2.5, 3.5)


@pytest.mark.parametrize("text", ["obs", "obs:", "obs:-1", "reward:0", "obs:1.5", ""])
def test_a_column_that_is_none(text):
    with pytest.raises(UsageError, match="is no column: write obs:3"):
        parse_column(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"replay": {"capacity": 150}},
        {"replay": {"obs_dtype": "bfloat16"}},
        {"task": toy_envs.make_nan, "max_invalid": 1.0},
        {"checkpoint_every": 150, "agent": {"n_step": 3}},
    ],
)
def test_the_replay_that_is_read_is_the_one_that_is_sampled(tmp_path, changes):
    changes = dict(changes)
    task, recorder = changes.pop("task", toy_envs.make_point), Recorder()
    agent = dict(batch_size=16, warmup=100, critic_width=8, actor_width=8, updates_per_transition=0.25)
    changes["agent"] = agent | changes.get("agent", {})
    run = tiny_run(tmp_path / "run", task, eval=dict(every=0), hooks=[recorder], **changes)
    columns = [Column("obs", 0), Column("obs", 1), Column("action", 0), Column("action", 1)]
    found = ReplayReader(run).read(columns)
    assert len(found) > 100
    assert found == pytest.approx(recorder.rows)
    assert ReplayReader(run).read([columns[3], columns[0]]) == pytest.approx(recorder.rows[:, [3, 0]])


@pytest.mark.slow
def test_steps_that_were_saved_again_count_once(tmp_path):
    """A simulator that cannot save its state ends its episodes when a run is resumed."""
    import flashsac

    run = tiny_run(tmp_path / "run", toy_envs.Forgetful, eval=dict(every=0), hooks=[StopAt(301)])
    recorder = Recorder()
    flashsac.resume(run, toy_envs.Forgetful, quiet=True, hooks=[recorder])
    found = ReplayReader(run).read([Column("obs", 0), Column("obs", 1), Column("action", 0), Column("action", 1)])
    assert found == pytest.approx(recorder.rows)


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory):
    torch.set_num_threads(1)
    return tiny_run(tmp_path_factory.mktemp("runs") / "pendulum", "gym:Pendulum-v1", eval=dict(every=0))


@pytest.mark.slow
def test_the_command_writes_what_numpy_counts(pendulum, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["coverage", str(pendulum), *"--x obs:2 --y action:0 --x obs:0 --y obs:1 --out".split(), str(out)]) == 0
    printed = capsys.readouterr().out
    assert "obs 2 and action 0: support replay " in printed
    assert f"wrote {out / 'coverage.png'}" in printed
    assert (out / "coverage.png").stat().st_size > 10_000
    content = json.loads((out / "coverage.json").read_text())
    assert (content["task"], content["run"], content["transitions"]) == ("gym:Pendulum-v1", str(pendulum), 600)
    assert [(pair["x"], pair["y"]) for pair in content["pairs"]] == [("obs 2", "action 0"), ("obs 0", "obs 1")]
    replay = ReplayReader(pendulum).read([Column("obs", 2), Column("action", 0)])
    rows = roll_out(locate_policy(pendulum), [Column("obs", 2), Column("action", 0)], 600, 2, 12345)
    for pair, data in ((content["pairs"][0], {"replay": replay, "policy": rows}),):
        for name, points in data.items():
            edges = [np.array(pair["x_edges"]), np.array(pair["y_edges"])]
            counts, _, _ = np.histogram2d(points[:, 0], points[:, 1], bins=edges)
            assert np.array(pair[name]) == pytest.approx(counts / counts.sum() / np.outer(*map(np.diff, edges)))
            assert pair[f"entropy_{name}"] == pytest.approx(entropy(counts / counts.sum()))
            assert pair[f"support_{name}"] == support(counts / counts.sum())


@pytest.mark.slow
def test_the_default_pairs_are_those_that_vary_most(pendulum):
    """Pendulum's third number, its speed, lies in [-8, 8]; the others are a sine and a cosine."""
    reader = ReplayReader(pendulum)
    pairs = default_pairs(reader)
    assert len(pairs) == 3
    assert pairs[0] == (Column("obs", 2), Column("action", 0))


@pytest.mark.slow
def test_a_rollout_is_random_as_the_policy_and_repeats_itself(pendulum):
    found = locate_policy(pendulum)
    obs = {"actor": torch.zeros(20_000, 3)}
    mean, log_std = found.policy.actor(found.policy.encoder.actor_features(obs), False)
    before_tanh = torch.atanh(found.policy.sample(obs, torch.Generator().manual_seed(0)).double())
    assert before_tanh.mean().item() == pytest.approx(mean[0].item(), abs=0.05)
    assert before_tanh.std().item() == pytest.approx(log_std.exp()[0].item(), rel=0.05)
    one, again, other = (roll_out(found, [OBS], 500, 1, seed) for seed in (0, 0, 1))
    assert len(one) == 500
    assert (one == again).all()
    assert (one != other).any()


def test_runs_inside_a_directory_that_is_none_are_named(tmp_path, capsys):
    for seed in range(5):
        (tmp_path / f"seed-{seed}").mkdir()
        for name in ("config.json", "metrics.csv"):
            (tmp_path / f"seed-{seed}" / name).touch()
    assert main(["coverage", str(tmp_path)]) == 1
    runs = ", ".join(str(tmp_path / f"seed-{seed}") for seed in range(3))
    assert f"There are some inside: {runs} and 2 more." in capsys.readouterr().err


@pytest.mark.slow
def test_bad_input_is_named(pendulum, tmp_path, capsys):
    def said(*arguments: str) -> str:
        assert main(["coverage", *arguments]) in (1, 2)
        return capsys.readouterr().err

    run = str(pendulum)
    assert "has 3 numbers in its obs, obs:0 to obs:2" in said(run, "--x", "obs:3", "--y", "action:0")
    assert "has 1 numbers in its action" in said(run, "--x", "obs:0", "--y", "action:1")
    assert "each pair needs one of both" in said(run, "--x", "obs:0")
    assert "is no column" in said(run, "--x", "obs", "--y", "action:0")
    assert "is no run directory" in said(str(tmp_path / "nothing"))
    assert "--transitions must be at least 1" in said(run, "--transitions", "0")
    assert "is no run directory" in said(str(pendulum / "checkpoints" / "best.safetensors"))
    without = tmp_path / "without"
    shutil.copytree(pendulum, without)
    shutil.rmtree(without / "replay")
    assert "no whole piece of the replay" in said(str(without))
    shutil.rmtree(without / "checkpoints")
    assert said(str(without)).startswith("error: ")


@pytest.mark.slow
def test_images_have_no_columns_but_their_actions_do(tmp_path):
    agent = dict(
        batch_size=8, warmup=20, critic_width=8, actor_width=8, image_channels=4, image_features=8, image_shift=1
    )
    settings = dict(steps=60, log_every=20, agent=agent, eval=dict(every=0))
    run = tiny_run(tmp_path / "run", toy_envs.make_pixel_point, **settings)
    found = locate_policy(run, toy_envs.make_pixel_point)
    with pytest.raises(FlashSACError, match="sees only images"):
        coverage(run, found, [(OBS, ACTION)], tmp_path / "out")
    coverage(run, found, [], tmp_path / "out")
    (pair,) = json.loads((tmp_path / "out" / "coverage.json").read_text())["pairs"]
    assert {pair["x"], pair["y"]} == {"action 0", "action 1"}
