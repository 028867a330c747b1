"""Floor 6: how is it shown? Figures, tables, sentences, notebooks, HTML."""
