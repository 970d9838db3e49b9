"""Small public data sets that the package ships; ``README.md`` next to them names source and terms."""
