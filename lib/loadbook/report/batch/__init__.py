"""A batch: many studies run and reported by one call, each entry a row of its summary page.

`works` says what is to be done and what is wrong with it, `rows` keeps what came of it, `worker` does one part in a
process of its own, `lanes` has several of them at work, `page` shows the rows.
"""
