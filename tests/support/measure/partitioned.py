"""Topologies of operators with partitions, for tests."""

from ridgeline.measure.topology import OperatorNode, StreamEdge, Topology


class Plan:
    """Operators with partitions; where several meet, unifiers stand before each partition that reads them."""

    def __init__(self):
        self.nodes, self.edges, self.containers = [], [], 0
        self.partitions = {}
        self.stages = {}

    def operator(self, name, partitions, sources, kind):
        """Add an operator: it reads from all partitions of its sources, or from those of its own number."""
        stage = 1 + max((self.stages[source] for source, _ in sources), default=-1)
        self.stages[name], self.partitions[name] = stage, []
        for partition in range(partitions):
            container, self.containers = self.containers, self.containers + 1
            entering = []
            for source, one_to_one in sources:
                feeding = self.partitions[source]
                if one_to_one and len(feeding) == partitions:
                    entering.append((feeding[partition], "out"))
                elif len(feeding) > 1:
                    unifier = self._add(
                        source, f"{source}.out#unifier[{partition}]", partition, True, container, stage
                    )
                    self.edges += [
                        StreamEdge(f"{source}-{name}", one, "out", unifier, "in") for one in feeding
                    ]
                    entering.append((unifier, "out"))
                else:
                    entering.append((feeding[0], "out"))
            number = self._add(name, f"{name}[{partition}]", partition, False, container, stage, kind)
            self.partitions[name].append(number)
            self.edges += [
                StreamEdge(f"to {name}", one, port, number, f"in{at % 2}")
                for at, (one, port) in enumerate(entering)
            ]

    def _add(self, name, title, partition, unifier, container, stage, kind="operator"):
        number = len(self.nodes) + 10
        outputs = () if kind == "output" else ("out",)
        self.nodes.append(
            OperatorNode(
                number, name, title, "C", partition, 1, unifier, kind, False, container, stage, (), outputs
            )
        )
        return number

    @property
    def topology(self):
        return Topology(tuple(self.nodes), tuple(self.edges))


def chain(*titles, stages=None):
    """A chain of operators, one container each."""
    last, shape = len(titles), ("Operator", 0, 1, False)
    nodes = [
        OperatorNode(
            number,
            title,
            title,
            *shape,
            "input" if number == 1 else "output" if number == last else "operator",
            False,
            number - 1,
            stages[number - 1] if stages else number - 1,
            ("input",) if number > 1 else (),
            ("output",) if number < last else (),
        )
        for number, title in enumerate(titles, 1)
    ]
    edges = [StreamEdge(f"s{one}", one, "output", one + 1, "input") for one in range(1, last)]
    return Topology(tuple(nodes), tuple(edges))
