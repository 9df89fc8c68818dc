"""Work that a server did for its clients, over time. Work counts when a client sees it: a prompt with the first
piece of its answer, each token with its piece."""
import bisect
import itertools


class Trail:
    """Work done for some records, in units of input * prompt tokens + output * output tokens."""

    def __init__(self, records, input_weight, output_weight, offset=0):
        points, waits = [], []
        for r in records:
            if r.ttft is None or not r.ok:
                continue
            at = offset + r.due + r.ttft
            waits.append((offset + r.due, at))
            piece = r.output_tokens * output_weight / (1 + len(r.gaps))
            points.append((at, r.prefilled * input_weight + piece))
            for gap in r.gaps:
                at += gap
                points.append((at, piece))
        points.sort()
        self.points = points
        self.times = [at for at, _ in points]
        self.sums = [0.0, *itertools.accumulate(work for _, work in points)]
        self.waits = []
        for begin, end in sorted(waits):  # Joined where they overlap.
            if self.waits and begin <= self.waits[-1][1]:
                self.waits[-1] = (self.waits[-1][0], max(end, self.waits[-1][1]))
            else:
                self.waits.append((begin, end))

    def between(self, begin, end):
        """Work done in (begin, end]."""
        return self.sums[bisect.bisect_right(self.times, end)] - self.sums[bisect.bisect_right(self.times, begin)]

    def waited_through(self, begin, end):
        """Whether some request waited for its first token at all times of the interval."""
        return any(a <= begin and end <= b for a, b in self.waits)


def steady_rate(records, input_weight, output_weight):
    """Work per second of a closed loop, from the time when it is full to the last sending."""
    trail = Trail(records, input_weight, output_weight)
    begin, end = 0.0, max(r.due for r in records)
    if trail.between(end / 10, end) > 0:
        begin = end / 10
    else:
        end = max(r.end for r in records)
    return trail.between(begin, end) / (end - begin) if end > begin else 0.0


def service_gap(records, clients, half, input_weight, output_weight):
    """(windows, the largest difference of work between two clients that both wait throughout a window of `half`
    seconds before and after each second). `clients`: of each record."""
    trails = [Trail([r for r, c in zip(records, clients) if c == client], input_weight, output_weight)
              for client in range(max(clients) + 1)]
    last = max(r.end for r in records)
    windows, largest, t = 0, 0.0, half
    while t + half <= last:
        got = [trail.between(t - half, t + half) for trail in trails if trail.waited_through(t - half, t + half)]
        if len(got) > 1:
            windows += 1
            largest = max(largest, max(got) - min(got))
        t += 1
    return windows, largest


def fair_share(demands, capacity):
    """The level of a max-min fair division of `capacity`: a demand up to it is met in full."""
    ordered = sorted(demands)
    for i, demand in enumerate(ordered):
        level = capacity / (len(ordered) - i)
        if demand > level:
            return level
        capacity -= demand
    return ordered[-1] if ordered else 0
