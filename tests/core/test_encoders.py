"""Encoder and augmentation: shapes, who learns from what, and the random shift against a slow one."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
from torch.nn import functional as F

from flashsac.config.schema import AgentConfig
from flashsac.core.encoders.build import make_encoder
from flashsac.core.encoders.pixels import ImageEncoder
from flashsac.core.networks import Half
from flashsac.core.optimizer import adam_step_size
from flashsac.core.transforms import NoTransform, RandomShift, make_transform, shift_images
from flashsac.core.update import Learner, StepSizes, UpdateNoise
from flashsac.errors import UnsupportedSpace
from flashsac.training.compile import compiler_for
from flashsac.types import CPU, Batch, EnvSpec, Pixels
from tests.helpers import noise_and_step_sizes

ROWS, ACTION = 8, 2
PIXELS = Pixels(3, 16, 20, 2)
CONFIG = AgentConfig(batch_size=ROWS, actor_width=8, critic_width=8, image_channels=4, image_features=5, image_shift=2)


def make_spec(**obs: int) -> EnvSpec:
    return EnvSpec(1, obs, ACTION, (-1.0,) * ACTION, (1.0,) * ACTION, None, pixels=PIXELS)


def random_batch(seed: int = 0, **obs: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)

    def look() -> dict[str, torch.Tensor]:
        images = torch.randint(256, (ROWS, *PIXELS.shape), generator=generator, dtype=torch.uint8)
        return {"pixels": images} | {
            group: torch.randn(ROWS, width, generator=generator) for group, width in obs.items()
        }

    action, reward = torch.rand(ROWS, ACTION, generator=generator) * 2 - 1, torch.randn(ROWS, generator=generator)
    return Batch(look(), action, reward, torch.full((ROWS,), 0.97), look())


def given(learner: Learner) -> tuple[UpdateNoise, StepSizes]:
    generator = torch.Generator().manual_seed(1)
    noise = torch.randn(2, ROWS, ACTION, generator=generator)
    shift = learner.transform.draw(ROWS, generator)
    return noise_and_step_sizes(noise, adam_step_size(3e-4, 1), adam_step_size(1e-4, 1), transform=shift)


def make_learner(config: AgentConfig = CONFIG, **obs: int) -> Learner:
    torch.manual_seed(0)
    return Learner(make_spec(**obs), config, CPU)


def test_shift_equals_padding_and_cropping():
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (50, *PIXELS.shape), generator=generator, dtype=torch.uint8)
    shift = RandomShift(4).draw(50, generator)[0]
    assert set(shift.flatten().tolist()) == set(range(-4, 5)), "every distance occurs"
    padded = F.pad(images.float(), (4, 4, 4, 4), mode="replicate")
    for image, moved, (down, right) in zip(padded, shift_images(images, shift), shift.tolist(), strict=True):
        height, width = PIXELS.shape[1:]
        assert torch.equal(image[:, 4 + down : 4 + down + height, 4 + right : 4 + right + width], moved.float())


def test_now_and_next_are_shifted_apart_and_all_frames_of_a_stack_together():
    batch = random_batch()
    same = batch._replace(next_obs=batch.obs)
    transform = RandomShift(4)
    draw = transform.draw(ROWS, torch.Generator().manual_seed(0))
    assert draw.shape == (2, ROWS, 2)
    assert draw.min() >= -4
    assert draw.max() <= 4
    moved = transform(same, draw)
    assert not torch.equal(moved.obs["pixels"], moved.next_obs["pixels"])
    twice = torch.cat([batch.obs["pixels"][:, :3]] * 2, 1)
    first, second = shift_images(twice, draw[0]).split(3, 1)
    assert torch.equal(first, second)


def test_without_shift_nothing_is_drawn():
    generator = torch.Generator().manual_seed(0)
    before = generator.get_state()
    transform = make_transform(make_spec(), dataclasses.replace(CONFIG, image_shift=0), CPU)
    assert isinstance(transform, NoTransform)
    assert isinstance(make_transform(dataclasses.replace(make_spec(actor=3), pixels=None), CONFIG, CPU), NoTransform)
    assert transform.draw(9, generator).numel() == 0
    assert torch.equal(generator.get_state(), before)


def test_the_papers_sizes():
    encoder = ImageEncoder(Pixels(3, 84, 84, 3), 32, 50, torch.float32)
    assert [tuple(layer.weight.shape) for layer in encoder.convolutions] == [(32, 9, 3, 3)] + [(32, 32, 3, 3)] * 3
    assert [layer.stride for layer in encoder.convolutions] == [(2, 2), (1, 1), (1, 1), (1, 1)]
    assert encoder.bottleneck.in_features == 32 * 35 * 35
    assert encoder.bottleneck.out_features == 50
    out = encoder(torch.randint(256, (2, 9, 84, 84), dtype=torch.uint8))
    assert out.shape == (2, 50)
    assert out.abs().max() <= 1


def test_encoder_equals_a_plain_one():
    torch.manual_seed(0)
    encoder = ImageEncoder(PIXELS, 4, 5, torch.float32)
    images = random_batch().obs["pixels"]
    x = images.float() / 255 - 0.5
    for layer in encoder.convolutions:
        x = F.conv2d(x, layer.weight, layer.bias, layer.stride).relu()
    x = x.flatten(1) @ encoder.bottleneck.weight.T + encoder.bottleneck.bias
    x = (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, correction=0) + 1e-5).sqrt()
    assert torch.allclose(encoder(images), torch.tanh(x), atol=1e-5)


def test_the_mean_image_is_taken_off():
    """The mean of what was seen so far; after a hundred batches the newest weighs a hundredth."""
    encoder = ImageEncoder(PIXELS, 4, 5, torch.float32)
    batches = [random_batch(seed).obs["pixels"] for seed in range(3)]
    for images in batches:
        encoder.observe(images)
    mean = (torch.cat(batches).float() / 255 - 0.5).mean(0)
    assert torch.allclose(encoder.mean, mean, atol=1e-5)
    bare = ImageEncoder(PIXELS, 4, 5, torch.float32)
    bare.load_state_dict(encoder.state_dict() | {"mean": torch.zeros_like(mean)})
    same = torch.full((2, *PIXELS.shape), 200, dtype=torch.uint8)
    encoder.mean.fill_(200 / 255 - 0.5)
    middle = torch.full((2, *PIXELS.shape), 127.5)
    assert torch.allclose(encoder(same), bare(middle), atol=1e-5)
    encoder.batches.fill_(500.0)
    before = encoder.mean.clone()
    encoder.observe(batches[0])
    newest = (batches[0].float() / 255 - 0.5).mean(0)
    assert torch.allclose(encoder.mean, 0.99 * before + 0.01 * newest, atol=1e-5)


def test_actor_and_critic_normalise_features_by_the_newest_batch():
    """The encoder moves its features faster than statistics of a hundred updates could follow; those of a state stand still."""
    learner = Learner(make_spec(), CONFIG, CPU)
    assert learner.critic.backbone.input_norm.momentum == learner.actor.backbone.input_norm.momentum == 1.0
    assert learner.critic.backbone.blocks[0].expand_norm.momentum == 0.01
    from_state = Learner(dataclasses.replace(make_spec(actor=3), pixels=None), CONFIG, CPU)
    assert from_state.critic.backbone.input_norm.momentum == 0.01


def test_images_too_small_are_refused():
    with pytest.raises(UnsupportedSpace, match="need 15 x 15"):
        ImageEncoder(Pixels(3, 14, 84, 1), 4, 5, torch.float32)
    ImageEncoder(Pixels(3, 15, 15, 1), 4, 5, torch.float32)


def test_vectors_go_beside_the_images_and_privileged_ones_to_the_critic():
    encoder = make_encoder(make_spec(actor=3, critic=7), CONFIG, torch.float32)
    obs = random_batch(actor=3, critic=7).obs
    features = encoder(obs)
    assert encoder.widths == (8, 12)
    assert torch.equal(features.actor[:, 5:], obs["actor"])
    assert torch.equal(features.critic[:, 5:], obs["critic"])
    assert torch.equal(features.actor[:, :5], features.critic[:, :5])


def test_encoder_learns_from_the_critic_and_not_from_the_actor():
    learner, batch = make_learner(), random_batch()
    before = copy.deepcopy(learner.encoder.state_dict())
    learner.update_actor(batch, *given(learner))
    assert all(torch.equal(value, before[name]) for name, value in learner.encoder.state_dict().items())
    learner.update_critic(batch, torch.tensor(1.0), *given(learner))
    assert all(not torch.equal(value, before[name]) for name, value in learner.encoder.state_dict().items())


def test_encoders_gradient_is_that_of_the_critic_loss_through_current_images_alone():
    """Next images are seen by the same weights, but as constants; the slow target critic has no encoder of its own."""
    learner, batch = make_learner(), random_batch()
    noise, step_sizes = given(learner)
    reference = copy.deepcopy(learner)
    moved = reference.transform(batch, noise.transform)
    next_features = reference.encoder(moved.next_obs)
    features = reference.encoder(moved.obs)
    mean, log_std = reference.actor(next_features.actor.detach(), False)
    action = torch.tanh(mean + log_std.exp() * noise.target)
    log_prob = torch.distributions.TransformedDistribution(
        torch.distributions.Normal(mean, log_std.exp()), torch.distributions.TanhTransform()
    ).log_prob(action).sum(-1)  # fmt: skip
    current = torch.cat([features.critic, batch.action], -1)
    following = torch.cat([next_features.critic, action], -1).detach()
    target = reference.joint_forward(reference.target, current.detach(), following, half=Half.NEXT).detach()
    out = reference.joint_forward(reference.critic, current, following, half=Half.CURRENT)
    cost = (reference.log_temperature.exp() * log_prob).detach()
    loss = reference.value.loss(out, target, batch.reward / 2.0, batch.discount, cost)
    gradients = torch.autograd.grad(loss, list(reference.encoder.parameters()))
    learner.update_critic(batch, torch.tensor(2.0), noise, step_sizes)
    for moment, gradient in zip(learner.encoder_optimizer.first, gradients, strict=True):
        assert torch.allclose(moment, 0.1 * gradient, atol=1e-6), "Adam's first moment after one step"
    assert all("encoder" not in name for name, _ in learner.target.named_parameters())


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
def test_one_unit_equals_the_two_halves(compiled):
    """Features computed once, for the actor and then the critic, are those that each half would compute."""
    one_block = dataclasses.replace(CONFIG, blocks=1)  # compiles in half the time
    halves, whole = make_learner(one_block, actor=3), make_learner(one_block, actor=3)
    batch, scale = random_batch(actor=3), torch.tensor(2.0)
    noise, step_sizes = given(halves)
    expected = halves.update_actor(batch, noise, step_sizes) | halves.update_critic(batch, scale, noise, step_sizes)
    update = compiler_for(CPU)(whole.update_both) if compiled else whole.update_both
    metrics = update(batch, scale, noise, step_sizes)
    for name, value in expected.items():
        assert metrics[name].item() == pytest.approx(value.item(), abs=1e-5), name
    for part in ("encoder", "actor", "critic", "target"):
        ours, theirs = getattr(halves, part).state_dict(), getattr(whole, part).state_dict()
        assert all(torch.allclose(ours[name], theirs[name], atol=1e-5) for name in ours), part


def test_low_precision_convolutions_are_close():
    torch.manual_seed(0)
    full, low = (ImageEncoder(PIXELS, 4, 5, dtype) for dtype in (torch.float32, torch.bfloat16))
    low.load_state_dict(full.state_dict())
    images = random_batch().obs["pixels"]
    assert low(images).dtype == torch.float32
    assert (full(images) - low(images)).abs().max() < 0.1
