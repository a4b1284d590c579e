"""A small GPT in one file: byte tokens, AdamW, warm-up and cosine decay, its own checkpoint.

Knows nothing of the project around it:  python train.py --out-dir out --max-iters 200
"""

import argparse
import json
import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in self.qkv(x).split(C, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(B, T, C))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, layers, width, heads, block_size):
        super().__init__()
        self.token, self.position = nn.Embedding(256, width), nn.Embedding(block_size, width)
        self.layers = nn.Sequential(*[Layer(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)

    def forward(self, tokens, targets):
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        logits = self.head(self.norm(self.layers(x)))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def get_batch(data, args, generator):
    starts = torch.randint(len(data) - args.block_size - 1, (args.batch_size,), generator=generator)
    x = torch.stack([data[s : s + args.block_size] for s in starts])
    y = torch.stack([data[s + 1 : s + 1 + args.block_size] for s in starts])
    return x.to(args.device), y.to(args.device)


def get_lr(it, args):
    if it < args.warmup_iters:
        return args.learning_rate * (it + 1) / args.warmup_iters
    done = (it - args.warmup_iters) / max(1, args.max_iters - args.warmup_iters)
    return args.learning_rate * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))


@torch.no_grad()
def estimate_loss(model, data, args):
    generator = torch.Generator().manual_seed(1)
    losses = [model(*get_batch(data, args, generator)).item() for _ in range(args.eval_iters)]
    return sum(losses) / len(losses)


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="data/input.txt")
    parser.add_argument("--out-dir", default="out")
    parser.add_argument("--init-from", choices=["scratch", "resume"], default="scratch")
    parser.add_argument("--max-iters", type=int, default=200)
    parser.add_argument("--eval-interval", type=int, default=20)
    parser.add_argument("--eval-iters", type=int, default=4)
    parser.add_argument("--warmup-iters", type=int, default=10)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--n-layer", type=int, default=2)
    parser.add_argument("--n-embd", type=int, default=32)
    parser.add_argument("--n-head", type=int, default=2)
    parser.add_argument("--block-size", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1337)
    parser.add_argument("--device", default="cpu")
    return parser.parse_args()


def main():
    args = parse()
    torch.manual_seed(args.seed)
    with open(args.data, "rb") as file:
        text = torch.tensor(list(file.read()), dtype=torch.long)
    split = int(0.9 * len(text))
    train, val = text[:split], text[split:]

    model = GPT(args.n_layer, args.n_embd, args.n_head, args.block_size).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, weight_decay=0.1)
    generator = torch.Generator().manual_seed(args.seed)
    os.makedirs(args.out_dir, exist_ok=True)
    path = os.path.join(args.out_dir, "ckpt.pt")
    it = 0
    if args.init_from == "resume":
        ckpt = torch.load(path, weights_only=True)
        model.load_state_dict(ckpt["model"])
        optimizer.load_state_dict(ckpt["optimizer"])
        generator.set_state(ckpt["generator"])
        it = ckpt["iter"]
        print(f"resumed at iter {it}")

    while it < args.max_iters:
        for group in optimizer.param_groups:
            group["lr"] = get_lr(it, args)
        loss = model(*get_batch(train, args, generator))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        it += 1
        if it % args.eval_interval == 0 or it == args.max_iters:
            val_loss = estimate_loss(model, val, args)
            print(f"iter {it}: train loss {loss.item():.4f}, val loss {val_loss:.4f}")
            with open(os.path.join(args.out_dir, "log.jsonl"), "a") as log:
                log.write(json.dumps({"iter": it, "loss": loss.item(), "val_loss": val_loss}) + "\n")
            torch.save(
                {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "generator": generator.get_state(),
                    "iter": it,
                },
                path,
            )


if __name__ == "__main__":
    main()
