#!/usr/bin/env python3
"""The sweep X' = relu(A^T X W^T + B) written by hand in PyTorch, to compare with `ignn bench sweep` on the same machine.

Reads the arrays of a dataset directory with numpy, makes a sparse CSR tensor, and times: CSR x dense, matrix product with the
input added, relu in place, largest change. Needs numpy and torch.

    scripts/pytorch-sweep.py graph.ignn [--state 128] [--threads 2] [--repeat 10]
"""

import argparse
import json
import pathlib
import time

import numpy
import torch

HEADER = 64


def array(path, kind):
    return numpy.fromfile(path, dtype=kind, offset=HEADER)


def adjacency(directory):
    manifest = json.loads((directory / "manifest.json").read_text())
    relation = manifest["relations"][0]
    folder = directory / "relations" / relation["name"]
    offsets, neighbours = array(folder / "in.offsets.u64", "<u8"), array(folder / "in.neighbours.u32", "<u4")
    rows = len(offsets) - 1
    has_values = (folder / "in.values.f32").exists()
    values = array(folder / "in.values.f32", "<f4") if has_values else numpy.ones(len(neighbours), "f4")
    if (folder / "scale.f32").exists():
        scale = array(folder / "scale.f32", "<f4")
        values = values * scale[neighbours]
        if relation["scale"] == "both":
            values = values * numpy.repeat(scale, numpy.diff(offsets).astype("i8"))
    return torch.sparse_csr_tensor(
        torch.from_numpy(offsets.astype("i4")),
        torch.from_numpy(neighbours.astype("i4")),
        torch.from_numpy(values.astype("f4")),
        size=(rows, rows),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=pathlib.Path)
    parser.add_argument("--state", type=int, default=128)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeat", type=int, default=10)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    a, m = adjacency(arguments.dataset), arguments.state
    n = a.shape[0]
    x, b = torch.rand(n, m), torch.rand(n, m)
    w_t = (torch.rand(m, m) / m).t().contiguous()
    times = []
    with torch.no_grad():
        for _ in range(arguments.repeat + 1):
            start = time.perf_counter()
            new = torch.addmm(b, a @ x, w_t).relu_()
            change = (new - x).abs_().max()
            times.append(time.perf_counter() - start)
    times = sorted(times[1:])
    print(f"torch {torch.__version__}, {arguments.threads} threads, {n} nodes, width {m}: "
          f"best {times[0] * 1e3:.1f} ms, median {times[len(times) // 2] * 1e3:.1f} ms (change {change:.3f})")


main()
