# SPDX-License-Identifier: MIT
"""quern profile: problems and plans, the JSON, kinds of workgroup against whole launches."""

import html.parser
import json
import re
import shutil

import pytest
from conftest import TARGET

N, K, M = 256, 512, 2
PROBLEM = f"wq=nf4 n={N} k={K} a=f16"
CLASSES = {"valu", "packed", "trans", "salu", "smem", "vmem", "lds", "matrix", "branch", "wait"}
PORTS = {"issue", "valu", "trans", "matrix", "salu", "lds", "vmem"}


@pytest.fixture(scope="module")
def built(warm, tmp_path_factory):
    place = tmp_path_factory.mktemp("built")
    warm("build", "--target", TARGET, "--m", M, "--out", place, PROBLEM)
    return place


def profile(quern, problem, m, *more):
    return quern.json("profile", "--target", TARGET, "--m", m, problem, *more)


def is_number(x):
    return isinstance(x, (int, float)) and not isinstance(x, bool) and x >= 0


# ---- What is in it -------------------------------------------------------------------------------


def test_the_json(warm):
    p = profile(warm, PROBLEM, M)
    assert p["quern_profile"] == 1 and p["target"] == TARGET and p["m"] == M
    assert "model" in p["note"] and "Nothing here was timed" in p["note"]
    assert f"n={N} k={K}" in p["problem"] and is_number(p["total_us"])
    (launch,) = p["launches"]
    assert set(launch) == {
        "kernel", "grid", "block", "simulated", "resources", "counts", "per_weight", "per_output",
        "buffers", "model", "instructions",
    }  # fmt: skip
    counts, model = launch["counts"], launch["model"]
    assert set(counts["classes"]) == CLASSES and set(model["port_cycles"]) == PORTS
    for group in (launch["per_weight"], launch["per_output"]):
        assert set(group) == CLASSES | {"issue_slots"}
        assert all(is_number(x) for x in group.values())
    assert counts["issue_slots"] == counts["instructions"] - counts["classes"]["wait"]
    slots = counts["issue_slots"] * counts["wave_size"]
    assert launch["per_weight"]["issue_slots"] == pytest.approx(slots / (N * K), rel=1e-5)
    assert launch["per_output"]["issue_slots"] == pytest.approx(slots / (N * M), rel=1e-5)
    assert counts["lds_passes"] >= counts["lds_least"] > 0
    assert counts["lines128"] >= counts["lines128_least"] > 0
    assert model["bound"] in ("issue", "LDS", "matrix", "vmem", "memory")
    assert model["roofline"] in ("memory", "matrix") and 0 < model["roofline_percent"] <= 100
    assert 0.5 * model["sustained_us"] < model["memory_us"] < model["sustained_us"]
    assert model["chain_us"] >= 0.7
    longest = max(model[k] for k in ("issue_us", "lds_us", "matrix_us", "vmem_us", "sustained_us"))
    assert model["total_us"] == pytest.approx(longest + model["prologue_us"], rel=1e-5)
    assert launch["simulated"]["extent"] == "all"
    # the parts of a whole
    for name in CLASSES:
        executed = (i["executed"] for i in launch["instructions"] if i["class"] == name)
        assert sum(executed) == counts["classes"][name]
    assert sum(b["bytes_read"] for b in launch["buffers"]) == counts["bytes_read"]
    assert sum(b["bytes_written"] for b in launch["buffers"]) == counts["bytes_written"]
    assert sum(b["lines128"] for b in launch["buffers"]) == counts["lines128"]
    buffers = {b["name"]: b for b in launch["buffers"]}
    assert buffers["b"]["size"] == N * K // 2 <= buffers["b"]["bytes_read"]
    assert buffers["c"]["bytes_written"] == N * M * 2
    assert {"a", "scales"} <= set(buffers)
    # it is what quern sim counts
    assert launch["grid"][0] * launch["grid"][1] * launch["grid"][2] == counts["workgroups"]


def test_the_text_says_that_it_is_a_model(warm):
    text = warm("profile", "--target", TARGET, "--m", M, PROBLEM).stdout
    assert "a model of the part's published figures. Nothing here was timed on a GPU." in text
    for line in text.splitlines():
        if re.search(r"\bus\b|cycles|GB/s take", line):
            assert "model" in line or "GB/s" in line or "port" in line, line
    for word in ("issue slots", "waits (no slot)", "per weight", "per output", "bound by"):
        assert word in text, word


def test_the_same_every_time(warm):
    words = ("profile", "--target", TARGET, "--m", 3, PROBLEM, "--json")
    assert warm(*words).stdout == warm(*words).stdout


@pytest.mark.parametrize("target, lanes", [("gfx1100", 32), ("gfx942", 64), ("gfx1201", 32)])
def test_every_family(warm, target, lanes):
    if not warm.json("targets", target)[0]["verified"]:
        pytest.skip(f"the software GPU does not run {target}")
    (launch,) = warm.json("profile", "--target", target, "--m", 1, PROBLEM)["launches"]
    counts, ports = launch["counts"], launch["model"]["port_cycles"]
    assert counts["wave_size"] == lanes
    vector = counts["classes"]["valu"] + counts["classes"]["packed"]
    waves = counts["waves"]
    per_wave = vector / waves * (4 if lanes == 64 else 1)
    assert ports["valu"] >= per_wave * 0.99
    assert ports["issue"] >= ports["valu"]
    assert launch["resources"]["vgpr"] > 0 and launch["model"]["in_flight_per_cu"] > 0


# ---- Kinds ---------------------------------------------------------------------------------------


@pytest.mark.numbers
@pytest.mark.parametrize(
    "problem, m",
    [
        ("wq=nf4 n=4100 k=1024 a=bf16", 1),  # a tail in N, waves that start apart along K
        ("wq=nf4 n=1000 k=1024 a=f32 bias=1", 27),  # slices of rows, then the rest
        ("wq=nf4 n=4100 k=1024 a=f16 bias=1", 65),  # matrix units, then a row on the vector units
        ("wq=fp4 n=1800 k=4096 a=f32", 5),
    ],
)
def test_kinds_count_like_the_whole(warm, problem, m):
    whole = profile(warm, problem, m, "--workgroups=all")
    kinds = profile(warm, problem, m, "--workgroups=kinds")
    for one, all_of_them in zip(kinds["launches"], whole["launches"], strict=True):
        for ours, theirs in zip(one["buffers"], all_of_them["buffers"], strict=True):
            # lines in common depend on where each workgroup's part begins: a mean of those run
            for name in "bytes_by_wave", "bytes_by_workgroup":
                assert ours.pop(name) == pytest.approx(theirs.pop(name), rel=0.25), ours["name"]
    simulated = [launch.pop("simulated") for launch in kinds["launches"]]
    for launch in whole["launches"]:
        assert launch.pop("simulated")["extent"] == "all"
    assert kinds == whole
    assert all(s["extent"] == "kinds" for s in simulated)
    for s, launch in zip(simulated, whole["launches"]):
        x, y, z = launch["grid"]
        sizes = [[b - a + 1 for a, b in zip(k["first"], k["last"])] for k in s["kinds"]]
        assert sum(a * b * c for a, b, c in sizes) == x * y * z


@pytest.mark.numbers
@pytest.mark.parametrize(
    "problem",
    [
        "wq=nf4 n=1000 k=960 a=f16",  # the scales of rows start at different places in a line
        # 256 blocks share a second scale, and straddle workgroups
        "wq=fp4 n=1800 k=4096 a=f32 scale=nested",
    ],
)
def test_without_kinds_the_whole_is_run(warm, problem):
    whole = profile(warm, problem, 2, "--workgroups=all")
    assert profile(warm, problem, 2, "--workgroups=kinds") == whole


# ---- The model and quern explain -----------------------------------------------------------------


@pytest.mark.numbers
@pytest.mark.parametrize(
    "n, k, a", [(4096, 4096, "bf16"), (2048, 8192, "f16"), (6144, 2560, "f32")]
)
def test_explain_says_the_same(warm, n, k, a):
    problem = f"wq=nf4 n={n} k={k} a={a}"
    (launch,) = profile(warm, problem, 1, "--workgroups=kinds")["launches"]
    text = warm("explain", "--target", TARGET, "--m", 1, problem).stdout
    groups, fill = re.search(r"grid +(\d+) workgroups .* to (\d+) %", text).groups()
    slots, memory, bound = re.search(
        r"model +([\d.]+) issue slots per weight; .* ([\d.]+) us of memory .* bound by (\w+)", text
    ).groups()
    model = launch["model"]
    assert int(groups) == launch["counts"]["workgroups"]
    assert int(fill) == model["fill_percent"]
    assert float(memory) == pytest.approx(model["memory_us"], rel=0.01, abs=0.06)
    assert float(slots) == pytest.approx(launch["per_weight"]["issue_slots"], rel=0.1)
    assert bound == model["bound"]


# ---- Plans ---------------------------------------------------------------------------------------


def test_a_plan_gives_what_its_problem_gives(warm, built):
    assert warm.json("profile", built / "plan.json") == profile(warm, PROBLEM, M)


def test_a_plan_of_nobody_we_know(warm, built, tmp_path):
    for path in built.iterdir():
        shutil.copy(path, tmp_path)
    plan = json.loads((tmp_path / "plan.json").read_text())
    ours = warm.json("profile", built / "plan.json")
    sizes = {o["name"]: o["bytes"] for o in plan["operands"]}
    for member in ("problem", "m", "operands", "resources", "target", "covers"):
        plan.pop(member, None)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    warm.refused("profile", path, status=2, says=["pointer 'a'", "a=FILE"])
    words = []
    for name, size in sizes.items():
        (tmp_path / name).write_bytes(bytes(size))
        words.append(f"{name}={tmp_path / name}")
    theirs = warm.json("profile", path, *words)
    assert "problem" not in theirs and "per_weight" not in theirs["launches"][0]
    mine, other = ours["launches"][0], theirs["launches"][0]
    assert other["counts"] == mine["counts"] and other["instructions"] == mine["instructions"]
    # the results are thrown away
    assert (tmp_path / "c").read_bytes() == bytes(sizes["c"])


def test_operands_of_its_own(warm, built, tmp_path):
    (tmp_path / "b").write_bytes(bytes(N * K // 2))
    warm.json("profile", built / "plan.json", f"b={tmp_path / 'b'}")
    (tmp_path / "b").write_bytes(b"short")
    warm.refused("profile", built / "plan.json", f"b={tmp_path / 'b'}", status=2,
                 says=["operand b", "5 bytes", str(N * K // 2)])  # fmt: skip
    warm.refused("profile", built / "plan.json", "d=x", status=2, says="'d'")


def test_a_plan_whose_m_is_not_that_of_its_operands(warm, tmp_path):
    warm("build", "op=moe wq=fp8 n=64 k=64 a=bf16 experts=4 top_k=2", "--target", "gfx942",
         "--m", "4", "--out", tmp_path)  # fmt: skip
    path = tmp_path / "plan.json"
    plan = json.loads(path.read_text())
    warm.json("profile", path)
    plan["m"] = [4000000, 4000000]
    path.write_text(json.dumps(plan))
    warm.refused("profile", path, status=2,
                 says=["512 bytes for operand a", "512000000 at m=4000000"])  # fmt: skip


# ---- The page ------------------------------------------------------------------------------------


class Page(html.parser.HTMLParser):
    """Checks that tags nest, and keeps texts, attributes and the rows of the heat map."""

    EMPTY = {"meta", "br", "path", "circle"}

    def __init__(self, text):
        super().__init__()
        self.open, self.counts, self.attributes, self.texts, self.rows = [], {}, [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.attributes += attrs
        if tag not in self.EMPTY:
            self.open.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag == "td":
            self.rows[-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open and self.open.pop()[0] == tag, (tag, self.open)

    def handle_data(self, data):
        if self.open and self.open[-1][0] != "style":
            self.texts.append(data)
        if any(tag == "td" for tag, _ in self.open):
            self.rows[-1][-1] += data


def test_the_page(warm, tmp_path):
    path = tmp_path / "page.html"
    p = profile(warm, "wq=nf4 n=512 k=4096 a=f32", 9, "--html", path)
    text = path.read_text()
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>") and len(p["launches"]) == 2
    assert page.counts["svg"] == page.counts["section"] == 2
    # nothing is fetched, nothing is run
    assert not {name for name, _ in page.attributes} & {"src", "href", "onclick", "onload"}
    assert "script" not in page.counts and "url(" not in text and "@import" not in text
    assert not re.search(r"https?:", text)
    assert "prefers-color-scheme: dark" in text
    words = " ".join(page.texts)
    assert "MODEL" in page.texts and p["note"] in words
    for launch in p["launches"]:
        assert launch["kernel"] in words
    # every instruction has its row, with its executions
    want = [(f"{i['offset']:x}", str(i["executed"]), i["text"].replace("\t", " "))
            for launch in p["launches"] for i in launch["instructions"]]  # fmt: skip
    rows = [r for r in page.rows if len(r) == 6 and r[3] in CLASSES]
    got = [(r[0], r[1].replace("\u202f", ""), r[4]) for r in rows]
    assert got == want
    heats = [float(h) for h in re.findall(r"--h:(\d+)", text)]
    assert len(heats) == len(want) and max(heats) == 100
    # what the roofline draws lies in the picture
    for x, y in re.findall(r'cx="([\d.-]+)" cy="([\d.-]+)"', text):
        assert 74 <= float(x) <= 616 and 12 <= float(y) <= 316


def text_boxes(svg):
    """What level text takes in a roofline, with characters as wide as those of DejaVu Sans."""
    for kind, x, y, anchor, text in re.findall(
        r'<text class="(\w+)" x="([\d.]+)" y="([\d.]+)"(?: text-anchor="(\w+)")?>([^<]*)', svg
    ):
        width = len(text) * (8.4 if kind == "value" else 7.4)
        left = float(x) - {"end": width, "middle": width / 2}.get(anchor, 0)
        yield text, left, left + width, float(y) - 10, float(y) + 3


@pytest.mark.parametrize("target,m", [("gfx942", 256), ("gfx1201", 16)])
def test_words_of_the_roofline_have_room(warm, tmp_path, target, m):
    path = tmp_path / "page.html"
    warm("profile", "--target", target, "--m", m, "wq=nf4 n=256 k=4096 a=bf16", "--html", path)
    svg = path.read_text().split("<svg")[1].split("</svg>")[0]
    lines = re.findall(r'class="ceiling" d="M([\d.]+) [\d.]+ H(\d+)', svg)
    assert len(lines) == 2 and all(74 <= float(left) < float(right) for left, right in lines)
    boxes = list(text_boxes(svg))
    assert len(boxes) > 8 and all(0 <= b[1] and b[2] <= 640 and b[4] <= 372 for b in boxes)
    for n, (one, left, right, top, bottom) in enumerate(boxes):
        for other in boxes[n + 1 :]:
            apart = right < other[1] or other[2] < left or bottom < other[3] or other[4] < top
            assert apart, (one, other[0])


def test_names_cannot_break_the_page(warm, built, tmp_path):
    for path in built.iterdir():
        shutil.copy(path, tmp_path)
    plan = json.loads((tmp_path / "plan.json").read_text())
    evil = "<b>&\"a'"
    words = []
    for o in plan.pop("operands"):
        (tmp_path / o["name"]).write_bytes(bytes(o["bytes"]))
        name = evil if o["name"] == "a" else o["name"]
        words.append(f"{name}={tmp_path / o['name']}")
    for argument in plan["launches"][0]["args"]:
        argument["name"] = evil if argument["name"] == "a" else argument["name"]
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    warm("profile", tmp_path / "plan.json", *words, "--html", tmp_path / "page.html")
    page = Page((tmp_path / "page.html").read_text())
    assert any(evil in row for row in page.rows)


def test_a_page_that_cannot_be_written(warm, tmp_path):
    words = ("--target", TARGET, "--m", M, PROBLEM, "--html", tmp_path / "none" / "page.html")
    warm.refused("profile", *words, status=1, says="page.html")


# ---- Wrong input ---------------------------------------------------------------------------------


def test_wrong_words(quern, built, tmp_path):
    quern.refused("profile", status=2, says="plan.json")
    quern.refused("profile", "--m", 1, PROBLEM, status=2, says="--target")
    quern.refused("profile", "--target", TARGET, PROBLEM, status=2, says="--m")
    quern.refused("profile", "--target", TARGET, "--m", "1-4", PROBLEM, status=2, says="--m")
    quern.refused("profile", "--target", "gfx77", "--m", 1, PROBLEM, status=2, says="gfx77")
    quern.refused("profile", "--target", TARGET, "--m", 1, "wq=nf5", status=2, says="nf5")
    quern.refused("profile", "--m", 1, built / "plan.json", status=2, says="--m")
    words = ("profile", "--workgroups=some", built / "plan.json")
    quern.refused(*words, status=2, says="auto|all|kinds")
    quern.refused("profile", tmp_path / "none.json", status=1, says="none.json")
    (tmp_path / "bad.json").write_text("{")
    quern.refused("profile", tmp_path / "bad.json", status=1, says="bad.json")


def test_a_page_goes_to_where_a_link_of_the_systems_leads(quern, tmp_path):
    """As /dev/stdout does: to a pipe, which has no path. The link stays, and no file takes its
    place."""
    link = tmp_path / "out"
    link.symlink_to("/proc/self/fd/1")
    done = quern("profile", "--target", "gfx1151", "--m", "1", "wq=nf4 n=64 k=128 a=bf16",
                 "--html", link)  # fmt: skip
    assert link.is_symlink() and "</html>" in done.stdout
    assert list(tmp_path.glob("out*")) == [link]
