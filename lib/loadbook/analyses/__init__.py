"""Analyses: a folder or module ("slice") per question that a notebook answers; slices may import `effects` only.

- `effects`: which treatments change the metric, and by how much; its page is the base class of most other pages
- `balancers`: cost of a load balancer, gain from more nodes, fastest kind of connection to a backend
- `capacity`: how much load each treatment sustains within an objective
- `certified_rates`: which rates most starts of a service sustain within an objective
- `claims`: the claims of a published article, each checked against a run
- `compare_files`: which of several folders or files with outputs belongs to the faster service
- `compare_runs`: how far effects changed from one run to another
- `factorial`: the effect of every factor and of every pair of factors
- `history`: the effects of a study in all of its runs, over time
- `noise`: the smallest difference that can be detected on these hosts
- `page_size`: the page size from which on the network limits the rate
- `quality`: whether a run can be trusted
- `resources`: which hosts, cores or processes were saturated

To delete an analysis, delete its folder or module and its lines below.
"""

# function of `import loadbook as lb` that returns a page -> the module that defines it
PAGES = {
    "backends_page": "loadbook.analyses.balancers.page",
    "balancers_page": "loadbook.analyses.balancers.page",
    "capacity_page": "loadbook.analyses.capacity.page",
    "certified_rates_page": "loadbook.analyses.certified_rates.page",
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
