# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What the experiments in bench/exp share; bench/bench.py drives them."""
