import os

# Ray would start a cluster of its own here for a call that is made while this process belongs to none.
os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"
# At SIGTERM Ray would write the stack to a front end's log.
os.environ.setdefault("RAY_DISABLE_FAILURE_SIGNAL_HANDLER", "1")
