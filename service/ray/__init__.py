import os

# Ray would start a cluster of its own here for a call that is made while this process belongs to none.
os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"
# Where a front end is told to stop, Ray would write the stack of that to its log.
os.environ.setdefault("RAY_DISABLE_FAILURE_SIGNAL_HANDLER", "1")
