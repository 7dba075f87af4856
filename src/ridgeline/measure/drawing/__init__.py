"""Pictures as SVG, without any library: a DAG, lines, bars."""
