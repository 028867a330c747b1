"""Floor 7: how is it done? A study's plan, trial by trial, into data/raw; and data/raw into tables.

The way through, each module importing only those before it::

    studies    a study by name, accepted by its services       choose     resume or new: which run is meant
    testbed      hosts opened, drivers, placements, target            connect    hosts file or lab -> testbed
    preflight  all that is wrong before the first trial        session    one sitting: leftovers, checks, run.json
    reset, load, watch, evidence -> trial (one attempt)        names, attempts -> execute (the loop, the ledger)
    api        run_study, the door                             progress   what a run tells while it runs
    totals, trial_rows -> ingest, the other door                     scatter    noise of a finished run, for the plan

Results from elsewhere: outputs (what one execution left) -> imported_csv, imported_files, imported_reports,
imported_study, imported_run -> imported, the door, which makes what `ingest` reads.

`execute` and `ingest` never import each other: they meet in files.
"""
