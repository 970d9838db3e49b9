"""Small public data sets that the package ships; ``README.md`` beside them names source and terms."""
