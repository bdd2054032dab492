"""Measures of how well the networks can learn: norms, dormant units, rank, and the curvature of the critic loss.

All of it is computed on a copy in float64, so the learner stays as it is. docs/experiments/diagnostics.md has the
equations.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from flashsac.core.networks import Actor, Critic, Linear
from flashsac.core.optimizer import Adam
from flashsac.core.update import Learner, StepSizes, UpdateNoise
from flashsac.types import Batch

TAU = 0.025
"""A unit is dormant if its mean activation is at most so much of its layer's mean (Sokar et al., 2023)."""
SRANK_SHARE = 0.99
"""The share of the sum of the singular values that srank counts up to (Kumar et al., 2021)."""
DAMPING = 1e-10
"""The smallest eigenvalue that the condition number divides by. Rounding errors in float64 stay below it."""

CRITIC, ACTOR = "diag/critic", "diag/actor"
OF_THE_HESSIAN = {
    "condition": f"condition number of the critic loss: max_eig / min_eig, where min_eig counts as {DAMPING:g} or more",
    "max_eig": "largest magnitude of the Hessian's eigenvalues that Lanczos found",
    "min_eig": "smallest magnitude of the Hessian's eigenvalues that Lanczos found",
}
OF_A_NETWORK = {
    "dormant": f"share of ReLU units whose mean activation is at most {TAU:g} of their layer's mean",
    "srank": "effective rank of the features before the head: singular values that make up 99% of their sum",
    "feature_norm": "root mean square of a layer's outputs, after its ReLU; mean over layers",
    "gradient_norm": "root mean square of the gradient of a layer's weights; mean over layers",
    "weight_norm": "root mean square of a layer's weights; mean over layers",
    "effective_lr": "norm of Adam's next step over the norm of a layer's weights; mean over layers",
}
OF_A_LAYER = ("weight_norm", "gradient_norm", "feature_norm", "effective_lr")
"""Measures of one linear layer; where a ReLU follows it, "dormant" too."""
HEADS = {CRITIC: ("head",), ACTOR: ("mean", "log_std")}


def metrics_of(blocks: int) -> dict[str, str]:
    """Every metric of networks with so many blocks, with its meaning."""
    hidden = [f"block{i + 1}.{part}" for i in range(blocks) for part in ("expand", "contract")]
    layers = {prefix: ["embed", *hidden, *heads] for prefix, heads in HEADS.items()}
    return _metrics(layers, relu=hidden)


def documented_metrics() -> dict[str, str]:
    """The same, with the word LAYER for every layer."""
    return _metrics({prefix: ["LAYER"] for prefix in HEADS}, relu=["LAYER"])


def _metrics(layers: dict[str, list[str]], relu: list[str]) -> dict[str, str]:
    out = {f"{CRITIC}_{name}": meaning for name, meaning in OF_THE_HESSIAN.items()}
    for prefix in layers:
        network = prefix.removeprefix("diag/")
        out |= {f"{prefix}_{name}": f"{network}: {meaning}" for name, meaning in OF_A_NETWORK.items()}
    for prefix, names in layers.items():
        for layer in names:
            measures = (*OF_A_LAYER, "dormant") if layer in relu else OF_A_LAYER
            out |= {f"{prefix}/{layer}/{name}": f"{name} of this layer alone" for name in measures}
    return out


def diagnose(
    learner: Learner,
    batch: Batch,
    reward_scale: Tensor,
    noise: UpdateNoise,
    step_sizes: StepSizes,
    *,
    generator: torch.Generator,
    iterations: int,
) -> dict[str, float]:
    """Measure the networks on the update that these arguments would make. Nothing of it is done to the learner.

    `generator` draws the first vector of Lanczos."""
    twin, batch = _double_copy(learner), _double(batch)
    batch = twin.transform(batch, noise.transform)
    with torch.no_grad():
        both = (twin.encoder(obs) for obs in (batch.obs, batch.next_obs))
        features, next_features = (type(x)(*(part.double() for part in x)) for x in both)
    with _recorded(twin.actor) as actor_outputs:
        actor_loss = twin.actor_loss(features, next_features, noise.actor.double())[0]
    actor_gradients = torch.autograd.grad(actor_loss, twin.actor_parameters)
    with _recorded(twin.critic) as critic_outputs:
        critic_loss = twin.critic_loss(features, next_features, batch, reward_scale.double(), noise.target.double())[0]
    critic_gradients = torch.autograd.grad(critic_loss, twin.critic_parameters, create_graph=True)
    product = hessian_product(critic_gradients, twin.critic_parameters)
    start = torch.randn(sum(p.numel() for p in twin.critic_parameters), generator=generator, dtype=torch.float64)
    out = {f"{CRITIC}_{name}": x for name, x in condition(lanczos(product, start.to(critic_loss.device), iterations))}
    out |= _measure(CRITIC, twin.critic, critic_outputs, critic_gradients, twin.critic_optimizer, step_sizes.critic)
    return out | _measure(ACTOR, twin.actor, actor_outputs, actor_gradients, twin.actor_optimizer, step_sizes.actor)


def _double_copy(learner: Learner) -> Learner:
    """A copy whose networks and moments are float64. Its matrix products are too: the low-precision ones have no
    second derivative. Only convolutions keep their type."""
    twin = copy.deepcopy(learner)
    for network in (twin.encoder, twin.actor, twin.critic, twin.target):
        network.double()
        for module in network.modules():
            if isinstance(module, Linear):
                module.dtype = torch.float64
    for optimizer in (twin.actor_optimizer, twin.critic_optimizer):
        optimizer.first, optimizer.second = ([x.double() for x in m] for m in (optimizer.first, optimizer.second))
    return twin


def _double(batch: Batch) -> Batch:
    """The batch in float64; images stay as they are."""
    obs, next_obs = (
        {group: rows.double() if rows.is_floating_point() else rows for group, rows in obs.items()}
        for obs in (batch.obs, batch.next_obs)
    )
    return Batch(obs, batch.action.double(), batch.reward.double(), batch.discount.double(), next_obs)


# --- curvature --------------------------------------------------------------------------------------------------------


def hessian_product(gradients: tuple[Tensor, ...], parameters: list[nn.Parameter]) -> Callable[[Tensor], Tensor]:
    """The function v -> H v, for gradients that were made with `create_graph`. v: (all parameters,)."""

    def product(vector: Tensor) -> Tensor:
        parts = [part.view_as(p) for part, p in zip(vector.split(sizes), parameters, strict=True)]
        columns = torch.autograd.grad(gradients, parameters, parts, retain_graph=True, materialize_grads=True)
        return torch.cat([column.flatten() for column in columns])

    sizes = [p.numel() for p in parameters]
    return product


@torch.no_grad()
def lanczos(product: Callable[[Tensor], Tensor], start: Tensor, iterations: int) -> Tensor:
    """Ritz values of a symmetric matrix, ascending: its eigenvalues within the Krylov space of `start`.

    It orthogonalises every vector against all before it, or converged eigenvalues would be found again."""
    basis = start.new_empty(min(iterations, len(start)), len(start))
    diagonal, beside = [], []
    vector = start / start.norm()
    for index in range(len(basis)):
        basis[index] = vector
        known = basis[: index + 1]
        with torch.enable_grad():
            image = product(vector)
        diagonal.append(image @ vector)
        size = image.norm()
        for _ in range(2):  # once leaves rounding errors, twice is enough
            image = image - known.T @ (known @ image)
        beside.append(image.norm())
        if beside[-1] <= 1e-12 * size:  # the space is complete
            break
        vector = image / beside[-1]
    off = torch.stack(beside)[:-1]
    return torch.linalg.eigvalsh(torch.diag(torch.stack(diagonal)) + torch.diag(off, 1) + torch.diag(off, -1))


def condition(ritz: Tensor) -> Iterator[tuple[str, float]]:
    """Condition number and extreme magnitudes, by name. `ritz` comes from `lanczos`."""
    largest, smallest = ritz.abs().max().item(), ritz.abs().min().item()
    yield from (("condition", largest / max(smallest, DAMPING)), ("max_eig", largest), ("min_eig", smallest))


# --- layers -----------------------------------------------------------------------------------------------------------


def _layers(network: Actor | Critic) -> dict[str, tuple[Linear, nn.Module, bool]]:
    """The linear layers by name; of each the module that gives its output, and whether a ReLU follows."""
    out = {}
    for path, layer in network.named_modules():
        if isinstance(layer, Linear):
            parent, _, last = path.rpartition(".")
            norm = getattr(network.get_submodule(parent), f"{last}_norm", None)
            out[_name(path)] = (layer, norm or layer, norm is not None)
    return out


def _name(path: str) -> str:
    """The name of a layer in metrics: backbone.blocks.0.expand is block1.expand."""
    parts = path.split(".")
    return f"block{int(parts[2]) + 1}.{parts[3]}" if "blocks" in parts else parts[-1]


@contextlib.contextmanager
def _recorded(network: Actor | Critic) -> Iterator[dict[str, Tensor]]:
    """The outputs of all layers in the one pass within, (members, rows, width); and of the backbone, as ""."""
    outputs: dict[str, Tensor] = {}

    def keep(name: str, relu: bool) -> Callable:
        def hook(module: nn.Module, inputs: tuple, output: Tensor) -> None:
            outputs[name] = (output.relu() if relu else output).detach()

        return hook

    handles = [module.register_forward_hook(keep(name, relu)) for name, (_, module, relu) in _layers(network).items()]
    handles.append(network.backbone.register_forward_hook(keep("", False)))
    try:
        yield outputs
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def _measure(
    prefix: str,
    network: Actor | Critic,
    outputs: dict[str, Tensor],
    gradients: tuple[Tensor, ...],
    optimizer: Adam,
    step_size: Tensor,
) -> dict[str, float]:
    """Measures of a network and of its layers. The optimizer, which is a copy, makes its next step."""
    layers = _layers(network)
    before = {name: layer.weight.clone() for name, (layer, _, _) in layers.items()}
    by_parameter = dict(zip(optimizer.parameters, gradients, strict=True))
    optimizer.step(gradients, step_size)
    out: dict[str, float] = {}
    asleep = []
    for name, (layer, _, relu) in layers.items():
        weight, change = before[name], layer.weight - before[name]
        out[f"{prefix}/{name}/weight_norm"] = rms(weight)
        out[f"{prefix}/{name}/gradient_norm"] = rms(by_parameter[layer.weight])
        out[f"{prefix}/{name}/feature_norm"] = rms(outputs[name])
        out[f"{prefix}/{name}/effective_lr"] = rms(change) / max(rms(weight), 1e-30)
        if relu:
            asleep.append(dormant(outputs[name]).flatten())
            out[f"{prefix}/{name}/dormant"] = asleep[-1].double().mean().item()
    for measure in OF_A_LAYER:
        values = [out[f"{prefix}/{name}/{measure}"] for name in layers]
        out[f"{prefix}_{measure}"] = sum(values) / len(values)
    return out | {
        f"{prefix}_dormant": torch.cat(asleep).double().mean().item(),
        f"{prefix}_srank": sum(map(srank, outputs[""])) / len(outputs[""]),
    }


def rms(x: Tensor) -> float:
    """Root mean square of all entries: the L2 norm over the root of their number."""
    return x.square().mean().sqrt().item()


def dormant(activations: Tensor) -> Tensor:
    """True for dormant units, (members, width). activations: (members, rows, width), after a ReLU."""
    score = activations.abs().mean(1)  # (members, width)
    return score <= TAU * score.mean(-1, keepdim=True)


def srank(features: Tensor) -> int:
    """The smallest number of singular values whose sum is SRANK_SHARE of the sum of all. features: (rows, width)."""
    sums = torch.linalg.svdvals(features).cumsum(0)
    return 1 + int((sums < SRANK_SHARE * sums[-1]).sum())
