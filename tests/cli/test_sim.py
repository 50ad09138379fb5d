# SPDX-License-Identifier: MIT
"""quern sim: operand files, faults, counts, plans of other programs."""

import json
import shutil

import operands
import pytest
from conftest import TARGET, files_under

N, K, M = 64, 128, 2
PROBLEM = f"wq=nf4 n={N} k={K} a=f16"
CLASSES = ["valu", "packed", "trans", "salu", "smem", "vmem", "lds", "matrix", "branch", "wait"]
SIZES = {"a": M * K * 2, "b": N * K // 2, "scales": N * K // 64 * 4}
C_BYTES = M * N * 2


@pytest.fixture(scope="module")
def built(warm, tmp_path_factory):
    place = tmp_path_factory.mktemp("built")
    warm("build", "--target", TARGET, "--m", M, "--out", place, PROBLEM)
    return place


class Case:
    """A plan, to be changed, and its operand files."""

    def __init__(self, warm, built, place):
        self.quern, self.place = warm, place
        for path in built.iterdir():
            shutil.copy(path, place)
        self.plan = json.loads((place / "plan.json").read_text())
        self.path = place / "plan.json"
        (place / "a").write_bytes(operands.pack("f16", operands.normal(M * K, seed=5)))
        (place / "b").write_bytes(bytes(i * 37 & 255 for i in range(SIZES["b"])))
        (place / "scales").write_bytes(operands.pack("f32", [0.125] * (SIZES["scales"] // 4)))
        self.files = [f"{name}={place / name}" for name in ("a", "b", "scales", "c")]

    def operand(self, name):
        return next(o for o in self.plan["operands"] if o["name"] == name)

    def words(self, *more):
        self.path.write_text(json.dumps(self.plan))
        return ["sim", self.path, *self.files, *more]

    def no_output(self):
        return not any(f.startswith(("c", "counts")) for f in files_under(self.place))


@pytest.fixture
def case(warm, built, tmp_path):
    return Case(warm, built, tmp_path)


# ---- Operand files ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("change", [-1, 1, None])
def test_a_file_of_the_wrong_size(case, name, change):
    size = SIZES[name] + change if change else 0
    (case.place / name).write_bytes(bytes(size))
    case.quern.refused(*case.words(), status=2,
                       says=[f"operand {name}", f"{size} bytes", str(SIZES[name])])  # fmt: skip
    assert case.no_output()


def test_an_operand_without_a_file(case):
    case.files.pop(1)
    case.quern.refused(*case.words(), status=2, says="operand b has no file")


def test_an_operand_that_the_plan_has_not(case):
    case.quern.refused(*case.words("d=x"), status=2, says=["'d'", "a b scales c"])


def test_a_file_that_is_missing(case):
    (case.place / "b").unlink()
    case.quern.refused(*case.words(), status=1, says=str(case.place / "b"))
    assert case.no_output()


def test_an_output_is_replaced_whole(case):
    (case.place / "c").write_bytes(b"old")
    (case.place / "c").chmod(0o640)
    case.quern(*case.words())
    assert len((case.place / "c").read_bytes()) == C_BYTES
    assert [f for f in files_under(case.place) if f.startswith("c")] == ["c"]


def test_an_output_through_a_link_replaces_what_it_points_to(case):
    (case.place / "real").write_bytes(b"old")
    (case.place / "c").symlink_to("real")
    case.quern(*case.words())
    assert (case.place / "c").is_symlink()
    assert len((case.place / "real").read_bytes()) == C_BYTES


def test_an_output_may_be_a_device(case):
    case.files[3] = "c=/dev/null"
    case.quern(*case.words())
    case.files[3] = "c=/dev/full"
    case.quern.refused(*case.words(), status=1, says=["/dev/full", "No space left"])


def test_an_output_in_no_directory(case):
    case.files[3] = f"c={case.place}/none/c"
    case.quern.refused(*case.words(), status=1, says="No such file or directory")


# ---- Faults -------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", ["fast", "full"])
@pytest.mark.parametrize("name", ["a", "b", "scales", "c"])
def test_an_access_out_of_bounds(case, name, check):
    """The kernel needs the whole operand; the plan says that half of it is there."""
    case.operand(name)["bytes"] //= 2
    if name != "c":
        data = (case.place / name).read_bytes()
        (case.place / name).write_bytes(data[: len(data) // 2])
    (case.place / "c").write_bytes(b"kept")
    done = case.quern(*case.words(f"--check={check}", "--counts", case.place / "counts"), status=1)
    assert done.stdout == "" and done.stderr.startswith("quern sim: ")
    assert (case.place / "c").read_bytes() == b"kept"
    assert [f for f in files_under(case.place) if f.startswith("c")] == ["c"]


def test_reading_what_was_never_written(case):
    """An input that counts as never written: its bytes decide what is stored."""
    case.operand("scales")["access"] = "w"
    case.files[2] = f"scales={case.place}/new"
    done = case.quern(*case.words("--check=full"), status=1)
    assert done.stderr.startswith("quern sim: ")
    assert case.no_output() and not (case.place / "new").exists()


@pytest.mark.parametrize(
    "path, value, says",
    [
        (["kernel"], "no_such_kernel", "no_such_kernel"),
        (["object"], "none.co", "none.co"),
        (["object"], "plan.json", "plan.json"),
        (["grid"], [0, 1, 1], "'grid'"),
        (["grid"], [1, 1], "'grid'"),
        (["block"], [64, 64, 1], "4096 work-items"),
        (["lds_bytes"], -1, "'lds_bytes'"),
        (["args"], {}, "'args'"),
        (["args", 0, "kind"], "i128", "'kind'"),
        (["args", 0, "kind"], "i32", "'value'"),
        (["args", 0, "name"], "q", "'q'"),
        (["args", 0, "value"], 4096, "'value'"),
    ],
)
def test_a_wrong_launch(case, path, value, says):
    at = case.plan["launches"][0]
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    done = case.quern(*case.words(), status=1)
    assert says in done.stderr
    assert case.no_output()


@pytest.mark.parametrize("member", ["quern_plan", "launches"])
def test_a_plan_without_a_member(case, member):
    del case.plan[member]
    case.quern.refused(*case.words(), status=1, says=f"'{member}'")


def test_a_plan_for_another_target(case):
    case.plan["target"] = "gfx1100"
    done = case.quern(*case.words(), status=1)
    assert "gfx1100" in done.stderr and TARGET in done.stderr
    assert case.no_output()


def test_missing_arguments(case):
    del case.plan["launches"][0]["args"][3:]
    case.quern(*case.words(), status=1)
    assert case.no_output()


# ---- Counts -------------------------------------------------------------------------------------


def check_counts(counts):
    assert counts["wave_size"] == 32
    assert list(counts["classes"]) == CLASSES
    assert sum(counts["classes"].values()) == counts["instructions"] > 0
    assert counts["lds_passes"] >= counts["lds_accesses"] > 0
    assert counts["lines128"] > 0
    assert counts["bytes_read"] >= SIZES["b"] + SIZES["a"]
    assert counts["bytes_written"] == C_BYTES


def test_counts(case):
    path = case.place / "out.json"
    printed = case.quern.json(*case.words("--counts", path))
    counts = json.loads(path.read_text())
    assert counts == printed and counts["quern_counts"] == 1
    check_counts(counts)
    (launch,) = counts["launches"]
    check_counts(launch)
    assert launch["kernel"] == case.plan["launches"][0]["kernel"]
    assert launch["instructions"] == counts["instructions"]


def test_counts_do_not_depend_on_the_check(case):
    fast, full = (case.quern.json(*case.words(f"--check={c}")) for c in ("fast", "full"))
    assert fast == full


def test_launches_run_in_order_and_are_summed(case):
    case.plan["launches"] *= 3
    counts = case.quern.json(*case.words())
    assert len(counts["launches"]) == 3
    for name in ("instructions", "bytes_written", "lines128"):
        assert counts[name] == sum(launch[name] for launch in counts["launches"])


# ---- Order --------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [["--order=grid"], ["--order=shuffled"], ["--seed", "3"]])
def test_results_do_not_depend_on_the_order(case, order):
    case.quern(*case.words())
    expected = (case.place / "c").read_bytes()
    case.quern(*case.words(*order))
    assert (case.place / "c").read_bytes() == expected


def test_a_seed_shuffles(case):
    case.quern.refused(*case.words("--order=grid", "--seed", "3"), status=2, says="--seed")
    case.quern.refused(*case.words("--seed", "0"), status=2, says="1")
    case.quern.refused(*case.words("--order=random"), status=2, says=["grid", "shuffled"])


# ---- Plans of other programs --------------------------------------------------------------------


def test_a_plan_without_operands(case):
    """The files decide: all are given, whole, and only what changed is replaced."""
    case.quern(*case.words())
    expected = (case.place / "c").read_bytes()
    del case.plan["operands"], case.plan["target"], case.plan["problem"], case.plan["resources"]
    (case.place / "c").write_bytes(bytes(C_BYTES))
    before = (case.place / "a").stat()
    case.quern(*case.words())
    assert (case.place / "c").read_bytes() == expected
    assert (case.place / "a").stat().st_ino == before.st_ino


def test_a_plan_without_operands_needs_every_file(case):
    del case.plan["operands"]
    case.files.pop(2)
    (case.place / "c").write_bytes(bytes(C_BYTES))
    case.quern.refused(*case.words(), status=2, says="'scales'")


def test_arguments_as_bytes(case):
    """Numbers may be given as raw bytes, little-endian, without alignment of their own."""
    expected = case.quern.json(*case.words())
    c = (case.place / "c").read_bytes()
    for arg in case.plan["launches"][0]["args"]:
        if arg["kind"] in ("i32", "i64"):
            size = {"i32": 4, "i64": 8}[arg["kind"]]
            arg["value"] = arg["value"].to_bytes(size, "little", signed=True).hex()
            arg["kind"] = "bytes"
    assert case.quern.json(*case.words()) == expected
    assert (case.place / "c").read_bytes() == c


def test_unknown_members_are_ignored(case):
    case.plan["remark"] = {"deep": [1, 2, {"x": None}]}
    case.plan["launches"][0]["stream"] = 3
    case.quern(*case.words())
