"""Analyses: one folder, or one module, per question with a notebook. A slice imports no other slice but `effects`.

- `effects`: which treatments matter, and by how much; the base of other pages
- `balancers`: what a balancer costs, what more nodes bring, which way to a backend is fastest
- `claims`: the claims of an article against what a run found
- `compare_runs`: how far effects moved from one run to another
- `factorial`: what every factor and every pair of factors does
- `history`: a study through all of its runs
- `noise`: how small a difference these hosts can show
- `page_size`: from which page size on the network is the limit
- `quality`: whether a run can be trusted
- `resources`: which host, core or process was full

To delete an analysis, delete its folder or module and its lines below.
"""

# verbs of `import loadbook as lb` that return a page -> the module that defines them
PAGES = {
    "backends_page": "loadbook.analyses.balancers.page",
    "balancers_page": "loadbook.analyses.balancers.page",
    "compare_runs_page": "loadbook.analyses.compare_runs.page",
    "effects_page": "loadbook.analyses.effects.page",
    "factorial_page": "loadbook.analyses.factorial.page",
    "history_page": "loadbook.analyses.history.page",
    "noise_page": "loadbook.analyses.noise",
    "page_size_page": "loadbook.analyses.page_size.page",
    "quality_page": "loadbook.analyses.quality",
    "resources_page": "loadbook.analyses.resources",
}

# sections that an analysis adds to the effects page -> the module whose `section(page)` returns the block
SECTIONS = {"published": "loadbook.analyses.claims.page"}
