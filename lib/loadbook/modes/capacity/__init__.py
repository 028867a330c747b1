"""Capacity under an objective: the highest rate that meets it is searched, or rates are certified.

- `spec`: objective within which capacities are searched, and the load of a probe
- `spec_problems`: mistakes in a study of capacities
- `spec_search`: search for the capacities of several arms in lockstep rounds of probes
- `replay`: searches are not played back
- `stats`: capacity of an arm in a block, from the margins of its probes
- `stats_objective`: whether a load was served within an objective, and by how much
- `stats_certified`: that at least a share of starts sustain a rate
- `rules`: rules on trials that an objective judges
- `read`: outcomes of the probes of a search, and the capacity that follows from them
- `run_probe`: one attempt at one probe
- `run`: one attempt at the searches of one block, in rounds of one probe for each treatment
- `mode`: the mode
- `page`: objective, order of searches
"""
