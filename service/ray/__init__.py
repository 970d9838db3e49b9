import os

# Ray would start a cluster of its own here for a call that is made while this process belongs to none.
os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"
