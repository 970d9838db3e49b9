"""Small public data sets that the package ships; ``README.md`` in this directory names their sources and terms."""
