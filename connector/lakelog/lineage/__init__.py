"""Where rows come from: which snapshots of which tables made a snapshot."""

from lakelog.common.faces import face, names_in

__getattr__ = face(__name__, __file__)
__dir__, __all__ = names_in(__file__)
