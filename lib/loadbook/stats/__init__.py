"""Statistics: paired tests, confidence intervals, equivalence, verdicts, and the sentences that state them.

Modules, each importing only those before it:

- `results`: data classes in which the other modules return results
- `paired_tests`: paired tests on logarithms, permutations, intervals by inverting a test
- `sequential`: stopping rules, the always-valid t test, number of blocks that shows a given difference
- `error_text`: sentences on errors
- `text`: sentences, words and rounding of a comparison
- `saturation`: resources used to capacity, and the bottleneck of each treatment
- `diagnostics`: drift, outliers, measurable percentiles, unstable effects
- `carry_over`: effects of a treatment on the trial, or slice, after it
- `phrases`: verdicts in words, made once in parts
- `compare`: comparison of two arms, families of comparisons, the best arm
- `unpaired`: comparison of two arms whose runs have no blocks
- `errors`: number of errors per trial, compared between treatments
- `steady_state`: transient at the start of a measurement, and trend of the rate after it
- `exclusions`: causes of trials that do not count, in plain words
- `comparability`: reasons that forbid a comparison
- `verdict`: verdicts, outcomes of A/A arm and positive control
- `power`: noise of one configuration, number of blocks and trial length that this noise requires
- `analyse`: turns the tables of a run into an `Analysis`
- `no_comparison`: first line of a report in which no treatment could be compared
- `headline`: first line of a report, the sentences below it, sentences on A/A arm and positive control
- `next_step`: what would decide a run that left something open
- `ci`: whether a build in continuous integration passes, by the policy in the study file
"""
