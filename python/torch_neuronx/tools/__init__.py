"""Command-line tools: ``python -m torch_neuronx.tools.doctor``."""
