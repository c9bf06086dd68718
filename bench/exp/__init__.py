# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The experiments, one file each. A file has TITLE, ABOUT (how it is run, for the report), PACKAGES (of
the distribution), PARTS (name: function of the bench, returning figures that go into a JSON file) and
report(page, parts), which writes its section from whatever parts have been run."""
