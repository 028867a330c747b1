"""Building blocks of reports: figures, tables, sections, notebooks, HTML."""
