# A thin door to packaging/bootstrap.py, which works without make too.
#   make setup | make run ARGS="--profile DIR" | make test ARGS="-k tree"
#   make soak: 2 000 steps through the real window | make screenshots: the pictures in docs/

# Any Python that starts; the script itself looks for the right one.
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11 python; do \
	$$name -c "" 2>/dev/null && echo $$name && break; done)
BOOTSTRAP = $(or $(PYTHON),$(error Medusa Chat needs Python 3.11, 3.12 or 3.13; install python3 and python3-venv)) \
	packaging/bootstrap.py
ARGS ?=

.PHONY: setup run test soak screenshots
setup run test soak screenshots:
	@$(BOOTSTRAP) $@ $(ARGS)
