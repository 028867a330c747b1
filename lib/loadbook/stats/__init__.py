"""Statistics: paired tests, intervals, equivalence, verdicts and their sentences.

Modules, each importing only those before it:

- `results`: the values that statistics return
- `paired_tests`: paired tests on logs, permutations, intervals by inverting a test
- `sequential`: stopping rules, the always-valid t, blocks needed for a difference
- `text`: sentences and rounding of a comparison
- `saturation`: full resources and the bottleneck of each treatment
- `diagnostics`: carry-over, drift, outliers, measurable percentiles, unstable effects
- `compare`: comparison of two arms, families of comparisons, the best arm
- `errors`: errors per trial
- `steady_state`: warm-up and change of the rate within trials
- `verdict`: verdicts, reasons against a comparison, states of A/A arm and positive control
- `power`: noise of one configuration, blocks and trial length that it asks for
- `analyse`: tables of a run to its `Analysis`
- `headline`: first line of a report, the sentences below it and on harness checks
- `ci`: outcome of a build by the study's CI policy
"""
