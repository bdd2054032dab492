"""A policy as ONNX, with all that a robot must know inside, checked against the policy before it is kept."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flashsac.deploy.onnx_policy import KEY, OnnxPolicy, PolicyInfo, sealed
from flashsac.errors import FlashSACError, MissingExtra, UntrustedRun
from flashsac.policies.find import locate_policy, policy_file, trained_steps
from flashsac.policies.policy import Policy, read_policy
from flashsac.robots.catalog import robot_of
from flashsac.robots.description import Robot
from flashsac.runs.provenance import version
from flashsac.sims.make import make_env
from flashsac.system.files import check_writable, replacing
from flashsac.types import Obs

TOLERANCE = 1e-4
"""Largest difference of an action, of 2, between the policy and what was exported."""
PARALLEL = 16
BATCH = 256


class Network(torch.nn.Module):
    """Encoder and actor as they act: BatchNorm with its running statistics, tanh of the mean."""

    def __init__(self, policy: Policy):
        super().__init__()
        self.encoder, self.actor, self.groups = policy.encoder, policy.actor, tuple(policy.shapes)

    def forward(self, *obs: Tensor) -> Tensor:
        features = self.encoder.actor_features(dict(zip(self.groups, obs, strict=True)))
        return torch.tanh(self.actor(features, False)[0])


@dataclasses.dataclass(frozen=True)
class Exported:
    """The files that were written, and how they were checked."""

    file: Path
    """The ONNX file."""
    policy_file: Path
    """The policy it was made from."""
    task: str
    differences: dict[Path, float]
    """Largest difference of an action from the policy's, by file."""
    observations: int
    """Number of observations they were compared on."""
    source: str
    """Origin of these observations: the simulator, or made up."""


def export_run(
    run: Path,
    env: Any = None,
    out: Path | None = None,
    *,
    observations: int = 10_000,
    checkpoint: str | int | None = None,
    torchscript: bool = False,
    trust_run: bool = False,
) -> Exported:
    """Write a trained policy as ONNX. `env` is where observations come from, if not from the task that the run
    names."""
    out = out or (run if run.is_dir() else run.parent) / "policy.onnx"
    _check_can_export(out)
    file = policy_file(run, checkpoint)
    policy = read_policy(file)
    obs, source = recorded(policy, run, observations, env, trust_run=trust_run)
    differences = export(policy, out, obs, step=trained_steps(file), torchscript=torchscript)
    return Exported(out, file, policy.task, differences, count_rows(obs), source)


def _check_can_export(out: Path) -> None:
    """Refuse what cannot work before the simulator starts, which takes minutes."""
    if out.suffix != ".onnx":
        raise FlashSACError(f"--out {out}: an exported policy's name ends in .onnx.")
    check_writable("--out", out)
    try:  # torch's exporter needs the first two, and would say so less kindly
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingExtra(
            f'export needs onnx, onnxscript and onnxruntime ({error}): pip install "flashsac[export]"'
        ) from None


def export(
    policy: Policy, out: Path, obs: Obs, *, step: int | None = None, torchscript: bool = False
) -> dict[Path, float]:
    """Write the files, and by how much each differs on `obs`; raises, and leaves none, if that is too much."""
    policy.to("cpu")
    info = PolicyInfo(
        task=policy.task,
        version=version("flashsac") or "unknown",
        step=step,
        observations={group: list(shape) for group, shape in policy.shapes.items()},
        action_low=[float(low) for low in policy.meta["action_low"]],
        action_high=[float(high) for high in policy.meta["action_high"]],
        robot=robot_of_policy(policy),
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    network = Network(policy)
    worst = {out: _keep_if_equal(out, lambda file: _to_onnx(network, policy, file, info), onnx_runner, policy, obs)}
    if torchscript:
        beside = out.with_suffix(".pt")
        worst[beside] = _keep_if_equal(
            beside, lambda file: _to_torchscript(network, policy, file, info), _torchscript_runner, policy, obs
        )
    return worst


def recorded(policy: Policy, run: Path, count: int, task: Any = None, *, trust_run: bool = False) -> tuple[Obs, str]:
    """Observations as the policy meets them, and where they are from."""
    images = "pixels" in policy.shapes
    count = min(count, 4 * BATCH) if images else count
    with contextlib.ExitStack() as opened:
        try:
            found = locate_policy(
                run, task, trust_run=trust_run
            )  # a policy file alone does not decide what is imported
            env_config = dataclasses.replace(found.env, num_envs=1 if images else PARALLEL, overlap=False)
            env = make_env(found.task, env_config)
            opened.callback(env.close)
            policy.check_fits(env.spec)
        except FlashSACError as error:
            if task or isinstance(error, UntrustedRun):  # asked for by name, or to be asked for
                raise
            print(f"note: its simulator is not at hand, so observations are made up. {error}")
            return random_observations(policy, count), "made-up observations"
        obs = env.reset(0)
        seen: list[Obs] = []
        noise = torch.Generator().manual_seed(0)
        while len(seen) * env.spec.num_envs < count:
            seen.append({group: obs[group].cpu().clone() for group in policy.shapes})
            action = policy.act(obs)
            # A little noise, so that a good policy is compared beyond the few states it stays in.
            obs = env.step((action + 0.1 * torch.randn(action.shape, generator=noise)).clamp(-1, 1)).obs
    return {
        group: torch.cat([some[group] for some in seen])[:count] for group in policy.shapes
    }, "recorded observations"


def random_observations(policy: Policy, count: int) -> Obs:
    noise = torch.Generator().manual_seed(0)
    obs: Obs = {}
    for group, shape in policy.shapes.items():
        if group == "pixels":
            obs[group] = torch.randint(0, 256, (min(count, BATCH), *shape), generator=noise, dtype=torch.uint8)
        else:
            norm: Any = policy.actor.backbone.input_norm
            drawn = torch.randn(count if "pixels" not in policy.shapes else min(count, BATCH), *shape, generator=noise)
            if (
                hasattr(norm, "running_mean") and norm.running_mean.shape[-1] == shape[0]
            ):  # as spread as those of training
                drawn = drawn * norm.running_var[0, 0].sqrt() + norm.running_mean[0, 0]
            obs[group] = drawn
    return obs


def _keep_if_equal(
    out: Path,
    write: Callable[[Path], None],
    runner: Callable[[Path], Callable[[dict[str, np.ndarray]], np.ndarray]],
    policy: Policy,
    obs: Obs,
) -> float:
    """Write a file and compare it with the policy; a file that differs never gets the name `out`."""
    with replacing(out, in_place=True) as temporary:
        write(temporary)
        run, worst = runner(temporary), 0.0
        for start in range(0, count_rows(obs), BATCH):
            rows = {group: values[start : start + BATCH] for group, values in obs.items()}
            got = run({group: values.numpy() for group, values in rows.items()})
            wanted = policy.act(rows).numpy()
            if not np.isfinite(wanted).all():
                raise FlashSACError(
                    "this policy's actions are not finite: its training diverged. Export another checkpoint."
                )
            # np.maximum keeps NaN, where max would not.
            worst = float(np.maximum(worst, np.abs(got - wanted).max(initial=0.0)))
        if not worst <= TOLERANCE:
            raise FlashSACError(
                f"{out.name} was not written: its actions differ from the policy's by {worst:.1e}, more than {TOLERANCE:g}. "
                "Please report this, with the versions in the run's config.json."
            )
    return worst


def _to_onnx(network: Network, policy: Policy, file: Path, info: PolicyInfo) -> None:
    batch = torch.export.Dim("batch")
    with _quiet():
        graph = torch.export.export(network, _examples(policy, 2), dynamic_shapes=(({0: batch},) * len(policy.shapes),))
        program: Any = torch.onnx.export(
            graph, dynamo=True, input_names=list(policy.shapes), output_names=["action"], verbose=False
        )
        _forget_sources(program.model)
        program.model.metadata_props[KEY] = info.to_json()
        program.save(file, external_data=False)
    file.write_bytes(sealed(file.read_bytes()))


def _to_torchscript(network: Network, policy: Policy, file: Path, info: PolicyInfo) -> None:
    # By way of torch.export: tracing the network itself would meet Python code that TorchScript cannot hold.
    with _quiet():
        graph = torch.export.export(network, _examples(policy, 1)).module()
        torch.jit.save(torch.jit.trace(graph, _examples(policy, 1)), file, _extra_files={f"{KEY}.json": info.to_json()})
    _drop_debug_records(file)


def _forget_sources(model: Any) -> None:
    """Remove what the exporter notes of each node: stack traces with the paths of this machine."""
    for part in (model.graph, *model.functions.values()):
        for noted in (part, *part.all_nodes()):
            noted.metadata_props.clear()
            noted.doc_string = None
        values = [*part.inputs, *(output for node in part.all_nodes() for output in node.outputs)]
        for value in (*values, *getattr(part, "initializers", {}).values()):
            value.metadata_props.clear()
            value.doc_string = None


def _drop_debug_records(file: Path) -> None:
    """Write the TorchScript archive again, without the records that name the source lines of each operator.

    Its folder, which torch names after the temporary file, becomes `policy`. Every record has the same date."""
    with zipfile.ZipFile(file) as archive:
        records = {name: archive.read(name) for name in archive.namelist() if not name.endswith(".debug_pkl")}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, content in records.items():
            archive.writestr(zipfile.ZipInfo(f"policy/{name.partition('/')[2]}"), content)


def onnx_runner(file: Path) -> Callable[[dict[str, np.ndarray]], np.ndarray]:
    return OnnxPolicy(file)


def _torchscript_runner(file: Path) -> Callable[[dict[str, np.ndarray]], np.ndarray]:
    module = torch.jit.load(file)

    def run(obs: dict[str, np.ndarray]) -> np.ndarray:
        rows = zip(*(torch.from_numpy(values).split(1) for values in obs.values()), strict=True)
        return torch.cat([module(*row) for row in rows]).detach().numpy()

    return run


def _examples(policy: Policy, count: int) -> tuple[Tensor, ...]:
    types = {"pixels": torch.uint8}
    return tuple(torch.zeros(count, *shape, dtype=types.get(group)) for group, shape in policy.shapes.items())


def robot_of_policy(policy: Policy) -> Robot | None:
    robot = robot_of(policy.task, policy.meta.get("options", ()))
    if robot is None:
        return None
    if policy.obs_dim == robot.blind().obs_dim:
        robot = robot.blind()
    robot = dataclasses.replace(robot, history=policy.meta.get("history", 0))
    if policy.shapes != robot.shapes() or len(policy.meta["action_low"]) != len(robot.joints):
        raise FlashSACError(
            f"this policy of {policy.task} takes {policy.shapes}, but {robot.name} as described gives {robot.shapes()}: it was "
            "trained with other --env settings, which no robot could serve."
        )
    return _bounded(robot, policy)


def _bounded(robot: Robot, policy: Policy) -> Robot:
    """What the network's 1 stands for in the simulator, which shows it as the last action too."""
    low, high = (np.array(policy.meta[name], float) for name in ("action_low", "action_high"))
    bound = float(high[0])
    if not (np.isfinite(bound) and (high == bound).all() and (low == -bound).all()):
        raise FlashSACError(
            f"this policy of {policy.task} was trained on actions from {list(low)} to {list(high)}; a robot needs the same bound for "
            "all joints and both directions. Train it with such bounds."
        )
    seen = tuple(
        dataclasses.replace(term, scale=bound * term.scale) if term.name == "last_action" else term
        for term in robot.observation
    )
    return dataclasses.replace(
        robot, action_scale=tuple(bound * scale for scale in robot.action_scale), observation=seen
    )


def count_rows(obs: Obs) -> int:
    return len(next(iter(obs.values())))


@contextlib.contextmanager
def _quiet() -> Any:
    """The exporter speaks of packages that nobody needs here."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logger.setLevel(before)
