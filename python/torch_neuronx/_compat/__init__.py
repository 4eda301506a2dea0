"""Work-arounds for upstream PyTorch, one file per patched module, each with the version that removes it."""
