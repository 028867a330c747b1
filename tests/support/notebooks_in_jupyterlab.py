"""Notebooks of a project that a real JupyterLab opens."""

SHOWN = "[...document.querySelectorAll('.jp-Notebook img')].filter(i => i.complete && i.naturalWidth > 0).length"
MOCK = "nginx-directives"
OLDER = "20261101T101500"
PICTURES = {
    "config_effects": 2, "run_quality": 1, "resource_traces": 1, "noise": 1, "run_study": 0,
    "compare_runs": 1, "history": 1,
}  # fmt: skip
# notebook -> the study whose smoke variant is run for it, what it starts on the hosts, and how many pictures there are
STUDIED = {
    "backend_modes": ("backend-modes", ("nginx", "wrk", "node", "go"), 2),
    "capacity": ("capacity", ("nginx", "vegeta"), 2),
    "certified_rates": ("certified-capacity", ("nginx", "vegeta"), 2),
    "factorial": ("nginx-screening", ("nginx", "wrk"), 1),
    "lb_vs_single": ("lb-vs-single", ("nginx", "wrk", "haproxy"), 2),
    "page_size_tps": ("page-size-tps", ("haproxy", "apache2", "wrk"), 2),
}
