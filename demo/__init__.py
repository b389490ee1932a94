"""The main job of lakelog on real data: write a table, read it while it is written, kill the writer, check everything.

`scripts/demo` sets up what is needed and runs `python -m demo.main`.
"""
