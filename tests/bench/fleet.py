#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A fleet that starts at once on one remote cache, simulated by discrete events: how long until
99 % of the machines have all their kernels, and what the origin has to send. Prints the table of
docs/fleet.md; `--check` compares that with it, and `--write` writes it there.

The model, of which nothing was measured but the sizes that are given: a machine starts at a random
moment within the jitter, asks for the revocation list and all of its kernels at once, by their
keys, and is warm when the last one is there. The origin sends to all that wait in equal shares of
its line (processor sharing). In front of it a CDN may stand, of so many places: a place asks the
origin for a file once, whoever else wants it waits for that, and it sends without a limit of its
own. Machines compile nothing, and give nothing up, however long it takes. An answer costs its bytes
and the headers'."""

import heapq
import pathlib
import random
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/fleet.md"
BEGIN, END = "<!-- made by tests/bench/fleet.py -->\n", "<!-- end -->"
NODES, KERNELS, KERNEL_BYTES, LIST_BYTES = 10_000, 50, 10_000, 500
HEADER_BYTES = 300
LINE = 1e9 / 8  # bytes a second, of the origin
TRIP_S = 0.001  # there and back


class Shared:
    """A line that all who wait share equally: what each has had grows alike, so that one heap of
    the amounts at which they are served is enough."""

    def __init__(self, rate):
        self.rate, self.now, self.had = rate, 0.0, 0.0
        self.waiting = []
        self.sent = self.requests = self.most = 0

    def next_time(self):
        if not self.waiting:
            return float("inf")
        return self.now + (self.waiting[0][0] - self.had) * len(self.waiting) / self.rate

    def advance(self, now):
        if self.waiting:
            self.had += (now - self.now) * self.rate / len(self.waiting)
        self.now = now

    def ask(self, now, size, who, requests):
        self.advance(now)
        heapq.heappush(self.waiting, (self.had + size, who))
        self.sent += size
        self.requests += requests
        self.most = max(self.most, len(self.waiting))

    def finish(self):
        self.advance(self.next_time())
        return heapq.heappop(self.waiting)[1]


def simulate(jitter_s, places, seed=1):
    """The time until 99 % are warm, and the origin's requests, bytes and most waiting at once. What
    a machine asks for at once is one transfer here: the line is shared by machines or places."""
    chance = random.Random(seed)
    size = KERNELS * (KERNEL_BYTES + HEADER_BYTES) + LIST_BYTES + HEADER_BYTES
    requests = KERNELS + 1
    line = Shared(LINE)
    starts = sorted((chance.uniform(0, jitter_s), i) for i in range(NODES))
    warm, queues, filled = [], {}, {}
    position = 0
    while len(warm) < NODES:
        start = starts[position][0] if position < NODES else float("inf")
        if start <= line.next_time():
            node = starts[position][1]
            position += 1
            place = node % places if places else None
            if place is None:
                line.ask(start, size, node, requests)
            elif place in filled:
                warm.append(start + TRIP_S)
            elif place in queues:
                queues[place].append(start)
            else:
                queues[place] = [start]
                line.ask(start, size, place, requests)
            continue
        who = line.finish()
        if not places:
            warm.append(line.now + TRIP_S)
        else:
            filled[who] = line.now
            warm += [line.now + 2 * TRIP_S] * len(queues.pop(who))
    warm.sort()
    return warm[int(0.99 * NODES) - 1], line.requests, line.sent, line.most


def table():
    lines = ["| start within | in front of the origin | 99 % warm after | the origin's requests | "
             "it sends | transfers at once |", "|---|---|---|---|---|---|"]
    for jitter in (0, 10, 60):
        for places in (0, 1, 20):
            took, requests, sent, most = simulate(jitter, places)
            what = f"a CDN of {places} place{'s'[:places > 1]}" if places else "nothing"
            lines.append(f"| {jitter} s | {what} | {took:.2f} s | {requests:,} | "
                         f"{sent / 1e6:,.1f} MB | {most:,} |")
    return "\n".join(lines) + "\n"


def main():
    made = table()
    if "--check" in sys.argv or "--write" in sys.argv:
        text = PAGE.read_text()
        begin = text.index(BEGIN) + len(BEGIN)
        end = text.index(END, begin)
        if "--write" in sys.argv:
            PAGE.write_text(text[:begin] + made + text[end:])
        elif text[begin:end] != made:
            sys.exit("the table of docs/fleet.md is not what tests/bench/fleet.py --write makes")
    else:
        print(made, end="")


main()
