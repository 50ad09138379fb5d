#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tokens a second of a language model in transformers, decoded on the NVIDIA GPU of this machine by
bitsandbytes' kernels, by quern's behind the same modules, and in bf16.

    decode.py all [OPTIONS]     each of these in a process of its own; prints a table and what the
                                logits are off by, and leaves OUT/decode.json
    decode.py MODE OPTIONS      one: bitsandbytes, quern, bf16, or the reference in f32

The architecture is Llama-3.1-8B's with random weights, the same in all (seeded); its linear layers
are bitsandbytes' Linear4bit (NF4, groups of 64, f32 absmax), lm_head stays bf16. A static cache
holds 512 tokens of context of each sequence; 128 tokens are then generated, each step a replay of
one CUDA graph that holds the whole step, the choice of the next token included. "quern" is the
lines of docs/bitsandbytes.md: calls of bitsandbytes' native library led to libquern_bnb.so, which
are counted while the graph is captured: one for each Linear4bit, or the mode fails.

The host is alike in all modes. It is one that minds its time: a token's attention reads each head
of K and V once for the four of Q that share it, and torch.compile fuses what stands between the
products (norms, rotation, the cache's update, softmax, activation); with --plain it is transformers
as it comes.

Times are the median of REPEATS generations, by CUDA events around each. Logits are compared of one
step behind the context, of the same next tokens, with the reference: the same 4-bit weights, all
arithmetic in f32. It needs torch with CUDA, transformers, bitsandbytes 0.50 and libquern_bnb.so,
which options name. Exit status 1: something is wrong; 77: no GPU, or something of these is not
there.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests/hw")]
import hosts_cuda  # noqa: E402
MODES = ("bitsandbytes", "quern", "bf16", "reference")
CONTEXT, GENERATED, REPEATS = 512, 128, 5
# quern's logits are at most so many times as far from the reference's as bitsandbytes' are: both
# round 224 products to bf16, and which of two such sums of rounding errors is the larger is chance.
FURTHER = 1.25
# meta-llama/Llama-3.1-8B's config.json
LLAMA = {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
         "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "tie_word_embeddings": False}


def make_model(torch, transformers, layers, four_bits):
    """The model on the GPU, and how many of its layers are Linear4bit."""
    config = transformers.LlamaConfig(**{**LLAMA, "num_hidden_layers": layers},
                                      attn_implementation="sdpa")
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = transformers.LlamaForCausalLM(config).eval()
    torch.set_default_dtype(torch.float32)
    count = 0
    if four_bits:
        import bitsandbytes as bnb
        for parent in model.modules():
            for name, linear in list(parent.named_children()):
                if type(linear) is not torch.nn.Linear or name == "lm_head":
                    continue
                n, k = linear.weight.shape
                layer = bnb.nn.Linear4bit(k, n, bias=False, compute_dtype=torch.bfloat16,
                                          quant_type="nf4", compress_statistics=False,
                                          device="meta")
                layer.weight = bnb.nn.Params4bit(linear.weight.data, requires_grad=False,
                                                 quant_type="nf4", compress_statistics=False,
                                                 module=layer).to("cuda")
                setattr(parent, name, layer.eval())
                count += 1
    return model, count


def make_reference(torch, model):
    """The same weights, decoded; all in f32."""
    import bitsandbytes as bnb
    for parent in model.modules():
        for name, layer in list(parent.named_children()):
            if isinstance(layer, bnb.nn.Linear4bit):
                linear = torch.nn.Linear(layer.in_features, layer.out_features, bias=False,
                                         device="meta")
                weight = bnb.functional.dequantize_4bit(layer.weight.data,
                                                        layer.weight.quant_state)
                linear.weight = torch.nn.Parameter(weight.float(), requires_grad=False)
                setattr(parent, name, linear)
    return model.float()


def mind_time(torch, model):
    """What stands between the products of a token is fused: nothing of K and V is copied for
    attention, and the static cache is written by the kernel that rotates."""
    from transformers.models.llama import modeling_llama as llama
    size = model.config.head_dim
    scale = size ** -0.5

    def rotated(x, cos, sin):
        low, high = x.chunk(2, -1)
        return x * cos + torch.cat((-high, low), -1) * sin

    @torch.compile(dynamic=False)
    def attend(q, k, v, cos, sin, keys, values, position, mask):
        batch, heads = keys.shape[:2]
        q = rotated(q.view(batch, heads, -1, size), cos, sin)
        keys.index_copy_(2, position, rotated(k.view(batch, heads, 1, size), cos, sin))
        values.index_copy_(2, position, v.view(batch, heads, 1, size))
        scores = (q @ keys.transpose(2, 3)).float() * scale
        shares = scores.masked_fill(~mask, float("-inf")).softmax(-1).to(q.dtype)
        return (shares @ values).view(batch, 1, -1)

    @torch.compile(dynamic=False)
    def activate(gate, up):
        return torch.nn.functional.silu(gate) * up

    plain = llama.LlamaAttention.forward

    def attention(self, hidden_states, position_embeddings, attention_mask, past_key_values,
                  **words):
        if hidden_states.shape[1] > 1:
            return plain(self, hidden_states, position_embeddings, attention_mask,
                         past_key_values, **words)
        layer = past_key_values.layers[self.layer_idx]
        out = attend(*(f(hidden_states) for f in (self.q_proj, self.k_proj, self.v_proj)),
                     *(x[:, None] for x in position_embeddings), layer.keys, layer.values,
                     words["position_ids"][0], attention_mask)
        return self.o_proj(out), None

    llama.LlamaAttention.forward = attention
    llama.LlamaMLP.forward = lambda self, x: self.down_proj(
        activate(self.gate_proj(x), self.up_proj(x)))
    llama.LlamaRMSNorm.forward = torch.compile(llama.LlamaRMSNorm.forward, dynamic=False)


class Calls:
    """Leads bitsandbytes' products to quern's where that is asked for, and counts the calls of
    either. `failed` is of quern's."""

    def __init__(self, mode, library):
        from bitsandbytes.cextension import lib
        self.count, self.failed = 0, ""
        if mode == "quern":
            self.ours = hosts_cuda.lead_to_quern(library)
        for name in hosts_cuda.PRODUCTS:
            setattr(lib, name, self.counted(getattr(lib, name), mode == "quern"))

    def counted(self, function, is_ours):
        def call(*arguments):
            self.count += 1
            function(*arguments)
            if is_ours and self.ours.quern_bnb_last_status():
                self.failed = self.ours.quern_bnb_last_error().decode()
        return call


class Decoder:
    """One batch of sequences: the context is read when it is made, `step` is one token."""

    def __init__(self, torch, transformers, model, batch):
        self.torch, self.model = torch, model
        length = CONTEXT + GENERATED
        generator = torch.Generator("cuda").manual_seed(batch)
        context = torch.randint(model.config.vocab_size, (batch, CONTEXT), device="cuda",
                                generator=generator)
        self.cache = transformers.StaticCache(config=model.config, max_cache_len=length)
        # Sequence by sequence: a context's activations are not what is measured.
        keys = []
        for row in context:
            one = transformers.StaticCache(config=model.config, max_cache_len=CONTEXT)
            model(row[None], past_key_values=one, logits_to_keep=1)
            keys.append([(layer.keys, layer.values) for layer in one.layers])
        for i, layer in enumerate(self.cache.layers):
            k, v = (torch.cat([row[i][j] for row in keys]) for j in (0, 1))
            layer.lazy_initialization(k, v)
            layer.keys[:, :, :CONTEXT], layer.values[:, :, :CONTEXT] = k, v
        self.position = torch.full((1, 1), CONTEXT, device="cuda")
        self.places = torch.arange(length, device="cuda")
        self.first = torch.randint(model.config.vocab_size, (batch, 1), device="cuda",
                                   generator=generator)
        self.tokens = self.first.clone()
        self.rewind()

    def rewind(self):
        """Behind the context again; a step overwrites what was there."""
        self.position.fill_(CONTEXT)
        self.tokens.copy_(self.first)
        for layer in self.cache.layers:
            layer.cumulative_length.fill_(CONTEXT)

    def step(self):
        # a mask of four dimensions is taken as it is, so that nothing of it is decided by the CPU
        mask = (self.places <= self.position)[None, None]  # of every sequence
        logits = self.model(self.tokens, past_key_values=self.cache, position_ids=self.position,
                            attention_mask=mask).logits
        self.tokens.copy_(logits[:, -1].argmax(-1, keepdim=True))
        self.position.add_(1)
        return logits

    def warm(self):
        """Three steps, in which kernels are made and loaded."""
        side = self.torch.cuda.Stream()
        side.wait_stream(self.torch.cuda.current_stream())
        with self.torch.cuda.stream(side):
            for _ in range(3):
                self.step()
        self.torch.cuda.current_stream().wait_stream(side)
        self.rewind()
        self.torch.cuda.synchronize()

    def capture(self):
        self.graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(self.graph):
            self.logits = self.step()

    def milliseconds(self):
        """Of all tokens of one generation."""
        self.rewind()
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(GENERATED):
            self.graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)


def kernels(torch, decoder):
    """Microseconds of one step by kernel, the longest first; none where CUPTI does not work."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        decoder.rewind()
        decoder.graph.replay()
        torch.cuda.synchronize()
    rows = [(e.key[:70], e.count, e.self_device_time_total) for e in profile.key_averages()]
    return sorted(rows, key=lambda row: -row[2])[:12]


def run_one(options):
    try:
        import torch
        import transformers
        if not torch.cuda.is_available():
            raise ImportError("no GPU that torch can use")
        if options.mode != "bf16":
            sys.path.insert(0, str(options.bitsandbytes.resolve().parent))
            import bitsandbytes  # noqa: F401
    except ImportError as missing:
        print(f"decode.py: {missing}", file=sys.stderr)
        return 77
    failed, result = 0, {"mode": options.mode, "batches": {}}
    torch.set_grad_enabled(False)
    calls = Calls(options.mode, options.library) if options.mode != "bf16" else None
    model, count = make_model(torch, transformers, options.layers, options.mode != "bf16")
    if options.mode == "reference":
        model = make_reference(torch, model)
    elif not options.plain:
        mind_time(torch, model)
    torch.cuda.empty_cache()
    for batch in options.batches:
        torch.cuda.reset_peak_memory_stats()
        decoder = Decoder(torch, transformers, model, batch)
        logits = decoder.step().float()
        torch.save(logits.cpu(), options.out / f"logits.{options.mode}.{batch}.pt")
        if not logits.isfinite().all():
            failed = tell("logits that are no numbers")
        if options.mode == "reference":
            continue
        decoder.rewind()
        decoder.warm()
        if calls:
            calls.count = 0
        decoder.capture()
        seen = calls.count if calls else 0
        times = [decoder.milliseconds() for _ in range(REPEATS)]
        free, whole = torch.cuda.mem_get_info()
        result["batches"][batch] = {
            "tokens_per_s": batch * GENERATED * 1e3 / statistics.median(times),
            "milliseconds": sorted(times), "calls": seen, "layers_4bit": count,
            "torch_peak_gib": torch.cuda.max_memory_allocated() / 2**30,
            "device_gib": (whole - free) / 2**30,
            "kernels": kernels(torch, decoder) if options.kernels else []}
        if not decoder.logits.isfinite().all():
            failed = tell("logits that are no numbers after the graph's last step")
        if options.mode == "quern" and (seen != count or calls.failed):
            failed = tell(f"{seen} calls of quern for {count} layers {calls.failed}")
        del decoder, logits  # before the next batch's
        torch.cuda.empty_cache()
    (options.out / f"{options.mode}.json").write_text(json.dumps(result, indent=1))
    return failed


def tell(text):
    print(f"decode.py: {text}", file=sys.stderr)
    return 1


def run_all(options, words):
    failed, results = 0, {}
    for mode in MODES:
        status = subprocess.run([sys.executable, __file__, mode, *words], check=False).returncode
        if status == 77:
            return 77
        failed |= status != 0
        path = options.out / f"{mode}.json"
        results[mode] = json.loads(path.read_text())["batches"] if not status else {}
    timed = MODES[:3]
    print("| batch | " + " | ".join(f"{m}, tokens/s" for m in timed) + " | quern / bitsandbytes "
          "| quern / bf16 | torch's peak, GiB: " + ", ".join(timed) + " |\n"
          + "|---" * (len(timed) + 4) + "|")
    for batch in map(str, options.batches):
        rows = [results[m].get(batch) for m in timed]
        if all(rows):
            peer, ours, dense = (row["tokens_per_s"] for row in rows)
            print(f"| {batch} | {peer:.0f} | {ours:.0f} | {dense:.0f} | {ours / peer:.2f} | "
                  f"{ours / dense:.2f} | "
                  + ", ".join(f"{row['torch_peak_gib']:.2f}" for row in rows) + " |")
            failed |= compare(options.out, batch)
    (options.out / "decode.json").write_text(json.dumps(results, indent=1))
    return failed


def compare(out, batch):
    """Whether quern's logits are as near the reference's as bitsandbytes' are."""
    import torch
    peer, ours, right = (torch.load(out / f"logits.{m}.{batch}.pt").double()
                         for m in ("bitsandbytes", "quern", "reference"))
    off = [((x - right).norm() / right.norm()).item() for x in (peer, ours)]
    same = [(x.argmax(-1) == right.argmax(-1)).double().mean().item() for x in (peer, ours)]
    print(f"batch {batch}: logits of bitsandbytes are {off[0]:.2e} off the reference's, quern's "
          f"{off[1]:.2e}; of the next tokens {same[0]:.0%} and {same[1]:.0%} are the same")
    return 0 if off[1] <= FURTHER * off[0] else tell(f"batch {batch}: more than {FURTHER} times")


def main(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mode", choices=("all", *MODES))
    parser.add_argument("--bitsandbytes", type=pathlib.Path, metavar="DIR",
                        default=TOP / "build/hw/bitsandbytes", help="the package's directory")
    parser.add_argument("--library", type=pathlib.Path, metavar="FILE",
                        default=TOP / "build/release/lib/libquern_bnb.so")
    parser.add_argument("--out", type=pathlib.Path, default=TOP / "build/hw/decode")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 16])
    parser.add_argument("--layers", type=int, default=LLAMA["num_hidden_layers"])
    parser.add_argument("--plain", action="store_true", help="transformers as it comes")
    parser.add_argument("--kernels", action="store_true", help="what each kernel of a step takes")
    options = parser.parse_args(words)
    options.out.mkdir(parents=True, exist_ok=True)
    return run_all(options, words[1:]) if options.mode == "all" else run_one(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
