"""matplotlib, where it is installed (bench/requirements.txt)."""


def load():
    """matplotlib's pyplot, drawing to files; None without matplotlib."""
    try:
        import matplotlib  # pylint: disable=import-outside-toplevel
    except ImportError:
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    return pyplot
