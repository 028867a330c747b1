"""Make the inputs of `freeze.py`: projects on disk, built once with the test helpers of one tree.

    python scripts/freeze_inputs.py TREE DIR [--lab]

This is the only part of the freeze that imports internals of loadbook and its tests: it was written for commit
1760c91 and runs on that commit only. The result is plain files, in the format that every version must read:

- DIR/fixtures: tests/fixtures of TREE, byte for byte (captures, by-hand results, recorded run, trace files).
- DIR/example: data/example of TREE.
- DIR/projects/NAME: one project per case (studies/, data/raw, data/processed, no notebooks), with a file freeze.json
  that lists the pages to render: [{"notebook": NAME, "parameters": {...}}, ...].
- DIR/studies, DIR/hosts, DIR/batches: study files, hosts files and batch files, most of them with mistakes.

`--lab` also starts a loopback lab (sshd, httperf) and records runs against servers that misbehave.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

parser = argparse.ArgumentParser()
parser.add_argument("tree", type=Path)
parser.add_argument("out", type=Path)
parser.add_argument("--lab", action="store_true")
OPTIONS = parser.parse_args()
TREE, OUT = OPTIONS.tree.resolve(), OPTIONS.out.resolve()
for _folder in ("design", "tools", "reference", "trials", "stats", "report", "."):
    sys.path.insert(0, str(TREE / "tests" / _folder))
sys.path.insert(0, str(TREE / "lib"))
os.chdir(TREE)

import manyruns  # noqa: E402
import mockdata  # noqa: E402
import pandas as pd  # noqa: E402
from loadbook.design.plan import make_plan  # noqa: E402
from loadbook.design.study import Study  # noqa: E402
from loadbook.design.study_file import find_study  # noqa: E402
from loadbook.records import manifest  # noqa: E402
from loadbook.records.layout import Layout  # noqa: E402
from loadbook.records.rundata import load_run  # noqa: E402
from loadbook.records.schema import TABLES, write_table  # noqa: E402
from mockproject import (  # noqa: E402
    PUBLISHED,
    RUN,
    STARTED,
    Arm,
    _publish,
    make_project,
    usual_arms,
)

import hostile  # noqa: E402
import pagesizes  # noqa: E402
import recorded  # noqa: E402
from loadbook.core.metrics import metric as metric_of  # noqa: E402

EFFECTS, QUALITY, RESOURCES = ("config_effects", "run_quality", "resource_traces")


class Project:
    """A project folder under construction; `pages` is what freeze.py renders of it."""

    def __init__(self, name: str) -> None:
        self.root = OUT / "projects" / name
        self.root.mkdir(parents=True)
        self.pages: list[dict[str, Any]] = []

    def page(self, notebook: str, **parameters: Any) -> None:
        self.pages.append({"notebook": notebook, "parameters": parameters})

    def close(self) -> None:
        shutil.rmtree(self.root / "notebooks", ignore_errors=True)
        (self.root / "studies").mkdir(exist_ok=True)
        (self.root / "freeze.json").write_text(json.dumps(self.pages, indent=1) + "\n")
        for path in self.root.glob("data/processed/*/*/*.parquet"):  # as if made of what is recorded now
            os.utime(path)


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows with None in place of NaN."""
    return [{k: None if isinstance(v, float) and v != v else v for k, v in row.items()}
            for row in frame.to_dict("records")]  # fmt: skip


def write_frames(layout: Layout, study: str, frames: Mapping[str, pd.DataFrame], factors: tuple[str, ...] = ()) -> None:
    """Write tables of a run; columns that are missing get a plain value."""
    (run,) = layout.runs(study)
    plain: dict[str, dict[str, Any]] = {
        "trials": {"attempt": 1, "duration_s": 7.0, "tool_version": "4.1.0", "response_sha256": "c" * 64,
                   "config_live": True, "status": "ok", "reason": None},
        "measurements": {"driver": "*", "text": None},
        "traces": {"source": "sampler"},
        "samples": {},
        "problems": {"host": None, "file": None, "line": None},
    }  # fmt: skip
    for name, frame in frames.items():
        rows = [plain[name] | {"study": study, "run": run} | row for row in rows_of(frame)]
        for row in rows:
            row |= {"study": study, "run": run}
            if name == "trials":
                row.setdefault("started", STARTED + 45.0 * row["slot"])
            if name == "measurements":
                row.setdefault("unit", metric_of(row["metric"]).unit)
        write_table(layout.run(study, run).table(name), name, rows, factors if name == "trials" else ())


def write_run(root: Path, study: Study, hosts: Mapping[str, Any], frames: Mapping[str, pd.DataFrame]) -> Layout:
    """Write a run of invented tables as files."""
    layout, plan = Layout(root), make_plan(study)
    paths = layout.run(study.name, RUN)
    manifest.write_json(paths.plan, plan.to_json())
    manifest.write_json(paths.run_json, {
        "study": study.name, "run": RUN, "subset": plan.subset, "schema_version": 1, "started": STARTED,
        "ended": STARTED + 5160, "loadbook_version": "0.1.0", "git_revision": "1a2b3c4d5e6f", "git_dirty": False,
        "study_sha256": "ab" * 32, "seed": plan.seed, "blocks": plan.blocks, "hosts": dict(hosts),
        "tool_versions": {}, "service_versions": {}, "lab": False, "resumed": 0,
    })  # fmt: skip
    paths.facts.mkdir(parents=True, exist_ok=True)
    for planned in plan.trials[:2]:
        _publish(paths, study, planned, RUN)
    whole = {name: pd.DataFrame() for name in TABLES} | {k: v for k, v in frames.items() if v is not None}
    trials = whole["trials"].copy()
    for factor in study.factors:
        trials[f"factor_{factor}"] = [str(study.levels_of(t)[factor]).lower() for t in trials["treatment"]]
    write_frames(layout, study.name, whole | {"trials": trials}, tuple(study.factors))
    return layout


def edit(path: Path, **changes: Any) -> None:
    """Change keys of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes, indent=1))


def arms_of(case: str) -> dict[str, Arm]:
    """Return the arms of a case of mockdata as those of mockproject."""
    made: dict[str, Arm] = {}
    for number, arm in enumerate(mockdata._arms(case)):
        errors = sum(count for _, count in arm.errors.values())
        aa = arm.kind == "aa"
        own = {} if aa or not made else {f"f{number}": True}
        made[arm.key] = Arm(
            arm.effect, own, arm.label, arm.kind if arm.kind in ("aa", "control") else None,
            "worse" if arm.kind == "control" else None, arm.expected, arm.scatter, errors, 0.2 if errors else 0.0,
            arm.invalid,
        )  # fmt: skip
    return made


def hostile_arms() -> tuple[dict[str, Arm], dict[str, Any]]:
    """Return arms and study keys whose every text is hostile (as tests/report/test_hostile_report.py has them)."""
    texts = [text.replace("\ud800", "?") for text in hostile.CORPUS]
    labels = [" ".join(texts[k::4]) for k in range(4)]
    arms = {"baseline": Arm(label=labels[0])}
    arms |= {f"arm-{k}": Arm(0.01 * k, {f"f{k}": True}, labels[k], errors=k, error_share=0.3) for k in (1, 2, 3)}
    arms["gone"] = Arm(0.0, {"gone": True}, texts[5], invalid=" ".join(texts))
    claims = [{"claim": text, "treatment": "arm-1", "against": "baseline", "value": 2.0, "against_value": 1.0}
              for text in labels[:4]]  # fmt: skip
    more = {"question": hostile.HTML[1][:90], "doubt": " ".join(texts), "background": " ".join(texts),
            "published": {"source": " ".join(texts), "claims": claims}}  # fmt: skip
    return arms, more


def mock_projects() -> Iterator[Project]:
    """Projects of tests/report/mockproject.py: every verdict, the hard cases of mockdata, hostile texts."""
    p = Project("mock-usual")
    make_project(p.root, traces=True)
    for notebook in (EFFECTS, QUALITY, RESOURCES):
        p.page(notebook, study="nginx-directives")
    p.page(EFFECTS, study="nginx-directives", metric="latency", level=0.99, baseline="tcp-nopush")
    p.page("run_study", study="nginx-directives")
    yield p
    p = Project("mock-bare")
    make_project(p.root, name="bare", traces=False, doubt=None)
    p.page(EFFECTS, study="bare")
    p.page(RESOURCES, study="bare")
    yield p
    for case in mockdata.CASES:
        if case in ("plain", "no_monitor", "many_excluded", "zero_errors"):
            continue
        p = Project(f"mock-{case.replace('_', '-')}")
        make_project(p.root, arms_of(case), name="mock", blocks=5 if case == "five_blocks" else 10, traces=False,
                     published=None)  # fmt: skip
        p.page(EFFECTS, study="mock", **({"metric": "latency"} if case == "latency" else {}))
        yield p
    p = Project("hostile")
    arms, more = hostile_arms()
    layout = make_project(p.root, arms, name="hostile", blocks=6, **more)
    paths, text = layout.run("hostile", RUN), " ".join(t.replace("\ud800", "?") for t in hostile.CORPUS)
    edit(paths.run_json, tool_versions={"driver-1": text}, service_versions={"web-1": text})
    for path in paths.facts.glob("*.json"):
        path.write_text(path.read_text().replace("6.1.0-31-amd64", json.dumps(text)[1:-1]))
    for notebook in (EFFECTS, QUALITY, RESOURCES):
        p.page(notebook, study="hostile")
    yield p


def stopping_projects() -> Iterator[Project]:
    """Stopping rules, one-sided questions, contrasts, gates, claims, diagnostics."""
    looks = {"stopping": {"rule": "looks", "looks": [5, 10]}, "blocks": 10}
    for name, more in {
        "stop-looks": looks,
        "stop-between": looks,
        "stop-always-valid": {"stopping": {"rule": "always-valid"}},
        "stop-added": {},
        "ask-no-loss": {"asks": "no-loss", "margin": 0.02},
        "contrast-adjacent": {"contrasts": "adjacent"},
        "contrast-best": {"contrasts": "best"},
    }.items():
        p = Project(name)
        layout = make_project(p.root, name="mock", traces=False, **more)
        if name == "stop-added":
            edit(layout.run("mock", RUN).plan, added=4)
        if name in ("stop-between", "stop-always-valid"):
            data = load_run(layout, "mock")
            keep = data.trials[data.trials["block"] <= (8 if name == "stop-between" else 9)]
            write_frames(layout, "mock", {"trials": keep}, tuple(data.study.factors))
        p.page(EFFECTS, study="mock")
        yield p
    arms = {
        "baseline": Arm(label="baseline"), "aa": Arm(check="aa", label="baseline, again"),
        "fast": Arm(0.06, {"a": True}, "a on"), "slow": Arm(-0.05, {"b": True}, "b on"),
        "odd": Arm(0.0, {"c": True}, "c on", invalid="answers 24 bytes where the baseline answers 4"),
    }  # fmt: skip
    for name, own, gate in (
        ("gate-pass", {k: arms[k] for k in ("baseline", "aa", "fast")}, {"undecided": "fail"}),
        ("gate-fail", arms, {"undecided": "fail", "only": ["fast", "slow"]}),
        ("gate-none", arms, {"undecided": "fail"}),
        ("gate-metrics", arms, {"undecided": "pass", "min_effect": -0.02, "metrics": {"latency p99": {}}}),
    ):
        p = Project(name)
        make_project(p.root, own, name="mock", traces=False, gate=gate)
        p.page(EFFECTS if name == "gate-fail" else "run_study", study="mock")
        yield p
    import test_claims_command as claims

    p = Project("claims")
    published = PUBLISHED | {"claims": [claims.BETTER, claims.SOON]}
    make_project(p.root, claims.ARMS, name="mock", published=published,
                 subsets={"default": ["baseline", "tcp-nopush"]})  # fmt: skip
    (p.root / "studies/mock.toml").write_text(
        claims.STUDY.format(source=PUBLISHED["source"], first=claims.BETTER["claim"], connections=100)
    )
    p.page(EFFECTS, study="mock")
    yield p
    four = {"baseline": Arm(), "x": Arm(0.05, label="x on"), "again": Arm(check="aa"), "y": Arm()}
    for name in ("carry-over", "far-trial"):
        p = Project(name)
        layout = make_project(p.root, four, name="mock")
        data = load_run(layout, "mock")
        trials = data.trials.sort_values("slot")
        before = dict(zip(trials["slot"] + 1, trials["treatment"], strict=True))
        far = trials.loc[trials["valid"] & (trials["treatment"] == "y"), "trial"].iloc[3]
        factors = {
            t.trial: (0.93 if before.get(t.slot) == "x" else 1.0) if name == "carry-over" else 1.3 if t.trial == far else 1.0
            for t in trials.itertuples()
        }  # fmt: skip
        rates = data.measurements["metric"].isin(["ok_per_s", "requests_per_s"])
        value = data.measurements["value"] * data.measurements["trial"].map(factors).where(rates, 1.0)
        write_frames(layout, "mock", {"measurements": data.measurements.assign(value=value)})
        p.page(QUALITY if name == "far-trial" else EFFECTS, study="mock")
        yield p


def kind_projects() -> Iterator[Project]:
    """The pages with a notebook of their own: balancers, backends, noise, factorials, page sizes."""
    import test_backends_page as backends
    import test_balancers_page as balancers
    import test_factorial_page as factorial_page
    import test_page_size as page_size

    for name, shares, prices in (
        ("balancers", balancers.EVEN, balancers.PRICES | {"external": {"balancer": 1000}}),
        ("balancers-silent", balancers.EVEN | {"four": [0.5, 0.5, 0.0, 0.0]}, balancers.PRICES),
        ("balancers-uncounted", {}, None),
    ):
        p = Project(name)
        layout = make_project(p.root, balancers.arms(), name="lb", traces=False, **balancers.SPEC)
        data = load_run(layout, "lb")
        traces = balancers.counters(data, shares)
        write_frames(layout, "lb", {"traces": traces.assign(source="service")} if len(traces) else {})
        edit(layout.run("lb", RUN).run_json, hosts=balancers.HOSTS, prices=prices)
        p.page("lb_vs_single", study="lb")
        yield p
    study = find_study(TREE / "studies", "backend-modes")
    for name, truth in (
        ("backends", backends.TRUTH),
        ("backends-tied", backends.TRUTH | {"remote-pooled": -0.8, "remote-fastcgi": -0.8, "near-proxy-again": 0.5}),
    ):
        p = Project(name)
        arms = {treatment: Arm(truth[treatment]) for treatment in study.treatments}
        more = study.model_dump(by_alias=True) | {"blocks": 10}
        layout = make_project(p.root, arms, traces=False, doubt=None, **more)
        traces = backends.counters(load_run(layout, "backend-modes"))
        write_frames(layout, "backend-modes", {"traces": traces.assign(source="service")})
        p.page("backend_modes", study="backend-modes")
        yield p
    for name, again, blocks, more_arms in (
        ("noise", 0.0, 15, {}), ("noise-broken", 0.2, 12, {}), ("noise-short", 0.0, 6, {"one": Arm(0.06)}),
    ):  # fmt: skip
        p = Project(name)
        arms = {"baseline": Arm(), "aa": Arm(again, check="aa", label="again"), **more_arms}
        make_project(p.root, arms, name="noise", question="How small?", blocks=blocks, traces=False)
        p.page("noise", study="noise")
        yield p
    hosts = {"driver-1": {"roles": ["driver"], "cpus": [1]}, "web-1": {"roles": ["web"], "cpus": [0]}}
    for case in factorial_page.CASES:
        run = factorial_page.run_of(case)
        p = Project(f"factorial-{case}")
        empty = pd.DataFrame()
        write_run(p.root, run.study, hosts,
                  {"trials": run.trials, "measurements": run.measurements, "traces": empty})  # fmt: skip
        p.page("factorial", study=run.study.name)
        yield p
    for case in page_size.CASES:
        balancers_ = ("small", "medium", "large") if case == "three balancers" else ("small", "large")
        single = case in ("one curve", "unwatched")
        study = pagesizes.sized_study(page_size.FIVE, ("large",) if single else balancers_,
                                      (2,) if single else (2, 4), blocks=3 if case == "few blocks" else 6)  # fmt: skip
        sized = pagesizes.sized_run(study, sd=0.5 if case == "scattered" else 0.02, watched=case == "two tiers")
        if case == "invalid":
            sized.trials["valid"] = False
        p = Project(f"sizes-{case.replace(' ', '-')}")
        write_run(p.root, study, pagesizes.HOSTS,
                  {"trials": sized.trials, "measurements": sized.measurements, "traces": sized.traces})  # fmt: skip
        p.page("page_size_tps", study=study.name)
        yield p


def history_projects() -> Iterator[Project]:
    """Many runs of one study, and pairs of runs to compare."""
    p = Project("history")
    for night in range(10):
        change = manyruns.kernel if night >= 6 else None
        manyruns.add(p.root, manyruns.BEGIN + night * manyruns.DAY, 0.03 if night < 6 else -0.02, change=change)
    for at, change in ((10, manyruns.margin), (11, manyruns.replay), (12, manyruns.imported)):
        manyruns.add(p.root, manyruns.BEGIN + at * manyruns.DAY, -0.02, change=change)
    manyruns.add(p.root, manyruns.BEGIN + 13 * manyruns.DAY, 0.03, machine="two")
    manyruns.add(p.root, manyruns.BEGIN + 14 * manyruns.DAY, 0.03, ended=False)
    p.page("history", study=manyruns.STUDY)
    p.page("history", study=manyruns.STUDY, by_name=True, rate=0.05)
    p.page("compare_runs", study=manyruns.STUDY)
    yield p
    import test_compare_runs_page as pairs

    p = Project("compare-upgraded")
    layout = pairs.pair(p.root, usual_arms(), pairs.upgraded_arms())
    pairs.told_otherwise(layout, lambda record: record["service_versions"].update({"web-1": "nginx 1.24.0"}))
    pairs.with_fact(layout, "kernel", "6.8.0-1")
    p.page("compare_runs", study=pairs.STUDY)
    yield p
    for case, make in pairs.CASES.items() if hasattr(pairs, "CASES") else ():
        p = Project(f"compare-{case}")
        make(p.root)
        p.page("compare_runs", study=pairs.STUDY)
        yield p


def recorded_projects() -> Iterator[Project]:
    """The recorded run and the recorded example, raw only: freeze.py ingests them."""
    for name in ("recorded", "replay"):
        p = Project(name)
        (p.root / "studies").mkdir()
        for file in ("nginx-directives.toml", "recorded.toml"):
            shutil.copy(recorded.STUDIES / file, p.root / "studies" / file)
        if name == "recorded":
            shutil.copytree(recorded.FIXTURE, p.root / "data/raw/recorded")
            for notebook in (EFFECTS, QUALITY, RESOURCES, "run_study", "noise"):
                p.page(notebook, study="recorded")
        else:
            shutil.copytree(recorded.FIXTURE, p.root / "recording")
        yield p
    p = Project("example")
    (p.root / "studies").mkdir()
    shutil.copytree(TREE / "data/example", p.root / "data/example")
    for notebook in (EFFECTS, QUALITY, RESOURCES, "explore"):
        p.page(notebook, study="example")
    yield p


# what each run of a rude server is: load, then options of tests/trials/rude.py
RUDE_WRK, RUDE_HTTPERF = 'tool = "wrk"\nconnections = 10\n', 'tool = "httperf"\nmodel = "open"\nrate_per_s = 50\n'
RUDE = {
    mood: (RUDE_HTTPERF + 'headers = { X-Load = "1" }', {"role": f'vars = {{ mood = "{mood}" }}'})
    for mood in ("errors", "truncated", "reset", "longer")
} | {
    "own-errors": (RUDE_WRK + 'headers = { X-Load = "1" }', {"service": "nginx", "role": 'config = "own.conf"'}),
}


def rude_projects() -> Iterator[Project]:
    """Runs in a loopback lab against servers that misbehave, raw only."""
    import tempfile

    from rude import Rig, home_for_fakes

    from labs import own_lab

    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        with home_for_fakes(where / "fakes") as bin_, own_lab() as lab:
            for name, (load, options) in RUDE.items():
                rig = Rig(lab, bin_, recorded.with_studies(where / name))
                print("rude", name, rig.run(load, blocks=2, **options).ends, file=sys.stderr)
            rig = Rig(lab, bin_, recorded.with_studies(where / "fake"))
            rig.fake("wrk", 'head -c 300 /dev/zero | tr "\\0" x\nexit 0')
            print("rude fake", rig.run(RUDE_WRK, blocks=2).ends, file=sys.stderr)
        for name in (*RUDE, "fake"):
            p = Project(f"rude-{name}")
            (p.root / "studies").mkdir()
            raw = where / name / "data/raw"
            recorded_folder = next(raw.glob("rude/*"))
            import record_run

            record_run.rename_folder(recorded_folder, Path(lab.folder).parent)
            shutil.copytree(raw, p.root / "data/raw")
            p.page(QUALITY, study="rude")
            yield p


# text that is put over the small study of tests/reference/refused.py, with the mistakes that tests name elsewhere
MORE_REFUSED = (
    '[roles.web]\nservice = "ngnix"', '[workload]\ntool = "siege"', 'basline = "one"', "blocks = 0", "schema = 2",
    'include = "none.toml"', '[gates]\ndriver_cpu = 3', "[gates]\nnosuch = 1", '[gate]\nundecided = "maybe"',
    '[gate]\nundecided = "fail"\nfail_on = ["worse"]', '[gate]\nundecided = "fail"\nmin_effect = -2.0',
    '[treatments.two]\nset = { sendfle = "off" }', '[roles.web]\nvars = { sendfile = 5 }', 'question = ""',
    '[factorial]\nfactors = ["sendfile"]', '[grid]\nfactors = ["sendfile"]', 'contrasts = "worst"',
    "[monitors]\ninterval_s = -1", '[metrics]\nprimary = "speed"', '[subsets]\nfew = ["nosuch"]',
    '[reset]\nmax_time_wait = "many"', '[published]\nsource = "x"\nclaims = [{ claim = "x" }]', 'apart = "nosuch"',
)  # fmt: skip
HOSTS = {
    "mistakes": '[hosts.a]\nroles = "driver"\nprt = 22\n[hosts.b]\nroles = ["web"]\nport = 99999\n[host.x]\n',
    "may": '[hosts.a]\nroles = ["web"]\nmay = ["reboot"]\nprice_per_month = 0\nlink_mbit = -1\n',
    "secrets": '[hosts.web]\nroles = ["web"]\n'
    + "".join(f'{key} = "hunter2"\n' for key in ("password", "passphrase", "token", "key", "sudo_password", "env")),
    "command": '[hosts.web]\nroles = ["web"]\nssh = "$(touch PWN)"\n',
    "toml": "[hosts.web\n",
    "empty": "",
    "bytes": "\x00\x01",
    "long-alias": f'[hosts.{"x" * 64}]\nroles = ["web"]\n',
    "no-driver": '[hosts.web]\nroles = ["web"]\n',
    "fine": 'currency = "EUR"\n[hosts.load1]\nroles = ["driver"]\nuser = "me"\nhost_name = "192.0.2.1"\n'
    '[hosts.web1]\nroles = ["web"]\naddress = "192.0.2.21"\nhost_name = "192.0.2.2"\nmay = ["sysctl", "tc"]\n'
    "price_per_month = 8.5\nlink_mbit = 1000\ncpus = [0, 1]\n",
    "balanced": '[hosts.load1]\nroles = ["driver"]\nhost_name = "192.0.2.1"\n[hosts.lb]\nroles = ["balancer"]\n'
    'host_name = "192.0.2.9"\n'
    + "".join(f'[hosts.web{k}]\nroles = ["web", "app"]\nhost_name = "192.0.2.{k}0"\n' for k in (1, 2, 3, 4)),
}
BATCHES = {
    "fine": 'hosts = "../hosts/fine.toml"\n[parameters]\nlevel = 0.95\n[[entry]]\nstudy = "aa"\n'
    '[[entry]]\nstudy = ["nginx-directives-smoke", "tool-agreement-smoke"]\nparameters.metric = ["ok_per_s", "latency"]\n',
    "mistakes": 'host = "x"\n[[entry]]\nstudy = "nosuch"\nblocks = 0\n[[entry]]\nstudies = 3\n',
    "empty": "",
    "toml": "[[entry\n",
    "parameters": '[[entry]]\nstudy = "aa"\nparameters.nosuch = 1\n',
}


def files() -> None:
    """Write study, hosts and batch files, most of them with mistakes."""
    import test_hostile_study
    from refused import BASE, REFUSED, _key, _over, _value

    studies = OUT / "studies"
    studies.mkdir()
    import tomllib

    (studies / "small.toml").write_text(BASE)
    for number, over in enumerate((*REFUSED, *MORE_REFUSED)):
        raw = _over(tomllib.loads(BASE), tomllib.loads(over))
        body = "".join(f"{_key(k)} = {_value(v)}\n" for k, v in raw.items())
        (studies / f"refused-{number:02}.toml").write_text("".join(f"# {x}\n" for x in over.splitlines()) + body)
    texts = [text for text in hostile.WRITABLE if text not in test_hostile_study.PLAIN]
    for kind, make in test_hostile_study.REFUSED.items():
        for number, text in enumerate(texts):
            folder = studies / "hostile" / kind.replace(" ", "-").replace("'", "") / f"{number:02}"
            folder.mkdir(parents=True)
            test_hostile_study.write(folder, make(text))
    for name, known in (("hosts", HOSTS), ("batches", BATCHES)):
        (OUT / name).mkdir()
        for key, text in known.items():
            (OUT / name / f"{key}.toml").write_text(text)
    names = ("roles", "ssh", "address", "host_name", "user", "workdir")
    for field in names:
        for number, text in enumerate(t for t in hostile.WRITABLE[::4]):
            value = test_hostile_study.toml([text] if field == "roles" else text)
            own = "" if field == "roles" else 'roles = ["web"]\n'
            folder = OUT / "hosts" / "hostile"
            folder.mkdir(exist_ok=True)
            (folder / f"{field}-{number:02}.toml").write_text(f"[hosts.web]\n{own}{field} = {value}\n")


def import_files() -> None:
    """Write the files of conditions that tests/trials/test_import_refused.py refuses."""
    import test_import_refused as refused

    folder = OUT / "imports"
    folder.mkdir()
    shutil.copytree(OUT / "fixtures/by-hand", folder / "by-hand")
    marks = {f.__name__: f.pytestmark[0].args[1] for f in (refused.test_one_bad_cell, refused.test_one_bad_file)}
    for number, (cells, _) in enumerate(marks["test_one_bad_cell"]):
        refused.changed(folder / "by-hand", 1, **cells)
        (folder / "by-hand/conditions.csv").rename(folder / f"cell-{number:02}.csv")
        shutil.copy(OUT / "fixtures/by-hand/conditions.csv", folder / "by-hand")
    for number, (data, _) in enumerate(marks["test_one_bad_file"]):
        (folder / f"file-{number:02}.csv").write_bytes(data)
    shutil.rmtree(folder / "by-hand")


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    shutil.copytree(TREE / "tests/fixtures", OUT / "fixtures")
    shutil.copytree(TREE / "data/example", OUT / "example")
    makers = [recorded_projects, mock_projects, stopping_projects, kind_projects, history_projects]
    for maker in [*makers, *([rude_projects] if OPTIONS.lab else [])]:
        for project in maker():
            project.close()
            print(project.root.name, len(project.pages), file=sys.stderr)
    files()
    import_files()


if __name__ == "__main__":
    main()
