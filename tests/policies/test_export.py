"""An exported policy is the policy, and says all a robot must know."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from pathlib import Path

import envpool
import numpy as np
import onnx
import pytest
import torch

from flashsac.cli.export import main
from flashsac.deploy.commands.fixed import Fixed
from flashsac.deploy.loop import Loop
from flashsac.deploy.onnx_policy import KEY, OnnxPolicy
from flashsac.deploy.safety import Safety
from flashsac.errors import CheckpointError, FlashSACError
from flashsac.policies import export as exporting
from flashsac.policies.find import load_policy, policy_file
from flashsac.robots.catalog import robot_of
from flashsac.robots.playground import OF_TRAINING_ALONE, SETTINGS
from tests import toy_envs
from tests.deploy.fake_robots import Puppet
from tests.helpers import cli, tiny_run

pytestmark = pytest.mark.slow

G1 = "playground:G1JoystickFlatTerrain"


def test_actions_are_the_policys_on_ten_thousand_observations(g1_run, tmp_path, capsys):
    out = tmp_path / "g1.onnx"
    assert main([str(g1_run), "--out", str(out), "--torchscript"]) == 0
    printed = capsys.readouterr().out
    assert "10,000 recorded observations" in printed
    assert "for unitree_g1" in printed
    # Not through the exporter's own check: other observations, one by one and in batches.
    policy, exported = load_policy(g1_run), OnnxPolicy(out)
    norm = policy.actor.backbone.input_norm
    assert norm.running_mean.abs().max() > 0.01, "the statistics are trained ones"
    rng = np.random.default_rng(1)
    obs = rng.normal(size=(10_000, 103)).astype(np.float32)
    expected = policy.act({"actor": torch.from_numpy(obs)}).numpy()
    actions = exported(obs)
    assert np.abs(actions - expected).max() < 1e-4
    assert np.ptp(actions, axis=0).min() > 0.01, "actions depend on observations"
    np.testing.assert_allclose(exported(obs[3]), expected[3], atol=1e-5)
    extra = {f"{KEY}.json": ""}
    script = torch.jit.load(out.with_suffix(".pt"), _extra_files=extra)
    assert torch.allclose(script(torch.from_numpy(obs[3:4]))[0], torch.from_numpy(expected[3]), atol=1e-5)
    assert json.loads(extra[f"{KEY}.json"])["task"] == G1


def test_exported_files_say_nothing_of_this_machine(g1_run, tmp_path):
    """The exporters note a stack trace with every operator."""
    out = tmp_path / "g1.onnx"
    policy = load_policy(g1_run)
    exporting.export(policy, out, exporting.random_observations(policy, 8), torchscript=True)
    secrets = [Path(exporting.__file__).parents[2], Path(torch.__file__).parents[1], Path.home(), tmp_path, Path.cwd()]
    with zipfile.ZipFile(out.with_suffix(".pt")) as archive:
        script = {name: archive.read(name) for name in archive.namelist()}
    assert not [name for name in script if name.endswith("debug_pkl") or not name.startswith("policy/")]
    model = onnx.load(out)
    assert [entry.key for entry in model.metadata_props] == [KEY]
    assert not any(node.metadata_props or node.doc_string for node in model.graph.node)
    for content in (out.read_bytes(), b"".join(script.values()), out.with_suffix(".pt").read_bytes()):
        for secret in secrets:
            assert str(secret).encode() + b"/" not in content
        assert b"site-packages" not in content
    for content in (out.read_bytes(), b"".join(script.values())):  # an archive's own names end in .py
        assert b".py" not in content


def test_metadata_comes_back_whole(g1_file):
    info = OnnxPolicy(g1_file).info
    assert info.task == G1
    assert info.step is not None
    assert info.step > 0
    assert info.robot == robot_of(G1)
    assert info.observations == {"actor": [103]}
    assert len(info.action_low) == 29


def test_the_robot_is_the_one_it_was_trained_as(tmp_path):
    """With other settings than the task's own: the file alone knows them, and what cannot be passed on is refused."""
    options = (
        "action_scale=0.25",
        "ctrl_dt=0.04",
        "sim_dt=0.004",
        "lin_vel_x_max=1.5",
        "noise_level=0.5",
        "pose_scale=0",
    )
    env = dict(num_envs=2, blind=True, options=options)
    run = tiny_run(tmp_path / "run", G1, steps=150, eval=dict(every=0), env=env)
    alone = tmp_path / "alone.safetensors"
    alone.write_bytes(policy_file(run).read_bytes())
    assert main([str(alone), "--out", str(tmp_path / "g1.onnx"), "--observations", "64"]) == 0
    robot = OnnxPolicy(tmp_path / "g1.onnx").robot()
    assert robot.action_scale == (0.25,) * 29
    assert (robot.policy_hz, robot.motor_hz) == (25.0, 250.0)
    assert robot.command_range == ((-1.0, 1.5), (-0.5, 0.5), (-1.0, 1.0))
    assert [term.noise for term in robot.observation] == [0.1, 0.025, 0.0, 0.015, 0.75, 0.0, 0.0]
    policy = load_policy(alone)
    assert policy.env_config().options == options
    policy.meta["options"].append("frame_stack=2")
    with pytest.raises(FlashSACError, match="frame_stack=2, and nobody knows what that means for the robot"):
        exporting.robot_of_policy(policy)
    del policy.meta["options"]  # a file from before they were kept
    assert policy.env_config().options == ()
    assert exporting.robot_of_policy(policy).action_scale == (0.5,) * 29
    with pytest.raises(FlashSACError, match="robot of mjlab:FlashSAC-G1-Flat"):
        robot_of("mjlab:FlashSAC-G1-Flat", ("action_scale=1",))


def test_what_envpool_says_of_the_settings():
    told = envpool.make_spec("G1JoystickFlatTerrain-v1").config._asdict()
    assert {name: told[name] for name in SETTINGS} == SETTINGS
    unsaid = {name for name in told if name not in SETTINGS and not OF_TRAINING_ALONE.fullmatch(name)}
    pool = "num_envs batch_size max_num_players base_path env_seed gym_reset_return_info frame_stack task_name"
    assert unsaid == set(pool.split())


def test_other_bounds_of_actions(g1_run):
    """A 1 of the network's is a 2 of the simulator's: twice the angle, and what is shown as the last action."""
    policy = load_policy(g1_run)
    policy.meta |= {"action_low": [-2.0] * 29, "action_high": [2.0] * 29}
    robot = exporting.robot_of_policy(policy)
    robot = dataclasses.replace(
        robot, observation=tuple(dataclasses.replace(term, delay=0) for term in robot.observation)
    )
    puppet, seen = Puppet(29), []
    puppet.position = np.array([joint.default for joint in robot.joints])
    act = lambda obs: seen.append(obs["actor"]) or np.full(29, 0.1)
    blind = robot.blind()
    Loop(blind, act, puppet, Fixed((0, 0, 0)), Safety(blind), real_time=False).run(0.04)
    # 0.1 of the network's is 0.2 of the simulator's, each of which is 0.5 rad.
    np.testing.assert_allclose(puppet.targets[-1] - [joint.default for joint in robot.joints], 0.1, atol=1e-9)
    np.testing.assert_allclose(seen[1][9 + 58 : 9 + 87], 0.2, atol=1e-6)
    policy.meta["action_low"] = [-1.0] * 29
    with pytest.raises(FlashSACError, match="the same bound for all joints and both directions"):
        exporting.robot_of_policy(policy)


def test_any_task_can_be_exported(tmp_path):
    run = tiny_run(tmp_path / "run", steps=200)  # an environment made in Python: no simulator to ask
    out = tmp_path / "point.onnx"
    assert "made-up observations" in cli("export", str(run), "--out", str(out), "--observations", "100").stdout
    policy = OnnxPolicy(out)
    obs = np.ones((3, *policy.info.observations["actor"]), np.float32)
    assert np.abs(policy(obs) - load_policy(run).act({"actor": torch.from_numpy(obs)}).numpy()).max() < 1e-5
    with pytest.raises(FlashSACError, match="names no robot"):
        policy.robot()


def make_seen_point():
    return toy_envs.PixelPoint(state=True)


def test_images_and_state(tmp_path):
    run = tiny_run(tmp_path / "run", make_seen_point, steps=150, eval=dict(every=0))
    policy = load_policy(run)
    out = tmp_path / "seen.onnx"
    obs = exporting.random_observations(policy, 300)
    assert exporting.export(policy, out, obs)[out] < 1e-4
    exported = OnnxPolicy(out)
    one = {group: values[0].numpy() for group, values in obs.items()}
    assert exported(one).shape == (len(exported.info.action_low),)


def test_a_file_that_differs_is_not_kept(g1_run, tmp_path, monkeypatch):
    policy = load_policy(g1_run)
    obs = exporting.random_observations(policy, 100)
    right = exporting.Network.forward
    monkeypatch.setattr(exporting.Network, "forward", lambda self, *x: right(self, *x) * 0.999)
    with pytest.raises(FlashSACError, match="was not written"):
        exporting.export(policy, tmp_path / "g1.onnx", obs)
    assert not list(tmp_path.iterdir())


def test_a_network_that_diverged_is_not_exported(g1_run, tmp_path, monkeypatch):
    policy = load_policy(g1_run)
    obs = exporting.random_observations(policy, 100)
    with torch.no_grad():
        policy.actor.mean.bias[0] = torch.nan
    with pytest.raises(FlashSACError, match="not finite"):
        exporting.export(policy, tmp_path / "g1.onnx", obs)
    healthy = load_policy(g1_run)
    monkeypatch.setattr(exporting, "onnx_runner", lambda file: lambda rows: np.full((len(rows["actor"]), 29), np.nan))
    with pytest.raises(FlashSACError, match="was not written"):
        exporting.export(healthy, tmp_path / "g1.onnx", obs)
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_and_a_policy_file_are_exported_too(g1_run, tmp_path, capsys):
    checkpoint = sorted((g1_run / "checkpoints").glob("step-*"))[-1]
    assert main([str(checkpoint), "--out", str(tmp_path / "a.onnx"), "--observations", "64"]) == 0
    file = checkpoint / "policy.safetensors"
    assert main([str(file), "--out", str(tmp_path / "b.onnx"), "--observations", "64"]) == 0
    assert capsys.readouterr().out.count("over 64 recorded observations") == 2
    last = ["--checkpoint", "last", "--out", str(tmp_path / "c.onnx"), "--observations", "64"]
    assert main([str(g1_run), *last]) == 0
    one, other = (dataclasses.replace(OnnxPolicy(tmp_path / name).info, sha256="") for name in ("a.onnx", "c.onnx"))
    assert one == other


def test_a_file_of_another_kind_is_refused(g1_file, tmp_path):
    def fails(path: Path) -> str:
        done = cli("deploy", str(path), "--seconds", "1", check=False)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        return done.stderr

    assert "does not exist" in fails(tmp_path / "missing.onnx")
    corrupt = tmp_path / "corrupt.onnx"
    corrupt.write_bytes(g1_file.read_bytes()[:5000])
    assert "corrupt or no ONNX file" in fails(corrupt)
    whole = bytearray(g1_file.read_bytes())
    largest = max((tensor.raw_data for tensor in onnx.load(g1_file).graph.initializer), key=len)
    whole[whole.find(largest) + 400] ^= 1  # one bit of a weight: it would still run
    corrupt.write_bytes(whole)
    assert "its checksum does not match" in fails(corrupt)
    assert f"First: flashsac export {g1_file.parent} --out" in fails(g1_file.parent)
    with pytest.raises(CheckpointError, match="runs with `flashsac deploy`"):
        load_policy(g1_file)

    model = onnx.load(g1_file)
    ours = model.metadata_props[0].value
    assert model.metadata_props[0].key == KEY
    for text, complaint in (
        (None, "not one of `flashsac export`"),
        ("{", "metadata cannot be read"),
        (json.dumps(json.loads(ours) | {"format": 99}), "has format 99"),
        (
            json.dumps(json.loads(ours) | {"robot": {"name": "x"}}),
            "metadata cannot be read .robot.action_scale is missing",
        ),
        (json.dumps(json.loads(ours) | {"observations": {"actor": [7]}}), "another network"),
    ):
        del model.metadata_props[:]
        if text is not None:
            model.metadata_props.append(onnx.StringStringEntryProto(key=KEY, value=text))
        onnx.save(model, corrupt)
        with pytest.raises(FlashSACError, match=complaint):
            OnnxPolicy(corrupt)


def test_a_robot_without_limits_or_with_another_history_does_not_move(g1_file, monkeypatch):
    policy = OnnxPolicy(g1_file)
    robot = policy.robot()
    for changed, complaint in (
        (dataclasses.replace(robot, history=5), r"gives \{'actor': \[103\], 'history': \[515\]\}"),
        (
            dataclasses.replace(robot, joints=(dataclasses.replace(robot.joints[0], limits=None), *robot.joints[1:])),
            "no limits",
        ),
    ):
        monkeypatch.setattr(policy, "info", dataclasses.replace(policy.info, robot=changed))
        with pytest.raises(FlashSACError, match=complaint):
            policy.robot()


def test_what_cannot_work_is_refused_before_the_simulator_starts(g1_run, tmp_path):
    for arguments, complaint in (
        (["--observations", "0"], "at least 1"),
        (["--out", str(tmp_path / "g1.bin")], "ends in .onnx"),
        (["--out", "/proc/g1.onnx"], "cannot be written"),
    ):
        with pytest.raises(FlashSACError, match=complaint):
            main([str(g1_run), *arguments])
    other = ["--task", "playground:Go1JoystickFlatTerrain", "--out", str(tmp_path / "g1.onnx")]
    with pytest.raises(FlashSACError, match="103"):
        main([str(g1_run), *other])
    assert not list(tmp_path.iterdir())


def test_nothing_to_export(tmp_path):
    with pytest.raises(CheckpointError, match="no policy"):
        main([str(tmp_path)])
    with pytest.raises(FlashSACError, match="which run"):
        main([])


def test_a_robots_file_comes_with_the_command_that_tries_it(g1_run, tmp_path, capsys):
    out = tmp_path / "g1.onnx"
    assert main([str(g1_run), "--out", str(out), "--observations", "64"]) == 0
    film = tmp_path / "g1-mujoco.mp4"
    assert f"flashsac deploy {out} --robot mujoco --command 0.5 0 0 --video {film}" in capsys.readouterr().out
